//! What the daemon learns from: the collection in the kernel, and the devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use spry_control::RunArgs;
use spry_display::terminals::{self, Terminals};
use spry_display::{
    ClientStatus, DeviceKind, DeviceOptions, DeviceState, DeviceStatus, Devices, Synthetic, Waker,
};
use spry_policy::{Constants, Graph, Sample, Tgid};

use crate::collect::Collector;
use crate::guardian::watch::now_ns;

/// Both.
pub struct Senses {
    collector: Option<Collector>,
    devices: Devices,
    terminals: Terminals,
    machine: terminals::System,
    /// Which device told of whom, for as long as they are in use.
    told_by: BTreeMap<Tgid, Told>,
    lost_edges: u64,
    warnings: Vec<String>,
}

/// Which device told of a process.
#[derive(Clone, PartialEq, Debug)]
struct Told {
    device: String,
    server: Option<Tgid>,
    /// Between the last two takes; `None` if it did nothing.
    latest: Option<ClientStatus>,
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
    /// Where devices cannot be looked for at all.
    pub fn open(args: &RunArgs, constants: &Constants, bell: &Arc<Waker>) -> Result<Senses> {
        let mut warnings = Vec::new();
        let mut collector = Collector::open(constants)
            .map_err(|error| warnings.push(format!("who depends on whom cannot be seen here: {error:#}")))
            .ok();
        warnings.extend(collector.iter().flat_map(|collector: &Collector| collector.warnings().to_vec()));
        if let Some(collector) = &mut collector {
            let bell = Arc::clone(bell);
            collector.watch(Arc::new(move || bell.wake()))?;
        }
        let synthetic = if args.trust_synthetic { Synthetic::Trusted } else { Synthetic::Ignored };
        let reporters =
            args.trust_reporter.iter().map(|text| text.parse().map_err(|error: String| anyhow!(error)));
        let options = DeviceOptions {
            display: args.display.clone(),
            synthetic,
            report_socket: Some(spry_control::report_socket(args.socket.clone())),
            reporters: reporters.collect::<Result<_>>()?,
        };
        let notify = Arc::clone(bell);
        let devices =
            Devices::open(options, Arc::new(move || notify.wake())).context("looking for devices")?;
        if args.trust_synthetic {
            warnings.push(
                "synthetic input is believed (--trust-synthetic): programs can make themselves in use"
                    .to_owned(),
            );
        }
        Ok(Senses {
            collector,
            devices,
            terminals: Terminals::new(),
            machine: terminals::System::new(),
            told_by: BTreeMap::new(),
            lost_edges: 0,
            warnings,
        })
    }

    /// Brings the graph up to date, and returns the rest.
    pub fn learn(&mut self, graph: &mut Graph) -> Learnt {
        let mut learnt = Learnt::default();
        let mut ttys = Vec::new();
        if let Some(collector) = &mut self.collector {
            let drained = collector.drain(graph);
            self.lost_edges += drained.lost_edges;
            (learnt.gone, ttys) = (drained.gone, drained.ttys);
        }
        learnt.gone.iter().for_each(|&tgid| self.terminals.forget(tgid));
        let seen = self.devices.take();
        (learnt.servers, learnt.samples) = (seen.servers, seen.samples);
        let seen = self.terminals.take(now_ns(), &ttys, &mut self.machine);
        learnt.servers.extend(seen.servers);
        learnt.samples.extend(seen.samples);
        for tgid in &learnt.gone {
            self.told_by.remove(tgid);
        }
        learnt
    }

    /// Remembers which device told of whom, and forgets those who are not in use any more.
    pub fn note(&mut self, is_in_use: impl Fn(Tgid) -> bool) {
        self.told_by.retain(|&tgid, told| {
            told.latest = None;
            is_in_use(tgid)
        });
        for (device, session) in self.terminals.used() {
            let told = Told { device: format!("terminal {device}"), server: session, latest: None };
            let both = session.into_iter().chain(self.terminals.reader(device));
            self.told_by.extend(both.map(|tgid| (tgid, told.clone())));
        }
        for status in self.devices.status() {
            let server = status.server_tgid.map(Tgid);
            let device = name(&status);
            let told = |latest| Told { device: device.clone(), server, latest };
            self.told_by.extend(server.map(|tgid| (tgid, told(None))));
            self.told_by.extend(status.clients.iter().map(|client| (client.tgid, told(Some(*client)))));
        }
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
        let device = |status: DeviceStatus| spry_control::Device {
            kind: match status.kind {
                DeviceKind::X11 => "x11",
                DeviceKind::Report => "report",
            }
            .to_owned(),
            state: match status.state {
                DeviceState::Waiting => "waiting".to_owned(),
                DeviceState::Watched => "watched".to_owned(),
                DeviceState::Ignored(why) => format!("ignored: {why}"),
                DeviceState::Failed(why) => format!("failed: {why}"),
            },
            name: status.name,
            tgid: status.server_tgid,
        };
        let terminal = |(device, session): (terminals::Device, Option<Tgid>)| spry_control::Device {
            kind: "terminal".to_owned(),
            state: "watched".to_owned(),
            name: format!("/dev/{device}"),
            tgid: session.map(|tgid| tgid.0),
        };
        let displays = self.devices.status().into_iter().map(device);
        displays.chain(self.terminals.used().map(terminal)).collect()
    }

    /// The device that tells of a process, or that it is behind.
    pub fn device_of(&self, tgid: Tgid) -> Option<&str> {
        self.told_by.get(&tgid).map(|told| told.device.as_str())
    }

    /// The process behind the device that tells of a process.
    pub fn server_of(&self, tgid: Tgid) -> Option<Tgid> {
        self.told_by.get(&tgid)?.server
    }

    /// Rounds of drawing a second.
    pub fn frames_per_s(&self, tgid: Tgid) -> Option<f64> {
        self.told_by.get(&tgid)?.latest.map(|latest| latest.frames_per_s)
    }

    /// What the user should know.
    pub fn warnings(&self) -> Vec<String> {
        let devices = self.devices.status().into_iter();
        let devices = devices.flat_map(|status| {
            let name = name(&status);
            status.warnings.into_iter().map(move |warning| format!("{name}: {warning}"))
        });
        self.warnings.iter().cloned().chain(devices).collect()
    }
}

/// What a device is called on the way to a process.
fn name(status: &DeviceStatus) -> String {
    match status.kind {
        DeviceKind::X11 => format!("display {}", status.name),
        DeviceKind::Report => "report".to_owned(),
    }
}
