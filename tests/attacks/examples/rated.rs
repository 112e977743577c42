//! A producer and a consumer with a pipe between them: `rated produce PHASE... | rated consume`, where a
//! phase is `RATE:WORK_US:SECONDS`. The producer writes RATE blocks of 1 KiB a second, and the consumer works
//! for WORK_US on each block. For each phase the producer prints the pipe's fill levels, without the first
//! BEFORE (5) seconds.

use std::io::{Read, Write};

use anyhow::{Context, Result, bail};
use spry_sys::clock::{monotonic_ns, sleep_until, thread_cpu_ns};
use spry_sys::queue::PipeEnd;

const BLOCK: usize = 1024;

fn consume() -> Result<()> {
    let mut input = std::io::stdin().lock();
    let mut block = [0; BLOCK];
    while input.read_exact(&mut block).is_ok() {
        let mut work = [0; 8];
        work.copy_from_slice(&block[..8]);
        let until_ns = thread_cpu_ns() + u64::from_le_bytes(work);
        while thread_cpu_ns() < until_ns {
            spry_attacks::work();
        }
    }
    Ok(())
}

fn produce(number: usize, phase: &str, before_s: f64, pipe: &PipeEnd) -> Result<()> {
    let words: Vec<f64> = phase.split(':').map(str::parse).collect::<Result<_, _>>().context("a phase")?;
    let [rate, work_us, seconds] = words[..] else { bail!("{phase}: wants RATE:WORK_US:SECONDS") };
    let mut block = [0; BLOCK];
    block[..8].copy_from_slice(&((work_us * 1e3) as u64).to_le_bytes());
    let (began_ns, mut fills, mut output) = (monotonic_ns(), Vec::new(), std::io::stdout().lock());
    for at in 0..(rate * seconds) as u64 {
        sleep_until(began_ns + (at as f64 / rate * 1e9) as u64);
        if monotonic_ns() - began_ns > (before_s * 1e9) as u64 {
            fills.push(pipe.fill().context("the pipe")? * 100.0);
        }
        output.write_all(&block)?;
        output.flush()?;
    }
    fills.sort_by(f64::total_cmp);
    let of =
        |percent: usize| fills.get(fills.len() * percent / 100).or(fills.last()).copied().unwrap_or(-1.0);
    let took_s = (monotonic_ns() - began_ns) as f64 / 1e9;
    eprintln!(
        "phase {number} least {:.0} p5 {:.0} median {:.0} p95 {:.0} most {:.0} % took {took_s:.2} s",
        of(0),
        of(5),
        of(50),
        of(95),
        of(100)
    );
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.split_first().map(|(what, phases)| (what.as_str(), phases)) {
        Some(("consume", [])) => consume(),
        Some(("produce", phases)) => {
            let before = std::env::var("BEFORE").unwrap_or_default().parse().unwrap_or(5.0);
            let pipe = PipeEnd::of(std::process::id(), 1)?.context("standard output is no pipe")?;
            phases.iter().enumerate().try_for_each(|(at, phase)| produce(at + 1, phase, before, &pipe))
        }
        _ => bail!("wants produce or consume"),
    }
}
