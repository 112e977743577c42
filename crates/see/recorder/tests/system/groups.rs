//! The other groups on the real kernel: timers, interrupts, channels, marks, stacks. Needs root.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use crate::common::{RecordedTrace, now_ns, own_tid, pipe, record};
use spry_recorder::MARK_PATH;
use spry_trace::event::{Channel, ChannelKind, Direction, Event, Irq, TimerKind};
use spry_trace::{Group, Tid};

/// Waits for a timer of a clock, which expires at this time of the clock, ns.
fn await_timer(clock: TimerfdClockId, at_ns: i64) {
    let timer = timerfd_create(clock, TimerfdFlags::CLOEXEC).unwrap();
    let it_value = Timespec { tv_sec: at_ns / 1_000_000_000, tv_nsec: at_ns % 1_000_000_000 };
    let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval, it_value }).unwrap();
    assert_eq!(rustix::io::read(&timer, &mut [0; 8]), Ok(8));
}

#[test]
fn a_timer_of_any_clock_has_a_deadline_unless_it_is_at_once() {
    const NAP_NS: u64 = 3_000_000;
    let clocks = [
        (TimerfdClockId::Monotonic, spry_sys::clock::monotonic_ns as fn() -> u64),
        (TimerfdClockId::Realtime, spry_sys::clock::unix_ns),
    ];
    let mut deadlines = Vec::new();
    let recorded = record(&[Group::Timer], || {
        for (clock, read_ns) in clocks {
            for _ in 0..4 {
                // Programs set a timer to 1 ns if it is to expire at once.
                await_timer(clock, 1);
                let (from_ns, at_ns) = (now_ns(), read_ns() + NAP_NS);
                deadlines.push(from_ns + NAP_NS..now_ns() + NAP_NS);
                await_timer(clock, at_ns as i64);
            }
        }
    });
    let told: Vec<u64> = recorded
        .events
        .iter()
        .filter_map(|stamped| match stamped.event {
            Event::TimerExpire(expiry) if expiry.kind == TimerKind::Timerfd => Some(expiry.deadline_ns),
            _ => None,
        })
        .collect();
    let known = deadlines.iter().filter(|wanted| told.iter().any(|told| wanted.contains(told))).count();
    assert!(known >= 6, "{known} of 8 timers; {told:?}, {deadlines:?}");
    assert!(told.iter().all(|&told| told > 1 && told < i64::MAX as u64), "{told:?}");
}

#[test]
fn a_sleepers_timer_tells_its_deadline() {
    const NAP_NS: u64 = 3_000_000;
    let (mut tid, mut asked) = (Tid::IDLE, Vec::new());
    let recorded = record(&[Group::Timer], || {
        let sleeper = thread::spawn(|| {
            let asked: Vec<_> = (0..20)
                .map(|_| {
                    let before_ns = now_ns();
                    thread::sleep(Duration::from_nanos(NAP_NS));
                    before_ns..now_ns()
                })
                .collect();
            (own_tid(), asked)
        });
        (tid, asked) = sleeper.join().unwrap();
    });
    let expiries: Vec<_> = recorded
        .events
        .iter()
        .filter_map(|stamped| match stamped.event {
            Event::TimerExpire(expiry) if expiry.tid == tid && expiry.kind == TimerKind::Sleep => {
                Some((stamped.time_ns, expiry))
            }
            _ => None,
        })
        .collect();
    let hidden = recorded.hidden();
    let (mut expiries, mut seen) = (expiries.iter(), 0);
    for (at, asked) in asked.iter().enumerate() {
        let is_hidden = hidden.iter().any(|span| span.start < asked.end && asked.start < span.end);
        let found = expiries.clone().next().filter(|(time_ns, _)| asked.contains(time_ns));
        let Some((time_ns, expiry)) = found else {
            assert!(is_hidden, "nap {at} ended without a timer; {:?}", recorded.statistics);
            continue;
        };
        expiries.next();
        assert!((asked.start + NAP_NS..asked.end).contains(&expiry.deadline_ns));
        assert!(expiry.latest_ns >= expiry.deadline_ns);
        assert!((expiry.deadline_ns..asked.end).contains(time_ns));
        seen += 1;
    }
    assert!(expiries.next().is_none() && seen >= 15, "{seen} of 20 naps");
}

/// Every CPU that enters an idle state leaves it before it enters one again, and tasks run in no idle state.
fn assert_idle_states_come_in_pairs(recorded: &RecordedTrace) {
    let mut in_state: HashMap<u16, bool> = HashMap::new();
    // Per CPU: how often it has had no task, and how many idle states it has entered and left.
    let mut counts: HashMap<u16, (u32, u32)> = HashMap::new();
    for stamped in &recorded.events {
        let is_in = in_state.get(&stamped.cpu).copied();
        match stamped.event {
            Event::IdleState(Some(state)) => {
                assert!(state < 10, "the kernel has at most ten idle states: {state}");
                assert_ne!(is_in, Some(true), "{stamped:?}");
                in_state.insert(stamped.cpu, true);
            }
            Event::IdleState(None) => {
                // A CPU may have entered its first state before the recording began.
                assert_ne!(is_in, Some(false), "{stamped:?}");
                counts.entry(stamped.cpu).or_default().1 += u32::from(is_in == Some(true));
                in_state.insert(stamped.cpu, false);
            }
            Event::Switch(switch) => {
                assert_ne!(is_in, Some(true), "{stamped:?}");
                counts.entry(stamped.cpu).or_default().0 += u32::from(switch.next.is_idle());
            }
            Event::Lost(_) => drop(in_state.remove(&stamped.cpu)),
            _ => {}
        }
    }
    let is_told = |&(naps, states): &(u32, u32)| naps < 10 || states > 0;
    assert!(counts.values().all(is_told), "{counts:?}");
}

#[test]
fn interrupts_softirqs_and_idle_states_come_in_pairs() {
    let recorded = record(&[Group::Irq, Group::Idle], || thread::sleep(Duration::from_millis(300)));
    assert!(recorded.header.groups.contains(Group::Idle));
    assert_idle_states_come_in_pairs(&recorded);
    let (mut open, mut pairs, mut timers) = (HashMap::new(), 0, 0);
    for stamped in &recorded.events {
        let stack: &mut Vec<Event> = open.entry(stamped.cpu).or_default();
        match stamped.event {
            Event::IrqEnter(_) | Event::SoftirqEnter(_) => stack.push(stamped.event.clone()),
            Event::IrqExit(irq) => {
                // The first interrupt may have begun before the recording did: then its entry is missing.
                if let Some(enter) = stack.pop() {
                    assert_eq!(enter, Event::IrqEnter(irq));
                    pairs += 1;
                    timers += u32::from(irq == Irq::LocalTimer);
                }
            }
            Event::SoftirqExit(softirq) => {
                if let Some(enter) = stack.pop() {
                    assert_eq!(enter, Event::SoftirqEnter(softirq));
                    pairs += 1;
                }
            }
            _ => {}
        }
    }
    assert!(pairs > 20, "{pairs} pairs");
    assert!(cfg!(not(target_arch = "x86_64")) || timers > 10, "{timers} timer interrupts");
}

#[test]
fn need_resched_and_the_scheduler_s_entry_and_exit_are_recorded() {
    let recorded = record(&[Group::Resched], || {
        (0..100).for_each(|_| thread::sleep(Duration::from_millis(1)));
    });
    if !recorded.header.groups.contains(Group::Resched) {
        // Kernels before 6.14 have no such tracepoints; then the recording must not have such events.
        assert!(!recorded.events.iter().any(|stamped| matches!(stamped.event, Event::NeedResched(_))));
        return;
    }
    let count =
        |wanted: fn(&Event) -> bool| recorded.events.iter().filter(|stamped| wanted(&stamped.event)).count();
    assert!(count(|event| matches!(event, Event::NeedResched(_))) >= 100);
    let enters = count(|event| matches!(event, Event::ScheduleEnter));
    let exits = count(|event| matches!(event, Event::ScheduleExit));
    assert!(enters >= 200 && enters.abs_diff(exits) < 50, "{enters} in, {exits} out");
}

/// The bytes that one thread wrote into and read from each channel of a kind.
fn traffic(kind: ChannelKind, work: impl FnOnce() + Send + 'static) -> Vec<(Channel, Direction, u32)> {
    let mut tid = Tid::IDLE;
    let recorded = record(&[Group::Ipc], || {
        let worker = thread::spawn(|| {
            work();
            own_tid()
        });
        tid = worker.join().unwrap();
    });
    let ipc = recorded.events.iter().filter_map(|stamped| match stamped.event {
        Event::Ipc(ipc) if ipc.tid == tid && ipc.channel.kind == kind => {
            Some((ipc.channel, ipc.direction, ipc.bytes))
        }
        _ => None,
    });
    ipc.collect()
}

/// Checks that the written bytes were read from the channel of the same name, in order.
fn assert_meets(traffic: &[(Channel, Direction, u32)], bytes: &[u32]) {
    let side = |wanted| {
        let of = traffic.iter().filter(move |(_, direction, _)| *direction == wanted);
        of.map(|&(channel, _, bytes)| (channel, bytes)).collect::<Vec<_>>()
    };
    let written = side(Direction::Write);
    assert_eq!(written, side(Direction::Read));
    assert_eq!(written.iter().map(|&(_, bytes)| bytes).collect::<Vec<_>>(), bytes);
}

#[test]
fn a_pipes_bytes_are_counted_on_both_sides_of_one_channel() {
    let traffic = traffic(ChannelKind::Pipe, || {
        let (mut reader, mut writer) = pipe();
        for bytes in [1, 100, 4000] {
            writer.write_all(&vec![7; bytes]).unwrap();
            reader.read_exact(&mut vec![0; bytes]).unwrap();
        }
    });
    assert_meets(&traffic, &[1, 100, 4000]);
}

#[test]
fn a_unix_sockets_two_directions_are_two_channels() {
    let traffic = traffic(ChannelKind::Unix, || {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        one.write_all(&[7; 30]).unwrap();
        other.read_exact(&mut [0; 30]).unwrap();
        other.write_all(&[7; 40]).unwrap();
        one.read_exact(&mut [0; 40]).unwrap();
    });
    assert_meets(&traffic, &[30, 40]);
    assert_ne!(traffic[0].0, traffic[2].0);
}

#[test]
fn a_loopback_connections_ends_agree_on_the_channel() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = std::net::TcpListener::bind(address) else {
            assert_ne!(address, "127.0.0.1:0", "this machine has no loopback");
            continue;
        };
        let traffic = traffic(ChannelKind::Inet, move || {
            let mut one = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut other, _) = listener.accept().unwrap();
            one.write_all(&[7; 50]).unwrap();
            other.read_exact(&mut [0; 50]).unwrap();
        });
        assert_meets(&traffic, &[50]);
    }
}

#[test]
fn a_terminal_s_master_reads_what_a_program_writes() {
    let traffic = traffic(ChannelKind::Tty, || {
        let (mut master, mut slave) = (0, 0);
        let null = std::ptr::null_mut();
        // SAFETY: valid places for two descriptors; the rest is not wanted.
        assert_eq!(unsafe { libc::openpty(&mut master, &mut slave, null, null.cast(), null.cast()) }, 0);
        // SAFETY: two open descriptors, and nothing else owns them.
        let (mut master, mut slave) =
            unsafe { (std::fs::File::from_raw_fd(master), std::fs::File::from_raw_fd(slave)) };
        assert!(slave.as_raw_fd() > 2);
        slave.write_all(b"prompt").unwrap();
        assert_eq!(master.read(&mut [0; 64]).unwrap(), 6);
        master.write_all(b"vi\n").unwrap();
        assert_eq!(slave.read(&mut [0; 64]).unwrap(), 3);
    });
    assert_meets(&traffic, &[6, 3]);
    assert_ne!(traffic[0].0, traffic[2].0);
}

#[test]
fn a_mark_arrives_with_its_text_cut_to_what_fits() {
    let mut tid = Tid::IDLE;
    let recorded = record(&[Group::Mark], || {
        tid = own_tid();
        spry_mark::mark("by the library");
        let mut marks = OpenOptions::new().write(true).open(MARK_PATH).unwrap();
        marks.write_all(b"frame shown").unwrap();
        marks.write_all("\u{e9}".repeat(100).as_bytes()).unwrap();
        std::fs::write("/dev/null", "not a mark").unwrap();
    });
    let marks: Vec<_> = recorded
        .events
        .iter()
        .filter_map(|stamped| match &stamped.event {
            Event::Mark(mark) if mark.tid == tid => Some(&*mark.text),
            _ => None,
        })
        .collect();
    assert_eq!(marks, ["by the library", "frame shown", &"\u{e9}".repeat(64)]);
}

#[test]
fn a_blocked_threads_stack_names_where_it_waits() {
    let mut tid = Tid::IDLE;
    let recorded = record(&[Group::Stack], || {
        let sleeper = thread::spawn(|| {
            thread::sleep(Duration::from_millis(2));
            own_tid()
        });
        tid = sleeper.join().unwrap();
    });
    let has_slept = recorded.events.iter().any(|stamped| match &stamped.event {
        Event::Stack(stack) if stack.tid == tid => {
            stack.frames[0].starts_with("__schedule")
                && stack.frames.iter().any(|name| name.contains("nanosleep"))
        }
        _ => false,
    });
    assert!(has_slept);
}
