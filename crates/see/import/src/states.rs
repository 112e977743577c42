//! The state in which a task leaves its CPU: the bits of `prev_state`, as the recorded kernel names them.

use spry_trace::event::PrevState;

/// The meaning of a kernel's values. Kernels number states differently, so the meaning is read from the
/// tracepoint's own text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct States {
    bits: Vec<(u64, PrevState)>,
    preempted: u64,
    numbering: Numbering,
}

/// The encoding of a state in `prev_state`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Numbering {
    /// A bit for each state.
    Bits,
    /// The place of the state's bit, counted from 1. The first kernels of Linux 4.14 record it, although
    /// their text has bits.
    Places,
}

impl States {
    /// Reads the states from the line with which the kernel prints `sched_switch`: `REC->prev_state & 0xff ?
    /// __print_flags(REC->prev_state & 0xff, "|", { 0x1, "S" }, { 0x2, "D" }) : "R", REC->prev_state & 0x100
    /// ? "+" : ""`. The bit before `? "+"` marks a preempted task. Without such a text, it is the bit after
    /// the highest of the states.
    pub(crate) fn parse(print: &str) -> States {
        let mut bits: Vec<(u64, PrevState)> = Vec::new();
        for (bit, state) in print.split('{').skip(1).filter_map(parse_bit) {
            if bits.iter().all(|&(known, _)| known != bit) {
                bits.push((bit, state));
            }
        }
        if bits.is_empty() {
            bits = MODERN.iter().map(|&(bit, letter)| (bit, state(letter))).collect();
        }
        let highest = bits.iter().map(|&(bit, _)| bit).max().unwrap_or(0);
        let preempted = print.split_once("? \"+\"").and_then(|(before, _)| last_mask(before));
        let preempted = preempted.filter(|bit| bit.is_power_of_two() && *bit > highest);
        let shown = print.split_once(", \"|\"").and_then(|(before, _)| last_mask(before));
        // Kernels with places mark preemption by a bit that is far above the states in their text.
        let is_places =
            matches!((preempted, shown), (Some(bit), Some(shown)) if bit > shown.saturating_add(1));
        States {
            bits,
            preempted: preempted.unwrap_or(highest.checked_mul(2).unwrap_or(0)),
            numbering: if is_places { Numbering::Places } else { Numbering::Bits },
        }
    }

    /// The encoding of states in the values.
    pub(crate) fn numbering(&self) -> Numbering {
        self.numbering
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
        let is_meant = |bit: u64| match self.numbering {
            Numbering::Bits => value & bit != 0,
            Numbering::Places => value == u64::from(bit.trailing_zeros()) + 1,
        };
        let known = self.bits.iter().find(|(bit, _)| is_meant(*bit));
        known.map_or(PrevState::Other, |&(_, state)| state)
    }
}

/// The value of the last expression in a text of the form `...prev_state & EXPRESSION`.
fn last_mask(text: &str) -> Option<u64> {
    let (_, expression) = text.rsplit_once("prev_state")?;
    let mut rest = expression.trim().strip_prefix('&')?;
    let value = sum(&mut rest, NESTING_MAX)?;
    // Parentheses around the whole may be open.
    rest.trim_matches([' ', ')']).is_empty().then_some(value)
}

/// An expression of the kernel is nested at most this deep.
const NESTING_MAX: u32 = 32;

/// The value of an expression of numbers, parentheses, `|`, `+`, `-` and `<<`. The kernel's expressions have
/// parentheses wherever the precedence of operators matters, so operators count from left to right.
fn sum(rest: &mut &str, nesting: u32) -> Option<u64> {
    let mut value = operand(rest, nesting)?;
    loop {
        let text = rest.trim_start();
        let (operator, after) = ["<<", "|", "+", "-"]
            .into_iter()
            .find_map(|operator| Some((operator, text.strip_prefix(operator)?)))
            .unwrap_or(("", text));
        if operator.is_empty() {
            return Some(value);
        }
        *rest = after;
        let operand = operand(rest, nesting)?;
        value = match operator {
            "|" => value | operand,
            "+" => value.checked_add(operand)?,
            "-" => value.checked_sub(operand)?,
            _ => value.checked_mul(1u64.checked_shl(u32::try_from(operand).ok()?)?)?,
        };
    }
}

fn operand(rest: &mut &str, nesting: u32) -> Option<u64> {
    let text = rest.trim_start();
    if let Some(inner) = text.strip_prefix('(') {
        *rest = inner;
        let value = sum(rest, nesting.checked_sub(1)?)?;
        *rest = rest.trim_start().strip_prefix(')')?;
        return Some(value);
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    *rest = &text[end..];
    number(&text[..end])
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The bits of kernels since Linux 4.14.
const MODERN: [(u64, char); 8] =
    [(0x1, 'S'), (0x2, 'D'), (0x4, 'T'), (0x8, 't'), (0x10, 'X'), (0x20, 'Z'), (0x40, 'P'), (0x80, 'I')];

/// ` 0x00000001, "S" }...` or ` 1, "S"} ...`
fn parse_bit(text: &str) -> Option<(u64, PrevState)> {
    let (digits, rest) = text.split_once(',')?;
    let bit = number(digits.trim())?;
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

    const TEXT_4_9: &str = r#"(REC->prev_state & (4096-1)) ? __print_flags(REC->prev_state & (4096-1), "|", { 1, "S"} , { 2, "D" },
        { 4, "T" }, { 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }, { 512, "P" }, { 1024, "N" })
        : "R", REC->prev_state & 4096 ? "+" : "", REC->next_comm"#;

    #[test]
    fn the_text_names_the_bit_of_preemption() {
        let states = States::parse(TEXT_4_9);
        assert_eq!((states.of(4096), states.of(4096 | 1)), (PrevState::Preempted, PrevState::Preempted));
        assert_eq!(
            (states.of(2048), states.of(1024), states.of(0)),
            (PrevState::Other, PrevState::Other, PrevState::Runnable)
        );
        assert_eq!((states.of(2), states.numbering()), (PrevState::DiskSleep, Numbering::Bits));
    }

    #[test]
    fn the_bit_of_preemption_may_be_an_expression() {
        let report = "(((0x0000 | 0x0001 | 0x0002 | 0x0004 | 0x0008 | 0x0010 | 0x0020 | 0x0040) + 1) << 1)";
        let text = format!(
            r#"(REC->prev_state & ({report} - 1)) ? __print_flags(REC->prev_state & ({report} - 1), "|", {{ 0x0001, "S" }},
            {{ 0x0002, "D" }}, {{ 0x0040, "P" }}, {{ 0x0080, "I" }}) : "R", REC->prev_state & {report} ? "+" : "", REC->next"#
        );
        let states = States::parse(&text);
        assert_eq!((states.of(0x100), states.of(0x80)), (PrevState::Preempted, PrevState::IdleSleep));
        assert_eq!(states.numbering(), Numbering::Bits);
    }

    #[test]
    fn the_first_4_14_kernels_count_places() {
        let flags = r#"{ 0x01, "S" }, { 0x02, "D" }, { 0x04, "T" }, { 0x08, "t" }, { 0x10, "X" }, { 0x20, "Z" }, { 0x40, "P" }, { 0x80, "I" }"#;
        let text = format!(
            r#"REC->prev_state & 0xff ? __print_flags(REC->prev_state & 0xff, "|", {flags}) : "R", REC->prev_state & 0x1000 ? "+" : """#
        );
        let states = States::parse(&text);
        assert_eq!(states.numbering(), Numbering::Places);
        assert_eq!((states.of(0x1000), states.of(0)), (PrevState::Preempted, PrevState::Runnable));
        assert_eq!(
            (states.of(1), states.of(2), states.of(3)),
            (PrevState::Sleeping, PrevState::DiskSleep, PrevState::Stopped)
        );
        assert_eq!(
            (states.of(5), states.of(6), states.of(8)),
            (PrevState::Dead, PrevState::Zombie, PrevState::IdleSleep)
        );
        assert_eq!(states.of(9), PrevState::Other);
    }

    #[test]
    fn a_text_names_each_bit_once() {
        let states = States::parse(&r#"{ 0x1, "D" }, { 0x1, "S" }, "#.repeat(1000));
        assert_eq!(
            (states.bits.as_slice(), states.of(1)),
            (&[(1, PrevState::DiskSleep)][..], PrevState::DiskSleep)
        );
    }

    #[test]
    fn a_senseless_text_falls_back_to_the_bit_after_the_highest() {
        let deep = "(".repeat(10_000);
        for expression in ["", "0", "3", "1 << 70", "(4096", "4096)(", "0x", "prio", &deep] {
            let text =
                format!(r#"{{ 0x1, "S" }}, {{ 0x2, "D" }} : "R", REC->prev_state & {expression} ? "+" : """#);
            let states = States::parse(&text);
            assert_eq!(states.of(4), PrevState::Preempted, "{expression}");
        }
    }
}
