//! The data from which requests of ordinary users are answered: the state at the end of the latest second,
//! and each user's part of it.
//!
//! Each user's part comes from a separate round of the policy over that user's devices and processes. All
//! input of this round is taken once a second. So nothing in a user's part depends on the activity of other
//! users: neither ranks, nor paths, nor the times of early rounds.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use spry_control::Device;
use spry_display::terminals::{Activity, Terminals};
use spry_policy::{Constants, DeviceOwner, Due, Graph, Policy, Sample, Server, Standing, Tgid};
use spry_sys::clock::monotonic_ns;

use super::devices::{self, DeviceData};
use super::privacy::Ownership;
use super::process;
use super::senses::{SecondReports, Senses};
use super::shares::{Audience, Shares};

/// The time after a request for which CPU time is measured each second, ns.
const ASKED_LATELY_NS: u64 = 10_000_000_000;

/// The state at the end of a second.
#[derive(Debug, Default)]
pub struct Second {
    /// The policy's state before that second (`before`), and after it (`policy`).
    before: Policy,
    policy: Policy,
    graph: Graph,
    servers: Vec<Server>,
    samples: Vec<Sample>,
    terminals: Terminals,
    /// The number of frames that each process drew in that second.
    frames_per_s: BTreeMap<Tgid, f64>,
    devices: Vec<(Device, DeviceOwner)>,
    /// The parts of users that sent requests since the end of that second, by user.
    parts: BTreeMap<u32, BTreeMap<Tgid, Standing>>,
    /// CPU time, as shown to ordinary users. It is measured separately from root's, since root's measurement
    /// depends on the processes in use.
    shares: Shares,
    /// The users that sent requests since the latest measurement, and the time of the last request, ns.
    askers: BTreeSet<u32>,
    asked_ns: Option<u64>,
}

/// The devices and processes of one user. Each process is looked up once.
#[derive(Debug)]
pub struct Belongings {
    uid: u32,
    devices: BTreeSet<String>,
    processes: RefCell<BTreeMap<u32, bool>>,
}

impl Belongings {
    fn has(&self, tgid: Tgid) -> bool {
        let mut processes = self.processes.borrow_mut();
        *processes.entry(tgid.0).or_insert_with(|| process::is_wholly_of(tgid, self.uid))
    }
}

impl Ownership for Belongings {
    fn has_process(&self, tgid: u32) -> bool {
        self.has(Tgid(tgid))
    }

    fn has_device(&self, name: &str) -> bool {
        self.devices.contains(name)
    }
}

impl Second {
    /// The state before anything has been reported.
    pub fn new(constants: Constants) -> Second {
        Second { policy: Policy::new(constants), ..Second::default() }
    }

    /// Takes over the data of a second that is over. `is_left_out` is true for the daemon's own processes.
    pub fn end(&mut self, senses: &mut Senses, graph: Graph, is_left_out: impl Fn(Tgid) -> bool) {
        let SecondReports { servers, samples, ttys, gone, frames } = senses.gathered();
        for &tgid in &gone {
            self.policy.forget(tgid);
            self.terminals.forget(tgid);
        }
        let ttys: Vec<Activity> = ttys.into_values().collect();
        // Displays come after terminals, as in the daemon's own rounds.
        let mut seen = self.terminals.take(monotonic_ns(), &ttys, senses.machine());
        seen.servers.extend(servers);
        seen.samples.extend(samples);
        seen.samples.retain(|sample| !is_left_out(sample.tgid));
        self.before = self.policy.clone();
        self.policy.learn(&seen.servers, &seen.samples);
        self.frames_per_s = frames.into_iter().map(|(tgid, frames)| (tgid, f64::from(frames))).collect();
        self.devices = senses.devices_with(&self.terminals);
        (self.graph, self.servers, self.samples) = (graph, seen.servers, seen.samples);
        self.parts.clear();
    }

    /// The graph of dependencies in that second.
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Measures CPU time, if an ordinary user sent a request recently. Returns the users for which CPU time
    /// was measured, and the time that this took for each, ns.
    pub fn measure(&mut self, now_ns: u64, clock: impl Fn() -> u64) -> (BTreeSet<u32>, u64) {
        let is_lately = |asked_ns: u64| now_ns.saturating_sub(asked_ns) < ASKED_LATELY_NS;
        if !self.asked_ns.is_some_and(is_lately) {
            return (BTreeSet::new(), 0);
        }
        let began_ns = clock();
        self.shares.census(Audience::Yes, now_ns, &clock);
        let askers = std::mem::take(&mut self.askers);
        let each_ns = clock().saturating_sub(began_ns) / (askers.len() as u64).max(1);
        (askers, each_ns)
    }

    /// Records a user's request. Returns the present devices and processes of the user.
    pub fn asked(&mut self, uid: u32, now_ns: u64) -> Belongings {
        self.asked_ns = Some(now_ns);
        self.askers.insert(uid);
        let is_theirs =
            |whose: DeviceOwner| whose == DeviceOwner::User(uid) || whose == DeviceOwner::Reported;
        let listed = self.devices.iter().filter(|(_, whose)| is_theirs(*whose));
        let listed = listed.map(|(device, _)| device.name.clone());
        let told = self.policy.devices().filter(|device| is_theirs(device.whose));
        let told = told.map(|device| devices::name(device.place));
        Belongings { uid, devices: listed.chain(told).collect(), processes: RefCell::default() }
    }

    /// Makes a user's part, unless it has been made for this second.
    pub fn make_part(&mut self, own: &Belongings) {
        if !self.parts.contains_key(&own.uid) {
            let part = self.part_of(own.uid, |tgid| own.has(tgid));
            self.parts.insert(own.uid, part);
        }
    }

    fn part_of(&self, of: u32, has: impl Fn(Tgid) -> bool) -> BTreeMap<Tgid, Standing> {
        let whose = |tgid: Tgid| self.policy.device(tgid).map(|device| device.whose);
        let is_told = |tgid: Tgid| match whose(tgid) {
            Some(DeviceOwner::User(uid)) => uid == of && has(tgid),
            Some(DeviceOwner::Reported) => has(tgid),
            Some(DeviceOwner::Unknown) | None => false,
        };
        let is_server = |tgid: Tgid| match whose(tgid) {
            Some(DeviceOwner::User(uid)) => uid == of,
            // A compositor that reports about itself is no client of a device.
            Some(DeviceOwner::Reported) | None => has(tgid),
            Some(DeviceOwner::Unknown) => false,
        };
        let servers: Vec<Server> =
            self.servers.iter().copied().filter(|server| is_server(server.tgid)).collect();
        let samples: Vec<Sample> =
            self.samples.iter().copied().filter(|sample| is_told(sample.tgid)).collect();
        let mut policy = self.before.among(is_told);
        let from: BTreeSet<Tgid> = policy
            .known()
            .chain(servers.iter().map(|server| server.tgid))
            .chain(samples.iter().map(|sample| sample.tgid))
            .collect();
        let mut graph = self.graph.among(from, &has);
        let standings = policy.round(&mut graph, &servers, &samples, Due::Regular);
        standings.into_iter().map(|standing| (standing.tgid, standing)).collect()
    }

    /// A user's part, with the data that belong to it.
    pub fn part(&mut self, uid: u32) -> Part<'_> {
        static NONE: BTreeMap<Tgid, Standing> = BTreeMap::new();
        Part {
            standings: self.parts.get(&uid).unwrap_or(&NONE),
            graph: &self.graph,
            telling: DeviceData { servers: &self.servers, frames_per_s: &self.frames_per_s },
            shares: &mut self.shares,
        }
    }

    /// All devices at the end of the second.
    pub fn devices(&self) -> Vec<Device> {
        self.devices.iter().map(|(device, _)| device.clone()).collect()
    }
}

/// The data for answers to one user.
#[derive(Debug)]
pub struct Part<'a> {
    /// The user's processes in use.
    pub standings: &'a BTreeMap<Tgid, Standing>,
    /// The graph of dependencies, of all users' processes.
    pub graph: &'a Graph,
    /// The devices' reports on all users' processes.
    pub telling: DeviceData<'a>,
    /// CPU time of all users' processes.
    pub shares: &'a mut Shares,
}

#[cfg(test)]
mod tests {
    use spry_policy::{Changes, Constants, Device, Place};

    use super::*;

    const OWN: u32 = 1000;
    const OTHER: u32 = 1001;

    /// Display :1 is the caller's, display :2 is another user's. Processes with numbers 10 to 19 are the
    /// caller's, processes with numbers 20 to 29 the other user's. Programs of both users draw and receive
    /// keys. The caller's terminal runs an editor, for which a program of the other user waits, too.
    fn second(others_keys: u32) -> Second {
        let device = |number, uid| Device { place: Place::Display(number), whose: DeviceOwner::User(uid) };
        let (own, other) = (device(1, OWN), device(2, OTHER));
        let sample = |device, tgid, input, output_ppm| Sample {
            tgid: Tgid(tgid),
            device,
            changes: Changes { input, output_ppm },
        };
        let mut samples = vec![sample(own, 10, 2, 1_000), sample(own, 11, 0, 50_000)];
        if others_keys > 0 {
            samples.extend([sample(other, 20, others_keys, 900_000), sample(other, 21, 0, 1_000_000)]);
        }
        let server = |device, tgid| Server { tgid: Tgid(tgid), device: Some(device) };
        let servers = vec![server(own, 90), server(other, 91)];
        let mut graph = Graph::new();
        for (waiter, on) in [(10, 12), (10, 90), (90, 10), (20, 12), (20, 91), (12, 22), (22, 13), (91, 13)] {
            graph.depend(Tgid(waiter), Tgid(on), 8);
        }
        let mut second = Second::new(Constants::default());
        second.policy.learn(&servers, &samples);
        (second.graph, second.servers, second.samples) = (graph, servers, samples);
        second
    }

    #[test]
    fn another_user_s_keys_change_nothing_in_the_caller_s_part() {
        let part = |keys| second(keys).part_of(OWN, |tgid| tgid.0 / 10 == 1);
        let quiet = part(0);
        let tgids: Vec<u32> = quiet.keys().map(|tgid| tgid.0).collect();
        assert_eq!(tgids, [10, 11, 12, 90], "13 is in use over processes of the other user alone");
        assert!(quiet[&Tgid(10)].shortcut > 0 && quiet[&Tgid(12)].level > 0);
        for keys in [1, 2, 3, 1_000] {
            assert_eq!(part(keys), quiet, "{keys} keys");
        }
        // In a single round for all, other users' keys would change the level, since ranks are
        // among all processes.
        let Second { mut before, mut graph, servers, samples, .. } = second(1_000);
        let all = before.round(&mut graph, &servers, &samples, Due::Regular);
        let terminal = all.iter().find(|standing| standing.tgid == Tgid(10)).unwrap();
        assert!(terminal.shortcut < quiet[&Tgid(10)].shortcut, "{terminal:?}");
    }

    #[test]
    fn a_process_that_another_user_s_device_told_of_is_not_in_use() {
        let is_in_use = |whose: DeviceOwner| {
            let mut second = second(3);
            let sample = second.samples.iter_mut().find(|sample| sample.tgid == Tgid(11)).unwrap();
            sample.device.whose = whose;
            second.policy.forget(Tgid(11));
            second.policy.learn(&second.servers, &second.samples);
            second.part_of(OWN, |tgid| tgid.0 / 10 == 1).contains_key(&Tgid(11))
        };
        assert!(is_in_use(DeviceOwner::User(OWN)) && is_in_use(DeviceOwner::Reported));
        assert!(!is_in_use(DeviceOwner::User(OTHER)) && !is_in_use(DeviceOwner::Unknown));
    }
}
