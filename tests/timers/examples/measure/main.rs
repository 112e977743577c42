//! Measures firm timers beside the stock way of sleeping for timers, under one load and in turn.
//!
//! `measure [--rounds 5] [--seconds 1] [--only PART] [--json]`

mod firm;
mod load;
mod micro;
mod results;
mod stock;

use std::time::Duration;

use anyhow::{Context, Result, bail};

use load::Outcome;

/// One way to serve the load's timers.
pub struct Variant {
    /// The name in the results.
    pub name: &'static str,
    /// The slack, or the overshoot, in us.
    pub late_us: u64,
    /// Serves the load's timers for a time.
    pub run: fn(late_us: u64, Duration) -> Result<Outcome>,
}

/// What is compared. The first word is the load: `sleep` is a program without other work, `work` one with a
/// point at which it can check after each 20 us.
const VARIANTS: &[Variant] = &[
    Variant { name: "sleep epoll_pwait2", late_us: 50, run: stock::sleeps },
    Variant { name: "sleep epoll_pwait2", late_us: 500, run: stock::sleeps },
    Variant { name: "sleep firm", late_us: 50, run: firm::sleeps },
    Variant { name: "sleep firm", late_us: 500, run: firm::sleeps },
    Variant { name: "work beside epoll_pwait2", late_us: 50, run: stock::sleeps_beside_work },
    Variant { name: "work beside epoll_pwait2", late_us: 500, run: stock::sleeps_beside_work },
    Variant { name: "work epoll_pwait2 at each point", late_us: 0, run: stock::works },
    Variant { name: "work firm", late_us: 50, run: firm::works },
    Variant { name: "work firm", late_us: 500, run: firm::works_in_long_pieces },
];

struct Arguments {
    rounds: usize,
    time: Duration,
    only: String,
    form: results::Form,
}

fn arguments() -> Result<Arguments> {
    let mut parsed =
        Arguments { rounds: 5, time: Duration::from_secs(1), only: String::new(), form: results::Form::Text };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().with_context(|| format!("{word} needs a value"));
        match word.as_str() {
            "--rounds" => parsed.rounds = value()?.parse().context("a number of rounds")?,
            "--seconds" => parsed.time = Duration::from_secs_f64(value()?.parse().context("seconds")?),
            "--only" => parsed.only = value()?,
            "--json" => parsed.form = results::Form::Json,
            _ => bail!("unknown argument '{word}': --rounds N, --seconds S, --only PART, --json"),
        }
    }
    if parsed.rounds == 0 {
        bail!("a number of rounds is 1 or more, not 0");
    }
    Ok(parsed)
}

fn main() -> Result<()> {
    let arguments = arguments()?;
    let chosen: Vec<&Variant> = VARIANTS
        .iter()
        .filter(|it| format!("{} {}", it.name, it.late_us).contains(&arguments.only))
        .collect();
    let mut outcomes: Vec<Vec<Outcome>> = chosen.iter().map(|_| Vec::new()).collect();
    for _ in 0..arguments.rounds {
        for (variant, outcomes) in chosen.iter().zip(&mut outcomes) {
            outcomes.push((variant.run)(variant.late_us, arguments.time)?);
        }
    }
    let rows: Vec<results::Row> = chosen
        .iter()
        .zip(&outcomes)
        .map(|(variant, outcomes)| results::Row::new(variant, outcomes))
        .collect();
    let operations = if arguments.only.is_empty() { micro::operations(arguments.rounds) } else { Vec::new() };
    results::print(arguments.form, arguments.rounds, arguments.time, &rows, &operations);
    Ok(())
}
