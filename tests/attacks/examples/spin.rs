//! An endless loop, for scripts of the lab. A shell's own loop takes the host ten times as long to emulate.

fn main() {
    loop {
        spry_attacks::work();
    }
}
