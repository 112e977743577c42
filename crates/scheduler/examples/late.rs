//! A loop that takes another name while it runs, by which it may be given a place: how long it waited for the CPU
//! since. `late NAME SECONDS`: it runs for a second before, and for so many after.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Runs so long; the longest time between two looks at the clock.
fn spin(run: Duration) -> Duration {
    let begin = Instant::now();
    let (mut last, mut longest) = (begin, Duration::ZERO);
    while begin.elapsed() < run {
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest.max(last.elapsed())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let name = args.next().context("which name")?;
    let run = Duration::from_secs(args.next().context("how many seconds")?.parse()?);
    let before = spin(Duration::from_secs(1));
    std::fs::write("/proc/self/comm", name).context("taking a name")?;
    let after = spin(run);
    println!("waited {} ms before, {} ms after", before.as_millis(), after.as_millis());
    Ok(())
}
