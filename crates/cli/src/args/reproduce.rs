//! The command line of making the papers' figures again.

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use spry_experiment::scheduler::SchedulerSpec;
use spry_reproduce::application::{ALL, Application};
use spry_reproduce::clock_resolution;
use spry_reproduce::firm;
use spry_reproduce::latency::{self, KERNELS, Kernel, LOADS, Load};
use spry_reproduce::plan::{Loads, Request, Traces};
use spry_reproduce::time_sensitive::{self, SYSTEMS, System};

use super::CellArgs;

/// More loops than this make a cell that takes for ever.
const STRESSERS_MAX: i64 = 1000;

const EXAMPLES: &str = "\
Examples:
  spry reproduce list
  spry reproduce interactive --quick             a look at every figure, some minutes
  spry reproduce interactive                     the thesis' loads; the stock scheduler beside Spry
  spry reproduce interactive --scheduler eevdf --scheduler scx_bpfland --seeds 3 -o figures
  spry reproduce scheduler-latency --quick       six kernels beside two loads: which wakes a thread late
  spry reproduce time-sensitive                  budgets in periods, a film's sound and picture
  spry reproduce clock-resolution --quick        alarm signals at 100 and at 20,000 Hz";

/// Arguments of `reproduce`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReproduceArgs {
    #[command(subcommand)]
    pub command: ReproduceCommand,
}

/// What can be made again.
#[derive(Subcommand)]
pub enum ReproduceCommand {
    /// List what can be made again, figure by figure.
    List,
    /// Etsion's thesis on scheduling of interactive processes: figures 6.1 to 6.8 and 9.1 to 9.5.
    Interactive(InteractiveArgs),
    /// Williams' article on scheduler latency: four ways to preempt a kernel, and those of today,
    /// beside its loads.
    SchedulerLatency(SchedulerLatencyArgs),
    /// Time-Sensitive Linux: table 1, how exactly budgets in periods are kept, and figures 2 to 5, how far a
    /// film's picture is from its sound beside three loads. With --firm figures 6 to 8: what timers cost.
    TimeSensitive(TimeSensitiveArgs),
    /// Effects of clock resolution: table 6 and figure 7, how late alarm signals are at 100 and at 20,000 Hz;
    /// and figure 8, how much is sorted.
    ClockResolution(ClockResolutionArgs),
}

const INTERACTIVE_HELP: &str = "\
Examples:
  spry reproduce interactive --quick
  spry reproduce interactive --scheduler eevdf --scheduler scx_bpfland --stressers 0,2,8 -o figures
  spry reproduce interactive --scheduler eevdf --scheduler spry --scheduler 'spry:--policy thesis'
  spry reproduce interactive --only xine --seeds 3 --keep-traces
  spry reproduce interactive --json | jq '.verdicts[] | select(.outcome != \"reproduced\")'

Runs the applications in the lab, recorded, takes the figures from the traces by the analyses of `spry
report`, and writes index.html (all figures, with what the thesis found and whether it was found again),
figure-6.1.svg and so on, and results.json.
The first scheduler stands for the thesis' original one (chapter 6), the others for the new one (chapter 9).
Ctrl-C keeps the cells that are done; the same command goes on with the others. A cell takes 20 s and more of
one CPU: --quick is 38 cells, otherwise 66 for each seed.
Exit codes: 0 done, 1 a cell came to nothing, 2 a mistake in the command line, 130 interrupted.";

/// Arguments of `reproduce interactive`.
#[derive(clap::Args)]
#[command(after_help = INTERACTIVE_HELP)]
pub struct InteractiveArgs {
    /// A scheduler, as `spry run` names them; the first stands for the original one. Can be
    /// given several times.
    #[arg(long, value_name = "NAME", default_values = ["eevdf", "spry"])]
    pub scheduler: Vec<SchedulerSpec>,
    /// Run everything with this many seeds, 1 to N, and show the spread.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Beside fewer loads: 0, 1 and 8 stressers and those that the thesis names for an application, and the
    /// slowest application alone.
    #[arg(long, conflicts_with = "stressers")]
    pub quick: bool,
    /// Only this application (`spry reproduce list` names them); can be given several times.
    #[arg(long, value_name = "APPLICATION", value_parser = application)]
    pub only: Vec<&'static Application>,
    /// How many endless loops run beside the applications; alone they are always measured.
    #[arg(
        long, value_name = "N,N,..", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(0..=STRESSERS_MAX)
    )]
    pub stressers: Vec<u32>,
    /// On a machine of so many CPUs; the thesis' had one.
    #[arg(
        long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(spry_lab::CPUS_MAX))
    )]
    pub cpus: u32,
    /// The directory for figures and results; what it holds of the same inputs is not run again.
    #[arg(short, long, value_name = "DIR", default_value = "results/interactive")]
    pub output: PathBuf,
    /// Print results.json.
    #[arg(long)]
    pub json: bool,
    /// Keep each cell's trace in DIR/traces, for `spry report`.
    #[arg(long)]
    pub keep_traces: bool,
    #[command(flatten)]
    pub playing: CellArgs,
}

fn application(key: &str) -> Result<&'static Application, String> {
    let names = || ALL.map(|application| application.key).join(", ");
    Application::find(key).ok_or_else(|| format!("applications are {}", names()))
}

impl InteractiveArgs {
    /// What is measured.
    pub fn request(&self) -> Request {
        let is_wanted = |application: &&Application| {
            self.only.is_empty() || self.only.iter().any(|only| only.key == application.key)
        };
        Request {
            schedulers: self.scheduler.clone(),
            seeds: self.seeds,
            applications: ALL.into_iter().filter(is_wanted).collect(),
            loads: match self.stressers.as_slice() {
                [] if self.quick => Loads::Quick,
                [] => Loads::Thesis,
                loads => Loads::These(loads.to_vec()),
            },
            cpus: self.cpus,
            traces: if self.keep_traces { Traces::Kept } else { Traces::Removed },
            jobs: self.playing.jobs.map(usize::from),
        }
    }
}

/// Samples of a cell: ten seconds at the article's rate, and those of a quick look.
const SAMPLES: u64 = 20_480;
const SAMPLES_QUICK: u64 = 10_240;
/// Seeds unless it is to be quick.
const SEEDS: u64 = 3;

const SCHEDULER_LATENCY_HELP: &str = "\
Examples:
  spry reproduce scheduler-latency --quick               12 cells
  spry reproduce scheduler-latency                       126 cells: seven loads, three seeds
  spry reproduce scheduler-latency --load fs,kernel-cpu --samples 1000000 -o long
  spry reproduce scheduler-latency --kernel stable-none,stable-full --quick --json | jq '.loads[].ranking'

Boots each kernel beside each load in the lab, samples there with `spry latency` as the article did (2048
times a second, one CPU, SCHED_FIFO), pools the seeds and ranks the kernels at 99 %. Then it splits half as
many samples in the same boot, which costs each a microsecond, and says of each kernel what was in the way of
those later than 50 us.
Kernels: stable-none, stable-voluntary, stable-full (the release's kernel, preempt=none, voluntary and full),
newest-lazy, newest-full, newest-rt. Loads: nfs-compile, ttcp, fifos-mmap, p3-fpu, fs, crashme, kernel-cpu
(see spry load list).
DIR holds index.html (the kernels over each other, and the article's four beside), summary.txt, results.json,
and cells/, what each cell measured: `spry compare` reads the files in DIR/latency. Ctrl-C keeps the cells
that are done; the same command goes on with the others.
Exit codes: 0 done, 1 a cell came to nothing, 2 a mistake in the command line, 130 interrupted.";

/// How a study that is made of boots of the lab is run and shown.
#[derive(clap::Args)]
pub struct BootsArgs {
    /// How many virtual machines run side by side; otherwise one for each CPU. Figures do not depend on it.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Print results.json.
    #[arg(long)]
    pub json: bool,
    /// Show no progress.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Arguments of `reproduce scheduler-latency`.
#[derive(clap::Args)]
#[command(after_help = SCHEDULER_LATENCY_HELP)]
pub struct SchedulerLatencyArgs {
    /// Two loads, one seed, fewer samples.
    #[arg(long)]
    pub quick: bool,
    /// Measure everything with this many seeds, 1 to N, and pool them [default: 3, or 1 if it
    /// is to be quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Samples of a cell, without those that are split, half as many [default: 20480, or 10240 if it
    /// is to be quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    samples: Option<u64>,
    /// Only these kernels, separated by commas.
    #[arg(long, value_name = "KERNELS", value_delimiter = ',', value_parser = kernel)]
    kernel: Vec<&'static Kernel>,
    /// Only these loads, separated by commas.
    #[arg(long, value_name = "LOADS", value_delimiter = ',', value_parser = load)]
    load: Vec<&'static Load>,
    /// The directory for page and results; what it holds of the same inputs is not run again.
    #[arg(short, long, value_name = "DIR", default_value = "results/scheduler-latency")]
    pub output: PathBuf,
    /// How the cells are run and shown.
    #[command(flatten)]
    pub how: BootsArgs,
}

fn kernel(key: &str) -> Result<&'static Kernel, String> {
    let names = || KERNELS.each_ref().map(|kernel| kernel.key).join(", ");
    KERNELS.iter().find(|kernel| kernel.key == key).ok_or_else(|| format!("kernels are {}", names()))
}

fn load(key: &str) -> Result<&'static Load, String> {
    let names = || LOADS.each_ref().map(|load| load.key).join(", ");
    LOADS.iter().find(|load| load.key == key).ok_or_else(|| format!("loads are {}", names()))
}

impl SchedulerLatencyArgs {
    /// What is measured.
    pub fn request(&self) -> latency::Request {
        let is_wanted = |load: &&Load| match self.load.as_slice() {
            [] => load.quick || !self.quick,
            loads => loads.contains(load),
        };
        let is_named = |kernel: &&Kernel| self.kernel.is_empty() || self.kernel.contains(kernel);
        latency::Request {
            kernels: KERNELS.iter().filter(is_named).collect(),
            loads: LOADS.iter().filter(is_wanted).collect(),
            seeds: self.seeds.unwrap_or(if self.quick { 1 } else { SEEDS }),
            samples: self.samples.unwrap_or(if self.quick { SAMPLES_QUICK } else { SAMPLES }),
            jobs: self.how.jobs.map(usize::from),
        }
    }
}

/// How long budgets are watched, and how long a film, seconds; the same for a quick look.
const WATCHED_S: [u32; 2] = [3, 20];
const WATCHED_QUICK_S: [u32; 2] = [1, 5];

const TIME_SENSITIVE_HELP: &str = "\
Examples:
  spry reproduce time-sensitive --quick                   one seed, fewer loads
  spry reproduce time-sensitive                           three seeds: 27 cells of table 1, 84 of the film
  spry reproduce time-sensitive --only table
  spry reproduce time-sensitive --system spry,fifo-both --load user --film 100 -o long
  spry lab kernel build --hz 100 --firm                   first, once, for figures 6 to 8
  spry reproduce time-sensitive --firm                    21 cells of povray beside timer processes
  spry reproduce time-sensitive --firm --case 20-1ms --system firm-500,soft --seeds 3 -o figure-8
  spry reproduce time-sensitive --json | jq '.rows[] | select(.verdict == \"missed\")'

Boots each system beside each load in the lab, on one CPU. Table 1: two threads that never sleep have 40 % of
every 8192 us and 20 % of every 512 us, and note when they run. Figures 2 to 5: MPlayer plays a film on an X
server; when each frame is drawn is seen from outside, and held against the film's clock.
Systems: deadline, deadline-ticks, reserved (table 1); ordinary, fifo, fifo-both, fifo-above, fifo-none, spry,
spry-ceiling (the film); spry reproduce list says what they are. Loads: none, file-system, hogs (table 1);
none, user, kernel, file-system (the film).
With --firm, povray renders a picture beside 20 or 50 processes that setitimer wakes, and how much longer it
takes says what timers cost. Systems: ticks, hard, firm-0, firm-50, firm-100, firm-500, soft. Cases: 20-10ms,
50-10ms, 20-1ms. Costs of a timer and of a check, and the break-even, are worked out from all cells.
Each row has the paper's value, those of all systems, and what Spry is to reach; the worst seed decides. DIR
holds index.html, figure-2.svg to figure-4.svg, summary.txt, results.json, and cells/. Ctrl-C keeps the cells
that are done; the same command goes on with the others.
Exit codes: 0 done, 1 a cell came to nothing, 2 a mistake in the command line, 130 interrupted.";

/// Arguments of `reproduce time-sensitive`.
#[derive(clap::Args)]
#[command(after_help = TIME_SENSITIVE_HELP)]
pub struct TimeSensitiveArgs {
    /// One seed, shorter times, fewer loads.
    #[arg(long)]
    pub quick: bool,
    /// Measure everything with this many seeds, 1 to N [default: 3; 1 if it is to be quick,
    /// or with --firm].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Measure figures 6 to 8 instead, on a kernel with firm timers.
    #[arg(long)]
    pub firm: bool,
    /// Only these cases of --firm, separated by commas.
    #[arg(long, value_name = "CASES", value_delimiter = ',', requires = "firm", value_parser = firm_case)]
    case: Vec<&'static firm::Case>,
    /// Only this part.
    #[arg(long, value_enum, conflicts_with = "firm")]
    only: Option<PartArg>,
    /// Only these systems, separated by commas.
    #[arg(long, value_name = "SYSTEMS", value_delimiter = ',', value_parser = timed_system)]
    system: Vec<TimedSystem>,
    /// Only these loads, separated by commas.
    #[arg(long, value_name = "LOADS", value_delimiter = ',', conflicts_with = "firm", value_parser = timed_load)]
    load: Vec<String>,
    /// How long the film is watched, seconds; the paper's ran for 100 [default: 20, or 5 if it
    /// is to be quick].
    #[arg(long, value_name = "SECONDS", conflicts_with = "firm", value_parser = clap::value_parser!(u32).range(2..=1000))]
    film: Option<u32>,
    /// The directory for page and results; what it holds of the same inputs is not run again [default:
    /// results/time-sensitive, or results/firm-timers with --firm].
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// How the cells are run and shown.
    #[command(flatten)]
    pub how: BootsArgs,
}

/// A part of the study.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum PartArg {
    /// Table 1 of the paper.
    Table,
    /// Figures 2 to 5.
    Film,
}

impl From<PartArg> for time_sensitive::Part {
    fn from(argument: PartArg) -> time_sensitive::Part {
        match argument {
            PartArg::Table => time_sensitive::Part::Table,
            PartArg::Film => time_sensitive::Part::Skew,
        }
    }
}

/// A system that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
enum TimedSystem {
    /// A system of table 1 or of the film.
    Timed(&'static System),
    /// A system of figures 6 to 8.
    Firm(&'static firm::System),
}

fn timed_system(key: &str) -> Result<TimedSystem, String> {
    let timed = SYSTEMS.iter().find(|system| system.key == key).map(TimedSystem::Timed);
    let firm = || firm::SYSTEMS.iter().find(|system| system.key == key).map(TimedSystem::Firm);
    let names = || {
        let timed = SYSTEMS.each_ref().map(|system| system.key).join(", ");
        let firm = firm::SYSTEMS.each_ref().map(|system| system.key).join(", ");
        format!("systems are {timed}; with --firm {firm}")
    };
    timed.or_else(firm).ok_or_else(names)
}

fn firm_case(key: &str) -> Result<&'static firm::Case, String> {
    let cases = || firm::CASES.iter().filter(|case| case.figure.is_some());
    let names = || cases().map(|case| case.key).collect::<Vec<_>>().join(", ");
    cases().find(|case| case.key == key).ok_or_else(|| format!("cases are {}", names()))
}

fn timed_load(key: &str) -> Result<String, String> {
    let known = time_sensitive::LOADS.iter().any(|load| load.key == key);
    let names = "loads are none, file-system, hogs, user, kernel";
    known.then(|| key.to_owned()).ok_or_else(|| names.to_owned())
}

impl TimeSensitiveArgs {
    /// The directory for page and results.
    pub fn output(&self) -> PathBuf {
        let study = if self.firm { "results/firm-timers" } else { "results/time-sensitive" };
        self.output.clone().unwrap_or_else(|| study.into())
    }

    /// The first system that the study does not have: with `--firm` those of table 1 and of the film, without
    /// it those of figures 6 to 8.
    pub fn foreign_system(&self) -> Option<&'static str> {
        self.system.iter().find_map(|system| match system {
            TimedSystem::Timed(system) => self.firm.then_some(system.key),
            TimedSystem::Firm(system) => (!self.firm).then_some(system.key),
        })
    }

    /// What is measured with `--firm`.
    pub fn firm_request(&self) -> firm::Request {
        let (systems, cases) = if self.quick {
            firm::Request::quick()
        } else {
            (firm::SYSTEMS.iter().collect(), firm::CASES.iter().collect())
        };
        let is_chosen = |system: &&'static firm::System| self.system.contains(&TimedSystem::Firm(system));
        firm::Request {
            systems: match self.system.as_slice() {
                [] => systems,
                _ => firm::SYSTEMS.iter().filter(is_chosen).collect(),
            },
            cases: if self.case.is_empty() { cases } else { self.case.clone() },
            // A cell repeats to the digit, and a difference of a tenth of a percent is seen with one seed.
            seeds: self.seeds.unwrap_or(1),
            picture: if self.quick { firm::Picture::Quick } else { firm::Picture::Whole },
            jobs: self.how.jobs.map(usize::from),
        }
    }

    /// What is measured without `--firm`.
    pub fn request(&self) -> time_sensitive::Request {
        let only = self.only.map(time_sensitive::Part::from);
        let is_part = |part| only.is_none_or(|only| only == part);
        let is_wanted = |load: &&time_sensitive::Load| match self.load.as_slice() {
            [] => load.quick || !self.quick,
            loads => loads.iter().any(|key| key == load.key),
        };
        let is_named = |system: &&'static System| {
            self.system.is_empty() || self.system.contains(&TimedSystem::Timed(system))
        };
        let [budgets, film] = if self.quick { WATCHED_QUICK_S } else { WATCHED_S };
        time_sensitive::Request {
            systems: SYSTEMS.iter().filter(|system| is_part(system.part)).filter(is_named).collect(),
            loads: time_sensitive::LOADS.iter().filter(|load| is_part(load.part)).filter(is_wanted).collect(),
            seeds: self.seeds.unwrap_or(if self.quick { 1 } else { SEEDS }),
            seconds: [budgets, self.film.unwrap_or(film)],
            jobs: self.how.jobs.map(usize::from),
        }
    }
}

/// How many alarms each process sets, and for a quick look.
const ALARMS: u32 = 500;
const ALARMS_QUICK: u32 = 80;
/// How long sorted numbers are counted, seconds, and for a quick look.
const SORT_S: u32 = 5;
const SORT_QUICK_S: u32 = 2;

const CLOCK_RESOLUTION_HELP: &str = "\
Examples:
  spry lab kernel build --hz 100 --periodic && spry lab kernel build --hz 20000 --periodic    first, once
  spry reproduce clock-resolution --quick                 24 cells of 40 s, 4 of sorting
  spry reproduce clock-resolution                         24 cells of 250 s, as in the paper
  spry reproduce clock-resolution --system fast --case cont-8,blk-8 --seeds 3 -o fast
  spry reproduce clock-resolution --case sort-8           figure 8 alone
  spry reproduce clock-resolution --json | jq '.table6[] | select(.verdict != \"as_then\")'

Processes of the round-robin class set alarms after 1 to 1000 ms by chance, and block (blk), compute for a
share of the time (2, 4, 8 %) or always (cont). How late each signal is makes table 6 and figure 7. What 8
processes sort on a processor, and on one of half the speed, makes figure 8 (sort-8).
Systems: base (100 Hz, quanta of 60 ms), fast (20,000 Hz, 100 us). Cases: spry reproduce list names them.
A row is as then if its 90 and 95 % are within a tick or 5 % of the paper's. DIR holds index.html,
figure-7-left.svg, figure-7-right.svg, figure-8.svg, summary.txt, results.json, and cells/. Ctrl-C keeps the
cells that are done; the same command goes on with the others.
Exit codes: 0 done, 1 a kernel is not built or a cell came to nothing, 2 a mistake in the command line,
  130 interrupted.";

/// Arguments of `reproduce clock-resolution`.
#[derive(clap::Args)]
#[command(after_help = CLOCK_RESOLUTION_HELP)]
pub struct ClockResolutionArgs {
    /// Measure fewer alarms.
    #[arg(long)]
    pub quick: bool,
    /// Measure everything with this many seeds, 1 to N.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// How many alarms each process sets; it takes half a second for each [default: 500, or 80 if it
    /// is to be quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=500))]
    alarms: Option<u32>,
    /// Only these systems, separated by commas.
    #[arg(long, value_name = "SYSTEMS", value_delimiter = ',', value_parser = clock_system)]
    system: Vec<&'static clock_resolution::System>,
    /// Only these cases, separated by commas.
    #[arg(long, value_name = "CASES", value_delimiter = ',', value_parser = clock_case)]
    case: Vec<ClockCase>,
    /// The directory for page and results; what it holds of the same inputs is not run again.
    #[arg(short, long, value_name = "DIR", default_value = "results/clock-resolution")]
    pub output: PathBuf,
    /// How the cells are run and shown.
    #[command(flatten)]
    pub how: BootsArgs,
}

fn clock_system(key: &str) -> Result<&'static clock_resolution::System, String> {
    let known = clock_resolution::SYSTEMS.iter().find(|system| system.key == key);
    known.ok_or_else(|| "systems are base, fast".to_owned())
}

/// A case that can be chosen.
#[derive(Clone, Debug, PartialEq)]
enum ClockCase {
    /// One with alarms.
    Alarms(&'static clock_resolution::Case),
    /// That of figure 8, with all its processors.
    Sorts,
}

fn clock_case(key: &str) -> Result<ClockCase, String> {
    if key == clock_resolution::SORTS {
        return Ok(ClockCase::Sorts);
    }
    let names = || clock_resolution::CASES.each_ref().map(|case| case.key()).join(", ");
    let known = clock_resolution::CASES.iter().find(|case| case.key() == key);
    known.map(ClockCase::Alarms).ok_or_else(|| format!("cases are {}, {}", names(), clock_resolution::SORTS))
}

impl ClockResolutionArgs {
    /// What is measured.
    pub fn request(&self) -> clock_resolution::Request {
        let is_system = |system: &&clock_resolution::System| {
            self.system.is_empty() || self.system.iter().any(|wanted| wanted == system)
        };
        let wants = |case: &ClockCase| self.case.is_empty() || self.case.contains(case);
        let generations = if wants(&ClockCase::Sorts) { &clock_resolution::GENERATIONS[..] } else { &[] };
        clock_resolution::Request {
            systems: clock_resolution::SYSTEMS.iter().filter(is_system).collect(),
            cases: clock_resolution::CASES.iter().filter(|case| wants(&ClockCase::Alarms(case))).collect(),
            generations: generations.iter().collect(),
            seeds: self.seeds,
            alarms: self.alarms.unwrap_or(if self.quick { ALARMS_QUICK } else { ALARMS }),
            sort_s: if self.quick { SORT_QUICK_S } else { SORT_S },
            jobs: self.how.jobs.map(usize::from),
        }
    }
}
