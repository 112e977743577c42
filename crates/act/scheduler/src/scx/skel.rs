//! The scheduler's BPF object with its maps, knobs and programs by name, generated at build time.

#![allow(missing_docs, unsafe_op_in_unsafe_fn, clippy::all, clippy::undocumented_unsafe_blocks)]

include!(concat!(env!("OUT_DIR"), "/sched_skel.rs"));
