//! What the daemon learns from: the collection in the kernel, and the devices.

use std::sync::Arc;

use anyhow::Result;
use spry_control::RunArgs;
use spry_policy::{Graph, Sample, Tgid};

use super::system::Bell;
use crate::collect::Collector;

/// Both.
pub struct Senses {
    collector: Option<Collector>,
    lost_edges: u64,
    warnings: Vec<String>,
}

/// What was learnt since the last time.
#[derive(Debug, Default)]
pub struct Learnt {
    /// Processes of devices.
    pub servers: Vec<Tgid>,
    /// What devices tell of others.
    pub samples: Vec<Sample>,
    /// Who ended, or became another program.
    pub gone: Vec<Tgid>,
}

impl Senses {
    /// Opens what there is. Without the collection there are still the devices: who is used is known then, but not who works
    /// for them.
    ///
    /// # Errors
    /// Where nothing at all can be had.
    pub fn open(_args: &RunArgs, _bell: &Arc<Bell>) -> Result<Senses> {
        let mut warnings = Vec::new();
        let collector = Collector::open()
            .map_err(|error| {
                warnings.push(format!("who depends on whom cannot be seen here: {error:#}"));
            })
            .ok();
        Ok(Senses { collector, lost_edges: 0, warnings })
    }

    /// Brings the graph up to date, and returns the rest.
    pub fn learn(&mut self, graph: &mut Graph) -> Learnt {
        let mut learnt = Learnt::default();
        if let Some(collector) = &mut self.collector {
            let drained = collector.drain(graph);
            self.lost_edges += drained.lost_edges;
            learnt.gone = drained.gone;
        }
        learnt
    }

    /// The collection.
    pub const fn collector(&self) -> Option<&Collector> {
        self.collector.as_ref()
    }

    /// Dependencies that were not counted.
    pub const fn lost_edges(&self) -> u64 {
        self.lost_edges
    }

    /// For the status.
    pub fn devices(&self) -> Vec<spry_control::Device> {
        Vec::new()
    }

    /// The device that tells of a process, or that it is behind.
    pub fn device_of(&self, _tgid: Tgid) -> Option<String> {
        None
    }

    /// The process behind the device that tells of a process.
    pub fn server_of(&self, _tgid: Tgid) -> Option<Tgid> {
        None
    }

    /// Rounds of drawing a second.
    pub fn frames_per_s(&self, _tgid: Tgid) -> Option<f64> {
        None
    }

    /// What the user should know.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }
}
