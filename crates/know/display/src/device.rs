//! All devices that show which processes are in use, with one interface for the daemon.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use spry_policy::{Sample, Server, Tgid};

use crate::eyes::Displays;
use crate::report::{Reporter, Reports};

/// Whether input that comes from no device counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Synthetic {
    /// Only input of the user's own devices counts, and only displays with a keyboard or a screen of this
    /// machine are watched. A display that is named is watched in any case.
    #[default]
    Ignored,
    /// Input by XTEST counts, and displays without a screen are watched: for tests and measurements. Events
    /// that clients send never count.
    Trusted,
}

/// A function that is called when a process draws or receives input for the first time in a while. Any thread
/// may call it; it must not wait.
pub type Notify = Arc<dyn Fn() + Send + Sync>;

/// The displays and reporters that are watched, and the input that counts.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceOptions {
    /// The only X display to watch, as `:0`; if there is none, all displays are watched.
    pub display: Option<String>,
    /// Whether synthetic input counts.
    pub synthetic: Synthetic,
    /// The path of the socket at which compositors and games report the processes in use; `None` if there is
    /// no such socket.
    pub report_socket: Option<PathBuf>,
    /// The users and programs that may report, beside root. Reports of other programs do not count: a program
    /// that reports can raise its own level.
    pub reporters: Vec<Reporter>,
}

/// The observations of the devices since the last call of [`Devices::take`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Observations {
    /// The processes of display servers.
    pub servers: Vec<Server>,
    /// The samples of each device about processes that drew or received input, by the processes' numbers.
    pub samples: Vec<Sample>,
}

/// The kind of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// A display of X11.
    X11,
    /// The socket for reports.
    Report,
}

/// The state of a device.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    /// The device is looked for, or the connection to it is being made.
    Waiting,
    /// The device is watched.
    Watched,
    /// The device is there, but it is left out on purpose; the text gives the reason.
    Ignored(String),
    /// The device is there, but it cannot be watched; the text gives the reason.
    Failed(String),
}

/// The state of a device, as it is shown to people.
#[derive(Clone, PartialEq, Debug, serde::Serialize)]
pub struct DeviceStatus {
    /// The name of the device, as `:0`.
    pub name: String,
    /// The kind of the device.
    pub kind: DeviceKind,
    /// The state of the device.
    pub state: DeviceState,
    /// The process that serves the device.
    pub server_tgid: Option<u32>,
    /// The user that the display's eyes run as, or ran as until they failed; `None` for a device
    /// that is no display.
    pub owner_uid: Option<u32>,
    /// Warnings about the device for the user.
    pub warnings: Vec<String>,
    /// The processes that drew or received input between the last two calls of [`Devices::take`].
    pub clients: Vec<ClientStatus>,
}

/// The input and the drawing of a process between the last two calls of [`Devices::take`].
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub struct ClientStatus {
    /// The number of the process.
    pub tgid: Tgid,
    /// The number of drawings that were seen.
    pub frames: u32,
    /// The number of drawings a second that were seen; at most 50 on X11.
    pub frames_per_s: f64,
    /// Input events a second.
    pub input_per_s: f64,
    /// The number of whole screens that the process drew a second.
    pub screens_per_s: f64,
}

impl ClientStatus {
    /// Whether the process neither drew nor received input.
    pub(crate) fn is_idle(&self) -> bool {
        self.frames_per_s == 0.0 && self.input_per_s == 0.0 && self.screens_per_s == 0.0
    }
}

/// The reason why devices cannot be watched at all. A missing device or a broken connection is no error,
/// because the device may come back.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// The name is not the name of a display.
    #[error("{0:?} is no display of this machine: one is called :NUMBER, as :0")]
    Name(String),
    /// The socket for reports cannot be made.
    #[error("{}: {source}", path.display())]
    Socket {
        /// The path of the socket.
        path: PathBuf,
        /// The reason why it cannot be made.
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

    /// The observations since the last call. The call does not wait for any device.
    pub fn take(&mut self) -> Observations {
        let mut seen = Observations::default();
        self.displays.take(&mut seen);
        if let Some(reports) = &self.reports {
            reports.take(&mut seen);
        }
        seen.servers.sort_unstable();
        seen.servers.dedup();
        seen.samples.sort_by_key(|sample| sample.tgid);
        seen
    }

    /// The processes that look at displays for this process.
    pub fn helpers(&self) -> Vec<Tgid> {
        self.displays.helpers()
    }

    /// Each device, in order of kind and name.
    pub fn status(&self) -> Vec<DeviceStatus> {
        let mut list = self.displays.status();
        list.extend(self.reports.as_ref().map(Reports::status));
        list
    }
}
