//! The drawing and the input of each client of a real X server are seen and measured, whatever happens to
//! clients and servers.

mod support;

use std::fs;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use spry_display::{DeviceOptions, DeviceState, Synthetic};
use spry_policy::{Server, Tgid};
use support::{Actor, Eyes, PIXELS, ppm, server};

/// Fails unless a number differs from another by at most one percent.
#[track_caller]
fn assert_about(found: u64, expected: u64) {
    assert!(found.abs_diff(expected) * 100 <= expected, "{found} is not about {expected}");
}

#[test]
fn keys_count_for_the_client_that_receives_them() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut typist, mut reader) = (Actor::on(&server), Actor::with_window(&server, "0 0 100 100"));
    let mut other = Actor::with_window(&server, "200 0 100 100");
    other.act("keys");
    reader.act("keys");
    reader.act("focus");
    eyes.forget();
    typist.act("type 20");
    // Each key gives two events: it is pressed and released.
    assert_eq!(eyes.of(reader.tgid()).input, 40);
    other.act("focus");
    typist.act("type 5");
    let seen = eyes.of(other.tgid());
    assert_eq!(seen.input, 10);
    assert_eq!(tgids(&eyes.devices.take().servers), [Tgid(server.tgid())]);
}

fn tgids(servers: &[Server]) -> Vec<Tgid> {
    servers.iter().map(|server| server.tgid).collect()
}

#[test]
fn keys_by_xinput_count_as_core_ones_do() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut typist, mut reader) = (Actor::on(&server), Actor::with_window(&server, "0 0 100 100"));
    reader.act("keys-xi");
    reader.act("focus");
    eyes.forget();
    typist.act("type 20");
    assert_eq!(eyes.of(reader.tgid()).input, 40);
}

#[test]
fn pictures_by_present_are_drawn_and_no_input() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let mut player = Actor::with_window(&server, "0 0 100 100");
    eyes.forget();
    player.act("present 200");
    let seen = eyes.of(player.tgid());
    assert_eq!(seen.input, 0);
    assert!(seen.output_ppm >= ppm(100 * 100), "{seen:?}");
}

#[test]
fn a_drawing_is_as_large_as_it_is() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Ignored);
    let mut painter = Actor::with_window(&server, "100 50 400 300");
    eyes.forget();
    painter.act("fill 10 20 200 100");
    assert_about(eyes.of(painter.tgid()).output_ppm, ppm(200 * 100));
    // The filled area is larger than the window on two sides: only the part inside counts.
    painter.act("fill 350 250 200 200");
    assert_about(eyes.of(painter.tgid()).output_ppm, ppm(50 * 50));
    // The window is partly beyond the screen: only the part on the screen counts.
    painter.act("move 600 400");
    eyes.forget();
    painter.act("fill 0 0 400 300");
    assert_about(eyes.of(painter.tgid()).output_ppm, ppm(200 * 100));
}

#[test]
fn a_film_is_as_many_screens_as_its_frames_cover() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Ignored);
    let mut player = Actor::with_window(&server, "0 0 400 250");
    eyes.forget();
    player.act("fill-often 25 40000 0 0 400 250");
    let seen = eyes.of(player.tgid());
    // On a machine that is held up, two frames may be seen as one; no frame is seen twice.
    let frames = seen.output_ppm / ppm(400 * 250);
    assert!((20..=25).contains(&frames), "{frames} frames");
    let status = eyes.devices.status();
    let client = status[0].clients.iter().find(|client| client.tgid == player.tgid()).expect("it is shown");
    assert!(client.frames_per_s > 10.0, "{client:?}");
}

#[test]
fn a_covered_window_is_not_seen() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Ignored);
    let mut painter = Actor::with_window(&server, "0 0 400 300");
    let mut cover = Actor::with_window(&server, "100 0 300 300");
    eyes.forget();
    painter.act("fill 0 0 400 300");
    assert_about(eyes.of(painter.tgid()).output_ppm, ppm(100 * 300));
    assert_eq!(eyes.of(cover.tgid()).output_ppm, 0);
    painter.act("raise");
    eyes.forget();
    painter.act("fill 0 0 400 300");
    assert_about(eyes.of(painter.tgid()).output_ppm, ppm(400 * 300));
    cover.act("raise");
    cover.act("move 0 0");
    eyes.forget();
    painter.act("fill 0 0 400 300");
    assert_about(eyes.of(painter.tgid()).output_ppm, ppm(100 * 300));
}

#[test]
fn a_window_inside_another_s_is_its_own_client_s() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Ignored);
    let mut frame = Actor::on(&server);
    let around = frame.act("window 100 100 300 200");
    let mut inner = Actor::with_window(&server, "0 0 200 100");
    // A window manager moves a window into another window; so does this test. Another client makes its window
    // in the same place.
    inner.act(&format!("reparent {around}"));
    let mut plugged = Actor::on(&server);
    plugged.act(&format!("inside {around} 0 150 100 50"));
    eyes.forget();
    inner.act("fill 0 0 200 100");
    plugged.act("fill 0 0 100 50");
    frame.act("fill 0 0 300 200");
    std::thread::sleep(Duration::from_millis(300));
    let samples = eyes.devices.take().samples;
    let of = |actor: &Actor| {
        let found = samples.iter().find(|sample| sample.tgid == actor.tgid());
        found.map_or(0, |sample| sample.changes.output_ppm)
    };
    assert_about(of(&inner), ppm(200 * 100));
    assert_about(of(&plugged), ppm(100 * 50));
    assert_about(of(&frame), ppm(300 * 200 - 200 * 100 - 100 * 50));
}

#[test]
fn a_new_client_is_reported_at_once_and_once() {
    let server = server();
    let eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let mut painter = Actor::with_window(&server, "0 0 100 100");
    let mut longest = Duration::ZERO;
    for _ in 0..5 {
        // After this pause the painter counts as new again.
        thread::sleep(Duration::from_millis(1_200));
        eyes.news();
        let begin = Instant::now();
        painter.begin("fill-often 20 10000 0 0 100 100");
        while eyes.news() == 0 {
            assert!(begin.elapsed() < Duration::from_secs(5), "nobody was told of");
            thread::sleep(Duration::from_micros(500));
        }
        longest = longest.max(begin.elapsed());
        painter.finish("fill-often");
        assert_eq!(eyes.news(), 0, "told of twice");
    }
    // It takes 20 ms on a quiet machine; other tests may run beside this one.
    assert!(longest < Duration::from_millis(250), "{longest:?}");
}

#[test]
fn a_server_that_is_killed_and_its_successor_are_noticed() {
    // The number of the display is far from the numbers that servers choose themselves.
    let display = format!(":{}", 700 + std::process::id() % 200);
    let mut first = start_xvfb(&display);
    let mut eyes = Eyes::on(&display, Synthetic::Trusted);
    first.kill().expect("it runs");
    first.wait().expect("it ends");
    eyes.wait_until("its end is noticed", |eyes| eyes.devices.take().servers.is_empty());
    // The eyes of the killed server end by themselves a moment later, and the display waits for a new server.
    eyes.wait_until("it waits", |eyes| {
        let states: Vec<_> = eyes.devices.status().into_iter().map(|status| status.state).collect();
        states == [DeviceState::Waiting]
    });
    let mut next = start_xvfb(&display);
    wait_for_socket(&display);
    // It takes half a second on a machine that has nothing else to do.
    let took = eyes.wait_until_watching();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(tgids(&eyes.devices.take().servers), [Tgid(next.id())]);
    next.kill().expect("it runs");
    next.wait().expect("it ends");
    // A server that is killed leaves these two files.
    fs::remove_file(format!("/tmp/.X11-unix/X{}", &display[1..])).expect("its socket");
    fs::remove_file(format!("/tmp/.X{}-lock", &display[1..])).expect("its lock");
}

#[test]
fn a_display_that_appears_later_is_found_by_itself() {
    let mut eyes = Eyes::open(DeviceOptions { synthetic: Synthetic::Trusted, ..DeviceOptions::default() });
    thread::sleep(Duration::from_millis(300));
    let server = server();
    let name = server.display().to_owned();
    let took = eyes.wait_until("it is watched", |eyes| {
        let status = eyes.devices.status();
        status.iter().any(|status| status.name == name && status.state == DeviceState::Watched)
    });
    assert!(took < Duration::from_secs(1), "{took:?}");
    let mut painter = Actor::with_window(&server, "0 0 200 200");
    eyes.forget();
    painter.act("fill 0 0 200 200");
    assert_about(eyes.of(painter.tgid()).output_ppm, ppm(200 * 200));
}

fn start_xvfb(display: &str) -> Child {
    let mut command = Command::new("Xvfb");
    command.args([display, "-screen", "0", "800x500x24", "-nolisten", "tcp", "-noreset"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("Xvfb starts")
}

fn wait_for_socket(display: &str) {
    let path = format!("/tmp/.X11-unix/X{}", &display[1..]);
    let begin = Instant::now();
    while UnixStream::connect(&path).is_err() {
        assert!(begin.elapsed() < Duration::from_secs(30), "no server at {path}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_screen_s_size_is_what_areas_are_parts_of() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Ignored);
    let mut painter = Actor::with_window(&server, "0 0 800 500");
    eyes.forget();
    painter.act("fill 0 0 800 500");
    assert_about(eyes.of(painter.tgid()).output_ppm, ppm(PIXELS));
}
