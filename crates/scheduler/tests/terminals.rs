//! Whose session is a remote one, and how large a terminal is, as the running machine tells. Takes root.

use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use spry_display::terminals::{Device, Size, System, World};
use spry_policy::Tgid;

const NOBODY: u32 = 65534;

/// What is said of a child that has given up root's rights, if it opened a connection or inherited this process'.
fn is_remote_child(connect: Option<u16>) -> bool {
    let mut ready = [0; 2];
    // SAFETY: a place for two descriptors.
    assert_eq!(unsafe { libc::pipe(ready.as_mut_ptr()) }, 0);
    // SAFETY: the child only makes system calls, and is killed below.
    let child = match unsafe { libc::fork() } {
        0 => {
            if connect.is_some() {
                for fd in (3..64).filter(|fd| !ready.contains(fd)) {
                    // SAFETY: what it inherited, so that it has connections of its own only.
                    unsafe { libc::close(fd) };
                }
            }
            let own = connect.map(|port| TcpStream::connect(("127.0.0.1", port)));
            // SAFETY: gives up root's rights, says so, waits for its end.
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
    // SAFETY: a place for one byte.
    assert_eq!(unsafe { libc::read(ready[0], (&raw mut byte).cast(), 1) }, 1);
    let is_remote = System::new().is_remote_session(Tgid(child as u32));
    // SAFETY: a child that was not waited for yet.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    is_remote
}

#[test]
fn a_session_s_process_has_roots_connection_and_a_users_own_connection_makes_none() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let port = listener.local_addr().expect("it is bound").port();
    assert!(!System::new().is_remote_session(Tgid(std::process::id())), "no connection yet");
    assert!(!is_remote_child(Some(port)), "its own, which root has no part in");
    let connection = TcpStream::connect(("127.0.0.1", port)).expect("somebody listens");
    let accepted = listener.accept().expect("it is there");
    // Asked before it had the connection; a new look sees it.
    assert!(System::new().is_remote_session(Tgid(std::process::id())), "root's own connection");
    assert!(is_remote_child(None), "the one that its parent, root's, has too");
    drop((connection, accepted));
}

#[test]
fn a_terminal_tells_its_size() {
    let (mut holder, mut program) = (0, 0);
    let size = libc::winsize { ws_row: 50, ws_col: 132, ws_xpixel: 0, ws_ypixel: 0 };
    let (name, nothing) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: places for two descriptors, and a size.
    assert_eq!(unsafe { libc::openpty(&mut holder, &mut program, name, nothing, &raw const size) }, 0);
    let path = std::fs::read_link(format!("/proc/self/fd/{}", program.as_raw_fd())).expect("it is open");
    let path = path.to_str().expect("a plain path");
    let minor = path.strip_prefix("/dev/pts/").and_then(|number| number.parse().ok()).expect("a number");
    let device = Device { major: 136, minor };
    assert_eq!(System::new().size(device), Some(Size { rows: 50, columns: 132 }));
    assert_eq!(System::new().size(Device { major: 136, minor: 1_000_000 }), None);
}
