//! Encodes a verdict as the word that BPF programs read. No other module writes such words.

use crate::actuator::{Class, Verdict};
use crate::intf::{
    spry_class_SPRY_CLASS_DAEMON as DAEMON, spry_class_SPRY_CLASS_IDLE as IDLE,
    spry_class_SPRY_CLASS_INTERACTIVE as INTERACTIVE, spry_class_SPRY_CLASS_KTHREAD as KTHREAD,
    spry_class_SPRY_CLASS_OTHER as OTHER, spry_verdict_bits_SPRY_VERDICT_CLASS_BITS as CLASS_BITS,
    spry_verdict_bits_SPRY_VERDICT_CLASS_SHIFT as CLASS_SHIFT,
    spry_verdict_bits_SPRY_VERDICT_LEVEL_SHIFT as LEVEL_SHIFT,
    spry_verdict_bits_SPRY_VERDICT_QUANTUM_SHIFT as QUANTUM_SHIFT,
};

/// The level, and the quantum in us, of a process that a manual override makes interactive and on which the
/// policy has no verdict. They are the values of a display's best client.
const LEVEL_BY_HAND: u8 = 1;
const QUANTUM_BY_HAND_US: u32 = 200_000;

/// The word of a verdict. `enum spry_verdict_bits` in `bpf/common/intf.h` has the bits of each part.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct VerdictWord(u64);

impl VerdictWord {
    /// No verdict: the task's own nature decides its class.
    pub const NONE: VerdictWord = VerdictWord(0);

    fn new(class: Class, level: u8, quantum_us: u32) -> VerdictWord {
        let class = match class {
            Class::Daemon => DAEMON,
            Class::Kthread => KTHREAD,
            Class::Interactive => INTERACTIVE,
            Class::Other => OTHER,
            Class::Idle => IDLE,
        };
        VerdictWord(
            u64::from(class) << CLASS_SHIFT
                | u64::from(level) << LEVEL_SHIFT
                | u64::from(quantum_us) << QUANTUM_SHIFT,
        )
    }

    /// The word for a manual override. A process that is made interactive keeps the level and quantum that
    /// the policy gives it, if any.
    pub fn by_hand(class: Class, verdict: Option<&Verdict>) -> VerdictWord {
        match (class, verdict) {
            (Class::Interactive, Some(verdict)) if verdict.class == class => VerdictWord::from(verdict),
            (Class::Interactive, _) => VerdictWord::new(class, LEVEL_BY_HAND, QUANTUM_BY_HAND_US),
            (Class::Daemon | Class::Kthread | Class::Other | Class::Idle, _) => VerdictWord::new(class, 0, 0),
        }
    }

    /// Whether the word puts the process into the interactive class.
    pub fn is_interactive(self) -> bool {
        self.0 >> CLASS_SHIFT & ((1 << CLASS_BITS) - 1) == u64::from(INTERACTIVE)
    }

    /// The word as a number, as it is stored in a node.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// A word from the number that a node stores.
    pub const fn from_bits(bits: u64) -> VerdictWord {
        VerdictWord(bits)
    }
}

impl From<&Verdict> for VerdictWord {
    fn from(verdict: &Verdict) -> VerdictWord {
        VerdictWord::new(verdict.class, verdict.level, verdict.quantum_us)
    }
}

#[cfg(test)]
mod tests {
    use spry_policy::Tgid;

    use super::*;

    #[test]
    fn parts_do_not_touch_each_other() {
        let verdict =
            Verdict { tgid: Tgid(1), class: Class::Interactive, level: u8::MAX, quantum_us: u32::MAX };
        let word = VerdictWord::from(&verdict).bits();
        assert_eq!(word, 0xffff_ffff_0000_ff00 | u64::from(INTERACTIVE));
    }

    #[test]
    fn a_class_set_by_hand_keeps_the_policy_s_place_within_it() {
        let verdict = Verdict { tgid: Tgid(1), class: Class::Interactive, level: 3, quantum_us: 5 };
        let by_hand = |class, verdict| VerdictWord::by_hand(class, verdict);
        assert_eq!(by_hand(Class::Interactive, Some(&verdict)), VerdictWord::from(&verdict));
        assert_eq!(by_hand(Class::Idle, Some(&verdict)), VerdictWord::new(Class::Idle, 0, 0));
        assert_eq!(by_hand(Class::Interactive, None).bits() >> QUANTUM_SHIFT, 200_000);
    }
}
