//! `graph` on a terminal: the wake-ups between processes, and the processes connected with the root.

use std::collections::BTreeMap;

use spry_analysis::findings::Findings;
use spry_page::words::{bytes, count, duration};
use spry_trace::Tgid;

use super::style::{Style, Table, Tone};
use super::{ROWS_MAX, or_dash};
use crate::words;

pub(super) fn render(findings: &Findings, style: Style) -> Option<String> {
    let graph = findings.graph.as_ref()?;
    let names: BTreeMap<Tgid, String> = graph
        .nodes
        .iter()
        .map(|node| (node.tgid, format!("{} {}", words::comm(&node.comm), node.tgid)))
        .collect();
    let name = |tgid| names.get(&tgid).cloned().unwrap_or_else(|| format!("process {tgid}"));
    let mut edges = Table::new("from", &["wake-ups", "bytes"]).and_text("to");
    for edge in graph.edges.iter().take(ROWS_MAX / 2) {
        edges.row([
            name(edge.from_tgid),
            count(edge.wakeups),
            or_dash(edge.bytes, bytes),
            name(edge.to_tgid),
        ]);
    }
    let mut nodes = Table::new("process", &["threads", "run", "inner wake-ups", "steps from root"]);
    for node in graph.nodes.iter().take(ROWS_MAX / 2) {
        nodes.row([
            name(node.tgid),
            count(u64::from(node.threads)),
            duration(node.runtime_ns),
            count(node.inner_wakeups),
            or_dash(node.distance, |steps| steps.to_string()),
        ]);
    }
    let mut text = edges.render(style) + &nodes.render(style);
    if let Some(component) = &graph.component {
        let members: Vec<String> = component.tgids.iter().take(ROWS_MAX).map(|&tgid| name(tgid)).collect();
        let intro = format!(
            "Connected with {}: {} of {} processes: {}.",
            name(component.root_tgid),
            component.tgids.len(),
            graph.nodes.len(),
            members.join(", ")
        );
        text += &style.wrap(Tone::Plain, 2, &intro);
    }
    let rest = format!(
        "{} wake-ups by interrupts make no edge; {} on edges beyond the limit are not shown.",
        count(graph.wakeups_without_task),
        count(graph.wakeups_dropped)
    );
    Some(text + &style.wrap(Tone::Faint, 2, &rest))
}
