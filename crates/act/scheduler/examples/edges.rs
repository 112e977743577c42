//! Prints the dependencies between the processes of this machine, second by second.

use std::time::Duration;

use spry_policy::{Constants, Graph, Tgid};
use spry_scheduler::collect::Collector;

fn name(tgid: Tgid) -> String {
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", tgid.0)).unwrap_or_default();
    format!("{} ({})", comm.trim(), tgid.0)
}

fn main() -> anyhow::Result<()> {
    let seconds: u32 = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let mut collector = Collector::open(&Constants::default())?;
    let mut graph = Graph::new();
    for _ in 0..seconds {
        std::thread::sleep(Duration::from_secs(1));
        let drained = collector.drain(&mut graph);
        let (edges, nodes) = (collector.nodes().lost_edges(), collector.nodes().lost_nodes());
        println!("gone: {}, not kept so far: {edges} edges, {nodes} nodes", drained.gone.len());
        let owners = collector.nodes().used().iter().filter_map(|node| node.owner());
        for (tgid, _) in owners {
            for edge in graph.outgoing(tgid) {
                println!("  {} -> {} {}", name(tgid), name(edge.on), edge.weight);
            }
        }
        graph.halve();
    }
    Ok(())
}
