//! Schedulers under test: their names on a command line, and the setup that a machine needs for each.

mod eevdf;

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
pub use spry_setting::Setting;

use crate::{digest, programs};

/// The kernel's file with the state of sched_ext: whether a scheduler is in charge.
pub const EXT_STATE: &str = "/sys/kernel/sched_ext/state";
const RR_TIMESLICE: &str = "/proc/sys/kernel/sched_rr_timeslice_ms";

/// A scheduler in the form of the command line: `eevdf:base_slice_us=3000`, `rr`, `scx_bpfland:-s 5000`,
/// `./my_scheduler`.
///
/// Its `Display` is the name on the command line, and the name of its column in results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SchedulerSpec {
    text: String,
    kind: Kind,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Kind {
    Eevdf(Vec<Setting>),
    Fifo,
    RoundRobin(Vec<Setting>),
    /// A published sched_ext scheduler by its name, and its arguments.
    Peer(String, Vec<String>),
    /// The binary of any sched_ext scheduler by its path, and its arguments.
    Binary(PathBuf, Vec<String>),
    /// Spry's own daemon: the kernel interface through which it acts, and further arguments.
    Spry(&'static str, Vec<String>),
}

/// The program of Spry's daemon.
const SPRY: &str = "spry-sched";
const SPRY_EYES: &str = "spry-eyes";
/// The socket that the daemon has while it is in charge.
const SPRY_SOCKET: &str = "/run/spry/sched.sock";

/// The sign that shows that a scheduler's program is in charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Sign {
    /// The kernel reports that a sched_ext scheduler is in charge.
    #[default]
    SchedExt,
    /// The scheduler's control socket exists. This is the sign of a scheduler that needs no sched_ext.
    Socket,
}

/// The program of a scheduler under test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The path of the binary on the machine that runs the lab.
    pub file: PathBuf,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// The sign that shows that the program is in charge.
    pub sign: Sign,
}

impl Program {
    /// The path of a program that this program starts itself. Spry's daemon starts `spry-eyes`, which
    /// watches displays.
    #[must_use]
    pub fn helper(&self) -> Option<PathBuf> {
        self.file.ends_with(SPRY).then(|| self.file.with_file_name(SPRY_EYES))
    }

    fn scx(file: PathBuf, args: &[String]) -> Program {
        Program { file, args: args.to_vec(), sign: Sign::SchedExt }
    }
}

impl Sign {
    /// Whether the sign shows now, on this machine, that the scheduler is in charge.
    pub fn is_seen(self) -> bool {
        match self {
            Sign::SchedExt => std::fs::read_to_string(EXT_STATE).is_ok_and(|state| state.trim() == "enabled"),
            Sign::Socket => Path::new(SPRY_SOCKET).exists(),
        }
    }
}

/// The real-time class in which a scenario's ordinary tasks run, all at the same priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RealTimeClass {
    /// First in, first out: `SCHED_FIFO`.
    Fifo,
    /// In turns of a quantum: `SCHED_RR`.
    RoundRobin,
}

impl RealTimeClass {
    /// The value of the option `--class` of `spry-runner`.
    pub fn runner_argument(self) -> &'static str {
        match self {
            RealTimeClass::Fifo => "fifo:1",
            RealTimeClass::RoundRobin => "rr:1",
        }
    }
}

/// The steps of a machine before it runs a scenario under a scheduler, in this order.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Setup {
    /// The settings that are written.
    pub settings: Vec<Setting>,
    /// A program that must run and be in charge of the CPUs.
    pub program: Option<Program>,
    /// The class of the scenario's ordinary tasks; `None`: the kernel's ordinary class.
    pub class: Option<RealTimeClass>,
}

impl Setup {
    /// The setup for a display that has synthetic input only (Xvfb). An option makes Spry's daemon
    /// trust that input.
    #[must_use]
    pub fn with_synthetic_input(mut self) -> Setup {
        if let Some(program) = self.program.as_mut().filter(|program| program.file.ends_with(SPRY)) {
            program.args.push("--trust-synthetic".to_owned());
        }
        self
    }
}

/// The directory of the lab's cache in which `./x peers` puts the published schedulers.
pub fn peers_directory(cache: &Path) -> PathBuf {
    cache.join("peers/bin")
}

/// The reason why a scheduler is not available.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SchedulerError {
    /// No scheduler has this name.
    #[error(
        "there is no scheduler `{0}`: say eevdf, fifo, rr, spry, spry-fair, the name of a sched_ext \
         scheduler (scx_bpfland), or the path of one's binary (./scx_mine)"
    )]
    Unknown(String),
    /// The scheduler does not have this setting.
    #[error("`{setting}` is no setting of {scheduler}: {allowed}")]
    Setting {
        /// The setting that was given.
        setting: String,
        /// The name of the scheduler.
        scheduler: &'static str,
        /// The settings that the scheduler has.
        allowed: &'static str,
    },
    /// A published scheduler that has not been built.
    #[error(
        "{name} is not in {}: build the published schedulers with `./x peers`, or give \
         the path of a binary", directory.display()
    )]
    NoPeer {
        /// The scheduler's name.
        name: String,
        /// The directory in which it was sought.
        directory: PathBuf,
    },
    /// The path does not lead to a file.
    #[error("there is no scheduler at {}", .0.display())]
    NoFile(PathBuf),
    /// Spry's own daemon has not been built.
    #[error(
        "spry-sched is neither beside this program nor on the path: build the whole workspace (`cargo \
         build --release`)"
    )]
    NoDaemon,
    /// A program of the scheduler cannot be read.
    #[error("{}: {reason}", file.display())]
    Unreadable {
        /// The path of the program.
        file: PathBuf,
        /// The error of the system.
        reason: String,
    },
}

impl FromStr for SchedulerSpec {
    type Err = SchedulerError;

    fn from_str(text: &str) -> Result<SchedulerSpec, SchedulerError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let kind = match name {
            _ if text.contains('/') => binary(text),
            "eevdf" => Kind::Eevdf(eevdf::settings(rest)?),
            "spry" => Kind::Spry("scx", words(rest)),
            "spry-fair" => Kind::Spry("fair", words(rest)),
            "fifo" if rest.is_empty() => Kind::Fifo,
            "fifo" => {
                let allowed = "it has none";
                return Err(SchedulerError::Setting { setting: rest.to_owned(), scheduler: "fifo", allowed });
            }
            "rr" => Kind::RoundRobin(round_robin(rest)?),
            _ if name.len() > "scx_".len() && name.starts_with("scx_") => {
                Kind::Peer(name.to_owned(), words(rest))
            }
            _ => return Err(SchedulerError::Unknown(text.to_owned())),
        };
        Ok(SchedulerSpec { text: text.to_owned(), kind })
    }
}

/// Splits a path from its arguments, which follow a colon. If a file has the whole text as its name, the
/// whole text is the path.
fn binary(text: &str) -> Kind {
    match text.split_once(':') {
        Some((path, args)) if !Path::new(text).exists() => Kind::Binary(path.into(), words(args)),
        _ => Kind::Binary(text.into(), Vec::new()),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn round_robin(settings: &str) -> Result<Vec<Setting>, SchedulerError> {
    let wrong = |setting: &str| SchedulerError::Setting {
        setting: setting.to_owned(),
        scheduler: "rr",
        allowed: "it has timeslice_ms=N, 1 or more",
    };
    let settings = settings.split(',').filter(|setting| !setting.is_empty());
    settings
        .map(|setting| {
            let value = setting.strip_prefix("timeslice_ms=").ok_or_else(|| wrong(setting))?;
            let ms: u32 = value.parse().ok().filter(|&ms| ms > 0).ok_or_else(|| wrong(setting))?;
            Ok(Setting { path: RR_TIMESLICE.to_owned(), value: ms.to_string() })
        })
        .collect()
}

impl SchedulerSpec {
    /// The setup that a machine needs to run under this scheduler. Published schedulers are taken from the
    /// directory `peers`.
    ///
    /// # Errors
    /// If the scheduler's binary does not exist.
    pub fn setup(&self, peers: &Path) -> Result<Setup, SchedulerError> {
        Ok(match &self.kind {
            Kind::Eevdf(settings) => Setup { settings: settings.clone(), ..Setup::default() },
            Kind::Fifo => Setup { class: Some(RealTimeClass::Fifo), ..Setup::default() },
            Kind::RoundRobin(settings) => {
                let class = Some(RealTimeClass::RoundRobin);
                Setup { settings: settings.clone(), class, ..Setup::default() }
            }
            Kind::Peer(name, args) => {
                let file = peers.join(name);
                if !file.is_file() {
                    let directory = peers.to_owned();
                    return Err(SchedulerError::NoPeer { name: name.clone(), directory });
                }
                Setup { program: Some(Program::scx(file, args)), ..Setup::default() }
            }
            Kind::Binary(file, args) => {
                if !file.is_file() {
                    return Err(SchedulerError::NoFile(file.clone()));
                }
                Setup { program: Some(Program::scx(file.clone(), args)), ..Setup::default() }
            }
            Kind::Spry(actuator, args) => {
                let sign = if *actuator == "fair" { Sign::Socket } else { Sign::SchedExt };
                let run = ["run", "--actuator", actuator].map(str::to_owned);
                let args = run.into_iter().chain(args.iter().cloned()).collect();
                let file = programs::find(SPRY).ok_or(SchedulerError::NoDaemon)?;
                Setup { program: Some(Program { file, args, sign }), ..Setup::default() }
            }
        })
    }

    /// The scheduler as an input of a run: the hashes of its programs, or the values of its settings.
    ///
    /// # Errors
    /// If a program of the scheduler does not exist or cannot be read.
    pub fn input(&self, peers: &Path) -> Result<String, SchedulerError> {
        let setup = self.setup(peers)?;
        let Some(program) = &setup.program else {
            let settings = setup.settings.iter().map(|setting| format!("{}={}", setting.path, setting.value));
            return Ok(settings.collect::<Vec<_>>().join(" "));
        };
        let files = std::iter::once(program.file.clone()).chain(program.helper());
        let digests = files.map(|file| {
            digest::of_file(&file)
                .map_err(|error| SchedulerError::Unreadable { file, reason: error.to_string() })
        });
        Ok(digests.collect::<Result<Vec<String>, _>>()?.join(" "))
    }

    /// The name of the scheduler's column in results: the name on the command line, without the
    /// directories of a path.
    pub fn label(&self) -> String {
        match &self.kind {
            Kind::Binary(file, args) => {
                let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy().into_owned();
                if args.is_empty() { name } else { format!("{name}:{}", args.join(" ")) }
            }
            _ => self.text.clone(),
        }
    }
}

impl fmt::Display for SchedulerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> SchedulerSpec {
        text.parse().unwrap()
    }

    fn setup(text: &str) -> Setup {
        spec(text).setup(Path::new("/nowhere")).unwrap()
    }

    #[test]
    fn settings_of_eevdf_are_files_of_debugfs() {
        let settings = setup("eevdf:base_slice_us=3000,features=NO_RUN_TO_PARITY,preempt=full").settings;
        let written: Vec<_> = settings.iter().map(|s| (s.path.as_str(), s.value.as_str())).collect();
        let file = |name: &str| format!("/sys/kernel/debug/sched/{name}");
        assert_eq!(
            written,
            [
                (file("base_slice_ns").as_str(), "3000000"),
                (file("features").as_str(), "NO_RUN_TO_PARITY"),
                (file("preempt").as_str(), "full"),
            ]
        );
        assert_eq!(setup("eevdf"), Setup::default());
    }

    #[test]
    fn real_time_schedulers_move_the_tasks_to_their_class() {
        assert_eq!(setup("fifo").class, Some(RealTimeClass::Fifo));
        let rr = setup("rr:timeslice_ms=60");
        assert_eq!(rr.class, Some(RealTimeClass::RoundRobin));
        assert_eq!(rr.settings, [Setting { path: RR_TIMESLICE.to_owned(), value: "60".to_owned() }]);
    }

    #[test]
    fn a_path_is_a_binary_with_arguments_after_a_colon() {
        let here = std::env::current_exe().unwrap();
        let text = format!("{}:--slice-us 500 -v", here.display());
        let program = setup(&text).program.unwrap();
        assert_eq!(program.file, here);
        assert_eq!(program.args, ["--slice-us", "500", "-v"]);
        let name = here.file_name().unwrap().to_string_lossy();
        assert_eq!(spec(&text).label(), format!("{name}:--slice-us 500 -v"));
    }

    #[test]
    fn an_unbuilt_peer_is_an_error_that_names_its_build_command() {
        let error = spec("scx_bpfland").setup(Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.contains("./x peers"), "{error}");
        assert_eq!(spec("scx_bpfland:-s 5000").label(), "scx_bpfland:-s 5000");
    }

    #[test]
    fn mistakes_name_what_is_allowed() {
        for (text, allowed) in [
            ("cfs", "eevdf, fifo, rr"),
            ("scx_", "eevdf, fifo, rr"),
            ("eevdf:slice=3", "base_slice_us"),
            ("eevdf:base_slice_us=3ms", "base_slice_us"),
            ("eevdf:preempt=some", "none, voluntary, full or lazy"),
            ("eevdf:features=", "features"),
            ("rr:timeslice_ms=0", "timeslice_ms=N"),
            ("fifo:x=1", "it has none"),
        ] {
            let error = text.parse::<SchedulerSpec>().unwrap_err().to_string();
            assert!(error.contains(allowed), "{text}: {error}");
        }
    }
}
