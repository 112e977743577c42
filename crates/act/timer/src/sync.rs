//! The types that threads share, from `std`. The tests compile `inbox.rs` with loom's types in their place.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use std::sync::{Mutex, PoisonError};
