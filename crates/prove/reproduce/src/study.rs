//! The measured cells of a study, by scheduler, application, load and seed.

use serde::{Deserialize, Serialize};
use spry_page::words::digits;

use crate::application::{Application, HogCounts};
use crate::measurement::{Measurement, Party};

/// A cell that was measured.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Cell {
    /// The label of the scheduler.
    pub scheduler: String,
    /// The application's key.
    pub application: String,
    /// How many CPU hogs ran, the application itself among them if it is a hog.
    pub stressers: u32,
    /// The seed of the run.
    pub seed: u64,
    /// The measurement of the cell's trace.
    pub measurement: Measurement,
}

/// All cells of all schedulers. The first scheduler stands for the original scheduler of the thesis.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug, Default)]
pub struct Study {
    /// The schedulers.
    pub schedulers: Vec<String>,
    /// The requested loads, as numbers of CPU hogs.
    pub stressers: Vec<u32>,
    /// How many CPUs the machine had. The thesis' machine had one.
    pub cpus: u32,
    /// The cells that were measured.
    pub cells: Vec<Cell>,
}

/// A value over several seeds.
#[derive(Clone, Copy, PartialEq, Serialize, Debug)]
pub struct Spread {
    /// The median: the middle value, or the mean of the two middle values.
    pub median: f64,
    /// The smallest value.
    pub low: f64,
    /// The greatest value.
    pub high: f64,
}

/// A function that takes a value from a cell's measurement; `None` if the cell does not have it.
pub type Measure = fn(&Measurement) -> Option<f64>;

impl Spread {
    /// The spread of these values; `None` if there are none.
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

    /// The median in words, and the range where the seeds differ.
    #[must_use]
    pub fn words(self) -> String {
        let Spread { median, low, high } = self;
        if low < high {
            format!("{} ({} to {})", digits(median), digits(low), digits(high))
        } else {
            digits(median)
        }
    }
}

impl Study {
    /// A note for the reader if the measured machine differs from the thesis' machine; `None` if it does not.
    pub fn other_machine(&self) -> Option<String> {
        (self.cpus > 1).then(|| {
            format!(
                "Of {} CPUs; the thesis' machine had one. Its findings are held here against another \
                 machine than its own.",
                self.cpus
            )
        })
    }

    /// The scheduler that stands for the original scheduler of the thesis.
    pub fn original(&self) -> Option<&str> {
        self.schedulers.first().map(String::as_str)
    }

    /// The schedulers after the first.
    pub fn others(&self) -> &[String] {
        self.schedulers.get(1..).unwrap_or_default()
    }

    /// The measurements of one cell, one for each seed.
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

    /// The measurements of an application without load.
    pub fn alone<'a>(
        &'a self,
        scheduler: &'a str,
        application: &'a Application,
    ) -> impl Iterator<Item = &'a Measurement> {
        let stressers = if let HogCounts::Itself(count) = application.beside { count } else { 0 };
        self.at(scheduler, application, stressers)
    }

    /// A value of an application without load, over the seeds.
    pub fn value_alone(
        &self,
        scheduler: &str,
        application: &Application,
        measure: Measure,
    ) -> Option<Spread> {
        Spread::of(self.alone(scheduler, application).filter_map(measure).collect())
    }

    /// A value of an application beside each load that was measured, in ascending order of load.
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

    /// How many events the recorder lost, over all cells.
    pub fn lost_events(&self) -> u64 {
        self.cells.iter().map(|cell| cell.measurement.lost_events).sum()
    }
}

/// The values from which figures and verdicts are made.
pub mod measures {
    use super::{Measurement, Party};

    /// The CPU time of the application, percent.
    pub fn cpu(cell: &Measurement) -> Option<f64> {
        Some(cell.application.cpu_percent)
    }

    /// The CPU time of the X server, percent.
    pub fn x_cpu(cell: &Measurement) -> Option<f64> {
        Some(cell.x_server.as_ref()?.cpu_percent)
    }

    /// The CPU time of all CPU hogs that ran beside the application, percent.
    pub fn stressers_cpu(cell: &Measurement) -> Option<f64> {
        Some(cell.stressers.as_ref()?.cpu_percent)
    }

    /// The CPU time of the application and its X server together, percent.
    pub fn cpu_with_x(cell: &Measurement) -> Option<f64> {
        Some(cell.application.cpu_percent + x_cpu(cell).unwrap_or(0.0))
    }

    /// The mean dispatch latency of the application, ns.
    pub fn dispatch(cell: &Measurement) -> Option<f64> {
        cell.application.dispatch_mean_ns
    }

    /// The mean dispatch latency of the X server, ns.
    pub fn x_dispatch(cell: &Measurement) -> Option<f64> {
        cell.x_server.as_ref()?.dispatch_mean_ns
    }

    /// The share of its runnable time for which the application waited, percent.
    pub fn waiting(cell: &Measurement) -> Option<f64> {
        cell.application.waiting_percent
    }

    /// The share of its runnable time for which the X server waited, percent.
    pub fn x_waiting(cell: &Measurement) -> Option<f64> {
        cell.x_server.as_ref()?.waiting_percent
    }

    /// The share of the application's switches that were voluntary, percent.
    pub fn voluntary(cell: &Measurement) -> Option<f64> {
        cell.application.voluntary_percent()
    }

    /// The share of the X server's switches that were voluntary, percent.
    pub fn x_voluntary(cell: &Measurement) -> Option<f64> {
        cell.x_server.as_ref().and_then(Party::voluntary_percent)
    }

    /// The share of the frames due that were not shown, percent.
    pub fn lost_frames(cell: &Measurement) -> Option<f64> {
        Some(cell.frames?.lost_percent())
    }

    /// The idle time of the CPU, percent.
    pub fn idle(cell: &Measurement) -> Option<f64> {
        Some(cell.idle_percent)
    }

    /// The CPU time of all other tasks, percent.
    pub fn others(cell: &Measurement) -> Option<f64> {
        Some(cell.others_percent)
    }
}
