//! Tests of the collection on the running kernel, with real processes, pipes, sockets and terminals.
//! They need root.

mod ptys;
mod ties;
mod users;
mod world;

use std::ffi::CString;
use std::io::{BufRead, BufReader};
use std::os::fd::RawFd;
use std::process::{Child as Program, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use spry_display::terminals::Activity;
use spry_policy::Tgid;
use spry_test_run::is_long;

use world::{Child, LONG, World, child, get, nap, pipe, put, shared, terminal, until};

/// Two processes: one reads the bytes that the other writes; the writer sleeps after each write.
fn reader_and_writer(ends: [RawFd; 2]) -> (Child, Child) {
    let reader = child(|| while get(ends[0]) > 0 {});
    let writer = child(|| {
        while put(ends[1]) > 0 {
            nap(2);
        }
    });
    (reader, writer)
}

#[test]
fn a_pipe_s_waiting_reader_depends_on_its_writer_only() {
    let mut world = World::new();
    let (reader, writer) = reader_and_writer(pipe());
    world.wait("an edge", |world| world.weight(reader.0, writer.0) >= 10);
    assert_eq!(world.weight(writer.0, reader.0), 0);
}

#[test]
fn a_reader_at_a_socket_depends_on_the_sender() {
    let mut world = World::new();
    let mut ends = [0; 2];
    // SAFETY: the call writes two descriptors, for which there is room.
    assert_eq!(unsafe { libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, ends.as_mut_ptr()) }, 0);
    let (reader, writer) = reader_and_writer(ends);
    world.wait("an edge", |world| world.weight(reader.0, writer.0) >= 10);
}

#[test]
fn a_full_pipe_s_reader_depends_on_its_waiting_writer() {
    let mut world = World::new();
    let ends = pipe();
    let writer = child(|| {
        let bytes = [0_u8; 1 << 17];
        // SAFETY: the call reads the bytes of the array, which are more than a pipe takes.
        while unsafe { libc::write(ends[1], bytes.as_ptr().cast(), bytes.len()) } > 0 {}
    });
    let reader = child(|| {
        let mut bytes = [0_u8; 4096];
        loop {
            // The process sleeps first, so that there are bytes to read and it never waits for them.
            nap(5);
            // SAFETY: the call writes at most as many bytes as the array has.
            unsafe { libc::read(ends[0], bytes.as_mut_ptr().cast(), bytes.len()) };
        }
    });
    world.wait("edges both ways", |world| {
        world.weight(reader.0, writer.0) >= 3 && world.weight(writer.0, reader.0) >= 3
    });
}

#[test]
fn each_wake_up_is_counted_once() {
    const TIMES: u32 = 200;
    let mut world = World::new();
    let (there, back) = (pipe(), pipe());
    let one = child(|| {
        nap(100);
        for _ in 0..TIMES {
            // The process waits until the other process has gone to sleep. Otherwise the question often
            // arrives before that, on another CPU.
            nap(1);
            put(there[1]);
            get(back[0]);
        }
        nap(60_000);
    });
    let other = child(|| {
        while get(there[0]) > 0 {
            put(back[1]);
        }
    });
    world.wait("nearly all of them", |world| world.weight(other.0, one.0) >= TIMES * 9 / 10);
    nap(500);
    world.look();
    assert!((TIMES * 9 / 10..=TIMES).contains(&world.weight(other.0, one.0)));
    // An answer may be there before the asking process waits for it.
    assert!((1..=TIMES).contains(&world.weight(one.0, other.0)));
}

#[test]
fn a_process_woken_by_alarms_alone_has_no_node() {
    let mut world = World::new();
    let sleeper = child(|| {
        loop {
            nap(1);
        }
    });
    nap(300);
    world.look();
    assert_eq!(world.collector.find(sleeper.0), None);
    // A process that only a device has reported is given a node.
    let name = world.collector.ensure(sleeper.0).expect("it lives");
    assert_eq!(world.collector.nodes().owner(name), Some(sleeper.0));
    let tgid = sleeper.0;
    drop(sleeper);
    assert_eq!(world.collector.nodes().owner(name), None);
    assert_eq!(world.collector.ensure(tgid), None);
}

#[test]
fn a_signal_is_no_dependency() {
    extern "C" fn ignore(_: libc::c_int) {}
    let mut world = World::new();
    // SAFETY: the page is shared and holds one number that both processes look at.
    let woken_times = unsafe { &*shared().cast::<AtomicU32>() };
    let victim = child(|| {
        // SAFETY: the handler does nothing.
        unsafe {
            libc::signal(libc::SIGUSR1, ignore as *const () as libc::sighandler_t);
            loop {
                libc::pause();
                woken_times.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let sender = child(|| {
        nap(100);
        loop {
            // SAFETY: the process is a child of this test.
            unsafe { libc::kill(victim.0.0 as i32, libc::SIGUSR1) };
            nap(2);
        }
    });
    until("signals", || woken_times.load(Ordering::Relaxed) >= 100);
    world.look();
    assert_eq!(world.weight(victim.0, sender.0), 0);
    assert_eq!(world.collector.find(sender.0), None);
}

#[test]
fn one_that_ends_is_gone_with_its_edges() {
    let mut world = World::new();
    let (reader, writer) = reader_and_writer(pipe());
    world.wait("an edge", |world| world.weight(reader.0, writer.0) > 0);
    let (reader_tgid, writer_tgid) = (reader.0, writer.0);
    drop(writer);
    world.wait("its end", |world| world.gone.contains(&writer_tgid));
    assert_eq!(world.weight(reader_tgid, writer_tgid), 0);
    assert_eq!(world.collector.find(writer_tgid), None);
}

#[test]
fn another_program_is_another_process() {
    let mut world = World::new();
    let (ends, go) = (pipe(), pipe());
    let reader = child(|| {
        for _ in 0..50 {
            get(ends[0]);
        }
        get(go[0]);
        let program = CString::new("/bin/sleep").expect("no zero in it");
        let arguments = [program.as_ptr(), c"60".as_ptr(), std::ptr::null()];
        // SAFETY: the call reads texts that end with 0, and a list that ends with a null pointer.
        unsafe { libc::execv(program.as_ptr(), arguments.as_ptr()) };
    });
    let writer = child(|| {
        for _ in 0..50 {
            nap(2);
            put(ends[1]);
        }
        nap(60_000);
    });
    world.wait("an edge", |world| world.weight(reader.0, writer.0) > 0);
    put(go[1]);
    world.wait("its exec", |world| world.gone.contains(&reader.0));
    nap(50);
    world.look();
    assert_eq!(world.weight(reader.0, writer.0), 0);
}

#[test]
fn nodes_are_given_back_tens_of_thousands_of_times() {
    let forks = if is_long() { 100_000 } else { 20_000 };
    let mut world = World::new();
    let before = world.collector.nodes().used().len();
    // Each of the shell's children writes to a process that waits, and so is given a node. The shell is used
    // since it forks faster than this program.
    let script = format!("i=0; while [ $i -lt {forks} ]; do (echo); i=$((i+1)); done | wc -l");
    let output = Command::new("sh").args(["-c", &script]).output().expect("there is a shell");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), forks.to_string());
    world.look();
    let used = world.collector.nodes().used().len() - before;
    // Other processes of this machine have nodes, too, but not so many.
    assert!(used < 4_000, "{used} nodes for {forks} processes, one after another");
    assert_eq!(world.collector.nodes().lost_nodes(), 0);
}

#[test]
fn a_terminal_s_reader_and_typist_are_tied_and_a_writer_is_not() {
    let mut world = World::new();
    let (holder_end, program_end) = terminal();
    let rung = Arc::new(AtomicU32::new(0));
    let ring = Arc::clone(&rung);
    let notify = move || {
        ring.fetch_add(1, Ordering::Relaxed);
    };
    world.collector.watch(Arc::new(notify)).expect("there can be a thread");
    let reader = child(|| while get(program_end) > 0 {});
    let writer = child(|| {
        while put(program_end) > 0 {
            nap(5);
        }
    });
    let holder = child(|| {
        let mut bytes = [0_u8; 512];
        loop {
            nap(5);
            // SAFETY: the calls read two bytes of a text, and write at most as many bytes as the array has.
            unsafe {
                libc::write(holder_end, c"y\n".as_ptr().cast(), 2);
                libc::read(holder_end, bytes.as_mut_ptr().cast(), bytes.len());
            }
        }
    });
    world.wait("edges both ways", |world| {
        world.weight(reader.0, holder.0) > 0 && world.weight(holder.0, reader.0) > 0
    });
    nap(1000);
    world.look();
    assert_eq!(world.weight(holder.0, writer.0), 0);
    // The collection reports the first key at once, by an event; it does not do so for keys that follow
    // soon.
    assert!((1..30).contains(&rung.load(Ordering::Relaxed)), "{rung:?}");
    let is_it = |seen: &&Activity| seen.holder == Some(holder.0) && seen.reader == Some(reader.0);
    let seen: Vec<&Activity> = world.ttys.iter().filter(is_it).collect();
    assert!(!seen.is_empty(), "{:?}", world.ttys);
    let typed: u32 = seen.iter().map(|seen| seen.typed).sum();
    assert!(typed >= 10 && seen.iter().all(|seen| seen.keyed == 0), "{seen:?}");
}

/// A program that this test has started; it is ended when this is dropped.
struct StartedProgram(Program);

impl Drop for StartedProgram {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

fn start(command: &mut Command) -> StartedProgram {
    StartedProgram(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
}

/// The child process of `parent` that has this name.
fn below(parent: u32, name: &str) -> Option<Tgid> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    let is_it = |child: &&str| {
        std::fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|comm| comm.trim() == name)
    };
    children.split_ascii_whitespace().find(is_it)?.parse().ok().map(Tgid)
}

#[test]
fn from_the_display_server_the_way_leads_over_xterm_to_vi() {
    let mut world = World::new();
    let mut server = start(
        Command::new("Xvfb")
            .args(["-displayfd", "1", "-screen", "0", "800x600x24", "-nolisten", "tcp"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null()),
    );
    let mut display = String::from(":");
    let output = server.0.stdout.take().expect("it is piped");
    BufReader::new(output).read_line(&mut display).expect("the server says its number");
    let display = display.trim().to_owned();
    // `vi` is the editor that waits for keys, whatever else is installed; the line editing of a shell would
    // do as well.
    let script = "exec vi -u NONE -n";
    let window = start(
        Command::new("xterm").args(["-e", "sh", "-c", script]).env("DISPLAY", &display).stderr(Stdio::null()),
    );
    let (server_tgid, xterm) = (Tgid(server.0.id()), Tgid(window.0.id()));
    let mut editor = None;
    let typing = Instant::now();
    while editor.is_none() || world.weight(xterm, editor.expect("found")) == 0 {
        assert!(typing.elapsed() < LONG, "edges: {:?} of {xterm:?}", world.graph.outgoing(xterm));
        editor = editor.or_else(|| below(xterm.0, "vi"));
        let keys = ["key", "--window", "0", "i", "x", "Escape"];
        let _ = Command::new("xdotool").args(keys).env("DISPLAY", &display).status();
        nap(200);
        world.look();
    }
    let editor = editor.expect("found");
    assert!(world.weight(editor, xterm) > 0);
    assert!(world.weight(xterm, server_tgid) > 0);
    assert_eq!(world.weight(server_tgid, xterm), 0, "requests are no dependency");
}
