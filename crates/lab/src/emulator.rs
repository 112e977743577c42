//! Faults of the emulator that end a guest by no doing of its own, known by what the kernel says in its panic.

use std::fmt;

/// What an emulator did wrong. QEMU 7.2 (Debian 12) does both; see docs/lab.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// An interrupt saved flags that no processor has.
    MadeUpFlags,
    /// A CPU ran code that another one was just changing.
    HalfChangedCode,
}

impl Fault {
    /// The fault that the last lines of the console of a guest with so many CPUs show, if any.
    pub(crate) fn of(console: &str, cpus: u32) -> Option<Fault> {
        if has_impossible_flags(console) {
            return Some(Fault::MadeUpFlags);
        }
        (cpus > 1 && is_half_changed_code(console)).then_some(Fault::HalfChangedCode)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::MadeUpFlags => "the emulator made up flags, which ended the guest",
            Fault::HalfChangedCode => {
                "the emulator ran code that the kernel was just changing, which ended the guest"
            }
        })
    }
}

/// Whether a panic tells of flags above bit 21, the last that there is: the emulator computes those of `cmpxchg16b` from
/// what an earlier instruction left, and an interrupt right behind it saves them.
fn has_impossible_flags(panic: &str) -> bool {
    let flags = panic.lines().filter_map(|line| line.split_once("EFLAGS: ")?.1.split_whitespace().next());
    flags.filter_map(|flags| u64::from_str_radix(flags, 16).ok()).any(|flags| flags >> 22 != 0)
}

/// Whether a panic is of a CPU that ran a jump or a no-operation of the kernel's while another one exchanged it for the
/// other: it stands behind its first byte, which was a breakpoint a moment before.
fn is_half_changed_code(panic: &str) -> bool {
    let code = panic.lines().filter_map(|line| line.split_once("Code: ")).map(|(_, bytes)| bytes);
    code.map(|bytes| bytes.split_whitespace().collect::<Vec<_>>()).any(|bytes| {
        let at = bytes.iter().position(|byte| byte.starts_with('<'));
        at.filter(|&at| at > 0).is_some_and(|at| {
            matches!((bytes[at - 1], bytes[at]), ("e9" | "eb", _) | ("66", "<90>") | ("0f", "<1f>"))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_that_no_processor_has_are_told_from_those_of_a_panic_of_the_kernel_s_own() {
        let made_up = |log: &str| Fault::of(log, 1) == Some(Fault::MadeUpFlags);
        assert!(made_up("a panic\n[ 0.6] RSP: 0018:ffa0000000013400 EFLAGS: 04808626"));
        assert!(!made_up("a panic\n[ 0.6] RSP: 0018:ffa0000000013400 EFLAGS: 00010246"));
        assert!(!made_up("a panic\n[ 0.6] RSP: 002b:00007fff1333fa48 EFLAGS: 00000297 ORIG_RAX: 0"));
        assert!(!made_up("the guest ended without results"));
    }

    #[test]
    fn a_trap_behind_the_first_byte_of_what_is_exchanged_is_half_changed_code_and_others_are_not() {
        let half_changed = |log: &str| Fault::of(log, 2) == Some(Fault::HalfChangedCode);
        assert!(half_changed("[ 15.3] Code: 0f 1e fa 41 54 55 53 eb <1b> e8 91 72 ed ff"));
        assert!(half_changed("a panic\n[ 11.8] Code: e8 38 dc fc ff e9 <9a> 00 00 00 0f"));
        assert!(half_changed("[ 1.7] Code: fa 41 54 55 53 66 <90> e8 91 72"));
        assert!(half_changed("[ 1.7] Code: fa 41 54 55 53 0f <1f> 44 00 00"));
        assert!(!half_changed("[ 15.3] Code: 0f 1e fa 41 54 55 53 <0f> 0b eb 1b e8"));
        assert!(!half_changed("Kernel panic - not syncing: Out of memory"));
    }

    #[test]
    fn one_cpu_has_nobody_to_change_its_code_meanwhile() {
        assert_eq!(Fault::of("[ 15.3] Code: 0f 1e fa 41 54 55 53 eb <1b> e8", 1), None);
    }
}
