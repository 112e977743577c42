//! The scheduler in the kernel: loads it, gives it verdicts, watches it.

mod ensure;
mod machine;
mod skel;
mod stats;

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail, ensure};
use libbpf_rs::skel::OpenSkel;
use libbpf_rs::{Link, OpenObject, PrintLevel};
use scx_utils::{scx_ops_load, scx_ops_open, uei_exited, uei_read};
use spry_policy::{Tgid, WakeRule};

use crate::actuator::{Actuator, Class, Health, Verdict};
use crate::collect::Collector;
use crate::nodes::{NodeRef, Nodes};
use crate::verdict_word::VerdictWord;
use ensure::Ensurer;
use skel::{OpenSchedSkel, SchedSkel, SchedSkelBuilder};

pub use stats::{ClassStats, Stats};

/// What the scheduler is told before it is loaded.
#[derive(Clone, PartialEq, Debug)]
pub struct ScxOptions {
    /// The part of any second that what is below the interactive class has, percent; 1 to 50.
    pub background_share: u32,
    /// When a woken interactive task takes the CPU from another.
    pub wake: WakeRule,
    /// Whether the process that loads it has the daemon's class.
    pub own_class: OwnClass,
    /// How much the loader says on standard error.
    pub log: Log,
}

/// Whether the loading process has the daemon's class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OwnClass {
    /// It has.
    Daemon,
    /// It is like others.
    Other,
}

/// How much the loader says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Log {
    /// Warnings.
    Warnings,
    /// All there is, with the verifier's figures for each program.
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

/// The scheduler, in charge until dropped.
pub struct Scx {
    link: Option<Link>,
    /// As long as it is kept, the scheduler sees what work the kernel is given.
    _sees_work: Link,
    skel: SchedSkel<'static>,
    nodes: Nodes,
    ensurer: Ensurer,
    known: HashMap<Tgid, NodeRef>,
    /// Whose nodes say something that the next round may have to take back.
    judged: Vec<Tgid>,
    by_hand: HashMap<Tgid, Class>,
    /// Processes that came to be in use since BPF was told so last.
    came_into_use: u32,
    warnings: Vec<String>,
}

impl Scx {
    /// Loads the scheduler beside the collection and puts it in charge.
    ///
    /// # Errors
    /// On a kernel without sched_ext, without the privilege, or while another scheduler is in charge.
    pub fn load(collector: &Collector, options: &ScxOptions) -> Result<Scx> {
        ensure!(
            (1..=50).contains(&options.background_share),
            "the share of what is below is 1 to 50 percent"
        );
        say(options.log);
        // The scheduler borrows from it for as long as it lives; a process loads one, or a few.
        let object: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut skel = open(object, options)?;
        configure(&mut skel, options)?;
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
        Ok(Scx {
            link: Some(link),
            _sees_work: sees_work,
            skel,
            nodes: Nodes::map(collector.map("nodes")?, collector.map("collected")?)?,
            ensurer: Ensurer::new(collector.program("spry_ensure")?.as_fd())?,
            known: HashMap::new(),
            judged: Vec::new(),
            by_hand: HashMap::new(),
            came_into_use: 0,
            warnings: machine::warnings(),
        })
    }

    /// What it has done since it was loaded.
    pub fn stats(&self) -> Stats {
        self.skel.maps.bss_data.as_deref().map(stats::sum).unwrap_or_default()
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

    /// Writes a verdict's word, if there is such a process.
    fn write(&mut self, tgid: Tgid, word: VerdictWord) -> Option<NodeRef> {
        let name = self.node(tgid)?;
        let before = self.nodes.set_verdict(name, word);
        self.came_into_use += u32::from(word.is_interactive() && !before.is_interactive());
        Some(name)
    }

    /// Has threads look for their nodes again, and those that wait below and are in use now moved up.
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
            // SAFETY: as above.
            let round = unsafe { AtomicU32::from_ptr(&raw mut bss.class_round) };
            round.fetch_add(1, Ordering::Release);
        }
    }
}

/// What libbpf says, as far as it is asked for.
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
    if options.log == Log::Verifier {
        for mut program in skel.open_object_mut().progs_mut() {
            program.set_log_level(VERIFIER_STATISTICS);
        }
    }
    Ok(skel)
}

/// Asks the kernel for a program's figures only.
const VERIFIER_STATISTICS: u32 = 4;

fn configure(skel: &mut OpenSchedSkel<'_>, options: &ScxOptions) -> Result<()> {
    let caches = machine::caches()?;
    let Some(knobs) = skel.maps.rodata_data.as_mut() else { bail!("the scheduler has no knobs") };
    ensure!(caches.len() <= knobs.cpu_llc.len(), "more than {} CPUs", knobs.cpu_llc.len());
    knobs.nr_cpus = u32::try_from(caches.len())?;
    knobs.nr_llcs = caches.iter().max().map_or(1, |&last| u32::from(last) + 1);
    knobs.cpus_of_llc = (caches.len() as u32).div_ceil(knobs.nr_llcs).max(1);
    knobs.cpu_llc[..caches.len()].copy_from_slice(&caches);
    knobs.share_percent = options.background_share;
    knobs.has_timers = !machine::is_real_time();
    knobs.wake_more_left = options.wake == WakeRule::MoreLeft;
    if options.own_class == OwnClass::Daemon {
        knobs.daemon_tgid = std::process::id();
    }
    Ok(())
}

impl Actuator for Scx {
    fn name(&self) -> &'static str {
        "scx"
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
        // Who ended is forgotten.
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

    fn health(&mut self) -> Health {
        if !uei_exited!(&self.skel, uei) {
            return Health::Acting;
        }
        Health::Ejected(match uei_read!(&self.skel, uei).report() {
            Ok(()) => "the scheduler was taken out of the kernel".to_owned(),
            Err(error) => error.to_string(),
        })
    }

    fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.clone();
        if let Some(bss) = self.skel.maps.bss_data.as_deref() {
            if bss.cgroups_left_out > 0 {
                warnings.push(format!(
                    "{} cgroups too many or too deep: their tasks are like those of the cgroup above",
                    bss.cgroups_left_out
                ));
            }
        }
        warnings
    }
}

impl Drop for Scx {
    fn drop(&mut self) {
        // The kernel takes all tasks back before the maps go.
        self.link.take();
    }
}
