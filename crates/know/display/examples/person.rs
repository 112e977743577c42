//! Plays a person at an Xorg server of its own: an editor (vi in xterm) into which keys are typed on a
//! keyboard that the kernel makes, a mouse that moves, a film (mplayer), and a panel. The panel stands
//! for a desktop's panel: it is a window that draws ten times a second, asks the session's bus each time,
//! and watches a directory. `person` must be started as root and runs until it is killed; the programs
//! run as user 1000.

#[path = "common/bus.rs"]
mod bus;

use std::error::Error;
use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::inotify;
use spry_runner::DisplayServer;
use spry_runner::x11::server::Server;
use spry_runner::x11::uinput;
use spry_scenario::model::XServer;
use spry_scenario::screen::Size;
use spry_sys::poll;
use spry_sys::settle::{Setting, settle};
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{
    AccessControl, AtomEnum, ConnectionExt as _, CreateGCAux, CreateWindowAux, InputFocus, Rectangle, Window,
    WindowClass,
};
use x11rb::rust_connection::RustConnection;
use x11rb::wrapper::ConnectionExt as _;
use x11rb::{COPY_DEPTH_FROM_PARENT, COPY_FROM_PARENT, CURRENT_TIME};

type Outcome<T> = Result<T, Box<dyn Error>>;

const PERSON: u32 = 1000;
const SIZE: Size = Size { width: 800, height: 600 };
/// The kernel's code of the letter a.
const LETTER: u16 = 30;
/// The command in the terminal: a shell starts jobs in the background, as they are written to a file; vi is
/// in the foreground.
const TERMINAL: &str = "(while read -r job; do $job & done <>/tmp/jobs) & exec vi letter";
const FILM: &str = "exec mplayer -really-quiet -vo x11 -nosound -geometry 400:0 -demuxer rawvideo -rawvideo \
                    w=320:h=240:fps=25:format=i420 /dev/zero </dev/null >/dev/null 2>&1";

fn main() -> Outcome<()> {
    if std::env::args().nth(1).as_deref() == Some("panel") {
        return panel();
    }
    spry_sys::namespace::raise_loopback()?;
    let server = Server::start(XServer::Xorg, SIZE)?;
    let keyboard = server.keyboard().ok_or("it reads no keyboard")?;
    let mouse = server.mouse().ok_or("it reads no mouse")?;
    let (connection, _) = RustConnection::connect(Some(server.display()))?;
    // The server lets in all programs; there is no file of cookies for them.
    connection.set_access_control(AccessControl::DISABLE)?;
    connection.sync()?;
    let own = std::env::current_exe()?;
    begin(server.display(), "dbus-daemon --session --nofork --nopidfile --address=unix:path=/tmp/bus")?;
    while !fs::exists(bus::ADDRESS)? {
        thread::sleep(Duration::from_millis(50));
    }
    begin(server.display(), &format!("exec xterm -geometry 60x20+0+60 -e sh -c '{TERMINAL}'"))?;
    begin(server.display(), FILM)?;
    begin(server.display(), &format!("exec {} panel", own.display()))?;
    let editor = wait_for(&connection, b"XTerm")?;
    wait_for(&connection, b"MPlayer")?;
    connection.warp_pointer(x11rb::NONE, connection.setup().roots[0].root, 0, 0, 0, 0, 150, 200)?;
    focus(&connection, editor)?;
    thread::sleep(Duration::from_secs(1));
    // The first key makes vi begin to insert.
    uinput::strike(keyboard, &[LETTER])?;
    fs::write("/tmp/display", server.display())?;
    use_it(&connection, editor, keyboard, mouse)
}

/// Types and moves the mouse without end.
fn use_it(
    connection: &RustConnection,
    editor: Window,
    keyboard: BorrowedFd<'_>,
    mouse: BorrowedFd<'_>,
) -> Outcome<()> {
    for turn in 0_u32.. {
        uinput::push(mouse, if turn % 20 < 10 { 3 } else { -3 })?;
        if turn % 8 == 0 {
            uinput::strike(keyboard, &[LETTER])?;
        }
        if turn % 50 == 0 {
            // The values 0 and 1 mean that nothing has the focus, or the window under the pointer.
            let has = connection.get_input_focus()?.reply()?.focus;
            if has < 2 || has == connection.setup().roots[0].root {
                focus(connection, editor)?;
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Starts one of the person's programs, in a session of its own.
fn begin(display: &str, command: &str) -> io::Result<()> {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).env("DISPLAY", display).env("HOME", "/tmp/home").current_dir("/tmp/home");
    shell.uid(PERSON).gid(PERSON).stdin(Stdio::null());
    settle(&mut shell, [Setting::OwnSession]).spawn().map(drop)
}

fn focus(connection: &RustConnection, window: Window) -> Outcome<()> {
    connection.set_input_focus(InputFocus::POINTER_ROOT, window, CURRENT_TIME)?;
    Ok(connection.sync()?)
}

/// Waits for the first window of this class.
fn wait_for(connection: &RustConnection, class: &[u8]) -> Outcome<Window> {
    loop {
        for window in connection.query_tree(connection.setup().roots[0].root)?.reply()?.children {
            let asked =
                connection.get_property(false, window, AtomEnum::WM_CLASS, AtomEnum::STRING, 0, 64)?;
            // A window that was destroyed meanwhile is not the window that is looked for.
            let Ok(property) = asked.reply() else { continue };
            if property.value.split(|&byte| byte == 0).any(|part| part == class) {
                return Ok(window);
            }
        }
        thread::sleep(Duration::from_millis(100));
    }
}

fn panel() -> Outcome<()> {
    let (connection, _) = RustConnection::connect(None)?;
    let screen = &connection.setup().roots[0];
    let (window, root) = (connection.generate_id()?, screen.root);
    let (depth, class) = (COPY_DEPTH_FROM_PARENT, WindowClass::INPUT_OUTPUT);
    let settings = CreateWindowAux::new().override_redirect(1);
    connection.create_window(
        depth,
        window,
        root,
        500,
        570,
        300,
        30,
        0,
        class,
        COPY_FROM_PARENT,
        &settings,
    )?;
    let mut gcs = [0; 2];
    for (gc, colour) in gcs.iter_mut().zip([screen.black_pixel, screen.white_pixel]) {
        *gc = connection.generate_id()?;
        connection.create_gc(*gc, window, &CreateGCAux::new().foreground(colour))?;
    }
    connection.map_window(window)?;
    let mut bus = bus::Bus::connect()?;
    let watch = inotify::init(inotify::CreateFlags::NONBLOCK)?;
    inotify::add_watch(&watch, "/tmp/watched", inotify::WatchFlags::CREATE | inotify::WatchFlags::DELETE)?;
    let area = Rectangle { x: 0, y: 0, width: 300, height: 30 };
    let mut drawn = Instant::now();
    loop {
        _ = poll::wait(&mut [poll::readable(&watch)], Some(Duration::from_millis(100)));
        let mut events = [0; 4096];
        _ = rustix::io::read(&watch, &mut events);
        if drawn.elapsed() >= Duration::from_millis(100) {
            drawn = Instant::now();
            bus.ask()?;
            gcs.swap(0, 1);
            connection.poly_fill_rectangle(window, gcs[0], &[area])?;
            connection.sync()?;
        }
    }
}
