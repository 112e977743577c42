//! Terminals: who is typed at, on consoles, serial lines and in remote sessions, each a device of its own.
//!
//! A terminal's keys come from a device's interrupt (consoles, serial lines), or from the process that holds the other end of
//! a pseudo-terminal. The latter is a root only if that process is a remote session's, which [`World`] decides. Any
//! other holder, a terminal's window for instance, is in use as far as it is used itself; the graph leads from it to
//! who reads there. So a process that types to its own child gains nothing, and neither do those who only write into
//! a terminal, as compilers do.

use std::collections::BTreeMap;
use std::fmt;

use spry_policy::{Changes, Sample, Tgid};

mod system;

pub use system::System;

/// Characters of a second that count as input; a person types less, what is pasted is no more use than that.
const KEYS_PER_S_MAX: u64 = 50;

/// A terminal's share of the screen is at most all of it, once a second.
const SCREENS_PPM_PER_S_MAX: u64 = 1_000_000;

/// A terminal that nobody has typed at for so long is nobody's, ns.
const QUIET_NS: u64 = 10_000_000_000;

/// The size of a terminal that does not tell, characters.
const USUAL_SIZE: Size = Size { rows: 24, columns: 80 };

const CONSOLE_MAJOR: u32 = 4;
const PTY_MAJOR: u32 = 136;

/// Minor numbers below are consoles', the others serial lines'.
const CONSOLES: u32 = 64;

const SECOND_NS: u64 = 1_000_000_000;

/// A terminal by its device number: pseudo-terminals by that of the end that programs have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Device {
    /// 4: consoles and serial lines; 136: pseudo-terminals, whatever their number.
    pub major: u32,
    /// Which of them.
    pub minor: u32,
}

impl fmt::Display for Device {
    /// As the node below `/dev` is called.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Device { major: PTY_MAJOR, minor } => write!(f, "pts/{minor}"),
            Device { major: CONSOLE_MAJOR, minor } if minor < CONSOLES => write!(f, "tty{minor}"),
            Device { major: CONSOLE_MAJOR, minor } => write!(f, "ttyS{}", minor - CONSOLES),
            Device { major, minor } => write!(f, "terminal {major}:{minor}"),
        }
    }
}

/// What went through a terminal since the latest look.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Activity {
    /// Which.
    pub device: Device,
    /// Who held the other end of a pseudo-terminal, when something was typed there last.
    pub holder: Option<Tgid>,
    /// Who was waiting for what was typed last.
    pub reader: Option<Tgid>,
    /// Characters that the holder typed.
    pub typed: u32,
    /// Characters from a device's interrupt: a keyboard, a serial line.
    pub keyed: u32,
    /// Characters that the reader wrote.
    pub shown: u32,
}

/// A terminal's window, characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters of a line.
    pub columns: u16,
}

/// What is asked about the machine.
pub trait World {
    /// Whether somebody at another machine types through this process, such as a session of sshd.
    fn is_remote_session(&mut self, holder: Tgid) -> bool;

    /// The size of a terminal, if it tells.
    fn size(&mut self, device: Device) -> Option<Size>;
}

/// What terminals tell since the latest look.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[must_use]
pub struct Seen {
    /// Remote sessions that are in use: they are devices, as a display server is.
    pub servers: Vec<Tgid>,
    /// Who was typed at, and what they showed.
    pub samples: Vec<Sample>,
}

#[derive(Clone, Copy, Debug)]
struct Use {
    /// When somebody typed there last.
    at_ns: u64,
    /// The remote session that they typed through.
    session: Option<Tgid>,
    /// Who read it.
    reader: Option<Tgid>,
}

/// Terminals in use.
#[derive(Clone, Debug, Default)]
pub struct Terminals {
    used: BTreeMap<Device, Use>,
    latest_ns: Option<u64>,
}

impl Terminals {
    /// None is in use.
    pub fn new() -> Terminals {
        Terminals::default()
    }

    /// Takes in what happened since the latest call. Times are nanoseconds of one clock.
    pub fn take(&mut self, now_ns: u64, activities: &[Activity], world: &mut dyn World) -> Seen {
        let since_ns = now_ns - self.latest_ns.replace(now_ns).unwrap_or(now_ns.saturating_sub(SECOND_NS));
        // What came in a moment may all have come at its end; a long pause is no more than a second.
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
                samples.push(Sample { tgid: reader, changes });
            }
        }
        self.used.retain(|_, used| now_ns - used.at_ns < QUIET_NS);
        let mut servers: Vec<Tgid> = self.used.values().filter_map(|used| used.session).collect();
        servers.sort_unstable();
        servers.dedup();
        Seen { servers, samples }
    }

    /// Keys of a person at a terminal.
    fn keys(&mut self, now_ns: u64, activity: &Activity, world: &mut dyn World) -> u32 {
        if activity.keyed > 0 {
            let used = Use { at_ns: now_ns, session: None, reader: activity.reader };
            self.used.insert(activity.device, used);
            return activity.keyed;
        }
        let Some(holder) = activity.holder.filter(|_| activity.typed > 0) else { return 0 };
        // Through a terminal of its own a process reaches itself only.
        if activity.reader == Some(holder) || !world.is_remote_session(holder) {
            self.used.remove(&activity.device);
            return 0;
        }
        let used = Use { at_ns: now_ns, session: Some(holder), reader: activity.reader };
        self.used.insert(activity.device, used);
        activity.typed
    }

    /// The terminals in use, with their sessions.
    pub fn used(&self) -> impl Iterator<Item = (Device, Option<Tgid>)> + '_ {
        self.used.iter().map(|(&device, used)| (device, used.session))
    }

    /// Who read what was typed last at a terminal in use.
    pub fn reader(&self, device: Device) -> Option<Tgid> {
        self.used.get(&device)?.reader
    }

    /// A process is no more, or has become another program.
    pub fn forget(&mut self, tgid: Tgid) {
        self.used.retain(|_, used| used.session != Some(tgid));
        for used in self.used.values_mut() {
            used.reader = used.reader.filter(|&reader| reader != tgid);
        }
    }
}
