//! Loads the scheduler and gives processes their places by name or number, without a daemon: for trying it.
//!
//! `scx_stack [-v] [--share PERCENT] [--stats] [--miscounts FILE] [--programs]
//! [COMM|PID=LEVEL:QUANTUM_US | COMM|PID=other | COMM|PID=idle]...`; with `--programs` it says of each of Spry's
//! programs how many instructions the kernel's verifier went through, and ends; with `--miscounts` the file says how
//! many tasks were counted in queues and were not there.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use libbpf_rs::ProgramType;
use libbpf_rs::query::ProgInfoIter;
use spry_policy::Tgid;
use spry_scheduler::actuator::{Actuator, Class, Health, Verdict};
use spry_scheduler::collect::Collector;
use spry_scheduler::scx::{Log, Scx, ScxOptions};

/// Whom a rule is about, and what it gives.
struct Rule {
    whom: String,
    class: Class,
    level: u8,
    quantum_us: u32,
}

fn parse(text: &str) -> Result<Rule> {
    let (whom, place) = text.split_once('=').with_context(|| format!("{text}: wants COMM=PLACE"))?;
    let rule = |class, level, quantum_us| {
        Ok(Rule { whom: whom.chars().take(15).collect(), class, level, quantum_us })
    };
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

/// The processes that there are, with their names.
fn processes() -> Result<BTreeMap<u32, String>> {
    let entries = fs::read_dir("/proc").context("listing processes")?.filter_map(Result::ok);
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let named =
        |tgid| Some((tgid, fs::read_to_string(format!("/proc/{tgid}/comm")).ok()?.trim_end().to_owned()));
    Ok(entries.filter_map(number).filter_map(named).collect())
}

fn verdicts(rules: &[Rule]) -> Result<Vec<Verdict>> {
    let mut all = Vec::new();
    for (tgid, comm) in processes()? {
        let of = |rule: &&Rule| rule.whom == comm || rule.whom == tgid.to_string();
        if let Some(&Rule { class, level, quantum_us, .. }) = rules.iter().find(of) {
            all.push(Verdict { tgid: Tgid(tgid), class, level, quantum_us });
        }
    }
    Ok(all)
}

/// What the verifier went through for each program of Spry's that is loaded.
fn programs() {
    for program in ProgInfoIter::default() {
        let name = program.name.to_string_lossy();
        if name.starts_with("spry_") || program.ty == ProgramType::StructOps {
            println!("program {name} {}", program.verified_insns);
        }
    }
}

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn stop(_: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

fn main() -> Result<()> {
    let mut options = ScxOptions::default();
    let (mut rules, mut with_stats, mut with_programs) = (Vec::new(), false, false);
    let mut miscounts = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-v" => options.log = Log::Verifier,
            "--stats" => with_stats = true,
            "--programs" => with_programs = true,
            "--miscounts" => miscounts = Some(args.next().context("--miscounts wants a file")?),
            "--share" => options.background_share = args.next().context("--share wants a number")?.parse()?,
            _ => rules.push(parse(&arg)?),
        }
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic.
        unsafe { libc::signal(signal, stop as *const () as libc::sighandler_t) };
    }
    let collector = Collector::open(&spry_policy::Constants::default())?;
    let mut scx = Scx::load(&collector, &options)?;
    for warning in scx.warnings() {
        eprintln!("{warning}");
    }
    if with_programs {
        programs();
        return Ok(());
    }
    while !STOP.load(Ordering::Relaxed) {
        scx.apply(&verdicts(&rules)?)?;
        if let Health::Ejected(why) = scx.health() {
            bail!("ejected: {why}");
        }
        if let Some(file) = &miscounts {
            fs::write(file, format!("miscounted {}\n", scx.stats().miscounted)).context(file.clone())?;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    if with_stats {
        println!("{:#?}", scx.stats());
    }
    Ok(())
}
