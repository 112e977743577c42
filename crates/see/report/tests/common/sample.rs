//! Hand-made findings: small findings with all and with few groups, and large findings of thousands of tasks.
#![allow(dead_code, reason = "each test program uses its own part")]

use spry_analysis::findings::*;
use spry_analysis::histogram::{Budget, Histogram, Tally};
use spry_trace::event::{ChannelKind, Comm, Context, Direction, Irq, Policy, Softirq, TimerKind};
use spry_trace::{Group, Groups, Kinds, Tgid, Tid};

const MS: u64 = 1_000_000;
const US: u64 = 1_000;

/// A task's names.
pub fn who(tid: u32, tgid: u32, comm: &str) -> Who {
    Who { tid: Tid(tid), tgid: Tgid(tgid), comm: Comm::new(comm.as_bytes()) }
}

fn histogram(values: &[u64]) -> Histogram {
    let mut budget = Budget::new(1);
    let mut histogram = Histogram::default();
    values.iter().for_each(|&value| histogram.record(value, &mut budget));
    histogram
}

fn tally(values: &[u64]) -> Tally {
    let mut tally = Tally::default();
    values.iter().for_each(|&value| tally.add(value));
    tally
}

fn editor() -> Who {
    who(100, 100, "editor")
}

fn compiler() -> Who {
    who(200, 199, "cc1")
}

fn hostile() -> Who {
    who(300, 300, "</script><b>&\"'")
}

fn recorder() -> Who {
    who(400, 400, "spry")
}

fn task(who: Who, groups: Groups, runtime_ns: u64, waits: &[u64], quanta: &[u64]) -> TaskFinding {
    let runnable_wait_ns = waits.iter().sum();
    let half = waits.len() / 2;
    let rate = |hz, ratio, missed| BillingFinding {
        hz,
        ratio: Some(ratio),
        missed_percent: Some(missed),
        ratio_min: Some(ratio * 0.5),
        ratio_max: Some(ratio * 1.5),
    };
    TaskFinding {
        who,
        start_ns: Some(0),
        end_ns: None,
        life_ns: 1_000 * MS,
        runtime_ns,
        runnable_wait_ns: Some(runnable_wait_ns),
        blocked_ns: Some(1_000 * MS - runtime_ns - runnable_wait_ns),
        unknown_ns: 0,
        stolen_ns: Some(0),
        switches: Switches { voluntary: 1_200, involuntary: quanta.len() as u64 },
        wakeups: Some(half as u64),
        migrations: Some(1),
        policy: (who.tid.0 == 400).then_some(Policy::Fifo),
        prio: Some(120),
        kernel: Some(KernelAccount {
            from_ns: 0,
            to_ns: 1_000 * MS,
            exec_ns: runtime_ns,
            ticks_ns: 8 * MS,
            runtime_ns,
        }),
        dispatch: Some(Box::new(DispatchFinding {
            wakeup: Some(histogram(&waits[..half])),
            preemption: histogram(&waits[half..]),
            all: Some(histogram(waits)),
            wait_share: Some(runnable_wait_ns as f64 / (runnable_wait_ns + runtime_ns) as f64),
        })),
        quanta: Some(Box::new(QuantaFinding {
            lengths: histogram(quanta),
            per_second: Some(quanta.len() as f64),
            cut: tally(&[3 * US]),
        })),
        billing: Some(Box::new([
            rate(100, 0.25, 90.0),
            rate(250, 0.8, 60.0),
            rate(1000, 0.97, 12.5),
            rate(20_000, 1.0, 0.0),
        ])),
        reasons: Some(Box::new(Reasons {
            by_state: [4, 1, 1_190, 8, 0, 0, 0, 2, 0, 0, 0],
            by_wakings: Some(ByWakings {
                preempted_by_own_wakee: 1,
                preempted_by_other_wakee: 2,
                end_of_slice: 1,
                other_involuntary: 1,
                thesis_voluntary: 3,
            }),
        })),
        cpu_shares: Some(Box::new([
            CpuShare { cpu: Some(0), runtime_ns: runtime_ns / 4 },
            CpuShare { cpu: Some(1), runtime_ns: runtime_ns - runtime_ns / 4 },
        ])),
        wakeup: Some(Box::new(WakeupParts {
            timer: groups.contains(Group::Timer).then(|| tally(&[2 * US])),
            expiry: groups.contains(Group::Timer).then(|| tally(&[US])),
            enqueue: tally(&[700]),
            resched: groups.contains(Group::Resched).then(|| tally(&[900])),
            switch: groups.contains(Group::Resched).then(|| tally(&[5 * US])),
            total: tally(waits),
        })),
        interrupted: groups.contains(Group::Irq).then_some(Interrupted {
            irq_ns: 40 * US,
            softirq_ns: 9 * US,
            count: 17,
        }),
    }
}

fn delay(victim: Who, start_ns: u64, wait_ns: u64, groups: Groups) -> Delay {
    let split = start_ns + wait_ns * 9 / 10;
    let stack = groups.contains(Group::Stack);
    let idle = IdleReason::State { state: 1, leaving_ns: 3 * US };
    let idle = groups.contains(Group::Idle).then_some(idle);
    Delay {
        victim,
        start_ns,
        wait_ns,
        cpu: 1,
        cause: DelayCause::Woken { waker: Some(hostile()), context: Context::Task },
        end: DelayEnd::Dispatched,
        culprits: vec![
            Culprit { party: Party::Task(compiler()), ran_ns: wait_ns * 9 / 10 },
            Culprit { party: Party::Interrupt(InterruptKind::Softirq(Softirq(1))), ran_ns: 12 * US },
            Culprit { party: Party::Idle, ran_ns: 4 * US },
        ],
        slices: vec![
            Slice { cpu: 1, start_ns, end_ns: split, party: Party::Task(compiler()) },
            Slice { cpu: 0, start_ns, end_ns: start_ns + wait_ns, party: Party::Idle },
            Slice { cpu: 1, start_ns: split, end_ns: start_ns + wait_ns, party: Party::Task(hostile()) },
        ],
        names: Vec::new(),
        idle,
        bound: None,
        culprit_stack: if stack { vec!["schedule".into(), "do_wait <b>".into()] } else { Vec::new() },
    }
}

fn without_stacks(groups: Groups) -> Groups {
    groups.minus(Groups::NONE.with(Group::Stack))
}

fn graph(groups: Groups) -> Graph {
    let node = |who: Who, distance| Node {
        tgid: who.tgid,
        comm: who.comm,
        threads: 2,
        runtime_ns: 50 * MS,
        inner_wakeups: 3,
        distance,
    };
    let bytes = |bytes| groups.contains(Group::Ipc).then_some(bytes);
    Graph {
        nodes: vec![node(compiler(), None), node(editor(), Some(0)), node(hostile(), Some(1))],
        edges: vec![
            Edge { from_tgid: Tgid(300), to_tgid: Tgid(100), wakeups: 250, bytes: bytes(4_096) },
            Edge { from_tgid: Tgid(100), to_tgid: Tgid(300), wakeups: 20, bytes: bytes(160) },
        ],
        component: Some(Component { root_tgid: Tgid(100), tgids: vec![Tgid(100), Tgid(300)] }),
        wakeups_without_task: 31,
        wakeups_dropped: 0,
        bytes_without_writer: bytes(12),
    }
}

fn wakeup(groups: Groups) -> WakeupFinding {
    let (timer, resched) = (groups.contains(Group::Timer), groups.contains(Group::Resched));
    let part = |known: bool, values: &[u64]| known.then(|| histogram(values));
    WakeupFinding {
        timer: part(timer, &[2 * US, 3 * US, 55 * US]),
        expiry: part(timer, &[US, US]),
        enqueue: histogram(&[600, 700, 1_100]),
        resched: part(resched, &[300, 900]),
        switch: part(resched, &[2 * US, 5 * US, 31 * MS]),
        total: histogram(&[4 * US, 6 * US, 31 * MS]),
        deadline_to_switch: part(timer, &[9 * US, 60 * US]),
        culprits: vec![Culprit { party: Party::Task(compiler()), ran_ns: 28 * MS }],
    }
}

fn trace(groups: Groups) -> TraceFinding {
    TraceFinding {
        events: 1_234_567,
        lost: 15,
        lost_by_cpu: vec![0, 15],
        bytes: 9_876_543,
        duration_ns: 1_000 * MS,
        from_ns: 0,
        to_ns: 1_000 * MS,
        cpus: 2,
        kernel: "6.1.0-test".into(),
        machine: "sim".into(),
        arch: "x86_64".into(),
        hz: Some(250),
        preemption: Some("none".into()),
        scheduler: None,
        recorder_tgid: Some(Tgid(400)),
        start_unix_ns: Some(1_700_000_000_000_000_000),
        command: Some(vec!["make".into(), "-j8".into()]),
        groups,
        lacks: Kinds::NONE,
        oddities: Oddities { missing_wakeup: 2, ..Oddities::default() },
    }
}

fn cpu(cpu: u16, groups: Groups, busy_ns: u64) -> CpuFinding {
    CpuFinding {
        cpu,
        busy_ns,
        idle_ns: 1_000 * MS - busy_ns,
        unknown_ns: 0,
        irq_ns: groups.contains(Group::Irq).then_some(3 * MS),
        stolen_ns: Some(0),
        switches: 4_321,
        ticks: Some(250),
        migrations_out: Some(3),
        migrations_in: Some(4),
    }
}

fn channels() -> Channels {
    let end = |who: Who, direction, bytes| ChannelUser { tgid: who.tgid, comm: who.comm, direction, bytes };
    let users = vec![end(hostile(), Direction::Write, 4_096), end(editor(), Direction::Read, 4_096)];
    let pipe =
        ChannelFinding { kind: ChannelKind::Pipe, id: 77, written_bytes: 4_096, read_bytes: 4_096, users };
    Channels { top: vec![pipe], seen: 3, other_bytes: 120 }
}

fn steps() -> Vec<BillingSteps> {
    let cell = |quantum_ns, ticks, count| StepCell { quantum_ns, ticks, count };
    let at = |hz, cells| BillingSteps { who: compiler(), hz, cells };
    vec![
        at(100, vec![cell(2 * MS, 0, 80), cell(2 * MS, 1, 20), cell(12 * MS, 1, 9), cell(12 * MS, 2, 2)]),
        at(1000, vec![cell(2 * MS, 2, 100), cell(12 * MS, 12, 11)]),
    ]
}

fn drawing() -> Drawing {
    let column =
        |top| Column { busy_ns: 10 * MS, unknown_ns: 0, top: [(top, 9 * MS), ((top + 1) % 3, MS), (0, 0)] };
    let cpu = |from: u32| (0..100).map(|at| column((from + at / 10) % 3)).collect();
    Drawing {
        from_ns: 0,
        column_ns: 10 * MS,
        tasks: vec![compiler(), editor(), hostile()],
        cpus: vec![cpu(0), cpu(1)],
    }
}

/// One second of an editor behind a compiler, recorded with `groups`.
pub fn small(groups: Groups) -> Findings {
    let has = |group| groups.contains(group);
    let tasks = vec![
        task(compiler(), groups, 700 * MS, &[5 * US, 6 * US, 7 * MS], &[2 * MS, 3 * MS, 12 * MS, 12 * MS]),
        task(
            editor(),
            groups,
            20 * MS,
            &[4 * US, 9 * US, 31_200 * US, 2 * MS],
            &[90 * US, 110 * US, 300 * US],
        ),
        task(hostile(), groups, 9 * MS, &[3 * US, 8 * US], &[400 * US, 20 * US]),
        task(recorder(), groups, 4 * MS, &[3 * US], &[40 * US]),
    ];
    let interrupt = |kind, time: &[u64]| InterruptFinding { kind, time: tally(time), stolen_ns: 2 * US };
    Findings {
        trace: trace(groups),
        analyses: ["quanta", "billing", "dispatch", "reasons", "cpu", "delays", "wakeup", "graph"].into(),
        absent: Vec::new(),
        tasks,
        cpus: vec![cpu(0, groups, 250 * MS), cpu(1, groups, 990 * MS)],
        overall: Overall {
            quanta: Some(histogram(&[2 * MS, 3 * MS, 12 * MS, 90 * US, 110 * US, 20 * US])),
            dispatch: Some(histogram(&[5 * US, 6 * US, 7 * MS, 4 * US, 31_200 * US])),
        },
        graph: Some(graph(groups)),
        delays: Some(Delays {
            worst: vec![
                delay(editor(), 400 * MS, 31_200 * US, groups),
                delay(hostile(), 700 * MS, 2 * MS, without_stacks(groups)),
            ],
            blame: vec![
                Blame { victim: editor(), culprit: Party::Task(compiler()), total_ns: 33 * MS, waits: 2 },
                Blame { victim: hostile(), culprit: Party::Others, total_ns: 2 * MS, waits: 1 },
            ],
        }),
        wakeup: Some(wakeup(groups)),
        interrupts: has(Group::Irq).then(|| {
            vec![
                interrupt(InterruptKind::Irq(Irq::LocalTimer), &[3 * US, 9 * US]),
                interrupt(InterruptKind::Softirq(Softirq(3)), &[20 * US]),
            ]
        }),
        timers: has(Group::Timer).then(|| {
            vec![TimerFinding {
                kind: TimerKind::Sleep,
                lateness: histogram(&[52 * US, 60 * US]),
                past_slack: 1,
                early: 0,
            }]
        }),
        frames: has(Group::Timer).then(|| {
            let skipped = |hz, mean, least, most| SkippedFinding { hz, mean, least, most };
            let skipped = vec![skipped(100, 0.1667, 0.0, 0.3333), skipped(250, 0.0, 0.0, 0.0)];
            vec![FramesFinding { who: editor(), period_ns: 16_666_667, count: 600, skipped }]
        }),
        channels: has(Group::Ipc).then(channels),
        marks: has(Group::Mark).then(|| Marks {
            list: vec![MarkFinding {
                time_ns: 431_200_000,
                cpu: 1,
                who: editor(),
                text: "frame <1> shown".into(),
            }],
            count: 1,
        }),
        drawing: Some(drawing()),
        billing_steps: Some(steps()),
    }
}

pub fn all_groups() -> Groups {
    Groups::from_iter(Group::ALL)
}

/// Only the group that is always recorded.
pub fn few_groups() -> Groups {
    Groups::NONE.with(Group::Sched)
}

/// Small well-mixed numbers that are the same in every run (SplitMix64).
struct Mix(u64);

impl Mix {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    /// A number between the two bounds, about log-uniform.
    fn spread(&mut self, low: u64, high: u64) -> u64 {
        let octaves = (high / low).ilog2() as u64 + 1;
        let base = low << self.below(octaves);
        (base + self.below(base)).min(high)
    }
}

/// Twenty seconds of a busy desktop with this many tasks.
pub fn large(tasks: u32) -> Findings {
    const NAMES: [&str; 8] =
        ["mplayer", "Xorg", "cc1", "hog", "emacs", "</script><b>&\"'", "make", "kworker/1:2"];
    let mut mix = Mix(1);
    let mut findings = small(all_groups());
    let named: Vec<Who> =
        (0..tasks).map(|at| who(1_000 + at, 1_000 + at / 3 * 3, NAMES[at as usize % NAMES.len()])).collect();
    findings.tasks.extend(named.iter().map(|&who| {
        let waits: Vec<u64> = (0..60).map(|_| mix.spread(2 * US, 3 * MS)).collect();
        let quanta: Vec<u64> = (0..60).map(|_| mix.spread(10 * US, 4 * MS)).collect();
        task(who, all_groups(), quanta.iter().sum::<u64>().min(600 * MS), &waits, &quanta)
    }));
    findings.tasks.sort_by_key(|task| std::cmp::Reverse(task.runtime_ns));
    let delays = findings.delays.as_mut().expect("small findings have delays");
    for at in 0..20 {
        let victim = named[at % named.len()];
        let mut delay =
            delay(victim, (at as u64 * 47 + 5) * MS, (32 - at as u64) * MS, without_stacks(all_groups()));
        let (mut slices, mut from) = (Vec::new(), delay.start_ns);
        while from < delay.start_ns + delay.wait_ns && slices.len() < Delay::SLICES_MAX {
            let to = (from + mix.spread(100 * US, 4 * MS)).min(delay.start_ns + delay.wait_ns);
            let party = Party::Task(named[mix.below(8) as usize % named.len()]);
            slices.push(Slice { cpu: mix.below(2) as u16, start_ns: from, end_ns: to, party });
            from = to;
        }
        delay.slices = slices;
        delays.worst.push(delay);
        delays.blame.push(Blame {
            victim,
            culprit: Party::Task(named[(at + 3) % named.len()]),
            total_ns: (40 - at as u64) * MS,
            waits: 9,
        });
    }
    delays.worst.sort_by_key(|delay| std::cmp::Reverse(delay.wait_ns));
    let graph = findings.graph.as_mut().expect("small findings have a graph");
    for at in 0..tasks / 3 {
        let who = named[at as usize * 3];
        let node = Node {
            tgid: who.tgid,
            comm: who.comm,
            threads: 3,
            runtime_ns: mix.spread(MS, 900 * MS),
            inner_wakeups: 5,
            distance: Some(at % 4 + 1),
        };
        graph.nodes.push(node);
        let to = Tgid(1_000 + mix.below(u64::from(tasks / 3).max(1)) as u32 / 2 * 3);
        graph.edges.push(Edge {
            from_tgid: who.tgid,
            to_tgid: to,
            wakeups: mix.spread(1, 9_000),
            bytes: Some(mix.spread(1, 1 << 20)),
        });
    }
    findings.billing_steps = Some(
        [100, 250, 1_000]
            .iter()
            .flat_map(|&hz| large_steps(hz, &named[..3.min(named.len())], &mut mix))
            .collect(),
    );
    findings.drawing = Some(large_drawing(&named, &mut mix));
    findings
}

fn large_steps(hz: u32, named: &[Who], mix: &mut Mix) -> Vec<BillingSteps> {
    let period_ns = 1_000_000_000 / u64::from(hz);
    let mut cells = |_| -> Vec<StepCell> {
        (0..60)
            .map(|_| {
                let quantum_ns = mix.spread(50 * US, 40 * MS);
                let ticks = (quantum_ns / period_ns
                    + u64::from(mix.below(period_ns) < quantum_ns % period_ns))
                    as u32;
                StepCell { quantum_ns, ticks, count: mix.spread(1, 5_000) }
            })
            .collect()
    };
    named.iter().map(|&who| BillingSteps { who, hz, cells: cells(who) }).collect()
}

fn large_drawing(named: &[Who], mix: &mut Mix) -> Drawing {
    let tasks: Vec<Who> = named.iter().take(30).copied().collect();
    let many = tasks.len() as u64;
    let mut cpu = |_: u32| -> Vec<Column> {
        let mut now = 0;
        (0..2_000)
            .map(|_| {
                if mix.below(20) == 0 {
                    now = mix.below(many) as u32;
                }
                let next = (now + 1) % many as u32;
                Column { busy_ns: 480 * US, unknown_ns: 0, top: [(now, 400 * US), (next, 80 * US), (0, 0)] }
            })
            .collect()
    };
    Drawing { from_ns: 0, column_ns: 500 * US, cpus: vec![cpu(0), cpu(1)], tasks }
}
