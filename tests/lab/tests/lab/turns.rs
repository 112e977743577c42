//! Tests with a trace of several CPUs that no task in use waits while a CPU on which it may run runs a lower
//! class.

use spry_experiment::scheduler::{Program, Setup, Sign};
use spry_lab::{FileSource, Job, MachineSpec, Outcome, Record, TRACE, Topology};
use spry_lab_tests::{example, is_long, machine, run, script};
use spry_timeline::{Observer, Ran, TaskIndex, Timeline, Waited, Window};
use spry_trace::Reader;
use spry_trace::event::Comm;

/// The longest time that a task in use may wait while a CPU runs a lower class, ns.
const LONG_NS: u64 = 1_000_000;
/// This long after their start the tasks in use have their places, ns. They sleep for a second before they
/// are measured, and their start takes a part of it.
const BEFORE_NS: u64 = 500_000_000;

/// The beginning and the end of a time, ns.
type Time = (u64, u64);

fn overlap_ns(one: Time, other: Time) -> u64 {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}

/// The trace's data on the tasks in use, and on the times in which each CPU ran other tasks.
#[derive(Default)]
struct Turns {
    began_ns: Option<u64>,
    waits: Vec<Time>,
    below: Vec<(u16, Time)>,
}

impl Turns {
    fn of(outcome: &Outcome) -> Turns {
        let mut turns = Turns::default();
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

    /// How much of a wait overlapped with a time in which one CPU ran a lower class, ns.
    fn beside_below(&self, wait: Time) -> u64 {
        self.below.iter().map(|&(_, ran)| overlap_ns(wait, ran)).max().unwrap_or(0)
    }
}

impl Observer for Turns {
    fn waited(&mut self, now: &Timeline, waited: &Waited) {
        if !Turns::is(now, waited.task, "napper") {
            return;
        }
        if waited.start_ns >= *self.began_ns.get_or_insert(waited.start_ns) + BEFORE_NS {
            self.waits.push((waited.start_ns, waited.end_ns));
        }
    }

    fn ran(&mut self, now: &Timeline, ran: &Ran) {
        if Turns::is(now, ran.task, "below") {
            self.below.push((ran.cpu, (ran.start_ns, ran.end_ns)));
        }
    }
}

/// Measures the waits of tasks that sleep and run in turn (nappers) beside endless loops.
fn turns(topology: Topology, scheduler: Option<Program>) -> Turns {
    let mut job = Job {
        topology,
        record: Some(Record { groups: vec!["resched".to_owned()] }),
        setup: Setup { program: scheduler, ..Setup::default() },
        ..script("exec /spry/naps 3 12 3")
    };
    job.files.insert("/spry/naps".to_owned(), FileSource::File(example("naps")));
    let outcome = run(&machine(&MachineSpec::default()), &job).unwrap_or_else(|error| panic!("{error}"));
    Turns::of(&outcome)
}

/// The share of the waits that were too long while a CPU ran a lower class.
fn long(who: &str, turns: &Turns) -> f64 {
    let mut beside: Vec<u64> = turns.waits.iter().map(|&wait| turns.beside_below(wait)).collect();
    assert!(beside.len() > 100, "{who}: {} waits", beside.len());
    beside.sort_unstable();
    let long = beside.iter().filter(|&&ns| ns > LONG_NS).count();
    let quantile = |percent| beside[beside.len() * percent / 100] / 1000;
    println!(
        "{who}: {} waits, {long} longer than 1 ms beside others; half {}, 99 % {}, longest {} us",
        beside.len(),
        quantile(50),
        quantile(99),
        beside[beside.len() - 1] / 1000
    );
    long as f64 / beside.len() as f64
}

// Without the scheduler's places, tasks do wait. This shows that the test can fail.
#[test]
fn nobody_in_use_waits_a_millisecond_while_others_have_a_cpu() {
    let without = long("2 CPUs, without a place", &turns(Topology::of_cores(2), None));
    assert!(without > 0.2, "{without} of tasks without a place");
    let mut topologies = vec![Topology::of_sockets(2, 2)];
    if is_long() {
        topologies.extend([2, 4].map(Topology::of_cores));
    }
    for topology in topologies {
        let args = vec!["napper=1:20000".to_owned()];
        let stack = Program { file: example("scx_stack"), args, sign: Sign::SchedExt };
        let who = format!("{} CPUs, {} sockets, in use", topology.cpus(), topology.sockets);
        assert_eq!(long(&who, &turns(topology, Some(stack))), 0.0, "{who}");
    }
}
