//! Measures firm timers beside the stock way of sleeping for timers, under one load and in turn.
//!
//! `measure [--rounds 5] [--seconds 1] [--only PART] [--json]`

mod firm;
mod load;
mod micro;
mod others;
mod results;
mod ring;
mod runtime;
mod stock;

use std::time::Duration;

use anyhow::{Context, Result, bail};

use load::Outcome;

/// One way to serve the load's timers, with some values of its parameter.
struct Way {
    /// The name in the results; its end names the parameter. The first word is the load: `sleep` is a program
    /// that only waits, `work` a program that always has work.
    name: &'static str,
    /// The values of the parameter, in us.
    settings_us: &'static [u64],
    /// Serves the load's timers for the given time.
    run: fn(setting_us: u64, Duration) -> Result<Outcome>,
}

const WAYS: &[Way] = &[
    Way { name: "sleep epoll_pwait2, slack", settings_us: &[50, 500], run: stock::sleeps },
    Way { name: "sleep firm, overshoot", settings_us: &[50, 500], run: firm::sleeps },
    Way { name: "sleep io_uring firm, overshoot", settings_us: &[50, 500], run: ring::sleeps },
    Way {
        name: "work beside epoll_pwait2, slack",
        settings_us: &[20, 50, 100, 200, 500, 1000],
        run: stock::sleeps_beside_work,
    },
    Way { name: "work with epoll_pwait2 each", settings_us: &[20], run: stock::works },
    Way { name: "work firm, a check each", settings_us: &[20, 50, 100, 200, 400, 800], run: firm::works },
    Way { name: "sleep tokio's interval", settings_us: &[0], run: runtime::tokio_sleeps },
    Way { name: "sleep tokio firm, overshoot", settings_us: &[100, 500], run: runtime::firm_sleeps },
    Way { name: "work tokio's interval", settings_us: &[0], run: runtime::tokio_works },
    Way { name: "work tokio firm, overshoot", settings_us: &[100, 1000], run: runtime::firm_works },
];

/// A way with a value of its parameter.
pub struct Variant {
    /// The way's name.
    pub name: &'static str,
    /// The value, in us.
    pub setting_us: u64,
    run: fn(setting_us: u64, Duration) -> Result<Outcome>,
}

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
    let variants = WAYS.iter().flat_map(|&Way { name, settings_us, run }| {
        settings_us.iter().map(move |&setting_us| Variant { name, setting_us, run })
    });
    let is_chosen = |it: &Variant| format!("{} {}", it.name, it.setting_us).contains(&arguments.only);
    let chosen: Vec<Variant> = variants.filter(is_chosen).collect();
    let mut outcomes: Vec<Vec<Outcome>> = chosen.iter().map(|_| Vec::new()).collect();
    for _ in 0..arguments.rounds {
        for (variant, outcomes) in chosen.iter().zip(&mut outcomes) {
            outcomes.push((variant.run)(variant.setting_us, arguments.time)?);
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
