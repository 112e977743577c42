//! The times at which the frames of a program were on the screen, as an observer sees them.

use std::time::Duration;

use spry_sys::attributes::Attributes;

use super::client::Client;
use super::damage::{DamageWatch, Level, Sight};
use super::{X11Error, clock, find};

/// The observer's real-time priority: above all tasks.
const PRIORITY: u32 = 99;
/// Memory for this many frames is allocated at the beginning.
const FRAMES: usize = 16_384;

/// Waits for a program's window and notes when frames are drawn in it, for a time: each drawing of at least
/// half of the window is a frame. Times are of the monotonic clock, ns.
///
/// # Errors
/// If there is no window within `patience`, or it is destroyed.
pub fn frames(display: &str, patience: Duration, time: Duration) -> Result<Vec<u64>, X11Error> {
    let client = Client::connect(display)?;
    let seen = find::first(&client, patience)?;
    let half = (u32::from(seen.width) * u32::from(seen.height)).div_ceil(2);
    let watch = DamageWatch::begin(client, seen.window, Level::Each)?;
    Attributes::fifo(PRIORITY)
        .give(0)
        .map_err(|source| X11Error::Kernel { what: "going before all tasks that it observes", source })?;
    let until_ns = clock::after(time);
    let mut frames = Vec::with_capacity(FRAMES);
    while let Some((at_ns, sight)) = watch.next(until_ns)? {
        match sight {
            Sight::Drawn { area } if area >= half => frames.push(at_ns),
            Sight::Drawn { .. } | Sight::Touched => {}
            Sight::Gone => return Err(X11Error::TargetGone { task: seen.name }),
        }
    }
    Ok(frames)
}
