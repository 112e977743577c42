//! The scheduler in the kernel: loads it, writes verdicts for it, and observes it.

mod beat;
mod call;
mod ensure;
mod machine;
mod reserved;
mod skel;
mod stats;

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, OpenObject, PrintLevel};
use scx_utils::{scx_ops_load, scx_ops_open, uei_exited, uei_read};
use spry_control::{Knobs, QuantumUs, Tuning};
use spry_policy::{Tgid, WakeRule};
use spry_reservations::Enforcer;

use crate::actuator::{Actuator, Class, Health, TickCount, Verdict};
use crate::collect::Collector;
use crate::nodes::{NodeRef, Nodes};
use crate::verdict_word::VerdictWord;
use beat::Beats;
use ensure::Ensurer;
use skel::{OpenSchedSkel, SchedSkel, SchedSkelBuilder, types};

pub use stats::{ClassStats, Stats};

/// The name of this actuator and its enforcer, as shown to users.
pub const NAME: &str = "scx";

/// Settings of the scheduler that are fixed when it is loaded.
#[derive(Clone, PartialEq, Debug)]
pub struct ScxOptions {
    /// The part of any second that classes below INTERACTIVE have in turns, percent; 1 to 50.
    pub background_share: u32,
    /// The rule by which a woken interactive task preempts another interactive task.
    pub wake: WakeRule,
    /// The class of the loading process.
    pub own_class: OwnClass,
    /// The loader's output to standard error.
    pub log: Log,
}

/// The class of the process that loads the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnClass {
    /// The process is in DAEMON.
    Daemon,
    /// The process has the class of any other process.
    Other,
}

/// The output of the loader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Log {
    /// Only the warnings of libbpf.
    Warnings,
    /// All messages of libbpf, with the verifier's statistics for each program.
    Verifier,
}

impl Default for ScxOptions {
    fn default() -> ScxOptions {
        ScxOptions {
            background_share: 5,
            wake: WakeRule::LowerLevel,
            own_class: OwnClass::Daemon,
            log: Log::Warnings,
        }
    }
}

/// The loaded scheduler. It schedules all tasks until this is dropped.
pub struct Scx {
    /// Threads that end turns on kernels without timers. They read the scheduler's memory, so they are
    /// dropped before the scheduler.
    _beats: Option<Beats>,
    link: Option<Link>,
    /// Keeps the program attached that reports to the scheduler the work that processes in use queue.
    _sees_work: Link,
    /// Keeps the program attached that sees for each task whether it leaves its CPU inside the kernel, while
    /// cgroups have limits; or why it could not be attached.
    sees_switches: Option<Result<Link, String>>,
    skel: SchedSkel<'static>,
    nodes: Nodes,
    ensurer: Ensurer,
    has_timers: bool,
    known: HashMap<Tgid, NodeRef>,
    /// Processes with a verdict in their nodes. The next round removes the verdict if it has none
    /// on the process.
    judged: Vec<Tgid>,
    by_hand: HashMap<Tgid, Class>,
    /// The number of processes that have come into use since BPF programs last had to search their queues.
    came_into_use: u32,
    warnings: Vec<String>,
    knobs: Knobs,
    /// The number of possible CPUs.
    cpus: usize,
}

impl Scx {
    /// Loads the scheduler, which shares maps with the collection, and makes it schedule all tasks.
    ///
    /// # Errors
    /// If the kernel has no sched_ext, the privilege is missing, or another sched_ext scheduler is active.
    pub fn load(collector: &Collector, options: &ScxOptions) -> Result<Scx> {
        ensure!(
            (1..=50).contains(&options.background_share),
            "the share of what is below is 1 to 50 percent"
        );
        say(options.log);
        // The scheduler borrows from this object for as long as it lives. The object is never freed; a
        // process loads one or a few schedulers.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut skel = open(object, options)?;
        let cpus = configure(&mut skel, options, collector.bucket_secret())?;
        skel.maps.nodes.reuse_fd(collector.map("nodes")?).context("sharing the nodes")?;
        skel.maps.groups.reuse_fd(collector.map("groups")?).context("sharing the processes")?;
        let mut skel = scx_ops_load!(skel, spry_ops, uei)?;
        ensure!(
            !scx_utils::compat::is_sched_ext_enabled().unwrap_or(false),
            "another scheduler of sched_ext is in charge"
        );
        let link = skel.maps.spry_ops.attach_struct_ops().context("putting the scheduler in charge")?;
        let sees_work =
            skel.progs.spry_work_is_queued.attach().context("seeing what work the kernel is given")?;
        // All that may fail comes before the threads of `Beats` start: they must end before the
        // memory is unmapped.
        let nodes = Nodes::map(collector.map("nodes")?, collector.map("collected")?)?;
        let ensurer = Ensurer::new(collector.program("spry_ensure")?.as_fd())?;
        let beats = match skel.maps.bss_data.as_deref_mut() {
            Some(bss) if machine::is_real_time() => {
                // SAFETY: the memory is the skeleton's, which is dropped after the threads, since fields are
                // dropped in order.
                Some(unsafe { Beats::of_cpus(cpus, NonNull::from(&mut bss.beat_ns)) })
            }
            _ => None,
        };
        Ok(Scx {
            _beats: beats,
            link: Some(link),
            _sees_work: sees_work,
            sees_switches: None,
            skel,
            nodes,
            ensurer,
            has_timers: !machine::is_real_time(),
            known: HashMap::new(),
            judged: Vec::new(),
            by_hand: HashMap::new(),
            came_into_use: 0,
            warnings: machine::warnings(),
            knobs: Knobs::default(),
            cpus,
        })
    }

    /// Statistics of the scheduler since it was loaded.
    pub fn stats(&self) -> Stats {
        self.skel.maps.bss_data.as_deref().map(stats::sum).unwrap_or_default()
    }

    /// Sees all switches while cgroups have limits, so that machines without limits do not pay for it.
    fn watch_switches(&mut self) {
        let Some(bss) = self.skel.maps.bss_data.as_mut() else { return };
        // SAFETY: a word of mapped memory, aligned as in C.
        let limited = unsafe { AtomicU32::from_ptr(&raw mut bss.cgroups_limited) };
        if limited.load(Ordering::Relaxed) == 0 {
            if self.sees_switches.take().is_some() {
                // SAFETY: a word of mapped memory, aligned as in C, that BPF only reads.
                let round = unsafe { AtomicU32::from_ptr(&raw mut bss.switches_round) };
                round.fetch_add(1, Ordering::Release);
            }
        } else if self.sees_switches.is_none() {
            let link = self.skel.progs.spry_leaves_cpu.attach();
            self.sees_switches = Some(link.map_err(|error| error.to_string()));
        }
    }

    fn node(&mut self, tgid: Tgid) -> Option<NodeRef> {
        if let Some(&name) = self.known.get(&tgid) {
            if self.nodes.owner(name) == Some(tgid) {
                return Some(name);
            }
        }
        let name = self.ensurer.ensure(tgid);
        match name {
            Some(name) => self.known.insert(tgid, name),
            None => self.known.remove(&tgid),
        };
        name
    }

    /// Writes a verdict into the node of a process. Returns the node; `None` if there is no such process.
    fn write(&mut self, tgid: Tgid, word: VerdictWord) -> Option<NodeRef> {
        let name = self.node(tgid)?;
        let before = self.nodes.set_verdict(name, word);
        self.came_into_use += u32::from(word.is_interactive() && !before.is_interactive());
        Some(name)
    }

    /// Makes threads look up their verdicts again. If processes have come into use, also makes the scheduler
    /// move their waiting threads to INTERACTIVE.
    fn new_round(&mut self) {
        if let Some(data) = self.skel.maps.data_data.as_mut() {
            // SAFETY: a word of mapped memory, aligned as in C, that BPF only reads.
            let round = unsafe { AtomicU32::from_ptr(&raw mut data.verdict_round) };
            round.fetch_add(1, Ordering::Release);
        }
        if std::mem::take(&mut self.came_into_use) == 0 {
            return;
        }
        if let Some(bss) = self.skel.maps.bss_data.as_mut() {
            // SAFETY: a word of mapped memory, aligned as in C, that BPF only reads.
            let round = unsafe { AtomicU32::from_ptr(&raw mut bss.news.classes) };
            round.fetch_add(1, Ordering::Release);
        }
    }
}

/// Sets the messages that libbpf prints.
fn say(log: Log) {
    fn all(_: PrintLevel, text: String) {
        eprint!("{text}");
    }
    fn figures(level: PrintLevel, text: String) {
        if matches!(level, PrintLevel::Warn) || text.contains("PROG LOAD LOG") {
            eprint!("{text}");
        }
    }
    libbpf_rs::set_print(Some(match log {
        Log::Warnings => (PrintLevel::Warn, all),
        Log::Verifier => (PrintLevel::Debug, figures),
    }));
}

fn open(
    object: &'static mut MaybeUninit<OpenObject>,
    options: &ScxOptions,
) -> Result<OpenSchedSkel<'static>> {
    let builder = SchedSkelBuilder::default();
    let mut skel =
        scx_ops_open!(builder, object, spry_ops, None::<libbpf_rs::libbpf_sys::bpf_object_open_opts>)?;
    machine::leave_out_what_the_kernel_lacks(&mut skel);
    reserved::leave_out_what_the_kernel_lacks(&mut skel);
    if options.log == Log::Verifier {
        for mut program in skel.open_object_mut().progs_mut() {
            program.set_log_level(VERIFIER_STATISTICS);
        }
    }
    Ok(skel)
}

/// The log level of the kernel's verifier that prints only a program's statistics.
const VERIFIER_STATISTICS: u32 = 4;

/// Sets the scheduler's knobs. Returns the number of possible CPUs.
fn configure(skel: &mut OpenSchedSkel<'_>, options: &ScxOptions, bucket_secret: u32) -> Result<usize> {
    let caches = machine::caches()?;
    let Some(knobs) = skel.maps.rodata_data.as_mut() else { bail!("the scheduler has no knobs") };
    ensure!(caches.len() <= knobs.cpu_llc.len(), "more than {} CPUs", knobs.cpu_llc.len());
    knobs.nr_cpus = u32::try_from(caches.len())?;
    knobs.nr_llcs = caches.iter().max().map_or(1, |&last| u32::from(last) + 1);
    knobs.cpus_of_llc = (caches.len() as u32).div_ceil(knobs.nr_llcs).max(1);
    knobs.cpu_llc[..caches.len()].copy_from_slice(&caches);
    knobs.share_percent = options.background_share;
    knobs.bucket_secret = bucket_secret;
    knobs.has_timers = !machine::is_real_time();
    knobs.wake_more_left = options.wake == WakeRule::MoreLeft;
    if options.own_class == OwnClass::Daemon {
        knobs.daemon_tgid = std::process::id();
    }
    Ok(caches.len())
}

impl Actuator for Scx {
    fn name(&self) -> &'static str {
        NAME
    }

    fn apply(&mut self, verdicts: &[Verdict]) -> Result<()> {
        let before = std::mem::take(&mut self.judged);
        for verdict in verdicts {
            let word = match self.by_hand.get(&verdict.tgid) {
                Some(&class) => VerdictWord::by_hand(class, Some(verdict)),
                None => VerdictWord::from(verdict),
            };
            if self.write(verdict.tgid, word).is_some() {
                self.judged.push(verdict.tgid);
            }
        }
        self.judged.sort_unstable();
        for tgid in before {
            if self.judged.binary_search(&tgid).is_err() {
                let word = self
                    .by_hand
                    .get(&tgid)
                    .map_or(VerdictWord::NONE, |&class| VerdictWord::by_hand(class, None));
                if let Some(&name) = self.known.get(&tgid) {
                    self.nodes.set_verdict(name, word);
                }
            }
        }
        // Processes that have exited are removed.
        let nodes = &self.nodes;
        self.known.retain(|&tgid, &mut name| nodes.owner(name) == Some(tgid));
        self.new_round();
        Ok(())
    }

    fn set_by_hand(&mut self, tgid: Tgid, class: Option<Class>) -> Result<()> {
        let word = match class {
            None => VerdictWord::NONE,
            Some(class @ (Class::Daemon | Class::Kthread)) => bail!("{class:?} is given to nobody by hand"),
            Some(class) => VerdictWord::by_hand(class, None),
        };
        ensure!(self.write(tgid, word).is_some(), "there is no process {}", tgid.0);
        match class {
            Some(class) => self.by_hand.insert(tgid, class),
            None => self.by_hand.remove(&tgid),
        };
        self.new_round();
        Ok(())
    }

    fn forget_hand(&mut self, tgid: Tgid) {
        // The process' node was freed when it exited, and its verdict with it.
        self.by_hand.remove(&tgid);
    }

    fn health(&mut self) -> Health {
        if !uei_exited!(&self.skel, uei) {
            self.watch_switches();
            return Health::Acting;
        }
        Health::Ejected(match uei_read!(&self.skel, uei).report() {
            Ok(()) => "the scheduler was taken out of the kernel".to_owned(),
            Err(error) => error.to_string(),
        })
    }

    fn enforcer(&self) -> Option<Box<dyn Enforcer>> {
        // Without timers no budget could be ended.
        if !self.has_timers {
            return None;
        }
        self.reserved_class().ok().map(|class| Box::new(class) as Box<dyn Enforcer>)
    }

    fn tune(&mut self, knobs: Knobs) -> Result<()> {
        ensure!(
            self.has_timers,
            "this kernel lets programs of BPF have no timers (it is a real-time kernel): its tick stays"
        );
        let Some(bss) = self.skel.maps.bss_data.as_deref_mut() else { bail!("the scheduler has no knobs") };
        let Knobs { tuning, quanta } = knobs;
        bss.tuning.interactive_ns = quanta.interactive_us.map_or(0, QuantumUs::ns);
        bss.tuning.idle_ns = quanta.idle_us.map_or(0, QuantumUs::ns);
        // The quantum is set before the tick, since the scheduler uses it as soon as there is a tick.
        bss.tuning.quantum_ns = tuning.map_or(0, Tuning::quantum_ns);
        bss.tuning.tick_ns = tuning.map_or(0, Tuning::tick_ns);
        self.knobs = knobs;
        Ok(())
    }

    fn knobs(&self) -> Knobs {
        self.knobs
    }

    fn ticks(&self) -> Option<Vec<TickCount>> {
        let cpus = &self.skel.maps.bss_data.as_deref()?.cpus;
        let count = |cpu: &types::cpu_ctx| TickCount { callbacks: cpu.ticks, ran_ns: cpu.ticks_ns };
        Some(cpus.iter().take(self.cpus).map(count).collect())
    }

    fn housekeeping_ns_longest(&self) -> Option<u64> {
        Some(self.skel.maps.bss_data.as_deref()?.housekeeping_longest_ns)
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        if let Some(Err(error)) = &self.sees_switches {
            warnings.push(format!(
                "switches are not seen ({error}): a task over its cpu.max may keep others waiting for a lock"
            ));
        }
        if let Some(bss) = self.skel.maps.bss_data.as_deref() {
            if bss.cgroups_left_out > 0 {
                warnings.push(format!(
                    "{} cgroups too many or too deep: their tasks are like those of the cgroup above",
                    bss.cgroups_left_out
                ));
            }
            if bss.masks_left_out > 0 {
                warnings.push(format!(
                    "{} times a set of CPUs found no place: a task with such a set waited for one CPU of it",
                    bss.masks_left_out
                ));
            }
            if bss.miscounted > 0 {
                warnings.push(format!(
                    "{} tasks were counted in queues in which they were not; the counts were put right",
                    bss.miscounted
                ));
            }
        }
        warnings
    }
}

impl Drop for Scx {
    fn drop(&mut self) {
        // Dropping the link gives all tasks back to the kernel's scheduler, before the maps are freed.
        self.link.take();
    }
}
