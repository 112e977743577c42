//! The graph of PipeWire, from its own tools: `pw-dump` reports the process of each node, and `pw-top` the
//! running nodes, their drivers, and the length of a period.

use std::collections::BTreeMap;

use serde_json::Value;

/// A node that runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The node's number.
    pub id: u32,
    /// The node's name.
    pub name: String,
    /// The process of the node.
    pub tgid: u32,
    /// The number of the node that drives it; the driver's own number if it drives itself.
    pub driver: u32,
    /// The frames of a period.
    pub quantum: u64,
    /// The frames of a second.
    pub rate: u64,
}

impl Node {
    /// The length of a period, ns.
    pub const fn period_ns(&self) -> u64 {
        (self.quantum * 1_000_000_000 + self.rate / 2) / self.rate
    }
}

/// The objects that `pw-dump` has reported so far, by their numbers.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    by_id: BTreeMap<u32, Value>,
}

/// A node as a table of `pw-top` shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    id: u32,
    driver: u32,
    quantum: u64,
    rate: u64,
}

impl Objects {
    /// Takes one array of objects: all objects at first, then the changed objects. A removed object has
    /// neither `info` nor `metadata`. Returns whether the graph may have changed. A client without nodes is
    /// no part of the graph: `pw-top` is such a client each time it runs.
    pub fn take(&mut self, told: Value) -> bool {
        let Value::Array(objects) = told else { return false };
        let mut changed = Vec::new();
        for object in objects {
            let Some(id) = number(&object["id"]) else { continue };
            if object["info"].is_null() && object["metadata"].is_null() {
                changed.extend(self.by_id.remove(&id).map(|object| (id, is_client(&object))));
            } else {
                changed.push((id, is_client(&object)));
                self.by_id.insert(id, object);
            }
        }
        let has_node = |id| self.by_id.values().any(|object| client_of(object) == Some(id));
        changed.into_iter().any(|(id, is_client)| !is_client || has_node(id))
    }

    /// The process of a node: the client's, as the kernel reported it to the server; the server's own if
    /// there is no client.
    fn tgid(&self, node: &Value) -> Option<u32> {
        let client = client_of(node).and_then(|id| self.by_id.get(&id));
        match client {
            Some(client) => number(&client["info"]["props"]["pipewire.sec.pid"]),
            None => self.by_id.values().find_map(|object| {
                let is_core = object["type"].as_str().is_some_and(|kind| kind.ends_with(":Core"));
                is_core.then(|| number(&object["info"]["props"]["application.process.id"])).flatten()
            }),
        }
    }

    /// The nodes that run.
    pub fn nodes(&self, running: &[Line]) -> Vec<Node> {
        let node = |line: &Line| {
            let object = self.by_id.get(&line.id)?;
            let name = object["info"]["props"]["node.name"].as_str().unwrap_or_default();
            let Line { id, driver, quantum, rate } = *line;
            Some(Node { id, name: name.to_owned(), tgid: self.tgid(object)?, driver, quantum, rate })
        };
        running.iter().filter_map(node).collect()
    }
}

/// The nodes that run, from the last table that `pw-top -b` printed. The followers of a driver are below it,
/// with names that begin with `+`. The first words of a line are the node's state, number, quantum and rate.
pub fn running(text: &str) -> Vec<Line> {
    let rows: Vec<&str> = text.lines().collect();
    let is_head = |row: &&str| row.contains("QUANT") && row.contains("RATE");
    let Some(head) = rows.iter().rposition(is_head) else { return Vec::new() };
    let mut lines: Vec<Line> = Vec::new();
    let mut driver: Option<Line> = None;
    for row in &rows[head + 1..] {
        let words: Vec<&str> = row.split_whitespace().collect();
        let [state, id, quantum, rate, ..] = words[..] else { continue };
        let (Ok(id), Ok(quantum), Ok(rate)) = (id.parse(), quantum.parse(), rate.parse()) else { continue };
        let follows = words.iter().skip(WORDS_BEFORE_NAMES).any(|&word| word == "+");
        let mut line = Line { id, driver: id, quantum, rate };
        match &driver {
            // A follower has the period of its driver, whatever period it asks for.
            Some(driver) if follows => {
                line = Line { id, ..driver.clone() };
            }
            _ => driver = Some(line.clone()),
        }
        if state == "R" && line.quantum > 0 && line.rate > 0 {
            lines.push(line);
        }
    }
    lines
}

/// How many words of a line come before the format and the name.
const WORDS_BEFORE_NAMES: usize = 9;

fn is_client(object: &Value) -> bool {
    object["type"].as_str().is_some_and(|kind| kind.ends_with(":Client"))
}

/// The number of the client to which an object belongs.
fn client_of(object: &Value) -> Option<u32> {
    number(&object["info"]["props"]["client.id"])
}

/// A number, which some versions write as a text.
fn number(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TOP: &str = "\
S   ID  QUANT   RATE    WAIT    BUSY   W/Q   B/Q  ERR FORMAT           NAME
R   29    999  48000   7.5us   2.5us  0.00  0.00  171     F32P 2 48000 spry-sink
S   ID  QUANT   RATE    WAIT    BUSY   W/Q   B/Q  ERR FORMAT           NAME
S   28      0      0    ---     ---   ---   ---     0                  Dummy-Driver
R   29    128  48000   7.5us   2.5us  0.00  0.00  171     F32P 2 48000 spry-sink
R   45    512  44100  24.0us   2.9us  0.01  0.00  348    S16LE 2 48000  + a player
S   46      0      0    ---     ---   ---   ---     0                   + another
R   50   1024  44100   1.0us   1.0us  0.00  0.00    0                  other-sink
";

    fn objects() -> Objects {
        let mut objects = Objects::default();
        objects.take(json!([
            { "id": 0, "type": "PipeWire:Interface:Core",
              "info": { "props": { "application.process.id": 100 } } },
            { "id": 29, "type": "PipeWire:Interface:Node",
              "info": { "props": { "node.name": "spry-sink" } } },
            { "id": 44, "type": "PipeWire:Interface:Client",
              "info": { "props": { "pipewire.sec.pid": "222" } } },
            { "id": 45, "type": "PipeWire:Interface:Node",
              "info": { "props": { "node.name": "a player", "client.id": 44 } } },
            { "id": 50, "type": "PipeWire:Interface:Node", "info": { "props": { "client.id": 44 } } },
        ]));
        objects
    }

    #[test]
    fn followers_have_their_driver_s_period_and_the_kernel_s_tgids() {
        let nodes = objects().nodes(&running(TOP));
        let seen: Vec<_> =
            nodes.iter().map(|node| (node.id, node.tgid, node.driver, node.quantum, node.rate)).collect();
        assert_eq!(
            seen,
            [(29, 100, 29, 128, 48_000), (45, 222, 29, 128, 48_000), (50, 222, 50, 1024, 44_100)]
        );
        assert_eq!(nodes[0].period_ns(), 2_666_667);
    }

    #[test]
    fn an_object_that_is_gone_is_no_running_node() {
        let mut objects = objects();
        objects.take(json!([{ "id": 45, "info": null }]));
        objects.take(json!({ "id": 29, "info": null }));
        let nodes = objects.nodes(&running(TOP));
        assert_eq!(nodes.iter().map(|node| node.id).collect::<Vec<_>>(), [29, 50]);
    }

    #[test]
    fn a_client_without_nodes_does_not_change_the_graph() {
        let mut objects = objects();
        let client = |id: u32| json!([{ "id": id, "type": "PipeWire:Interface:Client", "info": {} }]);
        assert!(!objects.take(client(60)));
        assert!(!objects.take(json!([{ "id": 60, "info": null }])));
        assert!(!objects.take(json!([{ "id": 61, "info": null }])));
        assert!(objects.take(client(44)));
        assert!(objects.take(json!([{ "id": 45, "info": null }])));
    }

    #[test]
    fn any_text_is_a_table_or_none() {
        for text in ["", "pw-top: can't connect", "S ID QUANT RATE\nR x y z\nR 1\n\nR 7 0 0 + + + + + + + +"]
        {
            assert_eq!(running(text), [], "{text}");
        }
    }
}
