//! In which state a task leaves its CPU: the bits of `prev_state`, as the recorded kernel names them.

use spry_trace::event::PrevState;

/// What a kernel's bits mean. Kernels number them differently, so they are read from the tracepoint's own
/// text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct States {
    bits: Vec<(u64, PrevState)>,
    preempted: u64,
}

impl States {
    /// Out of the line that says how `sched_switch` is printed: `{ 0x1, "S" }, { 0x2, "D" }, ...`. The bit
    /// after the highest of these says that the task was pushed off.
    pub(crate) fn parse(print: &str) -> States {
        let mut bits: Vec<(u64, PrevState)> = print.split('{').skip(1).filter_map(parse_bit).collect();
        if bits.is_empty() {
            bits = MODERN.iter().map(|&(bit, letter)| (bit, state(letter))).collect();
        }
        let highest = bits.iter().map(|&(bit, _)| bit).max().unwrap_or(0);
        States { bits, preempted: highest.checked_mul(2).unwrap_or(0) }
    }

    /// The state that a value of `prev_state` means.
    pub(crate) fn of(&self, value: i64) -> PrevState {
        let value = value as u64;
        if value & (self.preempted.wrapping_sub(1) | self.preempted) == 0 {
            return PrevState::Runnable;
        }
        if value & self.preempted != 0 {
            return PrevState::Preempted;
        }
        let known = self.bits.iter().find(|(bit, _)| value & bit != 0);
        known.map_or(PrevState::Other, |&(_, state)| state)
    }
}

/// The bits of kernels since Linux 4.14.
const MODERN: [(u64, char); 8] =
    [(0x1, 'S'), (0x2, 'D'), (0x4, 'T'), (0x8, 't'), (0x10, 'X'), (0x20, 'Z'), (0x40, 'P'), (0x80, 'I')];

/// ` 0x00000001, "S" }...` or ` 1, "S"} ...`
fn parse_bit(text: &str) -> Option<(u64, PrevState)> {
    let (number, rest) = text.split_once(',')?;
    let number = number.trim();
    let bit = match number.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?,
        None => number.parse().ok()?,
    };
    let letter = rest.trim_start().strip_prefix('"')?.chars().next()?;
    (bit.is_power_of_two() && bit < 1 << 32).then(|| (bit, state(letter)))
}

fn state(letter: char) -> PrevState {
    match letter {
        'S' => PrevState::Sleeping,
        'D' => PrevState::DiskSleep,
        'T' => PrevState::Stopped,
        't' => PrevState::Traced,
        'X' | 'x' => PrevState::Dead,
        'Z' => PrevState::Zombie,
        'P' => PrevState::Parked,
        'I' => PrevState::IdleSleep,
        _ => PrevState::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn todays_kernels_bits_are_read() {
        let states = States::parse(
            r#""...", REC->prev_state & 0xff ? __print_flags(REC->prev_state & 0xff, "|", { 0x00000001, "S" }, { 0x00000002, "D" },
            { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R""#,
        );
        assert_eq!(states, States::parse(""), "and they are taken where nothing is said");
        assert_eq!(states.of(0), PrevState::Runnable);
        assert_eq!(states.of(0x100), PrevState::Preempted);
        assert_eq!(states.of(2), PrevState::DiskSleep);
        assert_eq!(states.of(0x10), PrevState::Dead);
        assert_eq!(states.of(0x20), PrevState::Zombie);
        assert_eq!(states.of(0x80), PrevState::IdleSleep);
    }

    #[test]
    fn an_old_kernels_bits_are_its_own() {
        let states = States::parse(
            r#"__print_flags(REC->prev_state & (2048-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" },
            { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }, { 1024, "N" }) : "R", REC->prev_state & 2048 ? "+" : """#,
        );
        assert_eq!(states.of(16), PrevState::Zombie);
        assert_eq!(states.of(64), PrevState::Dead);
        assert_eq!(states.of(512), PrevState::Parked);
        assert_eq!(states.of(2048), PrevState::Preempted);
        assert_eq!(states.of(128 | 2), PrevState::DiskSleep);
        assert_eq!(states.of(128), PrevState::Other);
    }
}
