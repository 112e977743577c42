//! Programs that want more than their share of the CPU, as an ordinary user can write them. They go on until they are
//! killed.
//!
//! `attack KIND NUMBER [NICE]`:
//! `threads US`, `forks US`: a relay, in which each thread or process spins for so long, begins the next, and ends.
//! `threads-early US`, `forks-early US`: each begins the next first, then spins, and ends.
//! `children US`: a process begins one child after another, each of which spins for so long.
//! `daemons US`: the same, but each child's parent has ended before the child spins.
//! `ring US`: a hundred threads, each of which spins for so long when it is its turn, and wakes the next.
//! `siblings US`: a relay of processes, each of which is its parent's sibling (CLONE_PARENT).
//! `exec US`: a process spins for so long, forks, and the child becomes this program anew.
//! `sleepers US`: a hundred processes, each of which spins for so long and sleeps for a millisecond.
//! `idlers US`: a hundred processes, each of which is of SCHED_IDLE between two spins.
//! `bomb US`: processes spin for so long and fork, until there are 400 of them; some end and begin the next.
//! `policy TID`: another task becomes BATCH and OTHER again, without end.
//! `masks TID`: another task is allowed on the first CPU, then on all CPUs, without end.
//! `nice TID`: another task becomes nicer and less nice again, without end (of the same user's, within its limit).
//! `crowd COUNT`: so many threads of one process spin on.
//! `bound COUNT`: the same, and they may use the first two CPUs only.
//! `sets COUNT`: so many threads spin on, each of which may use another set of CPUs and changes it now and then.
//! `loop CPU`: an endless loop on one CPU.
//!
//! `attack as UID COMMAND [ARGUMENT...]`: a command of another user's, in a session of its own.

use std::ops::Range;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

fn spin(run: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < run {}
}

/// When the next of a relay begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    AtTheEnd,
    AtTheBegin,
}

/// Each thread tells the next when it has ended its work: two at most exist at once.
fn threads(run: Duration, next: Next, before: Option<std::sync::mpsc::Receiver<()>>) {
    let begin_next = |end| {
        // A thread that cannot be made ends the relay, which the bystanders' share then tells.
        drop(thread::Builder::new().stack_size(64 << 10).spawn(move || threads(run, next, end)));
    };
    if next == Next::AtTheEnd {
        spin(run);
        return begin_next(None);
    }
    if let Some(before) = before {
        // Its end is the message.
        before.recv().unwrap_or_default();
    }
    let (told, end): (Sender<()>, _) = channel();
    begin_next(Some(end));
    spin(run);
    drop(told);
}

/// In the child `true`.
fn fork() -> bool {
    // SAFETY: the program has one thread.
    unsafe { libc::fork() == 0 }
}

fn exit() -> ! {
    // SAFETY: ends this process at once.
    unsafe { libc::_exit(0) }
}

fn wait() {
    // SAFETY: a status that is not wanted.
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

/// The child waits until its parent has ended, so that two at most exist at once.
fn forks_early(run: Duration) -> ! {
    loop {
        let mut ends = [0; 2];
        // SAFETY: two numbers are written.
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

/// A child of this process' parent; in the child `true`.
fn fork_sibling() -> bool {
    let none = std::ptr::null_mut::<libc::c_void>();
    let flags = libc::CLONE_PARENT | libc::SIGCHLD;
    // SAFETY: a plain fork but for whose child it is; the program has one thread.
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
    use std::os::unix::process::CommandExt;
    spin(run);
    if !fork() {
        exit();
    }
    let error = std::process::Command::new("/proc/self/exe").args(["exec", &number.to_string()]).exec();
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

fn become_of(policy: i32) {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: the structure outlives the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const param) };
}

fn bomb(run: Duration) -> ! {
    // A number of processes that all of them share.
    // SAFETY: new memory, of which one word is used as an atomic for as long as there are processes.
    let alive = unsafe {
        let shared = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        let word = libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, shared, -1, 0);
        assert_ne!(word, libc::MAP_FAILED, "no memory");
        std::sync::atomic::AtomicU32::from_ptr(word.cast())
    };
    // SAFETY: ended children are nobody's business.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    alive.store(1, std::sync::atomic::Ordering::Relaxed);
    loop {
        spin(run);
        let before = alive.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if before < 400 && fork() {
            continue;
        }
        if before >= 400 {
            // The bomb stays as big: one ends for one that begins.
            alive.fetch_sub(2, std::sync::atomic::Ordering::Relaxed);
            exit();
        }
    }
}

fn allow(tid: i32, cpus: Range<usize>) {
    allow_all(tid, cpus);
}

fn allow_all(tid: i32, cpus: impl Iterator<Item = usize>) {
    // SAFETY: a set of CPUs is plain bits, and this function's own.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.for_each(|cpu| libc::CPU_SET(cpu, &mut set));
        libc::sched_setaffinity(tid, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

fn masks(tid: i32) -> ! {
    loop {
        allow(tid, 0..1);
        allow(tid, 0..64);
    }
}

fn nice(tid: i32) -> ! {
    loop {
        for value in [1, 0] {
            // SAFETY: numbers only.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, tid as libc::id_t, value) };
        }
    }
}

fn crowd(count: u32) -> ! {
    for _ in 1..count {
        drop(thread::Builder::new().stack_size(64 << 10).spawn(|| {
            loop {
                std::hint::spin_loop()
            }
        }));
    }
    loop {
        std::hint::spin_loop();
    }
}

fn sets(count: u32) -> ! {
    let number = thread::available_parallelism().map_or(1, |cpus| cpus.get().min(63));
    for index in 0..count {
        let mut bits = u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        drop(thread::Builder::new().stack_size(64 << 10).spawn(move || {
            loop {
                bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let first = (bits >> 33) as usize % number;
                // Every second CPU of some, so that sets differ.
                allow_all(0, (first..number).filter(|cpu| bits >> (40 + cpu % 16) & 1 == 1 || *cpu == first));
                spin(Duration::from_millis(20));
            }
        }));
    }
    loop {
        thread::park();
    }
}

fn policy(tid: i32) -> ! {
    let param = libc::sched_param { sched_priority: 0 };
    loop {
        for policy in [libc::SCHED_BATCH, libc::SCHED_OTHER] {
            // SAFETY: the structure outlives the call.
            unsafe { libc::sched_setscheduler(tid, policy, &raw const param) };
        }
    }
}

/// Becomes another user's command, in a session of its own.
fn become_of_user(uid: u32, command: &[String]) -> Result<()> {
    use std::os::unix::process::CommandExt;
    let (program, args) = command.split_first().context("which command")?;
    // SAFETY: numbers only.
    let session = unsafe { libc::setsid() };
    ensure!(session > 0, "no session of its own: {}", std::io::Error::last_os_error());
    Err(std::process::Command::new(program).args(args).uid(uid).gid(uid).exec()).context(program.clone())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let kind = args.next().context("which kind")?;
    let number: u32 = args.next().context("a number")?.parse()?;
    if kind == "as" {
        return become_of_user(number, &args.collect::<Vec<_>>());
    }
    let run = Duration::from_micros(u64::from(number));
    let value = args.next().map_or(Ok(0), |text| text.parse())?;
    // SAFETY: numbers only.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) };
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
        "idlers" => hundred(|| {
            spin(run);
            become_of(libc::SCHED_IDLE);
            become_of(libc::SCHED_OTHER);
        }),
        "bomb" => bomb(run),
        "policy" => policy(number.try_into()?),
        "masks" => masks(number.try_into()?),
        "nice" => nice(number.try_into()?),
        "crowd" => crowd(number),
        "bound" => {
            allow(0, 0..2);
            crowd(number)
        }
        "sets" => sets(number),
        "loop" => {
            allow(0, number as usize..number as usize + 1);
            crowd(1)
        }
        _ => bail!("{kind}: there is no such kind"),
    }
}
