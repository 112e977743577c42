//! Repeats section 4.3.2 of Time-Sensitive Linux (Goel et al. 2002): what firm timers cost a ray tracer, in
//! figures 6 to 8, what each timer costs, and from which share of useful checks on firm timers pay.

mod boot;
mod cells;
mod costs;
mod figures;
mod json;
mod page;
mod published;
mod rows;
mod text;

use serde::{Deserialize, Serialize};
use spry_runner::timers::TimerCost;

use crate::study::Spread;

pub use cells::{Laboratory, Picture, Request};
pub use costs::{Costs, costs};
pub use figures::captions;
pub use json::report as json;
pub use page::page;
pub use published::LEFT_OUT;
pub use rows::{Row, Verdict, rows};
pub use text::report as text;

/// The lab's name for the kernel of the study.
pub const KERNEL: &str = "100hz-firm";
/// The longest overshoot that the kernel takes, us. It stands for the infinite overshoot of soft timers.
pub const SOFT_US: i32 = 1_000_000;

/// The way in which timers expire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expiry {
    /// At the next tick, as in standard Linux of the paper's time.
    AtTick,
    /// By an interrupt at the deadline; the kernel makes no checks.
    Hard,
    /// At a check, or by an interrupt this many us after the deadline.
    Overshoot(i32),
}

/// A system: the way in which timers expire.
#[derive(Debug, PartialEq, Eq)]
pub struct System {
    /// The system's name in this study.
    pub key: &'static str,
    /// The way in which timers expire.
    pub expiry: Expiry,
    /// The system in words.
    pub about: &'static str,
}

const fn system(key: &'static str, expiry: Expiry, about: &'static str) -> System {
    System { key, expiry, about }
}

/// The systems, in the order of the paper's bars.
pub const SYSTEMS: [System; 7] = [
    system("ticks", Expiry::AtTick, "timers expire at ticks of 100 Hz, as in the paper's standard Linux"),
    system("hard", Expiry::Hard, "an interrupt for each deadline, no checks"),
    system("firm-0", Expiry::Overshoot(0), "firm timers, overshoot 0: hard timers and checks"),
    system("firm-50", Expiry::Overshoot(50), "firm timers, overshoot 50 us"),
    system("firm-100", Expiry::Overshoot(100), "firm timers, overshoot 100 us"),
    system("firm-500", Expiry::Overshoot(500), "firm timers, overshoot 500 us"),
    system("soft", Expiry::Overshoot(SOFT_US), "soft timers: an overshoot of 1 s, the kernel's longest"),
];

/// The timer processes beside the ray tracer.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    /// The case's name in this study.
    pub key: &'static str,
    /// The number of the paper's figure; `None` for the ray tracer alone.
    pub figure: Option<&'static str>,
    /// The number of timer processes.
    pub processes: u32,
    /// The period of each timer, us.
    pub period_us: u32,
    /// The case in words.
    pub about: &'static str,
    /// The systems that are not measured in this case.
    #[serde(skip)]
    left_out: &'static [&'static str],
}

/// The key of the case without timer processes.
pub const NONE: &str = "none";

/// The cases. The ray tracer alone comes first.
pub const CASES: [Case; 4] = [
    Case {
        key: NONE,
        figure: None,
        processes: 0,
        period_us: 10_000,
        about: "no timer process",
        left_out: &["firm-0", "firm-50", "firm-100", "firm-500", "soft"],
    },
    Case {
        key: "20-10ms",
        figure: Some("6"),
        processes: 20,
        period_us: 10_000,
        about: "20 timer processes of 10 ms",
        left_out: &[],
    },
    Case {
        key: "50-10ms",
        figure: Some("7"),
        processes: 50,
        period_us: 10_000,
        about: "50 timer processes of 10 ms",
        left_out: &[],
    },
    Case {
        key: "20-1ms",
        figure: Some("8"),
        processes: 20,
        period_us: 1_000,
        about: "20 timer processes of 1 ms",
        // Timers at ticks of 10 ms and soft timers do not expire each ms: the paper leaves them out, too.
        left_out: &["ticks", "soft"],
    },
];

impl Case {
    /// Whether a system is measured in this case.
    pub fn has(&self, system: &System) -> bool {
        !self.left_out.contains(&system.key)
    }
}

/// A cell: one boot of a system with a case.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The system's key.
    pub system: String,
    /// The case's key.
    pub case: String,
    /// The seed of the boot.
    pub seed: u64,
    /// The measurement of the boot.
    pub cost: TimerCost,
}

/// All measurements of the study.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Study {
    /// The cells, in any order.
    pub cells: Vec<Cell>,
}

impl Study {
    /// The cells of a system in a case, one for each seed.
    pub fn of(&self, system: &str, case: &str) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.system == system && cell.case == case)
    }

    /// The spread over all seeds of a value of a system in a case; `None` if no cell has the value.
    pub fn spread(&self, system: &str, case: &str, value: impl Fn(&Cell) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.of(system, case).filter_map(value).collect())
    }

    /// The ray tracer's time in a case on a system, relative to its time on another system or in another case
    /// with the same seed, percent: how much longer it takes.
    pub fn longer_percent(
        &self,
        (system, case): (&str, &str),
        (base, base_case): (&str, &str),
    ) -> Option<Spread> {
        self.spread(system, case, |cell| {
            let base = self.of(base, base_case).find(|base| base.seed == cell.seed)?;
            Some(100.0 * (cell.cost.elapsed_ns as f64 / base.cost.elapsed_ns as f64 - 1.0))
        })
    }

    /// The part of what hard timers cost over none that a system does not cost, percent.
    pub fn gone_percent(&self, system: &str, case: &str) -> Option<Spread> {
        self.spread(system, case, |cell| {
            let elapsed = |system: &str, case: &str| {
                let same = self.of(system, case).find(|other| other.seed == cell.seed);
                same.map(|other| other.cost.elapsed_ns as f64)
            };
            let (none_ns, hard_ns) = (elapsed("hard", NONE)?, elapsed("hard", case)?);
            (hard_ns > none_ns).then(|| 100.0 * (hard_ns - cell.cost.elapsed_ns as f64) / (hard_ns - none_ns))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spry_runner::timers::Lateness;

    /// The costs from which the test's cells are made, us: a hard timer, a soft timer, a check.
    pub(super) const MADE_OF: [f64; 3] = [8.0, 5.0, 0.25];

    fn cell(system: &str, case: &str, [hard, soft, checks]: [u64; 3]) -> Cell {
        let elapsed_us =
            10e6 + hard as f64 * MADE_OF[0] + soft as f64 * MADE_OF[1] + checks as f64 * MADE_OF[2];
        let elapsed_ns = (elapsed_us * 1e3) as u64;
        let ticks = elapsed_ns / 10_000_000;
        let firm = system != "ticks" && system != "hard";
        let late = Lateness { median_us: 5.0, p99_us: 50.0, most_us: 100.0 };
        let cost = TimerCost {
            elapsed_ns,
            due: hard + soft,
            signals: hard + soft,
            late: (hard + soft > 0).then_some(late),
            interrupts: hard + ticks,
            firm: Some(if firm { [checks, soft, hard] } else { [0; 3] }),
        };
        Cell { system: system.to_owned(), case: case.to_owned(), seed: 1, cost }
    }

    pub(super) fn study() -> Study {
        Study {
            cells: vec![
                cell("ticks", NONE, [0, 0, 0]),
                cell("hard", NONE, [0, 0, 0]),
                cell("ticks", "20-10ms", [0, 20_000, 0]),
                cell("hard", "20-10ms", [20_000, 0, 0]),
                cell("firm-500", "20-10ms", [10_000, 10_000, 22_000]),
                cell("soft", "20-10ms", [0, 20_000, 25_000]),
                cell("hard", "20-1ms", [200_000, 0, 0]),
                cell("firm-0", "20-1ms", [200_000, 0, 210_000]),
                cell("firm-500", "20-1ms", [20_000, 180_000, 240_000]),
            ],
        }
    }

    #[test]
    fn each_case_is_compared_with_the_system_of_the_paper() {
        let study = study();
        let longer =
            |of, base| study.longer_percent(of, base).map(|spread| (spread.median * 1e3).round() / 1e3);
        assert_eq!(longer(("hard", "20-10ms"), ("hard", NONE)), Some(1.6));
        assert_eq!(longer(("hard", "20-10ms"), ("ticks", "20-10ms")), Some(0.594));
        assert_eq!(longer(("hard", "50-10ms"), ("ticks", "50-10ms")), None);
        let gone = study.gone_percent("firm-500", "20-1ms").expect("both are there");
        assert!((gone.median - 30.0).abs() < 0.1, "{gone:?}");
    }

    #[test]
    fn the_study_s_kernel_has_firm_timers_and_cases_are_known() {
        let variant: spry_lab::Variant = KERNEL.parse().expect("the lab builds it");
        assert_eq!(variant.timers, spry_lab::Timers::Firm);
        for case in &CASES {
            assert!(case.left_out.iter().all(|key| SYSTEMS.iter().any(|system| system.key == *key)));
        }
    }
}
