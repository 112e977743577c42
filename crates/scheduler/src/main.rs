//! `spry-sched`, the daemon that keeps on time what the user is using.

#[expect(dead_code, reason = "the daemon is on its way")]
mod actuator;

fn main() {}
