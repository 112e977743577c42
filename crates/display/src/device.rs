//! All devices that show who is in use, behind one door.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use spry_policy::{Sample, Tgid};

use crate::report::{Reporter, Reports};
use crate::x11::Displays;

/// Whether input counts that no device sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Synthetic {
    /// Only what the user's own hands did counts, and only displays on a real screen, except one that is named.
    #[default]
    Ignored,
    /// Input by XTEST counts, and displays without a screen do: for tests and measurements. Events sent by clients
    /// never count.
    Trusted,
}

/// Called when somebody draws or receives who did not lately. From any thread; it must not wait.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// What to watch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceOptions {
    /// The only X display to watch, as `:0`; else all that there are.
    pub display: Option<String>,
    /// Whether synthetic input counts.
    pub synthetic: Synthetic,
    /// Where compositors and games report, if anywhere.
    pub report_socket: Option<PathBuf>,
    /// Whose reports count, beside root's. Others' count nothing: who reports raises itself.
    pub reporters: Vec<Reporter>,
}

/// What was seen since the last take.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// The processes of display servers.
    pub servers: Vec<Tgid>,
    /// What each process drew and received, by number.
    pub samples: Vec<Sample>,
}

/// What kind of device it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A display of X11.
    X11,
    /// The socket for reports.
    Report,
}

/// How a device is.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    /// It is looked for, or connected to.
    Waiting,
    /// It is watched.
    Watched,
    /// It is there, and left out on purpose: why.
    Ignored(String),
    /// It is there and cannot be watched: why.
    Failed(String),
}

/// A device, for people to look at.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct DeviceStatus {
    /// What it is called, as `:0`.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// How it is.
    pub state: DeviceState,
    /// The process that serves it.
    pub server_tgid: Option<u32>,
    /// What somebody should know of it.
    pub warnings: Vec<String>,
    /// Who drew or received between the last two takes.
    pub clients: Vec<ClientStatus>,
}

/// What a process did between the last two takes.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct ClientStatus {
    /// Who.
    #[serde(serialize_with = "number")]
    pub tgid: Tgid,
    /// Moments a second at which it was seen to have drawn, 50 at most on X11.
    pub frames_per_s: f64,
    /// Input events a second.
    pub input_per_s: f64,
    /// Screens a second.
    pub screens_per_s: f64,
}

fn number<S: serde::Serializer>(tgid: &Tgid, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u32(tgid.0)
}

impl ClientStatus {
    /// Whether it did nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.frames_per_s == 0.0 && self.input_per_s == 0.0 && self.screens_per_s == 0.0
    }
}

/// Why devices cannot be watched at all. That one is not there, or breaks, is no error: it may come back.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The display's name is none.
    #[error("{0:?} is no display of this machine: one is called :NUMBER, as :0")]
    Name(String),
    /// The socket for reports cannot be made.
    #[error("{}: {source}", path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kernel gives no thread or descriptor.
    #[error("watching devices: {0}")]
    Kernel(#[from] io::Error),
}

/// The devices of this machine. Dropping it ends all watching.
pub struct Devices {
    displays: Displays,
    reports: Option<Reports>,
}

impl fmt::Debug for Devices {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Devices").finish_non_exhaustive()
    }
}

impl Devices {
    /// Begins to watch. Devices that appear later are picked up.
    ///
    /// # Errors
    /// If the options make no sense or the kernel refuses threads or descriptors.
    pub fn open(options: DeviceOptions, notify: Notify) -> Result<Devices, DeviceError> {
        let displays = Displays::open(options.display.as_deref(), options.synthetic, Arc::clone(&notify))?;
        let path = options.report_socket.as_deref();
        let reports = path.map(|path| Reports::open(path, options.reporters, notify)).transpose()?;
        Ok(Devices { displays, reports })
    }

    /// What was seen since the last take. It does not wait for any device.
    pub fn take(&mut self) -> Seen {
        let mut seen = Seen::default();
        self.displays.take(&mut seen);
        if let Some(reports) = &self.reports {
            reports.take(&mut seen);
        }
        seen.servers.sort_unstable();
        seen.servers.dedup();
        seen.samples.sort_by_key(|sample| sample.tgid);
        seen.samples.dedup_by(|later, first| {
            let is_same = later.tgid == first.tgid;
            if is_same {
                first.changes.add(later.changes);
            }
            is_same
        });
        seen
    }

    /// Each device, in order of kind and name.
    pub fn status(&self) -> Vec<DeviceStatus> {
        let mut list = self.displays.status();
        list.extend(self.reports.as_ref().map(Reports::status));
        list
    }
}
