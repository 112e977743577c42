//! Waits in real rings, with real time. Bounds hold on a busy machine: a timer may be late but not early.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::{gettid, set_current_timer_slack};
use spry_timer::{RingBackstop, SOFT, Terms, Timers, Trigger, now_ns};

const MS: u64 = 1_000_000;
/// A time that no test lasts, in ns.
const HOUR: u64 = 3_600_000 * MS;

fn backstop() -> RingBackstop {
    RingBackstop::new().expect("the kernel has io_uring")
}

fn ring() -> IoUring {
    IoUring::new(8).expect("a ring")
}

/// A ring that completes operations only during waits.
fn deferred_ring() -> IoUring {
    IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(8).expect("a ring")
}

fn counter() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor")
}

fn count_up(counter: &OwnedFd) {
    rustix::io::write(counter, &1_u64.to_ne_bytes()).expect("there is room");
}

/// Queues an operation without submitting it.
fn queue<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    ring: &mut IoUring<S, C>,
    operation: squeue::Entry,
    name: u64,
) {
    // SAFETY: the callers' operations use no memory, or static memory.
    unsafe { ring.submission().push(&operation.user_data(name).into()) }.expect("there is room");
}

fn nop() -> squeue::Entry {
    opcode::Nop::new().build()
}

/// Completes when the counter is not 0.
fn poll_of(counter: &OwnedFd) -> squeue::Entry {
    opcode::PollAdd::new(types::Fd(counter.as_raw_fd()), libc::POLLIN as u32).build()
}

/// The names and results of all completions.
fn completions(ring: &mut IoUring) -> Vec<(u64, i32)> {
    ring.completion().map(|it| (it.user_data(), it.result())).collect()
}

/// The timer slack of a thread of this process, ns; for another thread it needs root.
fn slack_of(tid: i32) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{tid}/timerslack_ns"))?;
    text.trim().parse().map_err(io::Error::other)
}

fn set_slack(ns: u64) {
    set_current_timer_slack(ns.try_into().ok()).expect("a slack");
}

fn own_slack() -> u64 {
    slack_of(gettid().as_raw_nonzero().get()).expect("the own slack may be read")
}

#[test]
fn the_backstop_fires_timers_after_their_deadlines() {
    let (backstop, mut ring, mut timers) = (backstop(), ring(), Timers::new());
    let start_ns = now_ns();
    for (value, delay_us) in [(2, 700), (1, 200), (3, 5_000)] {
        let terms = Terms::firm(start_ns + delay_us * 1000, 50_000);
        timers.arm(start_ns, terms, value).expect("it can be kept");
    }
    let mut order = Vec::new();
    while order.len() < 3 {
        let limit_ns = timers.backstop_ns().expect("a timer is pending");
        assert_eq!(backstop.wait(&mut ring, Some(limit_ns)).expect("it waits"), Trigger::Backstop);
        let now_ns = now_ns();
        assert!(now_ns >= limit_ns && completions(&mut ring).is_empty());
        while let Some(fired) = timers.take(now_ns, Trigger::Backstop) {
            order.push(fired.value);
        }
    }
    assert_eq!((order, timers.counts().hard), (vec![1, 2, 3], 3));
}

#[test]
fn the_backstop_is_exact_though_the_thread_has_slack() {
    let (backstop, mut ring) = (backstop(), ring());
    set_slack(10_000 * MS);
    // A busy machine delays a wait now and then. Slack delays each of them.
    let late_ns = |_| {
        let limit_ns = now_ns() + 20 * MS;
        assert_eq!(backstop.wait(&mut ring, Some(limit_ns)).expect("it waits"), Trigger::Backstop);
        now_ns() - limit_ns
    };
    let least_ns = (0..20).map(late_ns).min().expect("some waits");
    assert!(least_ns < MS, "{least_ns}");
}

#[test]
fn the_slack_is_given_back_however_a_wait_ends() {
    let (backstop, mut ring, counter) = (backstop(), ring(), counter());
    // The second number has more than 32 bits.
    for slack_ns in [7_777, 9_000_000_123, 1] {
        set_slack(slack_ns);
        backstop.wait(&mut ring, Some(now_ns() + MS)).expect("it waits");
        assert_eq!(own_slack(), slack_ns);
        queue(&mut ring, nop(), 1);
        backstop.wait(&mut ring, Some(now_ns() + HOUR)).expect("it waits");
        assert_eq!((own_slack(), completions(&mut ring)), (slack_ns, vec![(1, 0)]));
        count_up(&counter);
        queue(&mut ring, poll_of(&counter), 2);
        backstop.wait(&mut ring, None).expect("it waits");
        assert_eq!((own_slack(), completions(&mut ring).len()), (slack_ns, 1));
    }
}

#[test]
fn a_slack_that_another_process_sets_during_a_wait_stays() {
    let (backstop, mut ring, counter) = (backstop(), ring(), counter());
    set_slack(7_777);
    queue(&mut ring, poll_of(&counter), 1);
    let waiter = gettid().as_raw_nonzero().get();
    let set = thread::scope(|scope| {
        let other = scope.spawn(|| {
            while slack_of(waiter).is_ok_and(|slack_ns| slack_ns != 1) {
                thread::sleep(Duration::from_micros(100));
            }
            let set = fs::write(format!("/proc/{waiter}/timerslack_ns"), "55555");
            count_up(&counter);
            set
        });
        let waited = backstop.wait(&mut ring, Some(now_ns() + HOUR));
        assert_eq!(waited.expect("it waits"), Trigger::Check);
        other.join().expect("it ends")
    });
    // Only root may set the slack of another thread.
    assert_eq!(own_slack(), if set.is_ok() { 55_555 } else { 7_777 });
}

/// Waits for a counter that another thread counts up, with a backstop an hour later.
fn wait_for_counter<S, C>(ring: &mut IoUring<S, C>, kind: &str)
where
    S: squeue::EntryMarker,
    C: cqueue::EntryMarker,
{
    let (backstop, counter) = (backstop(), counter());
    queue(ring, poll_of(&counter), 7);
    // The number of submitted operations does not hide that the time has come.
    assert_eq!(backstop.wait(ring, Some(now_ns() + MS)).expect(kind), Trigger::Backstop, "{kind}");
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(2));
            count_up(&counter);
        });
        assert_eq!(backstop.wait(ring, Some(now_ns() + HOUR)).expect(kind), Trigger::Check, "{kind}");
    });
    let names: Vec<u64> = ring.completion().map(|it| cqueue::EntryMarker::user_data(&it)).collect();
    assert_eq!(names, [7], "{kind}");
    assert_eq!(backstop.wait(ring, Some(now_ns() + MS)).expect(kind), Trigger::Backstop, "{kind}");
}

#[test]
fn a_completion_wakes_each_kind_of_ring_before_the_backstop() {
    wait_for_counter(&mut ring(), "plain");
    wait_for_counter(&mut deferred_ring(), "deferred");
    let mut polled: IoUring = IoUring::builder().setup_sqpoll(100).build(8).expect("a ring");
    wait_for_counter(&mut polled, "with a thread of the kernel");
    let mut wide: IoUring<squeue::Entry128, cqueue::Entry32> = IoUring::builder().build(8).expect("a ring");
    wait_for_counter(&mut wide, "wide");
}

#[test]
fn bytes_in_a_pipe_arrive_beside_a_timer_that_is_due() {
    let (backstop, mut ring, mut timers) = (backstop(), ring(), Timers::new());
    let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().expect("two sockets");
    let mut bytes = [0_u8; 8];
    let read = opcode::Read::new(types::Fd(theirs.as_raw_fd()), bytes.as_mut_ptr(), 8).build();
    // SAFETY: the bytes and the socket live until the operation has completed, at the end of the test.
    unsafe { ring.submission().push(&read.user_data(3)) }.expect("there is room");
    let now = now_ns();
    let soft = timers.arm(now, Terms::firm(now, HOUR), "due").expect("it can be kept");
    ours.write_all(b"spry").expect("there is room");
    assert_eq!(backstop.wait(&mut ring, timers.backstop_ns()).expect("it waits"), Trigger::Check);
    assert_eq!(completions(&mut ring), [(3, 4)]);
    assert_eq!(&bytes[..4], b"spry");
    let fired = timers.take(now_ns(), Trigger::Check).expect("it is due");
    assert_eq!((fired.handle, fired.value, timers.counts().soft), (soft, "due", 1));
}

#[test]
fn a_completion_that_looks_like_an_expiry_is_none() {
    static SHORT: types::Timespec = types::Timespec::new().nsec(1_000_000);
    let (backstop, mut ring) = (backstop(), ring());
    // The program's own timeout has the result -ETIME.
    queue(&mut ring, opcode::Timeout::new(&SHORT).build(), u64::MAX);
    let limit_ns = now_ns() + 400 * MS;
    let trigger = backstop.wait(&mut ring, Some(limit_ns)).expect("it waits");
    assert_eq!((trigger, completions(&mut ring)), (Trigger::Check, vec![(u64::MAX, -libc::ETIME)]));
    assert_eq!(backstop.wait(&mut ring, Some(limit_ns)).expect("it waits"), Trigger::Backstop);
    assert!(now_ns() >= limit_ns);
}

#[test]
fn a_full_ring_loses_no_completion_and_delays_no_timer() {
    let (backstop, mut timers) = (backstop(), Timers::new());
    let mut ring = IoUring::builder().setup_cqsize(4).build(2).expect("a ring");
    // Four of the twelve completions fit into the ring; the kernel keeps the others.
    for pair in 0..6 {
        queue(&mut ring, nop(), 2 * pair);
        queue(&mut ring, nop(), 2 * pair + 1);
        ring.submit().expect("the kernel takes them");
    }
    let start_ns = now_ns();
    timers.arm(start_ns, Terms::firm(start_ns, HOUR), "due").expect("it can be kept");
    for _ in 0..3 {
        assert_eq!(backstop.wait(&mut ring, timers.backstop_ns()).expect("it waits"), Trigger::Check);
    }
    assert_eq!(timers.take(now_ns(), Trigger::Check).map(|fired| fired.value), Some("due"));
    let mut names = Vec::new();
    while names.len() < 12 {
        assert_eq!(backstop.wait(&mut ring, Some(now_ns() + HOUR)).expect("it waits"), Trigger::Check);
        names.extend(completions(&mut ring).iter().map(|completion| completion.0));
    }
    assert_eq!(names, (0..12).collect::<Vec<_>>());
    assert_eq!(backstop.wait(&mut ring, Some(now_ns() + MS)).expect("it waits"), Trigger::Backstop);
    assert!(completions(&mut ring).is_empty() && now_ns() - start_ns < HOUR);
}

extern "C" fn ignore(_signal: libc::c_int) {}

#[test]
fn a_signal_ends_a_wait_and_loses_no_timer() {
    // SAFETY: zeros are a valid action, and the handler does nothing.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ignore as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    let (backstop, mut ring, mut timers) = (backstop(), ring(), Timers::new());
    // SAFETY: the call has no conditions.
    let waiter = unsafe { libc::pthread_self() };
    let is_over = AtomicBool::new(false);
    let (mut interrupted, mut fired) = (0, 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                // SAFETY: the waiter waits for this thread before it ends.
                unsafe { libc::pthread_kill(waiter, libc::SIGUSR1) };
                thread::sleep(Duration::from_micros(300));
            }
        });
        while interrupted < 5 || fired < 5 {
            let start_ns = now_ns();
            timers.arm(start_ns, Terms::hard(start_ns + 2 * MS), ()).expect("it can be kept");
            while !timers.is_empty() {
                match backstop.wait(&mut ring, timers.backstop_ns()).expect("it waits") {
                    Trigger::Check => interrupted += 1,
                    Trigger::Backstop => assert!(now_ns() >= start_ns + 2 * MS),
                }
                while timers.take(now_ns(), Trigger::Check).is_some() {
                    fired += 1;
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(completions(&mut ring).is_empty());
}

#[test]
fn timers_that_are_always_due_keep_no_completion_away() {
    for mut ring in [ring(), deferred_ring()] {
        let (backstop, counter, mut timers) = (backstop(), counter(), Timers::new());
        queue(&mut ring, poll_of(&counter), 9);
        timers.arm(1, Terms::hard(1), 0).expect("it can be kept");
        let mut rounds = 0;
        while completions(&mut ring).is_empty() {
            backstop.wait(&mut ring, timers.backstop_ns()).expect("it waits");
            let now = now_ns();
            let fired = timers.take(now, Trigger::Backstop).expect("it is always due");
            let past = timers.arm(now, Terms::hard(now - 1), fired.value);
            assert!(past.is_err(), "a deadline in the past is refused");
            timers.arm(now, Terms::hard(now), fired.value + 1).expect("it can be kept");
            rounds += 1;
            if rounds == 100 {
                count_up(&counter);
            }
        }
        assert!(rounds >= 100);
    }
}

#[test]
fn a_ring_with_pending_operations_may_be_dropped() {
    let (backstop, counter) = (backstop(), counter());
    for name in 0..200 {
        let mut ring = ring();
        queue(&mut ring, poll_of(&counter), name);
        queue(&mut ring, opcode::PollAdd::new(types::Fd(counter.as_raw_fd()), 0).build(), name);
        assert_eq!(backstop.wait(&mut ring, Some(now_ns())).expect("it waits"), Trigger::Backstop);
    }
    count_up(&counter);
    let mut ring = ring();
    assert_eq!(backstop.wait(&mut ring, Some(now_ns() + MS)).expect("it waits"), Trigger::Backstop);
    assert!(completions(&mut ring).is_empty());
}

#[test]
fn limits_at_both_ends_of_the_range_are_kept() {
    let (backstop, mut ring, counter) = (backstop(), ring(), counter());
    assert_eq!(backstop.wait(&mut ring, Some(0)).expect("it waits"), Trigger::Backstop);
    for limit_ns in [SOFT - 1, SOFT, i64::MAX as u64] {
        queue(&mut ring, poll_of(&counter), 1);
        let other = counter.try_clone().expect("a descriptor");
        let counts = thread::spawn(move || {
            thread::sleep(Duration::from_millis(2));
            count_up(&other);
        });
        assert_eq!(backstop.wait(&mut ring, Some(limit_ns)).expect("it waits"), Trigger::Check);
        assert_eq!(completions(&mut ring).len(), 1);
        counts.join().expect("it ends");
        rustix::io::read(&counter, &mut [0_u8; 8]).expect("it is not 0");
    }
}
