//! A connection to an X server: waiting for events up to a deadline, and the few requests that
//! all clients use.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use spry_sys::poll;
use x11rb::connection::{Connection, RequestConnection};
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{ConfigureWindowAux, ConnectionExt as _, InputFocus, Screen, Window};
use x11rb::rust_connection::RustConnection;

use super::X11Error;
use super::clock::now_ns;

/// A connection of one client. Threads that must not wait for each other need a connection each.
pub struct Client {
    connection: RustConnection,
    screen: usize,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("screen", &self.screen).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to a display by its name, for example `:0`.
    ///
    /// # Errors
    /// If no server answers there, or the server does not let this user in.
    pub fn connect(display: &str) -> Result<Self, X11Error> {
        let (connection, screen) = RustConnection::connect(Some(display))
            .map_err(|source| X11Error::Connect { display: display.into(), source })?;
        Ok(Self { connection, screen })
    }

    /// The connection, to make requests.
    #[must_use]
    pub fn connection(&self) -> &RustConnection {
        &self.connection
    }

    /// The screen that the display's name selects.
    #[must_use]
    pub fn screen(&self) -> &Screen {
        &self.connection.setup().roots[self.screen]
    }

    /// Checks that the server has an extension.
    ///
    /// # Errors
    /// [`X11Error::NoExtension`] if not.
    pub fn require(&self, name: &'static str) -> Result<(), X11Error> {
        match self.connection.extension_information(name)? {
            Some(_) => Ok(()),
            None => Err(X11Error::NoExtension(name)),
        }
    }

    /// Waits for the next event until `deadline_ns`, and returns `None` if none has come by then. Without a
    /// deadline it waits without limit. Buffered requests are sent first. If an earlier request without a
    /// reply has failed, this returns its error.
    ///
    /// # Errors
    /// If the connection breaks or the server refused a request.
    pub fn event(&self, deadline_ns: Option<u64>) -> Result<Option<Event>, X11Error> {
        self.connection.flush()?;
        loop {
            match self.connection.poll_for_event()? {
                Some(Event::Error(error)) => {
                    return Err(X11Error::Protocol(format!("{:?}", error.error_kind)));
                }
                Some(event) => return Ok(Some(event)),
                None => {}
            }
            let left = deadline_ns.map(|deadline_ns| deadline_ns.saturating_sub(now_ns()));
            if left == Some(0) {
                return Ok(None);
            }
            let left = left.map(Duration::from_nanos);
            readable(self.connection.stream().as_fd(), left);
        }
    }

    /// Waits until the server has processed all requests of this client.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn sync(&self) -> Result<(), X11Error> {
        self.connection.get_input_focus()?.reply()?;
        Ok(())
    }

    /// Moves a window.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn move_to(&self, window: Window, x: i32, y: i32) -> Result<(), X11Error> {
        self.connection.configure_window(window, &ConfigureWindowAux::new().x(x).y(y))?;
        self.sync()
    }

    /// Gives a window the keyboard focus and moves the pointer into it: some programs use the focus, some
    /// use the pointer.
    ///
    /// # Errors
    /// If the window cannot get the focus.
    pub fn focus(&self, window: Window) -> Result<(), X11Error> {
        let size = self.connection.get_geometry(window)?.reply()?;
        let middle = |side: u16| i16::try_from(side / 2).unwrap_or(i16::MAX);
        self.connection
            .warp_pointer(x11rb::NONE, window, 0, 0, 0, 0, middle(size.width), middle(size.height))?
            .check()?;
        self.connection.set_input_focus(InputFocus::PARENT, window, x11rb::CURRENT_TIME)?.check()?;
        Ok(())
    }
}

/// Waits until `descriptor` can be read, for at most `left`. Returns whether it can be read.
pub(super) fn readable(descriptor: BorrowedFd<'_>, left: Option<Duration>) -> bool {
    poll::wait(&mut [poll::readable_of(descriptor)], left).is_ok_and(|ready| ready > 0)
}
