//! Loads the scheduler and gives processes their places by name or number, without a daemon, to
//! try the scheduler.
//!
//! `scx_stack [-v] [--share PERCENT] [--stats] [--counts FILE] [--programs] RULE...`
//!
//! A rule is `WHICH=LEVEL:QUANTUM_US`, `WHICH=other`, `WHICH=idle`, or
//! `NAME=reserve:BUDGET_US:PERIOD_US:wait` (or `:demote`, and perhaps `:CPU`). WHICH is a process' name or
//! number, or the path of a file that will hold a process' number.
//!
//! With `--programs` it prints for each of Spry's BPF programs the number of instructions that the kernel's
//! verifier went through, and ends. With `--counts` it writes the file four times a second. The file has the
//! corrected errors in the counts of queues (tasks), and the longest run of housekeeping (ns). It also has
//! the number of times that a task over its cgroup's limit got a CPU for no time, and the run time of each
//! class (ns).

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use libbpf_rs::ProgramType;
use libbpf_rs::query::ProgInfoIter;
use spry_policy::Tgid;
use spry_reservations::{Covers, Enforcer, OnExhaustion, Reservation, Terms};
use spry_scheduler::actuator::{Actuator, Class, Health, Verdict};
use spry_scheduler::collect::Collector;
use spry_scheduler::scx::{Log, Scx, ScxOptions};
use spry_sys::{Signal, signal};

/// The processes that a rule is about.
enum RuleSubject {
    Named(String),
    Numbered(u32),
    /// The path of a file that holds the number; the file may not exist yet.
    InFile(String),
}

/// A rule: the processes that it is about, and the place that it gives them.
struct Rule {
    which: RuleSubject,
    class: Class,
    level: u8,
    quantum_us: u32,
}

fn parse(text: &str) -> Result<Rule> {
    let (which, place) = text.split_once('=').with_context(|| format!("{text}: wants WHICH=PLACE"))?;
    let which = match which.parse() {
        Ok(tgid) => RuleSubject::Numbered(tgid),
        Err(_) if which.starts_with('/') => RuleSubject::InFile(which.to_owned()),
        Err(_) => RuleSubject::Named(which.chars().take(15).collect()),
    };
    let rule = |class, level, quantum_us| Ok(Rule { which, class, level, quantum_us });
    match place {
        "other" => rule(Class::Other, 0, 0),
        "idle" => rule(Class::Idle, 0, 0),
        _ => {
            let (level, quantum) =
                place.split_once(':').with_context(|| format!("{text}: wants LEVEL:US"))?;
            rule(Class::Interactive, level.parse()?, quantum.parse()?)
        }
    }
}

/// A reservation for the first thread of each process with a name.
struct Reserve {
    name: String,
    cpu: u32,
    terms: Terms,
}

fn parse_reserve(name: &str, text: &str) -> Result<Reserve> {
    let words: Vec<&str> = text.split(':').collect();
    let [budget, period, on_exhaustion, ref cpu @ ..] = words[..] else {
        bail!("{text}: wants BUDGET_US:PERIOD_US:wait, or :demote, and perhaps :CPU");
    };
    let ns = |us: &str| Ok::<u64, anyhow::Error>((us.parse::<f64>()? * 1000.0).round() as u64);
    let on_exhaustion = if on_exhaustion == "demote" { OnExhaustion::Demote } else { OnExhaustion::Wait };
    let terms = Terms { budget_ns: ns(budget)?, period_ns: ns(period)?, on_exhaustion };
    let cpu = cpu.first().map_or(Ok(0), |cpu| cpu.parse())?;
    Ok(Reserve { name: name.chars().take(15).collect(), cpu, terms })
}

/// Opens reservations for new processes and closes the reservations of processes that have exited. `open` has
/// each process' slot.
fn reserve(enforcer: &mut dyn Enforcer, rules: &[Reserve], open: &mut BTreeMap<u32, u32>) -> Result<()> {
    if rules.is_empty() {
        return Ok(());
    }
    let all = processes()?;
    for (&tid, comm) in &all {
        let Some(rule) = rules.iter().find(|rule| rule.name == *comm) else { continue };
        if open.contains_key(&tid) {
            continue;
        }
        let taken: Vec<u32> = open.values().copied().collect();
        let slot = (0..).find(|slot| !taken.contains(slot)).context("no slot is free")?;
        let covers = Covers::Thread { tid };
        let reservation = Reservation { slot, cpu: rule.cpu, terms: rule.terms, covers };
        enforcer.open(&reservation).with_context(|| format!("reserving for {comm}"))?;
        open.insert(tid, slot);
    }
    let ended: Vec<u32> = open.keys().copied().filter(|tid| !all.contains_key(tid)).collect();
    for tid in ended {
        let slot = open.remove(&tid).context("it was open")?;
        println!("{:?}", enforcer.measured(slot));
        enforcer.close(slot);
    }
    Ok(())
}

/// The numbers of all processes, with their names.
fn processes() -> Result<BTreeMap<u32, String>> {
    let entries = fs::read_dir("/proc").context("listing processes")?.filter_map(Result::ok);
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let named =
        |tgid| Some((tgid, fs::read_to_string(format!("/proc/{tgid}/comm")).ok()?.trim_end().to_owned()));
    Ok(entries.filter_map(number).filter_map(named).collect())
}

/// The verdicts of the rules; for each process the first rule that fits counts. Names are read only if a rule
/// has a name. Reading the names of a thousand processes takes longer than the CPU time that the scheduler
/// gives to its own process.
fn verdicts(rules: &[Rule]) -> Result<Vec<Verdict>> {
    let are_names_wanted = rules.iter().any(|rule| matches!(rule.which, RuleSubject::Named(_)));
    let named = if are_names_wanted { processes()? } else { BTreeMap::new() };
    let mut all = BTreeMap::new();
    for Rule { which, class, level, quantum_us } in rules {
        let tgids: Vec<u32> = match which {
            RuleSubject::Named(name) => {
                named.iter().filter(|(_, comm)| *comm == name).map(|(&tgid, _)| tgid).collect()
            }
            RuleSubject::Numbered(tgid) => vec![*tgid],
            RuleSubject::InFile(path) => {
                fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).into_iter().collect()
            }
        };
        for tgid in tgids {
            let verdict = Verdict { tgid: Tgid(tgid), class: *class, level: *level, quantum_us: *quantum_us };
            all.entry(tgid).or_insert(verdict);
        }
    }
    Ok(all.into_values().collect())
}

/// Prints the number of instructions that the verifier checked, for each loaded BPF program of Spry.
fn programs() {
    for program in ProgInfoIter::default() {
        let name = program.name.to_string_lossy();
        if name.starts_with("spry_") || program.ty == ProgramType::StructOps {
            println!("program {name} {}", program.verified_insns);
        }
    }
}

fn main() -> Result<()> {
    let mut options = ScxOptions::default();
    let (mut rules, mut with_stats, mut with_programs) = (Vec::new(), false, false);
    let (mut counts, mut reserved, mut open) = (None, Vec::new(), BTreeMap::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-v" => options.log = Log::Verifier,
            "--stats" => with_stats = true,
            "--programs" => with_programs = true,
            "--counts" => counts = Some(args.next().context("--counts wants a file")?),
            "--share" => options.background_share = args.next().context("--share wants a number")?.parse()?,
            _ => match arg.split_once("=reserve:") {
                Some((name, terms)) => reserved.push(parse_reserve(name, terms)?),
                None => rules.push(parse(&arg)?),
            },
        }
    }
    let stopped = signal::note(&[Signal::INT, Signal::TERM]);
    let collector = Collector::open(&spry_policy::Constants::default())?;
    let mut scx = Scx::load(&collector, &options)?;
    for warning in scx.warnings() {
        eprintln!("{warning}");
    }
    if with_programs {
        programs();
        return Ok(());
    }
    let mut enforcer = scx.enforcer();
    while !stopped.load(Ordering::Relaxed) {
        scx.apply(&verdicts(&rules)?)?;
        if let Some(enforcer) = &mut enforcer {
            reserve(&mut **enforcer, &reserved, &mut open)?;
        }
        if let Health::Ejected(why) = scx.health() {
            bail!("ejected: {why}");
        }
        if let Some(file) = &counts {
            let stats = scx.stats();
            let mut text = format!(
                "miscounted {}\nhousekeeping_longest_ns {}\npassed_by {}\npassed_inside {}\npass_ns {}\n",
                stats.miscounted,
                stats.housekeeping_longest_ns,
                stats.passed_by,
                stats.passed_inside,
                stats.pass_ns
            );
            for (class, stats) in stats.classes {
                text += &format!("{class:?} ran {}\n", stats.ran_ns);
            }
            fs::write(file, text).context(file.clone())?;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    if with_stats {
        println!("{:#?}", scx.stats());
    }
    Ok(())
}
