//! Reads any bytes as what the daemon reads of users: a question of its control socket, records of eyes. Run
//! with `cargo +nightly fuzz run ask`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use spry_control::Request;
use spry_display::wire::Record;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(request) = serde_json::from_slice::<Request>(bytes) {
        let line = serde_json::to_vec(&request).expect("a question is JSON");
        assert_eq!(serde_json::from_slice::<Request>(&line).expect("it was one"), request);
    }
    let _ = Record::try_from(bytes);
});
