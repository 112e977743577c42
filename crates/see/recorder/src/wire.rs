//! The records that BPF programs and the recorder share.
//!
//! The types in `generated` come from `bpf/wire.h` and `bpf/split.h`, which document the fields. These types
//! stop at the decoder; the rest of Spry sees `spry_trace::event`.

#[allow(
    dead_code, // The headers have more than Rust uses.
    non_camel_case_types,
    non_upper_case_globals,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/wire.rs"));
}

pub(crate) use generated::*;

/// The kind of a record, by the low byte of its stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The rest of the chunk is empty.
    Pad,
    Hot(HotKind),
    Rare(RareKind),
}

/// Records of a CPU's own ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HotKind {
    Switch,
    Waking,
    Wakeup,
    WakeupNew,
    Migrate,
    Tick,
    Timer,
    IrqEnter,
    IrqExit,
    SoftirqEnter,
    SoftirqExit,
    NeedResched,
    SchedEnter,
    SchedExit,
    Ipc,
    Lost,
    Throttle,
    Quota,
    Idle,
}

/// Records of the shared ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RareKind {
    Fork,
    Exec,
    Exit,
    Rename,
    Stat,
    Mark,
    Stack,
    Nested,
    Offline,
}

/// A number that no BPF program of ours writes: the ring's contents are damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what} {number}")]
pub struct Nonsense {
    /// The expected meaning of the number.
    pub what: &'static str,
    /// The number that was read.
    pub number: u64,
}

impl Nonsense {
    /// The error of a number that should have been `what` and is something else.
    pub(crate) fn of(what: &'static str, number: impl Into<u64>) -> Nonsense {
        Nonsense { what, number: number.into() }
    }
}

impl TryFrom<spry_kind> for Kind {
    type Error = Nonsense;

    fn try_from(number: spry_kind) -> Result<Kind, Nonsense> {
        Ok(match number {
            SPRY_PAD => Kind::Pad,
            SPRY_SWITCH => Kind::Hot(HotKind::Switch),
            SPRY_WAKING => Kind::Hot(HotKind::Waking),
            SPRY_WAKEUP => Kind::Hot(HotKind::Wakeup),
            SPRY_WAKEUP_NEW => Kind::Hot(HotKind::WakeupNew),
            SPRY_MIGRATE => Kind::Hot(HotKind::Migrate),
            SPRY_TICK => Kind::Hot(HotKind::Tick),
            SPRY_TIMER => Kind::Hot(HotKind::Timer),
            SPRY_IRQ_ENTER => Kind::Hot(HotKind::IrqEnter),
            SPRY_IRQ_EXIT => Kind::Hot(HotKind::IrqExit),
            SPRY_SOFTIRQ_ENTER => Kind::Hot(HotKind::SoftirqEnter),
            SPRY_SOFTIRQ_EXIT => Kind::Hot(HotKind::SoftirqExit),
            SPRY_NEED_RESCHED => Kind::Hot(HotKind::NeedResched),
            SPRY_SCHED_ENTER => Kind::Hot(HotKind::SchedEnter),
            SPRY_SCHED_EXIT => Kind::Hot(HotKind::SchedExit),
            SPRY_IPC => Kind::Hot(HotKind::Ipc),
            SPRY_LOST => Kind::Hot(HotKind::Lost),
            SPRY_THROTTLE => Kind::Hot(HotKind::Throttle),
            SPRY_QUOTA => Kind::Hot(HotKind::Quota),
            SPRY_IDLE => Kind::Hot(HotKind::Idle),
            SPRY_FORK => Kind::Rare(RareKind::Fork),
            SPRY_EXEC => Kind::Rare(RareKind::Exec),
            SPRY_EXIT => Kind::Rare(RareKind::Exit),
            SPRY_RENAME => Kind::Rare(RareKind::Rename),
            SPRY_STAT => Kind::Rare(RareKind::Stat),
            SPRY_MARK => Kind::Rare(RareKind::Mark),
            SPRY_STACK => Kind::Rare(RareKind::Stack),
            SPRY_NESTED => Kind::Rare(RareKind::Nested),
            SPRY_OFFLINE => Kind::Rare(RareKind::Offline),
            _ => return Err(Nonsense::of("the kind of a record", number)),
        })
    }
}

impl HotKind {
    /// The number of words of a record of the kind.
    pub(crate) const fn words(self) -> usize {
        let bytes = match self {
            HotKind::Switch => size_of::<spry_switch>(),
            HotKind::Waking => size_of::<spry_waking>(),
            HotKind::Wakeup | HotKind::WakeupNew | HotKind::Migrate | HotKind::NeedResched => {
                size_of::<spry_move>()
            }
            HotKind::Tick
            | HotKind::IrqEnter
            | HotKind::IrqExit
            | HotKind::SoftirqEnter
            | HotKind::SoftirqExit
            | HotKind::SchedEnter
            | HotKind::SchedExit
            | HotKind::Lost
            | HotKind::Idle => size_of::<spry_value>(),
            HotKind::Timer => size_of::<spry_timer_expiry>(),
            HotKind::Ipc => size_of::<spry_ipc>(),
            HotKind::Throttle => size_of::<spry_throttle>(),
            HotKind::Quota => size_of::<spry_quota>(),
        };
        bytes / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn hot_records_are_whole_words_and_fit_the_reserved_room() {
        for size in [
            size_of::<spry_switch>(),
            size_of::<spry_waking>(),
            size_of::<spry_move>(),
            size_of::<spry_value>(),
            size_of::<spry_timer_expiry>(),
            size_of::<spry_ipc>(),
            size_of::<spry_throttle>(),
            size_of::<spry_quota>(),
        ] {
            assert_eq!(size % 8, 0);
            assert!(size <= SPRY_HOT_MAX as usize);
        }
    }

    #[test]
    fn every_record_starts_with_its_stamp() {
        assert_eq!(offset_of!(spry_switch, stamp), 0);
        assert_eq!(offset_of!(spry_waking, stamp), 0);
        assert_eq!(offset_of!(spry_move, stamp), 0);
        assert_eq!(offset_of!(spry_value, stamp), 0);
        assert_eq!(offset_of!(spry_timer_expiry, stamp), 0);
        assert_eq!(offset_of!(spry_ipc, stamp), 0);
        assert_eq!(offset_of!(spry_meta, stamp), 0);
        assert_eq!(offset_of!(spry_stack, meta), 0);
    }

    #[test]
    fn the_reader_writes_another_cache_line_than_the_cpu() {
        assert_eq!(offset_of!(spry_cpu, tail), 64);
        assert_eq!(size_of::<spry_cpu>(), 128);
    }

    #[test]
    fn a_sampler_s_seat_is_a_cache_line() {
        assert_eq!(size_of::<spry_seat>(), 64);
        assert!(SPRY_SEATS.is_power_of_two());
    }

    #[test]
    fn hot_and_shared_kinds_do_not_overlap_and_fit_the_stamp() {
        const { assert!(SPRY_QUOTA < SPRY_FORK) };
        const { assert!(SPRY_NESTED < 1 << SPRY_STAMP_SHIFT) };
    }

    #[test]
    fn fields_that_share_a_word_lie_where_the_programs_put_them() {
        let mut switch = spry_switch::default();
        switch.set_prev_tid(0xab_cdef);
        switch.set_prev_policy(6);
        switch.set_is_preempted(1);
        // SAFETY: plain data of 24 bytes, of which the second word is read.
        let word = unsafe { (&raw const switch).cast::<u64>().add(1).read() };
        assert_eq!(word, 0x86ab_cdef);
        let mut waking = spry_waking::default();
        waking.set_waker(1);
        waking.set_context(SPRY_CONTEXT_HARDIRQ);
        // SAFETY: plain data of 16 bytes, of which the second word is read.
        assert_eq!(unsafe { (&raw const waking).cast::<u64>().add(1).read() }, 0x0200_0001);
    }

    #[test]
    fn timers_that_expire_at_once_are_those_of_imports() {
        assert_eq!(u64::from(SPRY_AT_ONCE_NS), spry_trace::event::TimerExpire::AT_ONCE_NS);
    }

    #[test]
    fn every_number_is_one_kind_or_none() {
        let known = (0..256).filter(|&number| Kind::try_from(number).is_ok()).count();
        assert_eq!(known, 29);
        assert_eq!(Kind::try_from(200), Err(Nonsense::of("the kind of a record", 200_u32)));
    }
}
