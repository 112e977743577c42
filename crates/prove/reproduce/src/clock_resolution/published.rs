//! The paper's published values for alarms (Etsion, Tsafrir, Feitelson 2003, section 7): table 6, and the
//! shares of figure 7.

use serde::Serialize;

/// The machine on which the paper measured.
pub const MACHINE: &str = "Pentium III 664 MHz, Linux 2.4.8";

/// A distribution's tail, us: the latencies that 90, 95 and 99 % of the samples do not exceed,
/// and the longest.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Tail {
    /// The latency that 90 % do not exceed, us.
    pub p90: f64,
    /// The latency that 95 % do not exceed, us.
    pub p95: f64,
    /// The latency that 99 % do not exceed, us.
    pub p99: f64,
    /// The longest latency, us.
    pub max: f64,
}

const fn tail(p90: f64, p95: f64, p99: f64, max: f64) -> Tail {
    Tail { p90, p95, p99, max }
}

/// The case of a measurement: processes that set alarms, and loops beside them.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Case {
    /// What the processes do between alarms: `BLK`, `CONT` or a share such as `2%`.
    pub kind: &'static str,
    /// How many processes set alarms.
    pub n: u32,
    /// How many endless loops run beside them.
    pub loops: u32,
    /// The paper's tails with the base and with the fast kernel; `None`: table 6 does not have the case.
    pub table: Option<[Tail; 2]>,
    /// The tail that Etsion's thesis (table 5.7) has for the fast kernel, where it differs.
    pub thesis: Option<Tail>,
    /// The share of signals that the base kernel delivered within a tick, 0 to 1 (figure 7).
    pub within_tick: Option<f64>,
}

const fn case(kind: &'static str, n: u32, loops: u32, base: Tail, fast: Tail) -> Case {
    Case { kind, n, loops, table: Some([base, fast]), thesis: None, within_tick: None }
}

/// A case of CONT, which figure 7 also has.
const fn cont(n: u32, table: Option<[Tail; 2]>, thesis: Option<Tail>, within_tick: f64) -> Case {
    Case { kind: "CONT", n, loops: 0, table, thesis, within_tick: Some(within_tick) }
}

/// All cases. The cases of table 6 are in the table's order. The two cases of CONT that only figure 7 has
/// stand between them.
pub const CASES: [Case; 12] = [
    case("BLK", 2, 0, tail(5.0, 8.0, 11.0, 40.0), tail(13.0, 14.0, 21.0, 23.0)),
    case("BLK", 8, 0, tail(5.0, 12.0, 22.0, 420.0), tail(7.0, 9.0, 13.0, 25.0)),
    cont(1, None, None, 1.0),
    cont(
        2,
        Some([tail(50_003.0, 60_003.0, 60_004.0, 160_006.0), tail(102.0, 103.0, 18_468.0, 60_448.0)]),
        Some(tail(50.0, 53.0, 102.0, 105.0)),
        0.53,
    ),
    cont(4, None, None, 0.30),
    cont(
        8,
        Some([tail(370_014.0, 400_014.0, 420_015.0, 740_025.0), tail(656.0, 706.0, 15_096.0, 68_139.0)]),
        Some(tail(606.0, 606.0, 706.0, 708.0)),
        0.16,
    ),
    case("2%", 2, 0, tail(6.0, 9.0, 9_193.0, 19_153.0), tail(13.0, 15.0, 23.0, 837.0)),
    case("2%", 8, 0, tail(2_910.0, 8_419.0, 17_940.0, 32_944.0), tail(12.0, 52.0, 53.0, 1_809.0)),
    case("8%", 2, 0, tail(9.0, 12_431.0, 39_512.0, 60_003.0), tail(14.0, 19.0, 53.0, 3_797.0)),
    case("8%", 8, 0, tail(40_003.0, 60_005.0, 130_006.0, 294_291.0), tail(53.0, 53.0, 54.0, 37_328.0)),
    case("4%", 1, 2, tail(50_003.0, 50_003.0, 50_004.0, 50_005.0), tail(55.0, 56.0, 200.0, 256.0)),
    case("4%", 1, 8, tail(50_003.0, 50_003.0, 170_014.0, 280_010.0), tail(56.0, 57.0, 59.0, 856.0)),
];

/// The differences from the paper's experiments.
pub const LEFT_OUT: [&str; 5] = [
    "Latencies count from when an alarm is due. The paper counts from the tick that fires it, which is up to \
     a tick later: 10 ms on the base kernel, 50 us on the fast one. Both kernels tick always and have no \
     finer timers, as Linux 2.4 had none.",
    "No daemon writes to a disk here. The paper lays its longest latencies to such daemons.",
    "The lab's CPU takes a nanosecond for an instruction, that of figure 8's older processor two; it has no \
     caches.",
    "Figure 8 compares generations of processors; here the newer one is twice as fast as the older in all \
     that it does, while the paper's is 1.7 times as fast.",
    "The sorting is Rust's unstable sort, a quicksort that changes to heapsort where the pivots are bad, as \
     the paper's introsort does.",
];

impl Case {
    /// The case's name, as in table 6.
    pub fn name(&self) -> String {
        match self.loops {
            0 => format!("{}, {} {}", self.kind, self.n, if self.n == 1 { "process" } else { "processes" }),
            loops => format!("{}, {} process and {loops} CPU-bound", self.kind, self.n),
        }
    }

    /// The case's key, for files and commands: `cont-8`, `4-1-2cpu`.
    pub fn key(&self) -> String {
        let kind = self.kind.trim_end_matches('%').to_ascii_lowercase();
        let loops = if self.loops > 0 { format!("-{}cpu", self.loops) } else { String::new() };
        format!("{kind}-{}{loops}", self.n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cases_have_keys_of_their_own_and_tails_that_grow() {
        let mut keys: Vec<String> = CASES.iter().map(Case::key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), CASES.len());
        for tail in CASES.iter().flat_map(|case| case.table.into_iter().flatten().chain(case.thesis)) {
            assert!(tail.p90 <= tail.p95 && tail.p95 <= tail.p99 && tail.p99 <= tail.max, "{tail:?}");
        }
        assert_eq!(CASES.iter().filter(|case| case.table.is_some()).count(), 10);
    }
}
