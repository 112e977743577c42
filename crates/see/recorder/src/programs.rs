//! The functions of BPF programs: their addresses in the kernel's memory, and their names. The kernel's BPF
//! interface also has their lengths, unlike `/proc/kallsyms`, and a query costs little.

use std::sync::Arc;

use libbpf_rs::btf::{Btf, TypeId, types::Func};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};

/// The least time between two queries of the kernel for the functions, ns.
const AGE_MIN_NS: u64 = 500_000_000;

/// A function of a BPF program: its addresses and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Function {
    start: u64,
    end: u64,
    name: Arc<str>,
}

/// The functions of all BPF programs that the user has the right to see.
#[derive(Default)]
pub(crate) struct Programs {
    /// The functions, in order of address.
    functions: Vec<Function>,
    asked_ns: Option<u64>,
}

impl Programs {
    /// The name of the function that is at an address now. If no known function is there, the kernel is asked
    /// for all functions again.
    pub(crate) fn name(&mut self, address: u64, now_ns: u64) -> Option<Arc<str>> {
        let is_old = self.asked_ns.is_none_or(|asked_ns| now_ns > asked_ns + AGE_MIN_NS);
        if is_old && self.at(address).is_none() {
            self.functions = loaded();
            self.asked_ns = Some(now_ns);
        }
        self.at(address).map(|function| Arc::clone(&function.name))
    }

    fn at(&self, address: u64) -> Option<&Function> {
        let after = self.functions.partition_point(|function| function.start <= address);
        self.functions.get(after.checked_sub(1)?).filter(|function| address < function.end)
    }

    /// Whether any function is known. A user without the right to query them finds none.
    pub(crate) fn is_any_known(&self) -> bool {
        !self.functions.is_empty()
    }
}

fn loaded() -> Vec<Function> {
    let wanted = ProgInfoQueryOptions::default()
        .include_jited_ksyms(true)
        .include_jited_func_lens(true)
        .include_func_info(true)
        .include_prog_tags(true);
    let mut functions: Vec<Function> =
        ProgInfoIter::with_query_opts(wanted).flat_map(|program| functions_of(&program)).collect();
    functions.sort_by_key(|function| function.start);
    functions
}

/// A program's functions, by the names that `/proc/kallsyms` has for them.
fn functions_of(program: &ProgramInfo) -> Vec<Function> {
    let types = Btf::from_prog_id(program.id).ok();
    let places = program.jited_ksyms.iter().zip(&program.jited_func_lens).enumerate();
    places
        .map(|(nth, (&start, &length))| {
            let info = program.func_info.get(nth);
            let whole: Option<Func<'_>> =
                info.and_then(|info| types.as_ref()?.type_by_id(TypeId::from(info.type_id)));
            let whole = whole.and_then(|function| Some(function.name()?.to_string_lossy().into_owned()));
            let name = whole.unwrap_or_else(|| program.name.to_string_lossy().into_owned());
            let tag = program.prog_tags.get(nth).unwrap_or(&program.tag);
            let tag: String = tag.0.iter().map(|byte| format!("{byte:02x}")).collect();
            let start = start as u64;
            Function { start, end: start + u64::from(length), name: format!("bpf_prog_{tag}_{name}").into() }
        })
        .collect()
}
