//! The report interface: compositors and games that no device shows report the processes in use (thesis,
//! appendix A), and the daemon decides which reports to accept. `docs/report-interface.md` has the format.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use spry_policy::{Changes, Device, DeviceOwner, Place, Server, Tgid};
use spry_sys::message::{self, Peer};
use spry_sys::poll::{self, Waker};
use spry_sys::process::parent_and_begin;

use crate::ledger::Ledger;
use crate::people::is_wholly_of;
use crate::rate::{Allowance, SCREENS_PPM};
use crate::{DeviceError, DeviceKind, DeviceState, DeviceStatus, Notify, Observations, Patience};

/// The most input events a second that a process can be reported to receive: as many as a fast mouse makes.
const INPUT_MAX: u32 = 1_000;
/// A longer message is cut at this length, bytes, so that its last line is invalid.
const MESSAGE_MAX: usize = 8 << 10;
/// At most so many messages are read at once; then the thread sleeps for [`PAUSE`].
const MESSAGES_MAX: usize = 64;
const PAUSE: Duration = Duration::from_millis(20);
/// A program's reports count only from this time after its first report on: so a process that reports and
/// then becomes a trusted program by exec gains nothing.
const ACQUAINTED: Duration = Duration::from_millis(500);
/// A reporter that is silent for this time has to begin anew.
const SILENCE: Duration = Duration::from_secs(10);
/// At most so many reporters and processes are remembered.
const KNOWN_MAX: usize = 4096;

/// A user or a program that may report.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reporter {
    /// All programs of this user may report.
    User(u32),
    /// The program with this path may report; only root may be able to change its file.
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

/// One line of a report.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Line {
    /// The sender is the server of a display.
    Server,
    /// A process received so many input events and drew so many screens; without a number, the process is
    /// the sender itself.
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
    /// The number of lines that were not counted, by the user that sent them.
    refused: BTreeMap<u32, u64>,
    malformed: u64,
}

impl Shared {
    fn public(&self) -> std::sync::MutexGuard<'_, Public> {
        // Each change of the value is complete, so it can be read even if a thread panicked.
        self.public.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reports {
    /// Makes the socket, which any user can write to, and listens.
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
        let desk = Desk { socket, reporters, known: BTreeMap::new(), allowances: BTreeMap::new() };
        let thread = thread::Builder::new().name("spry-reports".into()).spawn(move || desk.serve(&theirs))?;
        Ok(Reports { shared, path: path.to_owned(), thread: Some(thread) })
    }

    pub(crate) fn take(&self, seen: &mut Observations) {
        let device = Device { place: Place::Reports, whose: DeviceOwner::Reported };
        seen.samples.extend(self.shared.ledger.take(device));
        let mut public = self.shared.public();
        public.servers.retain(|_, since| since.elapsed() < SILENCE);
        seen.servers.extend(public.servers.keys().map(|&tgid| Server { tgid, device: None }));
    }

    pub(crate) fn status(&self) -> DeviceStatus {
        let public = self.shared.public();
        let refused = public.refused.iter().map(|(uid, lines)| {
            format!(
                "{lines} lines of user {uid} were not counted: who reported is not trusted, \
                     or reported of others' processes"
            )
        });
        let malformed =
            (public.malformed > 0).then(|| format!("{} lines could not be read", public.malformed));
        DeviceStatus {
            name: self.path.display().to_string(),
            kind: DeviceKind::Report,
            state: DeviceState::Watched,
            server_tgid: None,
            owner_uid: None,
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
            // A panic of the thread was printed already, so it is not passed on.
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes the socket, if no other process listens at its path.
fn bind(path: &Path) -> io::Result<UnixDatagram> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let is_socket =
        fs::symlink_metadata(path).is_ok_and(|found| found.mode() & libc::S_IFMT == libc::S_IFSOCK);
    if is_socket {
        match UnixDatagram::unbound()?.connect(path) {
            Ok(()) => return Err(io::ErrorKind::AddrInUse.into()),
            // The socket file was left by a killed process.
            Err(_) => fs::remove_file(path)?,
        }
    }
    let socket = UnixDatagram::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    socket.set_nonblocking(true)?;
    message::ask_for_credentials(socket.as_fd())?;
    message::refuse_files(socket.as_fd());
    Ok(socket)
}

/// Reads reports and decides which part of them counts.
struct Desk {
    socket: UnixDatagram,
    reporters: Vec<Reporter>,
    /// The trusted programs that have reported, by process and its start: the times of the first and
    /// the latest report.
    known: BTreeMap<(Tgid, u64), (Instant, Instant)>,
    /// The amounts that may still be reported of each process.
    allowances: BTreeMap<Tgid, Reportable>,
}

/// The amounts that may still be reported of a process (input, screens), and the time of the latest report.
struct Reportable {
    input: Allowance,
    screens_ppm: Allowance,
    last: Instant,
}

impl Desk {
    fn serve(mut self, shared: &Shared) {
        let mut bytes = vec![0; MESSAGE_MAX];
        let mut patience = Patience::of_this_thread().ok();
        while !shared.is_over.load(Ordering::Acquire) {
            _ = poll::wait(&mut [poll::readable(&self.socket), poll::readable(&shared.waker)], None);
            patience.iter_mut().for_each(Patience::begin);
            for _ in 0..MESSAGES_MAX {
                let Ok(Some((count, sender))) = message::receive_from(self.socket.as_fd(), &mut bytes) else {
                    break;
                };
                self.message(&String::from_utf8_lossy(&bytes[..count]), sender, shared);
            }
            patience.iter_mut().for_each(Patience::end);
            let now = Instant::now();
            self.known.retain(|_, (_, last)| now.duration_since(*last) < SILENCE);
            self.allowances.retain(|_, reportable| now.duration_since(reportable.last) < SILENCE);
            _ = poll::wait(&mut [poll::readable(&shared.waker)], Some(PAUSE));
        }
        // Closing the socket drops the messages that were not read.
        patience.iter_mut().for_each(Patience::begin);
        drop(self);
    }

    fn message(&mut self, text: &str, sender: Peer, shared: &Shared) {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        let count = lines.clone().count() as u64;
        if !self.trusts(sender) {
            let mut public = shared.public();
            // The map is bounded, because name spaces can give one person many users' numbers.
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
                    if sender.uid == 0 || is_wholly_of(tgid, sender.uid) {
                        let changes = self.allowed(tgid, input, screens);
                        shared.ledger.credit(tgid, changes);
                    } else {
                        *shared.public().refused.entry(sender.uid).or_default() += 1;
                    }
                }
            }
        }
    }

    /// Whether the reports of this sender count.
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

    /// The part of a report that is possible.
    fn allowed(&mut self, tgid: Tgid, input: u32, screens: f64) -> Changes {
        let now = Instant::now();
        if self.allowances.len() >= KNOWN_MAX && !self.allowances.contains_key(&tgid) {
            return Changes::default();
        }
        let reportable = self.allowances.entry(tgid).or_insert_with(|| Reportable {
            input: Allowance::of(INPUT_MAX, now),
            screens_ppm: Allowance::of(SCREENS_PPM, now),
            last: now,
        });
        reportable.last = now;
        Changes {
            input: reportable.input.take_up_to(input.into(), now) as u32,
            output_ppm: reportable.screens_ppm.take_up_to((screens * 1e6).round() as u64, now),
        }
    }
}

fn program_of(tgid: Tgid) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{}/exe", tgid.0)).ok()
}

/// The time at which a process began, in ticks since boot. A process number with its start time identifies
/// one process for ever.
fn start_of(tgid: Tgid) -> Option<u64> {
    let line = fs::read(format!("/proc/{}/stat", tgid.0)).ok()?;
    parent_and_begin(&line).map(|(_, began)| began)
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
    fn words_in_any_order_are_a_line_of_finite_amounts_or_none() {
        let words =
            ["self", "server", "12", "-1", "1e308", "NaN", "inf", "0.5", "4294967296", "", "\u{0}", "é"];
        let (mut state, mut lines) = (0x2545_f491_u32, 0);
        for _ in 0..20_000 {
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 16) as usize
            };
            let text: Vec<&str> = (0..next() % 5).map(|_| words[next() % words.len()]).collect();
            if let Ok(Line::Changes(_, _, screens)) = text.join(" ").parse() {
                lines += 1;
                assert!(screens.is_finite() && screens >= 0.0, "{text:?}");
            }
        }
        assert!(lines > 10, "{lines}");
    }

    #[test]
    fn a_reporter_is_a_user_or_a_program() {
        assert_eq!("1000".parse(), Ok(Reporter::User(1000)));
        assert_eq!("/usr/bin/weston".parse(), Ok(Reporter::Program("/usr/bin/weston".into())));
        assert!("weston".parse::<Reporter>().is_err());
    }
}
