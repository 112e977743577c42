//! Measures the time of one round of the policy, from reading the mapped arrays to the last verdict's word.
//! There are 1,000 processes that have 12 edges each.

use std::os::fd::AsRawFd;
use std::time::Instant;

use anyhow::{Result, ensure};
use spry_policy::{Changes, Constants, Device, DeviceOwner, Due, Graph, Place, Policy, Sample, Server, Tgid};
use spry_scheduler::actuator::Verdict;
use spry_scheduler::collect::Collector;
use spry_scheduler::intf::{spry_collected, spry_edge, spry_node};
use spry_scheduler::nodes::{EDGES_MAX, NODES_MAX};
use spry_scheduler::verdict_word::VerdictWord;

const PROCESSES: u32 = 1_000;
const ROUNDS: usize = 1_000;

/// The first process number of this example. Its numbers are above the kernel's limit, so all are free.
const FIRST: u32 = 5_000_000;

/// A generator of random numbers (xorshift), which are the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 32) as u32 % most
    }
}

/// The name of a node of this example. Its place in the array lies above the places of the
/// processes that exist.
const fn name(at: u32, base: u32) -> u32 {
    (1 << 16) | (base + at)
}

/// Makes a second mapping of an array, to which the kernel's programs write as well.
fn map<Element>(collector: &Collector, name: &str, len: usize) -> Result<*mut Element> {
    let (bytes, protection) = (len * size_of::<Element>(), libc::PROT_READ | libc::PROT_WRITE);
    let fd = collector.map(name)?.as_raw_fd();
    // SAFETY: a new mapping of an open file, which stays to the end.
    let place = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
    ensure!(place != libc::MAP_FAILED, "mapping {name}: {}", std::io::Error::last_os_error());
    Ok(place.cast())
}

/// Writes the data into the nodes that the kernel's programs would have written in a second.
fn fill(nodes: *mut spry_node, base: u32, numbers: &mut Numbers) {
    for at in 0..PROCESSES {
        let mut edges = [spry_edge { on: 0, count: 0 }; EDGES_MAX];
        for (far, edge) in (1..).zip(&mut edges) {
            // The first edges lead to processes nearby, as edges between processes that a person uses do. The
            // later edges lead further and further away.
            let on = (at + far * far * 31) % PROCESSES;
            *edge = spry_edge { on: name(on, base), count: 1 + numbers.below(60) };
        }
        let node = spry_node {
            tgid: FIRST + at,
            ref_: name(at, base),
            verdict: 0,
            ran_ns: 0,
            user: 0,
            pad: 0,
            edges,
        };
        // SAFETY: the place is within the array and belongs to no process.
        unsafe { nodes.add((base + at) as usize).write_volatile(node) };
    }
}

fn main() -> Result<()> {
    let constants = Constants::default();
    let mut collector = Collector::open(&constants)?;
    let nodes = map::<spry_node>(&collector, "nodes", NODES_MAX)?;
    let counts = map::<spry_collected>(&collector, "collected", 1)?;
    let mut numbers = Numbers(0x5eed_5eed_5eed_5eed);
    let (mut graph, mut policy) = (Graph::new(), Policy::new(constants));
    let base = collector.nodes().used().len() as u32 + 500;
    // SAFETY: the array has one element, and this is it.
    unsafe { (&raw mut (*counts).used).write_volatile(base + PROCESSES) };
    let changes = Changes { input: 8, output_ppm: 300_000 };
    let device = Device { place: Place::Display(0), whose: DeviceOwner::User(1000) };
    let sample = |at: u32| Sample { tgid: Tgid(FIRST + 1 + at * 7), device, changes };
    let samples: Vec<Sample> = (0..20).map(sample).collect();
    let servers = [Server { tgid: Tgid(FIRST), device: Some(device) }];
    let (mut times_us, mut reached, mut heaviest) = (Vec::new(), 0, 0);
    for round in 0..ROUNDS + 10 {
        fill(nodes, base, &mut numbers);
        let start = Instant::now();
        let drained = collector.drain(&mut graph);
        let standings = policy.round(&mut graph, &servers, &samples, Due::Regular);
        for standing in &standings {
            let word = VerdictWord::from(&Verdict::from(standing));
            if let Some(name) = collector.find(standing.tgid) {
                collector.nodes().set_verdict(name, word);
            }
        }
        let took_us = start.elapsed().as_nanos() as f64 / 1e3;
        ensure!(!drained.gone.iter().any(|tgid| tgid.0 >= FIRST), "the array was disturbed");
        // The first rounds do not count: everything is new in them.
        if round >= 10 {
            times_us.push(took_us);
        }
        (reached, heaviest) = (standings.len(), heaviest.max(graph.len()));
    }
    times_us.sort_by(f64::total_cmp);
    let at = |percent: usize| times_us[(times_us.len() - 1) * percent / 100];
    println!(
        "{ROUNDS} rounds: {heaviest} processes, {} edges each, {reached} reached and judged",
        graph.outgoing(Tgid(FIRST)).len()
    );
    println!(
        "us: median {:.0}, 10 to 90 % {:.0} to {:.0}, 99 % {:.0}, most {:.0}",
        at(50),
        at(10),
        at(90),
        at(99),
        at(100)
    );
    Ok(())
}
