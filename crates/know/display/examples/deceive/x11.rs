//! Tricks that need a display.

use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::xproto::{
    ConnectionExt as _, CreateGCAux, CreateWindowAux, EventMask, Gcontext, InputFocus, KEY_PRESS_EVENT,
    KEY_RELEASE_EVENT, Rectangle, Window, WindowClass,
};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{COPY_DEPTH_FROM_PARENT, COPY_FROM_PARENT, CURRENT_TIME, NONE};

use crate::Outcome;

/// A connection to the X server, with a window that is shown without a frame.
pub struct Canvas {
    connection: RustConnection,
    window: Window,
    gcs: [Gcontext; 2],
    size: (u16, u16),
}

impl Canvas {
    pub fn open(at: (i16, i16), size: (u16, u16), wanted: EventMask) -> Outcome<Canvas> {
        let (connection, _) = RustConnection::connect(None)?;
        let screen = &connection.setup().roots[0];
        let window = connection.generate_id()?;
        let (depth, class) = (COPY_DEPTH_FROM_PARENT, WindowClass::INPUT_OUTPUT);
        let settings = CreateWindowAux::new().override_redirect(1).event_mask(wanted);
        let ((x, y), (width, height), root) = (at, size, screen.root);
        connection.create_window(
            depth,
            window,
            root,
            x,
            y,
            width,
            height,
            0,
            class,
            COPY_FROM_PARENT,
            &settings,
        )?;
        let colours = [screen.black_pixel, screen.white_pixel];
        let mut gcs = [0; 2];
        for (gc, colour) in gcs.iter_mut().zip(colours) {
            *gc = connection.generate_id()?;
            connection.create_gc(*gc, window, &CreateGCAux::new().foreground(colour))?;
        }
        connection.map_window(window)?;
        connection.sync()?;
        Ok(Canvas { connection, window, gcs, size })
    }

    /// Fills the window with two colours in turn.
    pub fn blink(&mut self) -> Outcome<()> {
        self.gcs.swap(0, 1);
        let area = Rectangle { x: 0, y: 0, width: self.size.0, height: self.size.1 };
        self.connection.poly_fill_rectangle(self.window, self.gcs[0], &[area])?;
        Ok(self.connection.sync()?)
    }

    /// Takes the window off the screen.
    pub fn hide(&self) -> Outcome<()> {
        self.connection.unmap_window(self.window)?;
        Ok(self.connection.sync()?)
    }
}

pub fn blink_for_each_byte() -> Outcome<()> {
    let mut canvas = Canvas::open((2, 2), (6, 6), EventMask::NO_EVENT)?;
    let mut bytes = [0; 1];
    while io::stdin().read(&mut bytes)? > 0 {
        canvas.blink()?;
    }
    Ok(())
}

/// Draws on a large part of the screen for `time`, and then draws no more.
pub fn be_seen(time: Duration) -> Outcome<()> {
    let mut canvas = Canvas::open((0, 300), (400, 200), EventMask::NO_EVENT)?;
    let begin = Instant::now();
    while begin.elapsed() < time {
        canvas.blink()?;
        thread::sleep(Duration::from_millis(20));
    }
    canvas.hide()
}

pub fn pass_keys_on() -> Outcome<()> {
    let Canvas { connection, window, .. } = Canvas::open((0, 0), (1, 1), EventMask::KEY_PRESS)?;
    pass_keys_on_by(&connection, window, &connection)
}

pub fn pass_keys_on_in_sight() -> Outcome<()> {
    let canvas = in_sight()?;
    let (other, _) = RustConnection::connect(None)?;
    pass_keys_on_by(&canvas.connection, canvas.window, &other)
}

/// Opens a window that a person can see.
fn in_sight() -> Outcome<Canvas> {
    let mut canvas = Canvas::open((0, 500), (40, 40), EventMask::KEY_PRESS)?;
    thread::sleep(Duration::from_secs(1));
    // No more is drawn than the window needs to count as seen: a process that draws more is in use by its
    // drawing alone, for some seconds.
    canvas.size = (17, 17);
    canvas.blink()?;
    Ok(canvas)
}

/// Passes the keys that `window` gets on to the window that has the focus now.
fn pass_keys_on_by(connection: &RustConnection, window: Window, other: &RustConnection) -> Outcome<()> {
    pass_keys(connection, window, |key| make_key(other, key))
}

/// Writes the keys that a window in sight gets into a pipe, for [`make_keys`].
pub fn pass_keys_into(mut pipe: impl Write) -> Outcome<()> {
    let canvas = in_sight()?;
    pass_keys(&canvas.connection, canvas.window, |key| Ok(pipe.write_all(&[key])?))
}

/// Makes, by XTEST, the keys that come through a pipe.
pub fn make_keys() -> Outcome<()> {
    let (connection, _) = RustConnection::connect(None)?;
    let mut key = [0; 1];
    while io::stdin().read(&mut key)? > 0 {
        make_key(&connection, key[0])?;
    }
    Ok(())
}

fn make_key(connection: &RustConnection, key: u8) -> Outcome<()> {
    for kind in [KEY_PRESS_EVENT, KEY_RELEASE_EVENT] {
        connection.xtest_fake_input(kind, key, CURRENT_TIME, NONE, 0, 0, 0)?;
    }
    Ok(connection.sync()?)
}

/// Takes the focus for each key, and gives it back before the key is made again.
fn pass_keys(
    connection: &RustConnection,
    window: Window,
    mut make: impl FnMut(u8) -> Outcome<()>,
) -> Outcome<()> {
    let focus = |window| -> Outcome<()> {
        connection.set_input_focus(InputFocus::POINTER_ROOT, window, CURRENT_TIME)?;
        Ok(connection.sync()?)
    };
    let theirs = connection.get_input_focus()?.reply()?.focus;
    loop {
        focus(window)?;
        let Event::KeyPress(key) = connection.wait_for_event()? else { continue };
        focus(theirs)?;
        make(key.detail)?;
    }
}

/// The reach of the grid from the pointer, pixels.
const REACH: (i16, i16) = (60, 4);

/// Listens in a grid of windows that only take input.
pub fn grid() -> Outcome<()> {
    listen_in_grid(WindowClass::INPUT_ONLY)
}

/// Listens in a grid of windows without a background: the server paints nothing there.
pub fn grid_of_windows() -> Outcome<()> {
    listen_in_grid(WindowClass::INPUT_OUTPUT)
}

fn listen_in_grid(class: WindowClass) -> Outcome<()> {
    let (connection, _) = RustConnection::connect(None)?;
    let root = connection.setup().roots[0].root;
    let pointer = connection.query_pointer(root)?.reply()?;
    for x in pointer.root_x - REACH.0..=pointer.root_x + REACH.0 {
        for y in pointer.root_y - REACH.1..=pointer.root_y + REACH.1 {
            show_for_motion(&connection, (x, y), (1, 1), class)?;
        }
    }
    listen(&connection)
}

/// Opens one window over the whole screen, without a background.
pub fn shield() -> Outcome<()> {
    let (connection, _) = RustConnection::connect(None)?;
    let screen = &connection.setup().roots[0];
    let size = (screen.width_in_pixels, screen.height_in_pixels);
    show_for_motion(&connection, (0, 0), size, WindowClass::INPUT_OUTPUT)?;
    listen(&connection)
}

/// Shows a window in which nothing is drawn and which receives the pointer's motion.
fn show_for_motion(
    connection: &RustConnection,
    (x, y): (i16, i16),
    (width, height): (u16, u16),
    class: WindowClass,
) -> Outcome<()> {
    let root = connection.setup().roots[0].root;
    let settings = CreateWindowAux::new().override_redirect(1).event_mask(EventMask::POINTER_MOTION);
    let window = connection.generate_id()?;
    let visual = COPY_FROM_PARENT;
    connection.create_window(0, window, root, x, y, width, height, 0, class, visual, &settings)?;
    connection.map_window(window)?;
    Ok(())
}

fn listen(connection: &RustConnection) -> Outcome<()> {
    connection.flush()?;
    loop {
        connection.wait_for_event()?;
    }
}
