//! `spry tune` without a command: sets the tick and the quanta of the scheduler's daemon, and shows them.

use std::process::ExitCode;

use anyhow::{Context, Error, Result, anyhow, bail};
use serde_json::json;
use spry_control::{
    Answer, Client, Quanta, QuantumClass, QuantumUs, Request, Status, TickCost, Ticks, Tuning,
};
use spry_page::words::{count_f64, duration_f64, percent};
use spry_tune::Class;

use crate::args::{Quantum, TuneArgs};
use crate::{exit, output, sched, top};

/// A request to the daemon: which knobs get which values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KnobRequest {
    /// Show the knobs.
    Nothing,
    /// Return to the scheduler's own tick and quanta.
    Default,
    /// Set the tick and the quantum of OTHER, or return to the scheduler's own.
    Tuning(Option<Tuning>),
    /// Set the quantum of another class, or return to the scheduler's own.
    Class(QuantumClass, Option<QuantumUs>),
}

/// Makes the daemon set its tick or a quantum, which hold until the next change or its end; or shows them.
pub fn run(args: &TuneArgs) -> Result<ExitCode> {
    let asked = asked(args).map_err(|error| exit::CodedError::wrap(exit::WRONG_USAGE, error))?;
    let mut client = Client::connect(&args.socket.path()).context(
        "without a command the scheduler daemon is asked: start it with `sudo spry sched run`, or give a \
         command after --",
    )?;
    let (json, text) = match asked {
        KnobRequest::Nothing => {
            let status = client.status()?;
            let Status { actuator, tuning, quanta, ticks, .. } = &status;
            let json = json!({ "actuator": actuator, "tuning": tuning, "quanta": quanta, "ticks": ticks });
            (json, shown(&status))
        }
        KnobRequest::Default => {
            tell(&mut client, &Request::Tune { tuning: None })?;
            for class in QuantumClass::ALL {
                tell(&mut client, &Request::TuneClass { class, quantum_us: None })?;
            }
            let json = json!({ "tuning": null, "quanta": Quanta::default() });
            (json, "tick and quanta are the scheduler's own again".to_owned())
        }
        KnobRequest::Tuning(tuning) => {
            (json!({ "tuning": tuning }), tell(&mut client, &Request::Tune { tuning })?)
        }
        KnobRequest::Class(class, quantum_us) => {
            let text = tell(&mut client, &Request::TuneClass { class, quantum_us })?;
            (json!({ "class": class, "quantum_us": quantum_us }), text)
        }
    };
    let text = if args.json { json.to_string() } else { text };
    output::print(&(text + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// The request of the arguments.
fn asked(args: &TuneArgs) -> Result<KnobRequest> {
    let tick_hz = args.tick_hz.as_deref().map(spry_tune::tick_hz).transpose()?;
    let quantum_us = args.quantum_us.as_deref().map(spry_tune::quantum_us).transpose()?;
    // All values within the limits fit into 32 bits.
    let (tick_hz, quantum_us) = (tick_hz.map(|hz| hz as u32), quantum_us.map(|us| us as u32));
    match args.class.map(|class| class.quantum()) {
        Some(Quantum::None(reason)) => bail!(reason),
        Some(Quantum::Daemon(class)) if tick_hz.is_some() => {
            bail!("the tick is the same for all classes: set it without --class {class}")
        }
        Some(Quantum::Daemon(class)) => {
            Ok(KnobRequest::Class(class, quantum_us.map(QuantumUs::try_from).transpose()?))
        }
        Some(Quantum::Kernel(Class::RoundRobin)) => {
            Err(anyhow!("the round-robin quantum is set while a command runs: give one after --"))
        }
        Some(Quantum::Kernel(Class::Fair)) if args.default => Ok(KnobRequest::Tuning(None)),
        None if args.default => Ok(KnobRequest::Default),
        None if tick_hz.is_none() && quantum_us.is_none() => Ok(KnobRequest::Nothing),
        None | Some(Quantum::Kernel(Class::Fair)) => {
            Ok(KnobRequest::Tuning(Some(Tuning::new(tick_hz, quantum_us)?)))
        }
    }
}

/// Makes a request. Returns the daemon's description of the change.
fn tell(client: &mut Client, request: &Request) -> Result<String, Error> {
    match client.ask(request)? {
        Answer::Done(done) => Ok(top::plain(&done.text)),
        _ => bail!("the scheduler daemon answered something else: is it of the same version?"),
    }
}

/// The knobs in words, and what the tick costs.
fn shown(status: &Status) -> String {
    if status.actuator != "scx" {
        return format!("{}: only sched_ext has a tick and quanta to set", sched::doing(status));
    }
    let other = status.tuning.map_or_else(own, |tuning| tuning.to_string());
    let mut lines = vec![format!("other: {other}")];
    lines.extend(QuantumClass::ALL.map(|class| {
        let quantum = status.quanta.of(class).map_or_else(own, |quantum| quantum.to_string());
        format!("{class}: {quantum}")
    }));
    lines.extend(status.ticks.as_ref().map(cost));
    lines.join("\n")
}

fn own() -> String {
    "the scheduler's own".to_owned()
}

/// The lines of a status about the knobs that are set, and about the cost of the tick.
pub fn lines(status: &Status) -> impl Iterator<Item = String> {
    let tuning = status.tuning.map(|tuning| format!("tuned: {tuning}"));
    let quanta = QuantumClass::ALL.map(|class| {
        let quantum = status.quanta.of(class)?;
        Some(format!("tuned: {quantum} for {class}"))
    });
    tuning.into_iter().chain(quanta.into_iter().flatten()).chain(status.ticks.as_ref().map(cost))
}

/// The cost of the tick: `the tick: 10,000 callbacks a second on 2 CPUs, 2.80 us each, 2.8 % of a CPU`.
fn cost(ticks: &Ticks) -> String {
    let cpus = ticks.cpus.len();
    let on = if cpus == 1 { "1 CPU".to_owned() } else { format!("{cpus} CPUs") };
    match rate_and_cost(&ticks.all) {
        None => "the tick: no callback in the latest second".to_owned(),
        Some((rate, cost)) => {
            format!("the tick: {rate} callbacks a second on {on}, {cost} (interrupt entry not counted)")
        }
    }
}

/// The cost of the tick in a few words, for `spry top`.
pub fn cost_in_short(ticks: &Ticks) -> String {
    match rate_and_cost(&ticks.all) {
        None => "tick 0/s".to_owned(),
        Some((rate, cost)) => format!("tick {rate}/s, {cost} without interrupt entry"),
    }
}

/// The callbacks a second, and their cost: `2.80 us each, 2.8 % of a CPU`. `None` without a callback.
fn rate_and_cost(all: &TickCost) -> Option<(String, String)> {
    let each = duration_f64(all.callback_ns?);
    Some((count_f64(all.per_s.round()), format!("{each} each, {} of a CPU", percent(all.cpu_share))))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use spry_control::TicksOfCpu;

    use super::*;
    use crate::args::{Args, Command};

    fn read(words: &str) -> Result<KnobRequest, String> {
        let words = ["spry", "tune"].into_iter().chain(words.split_whitespace());
        let Command::Tune(args) = Args::parse_from(words).command else { panic!("another command") };
        asked(&args).map_err(|error| error.to_string())
    }

    fn quantum(us: u32) -> Option<QuantumUs> {
        Some(QuantumUs::try_from(us).expect("it is within the limits"))
    }

    #[test]
    fn each_class_is_asked_for_by_its_name() {
        assert_eq!(read(""), Ok(KnobRequest::Nothing));
        assert_eq!(read("--default"), Ok(KnobRequest::Default));
        assert_eq!(read("--default --class fair"), Ok(KnobRequest::Tuning(None)));
        let idle = QuantumClass::Idle;
        assert_eq!(read("--default --class idle"), Ok(KnobRequest::Class(idle, None)));
        assert_eq!(read("--class idle --quantum-us 50"), Ok(KnobRequest::Class(idle, quantum(50))));
        let in_use = KnobRequest::Class(QuantumClass::Interactive, quantum(100_000));
        assert_eq!(read("--class interactive --quantum-us 100000"), Ok(in_use));
        let tuning = Tuning::new(Some(1_000), Some(2_000)).ok();
        for class in ["", "--class fair", "--class other"] {
            assert_eq!(
                read(&format!("--tick-hz 1000 --quantum-us 2000 {class}")),
                Ok(KnobRequest::Tuning(tuning))
            );
        }
    }

    #[test]
    fn impossible_requests_get_one_line_with_the_reason() {
        for (words, reason) in [
            ("--class idle --quantum-us 0", "50 to 100000"),
            ("--class interactive --quantum-us 100001", "50 to 100000"),
            ("--class interactive --quantum-us 3ms", "50 to 100000"),
            ("--class idle --quantum-us 500 --tick-hz 1000", "the tick is the same for all classes"),
            ("--class rr --quantum-us 5000", "while a command runs"),
            ("--class reserved --quantum-us 500", "its reservation's budget"),
            ("--class daemon --quantum-us 500", "within a budget"),
            ("--default --class kthread", "within a budget"),
            ("--tick-hz 0", "100 to 20000"),
        ] {
            let said = read(words).expect_err("it cannot be");
            assert!(said.contains(reason) && said.lines().count() == 1, "{words}: {said}");
        }
    }

    #[test]
    fn the_cost_says_that_interrupt_entry_is_not_in_it() {
        let one = TickCost::new(5_000, 14_000_000, 1_000_000_000);
        let mut ticks = Ticks { over_s: 1.0, all: one, cpus: vec![TicksOfCpu { cpu: 1, cost: one }] };
        let words = ["5,000", "on 1 CPU,", "2.80 us each", "1.4 % of a CPU", "interrupt entry not counted"];
        let said = cost(&ticks);
        assert!(words.iter().all(|words| said.contains(words)), "{said}");
        assert!(cost_in_short(&ticks).contains("2.80 us each, 1.4 % of a CPU without interrupt entry"));
        ticks.all = TickCost::new(0, 0, 1_000_000_000);
        assert!(cost(&ticks).contains("no callback") && cost_in_short(&ticks) == "tick 0/s");
    }
}
