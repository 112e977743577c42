//! What threads share, from `std`. The tests compile `inbox.rs` with loom's in its place.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use std::sync::{Mutex, PoisonError};
