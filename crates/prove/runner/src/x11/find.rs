//! Finding the window that a program opens, by its class or name, or because it is new.

use std::collections::BTreeSet;
use std::time::Duration;

use spry_scenario::kinds::x11::SoughtWindow;
use x11rb::protocol::res::{self, ClientIdMask, ClientIdSpec, ConnectionExt as _};
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, MapState, Window};

use super::child::Program;
use super::client::Client;
use super::{X11Error, clock, tree};

/// The interval between two searches through the display's windows.
const ROUND: Duration = Duration::from_millis(100);
/// The least width and height of a program's own window, pixels. A smaller window is a helper of a
/// toolkit, or an icon.
const SIDE_MIN: u16 = 48;
/// The greatest length that is read of a property, in units of 4 bytes.
const PROPERTY_MAX: u32 = 256;

/// The properties of the sought window, in words for a message.
fn described(sought: &SoughtWindow) -> String {
    let class = sought.class.as_ref().map(|class| format!(" of class {class:?}"));
    let name = sought.name.as_ref().map(|name| format!(" with {name:?} in its name"));
    [class, name].into_iter().flatten().collect()
}

/// Whether a window fits: by its class and name if these are given, otherwise by its process, which is `tgid`
/// or descends from it.
fn meets(seen: &VisibleWindow, sought: &SoughtWindow, tgid: u32) -> bool {
    if sought.class.is_none() && sought.name.is_none() {
        return seen.tgid.is_some_and(|owner| tree::descends(owner, tgid));
    }
    let class = sought.class.as_ref().is_none_or(|class| seen.class.iter().any(|part| part == class));
    class && sought.name.as_ref().is_none_or(|name| seen.name.contains(name.as_str()))
}

/// A window that is visible on the display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VisibleWindow {
    /// The window's id.
    pub window: Window,
    /// The parts of the window's `WM_CLASS`.
    pub class: Vec<String>,
    /// The window's `WM_NAME`.
    pub name: String,
    /// The process (`tgid`) of the client that made the window; `None` if the server cannot determine it.
    pub tgid: Option<u32>,
    /// The window's width in pixels.
    pub width: u16,
    /// The window's height in pixels.
    pub height: u16,
}

/// The windows that are on the display before a program starts. They are needed to recognise the
/// program's own window.
///
/// # Errors
/// If the connection breaks.
pub fn present(client: &Client) -> Result<BTreeSet<Window>, X11Error> {
    Ok(windows(client)?.into_iter().map(|seen| seen.window).collect())
}

/// Waits for the window of a program: the first window that is new and visible, and fits `sought`.
///
/// # Errors
/// [`X11Error::Ended`] if the program ends, [`X11Error::NoWindow`] if it shows no such window
/// within `patience`.
pub fn wait_for(
    client: &Client,
    program: &mut Program,
    before: &BTreeSet<Window>,
    sought: &SoughtWindow,
    patience: Duration,
) -> Result<VisibleWindow, X11Error> {
    client.require(res::X11_EXTENSION_NAME)?;
    client.connection().res_query_version(1, 2)?.reply()?;
    let end = clock::after(patience);
    loop {
        let seen = windows(client)?;
        if let Some(found) =
            seen.iter().find(|seen| !before.contains(&seen.window) && meets(seen, sought, program.tgid()))
        {
            return Ok(found.clone());
        }
        program.check()?;
        if clock::now_ns() >= end {
            let named = |seen: &VisibleWindow| format!("{:?} of class {:?}", seen.name, seen.class.join("."));
            let windows: Vec<_> = seen.iter().map(named).collect();
            return Err(X11Error::NoWindow {
                program: program.name().into(),
                sought: described(sought),
                waited_s: patience.as_secs(),
                windows: if windows.is_empty() { "none".into() } else { windows.join(", ") },
                said: program.said(),
            });
        }
        std::thread::sleep(ROUND);
    }
}

/// Waits until a program has a window on the display.
///
/// # Errors
/// [`X11Error::NoTarget`] if no program shows a window within `patience`.
pub fn first(client: &Client, patience: Duration) -> Result<VisibleWindow, X11Error> {
    let end = clock::after(patience);
    loop {
        if let Some(seen) = windows(client)?.into_iter().next() {
            return Ok(seen);
        }
        if clock::now_ns() >= end {
            return Err(X11Error::NoTarget { task: "any".to_owned(), waited_s: patience.as_secs() });
        }
        std::thread::sleep(ROUND);
    }
}

/// The visible windows that are children of the root window. There is no window manager, so these are the
/// programs' own windows.
fn windows(client: &Client) -> Result<Vec<VisibleWindow>, X11Error> {
    let connection = client.connection();
    let mut seen = Vec::new();
    for window in connection.query_tree(client.screen().root)?.reply()?.children {
        // The window may have been closed since the list was made.
        let Ok(attributes) = connection.get_window_attributes(window)?.reply() else { continue };
        let Ok(size) = connection.get_geometry(window)?.reply() else { continue };
        let large = size.width >= SIDE_MIN && size.height >= SIDE_MIN;
        if attributes.map_state == MapState::VIEWABLE && large {
            let class = property(client, window, AtomEnum::WM_CLASS)?;
            seen.push(VisibleWindow {
                window,
                class: class.split('\0').filter(|part| !part.is_empty()).map(String::from).collect(),
                name: property(client, window, AtomEnum::WM_NAME)?,
                tgid: owner(client, window)?,
                width: size.width,
                height: size.height,
            });
        }
    }
    Ok(seen)
}

/// The process of the client that made a window; `None` if the server cannot determine it from the
/// client's socket.
fn owner(client: &Client, window: Window) -> Result<Option<u32>, X11Error> {
    let wanted = ClientIdSpec { client: window, mask: ClientIdMask::LOCAL_CLIENT_PID };
    let Ok(reply) = client.connection().res_query_client_ids(&[wanted])?.reply() else { return Ok(None) };
    Ok(reply.ids.first().and_then(|id| id.value.first().copied()))
}

fn property(client: &Client, window: Window, property: AtomEnum) -> Result<String, X11Error> {
    let asked =
        client.connection().get_property(false, window, property, AtomEnum::ANY, 0, PROPERTY_MAX)?.reply();
    Ok(asked.map(|reply| String::from_utf8_lossy(&reply.value).into_owned()).unwrap_or_default())
}
