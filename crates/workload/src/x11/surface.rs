//! A window that is drawn into by MIT-SHM, as movie players and games draw.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::time::Duration;

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
use super::server::Size;
use super::{X11Error, clock, target};

/// How long the server may take to draw a frame before something must be wrong.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of a pixel at depth 24.
const PIXEL_BYTES: usize = 4;

/// What every window's client is told.
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
    /// Opens a window at a place of the display and waits until it is there to be drawn into.
    ///
    /// # Errors
    /// If the server refuses or does not show it.
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

    /// The connection it belongs to.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The window.
    #[must_use]
    pub fn id(&self) -> Window {
        self.id
    }

    /// What it is drawn with: black on white.
    #[must_use]
    pub fn gc(&self) -> Gcontext {
        self.gc
    }

    /// Its size.
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
    picture: Shared,
    waiting: VecDeque<Event>,
}

impl Surface {
    /// Opens a window with a picture.
    ///
    /// # Errors
    /// As [`ClientWindow::open`], and if the server cannot share memory.
    pub fn open(display: &str, name: &str, at: (i16, i16), size: Size) -> Result<Self, X11Error> {
        let window = ClientWindow::open(display, name, at, size)?;
        window.client.require(shm::X11_EXTENSION_NAME)?;
        let connection = window.client.connection();
        let (picture, file) = Shared::new(usize::from(size.width) * usize::from(size.height))?;
        let segment = connection.generate_id()?;
        connection.shm_attach_fd(segment, file, false)?.check()?;
        Ok(Self { window, segment, picture, waiting: VecDeque::new() })
    }

    /// The window.
    #[must_use]
    pub fn window(&self) -> &ClientWindow {
        &self.window
    }

    /// The rows of the picture, from top to bottom, to draw into. The server reads it only between the beginning and the end of
    /// [`Self::present`].
    pub fn rows(&mut self) -> impl Iterator<Item = &mut [u32]> {
        self.picture.pixels().chunks_exact_mut(usize::from(self.window.size.width))
    }

    /// Shows the picture and waits until the server has done it, as players do before they use the memory again.
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

    /// From now on its client is told of the pointer's moves over the window.
    ///
    /// # Errors
    /// If the connection breaks.
    pub fn follow_pointer(&self) -> Result<(), X11Error> {
        let wanted = ChangeWindowAttributesAux::new().event_mask(events() | EventMask::POINTER_MOTION);
        let window = &self.window;
        window.client.connection().change_window_attributes(window.id, &wanted)?.check()?;
        Ok(())
    }

    /// How many keys were pressed since this was last asked.
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

/// Pixels in memory that another process can map.
#[derive(Debug)]
struct Shared {
    start: NonNull<u32>,
    pixels: usize,
}

// SAFETY: the mapping belongs to this value alone; nothing about it is bound to a thread.
unsafe impl Send for Shared {}

impl Shared {
    fn new(pixels: usize) -> Result<(Self, OwnedFd), X11Error> {
        let bytes = pixels * PIXEL_BYTES;
        // SAFETY: the name is a C string; the result is checked before it is used.
        let descriptor = unsafe { libc::memfd_create(c"spry-frame".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(refused("making memory to share with the X server"));
        }
        // SAFETY: the descriptor is open and nobody else's.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(descriptor) });
        file.set_len(bytes as u64).map_err(|_| refused("sizing memory to share with the X server"))?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // Populated, so that no frame meets the faults of the first one.
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        // SAFETY: a fresh mapping at an address of the kernel's choice, as long as the file.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, file.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(refused("mapping memory shared with the X server"));
        }
        let start =
            NonNull::new(start.cast()).ok_or_else(|| refused("mapping memory shared with the X server"))?;
        Ok((Self { start, pixels }, file.into()))
    }

    fn pixels(&mut self) -> &mut [u32] {
        // SAFETY: the mapping is that long, aligned to a page, writable, and lives as long as self. The server only reads it, and
        // only while `present` holds the surface.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.pixels) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `new`, unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.pixels * PIXEL_BYTES) };
    }
}

fn refused(what: &'static str) -> X11Error {
    X11Error::Kernel { what, source: io::Error::last_os_error() }
}
