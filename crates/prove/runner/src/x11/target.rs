//! Finds the window of another task, for a task that watches or types: the window carries the task's name.

use std::time::Duration;

use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, MapState, PropMode, Window};
use x11rb::wrapper::ConnectionExt as _;

use super::client::Client;
use super::{X11Error, clock};

/// The property of a window that holds the name of its task.
const PROPERTY: &[u8] = b"_SPRY_TASK";
/// The interval between two searches through the display's windows.
const ROUND: Duration = Duration::from_millis(50);
/// The greatest length that is read of a name, in units of 4 bytes.
const NAME_MAX: u32 = 64;

/// Marks a window with the name of its task.
///
/// # Errors
/// If there is no such window.
pub fn mark(client: &Client, window: Window, task: &str) -> Result<(), X11Error> {
    let connection = client.connection();
    let property = connection.intern_atom(false, PROPERTY)?.reply()?.atom;
    connection
        .change_property8(PropMode::REPLACE, window, property, AtomEnum::STRING, task.as_bytes())?
        .check()?;
    Ok(())
}

/// Waits until a task has a window and the window is visible.
///
/// # Errors
/// [`X11Error::NoTarget`] if the task shows no window within `patience`.
pub fn wait_for(client: &Client, task: &str, patience: Duration) -> Result<Window, X11Error> {
    let connection = client.connection();
    let property = connection.intern_atom(false, PROPERTY)?.reply()?.atom;
    let end = clock::after(patience);
    loop {
        for window in connection.query_tree(client.screen().root)?.reply()?.children {
            let name =
                connection.get_property(false, window, property, AtomEnum::STRING, 0, NAME_MAX)?.reply();
            let seen = connection.get_window_attributes(window)?.reply();
            // Both requests fail if the window has been closed since the list was made.
            if name.is_ok_and(|name| name.value == task.as_bytes())
                && seen.is_ok_and(|seen| seen.map_state == MapState::VIEWABLE)
            {
                return Ok(window);
            }
        }
        if clock::now_ns() >= end {
            return Err(X11Error::NoTarget { task: task.into(), waited_s: patience.as_secs() });
        }
        std::thread::sleep(ROUND);
    }
}
