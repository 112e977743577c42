//! From a trace of several CPUs: nobody in use waits while a CPU that it may use runs what is not.

use spry_lab::scheduler::{Program, Setup, Sign};
use spry_lab::{FileSource, Job, MachineSpec, Record, TRACE};
use spry_lab_tests::{example, machine, run, script};
use spry_timeline::{Observer, Ran, Timeline, Waited, Window};
use spry_trace::Reader;
use spry_trace::event::Comm;

/// Longer than this nobody in use may wait beside a lower class, ns.
const LONG_NS: u64 = 1_000_000;

/// What the trace tells of those in use, and when the others ran.
#[derive(Default)]
struct Turns {
    waits: Vec<(u64, u64)>,
    below: Vec<(u64, u64)>,
}

impl Turns {
    fn is(now: &Timeline, task: spry_timeline::TaskIndex, comm: &str) -> bool {
        now.task(task).comm() == Comm::new(comm.as_bytes())
    }

    /// How long a wait was during which one and the same CPU ran what is below, ns.
    fn beside_below(&self, wait: (u64, u64)) -> u64 {
        let overlap = |ran: &(u64, u64)| ran.1.min(wait.1).saturating_sub(ran.0.max(wait.0));
        self.below.iter().map(overlap).max().unwrap_or(0)
    }
}

impl Observer for Turns {
    fn waited(&mut self, now: &Timeline, waited: &Waited) {
        if Turns::is(now, waited.task, "napper") {
            self.waits.push((waited.start_ns, waited.end_ns));
        }
    }

    fn ran(&mut self, now: &Timeline, ran: &Ran) {
        if Turns::is(now, ran.task, "crowd") {
            self.below.push((ran.start_ns, ran.end_ns));
        }
    }
}

/// The waits of nappers, real-time ones if they have a priority, beside loops on a machine of so many CPUs.
fn turns(cpus: u32, scheduler: Option<Program>, priority: u32) -> Turns {
    let mut job = Job {
        cpus,
        record: Some(Record::default()),
        setup: Setup { program: scheduler, ..Setup::default() },
        ..script(&format!("/spry/crowd 12 4 & sleep 1; exec /spry/naps 3 2 {priority}"))
    };
    for name in ["crowd", "naps"] {
        job.files.insert(format!("/spry/{name}"), FileSource::File(example("spry-scheduler", name)));
    }
    let outcome = run(&machine(&MachineSpec::default()), &job).unwrap_or_else(|error| panic!("{error}"));
    let mut reader = Reader::new(&outcome.files[TRACE][..]).expect("a trace");
    let window = Window { from_ns: 0, to_ns: u64::MAX };
    let (mut timeline, mut turns) = (Timeline::new(reader.header(), window), Turns::default());
    while let Some(event) = reader.next_event().expect("a whole trace") {
        timeline.push(event, &mut turns);
    }
    turns
}

/// Which part of the waits was long beside what is below.
fn long_share(who: &str, turns: &Turns) -> f64 {
    let mut beside: Vec<u64> = turns.waits.iter().map(|&wait| turns.beside_below(wait)).collect();
    assert!(beside.len() > 100, "{who}: {} waits", beside.len());
    beside.sort_unstable();
    let long = beside.iter().filter(|&&ns| ns > LONG_NS).count();
    let quantile = |percent| beside[beside.len() * percent / 100] / 1000;
    println!(
        "{who}: {} waits, {long} longer than 1 ms beside others; half {}, 99 % {} us",
        beside.len(),
        quantile(50),
        quantile(99)
    );
    long as f64 / beside.len() as f64
}

// Several virtual CPUs run in the time of this machine, which makes them stand still now and then. How often is told by
// real-time tasks beside the same loops, before which the stock scheduler puts nobody; it differs from run to run, and
// where those in use had to wait for a slice's end nearly all would wait long.
#[test]
fn nobody_in_use_waits_a_millisecond_while_others_have_a_cpu() {
    for cpus in [2, 4] {
        let stack = || {
            let args = vec!["napper=1:20000".to_owned()];
            Program { file: example("spry-scheduler", "scx_stack"), args, sign: Sign::SchedExt }
        };
        let real_time = turns(cpus, None, 50);
        let floor = long_share(&format!("{cpus} CPUs, real-time"), &real_time);
        let in_use = long_share(&format!("{cpus} CPUs, in use"), &turns(cpus, Some(stack()), 0));
        assert!(in_use <= 2.0 * floor + 0.2, "{cpus} CPUs: {in_use} in use, {floor} real-time");
    }
}
