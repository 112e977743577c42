//! The records that BPF programs and the recorder share.
//!
//! Everything here is generated from `include/wire.h` and `include/split.h`, which say what the fields mean. These types stop at the
//! recorder's decoder; the rest of Spry sees `spry_trace::event`.

#[allow(
    missing_docs,
    non_camel_case_types,
    non_upper_case_globals,
    clippy::all,
    clippy::undocumented_unsafe_blocks
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/wire.rs"));
}

pub use generated::*;

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn hot_records_are_whole_words_and_fit_the_reserved_room() {
        for size in [
            size_of::<spry_switch>(),
            size_of::<spry_waking>(),
            size_of::<spry_move>(),
            size_of::<spry_value>(),
            size_of::<spry_timer_expiry>(),
            size_of::<spry_ipc>(),
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
        const { assert!(SPRY_LOST < SPRY_FORK) };
        const { assert!(SPRY_NESTED < 1 << SPRY_STAMP_SHIFT) };
    }
}
