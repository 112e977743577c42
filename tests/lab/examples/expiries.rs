//! How late timers of each kind expire, and how much time the kernel says is left.
//!
//! `expiries late COUNT PERIOD_US`: for each kind of timer a line with its name, the number of expiries that
//! were lost, and how late the others were: least, median, maximum, us. A timer that drifts is late.
//! `expiries left AFTER_US`: for each call that returns the time until a timer's deadline a line with its
//! name and that time, us. The timer is armed for `AFTER_US`. A sleep is interrupted after a quarter of it.
//! `expiries stops AFTER_US COUNT`: stops and continues a sleeping process this many times, and prints how
//! late it then wakes, us.

use std::env;
use std::mem::MaybeUninit;
use std::ptr;
use std::thread;

use spry_sys::{Signal, clock, process, signal};

const US: u64 = 1_000;

/// What a call of the C library returned; its failure ends the program.
fn done(returned: i32) {
    assert_eq!(returned, 0, "{}", std::io::Error::last_os_error());
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

fn us_of(time: libc::timespec) -> f64 {
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn setting(first_ns: u64, period_ns: u64) -> libc::itimerspec {
    libc::itimerspec { it_interval: timespec(period_ns), it_value: timespec(first_ns) }
}

/// A timer of `timer_create` that sends `SIGUSR1`.
fn posix_timer() -> libc::timer_t {
    let mut id = MaybeUninit::uninit();
    // SAFETY: all zeros are a value of the structure, and `id` is written before it is read.
    unsafe {
        let mut event: libc::sigevent = MaybeUninit::zeroed().assume_init();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGUSR1;
        done(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, id.as_mut_ptr()));
        id.assume_init()
    }
}

fn timer_fd(clock: i32) -> i32 {
    // SAFETY: the call takes two numbers.
    let fd = unsafe { libc::timerfd_create(clock, 0) };
    assert!(fd >= 0, "no timerfd");
    fd
}

fn arm_fd(fd: i32, flags: i32, first_ns: u64, period_ns: u64) {
    // SAFETY: the setting lives as long as the call.
    done(unsafe { libc::timerfd_settime(fd, flags, &setting(first_ns, period_ns), ptr::null_mut()) });
}

fn arm_interval(first_ns: u64, period_ns: u64) {
    let us = |ns: u64| libc::timeval { tv_sec: 0, tv_usec: (ns / US) as i64 };
    let value = libc::itimerval { it_interval: us(period_ns), it_value: us(first_ns) };
    // SAFETY: the setting lives as long as the call.
    done(unsafe { libc::setitimer(libc::ITIMER_REAL, &value, ptr::null_mut()) });
}

fn arm_timer(id: libc::timer_t, flags: i32, first_ns: u64, period_ns: u64) {
    // SAFETY: the timer exists, and the setting lives as long as the call.
    done(unsafe { libc::timer_settime(id, flags, &setting(first_ns, period_ns), ptr::null_mut()) });
}

/// Sleeps for a time. Returns what is left if a signal came.
fn nap(ns: u64) -> Option<libc::timespec> {
    let mut left = timespec(0);
    // SAFETY: both structures live as long as the call.
    (unsafe { libc::nanosleep(&timespec(ns), &mut left) } != 0).then_some(left)
}

fn wall_ns() -> u64 {
    let mut now = timespec(0);
    // SAFETY: the structure lives as long as the call.
    done(unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &mut now) });
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn print(name: &str, lost: u64, mut late_ns: Vec<u64>) {
    late_ns.sort_unstable();
    let at = |nth: usize| late_ns[nth] as f64 / 1e3;
    println!("{name} {lost} {:.1} {:.1} {:.1}", at(0), at(late_ns.len() / 2), at(late_ns.len() - 1));
}

/// Waits for so many single expiries. The closure returns the deadline of each.
fn single(name: &str, count: u64, wait: impl Fn(u64) -> u64) {
    let late = |deadline_ns| clock::monotonic_ns().checked_sub(deadline_ns).expect("no timer expires early");
    print(name, 0, (0..count).map(|nth| late(wait(nth))).collect());
}

/// Waits for so many expiries of a timer with a period. The closure waits for one.
fn periodic(name: &str, count: u64, (first_ns, period_ns): (u64, u64), wait: impl Fn()) {
    let mut late_ns = Vec::new();
    let mut next = 0;
    for _ in 0..count {
        wait();
        let since_ns = clock::monotonic_ns().checked_sub(first_ns).expect("no timer expires early");
        let nth = since_ns / period_ns;
        assert!(nth >= next, "{name}: deadline {nth} expired twice, or the one after it early");
        next = nth + 1;
        late_ns.push(since_ns % period_ns);
    }
    print(name, next - count, late_ns);
}

fn late(count: u64, period_ns: u64) {
    let soon = || clock::monotonic_ns() + period_ns;
    let first_ns = soon();
    single("clock_nanosleep", count, |nth| {
        clock::sleep_until(first_ns + nth * period_ns);
        first_ns + nth * period_ns
    });
    single("nanosleep", count, |_| {
        let deadline_ns = soon();
        assert!(nap(period_ns).is_none(), "a signal");
        deadline_ns
    });
    single("ppoll", count, |_| {
        let deadline_ns = soon();
        // SAFETY: there are no descriptors, and the time lives as long as the call.
        done(unsafe { libc::ppoll(ptr::null_mut(), 0, &timespec(period_ns), ptr::null()) });
        deadline_ns
    });
    let read = |fd: i32| {
        let mut expiries = 0_u64;
        // SAFETY: a read of a timerfd writes 8 bytes.
        let bytes = unsafe { libc::read(fd, ptr::from_mut(&mut expiries).cast(), 8) };
        assert!(bytes == 8 && expiries > 0, "{bytes} bytes: {expiries}");
    };
    let fd = timer_fd(libc::CLOCK_MONOTONIC);
    let first_ns = soon();
    arm_fd(fd, libc::TFD_TIMER_ABSTIME, first_ns, period_ns);
    periodic("timerfd", count, (first_ns, period_ns), || read(fd));
    arm_fd(fd, 0, 0, 0);
    let wall = timer_fd(libc::CLOCK_REALTIME);
    single("timerfd-once", count, |_| {
        let deadline_ns = soon();
        arm_fd(wall, libc::TFD_TIMER_ABSTIME, wall_ns() + period_ns, 0);
        read(wall);
        deadline_ns
    });
    let first_ns = soon();
    arm_interval(period_ns, period_ns);
    periodic("setitimer", count, (first_ns, period_ns), || {
        signal::take(&[Signal::ALARM]).expect("a signal");
    });
    arm_interval(0, 0);
    let id = posix_timer();
    let first_ns = soon();
    arm_timer(id, libc::TIMER_ABSTIME, first_ns, period_ns);
    periodic("timer_settime", count, (first_ns, period_ns), || {
        signal::take(&[Signal::USR1]).expect("a signal");
    });
    arm_timer(id, 0, 0, 0);
}

fn left(after_ns: u64) {
    let mut left = setting(0, 0);
    let fd = timer_fd(libc::CLOCK_MONOTONIC);
    arm_fd(fd, 0, after_ns, 0);
    // SAFETY: the structure lives as long as the call.
    done(unsafe { libc::timerfd_gettime(fd, &mut left) });
    println!("timerfd_gettime {:.1}", us_of(left.it_value));
    let id = posix_timer();
    arm_timer(id, 0, after_ns, 0);
    // SAFETY: the timer exists, and the structure lives as long as the call.
    done(unsafe { libc::timer_gettime(id, &mut left) });
    println!("timer_gettime {:.1}", us_of(left.it_value));
    arm_timer(id, 0, 0, 0);
    let mut value = MaybeUninit::<libc::itimerval>::uninit();
    arm_interval(after_ns, 0);
    // SAFETY: the call fills the structure.
    let value = unsafe {
        done(libc::getitimer(libc::ITIMER_REAL, value.as_mut_ptr()));
        value.assume_init().it_value
    };
    println!("getitimer {:.1}", value.tv_sec as f64 * 1e6 + value.tv_usec as f64);
    arm_interval(0, 0);
    signal::note_and_end_waits(&[Signal::TERM]);
    let own = std::process::id();
    let child = process::fork(|| {
        run_until(clock::monotonic_ns() + after_ns / 4);
        i32::from(signal::send(own, Signal::TERM).is_err())
    })
    .expect("a process");
    println!("nanosleep {:.1}", nap(after_ns).map_or(0.0, us_of));
    process::wait(child).expect("it ends");
}

/// Runs until a time, and lets other processes run meanwhile.
fn run_until(ns: u64) {
    while clock::monotonic_ns() < ns {
        thread::yield_now();
    }
}

fn stops(after_ns: u64, count: u64) {
    let begin_ns = clock::monotonic_ns();
    let child = process::fork(|| i32::from(nap(after_ns).is_some())).expect("a process");
    let step_ns = after_ns / (2 * count + 2);
    for nth in 1..=count {
        run_until(begin_ns + 2 * nth * step_ns);
        signal::send_number(child, libc::SIGSTOP).expect("it is there");
        run_until(begin_ns + (2 * nth + 1) * step_ns);
        signal::send_number(child, libc::SIGCONT).expect("it is there");
    }
    assert!(process::wait(child).expect("it ends").success(), "the sleep was not taken up again");
    println!("stopped {:.1}", (clock::monotonic_ns() - begin_ns - after_ns) as f64 / 1e3);
}

fn main() {
    clock::set_no_timer_slack();
    let args: Vec<String> = env::args().skip(1).collect();
    let number = |nth: usize| args[nth].parse::<u64>().expect("a number");
    match args[0].as_str() {
        "late" => {
            signal::block(&[Signal::ALARM, Signal::USR1]);
            late(number(1), number(2) * US);
        }
        "left" => {
            signal::block(&[Signal::ALARM, Signal::USR1]);
            left(number(1) * US);
        }
        "stops" => stops(number(1) * US, number(2)),
        other => panic!("{other}: late, left or stops"),
    }
}
