//! Every number of the policy, by name: the numbers of the thesis, and the default numbers, which differ from
//! the thesis in some places.

/// The rule by which the quantum of each level is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LevelQuanta {
    /// The quantum is halved from one occupied level to the next occupied level (thesis, 8.3.3).
    Occupied,
    /// The quantum is halved from one level number to the next. Level 0 (the display server) and level
    /// 1 (the best possible client) have the first quantum. Which other processes are interactive
    /// changes no quantum.
    Numbered,
}

/// The rule by which a woken task of the interactive class takes the CPU from the task that runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeRule {
    /// The woken task takes the CPU if it has more of its quantum left (thesis, 8.3.3).
    MoreLeft,
    /// The woken task takes the CPU if its level is lower, or if the levels are equal and it has more of its
    /// quantum left: a task that waits for the user goes before a task that computes for the user.
    LowerLevel,
}

/// The measure by which the processes that receive input are ranked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputRank {
    /// The processes are ranked by their averages (thesis, 8.3.2).
    Average,
    /// The processes are ranked by the input of the latest second, if any process received input in that
    /// second. A process that the user typed at before keeps most of its average for two seconds more: by
    /// averages, it would rank with the process that the user has turned to. A process without input in the
    /// second before, and with input in this second, ranks with the best process at once.
    LatestSecond,
}

/// Whether a terminal's holder depends on the processes that write to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writers {
    /// The holder waits for all writers, so it depends on them (thesis, 8.2.1).
    Count,
    /// The holder depends only on the process that reads the characters typed at the terminal: the user does
    /// not use a compiler that only prints there.
    DoNotCount,
}

/// The events that count as a wait of one process for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// A wait counts when the other process tests whether the first process is to be woken, where the kernel
    /// shows that test. Whether the first process sleeps does not matter (thesis, 8.2.1).
    Tested,
    /// A wait counts when one process sleeps and the other wakes it. A process that reads from a full pipe or
    /// socket depends on the process that waits to write more, too: the reader does not wait only because the
    /// writer is early, and it would wait as soon as the writer is late.
    Asleep,
}

/// Whether a process depends on the processes that it serves or watches: clients that send requests to a
/// socket at which it listens, and processes that change files that it watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServedProcesses {
    /// The process waits for all of them, so it depends on them (thesis, 8.2.1).
    Count,
    /// The process does not depend on them: it waits only for their requests, or for changes that they make
    /// for their own sake. If a server in use depended on its clients, its place would pass to any client
    /// that keeps it busy.
    DoNotCount,
}

/// The processes to which the search goes from a display server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerEdges {
    /// The search goes to all processes that the server waits for, as from any other process (thesis, 8.3.2).
    All,
    /// The search goes only to the clients that received input or drew on the screen, as the eyes of the
    /// display report. A server waits for requests of any client. A client that only sends requests shows
    /// nothing to the user, and must not gain by sending more of them.
    Told,
}

/// A constant in which the default departs from the thesis: its name, and how it is set to the thesis' value.
type Departure = (&'static str, fn(&mut Constants, &Constants));

const DEPARTURES: [Departure; 14] = [
    ("early-ns", |own, thesis| own.early_ns = thesis.early_ns),
    ("early-gap-ns", |own, thesis| own.early_gap_ns = thesis.early_gap_ns),
    ("input-scale", |own, thesis| own.input_scale = thesis.input_scale),
    ("input-rank", |own, thesis| own.input_rank = thesis.input_rank),
    ("output-least", |own, thesis| own.output_least = thesis.output_least),
    ("output-memory-s", |own, thesis| own.output_memory_s = thesis.output_memory_s),
    ("input-least-percent", |own, thesis| own.input_least_percent = thesis.input_least_percent),
    ("server-edges", |own, thesis| own.server_edges = thesis.server_edges),
    ("waits", |own, thesis| own.waits = thesis.waits),
    ("writers", |own, thesis| own.writers = thesis.writers),
    ("served", |own, thesis| own.served = thesis.served),
    ("typed-weight", |own, thesis| own.typed_weight = thesis.typed_weight),
    ("quanta", |own, thesis| own.quanta = thesis.quanta),
    ("wake", |own, thesis| own.wake = thesis.wake),
];

/// The policy's numbers. Levels, distances and shortcuts are counted in half edges of the graph.
#[derive(Clone, PartialEq, Debug)]
pub struct Constants {
    /// The time between two regular rounds, ns.
    pub period_ns: u64,
    /// A new client's first drawing or input leads to an early round within this time, ns.
    pub early_ns: u64,
    /// The least time between a round and an early round after it, ns.
    pub early_gap_ns: u64,
    /// One input event is counted as this many parts. With more than 1, a single event still counts
    /// after its second.
    pub input_scale: u32,
    /// Length of every edge of the graph.
    pub edge_length: u16,
    /// Shortcut for drawing.
    pub output_shortcut: u16,
    /// Shortcut for receiving input.
    pub input_shortcut: u16,
    /// Shortcut for being among the processes that draw most.
    pub top_output_shortcut: u16,
    /// The number of processes that have `top_output_shortcut`.
    pub top_output: usize,
    /// Shortcut for being among the processes that receive most input.
    pub top_input_shortcut: u16,
    /// The number of processes that have `top_input_shortcut`.
    pub top_input: usize,
    /// The measure by which input is ranked.
    pub input_rank: InputRank,
    /// An average of drawing below this counts as no drawing, in 2^14th parts of the screen a second: a
    /// person may not notice drawing that is smaller.
    pub output_least: u64,
    /// After so many seconds in a row without drawing, a process' earlier drawing no longer counts. With
    /// `u8::MAX` there is no such end: the average of its drawing is only halved each second.
    pub output_memory_s: u8,
    /// When shortcuts are given, input of a process counts only if it reaches this part of the best process'
    /// input, percent. With 0 any input counts.
    pub input_least_percent: u32,
    /// The processes to which the search goes from a display server.
    pub server_edges: ServerEdges,
    /// The events that count as a wait for another process.
    pub waits: Waits,
    /// Whether a terminal's holder depends on the processes that write to it.
    pub writers: Writers,
    /// Whether a process depends on the processes that it serves or watches.
    pub served: ServedProcesses,
    /// Each time a terminal's reader waits for typed characters, this is added to the edges between the
    /// reader and the holder of the terminal.
    pub typed_weight: u32,
    /// The search ends at this distance from the device (the display server), in half edges.
    pub distance_max: u16,
    /// The rule by which quanta follow from levels.
    pub quanta: LevelQuanta,
    /// The first level's quantum, us.
    pub quantum_first_us: u32,
    /// The shortest quantum, us.
    pub quantum_least_us: u32,
    /// Each quantum is a multiple of this, us.
    pub quantum_grain_us: u32,
    /// The rule by which a woken task takes the CPU from the task that runs.
    pub wake: WakeRule,
}

impl Constants {
    /// The literal rules of the thesis; `distance_max` is ours, because the thesis has none.
    pub const fn thesis() -> Constants {
        Constants {
            period_ns: 1_000_000_000,
            early_ns: 1_000_000_000,
            early_gap_ns: 1_000_000_000,
            input_scale: 1,
            edge_length: 2,
            output_shortcut: 1,
            input_shortcut: 2,
            top_output_shortcut: 1,
            top_output: 3,
            top_input_shortcut: 4,
            top_input: 2,
            input_rank: InputRank::Average,
            output_least: 1,
            output_memory_s: u8::MAX,
            input_least_percent: 0,
            server_edges: ServerEdges::All,
            waits: Waits::Tested,
            writers: Writers::Count,
            served: ServedProcesses::Count,
            typed_weight: 1,
            distance_max: 32,
            quanta: LevelQuanta::Occupied,
            quantum_first_us: 200_000,
            quantum_least_us: 2_000,
            quantum_grain_us: 1_000,
            wake: WakeRule::MoreLeft,
        }
    }

    /// The names of the constants in which the default departs from the thesis.
    pub fn departures() -> impl Iterator<Item = &'static str> {
        DEPARTURES.iter().map(|departure| departure.0)
    }

    /// Sets the constant of this name to the thesis' value; `None` if [`Self::departures`] has no such name.
    #[must_use]
    pub fn with_thesis(mut self, name: &str) -> Option<Constants> {
        let (_, set) = DEPARTURES.iter().find(|departure| departure.0 == name)?;
        set(&mut self, &Constants::thesis());
        Some(self)
    }

    /// The number that turns a distance and a shortcut into a level, so that the best possible client is on
    /// level 1: it is the level of a process at distance 0 without a shortcut.
    pub(crate) const fn level_shift(&self) -> u16 {
        let shortcuts =
            self.output_shortcut + self.input_shortcut + self.top_output_shortcut + self.top_input_shortcut;
        (shortcuts + 1).saturating_sub(self.edge_length)
    }
}

impl Default for Constants {
    /// The default departs from the thesis in three cases: where the rules of the thesis leave two programs
    /// equal for seconds after the user has turned from one to the other, where they let a new program wait
    /// for a second to be seen, and where they let a program deceive.
    fn default() -> Constants {
        Constants {
            early_ns: 50_000_000,
            early_gap_ns: 100_000_000,
            input_scale: 16,
            input_rank: InputRank::LatestSecond,
            output_least: 328,
            output_memory_s: 2,
            input_least_percent: 25,
            server_edges: ServerEdges::Told,
            waits: Waits::Asleep,
            writers: Writers::DoNotCount,
            served: ServedProcesses::DoNotCount,
            typed_weight: 16,
            quanta: LevelQuanta::Numbered,
            wake: WakeRule::LowerLevel,
            ..Constants::thesis()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_without_all_departures_is_the_thesis() {
        let mut constants = Constants::default();
        for name in Constants::departures() {
            let next = constants.clone().with_thesis(name).expect("it is in the list");
            assert_ne!(next, constants, "{name}");
            constants = next;
        }
        assert_eq!(constants, Constants::thesis());
        assert_eq!(constants.with_thesis("distance-max"), None);
    }
}
