//! The collection: loads the BPF programs that observe dependencies between processes, and adds their edges
//! to the policy's graph.

mod news;
mod ttys;

use std::collections::HashMap;
use std::iter;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use libbpf_rs::{Link, MapCore, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramInput};
use spry_display::terminals::Activity;
use spry_kernel::Kernel;
use spry_policy::{Constants, Graph, ServedProcesses, Tgid, Waits, Writers};

use crate::intf::{spry_collect_knobs, spry_ensure};
use crate::nodes::{NODES_MAX, NodeRef, Nodes};
use news::News;
use ttys::Ttys;

/// The compiled BPF programs of the collection.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/collect.bpf.o"));

/// The two programs that observe wake-ups, each with its definition of waiting. One of them is loaded.
const HOOKS: [(&str, Waits); 2] =
    [("spry_sched_waking", Waits::Asleep), ("spry_try_to_wake_up", Waits::Tested)];

/// The program that gives a process a node at the daemon's request.
const ENSURE: &str = "spry_ensure";

/// When a process gets a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Births {
    /// With its first edge, or when the daemon asks for one.
    OnDemand,
    /// With its first edge alone. Linux 6.1 refuses the program for the other case: it sleeps, and uses a map
    /// that such programs could not use then. Linux 6.12 takes it, and only sched_ext, which is newer, asks.
    WhenSeen,
}

/// The counts of the collection since the previous drain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct DrainReport {
    /// Processes that have exited or called exec. They are removed from the graph already.
    pub gone: Vec<Tgid>,
    /// The characters that passed through each terminal.
    pub ttys: Vec<Activity>,
    /// The number of lost edges, and of processes that found no node.
    pub lost_edges: u64,
}

/// The loaded programs of the collection, and their maps.
#[derive(Debug)]
pub struct Collector {
    object: Object,
    /// The links of the attached programs. They are dropped before the object, to which they belong.
    links: Vec<Link>,
    /// The definition of waiting: being asleep, or also being tested for a wake-up.
    waits: Waits,
    nodes: Nodes,
    ttys: Ttys,
    /// The process of each node at the previous drain.
    owners: Vec<Option<(Tgid, NodeRef)>>,
    by_tgid: HashMap<Tgid, NodeRef>,
    lost: u64,
    news: Option<News>,
    bucket_secret: u32,
    warnings: Vec<String>,
}

impl Collector {
    /// Loads the collection's programs, and attaches the programs that this kernel can run.
    ///
    /// # Errors
    /// If the privilege to load BPF programs is missing, or the kernel has no type information.
    pub fn open(constants: &Constants) -> Result<Collector> {
        Collector::with_room_for(NODES_MAX as u32, constants)
    }

    /// Loads the collection as [`Collector::open`] does, with room for 1 to [`NODES_MAX`] processes.
    ///
    /// # Errors
    /// As [`Collector::open`].
    pub fn with_room_for(nodes: u32, constants: &Constants) -> Result<Collector> {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, _| {})));
        let kernel = Kernel::probe().context("the kernel has no type information (CONFIG_DEBUG_INFO_BTF)")?;
        let knobs = knobs(&kernel, constants, nodes);
        let mut collector = Collector::most_of(constants.waits, &knobs)?;
        if collector.waits != constants.waits {
            collector.warnings.push("this kernel shows wake-ups only of those that were asleep".to_owned());
        }
        if knobs.flush_to_ldisc == 0 {
            collector.warnings.push("terminals cannot be seen: the kernel hides its functions".to_owned());
        }
        Ok(collector)
    }

    /// Loads as much of the collection as this kernel takes, the most needed first.
    fn most_of(waits: Waits, knobs: &spry_collect_knobs) -> Result<Collector> {
        let mut error = None;
        let fewer = (waits != Waits::Asleep).then_some(Waits::Asleep);
        for births in [Births::OnDemand, Births::WhenSeen] {
            for waits in iter::once(waits).chain(fewer) {
                match Collector::with(waits, births, knobs) {
                    Ok(collector) => return Ok(collector),
                    Err(found) => error = Some(found),
                }
            }
        }
        Err(error.expect("something was tried"))
    }

    fn with(waits: Waits, births: Births, knobs: &spry_collect_knobs) -> Result<Collector> {
        let mut open = ObjectBuilder::default().open_memory(OBJECT).context("reading the programs")?;
        set_knobs(&mut open, knobs)?;
        for mut program in open.progs_mut() {
            let sees = HOOKS.iter().find(|(name, _)| program.name() == *name).map(|&(_, sees)| sees);
            let is_refused = program.name() == ENSURE && births == Births::WhenSeen;
            program.set_autoload(!is_refused && sees.is_none_or(|sees| sees == waits));
        }
        let object = open.load().context("loading the collection into the kernel")?;
        let nodes = Nodes::map(map(&object, "nodes")?, map(&object, "collected")?)
            .context("mapping the collection's nodes")?;
        let ttys = Ttys::map(map(&object, "ttys")?).context("mapping the collection's terminals")?;
        let mut collector = Collector {
            object,
            links: Vec::new(),
            waits,
            nodes,
            ttys,
            owners: Vec::new(),
            by_tgid: HashMap::new(),
            lost: 0,
            news: None,
            bucket_secret: knobs.bucket_secret,
            warnings: Vec::new(),
        };
        collector.attach()?;
        Ok(collector)
    }

    fn attach(&mut self) -> Result<()> {
        for program in self.object.progs_mut() {
            if program.autoload() && program.name() != ENSURE {
                let name = program.name().to_string_lossy().into_owned();
                self.links.push(program.attach().with_context(|| format!("attaching {name}"))?);
            }
        }
        Ok(())
    }

    /// Starts a thread that calls `notify` when characters are typed into a terminal after a
    /// pause of two seconds.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub fn watch(&mut self, notify: Arc<dyn Fn() + Send + Sync>) -> Result<()> {
        let map = self.object.maps().find(|map| map.name() == "news");
        let map = MapHandle::try_from(&map.ok_or_else(|| anyhow!("the map news is missing"))?)?;
        self.news = Some(News::watch(map, notify)?);
        Ok(())
    }

    /// The tasks that the collection counts as waiting: as requested, if the kernel can show them.
    pub const fn waits(&self) -> Waits {
        self.waits
    }

    /// Warnings for the user about data that this kernel does not show.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Adds the edges counted since the previous drain to the graph. Processes that have exited or called
    /// exec are removed first, so a later process with the same number begins without edges.
    pub fn drain(&mut self, graph: &mut Graph) -> DrainReport {
        let mut gone = Vec::new();
        let nodes = self.nodes.used();
        self.owners.resize(nodes.len(), None);
        for (known, node) in self.owners.iter_mut().zip(nodes) {
            let owner = node.owner();
            if owner == *known {
                continue;
            }
            if let Some((tgid, name)) = *known {
                gone.push(tgid);
                // The process may have another node already, found in this loop.
                if self.by_tgid.get(&tgid) == Some(&name) {
                    self.by_tgid.remove(&tgid);
                }
            }
            if let Some((tgid, name)) = owner {
                self.by_tgid.insert(tgid, name);
            }
            *known = owner;
        }
        gone.iter().for_each(|&tgid| graph.remove(tgid));
        for (owner, node) in self.owners.iter().zip(nodes) {
            let Some((waiter, _)) = *owner else { continue };
            for (on, times) in node.take_edges() {
                let known = self.owners.get(on.index()).copied().flatten();
                // If the other process has exited since, no process depends on it.
                if let Some((on, _)) = known.filter(|&(_, name)| name == on) {
                    graph.depend(waiter, on, times);
                }
            }
        }
        let lost = self.nodes.lost_edges() + self.nodes.lost_nodes();
        let lost_edges = lost - std::mem::replace(&mut self.lost, lost);
        DrainReport { gone, ttys: self.ttys.take(&self.nodes), lost_edges }
    }

    /// The secret factor in the hash that finds the bucket of a process. The scheduler's programs must use
    /// the same factor.
    pub const fn bucket_secret(&self) -> u32 {
        self.bucket_secret
    }

    /// The mapped array of nodes.
    pub const fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The node of a process at the previous drain.
    pub fn find(&self, tgid: Tgid) -> Option<NodeRef> {
        self.by_tgid.get(&tgid).copied()
    }

    /// The node of a process, made if it has none. A process that never waited for another process, and for
    /// which no process waited, can still be in use. `None` if there is no such process, no free node, or if
    /// the kernel refuses the program.
    pub fn ensure(&mut self, tgid: Tgid) -> Option<NodeRef> {
        if let Some(name) = self.find(tgid).filter(|&name| self.nodes.owner(name) == Some(tgid)) {
            return Some(name);
        }
        let mut request = spry_ensure { tgid: tgid.0, ref_: 0 };
        // SAFETY: the request is plain data without padding, borrowed for as long as it is seen as bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut((&raw mut request).cast::<u8>(), size_of::<spry_ensure>())
        };
        let mut programs = self.object.progs_mut();
        let program = programs.find(|program| program.name() == ENSURE && program.autoload())?;
        program.test_run(ProgramInput { context_in: Some(bytes), ..ProgramInput::default() }).ok()?;
        NodeRef::new(request.ref_)
    }

    /// The BPF program with a name, for another module to run.
    ///
    /// # Errors
    /// If there is none with this name.
    pub fn program(&self, name: &str) -> Result<BorrowedFd<'_>> {
        let found = self.object.progs().find(|program| program.name() == name && program.autoload());
        let found = found.ok_or_else(|| anyhow!("the program {name} is missing"))?;
        // SAFETY: the object keeps its programs open, and is borrowed as long as the result.
        Ok(unsafe { BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&found.as_fd())) })
    }

    /// The map with a name, for another BPF object to share: `nodes`, `groups` or `collected`.
    ///
    /// # Errors
    /// If there is none with this name.
    pub fn map(&self, name: &str) -> Result<BorrowedFd<'_>> {
        map(&self.object, name)
    }
}

fn map<'object>(object: &'object Object, name: &str) -> Result<BorrowedFd<'object>> {
    let found = object.maps().find(|map| map.name() == name);
    let found = found.ok_or_else(|| anyhow!("the map {name} is missing"))?;
    // SAFETY: the object keeps its maps open, and is borrowed as long as the result.
    Ok(unsafe { BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&found.as_fd())) })
}

fn knobs(kernel: &Kernel, constants: &Constants, nodes_most: u32) -> spry_collect_knobs {
    let count = kernel.preempt_count();
    spry_collect_knobs {
        count_from_rq: count.from_rq,
        flush_to_ldisc: spry_kernel::function("flush_to_ldisc").unwrap_or(0),
        own_tgid: std::process::id(),
        typed_weight: constants.typed_weight,
        writers_count: u32::from(constants.writers == Writers::Count),
        blocked_writers_count: u32::from(constants.waits == Waits::Asleep),
        served_count: u32::from(constants.served == ServedProcesses::Count),
        interrupt_mask: count.interrupt_mask,
        bucket_secret: secret(),
        nodes_most,
        pts_device: std::fs::metadata("/dev/pts").map_or(0, |found| spry_kernel::device(found.dev())),
        pad: 0,
    }
}

/// A random odd number, which no user can know.
fn secret() -> u32 {
    let mut bytes = [0; 4];
    // On a kernel without random numbers, the result is 1.
    _ = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    u32::from_ne_bytes(bytes) | 1
}

fn set_knobs(open: &mut OpenObject, knobs: &spry_collect_knobs) -> Result<()> {
    // SAFETY: the knobs are plain data without padding, read as their own bytes.
    let bytes = unsafe {
        std::slice::from_raw_parts((&raw const *knobs).cast::<u8>(), size_of::<spry_collect_knobs>())
    };
    let mut maps = open.maps_mut();
    let mut map = maps.find(|map| map.name() == ".rodata.knobs").ok_or_else(|| anyhow!("no knobs"))?;
    map.set_initial_value(bytes).context("setting the collection's knobs")
}
