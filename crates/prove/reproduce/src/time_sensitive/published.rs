//! The paper's printed values (Goel et al. 2002): table 1, and the values in its text on figures 2 to 5.

/// The greatest deviations of a thread of table 1 beside a load: of the boundary of a period, and of the
/// allocation in a period, us. `None` for loads that the paper did not have.
pub fn deviations(thread: &str, load: &str) -> Option<(f64, f64)> {
    match (thread, load) {
        ("one", "none") => Some((5.0, 25.0)),
        ("two", "none") => Some((10.0, 3.0)),
        ("one", "file-system") => Some((534.0, 490.0)),
        ("two", "file-system") => Some((97.0, 20.0)),
        _ => None,
    }
}

/// The greatest skews beside a load, each with its system, us.
pub fn skews(load: &str) -> &'static [(&'static str, f64)] {
    match load {
        "none" => &[("Linux", 5_000.0)],
        "user" => &[
            ("Linux, X server normal", 50_000.0),
            ("TSL, X server normal", 35_000.0),
            ("TSL, X server real-time", 250.0),
            ("Linux-SRT", 7_000.0),
        ],
        "kernel" => &[("Linux", 90_000.0), ("TSL", 400.0), ("Linux-SRT", 60_000.0)],
        "file-system" => &[("Linux", 12_000.0), ("TSL", 500.0), ("Linux-SRT", 30_000.0)],
        _ => &[],
    }
}

/// The parts of the paper's evaluation that are not repeated, and the reasons.
pub const LEFT_OUT: [&str; 3] = [
    "Figure 5 has Linux-SRT, which no longer exists; in its place, as in that of Linux in figures 3 and 4, \
     is a kernel with exact timers that is not preempted (fifo-none).",
    "The sound card is the kernel's snd-dummy, which drops what it plays by a timer and cannot be late: all \
     skew is the picture's. The constant part of it, by which the median frame is late, is left out.",
    "Figures 6 to 8, the costs of firm timers, are a study of their own (--firm). Section 4.3.1, the cost of \
     preemption checks against Linux 2.4, is left out: today's kernels have them all.",
];
