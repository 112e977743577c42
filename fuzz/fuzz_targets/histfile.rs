//! Reads any text as a histogram file. Run with `cargo +nightly fuzz run histfile`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spry_latency::histfile;

fuzz_target!(|text: &str| {
    for column in histfile::read(text).unwrap_or_default() {
        for part in [0.0, 0.5, 0.999, 1.0] {
            let found = column.quantile_us(part);
            assert!(found.is_none_or(|us| us < column.counts.len() as u64));
        }
    }
});
