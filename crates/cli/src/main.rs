//! The `spry` command.

fn main() {}
