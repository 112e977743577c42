//! The meetings of threads in a loop's inbox: loom tries the orders of their steps.

#[path = "../../../crates/act/timer/src/inbox.rs"]
mod inbox;

/// The parts that `inbox.rs` shares between threads, with loom's types.
mod sync {
    pub(crate) use std::sync::PoisonError;

    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};
}

use inbox::Inbox;
use loom::model::Builder;
use loom::sync::{Arc, Notify};
use loom::thread;

/// Tries the orders of steps in which threads are interrupted at most three times, which is
/// loom's own advice.
fn model(steps: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(steps);
}

#[test]
fn a_reader_that_sleeps_until_told_gets_every_message() {
    model(|| {
        let (inbox, told) = (Arc::new(Inbox::new()), Arc::new(Notify::new()));
        let senders = [1, 2].map(|message| {
            let (inbox, told) = (inbox.clone(), told.clone());
            thread::spawn(move || {
                if inbox.push(message) {
                    told.notify();
                }
            })
        });
        let (mut taken, mut all) = (Vec::new(), Vec::new());
        loop {
            inbox.take(&mut taken);
            all.append(&mut taken);
            if all.len() == 2 {
                break;
            }
            // If no sender had notified the reader of a message, the reader would wait here for ever.
            told.wait();
        }
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
        for sender in senders {
            sender.join().expect("it ends");
        }
    });
}

#[test]
fn a_reader_that_works_sees_a_message_of_which_it_was_told() {
    model(|| {
        let inbox = Arc::new(Inbox::new());
        let sender = {
            let inbox = inbox.clone();
            thread::spawn(move || assert!(inbox.push(1), "no other sender tells the reader"))
        };
        let mut taken = Vec::new();
        if inbox.may_have_messages() {
            inbox.take(&mut taken);
            assert_eq!(taken, [1]);
            taken.clear();
        }
        sender.join().expect("it ends");
        inbox.take(&mut taken);
        assert!(taken.len() <= 1 && !inbox.may_have_messages());
    });
}
