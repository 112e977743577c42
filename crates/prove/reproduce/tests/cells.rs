//! Tests how a study runs its cells, with a machine that plays no scenario and leaves a small trace.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Map, Value, json};
use spry_experiment::scheduler::{SchedulerError, SchedulerSpec};
use spry_experiment::{Cell, CellError, CellOutput, Experiment, Machine, Source, Stop};
use spry_reproduce::application::{LOOP, QUAKE_DEMO};
use spry_reproduce::cells::{ApplicationProgress, Ground, measure};
use spry_reproduce::directory::Directory;
use spry_reproduce::plan::{Loads, Request, Traces};
use spry_reproduce::{Error, write};
use spry_trace::event::{Comm, Event, PrevState, Switch, TaskInfo};
use spry_trace::{Group, Groups, Header, Options, Stamped, Tgid, Tid, Writer};

const START_NS: u64 = 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const GAME: Tid = Tid(10);

/// How many cells were played on all machines of a test.
static PLAYED: AtomicUsize = AtomicUsize::new(0);

/// A machine on which a game has the CPU half of a second. Cells under `fifo` fail.
struct Toy;

impl Machine for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }
    fn kernel(&self) -> String {
        "1.0".to_owned()
    }
    fn inputs(&self) -> BTreeMap<String, Value> {
        BTreeMap::new()
    }
    fn scheduler(&self, scheduler: &SchedulerSpec) -> Result<String, SchedulerError> {
        Ok(scheduler.to_string())
    }
    fn cell_time(&self) -> Duration {
        Duration::ZERO
    }
    fn side_by_side(&self) -> usize {
        2
    }
    fn run(&self, cell: &Cell, trace: Option<&Path>, _: &Stop) -> Result<CellOutput, CellError> {
        PLAYED.fetch_add(1, Ordering::Relaxed);
        if cell.label == "fifo" {
            return Err(CellError::Failed("it broke".to_owned()));
        }
        leave_trace(trace.expect("cells of a study are recorded"));
        let report = json!({
            "measured": { "from_ns": START_NS, "to_ns": START_NS + SECOND_NS },
            "metrics": {},
        });
        Ok(CellOutput { metrics: Map::new(), report })
    }
}

fn leave_trace(path: &Path) {
    let groups = Groups::NONE.with(Group::Sched);
    let header = Header { cpus: 1, start_ns: START_NS, groups, ..Header::default() };
    let file = File::create(path).unwrap();
    let mut writer = Writer::new(file, &header, Options::default()).unwrap();
    let game = TaskInfo::new(GAME, Tgid(GAME.0), Comm::new(b"game"));
    let switch = |prev, next, prev_state| {
        Event::Switch(Switch { prev, next, prev_state, prev_prio: 120, next_prio: 120, stolen_ns: 0 })
    };
    let events = [
        (0, Event::Task(game)),
        (1, switch(Tid(0), GAME, PrevState::Runnable)),
        (SECOND_NS / 2, switch(GAME, Tid(0), PrevState::Sleeping)),
    ];
    for (ns, event) in events {
        writer.event(&Stamped { time_ns: START_NS + ns, cpu: 0, event }).unwrap();
    }
    writer.finish(START_NS + 2 * SECOND_NS).unwrap();
}

/// The shipped scenarios, on toys; the machine of the endless loop cannot be prepared.
struct Toys;

impl Ground for Toys {
    fn source(&self, scenario: &str) -> Result<Source, String> {
        let name = format!("{scenario}.toml");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios").join(&name);
        Ok(Source { name, text: fs::read_to_string(path).map_err(|error| error.to_string())? })
    }

    fn machine(&self, experiment: &Experiment) -> Result<Box<dyn Machine>, String> {
        assert!(experiment.is_recorded());
        let is_loop = experiment.source().name.starts_with(LOOP.scenario);
        if is_loop { Err("no such machine".to_owned()) } else { Ok(Box::new(Toy)) }
    }
}

#[test]
fn cells_are_measured_once_and_a_failure_stops_no_other_cell() {
    let home = tempfile::tempdir().unwrap();
    let directory = Directory::open(home.path(), "interactive").unwrap();
    let request = Request {
        schedulers: ["eevdf", "fifo"].map(|name| name.parse().unwrap()).into(),
        seeds: 2,
        applications: vec![&QUAKE_DEMO, &LOOP],
        loads: Loads::Quick,
        cpus: 1,
        traces: Traces::Removed,
        jobs: None,
    };
    let begun = RefCell::new(Vec::new());
    let run = || {
        measure(&request, &Toys, &directory, &Stop::new(), &mut |told| {
            if let ApplicationProgress::Begins { cells, kept, .. } = told {
                begun.borrow_mut().push((cells, kept));
            }
        })
        .unwrap()
    };
    let tally = run();
    assert_eq!((tally.planned, tally.study.cells.len(), tally.machine), (8, 2, "toy"));
    assert!(tally.study.cells.iter().all(|cell| cell.scheduler == "eevdf" && cell.stressers == 0));
    let cpu_percent = tally.study.cells[0].measurement.application.cpu_percent;
    assert!((cpu_percent - 50.0).abs() < 0.1, "{cpu_percent}");
    let failures: Vec<&str> = tally.failures.iter().map(|(_, error)| error.as_str()).collect();
    assert_eq!(failures, [["it broke"; 2].as_slice(), &["no such machine"; 4]].concat());
    assert!(tally.failures[0].0.starts_with("Quake (demo), fifo, played=0, stressers=0, seed 1"));
    assert!(!home.path().join("traces").exists());
    assert_eq!(PLAYED.load(Ordering::Relaxed), 4);
    assert_eq!(run().study.cells, tally.study.cells);
    assert_eq!(PLAYED.load(Ordering::Relaxed), 6, "only the cells that failed are run again");
    assert_eq!(begun.into_inner(), [(4, 0), (2, 2)]);
    let written = write(&directory, &request, &tally, vec!["spry".to_owned()]).unwrap();
    let results: Value = serde_json::from_str(&written.results).unwrap();
    assert_eq!((&results["machine"], &results["missing"]), (&json!("toy"), &json!(0)));
    for file in ["index.html", "summary.txt", "results.json", "figure-6.1.svg"] {
        assert!(home.path().join(file).is_file(), "{file}");
    }
    assert!(matches!(Directory::open(home.path(), "scheduler-latency"), Err(Error::Taken { .. })));
}
