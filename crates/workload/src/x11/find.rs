//! Finding the window that a program opens, by its class or name, or because it is new.

use std::collections::BTreeSet;
use std::time::Duration;

use x11rb::protocol::res::{self, ClientIdMask, ClientIdSpec, ConnectionExt as _};
use x11rb::protocol::xproto::{AtomEnum, ConnectionExt as _, MapState, Window};

use super::child::Program;
use super::client::Client;
use super::{X11Error, clock, tree};

/// How often the windows are looked through.
const ROUND: Duration = Duration::from_millis(100);
/// A window smaller than this on a side is a toolkit's helper or an icon.
const SIDE_MIN: u16 = 48;
/// How long a property may be, in units of 4 bytes.
const PROPERTY_MAX: u32 = 256;

/// What a window must be. If nothing is said, it must belong to the program or to one that the program started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sought {
    /// Either part of its `WM_CLASS`, as `XTerm`.
    pub class: Option<String>,
    /// A part of its `WM_NAME`.
    pub name: Option<String>,
}

impl Sought {
    fn text(&self) -> String {
        let class = self.class.as_ref().map(|class| format!(" of class {class:?}"));
        let name = self.name.as_ref().map(|name| format!(" with {name:?} in its name"));
        [class, name].into_iter().flatten().collect()
    }

    fn met_by(&self, seen: &Seen, tgid: u32) -> bool {
        if self.class.is_none() && self.name.is_none() {
            return seen.tgid.is_some_and(|owner| tree::descends(owner, tgid));
        }
        let class = self.class.as_ref().is_none_or(|class| seen.class.iter().any(|part| part == class));
        class && self.name.as_ref().is_none_or(|name| seen.name.contains(name.as_str()))
    }
}

/// A window that can be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The window.
    pub window: Window,
    /// The parts of its `WM_CLASS`.
    pub class: Vec<String>,
    /// Its `WM_NAME`.
    pub name: String,
    /// The process (`tgid`) whose it is, if the server knows.
    pub tgid: Option<u32>,
    /// Its width in pixels.
    pub width: u16,
    /// Its height in pixels.
    pub height: u16,
}

/// The windows there are before a program starts, so that its own can be told.
///
/// # Errors
/// If the connection breaks.
pub fn present(client: &Client) -> Result<BTreeSet<Window>, X11Error> {
    Ok(windows(client)?.into_iter().map(|seen| seen.window).collect())
}

/// Waits for the window of a program: the first that is new, can be seen and is what is sought.
///
/// # Errors
/// [`X11Error::Ended`] if the program ends, [`X11Error::NoWindow`] if there is none within `patience`.
pub fn wait_for(
    client: &Client,
    program: &mut Program,
    before: &BTreeSet<Window>,
    sought: &Sought,
    patience: Duration,
) -> Result<Seen, X11Error> {
    client.require(res::X11_EXTENSION_NAME)?;
    client.connection().res_query_version(1, 2)?.reply()?;
    let end = clock::after(patience);
    loop {
        let seen = windows(client)?;
        if let Some(found) =
            seen.iter().find(|seen| !before.contains(&seen.window) && sought.met_by(seen, program.tgid()))
        {
            return Ok(found.clone());
        }
        program.check()?;
        if clock::now_ns() >= end {
            let named = |seen: &Seen| format!("{:?} of class {:?}", seen.name, seen.class.join("."));
            let windows: Vec<_> = seen.iter().map(named).collect();
            return Err(X11Error::NoWindow {
                program: program.name().into(),
                sought: sought.text(),
                waited_s: patience.as_secs(),
                windows: if windows.is_empty() { "none".into() } else { windows.join(", ") },
                said: program.said(),
            });
        }
        std::thread::sleep(ROUND);
    }
}

/// The windows that can be seen, children of the root alone: without a window manager those are the programs' own.
fn windows(client: &Client) -> Result<Vec<Seen>, X11Error> {
    let connection = client.connection();
    let mut seen = Vec::new();
    for window in connection.query_tree(client.screen().root)?.reply()?.children {
        // It may be gone by now.
        let Ok(attributes) = connection.get_window_attributes(window)?.reply() else { continue };
        let Ok(size) = connection.get_geometry(window)?.reply() else { continue };
        let large = size.width >= SIDE_MIN && size.height >= SIDE_MIN;
        if attributes.map_state == MapState::VIEWABLE && large {
            let class = property(client, window, AtomEnum::WM_CLASS)?;
            seen.push(Seen {
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

/// The process of the client that made a window, which the server knows from the client's socket.
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
