//! `x11-mouse`: moves the pointer over another task's window, as the player of a game moves a mouse.

use std::time::Duration;

use spry_scenario::kinds::x11::Mouse;
use spry_scenario::metrics::Metrics;
use x11rb::protocol::xproto::{ConnectionExt as _, MOTION_NOTIFY_EVENT, Window};
use x11rb::protocol::xtest::{self, ConnectionExt as _};

use super::observer;
use crate::RunError;
use crate::stage::Stage;
use crate::x11::client::Client;
use crate::x11::{X11Error, target};

/// How long the other task may take to show its window.
const WINDOW_PATIENCE: Duration = Duration::from_secs(180);
/// How far each report moves the pointer, in pixels.
const STEP: u32 = 3;

/// Moves the pointer to and fro over a window by XTEST. Does not wait for the window's program to react.
pub(in crate::kinds) fn play(mouse: &Mouse, stage: &Stage) -> Result<Metrics, RunError> {
    let client = Client::connect(observer::display(stage)?)?;
    client.require(xtest::X11_EXTENSION_NAME)?;
    let window = target::wait_for(&client, &mouse.target, WINDOW_PATIENCE)?;
    let pad = Pad::under(&client, window)?;
    client.focus(window)?;
    let start = stage.start_line()?;
    let mut metrics = Metrics::new();
    observer::raise(stage, &mut metrics);
    let mut moved = 0;
    for step in 0_u32.. {
        let due_ns = start.t0_ns + u64::from(step) * mouse.interval_ns;
        stage.sleep_through(due_ns);
        if stage.over() || due_ns >= start.measure_to_ns {
            break;
        }
        pad.point(&client, step)?;
        moved += u64::from(start.counts(due_ns));
    }
    metrics.count("mouse_moves", moved);
    Ok(metrics)
}

/// The path of the pointer: along the middle of a window, to the right and back.
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
