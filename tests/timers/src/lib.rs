//! A place for the tests of `spry-timer`'s adapters, which need all of its features, and for the program that
//! measures it: `cargo run --release -p spry-timer-tests --example measure`.
