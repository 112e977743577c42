//! A window into which a task draws by MIT-SHM, as movie players and games do.

use std::collections::VecDeque;
use std::time::Duration;

use spry_scenario::screen::Size;
use spry_sys::memory::Passed;
use x11rb::COPY_DEPTH_FROM_PARENT;
use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::shm::{self, ConnectionExt as _};
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ConnectionExt as _, CreateGCAux, CreateWindowAux, EventMask,
    Gcontext, ImageFormat, PropMode, Window, WindowClass,
};
use x11rb::wrapper::ConnectionExt as _;

use super::client::Client;
use super::{X11Error, clock, target};

/// How long the server may take to draw a frame. If it takes longer, something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// The events of its window that each of these clients selects.
fn events() -> EventMask {
    EventMask::EXPOSURE | EventMask::KEY_PRESS | EventMask::STRUCTURE_NOTIFY
}

/// A mapped window of one client, named after its task.
#[derive(Debug)]
pub struct ClientWindow {
    client: Client,
    id: Window,
    gc: Gcontext,
    size: Size,
}

impl ClientWindow {
    /// Opens a window at a place of the display and waits until the client can draw into it.
    ///
    /// # Errors
    /// If the server refuses the window or does not show it.
    pub fn open(display: &str, name: &str, at: (i16, i16), size: Size) -> Result<Self, X11Error> {
        let client = Client::connect(display)?;
        let connection = client.connection();
        let screen = client.screen();
        let id = connection.generate_id()?;
        let settings = CreateWindowAux::new().background_pixel(screen.white_pixel).event_mask(events());
        connection.create_window(
            COPY_DEPTH_FROM_PARENT,
            id,
            screen.root,
            at.0,
            at.1,
            size.width,
            size.height,
            0,
            WindowClass::INPUT_OUTPUT,
            screen.root_visual,
            &settings,
        )?;
        connection.change_property8(
            PropMode::REPLACE,
            id,
            AtomEnum::WM_NAME,
            AtomEnum::STRING,
            name.as_bytes(),
        )?;
        let class = format!("{name}\0{name}\0");
        connection.change_property8(
            PropMode::REPLACE,
            id,
            AtomEnum::WM_CLASS,
            AtomEnum::STRING,
            class.as_bytes(),
        )?;
        let gc = connection.generate_id()?;
        let ink = CreateGCAux::new().foreground(screen.black_pixel).background(screen.white_pixel);
        connection.create_gc(gc, id, &ink)?;
        target::mark(&client, id, name)?;
        connection.map_window(id)?;
        let end = clock::after(PATIENCE);
        loop {
            match client.event(Some(end))? {
                Some(Event::Expose(_)) => break,
                Some(_) => {}
                None => return Err(X11Error::Stuck { waited_s: PATIENCE.as_secs() }),
            }
        }
        Ok(Self { client, id, gc, size })
    }

    /// The client to which the window belongs.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The window's id.
    #[must_use]
    pub fn id(&self) -> Window {
        self.id
    }

    /// The graphics context with which the client draws into the window: black on white.
    #[must_use]
    pub fn gc(&self) -> Gcontext {
        self.gc
    }

    /// The window's size.
    #[must_use]
    pub fn size(&self) -> Size {
        self.size
    }
}

/// A window and one picture of its size in memory shared with the server.
#[derive(Debug)]
pub struct Surface {
    window: ClientWindow,
    segment: shm::Seg,
    /// A word for each pixel, in the layout of depth 24.
    picture: Passed,
    waiting: VecDeque<Event>,
}

impl Surface {
    /// Opens a window with a picture.
    ///
    /// # Errors
    /// As [`ClientWindow::open`]; also if the server cannot share memory.
    pub fn open(display: &str, name: &str, at: (i16, i16), size: Size) -> Result<Self, X11Error> {
        let window = ClientWindow::open(display, name, at, size)?;
        window.client.require(shm::X11_EXTENSION_NAME)?;
        let connection = window.client.connection();
        let (picture, file) =
            Passed::new(c"spry-frame", usize::from(size.width) * usize::from(size.height)).map_err(
                |source| X11Error::Kernel { what: "making memory to share with the X server", source },
            )?;
        let segment = connection.generate_id()?;
        connection.shm_attach_fd(segment, file, false)?.check()?;
        Ok(Self { window, segment, picture, waiting: VecDeque::new() })
    }

    /// The window of this surface.
    #[must_use]
    pub fn window(&self) -> &ClientWindow {
        &self.window
    }

    /// The rows of the picture, from top to bottom, for the caller to draw into. The server reads the picture
    /// only while [`Self::present`] runs.
    pub fn rows(&mut self) -> impl Iterator<Item = &mut [u32]> {
        self.picture.words().chunks_exact_mut(usize::from(self.window.size.width))
    }

    /// Shows the picture and waits until the server has drawn it, as players do before they use
    /// the memory again.
    ///
    /// # Errors
    /// If the connection breaks or the server does not answer.
    pub fn present(&mut self) -> Result<(), X11Error> {
        let Size { width, height } = self.window.size;
        let depth = self.window.client.screen().root_depth;
        let format = ImageFormat::Z_PIXMAP.into();
        self.window.client.connection().shm_put_image(
            self.window.id,
            self.window.gc,
            width,
            height,
            0,
            0,
            width,
            height,
            0,
            0,
            depth,
            format,
            true,
            self.segment,
            0,
        )?;
        let end = clock::after(PATIENCE);
        loop {
            match self.window.client.event(Some(end))? {
                Some(Event::ShmCompletion(_)) => return Ok(()),
                Some(event) => self.waiting.push_back(event),
                None => return Err(X11Error::Stuck { waited_s: PATIENCE.as_secs() }),
            }
        }
    }

    /// From now on the server reports the pointer's moves over the window to the window's client.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn follow_pointer(&self) -> Result<(), X11Error> {
        let wanted = ChangeWindowAttributesAux::new().event_mask(events() | EventMask::POINTER_MOTION);
        let window = &self.window;
        window.client.connection().change_window_attributes(window.id, &wanted)?.check()?;
        Ok(())
    }

    /// How many keys were pressed in the window since the last call.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn keys_pressed(&mut self) -> Result<u32, X11Error> {
        while let Some(event) = self.window.client.connection().poll_for_event()? {
            self.waiting.push_back(event);
        }
        let pressed = self.waiting.iter().filter(|event| matches!(event, Event::KeyPress(_))).count();
        self.waiting.clear();
        Ok(u32::try_from(pressed).unwrap_or(u32::MAX))
    }
}
