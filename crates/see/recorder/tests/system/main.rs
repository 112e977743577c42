//! The recorder on the real kernel. Needs root and a kernel with BTF, and fails without.

mod common;
mod groups;
mod lifetime;
mod sched;
