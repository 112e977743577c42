//! Measures what checks and expiries cost on this machine.

use std::hint::black_box;
use std::io;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};

use crate::backstop::ns_of;
use crate::{Backstop, Costs, Terms, Timers, Trigger, now_ns};

/// How often each operation is measured.
const CHECKS: u64 = 2_000;
const EXPIRIES: u64 = 32;
/// The length of each measured sleep, in ns.
const SLEEP_NS: u64 = 30_000;

fn cpu_ns() -> u64 {
    ns_of(clock_gettime(ClockId::ThreadCPUTime))
}

/// Measures the three costs of the break-even rule for the calling thread, in CPU time. It takes about 5 ms
/// and sleeps 32 times. [`Timers::set_costs`] takes the result.
///
/// # Errors
/// The kernel makes no descriptor for the timer to be measured.
pub fn measure_costs() -> io::Result<Costs> {
    let mut timers: Timers<u32> = Timers::with_capacity(16);
    let check_ns = each(CHECKS, || _ = black_box(timers.poll(black_box(now_ns()))));
    let mut deadline_ns = 0;
    let soft_ns = each(CHECKS, || {
        deadline_ns += 1;
        _ = black_box(timers.arm(deadline_ns, Terms::firm(deadline_ns, 50_000), 0));
        black_box(timers.take(deadline_ns, Trigger::Check));
    });
    let mut backstop = Backstop::new()?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&epoll, &backstop, epoll::EventData::new_u64(0), flags)?;
    let mut events: Vec<epoll::Event> = Vec::with_capacity(1);
    let mut failed = None;
    let sleep_ns = each(EXPIRIES, || {
        events.clear();
        let at_ns = now_ns() + SLEEP_NS;
        let slept = backstop.arm(Some(at_ns));
        let slept = slept.and_then(|()| Ok(epoll::wait(&epoll, spare_capacity(&mut events), None)?));
        failed = slept.err().or(failed.take());
        backstop.note_expiry();
    });
    match failed {
        Some(error) if error.kind() != io::ErrorKind::Interrupted => Err(error),
        Some(_) | None => Ok(Costs { hard_ns: sleep_ns + soft_ns, soft_ns, check_ns }),
    }
}

/// The CPU time that an operation takes each time, at least 1 ns.
fn each(count: u64, mut operation: impl FnMut()) -> u64 {
    let before_ns = cpu_ns();
    for _ in 0..count {
        operation();
    }
    ((cpu_ns() - before_ns) / count).max(1)
}
