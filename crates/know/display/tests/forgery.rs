//! Tricks of programs to look as if they were in use do not count: each case runs on a real X server
//! with a real client.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use spry_display::{DeviceOptions, DeviceState, Synthetic};
use spry_policy::Changes;
use support::{Actor, Eyes, ppm, server};

#[test]
fn events_that_a_client_sends_to_itself_do_not_count() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut typist, mut forger) = (Actor::on(&server), Actor::with_window(&server, "0 0 100 100"));
    forger.act("keys");
    forger.act("focus");
    eyes.forget();
    typist.act("type 3");
    forger.act("send 500");
    // The keys of the typist, which the server made, count: three keys give six events.
    assert_eq!(eyes.of(forger.tgid()).input, 6);
}

#[test]
fn xtest_is_no_person_s_input() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Ignored);
    let mut forger = Actor::with_window(&server, "0 0 100 100");
    forger.act("keys");
    forger.act("focus");
    eyes.forget();
    forger.act("type 100");
    assert_eq!(eyes.of(forger.tgid()).input, 0);
}

#[test]
fn xtest_in_a_keyboard_s_name_is_no_person_s_input() {
    let server = server();
    let mut forger = Actor::with_window(&server, "0 0 100 100");
    forger.act("keys");
    forger.act("focus");
    {
        // The test first checks that such keys reach the client when synthetic input is trusted.
        let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
        forger.act("fill 0 0 100 100");
        eyes.forget();
        forger.act("type-device 20");
        assert_eq!(eyes.of(forger.tgid()).input, 40);
    }
    let mut eyes = Eyes::on(server.display(), Synthetic::Ignored);
    forger.act("fill 0 0 100 100");
    eyes.forget();
    forger.act("type-device 100");
    assert_eq!(eyes.of(forger.tgid()).input, 0);
}

#[test]
fn a_listener_at_another_client_s_window_is_not_in_use() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut typist, mut reader) = (Actor::on(&server), Actor::on(&server));
    let window = reader.act("window 0 0 100 100");
    reader.act("keys");
    reader.act("focus");
    let mut forger = Actor::with_window(&server, "200 0 100 100");
    forger.act(&format!("keys-of {window}"));
    eyes.forget();
    typist.act("type 10");
    assert_eq!(eyes.of(forger.tgid()).input, 0);
    typist.act("type 10");
    assert_eq!(eyes.of(reader.tgid()).input, 20 + 20 - 20, "the one typed at is");
}

/// The changes that count for a client that draws very often in a window at this place, after `more`.
fn drawn(place: &str, more: &[&str]) -> Changes {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let mut forger = Actor::with_window(&server, place);
    for line in more {
        forger.act(line);
    }
    eyes.forget();
    forger.act("fill-often 100 3000 0 0 800 500");
    eyes.of(forger.tgid())
}

#[test]
fn drawing_that_cannot_be_seen_does_not_count() {
    assert!(drawn("10 10 300 300", &[]).output_ppm > ppm(300 * 300), "what is seen counts");
    assert_eq!(drawn("10 10 300 300", &["unmap"]), Changes::default(), "not shown");
    assert_eq!(drawn("900 10 300 300", &[]), Changes::default(), "out of the screen");
    assert_eq!(drawn("10 10 1 1", &[]), Changes::default(), "a dot");
    assert_eq!(drawn("10 10 300 300", &["hollow"]), Changes::default(), "a window without pixels");
    assert_eq!(drawn("10 10 300 300", &["redirect"]), Changes::default(), "kept from the screen");
    assert_eq!(
        drawn("10 10 300 300", &["window 10 10 300 300", "redirect"]),
        Changes::default(),
        "the same, on top"
    );
}

#[test]
fn drawing_below_another_window_does_not_count() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let mut forger = Actor::with_window(&server, "100 100 200 200");
    let _cover = Actor::with_window(&server, "50 50 400 400");
    eyes.forget();
    forger.act("fill-often 100 3000 0 0 200 200");
    assert_eq!(eyes.of(forger.tgid()), Changes::default());
}

#[test]
fn drawing_into_pixmaps_does_not_count() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let mut forger = Actor::with_window(&server, "100 100 200 200");
    eyes.forget();
    forger.act("pixmap 1000");
    assert_eq!(eyes.of(forger.tgid()), Changes::default());
}

#[test]
fn a_window_without_pixels_over_another_takes_nothing_from_it() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let mut painter = Actor::with_window(&server, "100 100 200 200");
    let mut forger = Actor::with_window(&server, "0 0 800 500");
    forger.act("hollow");
    eyes.forget();
    painter.act("fill 0 0 200 200");
    let theirs = eyes.of(painter.tgid()).output_ppm;
    assert!(theirs.abs_diff(ppm(200 * 200)) * 100 <= theirs, "{theirs}");
    painter.act("fill 0 0 200 200");
    assert_eq!(eyes.of(forger.tgid()), Changes::default());
}

#[test]
fn drawing_ten_thousand_times_a_second_is_drawing_fifty_times() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let mut forger = Actor::with_window(&server, "0 0 800 500");
    eyes.forget();
    let begin = Instant::now();
    forger.act("fill-often 10000 0 0 0 400 250");
    let seen = eyes.of(forger.tgid());
    let seconds = begin.elapsed().as_secs_f64();
    let most = (seconds * 50.0 + 2.0) * ppm(400 * 250) as f64;
    assert!(seen.output_ppm > 0 && (seen.output_ppm as f64) <= most, "{seen:?} in {seconds} s");
}

#[test]
fn windows_of_many_connections_count_as_one_process_and_screen() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut typist, mut forger) = (Actor::on(&server), Actor::with_window(&server, "0 0 800 500"));
    forger.act("connections 100");
    forger.act("keys");
    forger.act("focus");
    eyes.forget();
    typist.act("type 4");
    let begin = Instant::now();
    forger.act("fill-often 50 2000 0 0 800 500");
    let seen = eyes.of(forger.tgid());
    let rounds = begin.elapsed().as_secs_f64() * 50.0 + 2.0;
    assert_eq!(seen.input, 8);
    assert!(seen.output_ppm as f64 <= rounds * 1e6, "{seen:?}");
}

#[test]
fn a_client_s_claim_of_its_process_is_not_read() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut victim, mut forger) =
        (Actor::with_window(&server, "0 0 100 100"), Actor::with_window(&server, "200 0 100 100"));
    victim.act(&format!("claim {}", forger.tgid().0));
    forger.act(&format!("claim {}", victim.tgid().0));
    eyes.forget();
    victim.act("fill 0 0 100 100");
    thread::sleep(Duration::from_millis(300));
    let samples = eyes.devices.take().samples;
    assert_eq!(samples.iter().map(|sample| sample.tgid).collect::<Vec<_>>(), [victim.tgid()]);
}

#[test]
fn a_display_without_a_screen_makes_no_process_used() {
    let server = server();
    let mut eyes = Eyes::open(DeviceOptions::default());
    let name = server.display().to_owned();
    eyes.wait_until("it is left out", |eyes| {
        let status = eyes.devices.status();
        status.iter().any(|status| status.name == name && matches!(status.state, DeviceState::Ignored(_)))
    });
    let mut forger = Actor::with_window(&server, "0 0 800 500");
    forger.act("fill-often 20 5000 0 0 800 500");
    thread::sleep(Duration::from_millis(300));
    let seen = eyes.devices.take();
    assert!(seen.servers.is_empty() && seen.samples.is_empty(), "{seen:?}");
}
