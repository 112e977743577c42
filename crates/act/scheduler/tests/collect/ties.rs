//! Tests of the wake-ups by which one process waits for another, and of wake-ups without dependency.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};

use spry_display::terminals::Activity;
use spry_policy::Tgid;

use crate::world::{Child, World, child, get, nap, shared, terminal, until};

/// A path for a file of this test; the file that was there is removed.
fn place(name: &str) -> String {
    let place = format!("/tmp/spry-collect-{}-{name}", std::process::id());
    let _ = std::fs::remove_file(&place);
    place
}

fn send(socket: &mut UnixStream, count: usize) -> bool {
    socket.write_all(&vec![b'x'; count]).is_ok()
}

fn receive(socket: &mut UnixStream) -> bool {
    socket.read(&mut [0; 4096]).is_ok_and(|count| count > 0)
}

#[test]
fn a_client_depends_on_its_server_and_a_server_on_no_client() {
    let mut world = World::new();
    let path = place("asks");
    let listener = UnixListener::bind(&path).expect("a socket");
    let server = child(|| {
        while let Ok((mut socket, _)) = listener.accept() {
            while receive(&mut socket) && send(&mut socket, 1) {}
        }
    });
    for credentials in [0, 1] {
        let client = child(|| {
            // The kernel gives a name to a socket that requests credentials when the socket connects.
            // SAFETY: the call takes only numbers.
            let socket = unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) };
            want_credentials(socket, credentials);
            let mut socket = connected(socket, &path);
            while send(&mut socket, 1) && receive(&mut socket) {
                nap(2);
            }
        });
        world.wait("answers", |world| world.weight(client.0, server.0) >= 10);
        assert_eq!(world.weight(server.0, client.0), 0);
    }
}

/// Requests the sender's credentials with the data that a socket receives, or ends the request.
fn want_credentials(socket: RawFd, on: libc::c_int) {
    let (level, name, size) = (libc::SOL_SOCKET, libc::SO_PASSCRED, size_of::<libc::c_int>() as u32);
    // SAFETY: the call reads a number that outlives it.
    assert_eq!(unsafe { libc::setsockopt(socket, level, name, (&raw const on).cast(), size) }, 0);
}

fn connected(socket: RawFd, path: &str) -> UnixStream {
    // SAFETY: the structure has only numbers, all of which may be zero.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as u16;
    for (to, from) in address.sun_path.iter_mut().zip(path.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: the address has the given size, and nothing else owns the descriptor.
    unsafe {
        assert_eq!(libc::connect(socket, (&raw const address).cast(), size_of_val(&address) as u32), 0);
        UnixStream::from_raw_fd(socket)
    }
}

#[test]
fn a_slow_reading_server_depends_on_no_client_that_floods_it() {
    let mut world = World::new();
    let path = place("floods");
    let listener = UnixListener::bind(&path).expect("a socket");
    let server = child(|| {
        let (mut socket, _) = listener.accept().expect("a client");
        while receive(&mut socket) {
            nap(2);
        }
    });
    let client = child(|| {
        let mut socket = UnixStream::connect(&path).expect("the server");
        while send(&mut socket, 1 << 20) {}
    });
    world.wait("room", |world| world.weight(client.0, server.0) >= 3);
    nap(500);
    world.look();
    assert_eq!(world.weight(server.0, client.0), 0);
}

#[test]
fn datagrams_to_a_name_are_requests_and_within_a_pair_are_not() {
    let mut world = World::new();
    let path = place("datagrams");
    let named = UnixDatagram::bind(&path).expect("a socket");
    let (one, other) = UnixDatagram::pair().expect("a pair");
    let reader_of_name = child(|| while named.recv(&mut [0; 16]).is_ok() {});
    let reader_of_pair = child(|| while one.recv(&mut [0; 16]).is_ok() {});
    let writer = child(|| {
        let anonymous = UnixDatagram::unbound().expect("a socket");
        while anonymous.send_to(b"x", &path).is_ok() && other.send(b"x").is_ok() {
            nap(2);
        }
    });
    world.wait("an edge", |world| world.weight(reader_of_pair.0, writer.0) >= 10);
    assert_eq!(world.weight(reader_of_name.0, writer.0), 0);
}

#[test]
fn a_watcher_of_files_depends_on_no_process_that_changes_them() {
    let mut world = World::new();
    let directory = place("watched");
    let _ = std::fs::create_dir(&directory);
    let fifo = CString::new(format!("{directory}/fifo")).expect("no zero in it");
    // SAFETY: the call reads a text that ends with 0.
    unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) };
    // SAFETY: the page is shared and holds one number that both processes count in.
    let woken_times = unsafe { &*shared().cast::<AtomicU32>() };
    let watcher = child(|| {
        // SAFETY: the calls read texts that end with 0, and have room for what they write.
        unsafe {
            let watch = libc::inotify_init1(0);
            let name = CString::new(directory.as_str()).expect("no zero in it");
            libc::inotify_add_watch(watch, name.as_ptr(), libc::IN_ALL_EVENTS);
            let mut events = [0_u8; 4096];
            while libc::read(watch, events.as_mut_ptr().cast(), events.len()) > 0 {
                woken_times.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    nap(100);
    let churner = child(|| {
        let open = || OpenOptions::new().read(true).write(true).open(format!("{directory}/fifo"));
        let mut fifo = open().expect("a pipe");
        let path = format!("{directory}/file");
        loop {
            std::fs::write(&path, b"x").expect("a file");
            nap(1);
            let _ = std::fs::read(&path).expect("it is there");
            nap(1);
            std::fs::rename(&path, format!("{path}-2")).expect("it is there");
            nap(1);
            fifo.write_all(b"x").expect("room");
            nap(1);
            fifo.read_exact(&mut [0]).expect("a byte");
            nap(1);
            std::fs::remove_file(format!("{path}-2")).expect("it is there");
            nap(1);
        }
    });
    until("events", || woken_times.load(Ordering::Relaxed) >= 100);
    world.look();
    assert_eq!(world.weight(watcher.0, churner.0), 0);
    drop((watcher, churner));
    let _ = std::fs::remove_dir_all(&directory);
}

/// A file system of this test in user space. It returns the attributes of its root directory, and
/// has no other file.
struct Fuse {
    place: CString,
    device: File,
}

impl Fuse {
    fn mount() -> Fuse {
        let place = place("fuse");
        let _ = std::fs::create_dir(&place);
        let place = CString::new(place).expect("no zero in it");
        let device = OpenOptions::new().read(true).write(true).open("/dev/fuse").expect("the kernel has it");
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", device.as_raw_fd());
        let options = CString::new(options).expect("no zero in it");
        // SAFETY: the call reads texts that end with 0.
        let done = unsafe {
            let (kind, flags) = (c"fuse".as_ptr(), libc::MS_NOSUID);
            libc::mount(kind, place.as_ptr(), kind, flags, options.as_ptr().cast())
        };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        Fuse { place, device }
    }

    /// Answers requests without end (linux/fuse.h): INIT and GETATTR; every other request gets the error that
    /// it is not implemented.
    fn serve(&self) {
        let mut request = [0_u8; 1 << 17];
        while (&self.device).read(&mut request).is_ok() {
            let operation = u32::from_ne_bytes([request[4], request[5], request[6], request[7]]);
            let mut body = Vec::new();
            let mut error = 0_i32;
            match operation {
                26 => {
                    [7_u32, 31, 0, 0, 0, 4096].iter().for_each(|word| body.extend(word.to_ne_bytes()));
                    body.resize(64, 0);
                }
                3 => {
                    body.resize(104, 0);
                    body[16] = 1;
                    body[76..80].copy_from_slice(&0o40_755_u32.to_ne_bytes());
                    body[80] = 2;
                }
                _ => error = -libc::ENOSYS,
            }
            let mut answer = (16 + body.len() as u32).to_ne_bytes().to_vec();
            answer.extend(error.to_ne_bytes());
            answer.extend(&request[8..16]);
            answer.extend(body);
            // The kernel refuses an answer to a request that it has taken back, or that needs no answer.
            let _ = (&self.device).write(&answer);
        }
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        // SAFETY: the call reads texts that end with 0.
        unsafe {
            libc::umount2(self.place.as_ptr(), libc::MNT_DETACH);
            libc::rmdir(self.place.as_ptr());
        }
    }
}

#[test]
fn a_watch_of_any_user_s_on_devices_hides_no_dependency() {
    let mut world = World::new();
    // SAFETY: the page is shared and holds one number that both processes look at.
    let watches = unsafe { &*shared().cast::<AtomicU32>() };
    let _watcher = child(|| {
        // SAFETY: the text ends with 0; the child runs as the user `nobody` from then on.
        let (user, watch) = unsafe {
            let user = libc::setuid(65_534);
            let events = libc::IN_ALL_EVENTS;
            (user, libc::inotify_add_watch(libc::inotify_init1(0), c"/dev".as_ptr(), events))
        };
        watches.store(u32::from(user == 0 && watch >= 0), Ordering::Relaxed);
        nap(60_000);
    });
    until("the watch", || watches.load(Ordering::Relaxed) == 1);
    let fuse = Fuse::mount();
    let server = child(|| fuse.serve());
    let client = child(|| {
        let place = fuse.place.to_str().expect("a name of ours");
        loop {
            let _ = std::fs::metadata(place);
            nap(2);
        }
    });
    world.wait("an edge", |world| world.weight(client.0, server.0) >= 10);
}

#[test]
fn a_waiter_for_a_lock_or_counter_depends_on_the_releaser() {
    let mut world = World::new();
    // SAFETY: the call takes only numbers.
    let counter = unsafe { libc::eventfd(0, 0) };
    let lock = shared() as usize;
    let futex = move |operation: libc::c_int| {
        // SAFETY: the call takes the address of a number in memory that is never given back.
        unsafe { libc::syscall(libc::SYS_futex, lock, operation, if operation == 0 { 0 } else { 1 }, 0) }
    };
    let at_counter = child(|| {
        let mut count = 0_u64;
        // SAFETY: the call writes eight bytes, for which there is room.
        while unsafe { libc::read(counter, (&raw mut count).cast(), 8) } > 0 {}
    });
    let at_lock = child(|| while futex(libc::FUTEX_WAIT) == 0 {});
    let waker = child(|| {
        loop {
            nap(2);
            // SAFETY: the call reads the eight bytes of the array.
            unsafe { libc::write(counter, 1_u64.to_ne_bytes().as_ptr().cast(), 8) };
            futex(libc::FUTEX_WAKE);
        }
    });
    world.wait("edges", |world| {
        world.weight(at_counter.0, waker.0) >= 10 && world.weight(at_lock.0, waker.0) >= 10
    });
}

#[test]
fn a_background_poller_of_a_terminal_reads_no_typed_keys() {
    let mut world = World::new();
    let (holder_end, program_end) = terminal();
    let leader = child(|| {
        // SAFETY: the child makes the terminal its own, and one process of it goes into the background.
        unsafe {
            libc::setsid();
            libc::ioctl(program_end, libc::TIOCSCTTY, 0);
            if libc::fork() == 0 {
                libc::setpgid(0, 0);
                let mut asked = libc::pollfd { fd: program_end, events: libc::POLLIN, revents: 0 };
                loop {
                    libc::poll(&raw mut asked, 1, -1);
                    nap(1);
                }
            }
        }
        while get(program_end) > 0 {}
    });
    nap(100);
    let children = format!("/proc/{0}/task/{0}/children", leader.0.0);
    let poller = std::fs::read_to_string(children).expect("it lives");
    let poller = Child(Tgid(poller.trim().parse().expect("one child")));
    let holder = child(|| {
        loop {
            nap(5);
            // SAFETY: the call reads two bytes of a text that has them.
            unsafe { libc::write(holder_end, c"y\n".as_ptr().cast(), 2) };
        }
    });
    world.wait("edges both ways", |world| {
        world.weight(leader.0, holder.0) > 0 && world.weight(holder.0, leader.0) > 0
    });
    nap(500);
    world.look();
    assert_eq!((world.weight(poller.0, holder.0), world.weight(holder.0, poller.0)), (0, 0));
    let is_read = |seen: &Activity| seen.holder == Some(holder.0) && seen.reader == Some(poller.0);
    assert!(!world.ttys.iter().any(is_read), "{:?}", world.ttys);
}
