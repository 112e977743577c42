//! The command line of making the papers' figures again.

use std::path::PathBuf;

use clap::Subcommand;
use spry_lab::scheduler::SchedulerSpec;
use spry_reproduce::application::{ALL, Application, OPENOFFICE};
use spry_reproduce::latency::{KERNELS, Kernel, LOADS, Load};

use super::CellArgs;

/// The thesis' loads, and those of a quick look.
pub const STRESSERS: [u32; 6] = [0, 1, 2, 4, 6, 8];
pub const STRESSERS_QUICK: [u32; 3] = [0, 1, 8];
/// More loops than this make a cell that takes for ever.
const STRESSERS_MAX: i64 = 1000;

const EXAMPLES: &str = "\
Examples:
  spry reproduce list
  spry reproduce interactive --quick             a look at every figure, some minutes
  spry reproduce interactive                     the thesis' loads; the stock scheduler beside Spry
  spry reproduce interactive --scheduler eevdf --scheduler scx_bpfland --seeds 3 -o figures
  spry reproduce scheduler-latency --quick       six kernels beside two loads: which wakes a thread late, and why";

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
    /// Williams' article on scheduler latency: four ways to preempt a kernel, and those of today, beside its loads.
    SchedulerLatency(SchedulerLatencyArgs),
}

const INTERACTIVE_HELP: &str = "\
Examples:
  spry reproduce interactive --quick
  spry reproduce interactive --scheduler eevdf --scheduler scx_bpfland --stressers 0,2,8 -o figures
  spry reproduce interactive --only xine --seeds 3 --keep-traces
  spry reproduce interactive --json | jq '.verdicts[] | select(.outcome != \"reproduced\")'

Runs the applications in the lab, recorded, takes the figures from the traces by the analyses of `spry report`, and writes
index.html (all figures, with what the thesis found and whether it was found again), figure-6.1.svg and so on, and results.json.
The first scheduler stands for the thesis' original one (chapter 6), the others for the new one (chapter 9).
Ctrl-C keeps the cells that are done; the same command goes on with the others. A cell takes 20 s and more of one CPU:
--quick is 32 cells, otherwise 66 for each seed.
Exit codes: 0 done, 1 a cell came to nothing, 2 a mistake in the command line, 130 interrupted.";

/// Arguments of `reproduce interactive`.
#[derive(clap::Args)]
#[command(after_help = INTERACTIVE_HELP)]
pub struct InteractiveArgs {
    /// A scheduler, as `spry run` names them; the first stands for the original one. Can be given several times.
    #[arg(long, value_name = "NAME", default_values = ["eevdf", "spry"])]
    pub scheduler: Vec<SchedulerSpec>,
    /// Run everything with this many seeds, 1 to N, and show the spread.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: u64,
    /// Beside fewer loads: 0, 1 and 8 stressers, and the slowest application alone.
    #[arg(long, conflicts_with = "stressers")]
    pub quick: bool,
    /// Only this application (`spry reproduce list` names them); can be given several times.
    #[arg(long, value_name = "APPLICATION", value_parser = application)]
    pub only: Vec<&'static Application>,
    /// How many endless loops run beside the applications; alone they are always measured.
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(0..=STRESSERS_MAX))]
    pub stressers: Vec<u32>,
    /// On a machine of so many CPUs; the thesis' had one.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(spry_lab::CPUS_MAX)))]
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
    /// The applications, in the order in which they are measured.
    pub fn applications(&self) -> Vec<&'static Application> {
        let is_wanted = |application: &&Application| {
            self.only.is_empty() || self.only.iter().any(|only| only.key == application.key)
        };
        ALL.into_iter().filter(is_wanted).collect()
    }

    /// The numbers of stressers to measure an application with.
    pub fn stressers_of(&self, application: &Application) -> Vec<u32> {
        let is_slow = application.key == OPENOFFICE.key;
        application.beside.stressers(&if self.quick && is_slow { Vec::new() } else { self.loads() })
    }

    /// The loads, least first.
    pub fn loads(&self) -> Vec<u32> {
        let mut loads = match self.stressers.as_slice() {
            [] if self.quick => STRESSERS_QUICK.to_vec(),
            [] => STRESSERS.to_vec(),
            loads => loads.to_vec(),
        };
        loads.push(0);
        loads.sort_unstable();
        loads.dedup();
        loads
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

Boots each kernel beside each load in the lab, samples there with `spry latency` as the article did (2048 times a second, one
CPU, SCHED_FIFO), pools the seeds and ranks the kernels at 99 %. Then it splits half as many samples in the same boot, which costs each a
microsecond, and says of each kernel what was in the way of those later than 50 us.
Kernels: stable-none, stable-voluntary, stable-full (the release's kernel, preempt=none, voluntary and full), newest-lazy,
newest-full, newest-rt. Loads: nfs-compile, ttcp, fifos-mmap, p3-fpu, fs, crashme, kernel-cpu (see spry load list).
DIR holds index.html (the kernels over each other, and the article's four beside), summary.txt, results.json, and cells/, what each
cell measured: `spry compare` reads the files in DIR/latency. Ctrl-C keeps the cells that are done; the same command goes on with the others.
Exit codes: 0 done, 1 a cell came to nothing, 2 a mistake in the command line, 130 interrupted.";

/// Arguments of `reproduce scheduler-latency`.
#[derive(clap::Args)]
#[command(after_help = SCHEDULER_LATENCY_HELP)]
pub struct SchedulerLatencyArgs {
    /// Two loads, one seed, fewer samples.
    #[arg(long)]
    pub quick: bool,
    /// Measure everything with this many seeds, 1 to N, and pool them [default: 3, or 1 if it is to be quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,
    /// Samples of a cell, without those that are split, half as many [default: 20480, or 10240 if it is to be quick].
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
    /// How many virtual machines run side by side; otherwise one for each CPU. Figures do not depend on it.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Print results.json.
    #[arg(long)]
    pub json: bool,
    /// No progress.
    #[arg(short, long)]
    pub quiet: bool,
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
    /// How many seeds.
    pub fn seeds(&self) -> u64 {
        self.seeds.unwrap_or(if self.quick { 1 } else { SEEDS })
    }

    /// How many samples a cell takes.
    pub fn samples(&self) -> u64 {
        self.samples.unwrap_or(if self.quick { SAMPLES_QUICK } else { SAMPLES })
    }

    /// The kernels.
    pub fn kernels(&self) -> Vec<&'static Kernel> {
        KERNELS.iter().filter(|&kernel| self.kernel.is_empty() || self.kernel.contains(&kernel)).collect()
    }

    /// The loads.
    pub fn loads(&self) -> Vec<&'static Load> {
        let is_wanted = |load: &&Load| match self.load.as_slice() {
            [] => load.quick || !self.quick,
            loads => loads.contains(load),
        };
        LOADS.iter().filter(is_wanted).collect()
    }
}
