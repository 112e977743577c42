//! What the running kernel offers: tracepoints, handlers' addresses, tick rate and phase, preemption.

use std::fs;

use libbpf_rs::btf::types::{Composite, DataSec, FuncProto, MemberAttr, Typedef, Var};
use libbpf_rs::btf::{Btf, BtfType};

use crate::error::{Error, Result};

/// What BTF and `/proc` tell.
pub(crate) struct Kernel {
    btf: Btf<'static>,
    symbols: Vec<(u64, String)>,
}

impl Kernel {
    pub(crate) fn probe() -> Result<Kernel> {
        if fs::metadata("/sys/kernel/btf/vmlinux").is_err() {
            return Err(Error::NoBtf);
        }
        let btf = Btf::from_vmlinux().map_err(|_| Error::NoBtf)?;
        Ok(Kernel { btf, symbols: kernel_functions() })
    }

    /// How many arguments a tracepoint's programs get; `None` if the kernel lacks it.
    pub(crate) fn tracepoint(&self, name: &str) -> Option<usize> {
        let typedef: Typedef<'_> = self.btf.type_by_name(&format!("btf_trace_{name}"))?;
        let pointer = typedef.next_type()?;
        let prototype = FuncProto::try_from(pointer.next_type()?).ok()?;
        // The first is the tracepoint's own.
        Some(prototype.len().saturating_sub(1))
    }

    /// Whether a program at the tracepoint of need-resched can end in that tracepoint again, without end. Where RCU readers
    /// can be preempted, leaving the read side in which a program runs may ask for need-resched, and the flag is set only
    /// after the tracepoint. Kernels that look for a recursing program before they enter the read side end it there; those
    /// that count recursion by context (in bytes, not in an `int`) look after entering it. One that does neither is taken
    /// for the latter.
    pub(crate) fn need_resched_recurses(&self) -> bool {
        let task: Option<Composite<'_>> = self.btf.type_by_name("task_struct");
        let has_special =
            task.is_some_and(|task| self.member_offset(&task, "rcu_read_unlock_special").is_some());
        has_special && self.recursion_count_bytes().is_none_or(|bytes| bytes < 4)
    }

    /// The size of what a program's recursion is counted in.
    fn recursion_count_bytes(&self) -> Option<usize> {
        let program: Composite<'_> = self.btf.type_by_name("bpf_prog")?;
        let active = program.iter().find(|member| member.name.is_some_and(|name| name == "active"))?;
        let pointer: BtfType<'_> = self.btf.type_by_id(active.ty)?;
        Some(pointer.next_type()?.alignment().ok()?.get())
    }

    /// The address of a function; 0 if the kernel has none of that name.
    pub(crate) fn function(&self, name: &str) -> u64 {
        self.symbols.iter().find(|(_, symbol)| symbol == name).map_or(0, |&(address, _)| address)
    }

    /// The functions in order of address.
    pub(crate) fn functions(&self) -> &[(u64, String)] {
        &self.symbols
    }

    /// How far a CPU's preemption count is from its run queue, where it is a per-CPU variable; 0 if it is not.
    pub(crate) fn preempt_count_from_rq(&self) -> i64 {
        let place = |name: &str| self.percpu_offset(name).map(i64::from);
        let Some(rq) = place("runqueues") else { return 0 };
        if let Some(count) = place("__preempt_count") {
            return count - rq;
        }
        let member = self.btf.type_by_name::<Composite<'_>>("pcpu_hot");
        let member = member.and_then(|hot| self.member_offset(&hot, "preempt_count"));
        match (place("pcpu_hot"), member) {
            (Some(hot), Some(member)) => hot + member - rq,
            _ => 0,
        }
    }

    /// The preemption count's bits of hard interrupts. From 7.3 on those counts are above a count of how often
    /// interrupts were switched off, whose CPUs' variable tells that it is there.
    pub(crate) fn hardirq_mask(&self) -> u32 {
        if self.percpu_offset("local_interrupt_disable_state").is_some() { 0x0f00_0000 } else { 0x000f_0000 }
    }

    /// The offset of a member, looked for in members without a name too, bytes.
    fn member_offset(&self, composite: &Composite<'_>, name: &str) -> Option<i64> {
        composite.iter().find_map(|member| {
            let MemberAttr::Normal { offset } = member.attr else { return None };
            let here = i64::from(offset / 8);
            match member.name {
                Some(found) => (found == name).then_some(here),
                None => {
                    let inner: Composite<'_> = self.btf.type_by_id(member.ty)?;
                    self.member_offset(&inner, name).map(|deeper| here + deeper)
                }
            }
        })
    }

    fn percpu_offset(&self, name: &str) -> Option<u32> {
        let section: DataSec<'_> = self.btf.type_by_name(".data..percpu")?;
        section
            .iter()
            .find(|entry| {
                let variable: Option<Var<'_>> = self.btf.type_by_id(entry.ty);
                variable.and_then(|variable| variable.name()).is_some_and(|found| found == name)
            })
            .map(|entry| entry.offset)
    }
}

/// The kernel's functions from `/proc/kallsyms`, in order of address; addresses are 0 for the unprivileged.
fn kernel_functions() -> Vec<(u64, String)> {
    let text = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let mut functions: Vec<_> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            matches!(words.next()?, "t" | "T").then_some((address, words.next()?.to_owned()))
        })
        .filter(|(address, name)| *address != 0 && !name.starts_with("__pfx_"))
        .collect();
    functions.sort();
    functions
}
