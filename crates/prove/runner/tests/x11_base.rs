//! The X server, its clients and its observers, with a real Xvfb.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use spry_runner::x11::child::{Output, Program};
use spry_runner::x11::client::Client;
use spry_runner::x11::damage::{DamageWatch, Level, Sight};
use spry_runner::x11::find;
use spry_runner::x11::keys::Keyboard;
use spry_runner::x11::server::{Server, furnish};
use spry_runner::x11::surface::Surface;
use spry_runner::x11::{X11Error, clock};
use spry_scenario::kinds::x11::SoughtWindow;
use spry_scenario::model::XServer;
use spry_scenario::screen::Size;

const SMALL: Size = Size { width: 640, height: 480 };
const FRAME: Size = Size { width: 352, height: 288 };

fn server() -> Server {
    Server::start(XServer::Xvfb, SMALL).expect("these tests need Xvfb (Debian: xvfb)")
}

fn start(server: &Server, command: &str, arguments: &[&str]) -> Result<Program, X11Error> {
    let mut program = Command::new(command);
    program.args(arguments);
    furnish(&mut program, server.display(), server.directory());
    Program::start(program, Output::Log, server.directory().join("program.log"), command)
}

#[test]
fn a_dropped_server_leaves_neither_process_nor_directory() {
    let server = server();
    let (tgid, directory) = (server.tgid(), server.directory().to_path_buf());
    let socket = PathBuf::from(format!("/tmp/.X11-unix/X{}", &server.display()[1..]));
    assert!(directory.exists() && socket.exists());
    drop(server);
    assert!(!Path::new(&format!("/proc/{tgid}")).exists());
    assert!(!directory.exists() && !socket.exists());
}

#[test]
fn two_servers_have_two_displays() {
    let (one, other) = (server(), server());
    assert_ne!(one.display(), other.display());
    assert_ne!(one.directory(), other.directory());
}

#[test]
fn damage_reports_each_frame_that_a_client_sent() {
    let server = server();
    let mut surface = Surface::open(server.display(), "frames", (10, 10), FRAME).expect("a window");
    let client = Client::connect(server.display()).expect("a connection");
    let watch = DamageWatch::begin(client, surface.window().id(), Level::Each).expect("a watch");
    for frame in 0..200_u32 {
        surface.rows().next().expect("a row").fill(frame);
        surface.present().expect("a frame");
    }
    let area = u32::from(FRAME.width) * u32::from(FRAME.height);
    let mut seen = 0;
    while let Some((_, sight)) = watch.next(clock::after(Duration::from_millis(200))).expect("sights") {
        seen += u32::from(sight == Sight::Drawn { area });
    }
    assert_eq!(seen, 200);
}

#[test]
fn the_first_level_reports_once_until_it_is_rearmed() {
    let server = server();
    let mut surface = Surface::open(server.display(), "frames", (0, 0), FRAME).expect("a window");
    let client = Client::connect(server.display()).expect("a connection");
    let watch = DamageWatch::begin(client, surface.window().id(), Level::First).expect("a watch");
    for _ in 0..3 {
        watch.rearm().expect("a request");
        watch.client().sync().expect("an answer");
        for _ in 0..5 {
            surface.present().expect("a frame");
        }
        let soon = || clock::after(Duration::from_millis(100));
        assert!(matches!(watch.next(soon()), Ok(Some((_, Sight::Touched)))));
        assert!(matches!(watch.next(soon()), Ok(None)));
    }
}

#[test]
fn a_struck_key_reaches_the_window_with_the_focus() {
    let server = server();
    let mut surface = Surface::open(server.display(), "keys", (0, 0), FRAME).expect("a window");
    let typist = Client::connect(server.display()).expect("a connection");
    let keyboard = Keyboard::read(&typist).expect("a keyboard");
    typist.focus(surface.window().id()).expect("the focus");
    for character in "aZ\n!".chars() {
        keyboard.strike(&typist, keyboard.key(character).expect("a key")).expect("a stroke");
    }
    typist.sync().expect("an answer");
    surface.present().expect("a frame");
    // Z and ! come with a Shift each.
    assert_eq!(surface.keys_pressed().expect("events"), 6);
    assert!(matches!(keyboard.key('☃'), Err(X11Error::NoKey('☃'))));
}

#[test]
fn the_window_of_a_real_program_is_found_by_its_class() {
    let server = server();
    let client = Client::connect(server.display()).expect("a connection");
    let before = find::present(&client).expect("windows");
    let mut xterm = start(&server, "xterm", &["-e", "cat"]).expect("xterm");
    let sought = SoughtWindow { class: Some("XTerm".into()), name: None };
    let seen =
        find::wait_for(&client, &mut xterm, &before, &sought, Duration::from_secs(20)).expect("a window");
    assert!(seen.width > 100 && seen.class == ["xterm", "XTerm"]);
}

#[test]
fn a_program_without_a_window_is_reported_with_what_it_said() {
    let server = server();
    let client = Client::connect(server.display()).expect("a connection");
    let before = find::present(&client).expect("windows");
    let sought = SoughtWindow { class: Some("Film".into()), name: None };
    let wait = |program: &mut Program| {
        let error = find::wait_for(&client, program, &before, &sought, Duration::from_millis(300));
        error.expect_err("there is no window").to_string()
    };
    let mut silent = start(&server, "sh", &["-c", "echo no film here; exec sleep 5"]).expect("sh");
    assert_eq!(
        wait(&mut silent),
        "sh opened no window of class \"Film\" within 0 s; windows there are: none; it said: no film here"
    );
    let mut short = start(&server, "sh", &["-c", "echo cannot open film >&2; exit 3"]).expect("sh");
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(wait(&mut short), "sh ended (exit status 3); it said: cannot open film");
}

#[test]
fn a_missing_program_is_named_with_its_package() {
    let server = server();
    let mut command = Command::new("spry-no-such-program");
    furnish(&mut command, server.display(), server.directory());
    let log = server.directory().join("log");
    let error = Program::start(command, Output::Log, log, "some-package").expect_err("there is none");
    assert_eq!(
        error.to_string(),
        "spry-no-such-program is not installed: install the package that has it (Debian: some-package)"
    );
}

#[test]
fn a_program_and_its_children_end_with_its_owner() {
    let server = server();
    let program = start(&server, "sh", &["-c", "sleep 77 & echo $!; wait"]).expect("sh");
    std::thread::sleep(Duration::from_millis(200));
    let child = program.said();
    assert!(Path::new(&format!("/proc/{child}")).exists());
    drop(program);
    let state = || std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    // The process was killed a moment ago, and its parent may not have reaped it yet.
    let has_ended = |state: &str| state.is_empty() || state.contains(") Z ");
    let end = Instant::now() + Duration::from_secs(5);
    while !has_ended(&state()) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(has_ended(&state()), "{}", state());
}
