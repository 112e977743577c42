//! The picture of wake-ups between processes: a force-directed layout, fixed for the same findings, as SVG.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::fmt::Write as _;

use spry_analysis::findings::{Edge, Graph, Node};
use spry_page::escape;
use spry_page::words::{bytes, count, duration};
use spry_trace::Tgid;

use crate::words;

const WIDTH: f64 = 1_080.0;
const HEIGHT: f64 = 620.0;
const NODES_MAX: usize = 40;
const EDGES_MAX: usize = 100;
const ROUNDS: usize = 300;

/// The picture; empty where there is no edge to draw.
pub(super) fn picture(graph: &Graph) -> String {
    let edges = &graph.edges[..graph.edges.len().min(EDGES_MAX)];
    let (nodes, edges) = chosen(&graph.nodes, edges);
    if edges.is_empty() {
        return String::new();
    }
    let places = layout(&nodes, &edges);
    let mut svg = format!(
        "<svg id=\"graph\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"Wakers and woken processes\">\
         <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" \
         markerHeight=\"7\" markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 \
         8z\"/></marker></defs>"
    );
    let most = edges.iter().map(|edge| edge.2.wakeups).max().unwrap_or(1).max(1) as f64;
    for &(from, to, edge) in &edges {
        svg += &arrow(&nodes, &places, from, to, edge, most);
    }
    let root = graph.component.as_ref().map(|component| component.root_tgid);
    for (node, place) in nodes.iter().zip(&places) {
        svg += &bubble(node, *place, root);
    }
    svg + "</svg>"
}

/// The nodes of the heaviest edges, and these edges by the nodes' places in the list.
fn chosen<'a>(nodes: &'a [Node], edges: &'a [Edge]) -> (Vec<&'a Node>, Vec<(usize, usize, &'a Edge)>) {
    let by_tgid: BTreeMap<Tgid, &Node> = nodes.iter().map(|node| (node.tgid, node)).collect();
    let mut places: BTreeMap<Tgid, usize> = BTreeMap::new();
    let (mut drawn, mut links) = (Vec::new(), Vec::new());
    for edge in edges {
        let ends = [edge.from_tgid, edge.to_tgid];
        let new = ends.iter().filter(|end| !places.contains_key(end)).count();
        if drawn.len() + new > NODES_MAX
            || edge.from_tgid == edge.to_tgid
            || ends.iter().any(|end| !by_tgid.contains_key(end))
        {
            continue;
        }
        let [from, to] = ends.map(|end| {
            *places.entry(end).or_insert_with(|| {
                drawn.push(by_tgid[&end]);
                drawn.len() - 1
            })
        });
        links.push((from, to, edge));
    }
    (drawn, links)
}

/// The layout of Fruchterman and Reingold 1991: nodes repel each other, edges attract, movements cool down.
fn layout(nodes: &[&Node], edges: &[(usize, usize, &Edge)]) -> Vec<(f64, f64)> {
    let count = nodes.len() as f64;
    // A start on a spiral depends on nothing but the order of the nodes.
    let mut places: Vec<(f64, f64)> = (0..nodes.len())
        .map(|at| {
            let turn = at as f64 * TAU * 0.381_966;
            let reach = ((at as f64 + 0.5) / count).sqrt() * 0.45;
            (WIDTH * (0.5 + reach * turn.cos()), HEIGHT * (0.5 + reach * turn.sin()))
        })
        .collect();
    let spacing = 0.8 * (WIDTH * HEIGHT / count).sqrt();
    for round in 0..ROUNDS {
        let reach = WIDTH * 0.08 * (1.0 - round as f64 / ROUNDS as f64);
        let forces = forces(&places, edges, spacing);
        for (place, force) in places.iter_mut().zip(forces) {
            let strength = force.0.hypot(force.1).max(1e-9);
            let step = strength.min(reach) / strength;
            place.0 += force.0 * step;
            place.1 += force.1 * step;
        }
    }
    fit(&mut places);
    places
}

/// Stretches the places over the picture, with room for disks and names at its edges.
fn fit(places: &mut [(f64, f64)]) {
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        let values = places.iter().map(of);
        (values.clone().fold(f64::MAX, f64::min), values.fold(f64::MIN, f64::max))
    };
    let ((left, right), (top, bottom)) = (bounds(|place| place.0), bounds(|place| place.1));
    let stretch = |value: f64, low: f64, high: f64, size: f64, margin: f64| {
        // A single row or column of nodes stays in the middle; few nodes are not torn apart.
        let scale = ((size - 2.0 * margin) / (high - low).max(1.0)).min(1.6);
        size / 2.0 + (value - (low + high) / 2.0) * scale
    };
    for place in places {
        *place = (stretch(place.0, left, right, WIDTH, 80.0), stretch(place.1, top, bottom, HEIGHT, 44.0));
    }
}

fn forces(places: &[(f64, f64)], edges: &[(usize, usize, &Edge)], spacing: f64) -> Vec<(f64, f64)> {
    let mut forces: Vec<(f64, f64)> =
        places.iter().map(|place| ((WIDTH / 2.0 - place.0) * 0.35, (HEIGHT / 2.0 - place.1) * 0.6)).collect();
    for one in 0..places.len() {
        for other in 0..places.len() {
            let (dx, dy) = (places[one].0 - places[other].0, places[one].1 - places[other].1);
            let distance = dx.hypot(dy).max(1.0);
            if one != other {
                let push = spacing * spacing / (distance * distance);
                forces[one].0 += dx * push;
                forces[one].1 += dy * push;
            }
        }
    }
    for &(from, to, _) in edges {
        let (dx, dy) = (places[to].0 - places[from].0, places[to].1 - places[from].1);
        let pull = dx.hypot(dy) / spacing * 0.4;
        forces[from].0 += dx * pull;
        forces[from].1 += dy * pull;
        forces[to].0 -= dx * pull;
        forces[to].1 -= dy * pull;
    }
    forces
}

fn radius(node: &Node) -> f64 {
    // The radius is 6 for no run time, about 14 for a second, 28 for a minute.
    6.0 + 8.0 * (1.0 + node.runtime_ns as f64 / 1e8).log10()
}

fn arrow(nodes: &[&Node], places: &[(f64, f64)], from: usize, to: usize, edge: &Edge, most: f64) -> String {
    let ((x1, y1), (x2, y2)) = (places[from], places[to]);
    let (dx, dy) = (x2 - x1, y2 - y1);
    let length = dx.hypot(dy).max(1.0);
    let (ux, uy) = (dx / length, dy / length);
    // The line is bent to one side, so that the two directions between a pair are two lines.
    let (bx, by) = ((x1 + x2) / 2.0 - uy * length * 0.12, (y1 + y2) / 2.0 + ux * length * 0.12);
    let (r1, r2) = (radius(nodes[from]), radius(nodes[to]) + 3.0);
    let width = 1.0 + 4.0 * ((edge.wakeups as f64 + 1.0).ln() / (most + 1.0).ln());
    let bytes = edge.bytes.map(|number| format!(", {}", bytes(number))).unwrap_or_default();
    let title = format!(
        "{} wakes {}: {} wake-ups{bytes}",
        words::comm(&nodes[from].comm),
        words::comm(&nodes[to].comm),
        count(edge.wakeups),
    );
    format!(
        "<path class=\"edge\" stroke-width=\"{width:.1}\" marker-end=\"url(#tip)\" \
         d=\"M{:.1} {:.1}Q{bx:.1} {by:.1} {:.1} {:.1}\"><title>{}</title></path>",
        x1 + ux * r1,
        y1 + uy * r1,
        x2 - ux * r2,
        y2 - uy * r2,
        escape(&title)
    )
}

fn bubble(node: &Node, (x, y): (f64, f64), root: Option<Tgid>) -> String {
    let class = match node.distance {
        _ if root == Some(node.tgid) => "node root",
        Some(_) => "node reached",
        None => "node",
    };
    let name = words::comm(&node.comm);
    let title = format!(
        "{name} {}: ran {} in {} threads, {} wake-ups inside",
        node.tgid,
        duration(node.runtime_ns),
        node.threads,
        count(node.inner_wakeups)
    );
    let mut svg = format!("<g class=\"{class}\"><title>{}</title>", escape(&title));
    let r = radius(node);
    _ = write!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{r:.1}\"/>");
    _ = write!(svg, "<text x=\"{x:.1}\" y=\"{:.1}\">{}</text></g>", y + r + 12.0, escape(&name));
    svg
}
