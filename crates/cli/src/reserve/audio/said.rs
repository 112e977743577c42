//! The output of `spry reserve --audio`, as text or as one object of JSON a line.

use anyhow::Result;
use serde_json::{Value, json};
use spry_control::OpenedReservation;
use spry_page::words::duration;
use spry_reservations::exact_us;

use super::busy::AudioThread;
use super::graph::Node;
use crate::output;
use crate::top::plain;

/// How events are printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Text,
    Json,
}

/// The printer of events.
#[derive(Clone, Copy, Debug)]
pub struct EventPrinter(Form);

impl EventPrinter {
    pub fn new(form: Form) -> EventPrinter {
        EventPrinter(form)
    }

    fn say(self, text: &str, event: &Value) -> Result<()> {
        match self.0 {
            Form::Text if text.is_empty() => Ok(()),
            Form::Text => output::print(&(plain(text) + "\n")),
            Form::Json => output::print(&format!("{event}\n")),
        }
    }

    /// The nodes that run.
    pub fn graph(self, nodes: &[Node]) -> Result<()> {
        let node = |node: &Node| {
            let Node { id, name, tgid, driver, quantum, rate } = node;
            json!({
                "id": id, "name": name, "tgid": tgid, "driver": driver, "quantum": quantum, "rate": rate,
            })
        };
        let all: Vec<Value> = nodes.iter().map(node).collect();
        self.say(&drivers(nodes), &json!({ "event": "graph", "nodes": all }))
    }

    /// A thread has a reservation now.
    pub fn reserved(self, thread: &AudioThread, opened: &OpenedReservation, ran_ns: u64) -> Result<()> {
        let AudioThread { tgid, tid, comm, .. } = thread;
        let terms = opened.terms;
        let text = format!(
            "  {} of every {} on CPU {} for {comm} (thread {tid} of {tgid}, slot {}, by {}), which runs {} \
             of a period in 99 of 100 cases",
            exact_us(terms.budget_ns),
            exact_us(terms.period_ns),
            opened.cpu,
            opened.slot,
            opened.enforcer,
            duration(ran_ns),
        );
        let text = opened.notes.iter().fold(text, |text, note| text + "; " + note);
        let event = json!({
            "event": "reserved", "tid": tid, "tgid": tgid, "comm": comm, "slot": opened.slot,
            "cpu": opened.cpu, "budget_ns": terms.budget_ns, "period_ns": terms.period_ns,
            "ran_p99_ns": ran_ns,
            "enforcer": opened.enforcer, "notes": opened.notes,
        });
        self.say(&text, &event)
    }

    /// A thread's reservation was refused.
    pub fn refused(self, thread: &AudioThread, budget_ns: u64, why: &str) -> Result<()> {
        let AudioThread { tgid, tid, comm, period_ns } = thread;
        let text = format!(
            "  not reserved: {} of every {} for {comm} (thread {tid} of {tgid}): {why}",
            exact_us(budget_ns),
            exact_us(*period_ns),
        );
        let event = json!({
            "event": "refused", "tid": tid, "tgid": tgid, "comm": comm, "budget_ns": budget_ns,
            "period_ns": period_ns, "text": why,
        });
        self.say(&text, &event)
    }

    /// A thread has no reservation any more.
    pub fn released(self, thread: &AudioThread) -> Result<()> {
        let AudioThread { tgid, tid, comm, .. } = thread;
        let event = json!({ "event": "released", "tid": tid, "tgid": tgid, "comm": comm });
        self.say(&format!("  released: {comm} (thread {tid} of {tgid})"), &event)
    }

    /// A thread cannot have its real-time class back.
    pub fn lost_class(self, thread: &AudioThread, why: &str) -> Result<()> {
        let AudioThread { tgid, tid, comm, .. } = thread;
        let text = format!(
            "  {comm} (thread {tid} of {tgid}) cannot have its real-time class back ({why}): restart its \
             program"
        );
        self.say(&text, &json!({ "event": "lost_class", "tid": tid, "tgid": tgid, "text": why }))
    }

    /// All that fits of the graph is reserved.
    pub fn current(self, reserved: usize, refused: usize) -> Result<()> {
        let text = match (reserved, refused) {
            (_, 0) => String::new(),
            (reserved, refused) => format!(
                "{reserved} of {} threads have a reservation: what did not fit runs as before",
                reserved + refused
            ),
        };
        self.say(&text, &json!({ "event": "current", "reserved": reserved, "refused": refused }))
    }

    /// PipeWire has ended.
    pub fn gone(self) -> Result<()> {
        self.say("PipeWire has ended; waiting for it", &json!({ "event": "gone" }))
    }
}

/// The drivers and how many nodes each has.
fn drivers(nodes: &[Node]) -> String {
    let driver = |driver: &Node| {
        let followers = nodes.iter().filter(|node| node.driver == driver.id && node.id != driver.id).count();
        format!(
            "{} drives {followers} {}: {} frames at {} Hz, a period of {}",
            driver.name,
            if followers == 1 { "node" } else { "nodes" },
            driver.quantum,
            driver.rate,
            exact_us(driver.period_ns())
        )
    };
    let lines: Vec<String> = nodes.iter().filter(|node| node.driver == node.id).map(driver).collect();
    if lines.is_empty() { "nothing plays".to_owned() } else { lines.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_driver_is_a_line() {
        let node =
            |id, driver| Node { id, name: format!("n{id}"), tgid: 1, driver, quantum: 128, rate: 48_000 };
        let said = drivers(&[node(1, 1), node(2, 1), node(3, 3)]);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "n1 drives 1 node: 128 frames at 48000 Hz, a period of 2666.667us");
        assert!(lines.len() == 2 && lines[1].starts_with("n3 drives 0 nodes"), "{said}");
        assert_eq!(drivers(&[]), "nothing plays");
    }
}
