//! `x11-mouse`: moves the pointer over another task's window, as somebody does who plays a game.

use std::time::Duration;

use x11rb::protocol::xproto::{ConnectionExt as _, MOTION_NOTIFY_EVENT, Window};
use x11rb::protocol::xtest::{self, ConnectionExt as _};

use super::client::Client;
use super::{X11Error, observer, target};
use crate::keys::Keys;
use crate::kinds::{Kind, Role};
use crate::metrics::Metrics;
use crate::mistake::Mistake;
use crate::runner::RunError;
use crate::runner::stage::Stage;
use crate::runner::sys::Woke;

/// The kind of task.
pub static MOUSE: Mouse = Mouse;

/// How long the task played with may take to show a window.
const WINDOW_PATIENCE: Duration = Duration::from_secs(180);
/// How often a mouse of the thesis' time reports where it is, Hz.
const RATE_HZ: f64 = 100.0;
/// How far one report moves the pointer, pixels.
const STEP: u32 = 3;

/// Moves the pointer to and fro over a window by XTEST, and waits for nothing: what a game makes of it is its own affair.
#[derive(Debug)]
pub struct Mouse;

#[derive(Debug)]
struct Moving {
    target: String,
    interval_ns: u64,
}

impl Kind for Mouse {
    fn name(&self) -> &'static str {
        "x11-mouse"
    }

    fn about(&self) -> &'static str {
        "moves the pointer over a task's window (by XTEST) without a pause; keys: target, rate"
    }

    fn parse(&self, keys: &mut Keys<'_>) -> Result<Box<dyn Role>, Mistake> {
        let target = observer::target(keys)?;
        let rate_hz = keys.number_within("rate", 0.1, 1000.0)?.unwrap_or(RATE_HZ);
        Ok(Box::new(Moving { target, interval_ns: (1e9 / rate_hz).round() as u64 }))
    }
}

impl Role for Moving {
    fn needs_display(&self) -> bool {
        true
    }

    fn play(&self, stage: &Stage) -> Result<Metrics, RunError> {
        let client = Client::connect(observer::display(stage)?)?;
        client.require(xtest::X11_EXTENSION_NAME)?;
        let window = target::wait_for(&client, &self.target, WINDOW_PATIENCE)?;
        let pad = Pad::under(&client, window)?;
        client.focus(window)?;
        let start = stage.start_line()?;
        let mut metrics = Metrics::new();
        observer::raise(&mut metrics);
        let mut moved = 0;
        for step in 0_u32.. {
            let due_ns = start.t0_ns + u64::from(step) * self.interval_ns;
            while !stage.over() && stage.sleep_until(due_ns) == Woke::Interrupted {}
            if stage.over() || due_ns >= start.measure_to_ns {
                break;
            }
            pad.point(&client, step)?;
            moved += u64::from(stage.measuring(due_ns));
        }
        metrics.count("mouse_moves", moved);
        Ok(metrics)
    }
}

/// Where the pointer goes: along the middle of a window, there and back.
struct Pad {
    root: Window,
    left: i16,
    middle: i16,
    width: u32,
}

impl Pad {
    fn under(client: &Client, window: Window) -> Result<Self, X11Error> {
        let root = client.screen().root;
        let size = client.connection().get_geometry(window)?.reply()?;
        let middle = i16::try_from(size.height / 2).unwrap_or(i16::MAX);
        let place = client.connection().translate_coordinates(window, root, 0, middle)?.reply()?;
        Ok(Self { root, left: place.dst_x, middle: place.dst_y, width: u32::from(size.width.max(2)) })
    }

    fn point(&self, client: &Client, step: u32) -> Result<(), X11Error> {
        let way = step.wrapping_mul(STEP) % (2 * self.width);
        let right = if way < self.width { way } else { 2 * self.width - 1 - way };
        let x = self.left.saturating_add(i16::try_from(right).unwrap_or(i16::MAX));
        let connection = client.connection();
        connection.xtest_fake_input(
            MOTION_NOTIFY_EVENT,
            0,
            x11rb::CURRENT_TIME,
            self.root,
            x,
            self.middle,
            0,
        )?;
        x11rb::connection::Connection::flush(connection)?;
        Ok(())
    }
}
