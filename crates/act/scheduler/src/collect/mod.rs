//! The collection: loads the programs that see which process depends on which, and carries what they saw into
//! the policy's graph.

mod news;
mod ttys;

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use libbpf_rs::{Link, MapCore, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel, ProgramInput};
use spry_display::terminals::Activity;
use spry_kernel::Kernel;
use spry_policy::{Constants, Graph, Served, Tgid, Waits, Writers};

use crate::intf::{spry_collect_knobs, spry_ensure};
use crate::nodes::{NODES_MAX, NodeRef, Nodes};
use news::News;
use ttys::Ttys;

/// The compiled BPF programs of the collection.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/collect.bpf.o"));

/// The two programs that see wake-ups, each with what it counts as waiting. One of them is loaded.
const HOOKS: [(&str, Waits); 2] =
    [("spry_sched_waking", Waits::Asleep), ("spry_try_to_wake_up", Waits::Tested)];

/// What the collection has seen since the latest drain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Drained {
    /// Processes that have ended, or have become other programs by exec. The graph has forgotten them
    /// already.
    pub gone: Vec<Tgid>,
    /// What went through each terminal.
    pub ttys: Vec<Activity>,
    /// How many edges were not kept, and how many processes found no node.
    pub lost_edges: u64,
}

/// The collection's programs in the kernel, and what they have counted.
#[derive(Debug)]
pub struct Collector {
    object: Object,
    /// The links are dropped before the object that they belong to.
    links: Vec<Link>,
    waits: Waits,
    nodes: Nodes,
    ttys: Ttys,
    /// The process that had each node at the latest drain.
    owners: Vec<Option<(Tgid, NodeRef)>>,
    by_tgid: HashMap<Tgid, NodeRef>,
    lost: u64,
    news: Option<News>,
    bucket_secret: u32,
    warnings: Vec<String>,
}

impl Collector {
    /// Loads the collection's programs, and attaches those that this kernel can run.
    ///
    /// # Errors
    /// Without the privilege to load BPF programs, or on a kernel without type information.
    pub fn open(constants: &Constants) -> Result<Collector> {
        Collector::with_room_for(NODES_MAX as u32, constants)
    }

    /// Loads the collection as [`Collector::open`] does, with room for fewer processes: from 1 to
    /// [`NODES_MAX`].
    ///
    /// # Errors
    /// As [`Collector::open`].
    pub fn with_room_for(nodes: u32, constants: &Constants) -> Result<Collector> {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, _| {})));
        let kernel = Kernel::probe().context("the kernel has no type information (CONFIG_DEBUG_INFO_BTF)")?;
        let knobs = knobs(&kernel, constants, nodes);
        let tested = (constants.waits == Waits::Tested).then(|| Collector::with(Waits::Tested, &knobs).ok());
        let mut collector = match tested.flatten() {
            Some(collector) => collector,
            None => Collector::with(Waits::Asleep, &knobs)?,
        };
        if collector.waits != constants.waits {
            collector.warnings.push("this kernel shows wake-ups only of those that were asleep".to_owned());
        }
        if knobs.flush_to_ldisc == 0 {
            collector.warnings.push("terminals cannot be seen: the kernel hides its functions".to_owned());
        }
        Ok(collector)
    }

    fn with(waits: Waits, knobs: &spry_collect_knobs) -> Result<Collector> {
        let mut open = ObjectBuilder::default().open_memory(OBJECT).context("reading the programs")?;
        set_knobs(&mut open, knobs)?;
        for mut program in open.progs_mut() {
            let sees = HOOKS.iter().find(|(name, _)| program.name() == *name).map(|&(_, sees)| sees);
            program.set_autoload(sees.is_none_or(|sees| sees == waits));
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
            if program.autoload() && program.name() != "spry_ensure" {
                let name = program.name().to_string_lossy().into_owned();
                self.links.push(program.attach().with_context(|| format!("attaching {name}"))?);
            }
        }
        Ok(())
    }

    /// From now on calls `notify`, from a thread made for it, when a terminal is typed at that was not typed
    /// at lately.
    ///
    /// # Errors
    /// Where there can be no further thread.
    pub fn watch(&mut self, notify: Arc<dyn Fn() + Send + Sync>) -> Result<()> {
        let map = self.object.maps().find(|map| map.name() == "news");
        let map = MapHandle::try_from(&map.ok_or_else(|| anyhow!("the map news is missing"))?)?;
        self.news = Some(News::watch(map, notify)?);
        Ok(())
    }

    /// What the collection counts as waiting: what was asked for, as far as the kernel shows it.
    pub const fn waits(&self) -> Waits {
        self.waits
    }

    /// What the user should know of the collection.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Carries the edges since the latest drain into the graph. A process that ended or became another
    /// program is removed first, so the number's next owner begins with nothing.
    pub fn drain(&mut self, graph: &mut Graph) -> Drained {
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
                // The process may have been seen at another place already.
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
                // If the other process has ended since, no process depends on it.
                if let Some((on, _)) = known.filter(|&(_, name)| name == on) {
                    graph.depend(waiter, on, times);
                }
            }
        }
        let lost = self.nodes.lost_edges() + self.nodes.lost_nodes();
        let lost_edges = lost - std::mem::replace(&mut self.lost, lost);
        Drained { gone, ttys: self.ttys.take(&self.nodes), lost_edges }
    }

    /// The secret number by which these programs find the bucket of a process: the scheduler's programs must
    /// use the same.
    pub const fn bucket_secret(&self) -> u32 {
        self.bucket_secret
    }

    /// The nodes.
    pub const fn nodes(&self) -> &Nodes {
        &self.nodes
    }

    /// The node that a process had at the latest drain.
    pub fn find(&self, tgid: Tgid) -> Option<NodeRef> {
        self.by_tgid.get(&tgid).copied()
    }

    /// The node of a process; it is made if the process has none. A process that never waited for another,
    /// nor was waited for, can be in use too. `None` where there is no such process or no free node, or on
    /// kernels before 6.2.
    pub fn ensure(&mut self, tgid: Tgid) -> Option<NodeRef> {
        if let Some(name) = self.find(tgid).filter(|&name| self.nodes.owner(name) == Some(tgid)) {
            return Some(name);
        }
        let mut request = spry_ensure { tgid: tgid.0, ref_: 0 };
        // SAFETY: the request is plain data without padding, borrowed for as long as it is seen as bytes.
        let bytes = unsafe {
            std::slice::from_raw_parts_mut((&raw mut request).cast::<u8>(), size_of::<spry_ensure>())
        };
        let program = self.object.progs_mut().find(|program| program.name() == "spry_ensure")?;
        program.test_run(ProgramInput { context_in: Some(bytes), ..ProgramInput::default() }).ok()?;
        NodeRef::new(request.ref_)
    }

    /// The BPF program of a name, which another module runs.
    ///
    /// # Errors
    /// Where there is none of that name.
    pub fn program(&self, name: &str) -> Result<BorrowedFd<'_>> {
        let found = self.object.progs().find(|program| program.name() == name);
        let found = found.ok_or_else(|| anyhow!("the program {name} is missing"))?;
        // SAFETY: the object keeps its programs open, and is borrowed as long as the answer.
        Ok(unsafe { BorrowedFd::borrow_raw(std::os::fd::AsRawFd::as_raw_fd(&found.as_fd())) })
    }

    /// The map of a name, which another BPF object uses: `nodes`, `groups`, `collected`.
    ///
    /// # Errors
    /// Where there is none of that name.
    pub fn map(&self, name: &str) -> Result<BorrowedFd<'_>> {
        map(&self.object, name)
    }
}

fn map<'object>(object: &'object Object, name: &str) -> Result<BorrowedFd<'object>> {
    let found = object.maps().find(|map| map.name() == name);
    let found = found.ok_or_else(|| anyhow!("the map {name} is missing"))?;
    // SAFETY: the object keeps its maps open, and is borrowed as long as the answer.
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
        served_count: u32::from(constants.served == Served::Count),
        interrupt_mask: count.interrupt_mask,
        bucket_secret: secret(),
        nodes_most,
        pts_device: std::fs::metadata("/dev/pts").map_or(0, |found| spry_kernel::device(found.dev())),
        pad: 0,
    }
}

/// An odd number that no user knows.
fn secret() -> u32 {
    let mut bytes = [0; 4];
    // On a kernel without it, the secret is 1.
    _ = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    u32::from_ne_bytes(bytes) | 1
}

fn set_knobs(open: &mut OpenObject, knobs: &spry_collect_knobs) -> Result<()> {
    // SAFETY: plain data without padding that is read as the bytes it is made of.
    let bytes = unsafe {
        std::slice::from_raw_parts((&raw const *knobs).cast::<u8>(), size_of::<spry_collect_knobs>())
    };
    let mut maps = open.maps_mut();
    let mut map = maps.find(|map| map.name() == ".rodata.knobs").ok_or_else(|| anyhow!("no knobs"))?;
    map.set_initial_value(bytes).context("setting the collection's knobs")
}
