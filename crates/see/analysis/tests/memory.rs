//! Memory stays bounded: counted by an allocator that keeps the greatest sum.

mod toy;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use spry_analysis::{Engine, Findings, Options, Selection, TraceTotals};
use spry_trace::event::{
    Comm, Context, Event, Exit, Fork, PrevState, StatState, Switch, TaskInfo, TaskStat, Wakeup, WakeupKind,
    Waking,
};
use spry_trace::{Group, Groups, Header, Stamped, Tgid, Tid};

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct CountingAllocator;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(now, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Greatest sum of bytes in use while the work runs, above the bytes in use before.
fn peak_of<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work();
    (PEAK.load(Ordering::Relaxed) - before, result)
}

fn header() -> Header {
    let groups = Groups::NONE.with(Group::Sched);
    Header { cpus: 2, hz: Some(250), tick_phase_ns: vec![Some(0); 2], groups, ..Header::default() }
}

/// `tasks` tasks take turns on a CPU `rounds` times, each woken by the task before it, for times of
/// all magnitudes.
fn turns(tasks: u32, rounds: u32, to: &mut Engine) {
    let mut mix = toy::Mix(1);
    let mut time_ns = 0;
    let mut push = |time_ns: u64, event| _ = to.push(&Stamped { time_ns, cpu: 0, event });
    for tid in 1..=tasks {
        let comm = Comm::new(b"turn");
        push(0, Event::Task(TaskInfo::new(Tid(tid), Tgid(tid), comm)));
        let state = StatState::Blocked;
        push(0, Event::Stat(TaskStat { tid: Tid(tid), state, exec_ns: 0, utime_ns: 0, stime_ns: 0 }));
    }
    let mut prev = Tid(tasks);
    for turn in 0..tasks * rounds {
        let next = Tid(turn % tasks + 1);
        let mut pause = || (mix.next() >> 20) >> (20 + mix.next() % 24);
        time_ns += pause();
        push(time_ns, Event::Waking(Waking { waker: prev, wakee: next, context: Context::Task }));
        push(time_ns, Event::Wakeup(Wakeup { tid: next, target_cpu: 0, kind: WakeupKind::Again }));
        time_ns += pause();
        let prev_state = PrevState::Sleeping;
        let (prev_prio, next_prio) = (120, 120);
        push(time_ns, Event::Switch(Switch { prev, next, prev_state, prev_prio, next_prio, stolen_ns: 0 }));
        prev = next;
    }
}

/// A storm of short processes; each of them runs a few times and ends.
fn storm(processes: u32, to: &mut Engine) {
    let mut time_ns = 0;
    let mut push = |time_ns: &mut u64, event| {
        *time_ns += 1_700;
        _ = to.push(&Stamped { time_ns: *time_ns, cpu: 0, event });
    };
    let switch = |prev, next, prev_state| {
        Event::Switch(Switch {
            prev: Tid(prev),
            next: Tid(next),
            prev_state,
            prev_prio: 120,
            next_prio: 120,
            stolen_ns: 0,
        })
    };
    for child in (0..processes).map(|number| 2 + number) {
        let (parent, comm) = (Tid(1), Comm::new(b"short"));
        push(&mut time_ns, Event::Fork(Fork { parent, child: Tid(child), child_tgid: Tgid(child), comm }));
        push(&mut time_ns, Event::Wakeup(Wakeup { tid: Tid(child), target_cpu: 0, kind: WakeupKind::New }));
        push(&mut time_ns, switch(1, child, PrevState::Sleeping));
        push(&mut time_ns, Event::Exit(Exit { tid: Tid(child) }));
        push(
            &mut time_ns,
            Event::Waking(Waking { waker: Tid(child), wakee: Tid(1), context: Context::Task }),
        );
        push(&mut time_ns, Event::Wakeup(Wakeup { tid: Tid(1), target_cpu: 0, kind: WakeupKind::Again }));
        push(&mut time_ns, switch(child, 1, PrevState::Zombie));
    }
}

fn analyse(feed: impl FnOnce(&mut Engine)) -> Findings {
    let mut engine = Engine::new(&header(), Selection::default(), Options::default()).unwrap();
    feed(&mut engine);
    engine.finish(TraceTotals::default())
}

// One test, since the tests of a file share the counting allocator.
#[test]
fn a_thousand_tasks_take_under_100_mib_and_others_2_kib_each() {
    const KIB: usize = 1 << 10;
    let (thousand, findings) = peak_of(|| analyse(|engine| turns(1_000, 400, engine)));
    assert_eq!(findings.tasks.len(), 1_000);
    drop(findings);
    assert!(thousand < 100 * KIB * KIB, "1000 busy tasks took {} KiB", thousand / KIB);
    let (longer, _) = peak_of(|| analyse(|engine| turns(1_000, 800, engine)));
    assert!(
        longer < thousand + thousand / 20,
        "twice the trace took {} of {} KiB",
        longer / KIB,
        thousand / KIB
    );

    let (many, findings) = peak_of(|| analyse(|engine| turns(5_000, 100, engine)));
    assert_eq!(findings.tasks.len(), 5_000);
    drop(findings);
    let (fewer, _) = peak_of(|| analyse(|engine| turns(2_000, 100, engine)));
    let each = (many - fewer) / 3_000;
    assert!(each <= 2 * KIB, "each further busy task took {each} bytes");

    let (storm_few, _) = peak_of(|| analyse(|engine| storm(2_000, engine)));
    let (storm_many, findings) = peak_of(|| analyse(|engine| storm(22_000, engine)));
    assert_eq!(findings.tasks.len(), 22_001);
    drop(findings);
    let each = (storm_many - storm_few) / 20_000;
    assert!(each <= 2 * KIB, "each further short process took {each} bytes");
    println!(
        "1000 tasks {} KiB, further busy {} bytes, short {each} bytes",
        thousand / KIB,
        (many - fewer) / 3_000
    );
}
