//! Programs that try to get more than their share of the CPU, as an ordinary user can write them. They go on
//! until they are killed.
//!
//! `attack KIND NUMBER [NICE]`, where KIND and NUMBER are one of these. Each spin takes US microseconds.
//!
//! `threads US`, `forks US`: a relay, in which each thread or process spins, begins the next thread or
//! process, and ends.
//! `threads-early US`, `forks-early US`: a relay, in which each member begins the next first, then spins.
//! `children US`: a process begins one child after another, and each child spins.
//! `daemons US`: as `children`, but each child's parent has ended before the child spins.
//! `ring US`: a hundred threads, each of which spins when it is its turn, and wakes the next thread.
//! `siblings US`: a relay of processes, each of which is its parent's sibling (CLONE_PARENT).
//! `exec US`: a process spins and forks, and the child becomes this program anew.
//! `sleepers US`: a hundred processes, each of which spins and then sleeps for a millisecond.
//! `naps US`: a process spins and sleeps for 50 us in turn.
//! `idlers US`: a hundred processes, each of which is of SCHED_IDLE between two spins.
//! `idler US`: one process of the kind of `idlers`.
//! `idle-forks US`: a relay of processes, each of which is of SCHED_IDLE when it begins the next process.
//! `idle-crowd COUNT`: COUNT threads of SCHED_IDLE spin without end.
//! `bomb US`: processes spin and fork until there are 400 of them; then some end while others fork.
//! `policy TID`: another task becomes BATCH and OTHER in turn, without end.
//! `masks TID`: another task is allowed on the first CPU, then on all CPUs, without end.
//! `nice TID`: another task of the same user becomes nicer and less nice in turn, without end, within the
//! user's limit.
//! `crowd COUNT`: COUNT threads of one process spin without end.
//! `bound COUNT`: as `crowd`, but the threads may use the first two CPUs only.
//! `self-batch COUNT`: COUNT threads, each of which becomes BATCH and OTHER in turn each half millisecond.
//! `ttys COUNT`: COUNT pseudo-terminals get characters without end, which kernel threads discard.
//! `light US`: a process spins and sleeps for 100 ms in turn.
//! `pump COUNT`: COUNT threads spin on the first CPU, and one thread of nice 19 on the second CPU.
//! `idle-bound CPUS`: two processes of SCHED_IDLE spin on each of the first CPUS CPUs, and one on any CPU.
//! `sets COUNT`: COUNT threads spin without end. Each of them may use a set of CPUs of its own, and changes
//! the set each 20 ms.
//! `asleep COUNT`: COUNT threads wake each 50 ms, each of which may use another set of CPUs. As many other
//! threads as there are CPUs spin without end.
//! `hops COUNT`: COUNT processes spin for 2.9 ms on the first CPU, and wake from a short sleep on the second
//! CPU.
//! `loop CPU`: an endless loop on one CPU.
//! `idle-loop CPU`: an endless loop of SCHED_IDLE on one CPU.
//!
//! `attack as UID COMMAND [ARGUMENT...]`: a command of another user, in a session of its own.
//! `attack on CPU COMMAND [ARGUMENT...]`: a command on one CPU.
//! `attack within COUNT COMMAND [ARGUMENT...]`: a command on the first COUNT CPUs.

use std::io::Write;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use spry_sys::cpus::Cpus;
use spry_sys::schedule::{self, Children, Policy};
use spry_sys::settle::Setting;
use spry_sys::{Signal, memory, process, signal};

use spry_attacks::{spin, work};

/// The time at which a member of a relay begins the next member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    AtTheEnd,
    AtTheBegin,
}

/// A relay of threads. Each thread signals its end to the next, so at most two threads exist at once.
fn threads(run: Duration, next: Next, before: Option<std::sync::mpsc::Receiver<()>>) {
    let begin_next = |end| {
        // If a thread cannot be made, the relay ends; the share of the CPU that other programs get then shows
        // it.
        drop(thread::Builder::new().stack_size(64 << 10).spawn(move || threads(run, next, end)));
    };
    if next == Next::AtTheEnd {
        spin(run);
        return begin_next(None);
    }
    if let Some(before) = before {
        // The end of the previous thread is the signal.
        before.recv().unwrap_or_default();
    }
    let (told, end): (Sender<()>, _) = channel();
    begin_next(Some(end));
    spin(run);
    drop(told);
}

/// Forks; returns `true` in the child.
fn fork() -> bool {
    // SAFETY: the program has one thread.
    unsafe { libc::fork() == 0 }
}

fn exit() -> ! {
    process::exit_now(0)
}

fn wait() {
    // SAFETY: the call takes no place for the status, which is not wanted.
    unsafe { libc::wait(std::ptr::null_mut()) };
}

fn forks(run: Duration) -> ! {
    loop {
        spin(run);
        if !fork() {
            exit();
        }
    }
}

/// A relay of processes. A child waits until its parent has ended, so that at most two
/// processes exist at once.
fn forks_early(run: Duration) -> ! {
    loop {
        let mut ends = [0; 2];
        // SAFETY: the call writes two numbers, for which there is room.
        unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) };
        if fork() {
            // SAFETY: the descriptors are this process' own; the read ends with the parent.
            unsafe {
                libc::close(ends[1]);
                libc::read(ends[0], (&raw mut ends[1]).cast(), 1);
                libc::close(ends[0]);
            }
            continue;
        }
        spin(run);
        exit();
    }
}

fn children(run: Duration) -> ! {
    loop {
        if fork() {
            spin(run);
            exit();
        }
        wait();
    }
}

fn daemons(run: Duration) -> ! {
    loop {
        if fork() {
            if fork() {
                spin(run);
            }
            exit();
        }
        wait();
        thread::sleep(run);
    }
}

fn ring(run: Duration) -> ! {
    const THREADS: usize = 100;
    let (senders, receivers): (Vec<Sender<()>>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    senders[0].send(()).unwrap_or_default();
    for (number, receiver) in receivers.into_iter().enumerate() {
        let next = senders[(number + 1) % THREADS].clone();
        thread::spawn(move || {
            while receiver.recv().is_ok() {
                spin(run);
                next.send(()).unwrap_or_default();
            }
        });
    }
    loop {
        thread::park();
    }
}

/// Makes a child of this process' parent. Returns `true` in the child.
fn fork_sibling() -> bool {
    let none = std::ptr::null_mut::<libc::c_void>();
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: a plain fork, except that the child is a sibling of this process; the program has one thread.
    unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) == 0 }
}

fn siblings(run: Duration) -> ! {
    loop {
        spin(run);
        if !fork_sibling() {
            exit();
        }
    }
}

fn exec(run: Duration, number: u32) -> ! {
    spin(run);
    if !fork() {
        exit();
    }
    let error = Command::new("/proc/self/exe").args(["exec", &number.to_string()]).exec();
    panic!("{error}");
}

fn hundred(work: impl Fn()) -> ! {
    for _ in 0..100 {
        if fork() {
            loop {
                work();
            }
        }
    }
    loop {
        thread::park();
    }
}

fn idle_after(run: Duration) {
    spin(run);
    become_of(Policy::Idle);
    become_of(Policy::Other);
}

fn idle_forks(run: Duration) -> ! {
    loop {
        spin(run);
        become_of(Policy::Idle);
        if !fork() {
            exit();
        }
        become_of(Policy::Other);
    }
}

fn become_of(policy: Policy) {
    become_of_other(0, policy);
}

fn become_of_other(tid: u32, policy: Policy) {
    _ = schedule::set_policy(tid, policy, Children::Same);
}

fn bomb(run: Duration) -> ! {
    // All processes share this number, which is the number of processes that exist.
    let alive = &memory::shared::<std::sync::atomic::AtomicU64>(1).expect("no memory")[0];
    // The kernel reaps ended children itself from then on.
    signal::ignore(Signal::CHILD);
    alive.store(1, std::sync::atomic::Ordering::Relaxed);
    loop {
        spin(run);
        let before = alive.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if before < 400 && fork() {
            continue;
        }
        if before >= 400 {
            // The bomb keeps its size: for each process that begins, another process ends.
            alive.fetch_sub(2, std::sync::atomic::Ordering::Relaxed);
            exit();
        }
    }
}

fn allow(tid: u32, cpus: Range<u32>) {
    allow_all(tid, cpus);
}

fn allow_all(tid: u32, cpus: impl Iterator<Item = u32>) {
    _ = Cpus::of(cpus).and_then(|set| set.hold(tid));
}

fn masks(tid: u32) -> ! {
    loop {
        allow(tid, 0..1);
        allow(tid, 0..64);
    }
}

fn nice(tid: u32) -> ! {
    loop {
        for value in [1, 0] {
            _ = schedule::set_nice(tid, value);
        }
    }
}

fn crowd(count: u32) -> ! {
    for _ in 1..count {
        drop(thread::Builder::new().stack_size(64 << 10).spawn(|| {
            loop {
                work();
            }
        }));
    }
    loop {
        work();
    }
}

fn self_batch(count: u32) -> ! {
    for _ in 0..count {
        thread::spawn(|| {
            loop {
                for policy in [Policy::Batch, Policy::Other] {
                    spin(Duration::from_micros(500));
                    become_of(policy);
                }
            }
        });
    }
    loop {
        thread::park();
    }
}

/// Floods a terminal that discards its input; a kernel thread does that work.
fn flood_terminal() -> Result<()> {
    let master = std::fs::File::options().read(true).write(true).open("/dev/ptmx").context("/dev/ptmx")?;
    // SAFETY: the descriptors are this process' own and stay open; structures outlive the calls.
    unsafe {
        let fd = master.as_raw_fd();
        ensure!(libc::unlockpt(fd) == 0, "no terminal: {}", std::io::Error::last_os_error());
        let slave = libc::ioctl(fd, libc::TIOCGPTPEER, libc::O_RDWR | libc::O_NOCTTY);
        ensure!(slave >= 0, "no terminal: {}", std::io::Error::last_os_error());
        let mut modes: libc::termios = std::mem::zeroed();
        libc::tcgetattr(slave, &raw mut modes);
        modes.c_iflag = libc::IGNCR;
        modes.c_lflag = libc::ICANON;
        libc::tcsetattr(slave, libc::TCSANOW, &raw const modes);
        libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK);
    }
    let returns = [b'\r'; 1 << 16];
    loop {
        if (&master).write(&returns).is_err() {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

fn ttys(count: u32) -> Result<()> {
    for _ in 1..count {
        if fork() {
            break;
        }
    }
    flood_terminal()
}

fn become_nicer(value: i32) {
    _ = schedule::set_nice(0, value);
}

fn pump(count: u32) -> ! {
    if fork() {
        allow(0, 1..2);
        become_nicer(19);
        crowd(1);
    }
    allow(0, 0..1);
    crowd(count)
}

fn idle_bound(cpus: u32) -> ! {
    become_of(Policy::Idle);
    for cpu in (0..cpus).chain(0..cpus) {
        if fork() {
            allow(0, cpu..cpu + 1);
            break;
        }
    }
    crowd(1)
}

fn sets(count: u32) -> ! {
    let number = thread::available_parallelism().map_or(1, |cpus| cpus.get().min(63) as u32);
    for index in 0..count {
        let mut bits = u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        drop(thread::Builder::new().stack_size(64 << 10).spawn(move || {
            loop {
                bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let first = (bits >> 33) as u32 % number;
                // The set has its first CPU and a random part of the later CPUs, so that sets differ.
                allow_all(0, (first..number).filter(|cpu| bits >> (40 + cpu % 16) & 1 == 1 || *cpu == first));
                spin(Duration::from_millis(20));
            }
        }));
    }
    loop {
        thread::park();
    }
}

/// The numbers of the threads begin at 1. Bit N of a number allows its thread on CPU N + 1; CPU 0 is allowed
/// for all threads.
fn asleep(count: u32) -> ! {
    for bits in 1..=count {
        drop(thread::Builder::new().stack_size(64 << 10).spawn(move || {
            allow_all(0, (0..32).filter(|cpu| *cpu == 0 || bits >> (cpu - 1) & 1 == 1));
            loop {
                thread::sleep(Duration::from_millis(50));
            }
        }));
    }
    crowd(thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32))
}

/// Each process runs its turn on the first CPU and wakes on the second, where no task waits.
fn hops(count: u32) -> ! {
    for _ in 1..count {
        if fork() {
            break;
        }
    }
    loop {
        allow(0, 0..1);
        spin(Duration::from_micros(2_900));
        allow(0, 0..2);
        thread::sleep(Duration::from_micros(50));
    }
}

fn policy(tid: u32) -> ! {
    loop {
        for policy in [Policy::Batch, Policy::Other] {
            become_of_other(tid, policy);
        }
    }
}

/// Becomes a command that runs as another user, in a session of its own.
fn become_of_user(uid: u32, command: &[String]) -> Result<()> {
    Setting::OwnSession.apply().context("no session of its own")?;
    become_command(command, Some(uid))
}

fn become_command(command: &[String], uid: Option<u32>) -> Result<()> {
    let (program, args) = command.split_first().context("which command")?;
    let mut command = Command::new(program);
    if let Some(uid) = uid {
        command.uid(uid).gid(uid);
    }
    Err(command.args(args).exec()).context(program.clone())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().context("which kind")?;
    let number: u32 = args.next().context("a number")?.parse()?;
    if kind == "as" {
        return become_of_user(number, &args.collect::<Vec<_>>());
    }
    if kind == "on" || kind == "within" {
        allow(0, if kind == "on" { number..number + 1 } else { 0..number });
        return become_command(&args.collect::<Vec<_>>(), None);
    }
    let run = Duration::from_micros(u64::from(number));
    let value = args.next().map_or(Ok(0), |text| text.parse())?;
    become_nicer(value);
    let relay = |next| {
        thread::spawn(move || threads(run, next, None));
        loop {
            thread::park();
        }
    };
    match kind.as_str() {
        "threads" => relay(Next::AtTheEnd),
        "threads-early" => relay(Next::AtTheBegin),
        "forks" => forks(run),
        "forks-early" => forks_early(run),
        "children" => children(run),
        "daemons" => daemons(run),
        "ring" => ring(run),
        "siblings" => siblings(run),
        "exec" => exec(run, number),
        "sleepers" => hundred(|| {
            spin(run);
            thread::sleep(Duration::from_millis(1));
        }),
        "naps" => loop {
            spin(run);
            thread::sleep(Duration::from_micros(50));
        },
        "idlers" => hundred(|| idle_after(run)),
        "idler" => loop {
            idle_after(run);
        },
        "idle-forks" => idle_forks(run),
        "idle-crowd" => {
            become_of(Policy::Idle);
            crowd(number)
        }
        "bomb" => bomb(run),
        "policy" => policy(number),
        "masks" => masks(number),
        "nice" => nice(number),
        "crowd" => crowd(number),
        "bound" => {
            allow(0, 0..2);
            crowd(number)
        }
        "self-batch" => self_batch(number),
        "ttys" => ttys(number),
        "light" => loop {
            spin(run);
            thread::sleep(Duration::from_millis(100));
        },
        "pump" => pump(number),
        "idle-bound" => idle_bound(number),
        "sets" => sets(number),
        "hops" => hops(number),
        "asleep" => asleep(number),
        "loop" | "idle-loop" => {
            if kind == "idle-loop" {
                become_of(Policy::Idle);
            }
            allow(0, number..number + 1);
            crowd(1)
        }
        _ => bail!("{kind}: there is no such kind"),
    }
}
