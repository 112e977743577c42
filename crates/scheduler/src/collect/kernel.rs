//! What the running kernel tells of itself by its type information.

use anyhow::{Context, Result};
use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Composite, DataSec, MemberAttr, Var};

/// The kernel's type information.
pub(crate) struct Kernel {
    btf: Btf<'static>,
}

impl Kernel {
    pub(crate) fn probe() -> Result<Kernel> {
        let btf =
            Btf::from_vmlinux().context("the kernel has no type information (CONFIG_DEBUG_INFO_BTF)")?;
        Ok(Kernel { btf })
    }

    /// How far a CPU's preemption count is from its run queue, where it is a per-CPU variable; 0 if it is not.
    pub(crate) fn preempt_count_from_rq(&self) -> i64 {
        let place = |name: &str| self.percpu_offset(name).map(i64::from);
        let Some(rq) = place("runqueues") else { return 0 };
        if let Some(count) = place("__preempt_count") {
            return count - rq;
        }
        // From 6.2 to 6.14 it was a member of a structure of hot variables.
        let member = self.btf.type_by_name::<Composite<'_>>("pcpu_hot");
        let member = member.and_then(|hot| self.member_offset(&hot, "preempt_count"));
        match (place("pcpu_hot"), member) {
            (Some(hot), Some(member)) => hot + member - rq,
            _ => 0,
        }
    }

    /// The preemption count's bits of interrupts: serving a softirq, hard interrupts, NMI. From 7.3 on the last two are
    /// above a count of how often interrupts were switched off, whose CPUs' variable tells that it is there.
    pub(crate) fn interrupt_mask(&self) -> u32 {
        if self.percpu_offset("local_interrupt_disable_state").is_some() { 0x1f00_0100 } else { 0x00ff_0100 }
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
        let is_it = |variable: Option<Var<'_>>| {
            variable.and_then(|variable| variable.name()).is_some_and(|found| found == name)
        };
        section.iter().find(|entry| is_it(self.btf.type_by_id(entry.ty))).map(|entry| entry.offset)
    }
}

/// The address of a function of the kernel; `None` where it has none of that name, or does not tell.
pub(crate) fn function(name: &str) -> Option<u64> {
    let symbols = std::fs::read_to_string("/proc/kallsyms").ok()?;
    let line = symbols.lines().find(|line| line.split_ascii_whitespace().nth(2) == Some(name))?;
    let address = u64::from_str_radix(line.split_ascii_whitespace().next()?, 16).ok()?;
    (address != 0).then_some(address)
}
