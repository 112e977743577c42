//! An X11 client that carries out the lines of its standard input, so that tests can check which of its
//! actions count as use: `actor DISPLAY`.

mod common;

use std::io::{self, BufRead, Write};
use std::time::Duration;

use x11rb::connection::Connection;
use x11rb::protocol::Event;
use x11rb::protocol::composite::{ConnectionExt as _, Redirect};
use x11rb::protocol::present::{self, ConnectionExt as _, EventMask as PresentMask};
use x11rb::protocol::shape::{self, ConnectionExt as _};
use x11rb::protocol::xinput::{self, ConnectionExt as _, Device, XIEventMask};
use x11rb::protocol::xproto::{
    AtomEnum, ChangeWindowAttributesAux, ClipOrdering, ColormapAlloc, ConfigureWindowAux, ConnectionExt as _,
    CreateGCAux, CreateWindowAux, EventMask, Gcontext, InputFocus, KEY_PRESS_EVENT, KeyButMask,
    KeyPressEvent, PropMode, Rectangle, StackMode, Visualid, Window, WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{COPY_DEPTH_FROM_PARENT, COPY_FROM_PARENT, CURRENT_TIME, NONE};

use common::{Keyboard, LETTER, Outcome};

struct Actor {
    connection: RustConnection,
    display: String,
    window: Window,
    gc: Gcontext,
    more: Vec<RustConnection>,
}

fn main() -> Outcome<()> {
    let display = std::env::args().nth(1).ok_or("usage: actor DISPLAY")?;
    let (connection, _) = RustConnection::connect(Some(&display))?;
    let mut actor = Actor { connection, display, window: NONE, gc: NONE, more: Vec::new() };
    for line in io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some((&word, numbers)) = words.split_first() else { continue };
        let numbers = numbers.iter().map(|number| number.parse()).collect::<Result<Vec<i64>, _>>()?;
        actor.act(word, &numbers)?;
        actor.connection.sync()?;
        println!("{}", actor.window);
        io::stdout().flush()?;
    }
    Ok(())
}

impl Actor {
    fn act(&mut self, word: &str, numbers: &[i64]) -> Outcome<()> {
        let connection = &self.connection;
        match (word, numbers) {
            ("window", &[x, y, width, height]) => self.open(NONE, [x, y, width, height])?,
            ("inside", &[parent, x, y, width, height]) => self.open(parent as u32, [x, y, width, height])?,
            ("input-only", &[parent, x, y, width, height]) => {
                let (class, wanted) = (WindowClass::INPUT_ONLY, CreateWindowAux::new());
                self.open_as(parent as u32, [x, y, width, height], (class, 0, COPY_FROM_PARENT), wanted)?;
            }
            ("blank", &[x, y, width, height]) => {
                let look = (WindowClass::INPUT_OUTPUT, COPY_DEPTH_FROM_PARENT, COPY_FROM_PARENT);
                self.open_as(NONE, [x, y, width, height], look, CreateWindowAux::new())?;
            }
            ("blank-deep", &[x, y, width, height]) => self.open_deep([x, y, width, height])?,
            ("overlay", []) => {
                connection.composite_query_version(0, 4)?.reply()?;
                connection.composite_get_overlay_window(connection.setup().roots[0].root)?.reply()?;
            }
            ("fill", &[x, y, width, height]) => self.fill([x, y, width, height])?,
            ("fill-often", &[times, pause_us, x, y, width, height]) => {
                for _ in 0..times {
                    self.fill([x, y, width, height])?;
                    self.connection.flush()?;
                    if pause_us > 0 {
                        std::thread::sleep(Duration::from_micros(pause_us as u64));
                    }
                }
            }
            ("pixmap", &[times]) => self.pixmap(times)?,
            ("raise", []) => {
                let above = ConfigureWindowAux::new().stack_mode(StackMode::ABOVE);
                connection.configure_window(self.window, &above)?;
            }
            ("move", &[x, y]) => {
                let place = ConfigureWindowAux::new().x(x as i32).y(y as i32);
                connection.configure_window(self.window, &place)?;
            }
            ("unmap", []) => drop(connection.unmap_window(self.window)?),
            ("map", []) => drop(connection.map_window(self.window)?),
            ("paint", []) => self.paint()?,
            ("reparent", &[parent]) => {
                connection.reparent_window(self.window, parent as u32, 3, 4)?.check()?;
            }
            ("redirect", []) => {
                connection.composite_query_version(0, 4)?.reply()?;
                connection.composite_redirect_window(self.window, Redirect::MANUAL)?.check()?;
            }
            ("hollow", []) => {
                let (set, bounding) = (shape::SO::SET, shape::SK::BOUNDING);
                connection
                    .shape_rectangles(set, bounding, ClipOrdering::UNSORTED, self.window, 0, 0, &[])?
                    .check()?;
            }
            ("keys", []) => self.listen(self.window)?,
            ("keys-of", &[window]) => self.listen(window as u32)?,
            ("keys-xi", []) => self.listen_xi()?,
            ("focus", []) => {
                connection.set_input_focus(InputFocus::PARENT, self.window, CURRENT_TIME)?.check()?;
            }
            ("type", &[times]) => self.type_keys(Keyboard::XTEST, times)?,
            ("type-device", &[times]) => self.type_keys(Keyboard::real(connection)?, times)?,
            ("send", &[times]) => self.send(times)?,
            ("present", &[times]) => self.present(times)?,
            ("claim", &[process]) => {
                let name = connection.intern_atom(false, b"_NET_WM_PID")?.reply()?.atom;
                connection.change_property32(
                    PropMode::REPLACE,
                    self.window,
                    name,
                    AtomEnum::CARDINAL,
                    &[process as u32],
                )?;
            }
            ("connections", &[count]) => {
                for _ in 0..count {
                    self.more.push(RustConnection::connect(Some(&self.display))?.0);
                }
            }
            ("come-and-go", &[times]) => {
                for _ in 0..times {
                    let (connection, _) = RustConnection::connect(Some(&self.display))?;
                    let display = self.display.clone();
                    let mut guest = Actor { connection, display, window: NONE, gc: NONE, more: Vec::new() };
                    guest.open(NONE, [0, 0, 20, 20])?;
                    guest.fill([0, 0, 20, 20])?;
                    guest.connection.sync()?;
                }
            }
            _ => return Err(format!("not understood: {word} with {} numbers", numbers.len()).into()),
        }
        Ok(())
    }

    /// Opens a white window, without a frame, and waits until it is there to be drawn into.
    fn open(&mut self, parent: Window, place: [i64; 4]) -> Outcome<()> {
        let screen = &self.connection.setup().roots[0];
        let wanted = CreateWindowAux::new().background_pixel(screen.white_pixel);
        let look = (WindowClass::INPUT_OUTPUT, COPY_DEPTH_FROM_PARENT, screen.root_visual);
        self.open_as(parent, place, look, wanted)?;
        let connection = &self.connection;
        self.gc = connection.generate_id()?;
        let black = CreateGCAux::new().foreground(connection.setup().roots[0].black_pixel);
        connection.create_gc(self.gc, self.window, &black)?.check()?;
        Ok(())
    }

    /// Opens a window of 32 bits that is not painted.
    fn open_deep(&mut self, place: [i64; 4]) -> Outcome<()> {
        let connection = &self.connection;
        let screen = &connection.setup().roots[0];
        let deep = screen.allowed_depths.iter().find(|depth| depth.depth == 32);
        let visual = deep.and_then(|depth| depth.visuals.first()).ok_or("no depth of 32 bits")?.visual_id;
        let colormap = connection.generate_id()?;
        connection.create_colormap(ColormapAlloc::NONE, colormap, screen.root, visual)?.check()?;
        let wanted = CreateWindowAux::new().background_pixmap(NONE).border_pixel(0).colormap(colormap);
        self.open_as(NONE, place, (WindowClass::INPUT_OUTPUT, 32, visual), wanted)
    }

    /// Opens a window of a class, a depth and a visual, and waits until it is there.
    fn open_as(
        &mut self,
        parent: Window,
        [x, y, width, height]: [i64; 4],
        (class, depth, visual): (WindowClass, u8, Visualid),
        wanted: CreateWindowAux,
    ) -> Outcome<()> {
        let connection = &self.connection;
        let window = connection.generate_id()?;
        let settings = wanted.override_redirect(1).event_mask(EventMask::STRUCTURE_NOTIFY);
        let parent = if parent == NONE { connection.setup().roots[0].root } else { parent };
        let (x, y, width, height) = (x as i16, y as i16, width as u16, height as u16);
        connection
            .create_window(depth, window, parent, x, y, width, height, 0, class, visual, &settings)?
            .check()?;
        connection.map_window(window)?.check()?;
        while !matches!(connection.wait_for_event()?, Event::MapNotify(_)) {}
        self.window = window;
        Ok(())
    }

    fn fill(&self, [x, y, width, height]: [i64; 4]) -> Outcome<()> {
        let area = Rectangle { x: x as i16, y: y as i16, width: width as u16, height: height as u16 };
        self.connection.poly_fill_rectangle(self.window, self.gc, &[area])?;
        Ok(())
    }

    /// Draws all over its window, in whatever depth the window has.
    fn paint(&self) -> Outcome<()> {
        let connection = &self.connection;
        let gc = connection.generate_id()?;
        connection.create_gc(gc, self.window, &CreateGCAux::new())?;
        let size = connection.get_geometry(self.window)?.reply()?;
        let area = Rectangle { x: 0, y: 0, width: size.width, height: size.height };
        connection.poly_fill_rectangle(self.window, gc, &[area])?;
        Ok(connection.free_gc(gc)?.check()?)
    }

    /// Draws into a pixmap, which never comes on the screen.
    fn pixmap(&self, times: i64) -> Outcome<()> {
        let connection = &self.connection;
        let pixmap = connection.generate_id()?;
        connection.create_pixmap(24, pixmap, self.window, 500, 500)?;
        let area = Rectangle { x: 0, y: 0, width: 500, height: 500 };
        for _ in 0..times {
            connection.poly_fill_rectangle(pixmap, self.gc, &[area])?;
        }
        connection.free_pixmap(pixmap)?;
        Ok(())
    }

    fn listen(&self, window: Window) -> Outcome<()> {
        let keys = EventMask::KEY_PRESS | EventMask::KEY_RELEASE;
        let wanted = ChangeWindowAttributesAux::new().event_mask(keys);
        Ok(self.connection.change_window_attributes(window, &wanted)?.check()?)
    }

    fn listen_xi(&self) -> Outcome<()> {
        self.connection.xinput_xi_query_version(2, 2)?.reply()?;
        let mask = vec![XIEventMask::KEY_PRESS | XIEventMask::KEY_RELEASE];
        let wanted = [xinput::EventMask { deviceid: Device::ALL_MASTER.into(), mask }];
        Ok(self.connection.xinput_xi_select_events(self.window, &wanted)?.check()?)
    }

    /// Types by XTEST, in the name of a keyboard.
    fn type_keys(&self, keyboard: Keyboard, times: i64) -> Outcome<()> {
        for _ in 0..times {
            keyboard.strike(&self.connection)?;
            self.connection.flush()?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Sends events of pressed keys to itself.
    fn send(&self, times: i64) -> Outcome<()> {
        let root = self.connection.setup().roots[0].root;
        let key = KeyPressEvent {
            response_type: KEY_PRESS_EVENT,
            detail: LETTER,
            sequence: 0,
            time: CURRENT_TIME,
            root,
            event: self.window,
            child: NONE,
            root_x: 0,
            root_y: 0,
            event_x: 0,
            event_y: 0,
            state: KeyButMask::default(),
            same_screen: true,
        };
        for _ in 0..times {
            self.connection.send_event(false, self.window, EventMask::NO_EVENT, key)?;
        }
        Ok(())
    }

    /// Shows a picture by Present, which reports each picture with an event of type 35, the type of
    /// XInput's events.
    fn present(&self, times: i64) -> Outcome<()> {
        let connection = &self.connection;
        connection.present_query_version(1, 2)?.reply()?;
        let mask = PresentMask::COMPLETE_NOTIFY | PresentMask::IDLE_NOTIFY | PresentMask::CONFIGURE_NOTIFY;
        connection.present_select_input(connection.generate_id()?, self.window, mask)?;
        let pixmap = connection.generate_id()?;
        connection.create_pixmap(24, pixmap, self.window, 100, 100)?;
        for number in 0..times {
            let option = present::Option::ASYNC.into();
            let number = number as u32;
            connection.present_pixmap(
                self.window,
                pixmap,
                number,
                NONE,
                NONE,
                0,
                0,
                NONE,
                NONE,
                NONE,
                option,
                0,
                0,
                0,
                &[],
            )?;
            connection.flush()?;
            while !matches!(connection.wait_for_event()?, Event::PresentIdleNotify(_)) {}
        }
        Ok(())
    }
}
