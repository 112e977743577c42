//! `spry-sched`, the daemon that keeps on time what the user is using.

fn main() {}
