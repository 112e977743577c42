//! The reports that count: real processes of another user write true reports and forged reports to the
//! socket for reports.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use spry_display::{DeviceError, DeviceOptions, DeviceStatus, Devices, Reporter};
use spry_policy::{Changes, Server, Tgid};

/// The user `nobody`: if the tests run as root, the sender runs as this user.
const NOBODY: u32 = 65_534;
/// A script that sends each of its arguments as a report, sleeps, or becomes another program.
const SENDER: &str = r#"
    use Socket;
    socket(my $socket, AF_UNIX, SOCK_DGRAM, 0) or die;
    my $to = sockaddr_un(shift);
    for (@ARGV) {
        if (/^sleep (.*)/) { select(undef, undef, undef, $1) }
        elsif (/^become (.*)/) { exec split(/ /, $1) }
        else { send($socket, $_, 0, $to) or die "$!" }
    }
    sleep 10;
"#;

struct Desk {
    devices: Devices,
    socket: PathBuf,
}

impl Drop for Desk {
    fn drop(&mut self) {
        if let Some(directory) = self.socket.parent() {
            let _ = fs::remove_dir_all(directory);
        }
    }
}

/// Opens devices that accept these reporters and watch no display.
fn desk(name: &str, reporters: Vec<Reporter>) -> Desk {
    let directory = std::env::temp_dir().join(format!("spry-report-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("for all");
    let socket = directory.join("report.sock");
    Desk { devices: open(&socket, reporters).expect("a socket"), socket }
}

fn open(socket: &std::path::Path, reporters: Vec<Reporter>) -> Result<Devices, DeviceError> {
    let report_socket = Some(socket.to_owned());
    // This display does not exist.
    let display = Some(":65000".into());
    Devices::open(
        DeviceOptions { display, report_socket, reporters, ..DeviceOptions::default() },
        Arc::new(|| ()),
    )
}

impl Desk {
    /// Starts a process without root's rights that sends these lines.
    fn send(&self, lines: &[&str]) -> Sender {
        let mut command = Command::new("perl");
        command.args(["-e", SENDER]).arg(&self.socket).args(lines).stdin(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        Sender(command.spawn().expect("these tests need perl (Debian: perl-base)"))
    }

    /// Waits until a process was reported. Returns that report, with the reports about it in the
    /// next half second.
    fn of(&mut self, tgid: Tgid) -> Changes {
        let mut changes = Changes::default();
        wait_until(|| {
            changes.add(self.now_of(tgid));
            !changes.is_none()
        });
        thread::sleep(Duration::from_millis(500));
        changes.add(self.now_of(tgid));
        changes
    }

    fn now_of(&mut self, tgid: Tgid) -> Changes {
        let samples = self.devices.take().samples;
        samples.iter().find(|sample| sample.tgid == tgid).map(|sample| sample.changes).unwrap_or_default()
    }

    fn status(&self) -> DeviceStatus {
        self.devices.status().pop().expect("the socket is a device")
    }
}

struct Sender(Child);

impl Sender {
    fn tgid(&self) -> Tgid {
        Tgid(self.0.id())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").expect("proc").uid() == 0
}

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(20), "it does not come");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The user as which [`Desk::send`] sends.
fn sender_uid() -> u32 {
    if is_root() { NOBODY } else { fs::metadata("/proc/self").expect("proc").uid() }
}

fn program(path: &str) -> PathBuf {
    fs::canonicalize(path).expect("a program of every system")
}

#[test]
fn a_trusted_user_s_processes_report_on_each_other() {
    let mut desk = desk("trusted", vec![Reporter::User(sender_uid())]);
    let sender = desk.send(&["self 12 0.25"]);
    assert_eq!(desk.of(sender.tgid()), Changes { input: 12, output_ppm: 250_000 });
    let line = format!("{} 3 1\n{} 4 0.5", sender.tgid().0, sender.tgid().0);
    let _other = desk.send(&[&line]);
    assert_eq!(desk.of(sender.tgid()), Changes { input: 7, output_ppm: 1_500_000 });
}

#[test]
fn a_compositor_that_says_so_is_a_server() {
    let mut desk = desk("server", vec![Reporter::User(sender_uid())]);
    let sender = desk.send(&["server"]);
    wait_until(|| desk.devices.take().servers == [Server { tgid: sender.tgid(), device: None }]);
}

#[test]
fn reports_of_an_untrusted_process_raise_no_process() {
    let mut desk = desk("stranger", vec![]);
    let sender = desk.send(&["self 100 10", "server", "1 100 10"]);
    wait_until(|| desk.status().warnings.iter().any(|warning| warning.starts_with("3 lines")));
    let seen = desk.devices.take();
    assert!(seen.samples.is_empty() && seen.servers.is_empty(), "{seen:?}");
    let warnings = desk.status().warnings;
    let user = format!("user {}", sender_uid());
    assert!(
        warnings.iter().any(|warning| warning.starts_with("3 lines") && warning.contains(&user)),
        "{warnings:?}"
    );
    drop(sender);
}

#[test]
fn a_user_reports_of_no_other_user_s_process() {
    let mut desk = desk("others", vec![Reporter::User(sender_uid())]);
    // Process 1 is root's, so a report of another user about it does not count.
    let sender = desk.send(&["1 100 10", "self 1 0"]);
    let mut seen = Vec::new();
    wait_until(|| {
        seen.extend(desk.devices.take().samples);
        seen.iter().any(|sample| sample.tgid == sender.tgid())
    });
    assert_eq!(seen.len(), 1, "{seen:?}");
    assert_eq!(desk.status().warnings.len(), 1);
}

#[test]
fn more_than_is_possible_does_not_count() {
    let mut desk = desk("much", vec![Reporter::User(sender_uid())]);
    let begin = Instant::now();
    let sender = desk.send(&["self 4000000000 1e300"; 200]);
    let seen = desk.of(sender.tgid());
    // As much as one second allows may be reported at once, and then as much as the time that passes allows.
    let most_s = 1.0 + begin.elapsed().as_secs_f64();
    assert!(seen.input >= 1_000 && f64::from(seen.input) <= most_s * 1_000.0, "{seen:?}");
    assert!((seen.output_ppm as f64) <= most_s * 50e6, "{seen:?}");
}

#[test]
fn an_invalid_line_is_reported_and_counts_nothing() {
    let mut desk = desk("wrong", vec![Reporter::User(sender_uid())]);
    let sender = desk.send(&["self 1", "self -1 0", "self 1 NaN", "\u{1}\u{ff}", "self 2 0"]);
    assert_eq!(desk.of(sender.tgid()), Changes { input: 2, output_ppm: 0 });
    assert_eq!(desk.status().warnings, ["4 lines could not be read"]);
}

#[test]
fn a_trusted_program_is_believed_once_it_is_known() {
    let mut desk = desk("program", vec![Reporter::Program(program("/usr/bin/perl"))]);
    let sender = desk.send(&["self 1 0", "sleep 0.8", "self 2 0"]);
    assert_eq!(desk.of(sender.tgid()).input, 2);
}

#[test]
fn a_reporter_that_becomes_a_trusted_program_gains_nothing() {
    let sleep = program("/bin/sleep");
    let mut desk = desk("become", vec![Reporter::Program(sleep.clone())]);
    // The daemon pauses after the first line, and reads the others when the sender has become the trusted
    // program.
    let mut lines = vec!["self 1 0"];
    lines.extend(["self 100 10"; 20]);
    let become_it = format!("become {} 5", sleep.display());
    lines.push(&become_it);
    let senders: Vec<Sender> = (0..10).map(|_| desk.send(&lines)).collect();
    wait_until(|| {
        senders.iter().all(|sender| {
            fs::read_link(format!("/proc/{}/exe", sender.tgid().0)).is_ok_and(|program| program == sleep)
        })
    });
    thread::sleep(Duration::from_millis(500));
    let seen = desk.devices.take();
    assert!(seen.samples.is_empty(), "{seen:?}");
}

#[test]
fn a_program_that_its_user_can_change_is_not_trusted() {
    let directory = std::env::temp_dir().join(format!("spry-copy-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    let copy = directory.join("perl");
    fs::copy(program("/usr/bin/perl"), &copy).expect("a copy");
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o777)).expect("for all");
    let mut desk = desk("copy", vec![Reporter::Program(copy.clone())]);
    let mut command = Command::new(&copy);
    command.args(["-e", SENDER]).arg(&desk.socket).args(["self 1 0", "sleep 0.8", "self 2 0"]);
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let sender = Sender(command.spawn().expect("it starts"));
    wait_until(|| desk.status().warnings.iter().any(|warning| warning.starts_with("2 lines")));
    assert_eq!(desk.now_of(sender.tgid()).input, 0);
    fs::remove_dir_all(&directory).expect("it goes");
}

#[test]
fn a_socket_that_was_left_is_taken_and_one_in_use_is_not() {
    let desk = desk("left", vec![]);
    assert!(open(&desk.socket, vec![]).is_err(), "two desks at one socket");
    let left = desk.socket.with_file_name("left.sock");
    drop(std::os::unix::net::UnixDatagram::bind(&left).expect("a socket"));
    assert!(left.exists());
    open(&left, vec![]).expect("nobody listens there");
    assert!(!left.exists(), "it is removed in the end");
}
