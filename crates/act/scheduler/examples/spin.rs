//! An endless loop, for scripts of the lab. A shell's own loop takes the host ten times as long to emulate.

use std::hint::black_box;

fn main() {
    let (mut a, mut b, mut c, mut d) = (black_box(1_u64), 2_u64, 3_u64, 4_u64);
    loop {
        for _ in 0..1000 {
            a = a.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(b);
            b ^= a >> 7;
            c = c.wrapping_add(d.rotate_left(5));
            d ^= c;
        }
        black_box((a, b, c, d));
    }
}
