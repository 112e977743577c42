//! Tests that a queue that has grown to its size allocates no more, and that waits in a ring do not allocate,
//! with an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use spry_timer::{Handle, Terms, Timers, Trigger};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many timers there are at once.
const TIMERS: usize = 500;

/// Random numbers that are the same in each run (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Terms of all kinds, from a microsecond to a minute.
    fn terms(&mut self, now_ns: u64) -> Terms {
        let longest_ns = 1_000 << self.below(26);
        let deadline_ns = now_ns + self.below(longest_ns);
        match self.below(4) {
            0 => Terms::hard(deadline_ns),
            1 => Terms::soft(deadline_ns),
            2 => Terms::firm(deadline_ns, 50_000),
            _ => Terms::firm(deadline_ns, 500_000).every(1_000_000 + self.below(1_000_000)),
        }
    }
}

/// Arms, cancels, arms again and fires, and keeps the number of timers.
fn churn(timers: &mut Timers<usize>, handles: &mut [Handle], random: &mut Random, now_ns: &mut u64) {
    for _ in 0..50_000 {
        let at = random.below(TIMERS as u64) as usize;
        let terms = random.terms(*now_ns);
        if random.below(2) == 0 && timers.cancel(handles[at]).is_some() {
            handles[at] = timers.arm(*now_ns, terms, at).expect("it can be kept");
        } else if timers.rearm(*now_ns, handles[at], terms).is_err() {
            panic!("every timer that ended was armed again");
        }
        *now_ns += random.below(20_000);
        if timers.poll(*now_ns) {
            while let Some(fired) = timers.take(*now_ns, Trigger::Check) {
                if timers.deadline_ns(fired.handle).is_none() {
                    let terms = random.terms(*now_ns);
                    handles[fired.value] = timers.arm(*now_ns, terms, fired.value).expect("it can be kept");
                }
            }
        }
        timers.backstop_ns();
    }
}

#[test]
fn a_queue_of_a_known_size_never_allocates_after_its_start() {
    let mut random = Random(0x5e_ed);
    let mut now_ns = 1;
    let mut timers = Timers::with_capacity(TIMERS);
    let mut handles: Vec<Handle> = Vec::with_capacity(TIMERS);
    let before = COUNT.with(Cell::get);
    for value in 0..TIMERS {
        let terms = random.terms(now_ns);
        handles.push(timers.arm(now_ns, terms, value).expect("it can be kept"));
    }
    churn(&mut timers, &mut handles, &mut random, &mut now_ns);
    assert_eq!(COUNT.with(Cell::get) - before, 0);
    assert!(timers.counts().soft > 10_000, "{:?}", timers.counts());
}

#[cfg(feature = "io-uring")]
#[test]
fn a_wait_in_a_ring_never_allocates_after_its_start() {
    use spry_timer::{RingBackstop, now_ns};

    let backstop = RingBackstop::new().expect("the kernel has io_uring");
    let mut ring = io_uring::IoUring::new(8).expect("a ring");
    let mut timers = Timers::with_capacity(TIMERS);
    let start_ns = now_ns();
    for value in 0..TIMERS as u64 {
        let terms = Terms::firm(start_ns + value * 2_000, 20_000).every(1_000_000);
        timers.arm(start_ns, terms, value).expect("it can be kept");
    }
    let (mut completed, nop) = (0, io_uring::opcode::Nop::new().build());
    let before = COUNT.with(Cell::get);
    for round in 0..1_000 {
        if round % 2 == 0 {
            // SAFETY: the operation uses no memory.
            unsafe { ring.submission().push(&nop) }.expect("there is room");
        }
        let trigger = backstop.wait(&mut ring, timers.backstop_ns()).expect("it waits");
        completed += ring.completion().count();
        let now_ns = now_ns();
        while timers.take(now_ns, trigger).is_some() {}
    }
    assert_eq!((COUNT.with(Cell::get) - before, completed), (0, 500));
    assert!(timers.counts().hard > 0, "{:?}", timers.counts());
}
