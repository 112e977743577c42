//! From a trace of several CPUs: nobody in use waits while a CPU that it may use runs what is not.

use std::collections::BTreeMap;

use spry_lab::scheduler::{Program, Setup, Sign};
use spry_lab::{FileSource, Job, MachineSpec, Outcome, Record, TRACE};
use spry_lab_tests::{example, machine, printed, run, script};
use spry_timeline::{Observer, Ran, TaskIndex, Timeline, Waited, Waking, Window};
use spry_trace::event::{Comm, Event};
use spry_trace::{Reader, Stamped};

/// Longer than this nobody in use may wait beside a lower class, ns.
const LONG_NS: u64 = 1_000_000;
/// A task that has a CPU and does not get on for so long shows that the virtual CPU stood still, ns.
const STOOD_NS: u64 = 500_000;
/// So long after their start those in use have their places, ns: a second, in which they sleep, less the way there.
const BEFORE_NS: u64 = 500_000_000;

/// From and to, ns.
type Time = (u64, u64);

fn overlap(one: Time, other: Time) -> Time {
    (one.0.max(other.0), one.1.min(other.1))
}

fn length((from, to): Time) -> u64 {
    to.saturating_sub(from)
}

/// A wait of one in use, and the CPUs that had to do something for it to end.
struct Wait {
    time: Time,
    cpus: Vec<u16>,
}

/// What the trace tells of those in use, and of when the CPUs ran others and stood still.
#[derive(Default)]
struct Turns {
    /// When each task did not get on, by itself.
    gaps: BTreeMap<u32, Vec<Time>>,
    began_ns: Option<u64>,
    wakers: BTreeMap<u32, u16>,
    waits: Vec<Wait>,
    below: Vec<(u16, Time)>,
    stood: Vec<(u16, Time)>,
    /// Which CPUs were told, and when, to look whom to run.
    told: Vec<(u64, u16)>,
}

impl Turns {
    fn of(outcome: &Outcome) -> Turns {
        let mut turns = Turns::default();
        for line in printed(outcome).lines().filter_map(|line| line.strip_prefix("gap ")) {
            let numbers: Vec<u64> = line.split(' ').map(|text| text.parse().expect("a number")).collect();
            let [tid, from, to] = numbers[..] else { panic!("{line}") };
            turns.gaps.entry(tid as u32).or_default().push((from, to));
        }
        let mut reader = Reader::new(&outcome.files[TRACE][..]).expect("a trace");
        let window = Window { from_ns: 0, to_ns: u64::MAX };
        let mut timeline = Timeline::new(reader.header(), window);
        while let Some(event) = reader.next_event().expect("a whole trace") {
            timeline.push(event, &mut turns);
        }
        turns
    }

    fn is(now: &Timeline, task: TaskIndex, comm: &str) -> bool {
        now.task(task).comm() == Comm::new(comm.as_bytes())
    }

    /// How long a wait was during which one and the same CPU ran what is below, and neither that CPU nor one that had to
    /// do something for the wait to end stood still, ns.
    fn beside_below(&self, wait: &Wait) -> u64 {
        self.beside(wait, &self.stood)
    }

    /// The same, had CPUs stood still at these times.
    fn beside(&self, wait: &Wait, stood: &[(u16, Time)]) -> u64 {
        let of_cpu = |&(cpu, ran): &(u16, Time)| {
            let both = overlap(wait.time, ran);
            if length(both) <= LONG_NS {
                return length(both);
            }
            let concerned = |stood: &&(u16, Time)| stood.0 == cpu || wait.cpus.contains(&stood.0);
            let mut stood: Vec<Time> = stood.iter().filter(concerned).map(|s| overlap(s.1, both)).collect();
            stood.sort_unstable();
            let (mut left, mut until) = (length(both), both.0);
            for (from, to) in stood {
                left -= length((from.max(until), to)).min(left);
                until = until.max(to);
            }
            left
        };
        self.below.iter().map(of_cpu).max().unwrap_or(0)
    }
}

impl Observer for Turns {
    fn waking(&mut self, now: &Timeline, waking: &Waking) {
        self.wakers.insert(now.task(waking.task).tid().0, waking.cpu);
    }

    fn waited(&mut self, now: &Timeline, waited: &Waited) {
        if !Turns::is(now, waited.task, "napper") {
            return;
        }
        if waited.start_ns < *self.began_ns.get_or_insert(waited.start_ns) + BEFORE_NS {
            return;
        }
        let mut cpus = vec![waited.cpu];
        cpus.extend(waited.moved.map(|(cpu, _)| cpu));
        let since = self.told.partition_point(|told| told.0 < waited.waking_ns.min(waited.start_ns));
        cpus.extend(self.told[since..].iter().map(|told| told.1));
        cpus.extend(self.wakers.get(&now.task(waited.task).tid().0));
        self.waits.push(Wait { time: (waited.start_ns, waited.end_ns), cpus });
    }

    fn other(&mut self, _: &Timeline, event: &Stamped) {
        if let Event::NeedResched(told) = event.event {
            self.told.push((event.time_ns, told.target_cpu));
        }
    }

    fn ran(&mut self, now: &Timeline, ran: &Ran) {
        let time = (ran.start_ns, ran.end_ns);
        let gaps = self.gaps.get(&now.task(ran.task).tid().0).into_iter().flatten();
        let stood = gaps.map(|&gap| overlap(gap, time)).filter(|&stood| length(stood) > STOOD_NS);
        self.stood.extend(stood.map(|stood| (ran.cpu, stood)));
        if Turns::is(now, ran.task, "below") {
            self.below.push((ran.cpu, time));
        }
    }
}

/// The waits of nappers, real-time ones if they have a priority, beside loops on a machine of so many CPUs and caches.
fn turns([cpus, caches]: [u32; 2], scheduler: Option<Program>, priority: u32) -> Turns {
    let mut job = Job {
        cpus,
        caches,
        record: Some(Record { groups: vec!["resched".to_owned()] }),
        setup: Setup { program: scheduler, ..Setup::default() },
        ..script(&format!("exec /spry/naps 3 12 3 {priority}"))
    };
    job.files.insert("/spry/naps".to_owned(), FileSource::File(example("spry-scheduler", "naps")));
    let outcome = run(&machine(&MachineSpec::default()), &job).unwrap_or_else(|error| panic!("{error}"));
    Turns::of(&outcome)
}

/// Which part of the waits was long beside what is below, and which part besides for CPUs that stood still.
struct Shares {
    long: f64,
    stopped: f64,
}

fn shares(who: &str, turns: &Turns) -> Shares {
    let mut beside: Vec<u64> = turns.waits.iter().map(|wait| turns.beside_below(wait)).collect();
    assert!(beside.len() > 100, "{who}: {} waits", beside.len());
    beside.sort_unstable();
    let long = beside.iter().filter(|&&ns| ns > LONG_NS).count();
    let with_stops = turns.waits.iter().filter(|wait| turns.beside(wait, &[]) > LONG_NS).count();
    let quantile = |percent| beside[beside.len() * percent / 100] / 1000;
    println!(
        "{who}: {} waits, {long} longer than 1 ms beside others, {with_stops} with the time that CPUs stood still; \
         half {}, 99 % {}, longest {} us",
        beside.len(),
        quantile(50),
        quantile(99),
        beside[beside.len() - 1] / 1000
    );
    let share = |count: usize| count as f64 / beside.len() as f64;
    Shares { long: share(long), stopped: share(with_stops - long) }
}

// Several virtual CPUs run in the time of this machine, which makes them stand still now and then. Tasks that look at the
// clock all the time tell when; what a wait has of that is not the scheduler's. While the kernel runs nobody tells: so is at
// most one stop of ten. Real-time tasks are held to the same; tasks without a place do wait.
#[test]
fn nobody_in_use_waits_a_millisecond_while_others_have_a_cpu() {
    let without = shares("2 CPUs, without a place", &turns([2, 1], None, 0)).long;
    assert!(without > 0.2, "{without} of tasks without a place");
    for ([cpus, caches], most) in [([2, 1], 0.005), ([2, 2], 0.005), ([4, 1], 0.01)] {
        let args = vec!["napper=1:20000".to_owned()];
        let stack = Program { file: example("spry-scheduler", "scx_stack"), args, sign: Sign::SchedExt };
        let who = format!("{cpus} CPUs, {caches} caches");
        let floor = shares(&format!("{who}, real-time"), &turns([cpus, caches], None, 50)).long;
        let in_use = turns([cpus, caches], Some(stack), 0);
        let Shares { long, stopped } = shares(&format!("{who}, in use"), &in_use);
        let most = floor + most + stopped / 10.0;
        assert!(long <= most, "{who}: {long} in use, more than {most}");
    }
}
