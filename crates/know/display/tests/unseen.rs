//! Input counts only if a person can see the window that gets it: each case runs on a real X server, with a
//! real client for each window.

mod support;

use spry_display::Synthetic;
use support::{Actor, Eyes, Xvfb, server};

/// A client that types by XTEST, and a client that reads: the reader has carried out `lines`
/// and has the focus.
fn typist_and_reader(server: &Xvfb, lines: &[&str]) -> (Actor, Actor) {
    let (typist, mut reader) = (Actor::on(server), Actor::on(server));
    for line in lines {
        reader.act(line);
    }
    take_keys(&mut reader);
    (typist, reader)
}

fn take_keys(actor: &mut Actor) {
    actor.act("keys");
    actor.act("focus");
}

/// The number of events of ten typed keys that count for the reader.
fn counted(eyes: &mut Eyes, typist: &mut Actor, reader: &Actor) -> u32 {
    eyes.forget();
    typist.act("type 10");
    eyes.of(reader.tgid()).input
}

/// The number of events of ten typed keys that count for a client after `lines`, with the focus.
fn counted_after(lines: &[&str]) -> u32 {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut typist, reader) = typist_and_reader(&server, lines);
    counted(&mut eyes, &mut typist, &reader)
}

#[test]
fn a_window_counts_that_is_seen_and_was_drawn() {
    assert_eq!(counted_after(&["window 10 10 100 100"]), 20, "the server paints its background");
    assert_eq!(counted_after(&["window 10 10 16 16"]), 20, "as small as an icon");
    assert_eq!(
        counted_after(&["window 10 10 100 100", "fill 0 0 100 100", "move 790 10"]),
        20,
        "a part of it"
    );
}

#[test]
fn a_window_that_shows_nothing_does_not_count() {
    assert_eq!(counted_after(&["input-only 0 10 10 300 300"]), 0, "only for input");
    assert_eq!(counted_after(&["blank 10 10 300 300"]), 0, "nothing is drawn in it");
    assert_eq!(counted_after(&["blank 10 10 1 1"]), 0, "nor in a small one");
    assert_eq!(counted_after(&["blank-deep 10 10 300 300"]), 0, "translucent, and nothing is drawn in it");
    assert_eq!(counted_after(&["window 10 10 15 15"]), 0, "too small");
    assert_eq!(counted_after(&["window 10 10 300 300", "fill 0 0 300 300", "hollow"]), 0, "without pixels");
    assert_eq!(
        counted_after(&["window 10 10 300 300", "fill 0 0 300 300", "move 900 10"]),
        0,
        "off the screen"
    );
}

#[test]
fn a_small_window_for_keys_inside_one_that_is_seen_counts() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut typist, mut reader) = (Actor::on(&server), Actor::on(&server));
    let around = reader.act("window 100 100 200 200");
    reader.act("fill 0 0 200 200");
    for inner in ["inside", "input-only"] {
        reader.act(&format!("{inner} {around} -1 -1 1 1"));
        take_keys(&mut reader);
        assert_eq!(counted(&mut eyes, &mut typist, &reader), 20, "{inner}");
    }
}

#[test]
fn a_small_window_of_one_client_inside_another_s_does_not_count() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let mut editor = Actor::with_window(&server, "100 100 200 200");
    let around = editor.act("fill 0 0 200 200");
    // The eyes do not follow this window inside the editor's, because it belongs to the same client.
    let deeper = editor.act(&format!("inside {around} 0 0 200 200"));
    for parent in [around, deeper] {
        let (mut typist, forger) = typist_and_reader(&server, &[&format!("inside {parent} 0 0 1 1")]);
        assert_eq!(counted(&mut eyes, &mut typist, &forger), 0);
    }
}

#[test]
fn a_window_covered_by_its_sibling_does_not_count() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let mut editor = Actor::with_window(&server, "100 100 200 200");
    let around = editor.act("fill 0 0 200 200");
    let (mut typist, mut forger) = typist_and_reader(&server, &[&format!("inside {around} 0 0 100 100")]);
    eyes.forget();
    forger.act("fill 0 0 100 100");
    assert_eq!(counted(&mut eyes, &mut typist, &forger), 20);
    editor.act(&format!("inside {around} 0 0 200 200"));
    assert_eq!(counted(&mut eyes, &mut typist, &forger), 0);
}

#[test]
fn a_window_in_a_frame_counts_and_so_does_one_deep_inside() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let mut frame = Actor::on(&server);
    let around = frame.act("window 100 100 300 300");
    let (mut typist, mut reader) = typist_and_reader(&server, &["window 0 0 200 200"]);
    reader.act(&format!("reparent {around}"));
    reader.act("focus");
    reader.act("fill 0 0 200 200");
    assert_eq!(counted(&mut eyes, &mut typist, &reader), 20);
    // The eyes follow the frame's own window in between only after something inside it has received input.
    let between = frame.act(&format!("inside {around} 0 200 300 100"));
    let (mut typist, mut plugged) = typist_and_reader(&server, &[&format!("inside {between} 0 0 50 50")]);
    counted(&mut eyes, &mut typist, &plugged);
    plugged.act("fill 0 0 50 50");
    assert_eq!(counted(&mut eyes, &mut typist, &plugged), 20);
}

#[test]
fn a_covered_window_does_not_count_until_it_is_seen_again() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut typist, reader) = typist_and_reader(&server, &["window 100 100 200 200", "fill 0 0 200 200"]);
    assert_eq!(counted(&mut eyes, &mut typist, &reader), 20);
    let mut cover = Actor::with_window(&server, "50 50 400 400");
    assert_eq!(counted(&mut eyes, &mut typist, &reader), 0);
    cover.act("move 400 50");
    assert_eq!(counted(&mut eyes, &mut typist, &reader), 20);
}

#[test]
fn a_window_that_shows_nothing_hides_nothing() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut typist, reader) = typist_and_reader(&server, &["window 100 100 200 200", "fill 0 0 200 200"]);
    assert_eq!(counted(&mut eyes, &mut typist, &reader), 20);
    let mut forger = Actor::on(&server);
    forger.act("blank 0 0 800 500");
    assert_eq!(counted(&mut eyes, &mut typist, &reader), 20);
}

#[test]
fn a_compositor_s_overlay_hides_nothing() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut typist, mut reader) =
        typist_and_reader(&server, &["window 100 100 200 200", "fill 0 0 200 200"]);
    assert_eq!(counted(&mut eyes, &mut typist, &reader), 20);
    reader.act("redirect");
    let mut compositor = Actor::on(&server);
    compositor.act("overlay");
    assert_eq!(counted(&mut eyes, &mut typist, &reader), 20);
}

#[test]
fn a_window_from_before_the_eyes_counts_once_it_has_drawn() {
    let server = server();
    let (mut typist, mut reader) =
        typist_and_reader(&server, &["window 100 100 200 200", "fill 0 0 200 200"]);
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    assert_eq!(counted(&mut eyes, &mut typist, &reader), 0);
    reader.act("fill 0 0 20 20");
    assert_eq!(counted(&mut eyes, &mut typist, &reader), 20);
}

#[test]
fn a_window_that_is_shown_again_has_to_draw_again() {
    let server = server();
    let mut eyes = Eyes::on(server.display(), Synthetic::Trusted);
    let (mut typist, mut reader) = typist_and_reader(&server, &["blank 100 100 200 200"]);
    reader.act("paint");
    assert_eq!(counted(&mut eyes, &mut typist, &reader), 20);
    reader.act("unmap");
    reader.act("map");
    reader.act("focus");
    assert_eq!(counted(&mut eyes, &mut typist, &reader), 0);
}
