//! Reads the kernel's type information (BTF): its tracepoints, and the place of the count of preemption,
//! softirq and hardirq levels.

use std::fs;

use libbpf_rs::btf::types::{Composite, DataSec, FuncProto, MemberAttr, Typedef, Var};
use libbpf_rs::btf::{Btf, BtfType};

/// The running kernel, as its type information describes it.
#[derive(Debug)]
pub struct Kernel {
    btf: Btf<'static>,
}

/// Where the kernel has the count of preemption, softirq and hardirq levels, and which bits belong to which.
/// BPF programs read the count with `preempt.bpf.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PreemptCount {
    /// If the count is a per-CPU variable, its distance from the CPU's run queue, bytes; 0 if it is not.
    pub from_rq: i64,
    /// The bits of hard interrupts.
    pub hardirq_mask: u32,
    /// The bits of any interrupt: serving a softirq, hard interrupts, NMI.
    pub interrupt_mask: u32,
}

impl Kernel {
    /// Reads the type information; `None` if the kernel has none.
    pub fn probe() -> Option<Kernel> {
        // Without this file no program can be loaded, even if libbpf finds the types in a file of the kernel.
        fs::metadata("/sys/kernel/btf/vmlinux").ok()?;
        Some(Kernel { btf: Btf::from_vmlinux().ok()? })
    }

    /// How many arguments the programs at a tracepoint get; `None` if the kernel lacks the tracepoint.
    pub fn tracepoint(&self, name: &str) -> Option<usize> {
        let typedef: Typedef<'_> = self.btf.type_by_name(&format!("btf_trace_{name}"))?;
        let pointer = typedef.next_type()?;
        let prototype = FuncProto::try_from(pointer.next_type()?).ok()?;
        // The first argument is the tracepoint's own and is not counted.
        Some(prototype.len().saturating_sub(1))
    }

    /// Whether a program at the tracepoint of need-resched can reach that tracepoint again and again without
    /// end. If RCU readers can be preempted, leaving the read side in which a program runs may ask for
    /// need-resched, and the kernel sets the flag only after the tracepoint. Some kernels check for recursion
    /// before they enter the read side, and this check ends the recursion. Kernels that count recursion by
    /// context (in bytes, not in an `int`) check only after they enter the read side. A kernel that has
    /// neither count is taken for one of these.
    pub fn need_resched_recurses(&self) -> bool {
        let task: Option<Composite<'_>> = self.btf.type_by_name("task_struct");
        let has_special =
            task.is_some_and(|task| self.member_offset(&task, "rcu_read_unlock_special").is_some());
        has_special && self.recursion_count_bytes().is_none_or(|bytes| bytes < 4)
    }

    /// The size of the field in which the kernel counts a program's recursion, bytes.
    fn recursion_count_bytes(&self) -> Option<usize> {
        let program: Composite<'_> = self.btf.type_by_name("bpf_prog")?;
        let active = program.iter().find(|member| member.name.is_some_and(|name| name == "active"))?;
        let pointer: BtfType<'_> = self.btf.type_by_id(active.ty)?;
        Some(pointer.next_type()?.alignment().ok()?.get())
    }

    /// Where the count of preemption is, and which bits it has. From 7.3 on the counts of interrupts are
    /// above a count of how many times interrupts were switched off; a per-CPU variable shows that the kernel
    /// has this count.
    pub fn preempt_count(&self) -> PreemptCount {
        let has_disable_count = self.percpu_offset("local_interrupt_disable_state").is_some();
        let (hardirq_mask, interrupt_mask) =
            if has_disable_count { (0x0f00_0000, 0x1f00_0100) } else { (0x000f_0000, 0x00ff_0100) };
        PreemptCount { from_rq: self.preempt_count_from_rq(), hardirq_mask, interrupt_mask }
    }

    fn preempt_count_from_rq(&self) -> i64 {
        let place = |name: &str| self.percpu_offset(name).map(i64::from);
        let Some(rq) = place("runqueues") else { return 0 };
        if let Some(count) = place("__preempt_count") {
            return count - rq;
        }
        // In kernels from 6.2 to 6.14 the count was a member of the structure `pcpu_hot`.
        let member = self.btf.type_by_name::<Composite<'_>>("pcpu_hot");
        let member = member.and_then(|hot| self.member_offset(&hot, "preempt_count"));
        match (place("pcpu_hot"), member) {
            (Some(hot), Some(member)) => hot + member - rq,
            _ => 0,
        }
    }

    /// The offset of a member, bytes. Members of structures without a name are searched, too.
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
