//! A loop that prints its longest wait for the CPU before and after it could be given a place. `late FILE
//! SECONDS`: the loop runs for a second, and writes its process' number into the file. Another program may
//! then give it a place. After that the loop runs for SECONDS.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Runs for the time `run`. Returns the longest time between two readings of the clock.
fn spin(run: Duration) -> Duration {
    let begin = Instant::now();
    let (mut last, mut longest) = (begin, Duration::ZERO);
    while begin.elapsed() < run {
        spry_attacks::work();
        let now = Instant::now();
        longest = longest.max(now - last);
        last = now;
    }
    longest.max(last.elapsed())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let file = args.next().context("which file")?;
    let run = Duration::from_secs(args.next().context("how many seconds")?.parse()?);
    let before = spin(Duration::from_secs(1));
    std::fs::write(file, std::process::id().to_string()).context("writing the number")?;
    let after = spin(run);
    println!("waited {} ms before, {} ms after", before.as_millis(), after.as_millis());
    Ok(())
}
