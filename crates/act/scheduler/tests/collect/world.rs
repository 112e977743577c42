//! Common parts of the tests of the collection: the collection, its reports, and processes that it observes.

use std::os::fd::RawFd;
use std::time::{Duration, Instant};

use spry_display::terminals::Activity;
use spry_policy::{Constants, Graph, Tgid};
use spry_scheduler::collect::Collector;
use spry_scheduler::nodes::NODES_MAX;

/// This is longer than anything in these tests takes, however loaded the machine is.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub(crate) collector: Collector,
    pub(crate) graph: Graph,
    pub(crate) gone: Vec<Tgid>,
    pub(crate) ttys: Vec<Activity>,
}

impl World {
    pub(crate) fn new() -> World {
        World::with_room_for(NODES_MAX as u32)
    }

    pub(crate) fn with_room_for(nodes: u32) -> World {
        let collector = Collector::with_room_for(nodes, &Constants::default());
        let collector = collector.expect("the collection loads (as root)");
        World { collector, graph: Graph::new(), gone: Vec::new(), ttys: Vec::new() }
    }

    pub(crate) fn look(&mut self) {
        let drained = self.collector.drain(&mut self.graph);
        self.gone.extend(drained.gone);
        self.ttys.extend(drained.ttys);
    }

    pub(crate) fn weight(&self, waiter: Tgid, on: Tgid) -> u32 {
        let edges = self.graph.outgoing(waiter);
        edges.iter().find(|edge| edge.on == on).map_or(0, |edge| edge.weight)
    }

    /// Looks again and again until the condition is true.
    pub(crate) fn wait(&mut self, what: &str, is_so: impl Fn(&World) -> bool) {
        let start = Instant::now();
        loop {
            self.look();
            if is_so(self) {
                return;
            }
            assert!(start.elapsed() < LONG, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A process that a test has started; it is killed when this is dropped.
pub(crate) struct Child(pub(crate) Tgid);

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the process is a child that was not waited for yet.
        unsafe {
            libc::kill(self.0.0 as i32, libc::SIGKILL);
            libc::waitpid(self.0.0 as i32, std::ptr::null_mut(), 0);
        }
    }
}

pub(crate) fn child(part: impl FnOnce()) -> Child {
    // SAFETY: the child only makes system calls, then ends or is killed.
    match unsafe { libc::fork() } {
        0 => {
            part();
            // SAFETY: ends the child without the cleanup that the parent does at its end.
            unsafe { libc::_exit(0) }
        }
        tid => Child(Tgid(tid as u32)),
    }
}

pub(crate) fn pipe() -> [RawFd; 2] {
    let mut ends = [0; 2];
    // SAFETY: the call writes two descriptors, for which there is room.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    ends
}

pub(crate) fn get(fd: RawFd) -> isize {
    let mut byte = 0_u8;
    // SAFETY: the call writes one byte, for which there is room.
    unsafe { libc::read(fd, (&raw mut byte).cast(), 1) }
}

pub(crate) fn put(fd: RawFd) -> isize {
    // SAFETY: the call reads one byte of a text that has it.
    unsafe { libc::write(fd, c"x".as_ptr().cast(), 1) }
}

pub(crate) fn nap(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Both ends of a pseudo-terminal.
pub(crate) fn terminal() -> (RawFd, RawFd) {
    let (mut holder, mut program) = (0, 0);
    let (name, nothing, size) = (std::ptr::null_mut(), std::ptr::null(), std::ptr::null());
    // SAFETY: the call writes two descriptors, for which there is room; the rest is left out.
    assert_eq!(unsafe { libc::openpty(&mut holder, &mut program, name, nothing, size) }, 0);
    (holder, program)
}

/// A page of memory that this process and its children share.
pub(crate) fn shared() -> *mut libc::c_void {
    // SAFETY: a new mapping, which is never removed.
    let page = unsafe {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), 4096, protection, flags, -1, 0)
    };
    assert_ne!(page, libc::MAP_FAILED);
    page
}

/// Waits until the condition is true.
pub(crate) fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "{what}");
        nap(20);
    }
}
