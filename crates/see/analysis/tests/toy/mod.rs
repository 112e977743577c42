//! A toy scheduler: makes streams of events that a kernel could have made, and records the true times.
#![allow(dead_code, reason = "each user needs a part of it")]

use std::collections::{BTreeMap, VecDeque};

use spry_trace::event::{
    Channel, ChannelKind, Comm, Context, Direction, Event, Exit, Fork, Ipc, Irq, Migrate, NeedResched,
    PrevState, StatState, Switch, TaskInfo, TaskStat, Tick, Urgency, Wakeup, WakeupKind, Waking,
};
use spry_trace::{Groups, Header, Stamped, Tgid, Tid};

/// Well-mixed numbers (SplitMix64).
pub struct Mix(pub u64);

impl Mix {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// A plan for a simulation.
#[derive(Clone, Copy)]
pub struct Plan {
    pub seed: u64,
    pub cpus: u16,
    pub tasks: u32,
    pub events: usize,
    /// Mean length of a burst on the CPU, ns.
    pub burst_ns: u64,
    /// Whether tasks fork, exit and reuse tids.
    pub churn: bool,
    /// Whether there are events of the groups `irq`, `resched` and `ipc`.
    pub all_groups: bool,
}

/// The truth about one incarnation of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Truth {
    pub run_ns: u64,
    pub wait_ns: u64,
    pub blocked_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub quanta: u64,
    pub waits: u64,
    pub born_ns: Option<u64>,
    pub died_ns: Option<u64>,
}

pub struct ToyTrace {
    pub header: Header,
    pub events: Vec<Stamped>,
    /// The truth about each tid's incarnations, in order.
    pub truth: BTreeMap<u32, Vec<Truth>>,
    pub busy_ns: Vec<u64>,
    pub end_ns: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum ToyState {
    Running,
    Queued,
    Blocked,
    Dead,
}

struct ToyTask {
    state: ToyState,
    since: u64,
    cpu: usize,
    burst_left: u64,
    wake_at: u64,
    tgid: u32,
    truth: Truth,
}

struct ToyCpu {
    current: Option<usize>,
    since: u64,
    slice_end: u64,
    queue: VecDeque<usize>,
    busy: u64,
}

pub const START_NS: u64 = 5_000_000_000;
const SLICE_NS: u64 = 3_000_000;
const TICK_NS: u64 = 4_000_000;

struct World {
    plan: Plan,
    mix: Mix,
    now: u64,
    next_tick: u64,
    tasks: Vec<ToyTask>,
    /// tid of each task.
    tids: Vec<u32>,
    dead_tids: Vec<u32>,
    cpus: Vec<ToyCpu>,
    events: Vec<Stamped>,
}

/// Runs the toy scheduler by this plan.
pub fn make(plan: Plan) -> ToyTrace {
    let header = Header {
        kernel: "toy".into(),
        machine: "sim".into(),
        cpus: plan.cpus,
        hz: Some(250),
        tick_phase_ns: vec![Some(START_NS % TICK_NS); usize::from(plan.cpus)],
        start_ns: START_NS,
        groups: if plan.all_groups {
            spry_trace::Group::ALL.into_iter().collect()
        } else {
            Groups::NONE.with(spry_trace::Group::Sched)
        },
        ..Header::default()
    };
    let mut world = World::new(plan);
    while world.events.len() < plan.events {
        world.step();
    }
    world.close(header)
}

impl World {
    fn new(plan: Plan) -> World {
        let mut world = World {
            plan,
            mix: Mix(plan.seed),
            now: START_NS,
            next_tick: START_NS + TICK_NS,
            tasks: Vec::new(),
            tids: Vec::new(),
            dead_tids: Vec::new(),
            cpus: Vec::new(),
            events: Vec::new(),
        };
        for _ in 0..plan.cpus {
            let (queue, since) = (VecDeque::new(), START_NS);
            world.cpus.push(ToyCpu { current: None, since, slice_end: u64::MAX, queue, busy: 0 });
        }
        for at in 0..plan.tasks {
            let tid = 100 + at;
            let wake_at = START_NS + 1_000 + world.mix.below(1_000_000);
            world.tids.push(tid);
            let cpu = world.mix.below(u64::from(plan.cpus)) as usize;
            world.tasks.push(ToyTask {
                state: ToyState::Blocked,
                since: START_NS,
                cpu,
                burst_left: 0,
                wake_at,
                tgid: 100 + at / 4 * 4,
                truth: Truth::default(),
            });
            let comm = Comm::new(format!("toy{}", at % 16).as_bytes());
            let tgid = Tgid(100 + at / 4 * 4);
            world.emit(0, Event::Task(TaskInfo::new(Tid(tid), tgid, comm)));
            let stat =
                TaskStat { tid: Tid(tid), state: StatState::Blocked, exec_ns: 0, utime_ns: 0, stime_ns: 0 };
            world.emit(0, Event::Stat(stat));
        }
        world
    }

    fn emit(&mut self, cpu: usize, event: Event) {
        self.events.push(Stamped { time_ns: self.now, cpu: cpu as u16, event });
    }

    fn tid(&self, task: Option<usize>) -> Tid {
        task.map_or(Tid::IDLE, |task| Tid(self.tids[task]))
    }

    /// Goes to the next end of a burst, slice or sleep, or to the next tick, and makes its events.
    fn step(&mut self) {
        let burst = (0..self.cpus.len()).filter_map(|cpu| {
            let task = self.cpus[cpu].current?;
            let end = self.cpus[cpu].since.max(self.tasks[task].since) + self.tasks[task].burst_left;
            Some((end.min(self.cpus[cpu].slice_end), 0, cpu))
        });
        let wakes = self.tasks.iter().enumerate().filter(|(_, task)| task.state == ToyState::Blocked);
        let wake = wakes.map(|(at, task)| (task.wake_at, 1, at)).min();
        let next = burst.chain(wake).chain([(self.next_tick, 2, 0)]).min().unwrap();
        self.now = next.0.max(self.now + 1);
        match next.1 {
            0 => self.burst_over(next.2),
            1 => self.wake(next.2, None),
            _ => self.tick(),
        }
    }

    fn tick(&mut self) {
        for cpu in 0..self.cpus.len() {
            self.emit(cpu, Event::Tick(Tick { due_ns: self.next_tick }));
        }
        self.next_tick += TICK_NS;
    }

    fn burst_over(&mut self, cpu: usize) {
        let Some(task) = self.cpus[cpu].current else { return };
        let since = self.cpus[cpu].since.max(self.tasks[task].since);
        let used = self.now - since;
        if used < self.tasks[task].burst_left {
            self.tasks[task].burst_left -= used;
            if self.cpus[cpu].queue.is_empty() {
                self.cpus[cpu].slice_end = self.now + SLICE_NS;
                // No other task waits: the task keeps the CPU, and its burst goes on.
                self.tasks[task].burst_left += used;
            } else {
                self.switch(cpu, PrevState::Runnable);
            }
            return;
        }
        self.tasks[task].burst_left = self.burst();
        let choice = self.mix.below(100);
        if choice < 45 {
            self.wake_other(task);
        }
        if self.plan.churn && choice >= 97 {
            self.fork(cpu, task);
        }
        let lives = self.tasks.iter().filter(|task| task.state != ToyState::Dead).count();
        if self.plan.churn && (90..93).contains(&choice) && lives > self.plan.tasks as usize / 2 {
            self.emit(cpu, Event::Exit(Exit { tid: self.tid(Some(task)) }));
            self.now += 1 + self.mix.below(500);
            self.switch(cpu, PrevState::Zombie);
        } else {
            self.now += 1 + self.mix.below(500);
            self.tasks[task].wake_at = self.now + self.mix.below(20 * self.plan.burst_ns) + 10;
            let state = if choice % 7 == 0 { PrevState::DiskSleep } else { PrevState::Sleeping };
            self.switch(cpu, state);
        }
    }

    fn burst(&mut self) -> u64 {
        self.mix.below(2 * self.plan.burst_ns) + 200
    }

    fn wake_other(&mut self, waker: usize) {
        // A task mostly wakes its neighbour, as at the two ends of a pipe.
        let other =
            if self.mix.below(4) > 0 { waker ^ 1 } else { self.mix.below(self.tasks.len() as u64) as usize };
        if self.tasks.get(other).is_some_and(|task| task.state == ToyState::Blocked) {
            self.now += 1 + self.mix.below(300);
            self.wake(other, Some(waker));
        }
    }

    fn wake(&mut self, task: usize, waker: Option<usize>) {
        let home = self.tasks[task].cpu;
        let at = waker.map_or(home, |waker| self.tasks[waker].cpu);
        let wakee = self.tid(Some(task));
        if self.plan.all_groups {
            match waker {
                Some(waker) => self.bytes(at, waker, Direction::Write),
                None => self.emit(at, Event::IrqEnter(Irq::LocalTimer)),
            }
            self.now += 100;
        }
        let context = if waker.is_some() { Context::Task } else { Context::Hardirq };
        let by = self.tid(self.cpus[at].current);
        self.emit(at, Event::Waking(Waking { waker: by, wakee, context }));
        let target =
            if self.mix.below(8) == 0 { self.mix.below(self.cpus.len() as u64) as usize } else { home };
        if target != home {
            let (from_cpu, to_cpu) = (home as u16, target as u16);
            self.emit(at, Event::Migrate(Migrate { tid: wakee, from_cpu, to_cpu }));
        }
        self.now += 1 + self.mix.below(200);
        self.emit(
            at,
            Event::Wakeup(Wakeup { tid: wakee, target_cpu: target as u16, kind: WakeupKind::Again }),
        );
        self.enqueue(task, target);
        if self.plan.all_groups && waker.is_none() {
            self.now += 50;
            self.emit(at, Event::IrqExit(Irq::LocalTimer));
        }
        if self.tasks[task].burst_left == 0 {
            self.tasks[task].burst_left = self.burst();
        }
        self.maybe_switch(target, waker);
    }

    fn bytes(&mut self, cpu: usize, task: usize, direction: Direction) {
        let channel = Channel { kind: ChannelKind::Pipe, id: 0xffff_8881_0000_0000 + (task as u64 / 2) * 64 };
        let tid = self.tid(Some(task));
        self.emit(cpu, Event::Ipc(Ipc { tid, direction, channel, bytes: 64 }));
    }

    fn enqueue(&mut self, task: usize, cpu: usize) {
        let now = self.now;
        let record = &mut self.tasks[task];
        record.truth.blocked_ns += now - record.since;
        record.state = ToyState::Queued;
        record.since = now;
        record.cpu = cpu;
        self.cpus[cpu].queue.push_back(task);
    }

    fn maybe_switch(&mut self, cpu: usize, waker: Option<usize>) {
        let current = self.cpus[cpu].current;
        let preempts = current.is_some() && self.mix.below(3) == 0 && current != waker;
        if current.is_none() || preempts {
            if self.plan.all_groups {
                let (tid, target_cpu) = (self.tid(current), cpu as u16);
                self.emit(cpu, Event::NeedResched(NeedResched { tid, target_cpu, urgency: Urgency::Now }));
            }
            self.now += 1 + self.mix.below(800);
            if let Some(current) = current {
                let since = self.cpus[cpu].since.max(self.tasks[current].since);
                let left = self.tasks[current].burst_left;
                self.tasks[current].burst_left = left.saturating_sub(self.now - since).max(1);
            }
            self.switch(cpu, PrevState::Preempted);
        }
    }

    fn switch(&mut self, cpu: usize, prev_state: PrevState) {
        let now = self.now;
        let prev = self.cpus[cpu].current;
        let next = self.cpus[cpu].queue.pop_front();
        if let Some(prev) = prev {
            let since = self.cpus[cpu].since;
            self.cpus[cpu].busy += now - since;
            let task = &mut self.tasks[prev];
            task.truth.run_ns += now - since;
            task.truth.quanta += 1;
            task.since = now;
            if prev_state.is_runnable() {
                task.truth.involuntary += 1;
                task.state = ToyState::Queued;
                self.cpus[cpu].queue.push_back(prev);
            } else {
                task.truth.voluntary += 1;
                task.state = if prev_state.is_exit() { ToyState::Dead } else { ToyState::Blocked };
                if prev_state.is_exit() {
                    task.truth.died_ns = Some(now);
                    self.dead_tids.push(self.tids[prev]);
                }
            }
        }
        let prev_state = if prev.is_none() { PrevState::Runnable } else { prev_state };
        let switch = Switch {
            prev: self.tid(prev),
            next: self.tid(next),
            prev_state,
            prev_prio: 120,
            next_prio: 120,
            stolen_ns: 0,
        };
        self.emit(cpu, Event::Switch(switch));
        if let Some(next) = next {
            let task = &mut self.tasks[next];
            task.truth.wait_ns += now - task.since;
            task.truth.waits += 1;
            task.state = ToyState::Running;
            task.since = now;
        }
        let this = &mut self.cpus[cpu];
        this.current = next;
        this.since = now;
        this.slice_end = if next.is_some() { now + SLICE_NS } else { u64::MAX };
    }

    fn fork(&mut self, cpu: usize, parent: usize) {
        let tid = self.dead_tids.pop().unwrap_or(100_000 + self.tids.len() as u32);
        let child = self.tasks.len();
        self.now += 50;
        let now = self.now;
        self.tids.push(tid);
        self.tasks.push(ToyTask {
            state: ToyState::Blocked,
            since: now,
            cpu,
            burst_left: self.plan.burst_ns,
            wake_at: u64::MAX,
            tgid: tid,
            truth: Truth { born_ns: Some(now), ..Truth::default() },
        });
        let comm = Comm::new(b"child");
        let (parent, child_tid) = (self.tid(Some(parent)), Tid(tid));
        self.emit(cpu, Event::Fork(Fork { parent, child: child_tid, child_tgid: Tgid(tid), comm }));
        self.now += 70;
        self.emit(
            cpu,
            Event::Wakeup(Wakeup { tid: child_tid, target_cpu: cpu as u16, kind: WakeupKind::New }),
        );
        self.enqueue(child, cpu);
    }

    fn close(mut self, header: Header) -> ToyTrace {
        self.now += 1_000;
        let end_ns = self.now;
        let mut truth: BTreeMap<u32, Vec<Truth>> = BTreeMap::new();
        for (at, mut task) in self.tasks.into_iter().enumerate() {
            let open = end_ns - task.since;
            match task.state {
                ToyState::Running => task.truth.run_ns += end_ns - task.since,
                ToyState::Queued => task.truth.wait_ns += open,
                ToyState::Blocked => task.truth.blocked_ns += open,
                ToyState::Dead => {}
            }
            truth.entry(self.tids[at]).or_default().push(task.truth);
        }
        let busy = |cpu: ToyCpu| cpu.busy + cpu.current.map_or(0, |_| end_ns - cpu.since);
        let busy_ns = self.cpus.into_iter().map(busy).collect();
        ToyTrace { header, events: self.events, truth, busy_ns, end_ns }
    }
}

/// Two tasks on each CPU that pass a byte to and fro through a pipe: `rounds` round trips of six events.
pub fn ping_pong(cpus: u16, rounds: usize) -> (Header, Vec<Stamped>) {
    let header = Header {
        cpus,
        hz: Some(250),
        tick_phase_ns: vec![Some(1_000_000); usize::from(cpus)],
        start_ns: START_NS,
        groups: Groups::NONE.with(spry_trace::Group::Sched),
        ..Header::default()
    };
    let mut mix = Mix(3);
    let mut events = Vec::with_capacity(rounds * 6 * usize::from(cpus));
    let mut now = START_NS;
    for round in 0..2 * rounds {
        for cpu in 0..cpus {
            let pair = [100 + 2 * u32::from(cpu), 101 + 2 * u32::from(cpu)].map(Tid);
            let (prev, next) = (pair[round % 2], pair[(round + 1) % 2]);
            let mut at = |now: &mut u64, wait: u64, event| {
                *now += wait;
                events.push(Stamped { time_ns: *now, cpu, event });
            };
            at(
                &mut now,
                200 + mix.below(300),
                Event::Waking(Waking { waker: prev, wakee: next, context: Context::Task }),
            );
            at(&mut now, 100, Event::Wakeup(Wakeup { tid: next, target_cpu: cpu, kind: WakeupKind::Again }));
            let switch = Switch {
                prev,
                next,
                prev_state: PrevState::Sleeping,
                prev_prio: 120,
                next_prio: 120,
                stolen_ns: 0,
            };
            at(&mut now, 300 + mix.below(500), Event::Switch(switch));
        }
    }
    (header, events)
}
