//! The backstop as an event source for mio.

use std::io::Write;
use std::time::Duration;

use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Token};
use spry_timer::{Backstop, Terms, Timers, Trigger, now_ns};

const BACKSTOP: Token = Token(0);
const SOCKET: Token = Token(1);

/// The tokens of the next events, at most after 10 s.
fn tokens(poll: &mut Poll, events: &mut Events) -> Vec<Token> {
    poll.poll(events, Some(Duration::from_secs(10))).expect("it waits");
    events.iter().map(|event| event.token()).collect()
}

#[test]
fn each_expiry_is_one_event_though_nothing_is_read() {
    let (mut poll, mut events) = (Poll::new().expect("a poll"), Events::with_capacity(8));
    let mut backstop = Backstop::new().expect("a timer");
    poll.registry().register(&mut backstop, BACKSTOP, Interest::READABLE).expect("it can be waited for");
    let mut timers: Timers<u32> = Timers::new();
    let start_ns = now_ns();
    timers.arm(start_ns, Terms::firm(start_ns, 100_000).every(200_000), 1).expect("it can be kept");
    let mut fired = 0;
    while fired < 10 {
        backstop.arm(timers.backstop_ns()).expect("it can be armed");
        assert_eq!(tokens(&mut poll, &mut events), [BACKSTOP]);
        backstop.note_expiry();
        let before = fired;
        while timers.take(now_ns(), Trigger::Backstop).is_some() {
            fired += 1;
        }
        assert!(fired > before);
    }
    poll.registry().deregister(&mut backstop).expect("it was registered");
}

#[test]
fn a_disarmed_backstop_leaves_the_poll_to_other_sources() {
    let (mut poll, mut events) = (Poll::new().expect("a poll"), Events::with_capacity(8));
    let mut backstop = Backstop::new().expect("a timer");
    poll.registry().register(&mut backstop, BACKSTOP, Interest::READABLE).expect("it can be waited for");
    backstop.arm(Some(now_ns() + 20_000_000)).expect("it can be armed");
    backstop.arm(None).expect("it can be disarmed");
    let (mut ours, mut theirs) = UnixStream::pair().expect("two sockets");
    poll.registry().register(&mut theirs, SOCKET, Interest::READABLE).expect("it can be waited for");
    std::thread::sleep(Duration::from_millis(30));
    ours.write_all(b"x").expect("a byte");
    assert_eq!(tokens(&mut poll, &mut events), [SOCKET]);
}
