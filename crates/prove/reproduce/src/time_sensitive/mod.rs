//! Repeats the evaluation of Time-Sensitive Linux (Goel et al. 2002, Supporting Time-Sensitive Applications
//! on a Commodity OS). Table 1: how exactly budgets in periods are kept. Figures 2 to 5: the skew between a
//! film's picture and its sound.

mod boot;
mod cells;
mod claims;
mod figures;
mod json;
mod page;
mod published;
mod rows;
mod text;

use serde::{Deserialize, Serialize};
pub use spry_runner::budget::GivenTime;

use crate::study::Spread;

pub use cells::{Laboratory, Request};
pub use claims::{Aim, Finding, Verdict, findings};
pub use figures::captions;
pub use json::report as json;
pub use page::page;
pub use rows::{Row, rows};
pub use text::report as text;

/// The two parts of the study.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Table 1: budgets in periods.
    Table,
    /// Figures 2 to 5: skew of sound and picture.
    Skew,
}

/// A system that is measured.
#[derive(Debug, PartialEq, Eq)]
pub struct System {
    /// The system's name in this study.
    pub key: &'static str,
    /// The part of the study that measures it.
    pub part: Part,
    /// The lab's name for the system's kernel.
    pub kernel: &'static str,
    /// The preemption model that is set at boot; `None` for the kernel's default.
    pub preempt: Option<&'static str>,
    /// Whether Spry's daemon runs.
    pub spry: Daemon,
    /// The system in words.
    pub about: &'static str,
}

/// Whether Spry's daemon runs on a system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Daemon {
    /// The kernel schedules alone.
    Absent,
    /// The daemon schedules; no server has a ceiling.
    Runs,
    /// The daemon schedules, and the X server is named as a shared server: it has a ceiling.
    WithCeilings,
}

const fn system(key: &'static str, part: Part, spry: Daemon, about: &'static str) -> System {
    // Only the kernels with all drivers have a sound card.
    let kernel = match part {
        Part::Table => "newest",
        Part::Skew => "newest-generic",
    };
    System { key, part, kernel, preempt: None, spry, about }
}

/// The systems, in the order in which they are shown.
pub const SYSTEMS: [System; 10] = [
    system("deadline", Part::Table, Daemon::Absent, "SCHED_DEADLINE, budgets by timers (HRTICK_DL)"),
    system("deadline-ticks", Part::Table, Daemon::Absent, "SCHED_DEADLINE without HRTICK_DL"),
    system("reserved", Part::Table, Daemon::Runs, "Spry: spry reserve"),
    system("ordinary", Part::Skew, Daemon::Absent, "EEVDF: player and X server are ordinary tasks"),
    system("fifo", Part::Skew, Daemon::Absent, "the player has SCHED_FIFO, the X server is ordinary"),
    system("fifo-both", Part::Skew, Daemon::Absent, "both have SCHED_FIFO at one priority, as in the paper"),
    system(
        "fifo-above",
        Part::Skew,
        Daemon::Absent,
        "both have SCHED_FIFO, the X server's priority is higher",
    ),
    System {
        kernel: "stable-generic",
        preempt: Some("none"),
        ..system(
            "fifo-none",
            Part::Skew,
            Daemon::Absent,
            "fifo-both on a kernel that is not preempted (preempt=none)",
        )
    },
    system("spry", Part::Skew, Daemon::Runs, "Spry: the player has a reservation, the X server no ceiling"),
    system(
        "spry-ceiling",
        Part::Skew,
        Daemon::WithCeilings,
        "Spry: the player has a reservation, the X server its ceiling",
    ),
];

/// A load beside which systems are measured.
#[derive(Debug, PartialEq, Eq)]
pub struct Load {
    /// The load's name.
    pub key: &'static str,
    /// The part that has this load.
    pub part: Part,
    /// The load in words.
    pub about: &'static str,
    /// Whether the quick version of the study has the load, too.
    pub quick: bool,
}

const fn load(key: &'static str, part: Part, about: &'static str, quick: bool) -> Load {
    Load { key, part, about, quick }
}

const FILE_SYSTEM: &str = "the paper's file-system load: a tree of files, copied and flushed again and again";

/// The loads of both parts.
pub const LOADS: [Load; 7] = [
    load("none", Part::Table, "nothing beside", true),
    load("file-system", Part::Table, FILE_SYSTEM, false),
    load("hogs", Part::Table, "four endless loops", true),
    load("none", Part::Skew, "nothing beside", false),
    load("user", Part::Skew, "the paper's user-level load: an endless loop (figure 2)", true),
    load(
        "kernel",
        Part::Skew,
        "the paper's kernel load: 8 MB by one write, again and again (figure 3)",
        false,
    ),
    load("file-system", Part::Skew, FILE_SYSTEM, false),
];

/// The two threads of table 1: the name, budget and period of each, us.
pub const THREADS: [Thread; 2] = [
    Thread { name: "one", words: "40 % of 8192 us", budget_us: 3276.8, period_us: 8192.0 },
    Thread { name: "two", words: "20 % of 512 us", budget_us: 102.4, period_us: 512.0 },
];

/// A thread of table 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thread {
    /// The thread's name.
    pub name: &'static str,
    /// The thread's budget in words.
    pub words: &'static str,
    /// The CPU time in each period, us.
    pub budget_us: f64,
    /// The length of a period, us.
    pub period_us: f64,
}

/// The skew of a film's frames.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Film {
    /// The skew of each frame, us: the delay of the frame after its sound. The median skew, which is
    /// constant, is subtracted.
    pub skews_us: Vec<f64>,
    /// The least and the greatest skew in the player's own report, ms.
    pub said_ms: Option<(f64, f64)>,
}

/// The measurement of a cell.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CellMeasurement {
    /// The two threads of table 1.
    Table([GivenTime; 2]),
    /// The skew of the film's frames.
    Skew(Film),
}

/// A cell: one boot of a system beside a load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The system's key.
    pub system: String,
    /// The load's key.
    pub load: String,
    /// The seed of the boot.
    pub seed: u64,
    /// The measurement of the boot.
    pub measured: CellMeasurement,
}

/// All measurements of the study.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Study {
    /// The cells, in any order.
    pub cells: Vec<Cell>,
}

impl Study {
    /// The spread over all seeds of a value of a system beside a load; `None` if no cell has the value.
    pub fn spread(
        &self,
        system: &str,
        load: &str,
        value: impl Fn(&CellMeasurement) -> Option<f64>,
    ) -> Option<Spread> {
        Spread::of(self.of(system, load).filter_map(|cell| value(&cell.measured)).collect())
    }

    /// The film of a system beside a load, for the lowest seed.
    pub fn film(&self, system: &str, load: &str) -> Option<&Film> {
        let first = self.of(system, load).min_by_key(|cell| cell.seed)?;
        match &first.measured {
            CellMeasurement::Skew(film) => Some(film),
            CellMeasurement::Table(_) => None,
        }
    }

    fn of(&self, system: &str, load: &str) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.system == system && cell.load == load)
    }
}

impl Film {
    /// The skew of frames that were shown at these times, ns. The film has a frame every `frame_ns`, and no
    /// frame is left out.
    pub fn of(frames_ns: &[u64], frame_ns: f64) -> Option<Film> {
        let first_ns = *frames_ns.first()?;
        let late = |(nth, at_ns): (usize, &u64)| {
            (at_ns.saturating_sub(first_ns) as f64 - nth as f64 * frame_ns) / 1000.0
        };
        let mut skews_us: Vec<f64> = frames_ns.iter().enumerate().map(late).collect();
        let median_us = Spread::of(skews_us.clone())?.median;
        skews_us.iter_mut().for_each(|skew_us| *skew_us -= median_us);
        Some(Film { skews_us, said_ms: None })
    }

    /// The greatest skew in either direction, us.
    pub fn worst_us(&self) -> f64 {
        self.skews_us.iter().fold(0.0, |worst, skew_us| worst.max(skew_us.abs()))
    }

    /// The skew that 99 of 100 frames do not exceed, us.
    pub fn most_us(&self) -> f64 {
        let mut sizes: Vec<f64> = self.skews_us.iter().map(|skew_us| skew_us.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.get((sizes.len() * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn given(off_us: f64) -> GivenTime {
        GivenTime {
            periods: 100,
            first_us: 100.0,
            early_us: off_us / 2.0,
            late_us: off_us,
            mean_us: -off_us,
            least_us: -2.0 * off_us,
            most_us: off_us,
            hundred_least_percent: -off_us / 100.0,
            hundred_most_percent: 0.0,
            stolen_us: 0.0,
        }
    }

    fn cell(system: &str, load: &str, seed: u64, measured: CellMeasurement) -> Cell {
        Cell { system: system.to_owned(), load: load.to_owned(), seed, measured }
    }

    pub(super) fn study() -> Study {
        let table = |system, load, seed, off_us| {
            cell(system, load, seed, CellMeasurement::Table([given(off_us), given(off_us / 2.0)]))
        };
        let film = |system, load, late_us: f64| {
            let skews_us = vec![0.0, -1.0, late_us, 3.0];
            cell(system, load, 1, CellMeasurement::Skew(Film { skews_us, said_ms: Some((-1.0, 2.0)) }))
        };
        Study {
            cells: vec![
                table("deadline", "none", 1, 6.0),
                table("deadline", "none", 2, 7.0),
                table("reserved", "none", 1, 2.0),
                table("reserved", "none", 2, 4.0),
                table("deadline", "hogs", 1, 10.0),
                table("reserved", "hogs", 1, 20.0),
                film("fifo", "user", 35_000.0),
                film("fifo-both", "user", 120.0),
                film("spry-ceiling", "user", 300.0),
                film("fifo-both", "kernel", 110.0),
                film("fifo-none", "kernel", 4_000.0),
            ],
        }
    }

    #[test]
    fn skew_is_against_the_median_frame_and_counts_every_frame() {
        let mut frames_ns: Vec<u64> = (0..9).map(|nth| 1_000_000 + nth * 40_000_000 + 300_000).collect();
        frames_ns[4] += 50_000_000;
        frames_ns[8] -= 2_000;
        let film = Film::of(&frames_ns, 40e6).expect("there are frames");
        assert_eq!((film.skews_us[0], film.skews_us[4], film.skews_us[8]), (0.0, 50_000.0, -2.0));
        assert_eq!(film.worst_us(), 50_000.0);
        assert!(Film::of(&[], 40e6).is_none());
    }

    #[test]
    fn a_value_is_spread_over_the_seeds() {
        let late = |measured: &CellMeasurement| match measured {
            CellMeasurement::Table([one, _]) => Some(one.late_us),
            CellMeasurement::Skew(_) => None,
        };
        let spread = study().spread("deadline", "none", late).expect("two cells");
        assert_eq!((spread.low, spread.median, spread.high), (6.0, 6.5, 7.0));
        assert!(study().spread("deadline", "file-system", late).is_none());
    }
}
