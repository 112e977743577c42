//! Every number of the policy, by name: the thesis' own and those of the default, where it departs from them.

/// How the quanta of levels are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LevelQuanta {
    /// Halving from one occupied level to the next (thesis, 8.3.3).
    Occupied,
    /// Halving from one level's number to the next, the display server and the best possible client having the first: who
    /// else is there changes nobody's quantum.
    Numbered,
}

/// When a woken task of the interactive class takes the CPU from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WakeRule {
    /// If it has more of its quantum left (thesis, 8.3.3).
    MoreLeft,
    /// If its level is lower, or equal and it has more left: who waits for the user goes before who computes for them.
    LowerLevel,
}

/// By what those who receive input are ranked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputRank {
    /// By their averages (thesis, 8.3.2).
    Average,
    /// By what they received in the latest second, if anybody received anything in it: who was typed at before has most of
    /// its average for two seconds more, in which it would be the equal of the one that the user has turned to. Who received
    /// nothing in the second before is the equal of the best at once.
    LatestSecond,
}

/// Whether a terminal's holder depends on those who write to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writers {
    /// It waits for all of them, so it depends on them (thesis, 8.2.1).
    Count,
    /// Only on who reads what is typed there: a compile that prints is not what the user is using.
    DoNotCount,
}

/// What counts as having waited for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waits {
    /// That the other tested whether one is to be woken, asleep or not, where the kernel shows that (thesis, 8.2.1).
    Tested,
    /// That one was asleep, and the other woke it. Whoever takes from a full pipe or socket depends on who waits to put
    /// more in, too: they do not wait only because the other is early, and would as soon as it is late.
    Asleep,
}

/// Where the search goes from a display server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServerEdges {
    /// To everybody that the server waits for, as from any process (thesis, 8.3.2).
    All,
    /// To those only that received input or drew, as the device tells. A server waits for any client's requests; one that
    /// only sends such shows the user nothing, and must not gain by sending more of them.
    Told,
}

/// The policy's numbers. Levels and lengths count half edges.
#[derive(Clone, PartialEq, Debug)]
pub struct Constants {
    /// Between rounds, ns.
    pub period_ns: u64,
    /// From a new client's first drawing or input to a round, at most, ns.
    pub early_ns: u64,
    /// Between a round and an early one, at least, ns.
    pub early_gap_ns: u64,
    /// Parts that one input event is counted in; more than 1 lets a single event outlast its second.
    pub input_scale: u32,
    /// Length of every edge of the graph.
    pub edge_length: u16,
    /// Shortcut for drawing.
    pub output_shortcut: u16,
    /// Shortcut for receiving input.
    pub input_shortcut: u16,
    /// Shortcut for being among those who draw most, and how many those are.
    pub top_output_shortcut: u16,
    /// See `top_output_shortcut`.
    pub top_output: usize,
    /// Shortcut for being among those who receive most input, and how many those are.
    pub top_input_shortcut: u16,
    /// See `top_input_shortcut`.
    pub top_input: usize,
    /// By what input is ranked.
    pub input_rank: InputRank,
    /// Input below this part of the best process' counts as none when shortcuts are given, percent. 0: any counts.
    pub input_least_percent: u32,
    /// Where the search goes from a display server.
    pub server_edges: ServerEdges,
    /// What counts as having waited for another.
    pub waits: Waits,
    /// Whether a terminal's holder depends on those who write to it.
    pub writers: Writers,
    /// What one time that a terminal's reader waited for what is typed counts in the edges between reader and holder.
    pub typed_weight: u32,
    /// Processes further from the device, in half edges, are not looked for.
    pub distance_max: u16,
    /// How quanta follow from levels.
    pub quanta: LevelQuanta,
    /// The first level's quantum, us.
    pub quantum_first_us: u32,
    /// The shortest quantum, us.
    pub quantum_least_us: u32,
    /// Quanta are whole numbers of this, us.
    pub quantum_grain_us: u32,
    /// When a woken task takes the CPU.
    pub wake: WakeRule,
}

impl Constants {
    /// The thesis' literal rules, and `distance_max` where it has none.
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
            input_least_percent: 0,
            server_edges: ServerEdges::All,
            waits: Waits::Tested,
            writers: Writers::Count,
            typed_weight: 1,
            distance_max: 32,
            quanta: LevelQuanta::Occupied,
            quantum_first_us: 200_000,
            quantum_least_us: 2_000,
            quantum_grain_us: 1_000,
            wake: WakeRule::MoreLeft,
        }
    }

    /// What level a process would have at distance 0 without a shortcut: the best possible client is on level 1.
    pub(crate) const fn level_shift(&self) -> u16 {
        let shortcuts =
            self.output_shortcut + self.input_shortcut + self.top_output_shortcut + self.top_input_shortcut;
        (shortcuts + 1).saturating_sub(self.edge_length)
    }
}

impl Default for Constants {
    /// Departs from the thesis where its rules leave two programs equal for seconds after the user has turned from one to
    /// the other, or let a new program wait a second to be seen.
    fn default() -> Constants {
        Constants {
            early_ns: 50_000_000,
            early_gap_ns: 100_000_000,
            input_scale: 16,
            input_rank: InputRank::LatestSecond,
            input_least_percent: 25,
            server_edges: ServerEdges::Told,
            waits: Waits::Asleep,
            writers: Writers::DoNotCount,
            typed_weight: 16,
            quanta: LevelQuanta::Numbered,
            wake: WakeRule::LowerLevel,
            ..Constants::thesis()
        }
    }
}
