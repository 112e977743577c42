//! Sends signals, keeps them from threads, and waits for them.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{kill_process, kill_process_group};

use crate::{Signal, checked, number};

/// Sends a process a signal. The caller must own the number: a child's is its own until it is waited for.
///
/// # Errors
/// If there is no such process, or it is another user's.
pub fn send(tgid: u32, signal: Signal) -> io::Result<()> {
    Ok(kill_process(number(tgid)?, signal)?)
}

/// Sends a process the signal of this number.
///
/// # Errors
/// As [`send`], or `EINVAL` if no signal has this number.
pub fn send_number(tgid: u32, signal: i32) -> io::Result<()> {
    send(tgid, numbered(signal)?)
}

/// Sends all processes of a group the signal of this number.
///
/// # Errors
/// As [`send_group`], or `EINVAL` if no signal has this number.
pub fn send_group_number(leader: u32, signal: i32) -> io::Result<()> {
    send_group(leader, numbered(signal)?)
}

fn numbered(signal: i32) -> io::Result<Signal> {
    Signal::from_named_raw(signal).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Sends all processes of a group a signal.
///
/// # Errors
/// If there is no such group, or all its processes are other users'.
pub fn send_group(leader: u32, signal: Signal) -> io::Result<()> {
    // To the kernel, the group of process 1 is every process.
    if leader == 1 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(kill_process_group(number(leader)?, signal)?)
}

/// Kills every other process of the calling process' PID namespace, in which it must be the first process.
///
/// # Errors
/// `EPERM` if it is not the first; then no process is killed.
pub fn kill_namespace() -> io::Result<()> {
    if std::process::id() != 1 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    // SAFETY: the call takes numbers.
    checked(unsafe { libc::kill(-1, libc::SIGKILL) }).map(|_| ())
}

/// Sends a thread a signal.
///
/// # Errors
/// If the process has no such thread, or it is another user's.
pub fn send_thread(tgid: u32, tid: u32, signal: Signal) -> io::Result<()> {
    let (tgid, tid) = (number(tgid)?.as_raw_nonzero(), number(tid)?.as_raw_nonzero());
    // SAFETY: the call takes numbers.
    let done = unsafe { libc::syscall(libc::SYS_tgkill, tgid.get(), tid.get(), signal.as_raw()) };
    checked(done as libc::c_int).map(|_| ())
}

/// The set of these signals.
pub(crate) fn set(signals: &[Signal]) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset fills the set, and sigaddset changes a filled set. Both fail only for wrong
    // numbers.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in signals {
            libc::sigaddset(set.as_mut_ptr(), signal.as_raw());
        }
        set.assume_init()
    }
}

fn mask(how: libc::c_int, set: &libc::sigset_t) {
    // SAFETY: the pointer is to a filled set; the old set is not requested.
    unsafe { libc::pthread_sigmask(how, &raw const *set, ptr::null_mut()) };
}

/// Keeps these signals from the calling thread. They stay pending if no other thread takes them.
pub fn block(signals: &[Signal]) {
    mask(libc::SIG_BLOCK, &set(signals));
}

/// Keeps all signals from the calling thread: other threads of the process take them.
pub fn block_all() {
    let mut all = set(&[]);
    // SAFETY: the pointer is to a set of our own.
    unsafe { libc::sigfillset(&raw mut all) };
    mask(libc::SIG_BLOCK, &all);
}

/// Lets the calling thread take every signal. Allocates no memory.
pub fn unblock_all() {
    mask(libc::SIG_SETMASK, &set(&[]));
}

/// Sets all signals to their default actions, and lets the calling thread take them. Allocates no
/// memory.
pub fn default_all() {
    for signal in 1..=libc::SIGSYS {
        // SAFETY: the call takes numbers; no handler runs.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    unblock_all();
}

/// Makes this process ignore a signal. The kernel reaps children of a process that ignores `CHILD`.
pub fn ignore(signal: Signal) {
    // SAFETY: the call takes numbers; no handler runs.
    unsafe { libc::signal(signal.as_raw(), libc::SIG_IGN) };
}

/// What happens at a signal to a blocking call that the kernel could restart by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waits {
    /// The kernel restarts the call.
    GoOn,
    /// The call ends with `EINTR`.
    End,
}

/// Sets the handler of the signal of this number.
///
/// # Safety
/// The handler must be async-signal-safe.
///
/// # Errors
/// If no process may handle this signal.
pub(crate) unsafe fn handle(
    signal: libc::c_int,
    handler: extern "C" fn(libc::c_int),
    waits: Waits,
) -> io::Result<()> {
    // SAFETY: all its fields are numbers, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as libc::sighandler_t;
    action.sa_flags = match waits {
        Waits::GoOn => libc::SA_RESTART,
        Waits::End => 0,
    };
    // SAFETY: the structure outlives the call, and the caller is responsible for the handler.
    checked(unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) }).map(|_| ())
}

static CAME: AtomicBool = AtomicBool::new(false);

extern "C" fn note_it(_signal: libc::c_int) {
    CAME.store(true, Ordering::Relaxed);
}

extern "C" fn nothing(_signal: libc::c_int) {}

/// Makes each of these signals set the returned flag, and do nothing else. All calls return the same
/// flag.
pub fn note(signals: &[Signal]) -> &'static AtomicBool {
    note_with(signals, Waits::GoOn)
}

/// As [`note`], and each of these signals also ends blocking calls.
pub fn note_and_end_waits(signals: &[Signal]) -> &'static AtomicBool {
    note_with(signals, Waits::End)
}

fn note_with(signals: &[Signal], waits: Waits) -> &'static AtomicBool {
    for signal in signals {
        // A signal that no process may handle stays as it is.
        // SAFETY: the handler only stores to an atomic, which is allowed at any moment.
        _ = unsafe { handle(signal.as_raw(), note_it, waits) };
    }
    &CAME
}

/// Makes a signal of this number do nothing but interrupt blocking calls that the kernel does not
/// restart by itself.
///
/// # Errors
/// If no process may handle this signal.
pub fn interrupt_only(signal: i32) -> io::Result<()> {
    // SAFETY: the handler does nothing, which is allowed at any moment.
    unsafe { handle(signal, nothing, Waits::GoOn) }
}

/// Makes each of these signals do nothing but end blocking calls, also calls that the kernel could
/// restart by itself.
pub fn end_waits(signals: &[Signal]) {
    for signal in signals {
        // A signal that no process may handle stays as it is.
        // SAFETY: the handler does nothing, which is allowed at any moment.
        _ = unsafe { handle(signal.as_raw(), nothing, Waits::End) };
    }
}

/// The sender of a signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sender {
    /// A process sent the signal to this process.
    Process,
    /// The kernel: for Ctrl-C and the like at a terminal, which each process of the terminal's group gets.
    Kernel,
}

/// Signals that are read from a descriptor instead of being taken.
#[derive(Debug)]
pub struct Signals(OwnedFd);

impl Signals {
    /// Keeps these signals from the calling thread, and makes a descriptor that can be read
    /// when one has come.
    ///
    /// # Errors
    /// If the process can have no further descriptor.
    pub fn of(signals: &[Signal]) -> io::Result<Signals> {
        let set = set(signals);
        mask(libc::SIG_BLOCK, &set);
        let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
        // SAFETY: the pointer is to a filled set.
        let descriptor = checked(unsafe { libc::signalfd(-1, &raw const set, flags) })?;
        // SAFETY: the descriptor is new, and nothing else owns it.
        Ok(Signals(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    /// Takes a signal that has come: its number, and its sender. `None` if none has come.
    pub fn take(&self) -> Option<(i32, Sender)> {
        let mut bytes = [0_u8; size_of::<libc::signalfd_siginfo>()];
        let length = rustix::io::read(&self.0, &mut bytes).ok()?;
        let word = |at: usize| Some(i32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let number = word(std::mem::offset_of!(libc::signalfd_siginfo, ssi_signo))?;
        let code = word(std::mem::offset_of!(libc::signalfd_siginfo, ssi_code))?;
        // Signals that processes send have codes of 0 and below (siginfo.h).
        let sender = if code > 0 { Sender::Kernel } else { Sender::Process };
        (length == bytes.len()).then_some((number, sender))
    }

    /// Takes all signals that have come.
    pub fn drain(&self) {
        let mut bytes = [0_u8; size_of::<libc::signalfd_siginfo>() * 8];
        while rustix::io::read(&self.0, &mut bytes).is_ok_and(|count| count > 0) {}
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of these signals comes, takes it, and returns it. The calling thread must block them.
///
/// # Errors
/// `EINTR` if a handler of another signal ran.
pub fn take(signals: &[Signal]) -> io::Result<Signal> {
    let set = set(signals);
    // SAFETY: the set lives as long as the call; the details of the signal are not requested.
    numbered(checked(unsafe { libc::sigwaitinfo(&raw const set, ptr::null_mut()) })?)
}

/// Waits until one of these signals comes, and takes it; waits for at most this time. The calling thread must
/// block the signals.
pub fn wait_for(signals: &[Signal], at_most: Duration) {
    let time = libc::timespec {
        tv_sec: libc::time_t::try_from(at_most.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    let set = set(signals);
    // SAFETY: set and time live as long as the call; the details of the signal are not requested.
    unsafe { libc::sigtimedwait(&raw const set, ptr::null_mut(), &raw const time) };
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::{outlive, poll, process};

    /// Runs a test in a process of its own, which gets no other test's signals.
    fn apart(test: impl FnOnce() -> bool) {
        // SAFETY: the child takes no lock that another thread may hold.
        let child = unsafe { outlive::fork(|| i32::from(!test())) }.expect("a child");
        assert!(process::wait(child).expect("it is ours").success());
    }

    fn own(signal: Signal) {
        send(std::process::id(), signal).expect("this process is there");
    }

    #[test]
    fn signals_are_read_from_their_descriptor() {
        apart(|| {
            let signals = Signals::of(&[Signal::USR1]).expect("a descriptor");
            let before = poll::is_ready(&signals);
            own(Signal::USR1);
            let came = poll::is_ready(&signals);
            signals.drain();
            (before, came, poll::is_ready(&signals)) == (false, true, false)
        });
    }

    #[test]
    fn a_signal_that_is_taken_says_what_sent_it() {
        apart(|| {
            let Ok(signals) = Signals::of(&[Signal::USR1, Signal::ALARM]) else { return false };
            let before = signals.take();
            own(Signal::USR1);
            let of_process = signals.take();
            // SAFETY: the call takes a number.
            unsafe { libc::alarm(1) };
            let came = poll::any([signals.as_fd()], Duration::from_secs(100));
            let of_kernel = signals.take();
            came == [true]
                && (before, of_process, of_kernel)
                    == (None, Some((libc::SIGUSR1, Sender::Process)), Some((libc::SIGALRM, Sender::Kernel)))
        });
    }

    #[test]
    fn a_signal_that_is_waited_for_ends_the_wait() {
        apart(|| {
            block(&[Signal::USR2]);
            let began = Instant::now();
            wait_for(&[Signal::USR2], Duration::from_millis(5));
            let waited = began.elapsed() >= Duration::from_millis(5);
            own(Signal::USR2);
            wait_for(&[Signal::USR2], Duration::from_secs(100));
            waited && began.elapsed() < Duration::from_secs(100)
        });
    }

    #[test]
    fn signals_that_are_noted_blocked_or_ignored_end_nothing() {
        apart(|| {
            let came = note(&[Signal::TERM]);
            let before = came.load(Ordering::Relaxed);
            own(Signal::TERM);
            ignore(Signal::USR1);
            own(Signal::USR1);
            interrupt_only(libc::SIGUSR2).expect("any process may");
            own(Signal::USR2);
            block_all();
            own(Signal::ALARM);
            !before && came.load(Ordering::Relaxed)
        });
    }

    #[test]
    fn a_signal_that_ends_waits_interrupts_a_read() {
        apart(|| {
            let Ok((from, _kept)) = crate::pipe() else { return false };
            let reader = process::tid();
            end_waits(&[Signal::USR1]);
            let came = note_and_end_waits(&[Signal::USR2]);
            let interrupted = |signal| {
                let done = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    // The read may begin after the first signals.
                    scope.spawn(|| {
                        while !done.load(Ordering::Relaxed) {
                            _ = send_thread(std::process::id(), reader, signal);
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    });
                    let read = crate::measured::read(from.as_fd(), &mut [0]);
                    done.store(true, Ordering::Relaxed);
                    read.is_err_and(|error| error.kind() == io::ErrorKind::Interrupted)
                })
            };
            let first = interrupted(Signal::USR1) && !came.load(Ordering::Relaxed);
            first && interrupted(Signal::USR2) && came.load(Ordering::Relaxed)
        });
    }

    #[test]
    fn a_signal_of_a_new_program_ends_a_process() {
        // SAFETY: the child takes no lock.
        let child = unsafe {
            outlive::fork(|| {
                ignore(Signal::TERM);
                block_all();
                default_all();
                own(Signal::TERM);
                0
            })
        };
        use std::os::unix::process::ExitStatusExt;
        let status = process::wait(child.expect("a child")).expect("it is ours");
        assert_eq!(status.signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn no_process_has_these_numbers() {
        for result in [
            send(0, Signal::KILL),
            send(u32::MAX, Signal::KILL),
            send_group(0, Signal::KILL),
            send_group(1, Signal::CONT),
            send_thread(std::process::id(), i32::MAX as u32, Signal::CONT),
        ] {
            assert_eq!(result.map_err(|error| error.raw_os_error()), Err(Some(libc::ESRCH)));
        }
        assert!(send_number(std::process::id(), 0).is_err() && send_group_number(1, libc::SIGCONT).is_err());
        assert!(kill_namespace().is_err() && interrupt_only(libc::SIGKILL).is_err());
    }
}
