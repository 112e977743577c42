//! Reads any text as a scenario: rt-app's JSON, and TOML. Run with `cargo +nightly fuzz run rtapp`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spry_scenario::model::Scenario;

fuzz_target!(|text: &str| {
    for file in ["x.json", "x.toml"] {
        if let Err(mistake) = Scenario::parse(text, file) {
            assert!(!mistake.to_string().is_empty());
        }
    }
});
