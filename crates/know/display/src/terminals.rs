//! Terminals as devices: a person types at consoles, at serial lines and in remote sessions.
//!
//! A terminal's keys come from a device's interrupt (consoles, serial lines), or from the process that holds
//! the other end of a pseudo-terminal. In the second case the terminal is a device only if that process
//! belongs to a remote session, which [`World`] decides. Any other holder, such as the window of a terminal,
//! is in use only as far as it is used itself, and the graph leads from the holder to the process that reads
//! from the terminal. So a process that types to its own child gains nothing, and neither do processes that
//! only write into a terminal, as compilers do.

use std::collections::BTreeMap;
use std::fmt;

use spry_policy::{Changes, DeviceOwner, Place, Sample, Server, Tgid};

mod system;

pub use system::{System, owner};

/// The most characters a second that count as input: a person types less, and pasted text counts no
/// more than this.
const KEYS_PER_S_MAX: u64 = 50;

/// The limit of a process' output to a terminal that counts, ppm of a whole screen a second.
const SCREENS_PPM_PER_S_MAX: u64 = 1_000_000;

/// A terminal at which nothing was typed for this time is not in use, ns.
const QUIET_NS: u64 = 10_000_000_000;

/// The size of a terminal that does not report its size, characters.
const USUAL_SIZE: Size = Size { rows: 24, columns: 80 };

const CONSOLE_MAJOR: u32 = 4;
const PTY_MAJOR: u32 = 136;

/// Devices with major number 4 are consoles if their minor number is below this, and otherwise they
/// are serial lines.
const CONSOLES: u32 = 64;

const SECOND_NS: u64 = 1_000_000_000;

/// A terminal, by its device number. For a pseudo-terminal this is the number of the end that programs use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Device {
    /// The major number: 4 for consoles and serial lines, 136 for all pseudo-terminals.
    pub major: u32,
    /// The minor number, which distinguishes the terminals of one major number.
    pub minor: u32,
}

impl fmt::Display for Device {
    /// Writes the name of the terminal's node below `/dev`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Device { major: PTY_MAJOR, minor } => write!(f, "pts/{minor}"),
            Device { major: CONSOLE_MAJOR, minor } if minor < CONSOLES => write!(f, "tty{minor}"),
            Device { major: CONSOLE_MAJOR, minor } => write!(f, "ttyS{}", minor - CONSOLES),
            Device { major, minor } => write!(f, "terminal {major}:{minor}"),
        }
    }
}

/// The characters that went through a terminal since the latest look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Activity {
    /// The terminal's device number.
    pub device: Device,
    /// The process that held the other end of a pseudo-terminal when something was typed there last.
    pub holder: Option<Tgid>,
    /// The process that waited for the characters that were typed last.
    pub reader: Option<Tgid>,
    /// Characters that the holder typed.
    pub typed: u32,
    /// Characters that came from a device's interrupt: a keyboard, a serial line.
    pub keyed: u32,
    /// Characters that the reader wrote to the terminal.
    pub shown: u32,
}

/// The size of a terminal, characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// The number of lines of the terminal.
    pub rows: u16,
    /// The number of characters of a line.
    pub columns: u16,
}

/// The facts about the machine that [`Terminals`] needs.
pub trait World {
    /// Whether a person at another machine types through this process, such as a session of sshd.
    fn is_remote_session(&mut self, holder: Tgid) -> bool;

    /// The size of a terminal; `None` if it is not known.
    fn size(&mut self, device: Device) -> Option<Size>;

    /// The user that a terminal belongs to; `None` if it is not known.
    fn owner(&mut self, device: Device) -> Option<u32>;
}

/// The devices and the processes in use at terminals since the latest look.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct TerminalObservations {
    /// The remote sessions that are in use: they count as devices, as a display server does.
    pub servers: Vec<Server>,
    /// The processes that read the characters that the user typed, with their input and their output.
    pub samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Use {
    /// The time of the latest typing at the terminal, ns.
    at_ns: u64,
    /// The remote session through which the user typed.
    session: Option<Tgid>,
    /// The process that read the typed characters.
    reader: Option<Tgid>,
}

/// A terminal as the policy's device.
fn source(Device { major, minor }: Device, world: &mut dyn World) -> spry_policy::Device {
    let whose = world.owner(Device { major, minor }).map_or(DeviceOwner::Unknown, DeviceOwner::User);
    spry_policy::Device { place: Place::Terminal { major, minor }, whose }
}

/// The terminals that are in use.
#[derive(Clone, Debug, Default)]
pub struct Terminals {
    used: BTreeMap<Device, Use>,
    latest_ns: Option<u64>,
}

impl Terminals {
    /// Makes a state in which no terminal is in use.
    pub fn new() -> Terminals {
        Terminals::default()
    }

    /// Takes in the activities since the latest call. Times are nanoseconds of one clock.
    pub fn take(
        &mut self,
        now_ns: u64,
        activities: &[Activity],
        world: &mut dyn World,
    ) -> TerminalObservations {
        let since_ns = now_ns - self.latest_ns.replace(now_ns).unwrap_or(now_ns.saturating_sub(SECOND_NS));
        // Characters that came within a moment may all have come at its end. So the time since the last call
        // counts as at least 50 ms; a long pause counts as a second at most.
        let part_ns = since_ns.clamp(SECOND_NS / 20, SECOND_NS);
        let most = |per_s: u64| (per_s * part_ns).div_ceil(SECOND_NS);
        let mut samples = Vec::new();
        for activity in activities {
            let keys = self.keys(now_ns, activity, world);
            let in_use = self.used.contains_key(&activity.device);
            let (Some(reader), true) = (activity.reader, in_use) else { continue };
            let size = world.size(activity.device).unwrap_or(USUAL_SIZE);
            let characters = u64::from(size.rows.max(1)) * u64::from(size.columns.max(1));
            let output_ppm = u64::from(activity.shown) * 1_000_000 / characters;
            let changes = Changes {
                input: u64::from(keys).min(most(KEYS_PER_S_MAX)) as u32,
                output_ppm: output_ppm.min(most(SCREENS_PPM_PER_S_MAX)),
            };
            if !changes.is_none() {
                samples.push(Sample { tgid: reader, device: source(activity.device, world), changes });
            }
        }
        self.used.retain(|_, used| now_ns - used.at_ns < QUIET_NS);
        let mut server = |(device, tgid)| Some(Server { tgid: tgid?, device: Some(source(device, world)) });
        let mut servers: Vec<Server> = self.used().filter_map(&mut server).collect();
        servers.sort_unstable();
        TerminalObservations { servers, samples }
    }

    /// The number of keys that a person typed at a terminal.
    fn keys(&mut self, now_ns: u64, activity: &Activity, world: &mut dyn World) -> u32 {
        if activity.keyed > 0 {
            let used = Use { at_ns: now_ns, session: None, reader: activity.reader };
            self.used.insert(activity.device, used);
            return activity.keyed;
        }
        let Some(holder) = activity.holder.filter(|_| activity.typed > 0) else { return 0 };
        // A process that types into a terminal that it also reads reaches only itself, so its keys do not
        // count.
        if activity.reader == Some(holder) || !world.is_remote_session(holder) {
            self.used.remove(&activity.device);
            return 0;
        }
        let used = Use { at_ns: now_ns, session: Some(holder), reader: activity.reader };
        self.used.insert(activity.device, used);
        activity.typed
    }

    /// The terminals in use, each with its remote session.
    pub fn used(&self) -> impl Iterator<Item = (Device, Option<Tgid>)> + '_ {
        self.used.iter().map(|(&device, used)| (device, used.session))
    }

    /// The process that read the characters typed last at a terminal in use.
    pub fn reader(&self, device: Device) -> Option<Tgid> {
        self.used.get(&device)?.reader
    }

    /// Forgets the terminals in use through a process that has exited, or has become another program.
    pub fn forget(&mut self, tgid: Tgid) {
        self.used.retain(|_, used| used.session != Some(tgid));
        for used in self.used.values_mut() {
            used.reader = used.reader.filter(|&reader| reader != tgid);
        }
    }
}
