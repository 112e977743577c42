//! The interprocess graph: wake-ups and bytes between processes (thread groups), and the connected component
//! of a root process.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashMap;
use spry_timeline::{Holder, Observer, ProcessIndex, TaskIndex, Timeline, WaitCause, Woken};
use spry_trace::event::{Channel, Context, Direction, Event, Ipc};
use spry_trace::{Group, Stamped};

use crate::analysis::{About, Analysis, Closing, Hook, Parts, Setup};
use crate::batch::{Batch, Fill, Grouper, Groups, Keyed};
use crate::findings::{Component, Edge, Findings, Graph, Node};
use crate::select::Root;

pub(crate) const ABOUT: About = About {
    name: "graph",
    tells: "interprocess graph: wake-ups and bytes between processes, connected component of a root",
    needs: &[],
    uses: &[(Group::Ipc, "edges[].bytes")],
    hooks: &[Hook::Woken, Hook::Other],
    names_culprits: false,
    make: |setup| Parts::observing(Edges::new(setup)),
};

/// The most edges that are kept.
const EDGES_MAX: usize = 1 << 16;
/// The most channels that are kept while they have unread bytes.
const CHANNELS_MAX: usize = 1 << 14;
/// The most writers of unread bytes that are kept for one channel.
const WRITERS_MAX: usize = 64;

/// Wake-ups and bytes from one process to another, or between the threads of one process.
#[derive(Clone, Copy)]
struct EdgeCount {
    from: ProcessIndex,
    to: ProcessIndex,
    wakeups: u64,
    bytes: u64,
}

/// The edges that lead to one process, in order of the process that they come from. These processes are in a
/// list of their own, so that a search reads few cache lines.
#[derive(Default)]
struct Inward {
    from: Vec<ProcessIndex>,
    counted: Vec<EdgeCount>,
}

/// One process wakes another, or threads of its own.
#[derive(Clone, Copy)]
struct Wake {
    from: ProcessIndex,
    to: ProcessIndex,
}

impl Keyed for Wake {
    #[inline]
    fn key(&self) -> usize {
        self.to.at()
    }
}

struct Edges {
    root: Option<Root>,
    wakes: Batch<Wake>,
    groups: Groups<Wake>,
    grouper: Grouper,
    /// The edges, by the process that they lead to.
    to: Vec<Inward>,
    /// How many edges there are between different processes.
    edges: usize,
    /// The writers of the bytes that are in a channel, in order.
    under_way: FxHashMap<Channel, VecDeque<(ProcessIndex, u64)>>,
    wakeups_without_task: u64,
    wakeups_dropped: u64,
    bytes_without_writer: u64,
}

impl Edges {
    fn new(setup: &Setup<'_>) -> Edges {
        Edges {
            root: setup.options.root.clone(),
            wakes: Batch::new(),
            groups: Groups::new(),
            grouper: Grouper::default(),
            to: Vec::new(),
            edges: 0,
            under_way: FxHashMap::default(),
            wakeups_without_task: 0,
            wakeups_dropped: 0,
            bytes_without_writer: 0,
        }
    }

    #[cold]
    fn count(&mut self) {
        let (to, edges) = (&mut self.to, &mut self.edges);
        for wake in self.wakes.take(&mut self.groups, &mut self.grouper) {
            match edge(to, edges, wake.from, wake.to) {
                Some(edge) => edge.wakeups += 1,
                None => self.wakeups_dropped += 1,
            }
        }
    }

    fn ipc(&mut self, now: &Timeline, ipc: &Ipc) {
        let Some(task) = now.find(ipc.tid) else { return };
        let process = now.task(task).process();
        match ipc.direction {
            Direction::Write => self.write(ipc.channel, process, u64::from(ipc.bytes)),
            Direction::Read => self.read(ipc.channel, process, u64::from(ipc.bytes)),
        }
    }

    fn write(&mut self, channel: Channel, writer: ProcessIndex, bytes: u64) {
        if self.under_way.len() == CHANNELS_MAX && !self.under_way.contains_key(&channel) {
            self.under_way.retain(|_, writers| !writers.is_empty());
            if self.under_way.len() == CHANNELS_MAX {
                // This many channels with unread bytes have no reader in the trace: their bytes will have no
                // edge.
                self.under_way.clear();
            }
        }
        let writers = self.under_way.entry(channel).or_default();
        match writers.back_mut() {
            Some(last) if last.0 == writer => last.1 += bytes,
            _ => {
                if writers.len() == WRITERS_MAX {
                    writers.pop_front();
                }
                writers.push_back((writer, bytes));
            }
        }
    }

    /// The reader takes bytes in the order in which they were written.
    fn read(&mut self, channel: Channel, reader: ProcessIndex, mut bytes: u64) {
        while bytes > 0 {
            let writers = self.under_way.get_mut(&channel);
            let Some((writer, written)) = writers.and_then(|writers| writers.front_mut().map(|first| *first))
            else {
                self.bytes_without_writer += bytes;
                return;
            };
            let part = bytes.min(written);
            bytes -= part;
            if let Some(writers) = self.under_way.get_mut(&channel) {
                match writers.front_mut() {
                    Some(first) if first.1 > part => first.1 -= part,
                    _ => _ = writers.pop_front(),
                }
            }
            if writer != reader {
                if let Some(edge) = edge(&mut self.to, &mut self.edges, writer, reader) {
                    edge.bytes += part;
                }
            }
        }
    }
}

/// The edge between two processes; `None` if there are too many.
#[inline]
fn edge<'a>(
    all: &'a mut Vec<Inward>,
    edges: &mut usize,
    from: ProcessIndex,
    to: ProcessIndex,
) -> Option<&'a mut EdgeCount> {
    if to.at() >= all.len() {
        all.reserve_exact(to.at() + 1 - all.len() + to.at() / 16 + 64);
        all.resize_with(all.capacity(), Inward::default);
    }
    let inward = &mut all[to.at()];
    match inward.from.binary_search(&from) {
        Ok(at) => Some(&mut inward.counted[at]),
        Err(_) if from != to && *edges == EDGES_MAX => None,
        Err(at) => {
            *edges += usize::from(from != to);
            Some(inward.insert(at, EdgeCount { from, to, wakeups: 0, bytes: 0 }))
        }
    }
}

impl Inward {
    #[cold]
    fn insert(&mut self, at: usize, counted: EdgeCount) -> &mut EdgeCount {
        if self.from.len() == self.from.capacity() {
            // The lists do not grow by doubling: most processes have one waker or two.
            let more = 1 + self.from.len() / 4;
            self.from.reserve_exact(more);
            self.counted.reserve_exact(more);
        }
        self.from.insert(at, counted.from);
        self.counted.insert(at, counted);
        &mut self.counted[at]
    }
}

impl Observer for Edges {
    fn woken(&mut self, now: &Timeline, woken: &Woken) {
        let WaitCause::Woken { by: Holder::Task(waker), context: Context::Task } = woken.cause else {
            self.wakeups_without_task += u64::from(woken.cause != WaitCause::New);
            return;
        };
        let (from, to) = (now.task(waker).process(), now.task(woken.task).process());
        if self.wakes.put(Wake { from, to }) == Fill::Full {
            self.count();
        }
    }

    fn other(&mut self, now: &Timeline, event: &Stamped) {
        if let Event::Ipc(ipc) = &event.event {
            self.ipc(now, ipc);
        }
    }
}

impl Analysis for Edges {
    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        self.count();
        let has_ipc = closing.groups.contains(Group::Ipc);
        let inner: BTreeMap<ProcessIndex, u64> = self.all().filter_map(EdgeCount::inner).collect();
        let list: Vec<EdgeCount> = self.all().filter(|edge| edge.from != edge.to).collect();
        self.to = Vec::new();
        let mut nodes = nodes(&list, &inner, closing);
        let root = self.root.as_ref().and_then(|root| find_root(root, &nodes, closing.timeline));
        let distances = root.map(|root| distances(&list, root)).unwrap_or_default();
        for (process, node) in &mut nodes {
            node.distance = distances.get(process).copied();
        }
        let tgid = |process: ProcessIndex| closing.timeline.processes()[process.at()].tgid;
        let component = root.map(|root| {
            let mut members: Vec<(u32, ProcessIndex)> =
                distances.iter().map(|(&p, &steps)| (steps, p)).collect();
            members.sort_unstable();
            let tgids = members.into_iter().map(|(_, process)| tgid(process)).collect();
            Component { root_tgid: tgid(root), tgids }
        });
        let mut edges: Vec<Edge> = list
            .iter()
            .map(|edge| Edge {
                from_tgid: tgid(edge.from),
                to_tgid: tgid(edge.to),
                wakeups: edge.wakeups,
                bytes: has_ipc.then_some(edge.bytes),
            })
            .collect();
        edges.sort_by_key(|edge| (Reverse(edge.wakeups), Reverse(edge.bytes), edge.from_tgid, edge.to_tgid));
        let mut nodes: Vec<Node> = nodes.into_values().collect();
        nodes.sort_by_key(|node| (Reverse(node.runtime_ns), node.tgid));
        findings.graph = Some(Graph {
            nodes,
            edges,
            component,
            wakeups_without_task: self.wakeups_without_task,
            wakeups_dropped: self.wakeups_dropped,
            bytes_without_writer: has_ipc.then_some(self.bytes_without_writer),
        });
    }
}

impl Edges {
    /// All edges, in order of the process that they lead to.
    fn all(&self) -> impl Iterator<Item = EdgeCount> {
        self.to.iter().flat_map(|inward| &inward.counted).copied()
    }
}

impl EdgeCount {
    /// The process and its wake-ups, if the waker and the woken thread belong to the same process.
    fn inner(self) -> Option<(ProcessIndex, u64)> {
        (self.from == self.to).then_some((self.to, self.wakeups))
    }
}

/// Every process with an edge, or with threads that wake each other.
fn nodes(
    list: &[EdgeCount],
    inner: &BTreeMap<ProcessIndex, u64>,
    closing: &Closing<'_>,
) -> BTreeMap<ProcessIndex, Node> {
    let with_edges = list.iter().flat_map(|edge| [edge.from, edge.to]);
    let mut nodes: BTreeMap<ProcessIndex, Node> = with_edges
        .chain(inner.keys().copied())
        .map(|process| {
            let named = closing.process(process);
            let inner_wakeups = inner.get(&process).copied().unwrap_or(0);
            let (tgid, comm) = (named.tgid, named.comm);
            let runtime_ns = closing.process_runtime_ns[process.at()];
            (process, Node { tgid, comm, threads: 0, runtime_ns, inner_wakeups, distance: None })
        })
        .collect();
    let seen = |index: &TaskIndex| closing.timeline.task(*index).is_seen();
    for index in closing.timeline.task_indices().filter(seen) {
        if let Some(node) = nodes.get_mut(&closing.timeline.task(index).process()) {
            node.threads += 1;
        }
    }
    nodes
}

/// Steps from the root to each process that it reaches along edges in either direction.
fn distances(list: &[EdgeCount], root: ProcessIndex) -> BTreeMap<ProcessIndex, u32> {
    let mut neighbours: BTreeMap<ProcessIndex, Vec<ProcessIndex>> = BTreeMap::new();
    for edge in list {
        neighbours.entry(edge.from).or_default().push(edge.to);
        neighbours.entry(edge.to).or_default().push(edge.from);
    }
    let mut distances = BTreeMap::from([(root, 0)]);
    let mut queue = VecDeque::from([(root, 0)]);
    while let Some((process, steps)) = queue.pop_front() {
        for &next in neighbours.get(&process).into_iter().flatten() {
            distances.entry(next).or_insert_with(|| {
                queue.push_back((next, steps + 1));
                steps + 1
            });
        }
    }
    distances
}

/// The process that `root` means; if several processes have the name or number, the process with the
/// longest run time.
fn find_root(root: &Root, nodes: &BTreeMap<ProcessIndex, Node>, timeline: &Timeline) -> Option<ProcessIndex> {
    let inner_tgid = |process: ProcessIndex| {
        let leader = timeline.processes()[process.at()].leader;
        timeline.inner(leader).map(|inner| inner.tgid)
    };
    let fits = |process: ProcessIndex, node: &Node| match root {
        Root::Tgid(tgid) => node.tgid == *tgid || inner_tgid(process) == Some(*tgid),
        Root::Name(name) => node.comm.as_bytes() == name.as_bytes(),
    };
    let candidates = nodes.iter().filter(|&(&process, node)| fits(process, node));
    candidates.max_by_key(|(_, node)| node.runtime_ns).map(|(&process, _)| process)
}
