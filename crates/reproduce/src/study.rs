//! All that was measured: cells by scheduler, application, load and seed.

use serde::{Deserialize, Serialize};

use crate::application::{Application, Beside};
use crate::measurement::{Measurement, Party};

/// A cell that was measured.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Cell {
    /// The scheduler.
    pub scheduler: String,
    /// The application's key.
    pub application: String,
    /// How many stressers ran, the application itself among them if it is one.
    pub stressers: u32,
    /// The seed.
    pub seed: u64,
    /// What its trace says.
    pub measurement: Measurement,
}

/// Every cell, of schedulers of which the first stands for the thesis' original one.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct Study {
    /// The schedulers.
    pub schedulers: Vec<String>,
    /// The loads that were asked for.
    pub stressers: Vec<u32>,
    /// How many CPUs the machine had; the thesis' had one.
    pub cpus: u32,
    /// What was measured.
    pub cells: Vec<Cell>,
}

/// A figure over the seeds.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Spread {
    /// The middle one, or the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

/// A figure of a cell.
pub type Measure = fn(&Measurement) -> Option<f64>;

impl Spread {
    /// Of these values; none if there are none.
    pub fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            f64::midpoint(values[middle - 1], values[middle])
        };
        Some(Spread { median, low, high })
    }
}

impl Study {
    /// What a reader must know of findings that are decided on another machine than the thesis'.
    pub fn other_machine(&self) -> Option<String> {
        (self.cpus > 1).then(|| {
            format!(
                "Of {} CPUs; the thesis' machine had one. Its findings are held here against another machine than its own.",
                self.cpus
            )
        })
    }

    /// The scheduler that stands for the thesis' original one.
    pub fn original(&self) -> Option<&str> {
        self.schedulers.first().map(String::as_str)
    }

    /// Those that stand beside it.
    pub fn others(&self) -> &[String] {
        self.schedulers.get(1..).unwrap_or_default()
    }

    /// The measurements of one cell, a seed each.
    pub fn at<'a>(
        &'a self,
        scheduler: &'a str,
        application: &'a Application,
        stressers: u32,
    ) -> impl Iterator<Item = &'a Measurement> {
        let is_it = move |cell: &&Cell| {
            cell.scheduler == scheduler && cell.application == application.key && cell.stressers == stressers
        };
        self.cells.iter().filter(is_it).map(|cell| &cell.measurement)
    }

    /// The measurements of an application by itself.
    pub fn alone<'a>(
        &'a self,
        scheduler: &'a str,
        application: &'a Application,
    ) -> impl Iterator<Item = &'a Measurement> {
        let stressers = if let Beside::Itself(count) = application.beside { count } else { 0 };
        self.at(scheduler, application, stressers)
    }

    /// A figure of an application by itself.
    pub fn value_alone(
        &self,
        scheduler: &str,
        application: &Application,
        measure: Measure,
    ) -> Option<Spread> {
        Spread::of(self.alone(scheduler, application).filter_map(measure).collect())
    }

    /// A figure of an application beside each load that was measured, least first.
    pub fn curve(&self, scheduler: &str, application: &Application, measure: Measure) -> Vec<(u32, Spread)> {
        let mut loads: Vec<u32> = self
            .cells
            .iter()
            .filter(|cell| cell.scheduler == scheduler && cell.application == application.key)
            .map(|cell| cell.stressers)
            .collect();
        loads.sort_unstable();
        loads.dedup();
        let value =
            |load: u32| Spread::of(self.at(scheduler, application, load).filter_map(measure).collect());
        loads.into_iter().filter_map(|load| Some((load, value(load)?))).collect()
    }

    /// Events that the recorder lost, over all cells.
    pub fn lost_events(&self) -> u64 {
        self.cells.iter().map(|cell| cell.measurement.lost_events).sum()
    }
}

/// The figures of which pictures and verdicts are made.
pub mod measures {
    use super::{Measurement, Party};

    /// CPU time of the application, percent.
    pub fn cpu(cell: &Measurement) -> Option<f64> {
        Some(cell.application.cpu_percent)
    }

    /// CPU time of the X server, percent.
    pub fn x_cpu(cell: &Measurement) -> Option<f64> {
        Some(cell.x_server.as_ref()?.cpu_percent)
    }

    /// CPU time of all stressers beside the application, percent.
    pub fn stressers_cpu(cell: &Measurement) -> Option<f64> {
        Some(cell.stressers.as_ref()?.cpu_percent)
    }

    /// CPU time of the application and its X server together, percent.
    pub fn cpu_with_x(cell: &Measurement) -> Option<f64> {
        Some(cell.application.cpu_percent + x_cpu(cell).unwrap_or(0.0))
    }

    /// Mean dispatch latency of the application, ns.
    pub fn dispatch(cell: &Measurement) -> Option<f64> {
        cell.application.dispatch_mean_ns
    }

    /// Mean dispatch latency of the X server, ns.
    pub fn x_dispatch(cell: &Measurement) -> Option<f64> {
        cell.x_server.as_ref()?.dispatch_mean_ns
    }

    /// Share of the application's runnable time spent waiting, percent.
    pub fn waiting(cell: &Measurement) -> Option<f64> {
        cell.application.waiting_percent
    }

    /// Share of the X server's runnable time spent waiting, percent.
    pub fn x_waiting(cell: &Measurement) -> Option<f64> {
        cell.x_server.as_ref()?.waiting_percent
    }

    /// Share of voluntary switches, percent.
    pub fn voluntary(cell: &Measurement) -> Option<f64> {
        cell.application.voluntary_percent()
    }

    /// Share of the X server's voluntary switches, percent.
    pub fn x_voluntary(cell: &Measurement) -> Option<f64> {
        cell.x_server.as_ref().and_then(Party::voluntary_percent)
    }

    /// Frames that were due and not shown, percent.
    pub fn lost_frames(cell: &Measurement) -> Option<f64> {
        Some(cell.frames?.lost_percent())
    }

    /// Idle time, percent.
    pub fn idle(cell: &Measurement) -> Option<f64> {
        Some(cell.idle_percent)
    }

    /// CPU time of whatever else ran, percent.
    pub fn others(cell: &Measurement) -> Option<f64> {
        Some(cell.others_percent)
    }
}
