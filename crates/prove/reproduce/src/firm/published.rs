//! The paper's printed values on firm timers (Goel et al. 2002, 4.3.2).

/// The costs of a hard timer, of a soft timer and of a check, us.
pub const COSTS_US: [f64; 3] = [8.0, 1.0, 0.15];

/// The overhead of hard and firm timers beside 20 timer processes of 10 ms, percent of standard Linux.
pub const TWENTY_PERCENT: f64 = 1.5;

/// The gain of an overshoot of 500 us over hard timers in a case, percent.
pub fn gain_percent(case: &str) -> Option<f64> {
    match case {
        "20-10ms" => Some(0.5),
        "50-10ms" => Some(1.6),
        "20-1ms" => Some(8.0),
        _ => None,
    }
}

/// What differs from the paper's evaluation, and the reasons.
pub const LEFT_OUT: [&str; 4] = [
    "Standard Linux of the time had timers at ticks of 10 ms. In its place the same kernel is booted without \
     high-resolution timers (highres=off nohz=off).",
    "The paper's picture, skyvase, is not in the distribution. povray renders the scene of its own benchmark \
     in its place, smaller, in one thread.",
    "The lab counts instructions: it has no caches, so an interrupt pollutes none. The paper names that \
     pollution as a part of a hard timer's cost.",
    "The paper ran each bar eight times. In the lab a bar repeats to the digit; seeds vary it.",
];
