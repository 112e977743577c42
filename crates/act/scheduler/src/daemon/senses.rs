//! The daemon's inputs: the collection in the kernel, and the devices.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use spry_control::RunArgs;
use spry_display::terminals::{self, Activity, Terminals};
use spry_display::{DeviceKind, DeviceOptions, DeviceStatus, Devices, Observations, Synthetic};
use spry_policy::{Constants, DeviceOwner, Graph, Sample, Server, Tgid};
use spry_sys::clock::monotonic_ns;
use spry_sys::poll::Waker;

use super::devices;
use crate::collect::Collector;

/// The collection and the devices.
pub struct Senses {
    collector: Option<Collector>,
    devices: Devices,
    terminals: Terminals,
    machine: terminals::System,
    /// The drawing rate of each process between the latest two readings of devices, 1/s.
    frames_per_s: BTreeMap<Tgid, f64>,
    gathered: SecondReports,
    lost_edges: u64,
    warnings: Vec<String>,
}

/// The reports of devices and of the collection since the end of the latest second. They are the same as if
/// the daemon had read them only once in that time.
#[derive(Debug, Default)]
pub struct SecondReports {
    /// The server processes of devices other than terminals.
    pub servers: Vec<Server>,
    /// The input and drawing of processes, as the devices other than terminals reported them.
    pub samples: Vec<Sample>,
    /// The characters that passed through each terminal.
    pub ttys: BTreeMap<terminals::Device, Activity>,
    /// Processes that have exited or called exec.
    pub gone: Vec<Tgid>,
    /// The number of frames that each process drew.
    pub frames: BTreeMap<Tgid, u32>,
}

impl SecondReports {
    fn add(&mut self, seen: &Observations, devices: &[DeviceStatus], ttys: &[Activity], gone: &[Tgid]) {
        for client in devices.iter().flat_map(|status| &status.clients) {
            *self.frames.entry(client.tgid).or_default() += client.frames;
        }
        self.servers.clone_from(&seen.servers);
        self.samples.extend_from_slice(&seen.samples);
        self.gone.extend_from_slice(gone);
        for &activity in ttys {
            let known = self.ttys.insert(activity.device, activity);
            if let (Some(before), Some(now)) = (known, self.ttys.get_mut(&activity.device)) {
                now.typed = now.typed.saturating_add(before.typed);
                now.keyed = now.keyed.saturating_add(before.keyed);
                now.shown = now.shown.saturating_add(before.shown);
            }
        }
    }
}

/// The reports of the inputs since the last round.
#[derive(Debug, Default)]
pub struct RoundReports {
    /// The server processes of devices.
    pub servers: Vec<Server>,
    /// The devices' reports on other processes.
    pub samples: Vec<Sample>,
    /// Processes that have exited or called exec.
    pub gone: Vec<Tgid>,
}

impl Senses {
    /// Opens the collection and the devices. Without the collection the daemon has only the processes that
    /// devices report, not the processes on which these depend.
    ///
    /// # Errors
    /// If devices cannot be looked for at all.
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
            frames_per_s: BTreeMap::new(),
            gathered: SecondReports::default(),
            lost_edges: 0,
            warnings,
        })
    }

    /// Updates the graph, and returns all other reports of the inputs.
    pub fn learn(&mut self, graph: &mut Graph) -> RoundReports {
        let mut learnt = RoundReports::default();
        let mut ttys = Vec::new();
        if let Some(collector) = &mut self.collector {
            let drained = collector.drain(graph);
            self.lost_edges += drained.lost_edges;
            (learnt.gone, ttys) = (drained.gone, drained.ttys);
        }
        learnt.gone.iter().for_each(|&tgid| self.terminals.forget(tgid));
        let seen = self.devices.take();
        let latest = self.devices.status();
        self.gathered.add(&seen, &latest, &ttys, &learnt.gone);
        let clients = latest.iter().flat_map(|status| &status.clients);
        self.frames_per_s = clients.map(|client| (client.tgid, client.frames_per_s)).collect();
        // If several devices report a process, the policy shows the last one: displays come after terminals.
        let typed = self.terminals.take(monotonic_ns(), &ttys, &mut self.machine);
        (learnt.servers, learnt.samples) = (typed.servers, typed.samples);
        learnt.servers.extend(seen.servers);
        learnt.samples.extend(seen.samples);
        learnt
    }

    /// The recent drawing rate of each process, 1/s.
    pub const fn frames_per_s(&self) -> &BTreeMap<Tgid, f64> {
        &self.frames_per_s
    }

    /// The reports since the last call, at the end of a second.
    pub fn gathered(&mut self) -> SecondReports {
        mem::take(&mut self.gathered)
    }

    /// The access to the system by which terminals are looked up.
    pub const fn machine(&mut self) -> &mut terminals::System {
        &mut self.machine
    }

    /// The collection, if it could be loaded.
    pub const fn collector(&self) -> Option<&Collector> {
        self.collector.as_ref()
    }

    /// The helper processes, which read devices for the daemon.
    pub fn helpers(&self) -> Vec<Tgid> {
        self.devices.helpers()
    }

    /// The number of dependencies that were lost.
    pub const fn lost_edges(&self) -> u64 {
        self.lost_edges
    }

    /// The devices for the status, each with its user.
    pub fn devices(&self) -> Vec<(spry_control::Device, DeviceOwner)> {
        devices::devices(self.devices.status(), &self.terminals)
    }

    /// The devices for the status, with the terminals that are in use according to `terminals`.
    pub fn devices_with(&self, terminals: &Terminals) -> Vec<(spry_control::Device, DeviceOwner)> {
        devices::devices(self.devices.status(), terminals)
    }

    /// Warnings for every user, which reveal nothing about any user.
    pub fn warnings_for_all(&self) -> &[String] {
        &self.warnings
    }

    /// Warnings for root, including warnings of devices.
    pub fn warnings(&self) -> Vec<String> {
        let devices = self.devices.status().into_iter();
        let devices = devices.flat_map(|status| {
            let name = match status.kind {
                DeviceKind::X11 => format!("display {}", status.name),
                DeviceKind::Report => "report".to_owned(),
            };
            status.warnings.into_iter().map(move |warning| format!("{name}: {warning}"))
        });
        self.warnings.iter().cloned().chain(devices).collect()
    }
}

#[cfg(test)]
mod tests {
    use spry_policy::{Changes, Device, Place};

    use super::*;

    struct Remote;

    impl terminals::World for Remote {
        fn is_remote_session(&mut self, _: Tgid) -> bool {
            true
        }

        fn size(&mut self, _: terminals::Device) -> Option<terminals::Size> {
            None
        }

        fn owner(&mut self, _: terminals::Device) -> Option<u32> {
            None
        }
    }

    fn typed(minor: u32, typed: u32) -> Activity {
        let device = terminals::Device { major: 136, minor };
        Activity { device, holder: Some(Tgid(7)), reader: Some(Tgid(8)), typed, keyed: 0, shown: 2_000 }
    }

    fn drawn(input: u32) -> Observations {
        let changes = Changes { input, output_ppm: 5 };
        let device = Device { place: Place::Display(0), whose: DeviceOwner::Unknown };
        Observations {
            servers: vec![Server { tgid: Tgid(1), device: Some(device) }],
            samples: vec![Sample { tgid: Tgid(9), device, changes }],
        }
    }

    /// The report on a second, if the daemon reads the devices in these parts, one after the other.
    fn second_of(takes: &[(Observations, Vec<Activity>)]) -> (Vec<Sample>, Vec<Server>, u32) {
        let mut gathered = SecondReports::default();
        takes.iter().for_each(|(seen, ttys)| gathered.add(seen, &[], ttys, &[]));
        let ttys: Vec<Activity> = gathered.ttys.into_values().collect();
        let told = Terminals::new().take(5_000_000_000, &ttys, &mut Remote);
        let input = gathered.samples.iter().map(|sample| sample.changes.input).sum();
        (told.samples, gathered.servers, input)
    }

    #[test]
    fn samples_taken_in_parts_add_up_as_if_taken_at_once() {
        // 40 characters at one moment are more than the number that counts in a part of a second.
        let whole = second_of(&[(drawn(3), vec![typed(1, 40), typed(2, 60)])]);
        let parts = second_of(&[
            (drawn(1), vec![typed(1, 40)]),
            (drawn(0), Vec::new()),
            (drawn(2), vec![Activity { shown: 0, ..typed(2, 59) }, Activity { shown: 0, ..typed(1, 0) }]),
            (drawn(0), vec![typed(2, 1)]),
        ]);
        assert_eq!(parts, whole);
    }
}
