//! Progress bars. They are shown on standard error, only on a terminal, and only for work that
//! takes some time.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// How often a bar is redrawn, Hz.
const RATE_HZ: u8 = 8;

/// A bar over the bytes of a trace that is being read.
pub fn reading(bytes: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("  reading [{bar:40}] {bytes}/{total_bytes}  {eta} left")
        .expect("the template is right")
        .progress_chars("=> ");
    ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr_with_hz(RATE_HZ)).with_style(style)
}

/// A bar over the time that a recording takes. If that time is not known, it shows the time that has passed.
pub fn recording(duration: Option<Duration>) -> ProgressBar {
    over_time("recording", duration)
}

/// A bar over the time that loads run. If that time is not known, it shows the time that has passed.
pub fn loading(duration: Option<Duration>) -> ProgressBar {
    over_time("loading", duration)
}

fn over_time(what: &str, duration: Option<Duration>) -> ProgressBar {
    let template = match duration {
        Some(_) => format!("  {what} [{{bar:30}}] {{msg}}"),
        None => format!("  {what} {{spinner}} {{msg}}"),
    };
    let style = ProgressStyle::with_template(&template).expect("the template is right").progress_chars("=> ");
    let length = duration.map(|duration| duration.as_millis() as u64);
    ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(RATE_HZ)).with_style(style)
}

/// A bar over the time or the samples of a latency measurement. If the measurement has no end, it shows the
/// time that has passed.
pub fn sampling(length: Option<u64>) -> ProgressBar {
    let template = match length {
        Some(_) => "  sampling [{bar:20}] {msg}",
        None => "  sampling {spinner} {msg}",
    };
    let style = ProgressStyle::with_template(template).expect("the template is right").progress_chars("=> ");
    ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(RATE_HZ)).with_style(style)
}

/// A bar over the time that the benchmarks take.
pub fn measuring(duration: Duration) -> ProgressBar {
    let style = ProgressStyle::with_template("  measuring [{bar:30}] {percent} % of about {prefix}  {msg}")
        .expect("the template is right")
        .progress_chars("=> ");
    let length = Some(duration.as_millis() as u64);
    let bar =
        ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr_with_hz(RATE_HZ)).with_style(style);
    bar.set_prefix(format!("{} s", duration.as_secs_f64().ceil()));
    bar
}

/// A bar over the time that the cells of a run take.
pub fn cells(cells: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("  running [{bar:30}] {msg}")
        .expect("the template is right")
        .progress_chars("=> ");
    let bar =
        ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr_with_hz(RATE_HZ)).with_style(style);
    bar.set_message(format!("0 of {cells} cells"));
    bar
}

/// A line that shows what the command is preparing.
pub fn step() -> ProgressBar {
    let style = ProgressStyle::with_template("  {spinner} {prefix} {msg}").expect("the template is right");
    ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(RATE_HZ)).with_style(style)
}
