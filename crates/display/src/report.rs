//! The report interface: what compositors and games that no device shows say of themselves and of others (thesis,
//! appendix A), and whom of them to believe. `docs/report-interface.md` has the format.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use spry_policy::{Changes, Tgid};

use crate::ledger::Ledger;
use crate::sys::{self, Peer, Waker};
use crate::{DeviceError, DeviceKind, DeviceState, DeviceStatus, Notify, Seen};

/// Input events a second that one process can be reported to receive: a fast mouse.
const INPUT_MAX: f64 = 1_000.0;
/// Screens a second that one process can be reported to draw: as many as a client of X11 can be seen to.
const SCREENS_MAX: f64 = 50.0;
/// What was not used of these is saved for so long.
const SAVED_S: f64 = 1.0;
/// Longer messages are cut, which spoils their last line.
const MESSAGE_MAX: usize = 8 << 10;
/// So many messages are read at once, before the thread sleeps for [`PAUSE`].
const MESSAGES_MAX: usize = 64;
const PAUSE: Duration = Duration::from_millis(20);
/// A program is believed from so long after its first report on: one that reports and then becomes a trusted program
/// has nothing of it.
const ACQUAINTED: Duration = Duration::from_millis(500);
/// Who is silent for that long is a stranger again.
const SILENCE: Duration = Duration::from_secs(10);
/// More are not kept in mind.
const KNOWN_MAX: usize = 4096;

/// Who may report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reporter {
    /// All programs of a user.
    User(u32),
    /// A program, by the path of its file, which only root may be able to change.
    Program(PathBuf),
}

impl FromStr for Reporter {
    type Err = String;

    /// Reads a user's number or a program's path.
    fn from_str(text: &str) -> Result<Reporter, String> {
        match text.parse() {
            Ok(uid) => Ok(Reporter::User(uid)),
            Err(_) if text.starts_with('/') => Ok(Reporter::Program(text.into())),
            Err(_) => Err(format!("{text:?} is neither a user's number nor a program's whole path")),
        }
    }
}

/// One line: of whom, and what.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Line {
    /// The sender is the server of a display.
    Server,
    /// A process received and drew; the sender itself without a number.
    Changes(Option<Tgid>, u32, f64),
}

impl FromStr for Line {
    type Err = ();

    fn from_str(text: &str) -> Result<Line, ()> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["server"] => Ok(Line::Server),
            [process, input, output] => {
                let tgid = match process {
                    "self" => None,
                    number => Some(Tgid(number.parse().map_err(drop)?)),
                };
                let screens: f64 = output.parse().map_err(drop)?;
                let is_amount = screens.is_finite() && screens >= 0.0;
                let input = input.parse().map_err(drop)?;
                if is_amount { Ok(Line::Changes(tgid, input, screens)) } else { Err(()) }
            }
            _ => Err(()),
        }
    }
}

/// The socket for reports.
#[derive(Debug)]
pub(crate) struct Reports {
    shared: Arc<Shared>,
    path: PathBuf,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    is_over: AtomicBool,
    waker: Waker,
    ledger: Ledger,
    public: Mutex<Public>,
}

#[derive(Debug, Default)]
struct Public {
    servers: BTreeMap<Tgid, Instant>,
    /// Lines that were not counted, by the user who sent them.
    refused: BTreeMap<u32, u64>,
    malformed: u64,
}

impl Shared {
    fn public(&self) -> std::sync::MutexGuard<'_, Public> {
        // Each change is whole.
        self.public.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports {
    /// Makes the socket, which anybody can write to, and listens.
    pub(crate) fn open(
        path: &Path,
        reporters: Vec<Reporter>,
        notify: Notify,
    ) -> Result<Reports, DeviceError> {
        let socket = bind(path).map_err(|source| DeviceError::Socket { path: path.to_owned(), source })?;
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            waker: Waker::new()?,
            ledger: Ledger::new(notify),
            public: Mutex::new(Public::default()),
        });
        let theirs = Arc::clone(&shared);
        let mut desk = Desk { socket, reporters, known: BTreeMap::new(), allowances: BTreeMap::new() };
        let thread = thread::Builder::new().name("spry-reports".into()).spawn(move || desk.serve(&theirs))?;
        Ok(Reports { shared, path: path.to_owned(), thread: Some(thread) })
    }

    pub(crate) fn take(&self, seen: &mut Seen) {
        seen.samples.extend(self.shared.ledger.take());
        let mut public = self.shared.public();
        public.servers.retain(|_, since| since.elapsed() < SILENCE);
        seen.servers.extend(public.servers.keys());
    }

    pub(crate) fn status(&self) -> DeviceStatus {
        let public = self.shared.public();
        let refused = public.refused.iter().map(|(uid, lines)| {
            format!("{lines} lines of user {uid} were not counted: who reported is not trusted, or reported of others' processes")
        });
        let malformed =
            (public.malformed > 0).then(|| format!("{} lines could not be read", public.malformed));
        DeviceStatus {
            name: self.path.display().to_string(),
            kind: DeviceKind::Report,
            state: DeviceState::Watched,
            server_tgid: None,
            warnings: refused.chain(malformed).collect(),
            clients: self.shared.ledger.status(),
        }
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            // It has no panics to hand on that were not printed.
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Takes a place that nobody listens at.
fn bind(path: &Path) -> io::Result<UnixDatagram> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let is_socket =
        fs::symlink_metadata(path).is_ok_and(|found| found.mode() & libc::S_IFMT == libc::S_IFSOCK);
    if is_socket {
        match UnixDatagram::unbound()?.connect(path) {
            Ok(()) => return Err(io::ErrorKind::AddrInUse.into()),
            // Left by one that was killed.
            Err(_) => fs::remove_file(path)?,
        }
    }
    let socket = UnixDatagram::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    socket.set_nonblocking(true)?;
    sys::ask_for_credentials(socket.as_fd())?;
    Ok(socket)
}

/// Reads reports and decides what of them counts.
struct Desk {
    socket: UnixDatagram,
    reporters: Vec<Reporter>,
    /// Trusted programs that have reported, by process and its start: since when, and when last.
    known: BTreeMap<(Tgid, u64), (Instant, Instant)>,
    /// What may still be reported of a process: input events and screens, and as of when.
    allowances: BTreeMap<Tgid, (f64, f64, Instant)>,
}

impl Desk {
    fn serve(&mut self, shared: &Shared) {
        let descriptors = [self.socket.as_raw_fd(), shared.waker.as_fd().as_raw_fd()];
        let mut bytes = vec![0; MESSAGE_MAX];
        while !shared.is_over.load(Ordering::Acquire) {
            sys::wait(&descriptors, None);
            for _ in 0..MESSAGES_MAX {
                let Ok(Some((count, sender))) = sys::receive_from(self.socket.as_fd(), &mut bytes) else {
                    break;
                };
                self.message(&String::from_utf8_lossy(&bytes[..count]), sender, shared);
            }
            let now = Instant::now();
            self.known.retain(|_, (_, last)| now.duration_since(*last) < SILENCE);
            self.allowances.retain(|_, (.., since)| now.duration_since(*since) < SILENCE);
            sys::wait(&descriptors[1..], Some(PAUSE));
        }
    }

    fn message(&mut self, text: &str, sender: Peer, shared: &Shared) {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let count = lines.clone().count() as u64;
        if !self.trusts(sender) {
            let mut public = shared.public();
            // Users' numbers are many where name spaces give them.
            if public.refused.len() < KNOWN_MAX || public.refused.contains_key(&sender.uid) {
                *public.refused.entry(sender.uid).or_default() += count;
            }
            return;
        }
        for line in lines {
            match line.parse() {
                Err(()) => shared.public().malformed += 1,
                Ok(Line::Server) => {
                    shared.public().servers.insert(Tgid(sender.tgid), Instant::now());
                }
                Ok(Line::Changes(tgid, input, screens)) => {
                    let tgid = tgid.unwrap_or(Tgid(sender.tgid));
                    if sender.uid == 0 || uid_of(tgid) == Some(sender.uid) {
                        let changes = self.allowed(tgid, input, screens);
                        shared.ledger.credit(tgid, changes);
                    } else {
                        *shared.public().refused.entry(sender.uid).or_default() += 1;
                    }
                }
            }
        }
    }

    /// Whether a sender's word counts.
    fn trusts(&mut self, sender: Peer) -> bool {
        let is_user = |reporter: &Reporter| matches!(reporter, Reporter::User(uid) if *uid == sender.uid);
        if sender.uid == 0 || self.reporters.iter().any(is_user) {
            return true;
        }
        let Some(program) = program_of(Tgid(sender.tgid)) else { return false };
        let is_program =
            |reporter: &Reporter| matches!(reporter, Reporter::Program(path) if *path == program);
        if !self.reporters.iter().any(is_program) || !is_roots(&program) {
            return false;
        }
        let Some(start) = start_of(Tgid(sender.tgid)) else { return false };
        let now = Instant::now();
        if self.known.len() >= KNOWN_MAX {
            return false;
        }
        let (since, last) = self.known.entry((Tgid(sender.tgid), start)).or_insert((now, now));
        *last = now;
        now.duration_since(*since) >= ACQUAINTED
    }

    /// What of a report is within what is possible.
    fn allowed(&mut self, tgid: Tgid, input: u32, screens: f64) -> Changes {
        let now = Instant::now();
        if self.allowances.len() >= KNOWN_MAX && !self.allowances.contains_key(&tgid) {
            return Changes::default();
        }
        let (inputs_left, screens_left, since) =
            self.allowances.entry(tgid).or_insert((INPUT_MAX * SAVED_S, SCREENS_MAX * SAVED_S, now));
        let elapsed_s = now.duration_since(*since).as_secs_f64();
        *since = now;
        *inputs_left = (*inputs_left + elapsed_s * INPUT_MAX).min(INPUT_MAX * SAVED_S);
        *screens_left = (*screens_left + elapsed_s * SCREENS_MAX).min(SCREENS_MAX * SAVED_S);
        let input = f64::from(input).min(inputs_left.floor());
        let screens = screens.min(*screens_left);
        *inputs_left -= input;
        *screens_left -= screens;
        Changes { input: input as u32, output_ppm: (screens * 1e6).round() as u64 }
    }
}

/// The user that a process runs as.
fn uid_of(tgid: Tgid) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{}/status", tgid.0)).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn program_of(tgid: Tgid) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{}/exe", tgid.0)).ok()
}

/// When a process began, in ticks since boot: with its number, that is one process for ever.
fn start_of(tgid: Tgid) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", tgid.0)).ok()?;
    stat[stat.rfind(')')? + 1..].split_whitespace().nth(19)?.parse().ok()
}

/// Whether only root can change a program.
fn is_roots(program: &Path) -> bool {
    fs::metadata(program).is_ok_and(|found| found.uid() == 0 && found.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_process_its_input_and_its_screens() {
        assert_eq!("12 3 0.5".parse(), Ok(Line::Changes(Some(Tgid(12)), 3, 0.5)));
        assert_eq!(" self  0 25 ".parse(), Ok(Line::Changes(None, 0, 25.0)));
        assert_eq!("server".parse(), Ok(Line::Server));
        for wrong in ["", "12", "12 3", "12 -3 0", "12 3 -1", "12 3 NaN", "12 3 inf", "12 3 0 0", "-1 0 0"] {
            assert_eq!(wrong.parse::<Line>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn a_reporter_is_a_user_or_a_program() {
        assert_eq!("1000".parse(), Ok(Reporter::User(1000)));
        assert_eq!("/usr/bin/weston".parse(), Ok(Reporter::Program("/usr/bin/weston".into())));
        assert!("weston".parse::<Reporter>().is_err());
    }
}
