//! Tests of the recognition of remote sessions, and of the sizes of terminals, on the running machine.
//! They need root.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use spry_display::terminals::{Device, Size, System, World};
use spry_policy::Tgid;

const NOBODY: u32 = 65534;

/// The tests that make connections run one after the other, since all connections belong to this process.
static CONNECTIONS: Mutex<()> = Mutex::new(());

/// Whether a child that has given up root's rights counts as remote. The child opens a connection to a port,
/// or it inherits this process' connections.
fn is_remote_child(connect: Option<u16>) -> bool {
    let mut ready = [0; 2];
    // SAFETY: the call writes two descriptors, for which there is room.
    assert_eq!(unsafe { libc::pipe(ready.as_mut_ptr()) }, 0);
    // SAFETY: the child only makes system calls, and is killed below.
    let child = match unsafe { libc::fork() } {
        0 => {
            if connect.is_some() {
                for fd in (3..64).filter(|fd| !ready.contains(fd)) {
                    // SAFETY: the child closes inherited descriptors: it has only connections of its own.
                    unsafe { libc::close(fd) };
                }
            }
            let own = connect.map(|port| TcpStream::connect((HERE, port)));
            // SAFETY: the child gives up root's rights, reports this, and waits for its end.
            unsafe {
                assert_eq!(libc::setresuid(NOBODY, NOBODY, NOBODY), 0, "as root");
                libc::write(ready[1], c"x".as_ptr().cast(), 1);
                loop {
                    libc::pause();
                    std::hint::black_box(&own);
                }
            }
        }
        child => child,
    };
    let mut byte = 0_u8;
    // SAFETY: the call writes one byte, for which there is room.
    assert_eq!(unsafe { libc::read(ready[0], (&raw mut byte).cast(), 1) }, 1);
    let is_remote = System::new().is_remote_session(Tgid(child as u32));
    // SAFETY: the process is a child that was not waited for yet.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    is_remote
}

/// A stand-in for another machine: a network of its own, which a cable (veth) joins to this machine's
/// network. It ends when this is dropped.
struct RemoteSession {
    process: Child,
}

/// The addresses of this machine's end of the cable and of the other machine's end. They are of a network
/// that is reserved for tests.
const HERE: &str = "198.18.77.1";
const THERE: &str = "198.18.77.2";

impl RemoteSession {
    fn open() -> RemoteSession {
        let mut command = Command::new("sleep");
        command.arg("60").stdin(Stdio::null());
        // SAFETY: no memory of this process is touched.
        unsafe {
            command.pre_exec(|| match libc::unshare(libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let elsewhere = RemoteSession { process: command.spawn().expect("as root") };
        let there = elsewhere.process.id();
        for words in [
            "ip link set lo up".to_owned(),
            format!("ip link add spry-here type veth peer name spry-there netns {there}"),
            format!("ip addr add {HERE}/30 dev spry-here"),
            "ip link set spry-here up".to_owned(),
            format!("nsenter -t {there} -n ip addr add {THERE}/30 dev spry-there"),
            format!("nsenter -t {there} -n ip link set spry-there up"),
        ] {
            let done = Command::new("sh").args(["-c", &words]).status().expect("there is a shell");
            assert!(done.success(), "{words}");
        }
        elsewhere
    }

    /// Connects from the other machine to a port of this machine.
    fn connect(&self, port: u16) -> Child {
        let there = self.process.id().to_string();
        let script = format!("exec 3<>/dev/tcp/{HERE}/{port}; sleep 60");
        let mut command = Command::new("nsenter");
        command.args(["-t", &there, "-n", "bash", "-c", &script]).stdin(Stdio::null());
        command.spawn().expect("there is nsenter")
    }
}

impl Drop for RemoteSession {
    fn drop(&mut self) {
        // The cable disappears together with the other machine's network.
        _ = self.process.kill();
        _ = self.process.wait();
        thread::sleep(Duration::from_millis(200));
    }
}

/// Runs a test of this file again, in a network of its own without a way out. Returns whether the present run
/// is that second run.
fn is_in_own_network(test: &str) -> bool {
    const MARK: &str = "SPRY_OWN_NETWORK";
    if std::env::var_os(MARK).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().expect("it runs"));
    command.args(["--exact", "--nocapture", test]).env(MARK, "1");
    // SAFETY: no memory of this process is touched.
    unsafe {
        command.pre_exec(|| match libc::unshare(libc::CLONE_NEWNET) {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        });
    }
    let output = command.output().expect("as root");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{test} in its own network: {said}");
    false
}

#[test]
fn only_root_s_connection_makes_a_process_a_remote_session_s() {
    if !is_in_own_network("only_root_s_connection_makes_a_process_a_remote_session_s") {
        return;
    }
    let _alone = CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let elsewhere = RemoteSession::open();
    let listener = TcpListener::bind((HERE, 0)).expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    assert!(!System::new().is_remote_session(Tgid(std::process::id())), "no connection yet");
    assert!(!is_remote_child(Some(port)), "its own, which root has no part in");
    _ = listener.accept();
    let mut peer = elsewhere.connect(port);
    let accepted = listener.accept().expect("it is there");
    // The first system looked before there was the connection; a new one sees the connection.
    assert!(System::new().is_remote_session(Tgid(std::process::id())), "root's own connection");
    assert!(is_remote_child(None), "the one that its parent, root's, has too");
    _ = peer.kill();
    _ = peer.wait();
    drop(accepted);
}

#[test]
fn a_connection_with_this_machine_makes_no_session_remote() {
    let _alone = CONNECTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    for (listens, connects) in [("127.0.0.1", "127.0.0.1"), ("::", "127.0.0.1"), ("::1", "::1")] {
        let listener = match TcpListener::bind((listens, 0)) {
            Ok(listener) => listener,
            // A kernel may be without version 6 of the Internet protocol.
            Err(error) => {
                let is_without = listens.contains(':') && !fs::exists("/proc/net/if_inet6").expect("/proc");
                assert!(is_without, "{listens}: {error}");
                continue;
            }
        };
        let port = listener.local_addr().expect("it is bound").port();
        let connection = TcpStream::connect((connects, port)).expect("somebody listens");
        let accepted = listener.accept().expect("it is there");
        assert!(!System::new().is_remote_session(Tgid(std::process::id())), "{connects} at {listens}");
        drop((connection, accepted));
    }
}

#[test]
fn a_terminal_tells_its_size() {
    let (mut holder, mut program) = (0, 0);
    let size = libc::winsize { ws_row: 50, ws_col: 132, ws_xpixel: 0, ws_ypixel: 0 };
    let (name, nothing) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: the call writes two descriptors, for which there is room, and reads a size.
    assert_eq!(unsafe { libc::openpty(&mut holder, &mut program, name, nothing, &raw const size) }, 0);
    let path = std::fs::read_link(format!("/proc/self/fd/{}", program.as_raw_fd())).expect("it is open");
    let path = path.to_str().expect("a plain path");
    let minor = path.strip_prefix("/dev/pts/").and_then(|number| number.parse().ok()).expect("a number");
    let device = Device { major: 136, minor };
    assert_eq!(System::new().size(device), Some(Size { rows: 50, columns: 132 }));
    assert_eq!(System::new().size(Device { major: 136, minor: 1_000_000 }), None);
}
