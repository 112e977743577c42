//! Group `sched` on the real kernel: switches, wake-ups, names, accounts. Needs root.

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{own_tid, pin, pipe, record};
use spry_trace::Tid;
use spry_trace::event::{Event, Policy, StatState};

#[test]
fn a_pair_that_passes_a_byte_wakes_and_follows_each_other() {
    const ROUNDS: usize = 2000;
    let mut pair = (Tid::IDLE, Tid::IDLE);
    let recorded = record(&[], || {
        let (mut to_read, mut to_write) = pipe();
        let (mut fro_read, mut fro_write) = pipe();
        let other = thread::spawn(move || {
            pin(0);
            let mut byte = [0];
            for _ in 0..ROUNDS {
                to_read.read_exact(&mut byte).unwrap();
                fro_write.write_all(&byte).unwrap();
            }
            own_tid()
        });
        let one = thread::spawn(move || {
            pin(0);
            let mut byte = [0];
            for _ in 0..ROUNDS {
                to_write.write_all(&byte).unwrap();
                fro_read.read_exact(&mut byte).unwrap();
            }
            own_tid()
        });
        pair = (one.join().unwrap(), other.join().unwrap());
    });
    let (one, other) = pair;
    let count = |wanted: &dyn Fn(&Event) -> bool| {
        recorded.events.iter().filter(|stamped| wanted(&stamped.event)).count()
    };
    for (waker, wakee) in [(one, other), (other, one)] {
        let wakings =
            count(&|event| matches!(event, Event::Waking(w) if w.waker == waker && w.wakee == wakee));
        assert!(wakings > ROUNDS / 10, "{wakings} wakings");
        let wakeups =
            count(&|event| matches!(event, Event::Wakeup(w) if w.tid == wakee && w.target_cpu == 0));
        assert!(wakeups > ROUNDS / 10, "{wakeups} wakeups");
        let gets = count(&|event| matches!(event, Event::Switch(s) if s.next == wakee));
        assert!(gets > ROUNDS / 10, "{gets} switches");
    }
    assert_eq!(recorded.statistics.lost, 0);
}

#[test]
fn a_bound_thread_is_told_with_its_number_of_cpus() {
    let mut threads = (Tid::IDLE, Tid::IDLE);
    let recorded = record(&[], || {
        let naps = || (0..20).for_each(|_| thread::sleep(Duration::from_millis(1)));
        let bound = thread::spawn(move || {
            pin(0);
            naps();
            own_tid()
        });
        let free = thread::spawn(move || {
            naps();
            own_tid()
        });
        threads = (bound.join().unwrap(), free.join().unwrap());
    });
    let told = |tid: Tid| -> HashSet<u16> {
        let affinity = |event: &Event| match event {
            Event::Affinity(affinity) if affinity.tid == tid => Some(affinity.cpus),
            _ => None,
        };
        recorded.events.iter().filter_map(|stamped| affinity(&stamped.event)).collect()
    };
    if recorded.header.cpus > 1 {
        assert!(told(threads.0).contains(&1), "{:?}", told(threads.0));
        assert!(!told(threads.1).contains(&1), "{:?}", told(threads.1));
    }
}

#[test]
fn each_cpu_is_in_time_order_and_its_switches_connect() {
    let recorded = record(&[], || {
        let threads: Vec<_> = (0..8)
            .map(|_| thread::spawn(|| (0..500).for_each(|_| thread::sleep(Duration::from_micros(50)))))
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let (mut last_ns, mut running, mut switches, mut breaks) = (HashMap::new(), HashMap::new(), 0, 0);
    for stamped in &recorded.events {
        let last = last_ns.insert(stamped.cpu, stamped.time_ns).unwrap_or(0);
        assert!(stamped.time_ns >= last);
        if let Event::Switch(switch) = stamped.event {
            switches += 1;
            let before = running.insert(stamped.cpu, switch.next);
            breaks += usize::from(before.is_some_and(|before| before != switch.prev));
        }
    }
    assert!(switches > 4000);
    // Some virtual machines hide the switches of init's threads, a few a second.
    assert!(breaks < switches / 100, "{breaks} breaks in {switches} switches");
}

#[test]
fn a_thread_from_before_the_recording_has_its_name() {
    // The thread ends when `over` is dropped, also where the recording fails.
    let ((begins, begun), (over, ends)) = (mpsc::channel(), mpsc::channel::<()>());
    let thread = thread::Builder::new().name("spry-existed".into());
    let thread = thread.spawn(move || {
        begins.send(()).unwrap();
        ends.recv().unwrap_err();
        own_tid()
    });
    begun.recv().unwrap();
    let mut tid = Tid::IDLE;
    let recorded = record(&[], || {
        drop(over);
        tid = thread.unwrap().join().unwrap();
    });
    let named = recorded.events.iter().find_map(|stamped| match stamped.event {
        Event::Task(info) if info.tid == tid => Some(info),
        _ => None,
    });
    let named = named.expect("the thread is named");
    assert_eq!(named.comm.as_bytes(), b"spry-existed");
    assert_eq!(named.tgid.0, std::process::id());
}

#[test]
fn a_storm_of_20_000_processes_is_seen_whole() {
    const CHILDREN: usize = 20_000;
    let mut children = HashSet::new();
    let recorded = record(&[], || {
        for _ in 0..CHILDREN {
            // SAFETY: the child, which borrows the parent's memory, does nothing but end.
            #[expect(deprecated, reason = "nothing is quicker, and the child calls nothing else")]
            let child = unsafe { libc::vfork() };
            if child == 0 {
                // SAFETY: ends the child without running anything of the parent's.
                unsafe { libc::_exit(0) };
            }
            assert!(child > 0);
            // SAFETY: waits for a child of ours; its status is not asked for.
            unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
            children.insert(Tid(child as u32));
        }
        // A process can be waited for before its last switch.
        thread::sleep(Duration::from_millis(50));
    });
    assert_eq!(recorded.statistics.lost, 0);
    let (mut forks, mut exits, mut last, mut stats) = (0, 0, 0, 0);
    for stamped in &recorded.events {
        match stamped.event {
            Event::Fork(fork) if children.contains(&fork.child) && fork.child_tgid.0 == fork.child.0 => {
                forks += 1
            }
            Event::Exit(exit) if children.contains(&exit.tid) => exits += 1,
            Event::Switch(switch) if children.contains(&switch.prev) && switch.prev_state.is_exit() => {
                last += 1
            }
            Event::Stat(stat) if children.contains(&stat.tid) && stat.state == StatState::Exited => {
                stats += 1
            }
            _ => {}
        }
    }
    // The kernel may give a tid twice to so many children.
    assert!(forks >= children.len(), "{forks} forks");
    assert!(exits >= children.len(), "{exits} exits");
    assert!(last >= children.len(), "{last} last switches");
    assert!(stats >= children.len(), "{stats} accounts");
}

#[test]
fn a_thread_that_renames_itself_10_000_times_is_followed() {
    const NAMES: usize = 10_000;
    let mut tid = Tid::IDLE;
    let recorded = record(&[], || {
        let thread = thread::spawn(|| {
            for number in 0..NAMES {
                let name = std::ffi::CString::new(format!("name-{number}")).unwrap();
                // SAFETY: `name` is a string that ends with 0.
                unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
            }
            own_tid()
        });
        tid = thread.join().unwrap();
    });
    assert_eq!(recorded.statistics.lost, 0);
    let names: Vec<_> = recorded
        .events
        .iter()
        .filter_map(|stamped| match stamped.event {
            Event::Comm(rename) if rename.tid == tid => Some(rename.comm.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(names.len(), NAMES);
    assert_eq!(names[NAMES - 1], format!("name-{}", NAMES - 1));
}

#[test]
fn a_busy_thread_s_run_time_is_the_kernel_s_within_a_thousandth() {
    let mut tid = Tid::IDLE;
    let recorded = record(&[], || {
        let busy = thread::spawn(|| {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(1) {
                std::hint::spin_loop();
            }
            own_tid()
        });
        tid = busy.join().unwrap();
        // A thread can be joined before its last switch.
        thread::sleep(Duration::from_millis(50));
    });
    let (mut run_ns, mut kernel_ns, mut last) = (0, None, HashMap::new());
    for stamped in &recorded.events {
        match stamped.event {
            Event::Switch(switch) => {
                // The time counts from the last switch that was seen, whichever task it brought. Where a
                // switch was hidden, the time of the task before it is stolen, too.
                if let Some(since_ns) =
                    last.insert(stamped.cpu, stamped.time_ns).filter(|_| switch.prev == tid)
                {
                    run_ns += (stamped.time_ns - since_ns) as i64 - i64::from(switch.stolen_ns);
                }
            }
            Event::Stat(stat) if stat.tid == tid => kernel_ns = Some(stat.exec_ns as i64),
            _ => {}
        }
    }
    let kernel_ns = kernel_ns.expect("the thread's account was taken when it ended");
    let off_ns = (run_ns - kernel_ns).abs();
    assert!(
        off_ns <= (kernel_ns / 1000).max(20_000),
        "{run_ns} ns by switches, {kernel_ns} ns by the kernel"
    );
}

#[test]
fn a_change_of_class_is_told_at_the_next_switch() {
    let mut tid = Tid::IDLE;
    let recorded = record(&[], || {
        let thread = thread::spawn(|| {
            thread::sleep(Duration::from_millis(5));
            let parameters = libc::sched_param { sched_priority: 7 };
            // SAFETY: `parameters` lives through the call; 0 is the calling thread.
            assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) }, 0);
            thread::sleep(Duration::from_millis(5));
            own_tid()
        });
        tid = thread.join().unwrap();
    });
    // The last change counts: the first may show the nice value with which the tests were started.
    let change = recorded.events.iter().rev().find_map(|stamped| match stamped.event {
        Event::Prio(prio) if prio.tid == tid => Some(prio),
        _ => None,
    });
    let change = change.expect("the change was told");
    assert_eq!((change.policy, change.prio), (Policy::Fifo, 92));
}

#[test]
fn ticks_come_at_the_rate_and_phase_that_the_header_tells() {
    let recorded = record(&[], || {
        let busy: Vec<_> = (0..2)
            .map(|cpu| {
                thread::spawn(move || {
                    pin(cpu);
                    let begin = Instant::now();
                    while begin.elapsed() < Duration::from_millis(300) {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        busy.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let hz = recorded.header.hz.expect("the rate is known");
    let period_ns = 1_000_000_000 / u64::from(hz);
    let mut ticks = 0;
    for stamped in &recorded.events {
        if let Event::Tick(tick) = stamped.event {
            ticks += 1;
            assert!(tick.due_ns <= stamped.time_ns);
            let phase_ns =
                recorded.header.tick_phase_ns[usize::from(stamped.cpu)].expect("the phase is known");
            let off_ns = (tick.due_ns % period_ns).abs_diff(phase_ns);
            assert!(off_ns.min(period_ns - off_ns) < 10_000, "a tick is {off_ns} ns off its phase");
        }
    }
    assert!(ticks >= hz / 5, "{ticks} ticks");
}
