//! `x11-frames`: counts the frames that another task shows, without its help.

use std::time::Duration;

use spry_scenario::kinds::x11::{FrameRate, Frames};
use spry_scenario::metrics::Metrics;
use x11rb::protocol::xproto::{ConnectionExt as _, Window};

use super::observer;
use crate::RunError;
use crate::stage::{Stage, Start};
use crate::x11::client::Client;
use crate::x11::damage::{DamageWatch, Level, Sight};
use crate::x11::{X11Error, target};

/// How long the watched task may take to show a window.
const PATIENCE: Duration = Duration::from_secs(180);

/// Watches a window by DAMAGE: each drawing that covers at least half of the window is a frame.
pub(in crate::kinds) fn play(frames: &Frames, stage: &Stage) -> Result<Metrics, RunError> {
    let client = Client::connect(observer::display(stage)?)?;
    let window = target::wait_for(&client, &frames.target, PATIENCE)?;
    let area_min = half_of(&client, window)?;
    let watch = DamageWatch::begin(client, window, Level::Each)?;
    let start = stage.start_line()?;
    let mut metrics = Metrics::new();
    observer::raise(stage, &mut metrics);
    let mut count = Count::new(start);
    while !stage.over() {
        match watch.next(start.measure_to_ns)? {
            Some((at, Sight::Drawn { area })) if area >= area_min => count.frame(at),
            Some((_, Sight::Gone)) => {
                return Err(X11Error::TargetGone { task: frames.target.clone() }.into());
            }
            Some(_) => {}
            None => break,
        }
    }
    count.tell(frames.due, &mut metrics);
    Ok(metrics)
}

fn half_of(client: &Client, window: Window) -> Result<u32, X11Error> {
    let size = client.connection().get_geometry(window)?.reply()?;
    Ok((u32::from(size.width) * u32::from(size.height)).div_ceil(2))
}

/// Counts the frames within the measured time, and measures the longest time without a frame.
#[derive(Debug)]
struct Count {
    start: Start,
    last_ns: u64,
    shown: u64,
    gap_ns_max: u64,
}

impl Count {
    fn new(start: Start) -> Self {
        Self { start, last_ns: start.measure_from_ns, shown: 0, gap_ns_max: 0 }
    }

    fn frame(&mut self, at_ns: u64) {
        if self.start.counts(at_ns) {
            self.gap_ns_max = self.gap_ns_max.max(at_ns - self.last_ns);
            self.last_ns = at_ns;
            self.shown += 1;
        }
    }

    fn tell(self, due: FrameRate, metrics: &mut Metrics) {
        let Start { measure_from_ns, measure_to_ns, .. } = self.start;
        let gap_ns_max = self.gap_ns_max.max(measure_to_ns - self.last_ns);
        let seconds = (measure_to_ns - measure_from_ns) as f64 / 1e9;
        match due {
            FrameRate::PerSecond(fps) => {
                metrics.count("frames_shown", self.shown);
                metrics.count("frames_due", (fps * seconds).round() as u64);
            }
            FrameRate::AsMany => metrics.ratio("frames_per_second", self.shown as f64 / seconds),
        }
        metrics.greatest("gap_ns_max", gap_ns_max);
    }
}
