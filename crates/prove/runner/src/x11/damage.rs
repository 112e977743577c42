//! The drawings of a window's program, seen from outside by the DAMAGE extension.

use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::damage::{self, ConnectionExt as _, Damage, ReportLevel};
use x11rb::protocol::xfixes::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{ChangeWindowAttributesAux, ConnectionExt as _, EventMask, Window};

use super::X11Error;
use super::client::Client;
use super::clock::now_ns;

/// An event of a watched window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// The program drew something: the part of one drawing operation's rectangle that can be seen.
    Drawn {
        /// The size of that part, in square pixels.
        area: u32,
    },
    /// The program drew for the first time since [`DamageWatch::rearm`].
    Touched,
    /// The window was destroyed.
    Gone,
}

/// Whether the server reports each drawing, or only the first one until [`DamageWatch::rearm`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Each drawing operation, with its rectangle.
    Each,
    /// Only the first drawing since [`DamageWatch::rearm`]. This costs the least.
    First,
}

/// A watch over one window and the windows in it. It has a connection of its own. The server reports a
/// drawing after it has drawn, so a reported drawing is in the screen's memory already.
#[derive(Debug)]
pub struct DamageWatch {
    client: Client,
    damage: Damage,
    window: Window,
    level: Level,
}

impl DamageWatch {
    /// Begins to watch a window.
    ///
    /// # Errors
    /// If the server lacks DAMAGE or XFIXES, or there is no such window.
    pub fn begin(client: Client, window: Window, level: Level) -> Result<Self, X11Error> {
        client.require(damage::X11_EXTENSION_NAME)?;
        client.require(xfixes::X11_EXTENSION_NAME)?;
        let connection = client.connection();
        connection.xfixes_query_version(5, 0)?.reply()?;
        connection.damage_query_version(1, 1)?.reply()?;
        let attributes = ChangeWindowAttributesAux::new().event_mask(EventMask::STRUCTURE_NOTIFY);
        connection.change_window_attributes(window, &attributes)?.check()?;
        let damage = connection.generate_id()?;
        let reported = match level {
            Level::Each => ReportLevel::RAW_RECTANGLES,
            Level::First => ReportLevel::NON_EMPTY,
        };
        // The server reports the whole window as drawn when a watch begins. The program has not drawn that.
        connection.damage_create(damage, window, reported)?.check()?;
        connection.damage_subtract(damage, x11rb::NONE, x11rb::NONE)?.check()?;
        while connection.poll_for_event()?.is_some() {}
        Ok(Self { client, damage, window, level })
    }

    /// The client with the connection that the watch uses.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Discards the past drawings, so that the next drawing is again the first one. The request is sent with
    /// the client's next flush, in order with the client's other requests.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn rearm(&self) -> Result<(), X11Error> {
        self.client.connection().damage_subtract(self.damage, x11rb::NONE, x11rb::NONE)?;
        Ok(())
    }

    /// The next event of the window, and the time at which this client read it, ns. Returns `None` if no
    /// event has come by `deadline_ns`.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn next(&self, deadline_ns: u64) -> Result<Option<(u64, Sight)>, X11Error> {
        loop {
            let Some(event) = self.client.event(Some(deadline_ns))? else { return Ok(None) };
            let now_ns = now_ns();
            match (event, self.level) {
                (Event::DamageNotify(_), Level::First) => return Ok(Some((now_ns, Sight::Touched))),
                (Event::DamageNotify(notify), Level::Each) => {
                    let area = u32::from(notify.area.width) * u32::from(notify.area.height);
                    return Ok(Some((now_ns, Sight::Drawn { area })));
                }
                (Event::DestroyNotify(gone), _) if gone.window == self.window => {
                    return Ok(Some((now_ns, Sight::Gone)));
                }
                _ => {}
            }
        }
    }
}
