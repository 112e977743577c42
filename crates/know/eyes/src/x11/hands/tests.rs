//! Keys of a real keyboard, programs that receive them, and programs that pass them on.

use std::thread;

use super::*;

const EDITOR: Tgid = Tgid(10);
const RELAY: Tgid = Tgid(20);
const OTHER: Tgid = Tgid(30);
const KEYBOARD: u16 = 7;
const LETTER: u32 = 38;
/// After this time nothing is held back any more.
const HELD: Duration = super::super::relay::HELD.saturating_add(Duration::from_millis(50));

/// A keyboard, and the processes for which an event counted.
#[derive(Default)]
struct Desk {
    hands: Hands,
    counted: Vec<Tgid>,
    now_ms: u32,
}

impl Desk {
    fn new() -> Desk {
        let mut desk = Desk { now_ms: 1_000, ..Desk::default() };
        desk.hands.real.insert(KEYBOARD);
        desk
    }

    /// The keyboard reports that the key is pressed or released.
    fn hand(&mut self, kind: u8) -> &mut Desk {
        self.now_ms += 40;
        self.hands.moved(u16::from(kind) - 2 + RAW_KEY, 3, self.now_ms, LETTER, KEYBOARD);
        self
    }

    fn receives(&mut self, tgid: Tgid, kind: u8, worth: Worth) -> &mut Desk {
        let time_ms = self.now_ms;
        let delivered = Delivery { client: 0, window: 0, kind, detail: LETTER, device: None, time_ms };
        self.hands.delivered(tgid, delivered, worth);
        self
    }

    /// A process asks XTEST for the key.
    fn makes(&mut self, tgid: Tgid, kind: u8) -> &mut Desk {
        self.now_ms += 5;
        let faked = self.fake(kind, None);
        self.hands.faked(Some(tgid), faked, None);
        self
    }

    /// A process sends the key to another process.
    fn sends(&mut self, tgid: Tgid, kind: u8, receiver: Tgid) -> &mut Desk {
        self.now_ms += 5;
        let faked = self.fake(kind, Some(1));
        self.hands.faked(Some(tgid), faked, Some(receiver));
        self
    }

    fn fake(&self, kind: u8, to: Option<u32>) -> FakeInput {
        FakeInput { client: 0, device: None, to, kind, detail: LETTER, time_ms: self.now_ms }
    }

    fn settle(&mut self) -> &mut Desk {
        let counted = &mut self.counted;
        self.hands.settle(|tgid| counted.push(tgid));
        self
    }

    /// The processes for which an event counted since the last call, also for events that were held back.
    fn counted(&mut self) -> Vec<Tgid> {
        thread::sleep(HELD);
        self.settle();
        std::mem::take(&mut self.counted)
    }

    /// A process makes a key without having received one, so that it is known as a process that makes input.
    fn knows(&mut self, relay: Tgid) -> &mut Desk {
        self.makes(relay, PRESS).settle();
        // No process received a key that this process could have passed on.
        assert_eq!(self.counted(), []);
        self
    }
}

#[test]
fn a_key_counts_at_once_for_the_process_that_receives_it() {
    let mut desk = Desk::new();
    desk.hand(PRESS).receives(EDITOR, PRESS, Worth::Own).settle();
    assert_eq!(desk.counted, [EDITOR]);
}

#[test]
fn input_made_without_a_device_counts_for_no_process() {
    let mut desk = Desk::new();
    desk.makes(RELAY, PRESS).receives(EDITOR, PRESS, Worth::Own).settle();
    assert_eq!(desk.counted(), []);
}

#[test]
fn only_the_first_key_passed_on_counts_for_the_relay() {
    let mut desk = Desk::new();
    for _ in 0..3 {
        desk.hand(PRESS).receives(RELAY, PRESS, Worth::Own).settle();
        desk.makes(RELAY, PRESS).receives(EDITOR, PRESS, Worth::Own).settle();
    }
    assert_eq!(desk.counted(), [RELAY, EDITOR, EDITOR]);
}

#[test]
fn input_sent_on_counts_for_the_process_that_receives_it() {
    let mut desk = Desk::new();
    for _ in 0..3 {
        desk.hand(PRESS).receives(RELAY, PRESS, Worth::Own).settle();
        desk.sends(RELAY, PRESS, EDITOR).settle();
    }
    assert_eq!(desk.counted(), [RELAY, EDITOR, EDITOR]);
}

#[test]
fn a_window_that_is_not_seen_passes_on_as_well() {
    let mut desk = Desk::new();
    desk.knows(RELAY);
    desk.hand(PRESS).receives(RELAY, PRESS, Worth::Passage).settle();
    desk.makes(RELAY, PRESS).receives(EDITOR, PRESS, Worth::Own).settle();
    assert_eq!(desk.counted(), [EDITOR]);
}

#[test]
fn a_relay_does_not_own_the_release_of_a_key_it_passed_on() {
    let mut desk = Desk::new();
    desk.knows(RELAY);
    desk.hand(PRESS).receives(RELAY, PRESS, Worth::Own).makes(RELAY, PRESS).settle();
    desk.hand(RELEASE).receives(RELAY, RELEASE, Worth::Own).settle();
    assert_eq!(desk.counted(), []);
    desk.hand(RELEASE).receives(RELAY, RELEASE, Worth::Own).settle();
    assert_eq!(desk.counted(), [RELAY], "the next one is");
}

#[test]
fn input_that_a_relay_keeps_counts_a_little_later() {
    let mut desk = Desk::new();
    desk.knows(RELAY);
    desk.hand(PRESS).receives(RELAY, PRESS, Worth::Own).settle();
    assert_eq!(desk.counted, []);
    assert_eq!(desk.counted(), [RELAY]);
}

#[test]
fn keys_that_a_process_sends_itself_change_no_count() {
    let mut desk = Desk::new();
    desk.knows(RELAY);
    desk.hand(PRESS).receives(RELAY, PRESS, Worth::Own).settle();
    for _ in 0..3 {
        desk.makes(RELAY, PRESS).receives(RELAY, PRESS, Worth::Own).settle();
    }
    assert_eq!(desk.counted(), [RELAY]);
    desk.hand(PRESS).receives(RELAY, PRESS, Worth::Own).settle();
    desk.makes(RELAY, PRESS).receives(RELAY, PRESS, Worth::Own).settle();
    desk.makes(RELAY, PRESS).receives(EDITOR, PRESS, Worth::Own).settle();
    assert_eq!(desk.counted(), [EDITOR], "what it makes for another is passed on all the same");
}

#[test]
fn a_process_that_did_not_receive_a_key_draws_it_to_no_process() {
    let mut desk = Desk::new();
    desk.knows(OTHER);
    desk.hand(PRESS).receives(RELAY, PRESS, Worth::Own).settle();
    desk.makes(OTHER, PRESS).receives(EDITOR, PRESS, Worth::Own).settle();
    assert_eq!(desk.counted(), [], "the two may be accomplices");
    // A process that listens at the window of another process draws the key to no process, either.
    desk.hand(PRESS).receives(OTHER, PRESS, Worth::Passage).receives(RELAY, PRESS, Worth::Own).settle();
    desk.makes(OTHER, PRESS).receives(EDITOR, PRESS, Worth::Own).settle();
    assert_eq!(desk.counted(), []);
    desk.hand(PRESS).receives(EDITOR, PRESS, Worth::Own).settle();
    assert_eq!(desk.counted(), [EDITOR], "the next key is the editor's");
}

#[test]
fn a_key_through_two_relays_counts_for_its_last_receiver() {
    let mut desk = Desk::new();
    desk.knows(RELAY).knows(OTHER);
    for seen in [Worth::Own, Worth::Passage] {
        desk.hand(PRESS).receives(RELAY, PRESS, seen).settle();
        desk.makes(RELAY, PRESS).receives(OTHER, PRESS, seen).settle();
        desk.makes(OTHER, PRESS).receives(EDITOR, PRESS, Worth::Own).settle();
        assert_eq!(desk.counted(), [EDITOR]);
    }
}

#[test]
fn a_key_passed_on_and_then_forgotten_counts_for_no_process() {
    let mut desk = Desk::new();
    desk.knows(RELAY);
    desk.hand(PRESS).receives(RELAY, PRESS, Worth::Own).makes(RELAY, PRESS);
    for _ in 0..1024 {
        desk.makes(RELAY, MOTION);
    }
    assert_eq!(desk.settle().counted(), []);
    desk.hand(PRESS).receives(RELAY, PRESS, Worth::Own).settle();
    assert_eq!(desk.counted(), [RELAY], "what it receives later does");
}

#[test]
fn a_key_passed_on_twice_counts_once() {
    let mut desk = Desk::new();
    desk.knows(RELAY);
    for _ in 0..2 {
        desk.hand(PRESS).receives(RELAY, PRESS, Worth::Own).settle();
        desk.makes(RELAY, PRESS).receives(OTHER, PRESS, Worth::Own).settle();
        desk.makes(RELAY, PRESS).receives(EDITOR, PRESS, Worth::Own).settle();
        thread::sleep(Duration::from_millis(120));
        desk.settle();
    }
    assert_eq!(desk.counted(), [OTHER]);
}
