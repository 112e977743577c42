//! `x11-frames`: counts the frames that another task shows, without its help.

use std::time::Duration;

use x11rb::protocol::xproto::{ConnectionExt as _, Window};

use super::client::Client;
use super::damage::{Level, Sight, Watch};
use super::{X11Error, observer, target};
use crate::keys::Keys;
use crate::kinds::{Kind, Role};
use crate::metrics::Metrics;
use crate::mistake::Mistake;
use crate::runner::RunError;
use crate::runner::stage::Stage;

/// How long the watched task may take to show a window.
const PATIENCE: Duration = Duration::from_secs(180);

/// The kind of task.
pub static FRAMES: Frames = Frames;

/// Watches a window by DAMAGE: each drawing that covers at least half of it is a frame.
#[derive(Debug)]
pub struct Frames;

#[derive(Debug)]
struct Counting {
    target: String,
    due: Due,
}

/// What there should be to see.
#[derive(Debug, Clone, Copy)]
enum Due {
    /// A film's frames.
    PerSecond(f64),
    /// As many as the program manages.
    AsMany,
}

impl Kind for Frames {
    fn name(&self) -> &'static str {
        "x11-frames"
    }

    fn about(&self) -> &'static str {
        "counts the frames that a task shows, by DAMAGE: with fps a film's, without a game's; keys: target, fps"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let target = observer::target(keys)?;
        let due = keys.number_within("fps", 0.1, 1000.0)?.map_or(Due::AsMany, Due::PerSecond);
        Ok(Box::new(Counting { target, due }))
    }
}

impl Role for Counting {
    fn needs_display(&self) -> bool {
        true
    }

    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let client = Client::connect(observer::display(stage)?)?;
        let window = target::wait_for(&client, &self.target, PATIENCE)?;
        let area_min = half_of(&client, window)?;
        let watch = Watch::begin(client, window, Level::Each)?;
        let start = stage.start_line()?;
        let mut metrics = Metrics::new();
        observer::raise(&mut metrics);
        let mut count = Count::new(start.measure_from_ns, start.measure_to_ns);
        while !stage.over() {
            match watch.next(start.measure_to_ns)? {
                Some((at, Sight::Drawn { area })) if area >= area_min => count.frame(at),
                Some((_, Sight::Gone)) => {
                    return Err(X11Error::TargetGone { task: self.target.clone() }.into());
                }
                Some(_) => {}
                None => break,
            }
        }
        count.tell(self.due, &mut metrics);
        Ok(metrics)
    }
}

fn half_of(client: &Client, window: Window) -> Result<u32, X11Error> {
    let size = client.connection().get_geometry(window)?.reply()?;
    Ok((u32::from(size.width) * u32::from(size.height)).div_ceil(2))
}

/// Frames between two moments, and the longest time without one.
#[derive(Debug)]
struct Count {
    from_ns: u64,
    to_ns: u64,
    last_ns: u64,
    shown: u64,
    gap_ns_max: u64,
}

impl Count {
    fn new(from_ns: u64, to_ns: u64) -> Self {
        Self { from_ns, to_ns, last_ns: from_ns, shown: 0, gap_ns_max: 0 }
    }

    fn frame(&mut self, at_ns: u64) {
        if (self.from_ns..self.to_ns).contains(&at_ns) {
            self.gap_ns_max = self.gap_ns_max.max(at_ns - self.last_ns);
            self.last_ns = at_ns;
            self.shown += 1;
        }
    }

    fn tell(self, due: Due, metrics: &mut Metrics) {
        let gap_ns_max = self.gap_ns_max.max(self.to_ns - self.last_ns);
        let seconds = (self.to_ns - self.from_ns) as f64 / 1e9;
        match due {
            Due::PerSecond(fps) => {
                metrics.count("frames_shown", self.shown);
                metrics.count("frames_due", (fps * seconds).round() as u64);
            }
            Due::AsMany => metrics.ratio("frames_per_second", self.shown as f64 / seconds),
        }
        metrics.greatest("gap_ns_max", gap_ns_max);
    }
}
