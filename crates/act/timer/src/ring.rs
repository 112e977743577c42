//! The backstop of a program that waits in io_uring: an absolute time limit of the wait.

use std::fs;
use std::io;
use std::num::NonZeroU64;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, squeue};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use crate::backstop::NS_PER_S;
use crate::{Trigger, now_ns};

/// The shortest timer slack that the kernel accepts: 0 would set the default.
const LEAST_SLACK_NS: u64 = 1;

/// Waits in io_uring until a completion or a time. The time is an absolute limit of the wait
/// (`IORING_ENTER_ABS_TIMER`, Linux 6.12), so no timer is armed by another system call.
///
/// The limit is no operation of the ring. So all completions are the program's own, and a ring with pending
/// operations may be dropped at any time. One backstop serves any number of rings and threads.
///
/// During a wait with a limit, the thread's timer slack is 1 ns, which makes the limit exact. Afterwards the
/// thread has its previous slack again. A slack that another process sets during the wait stays.
///
/// The limit is a time of `CLOCK_MONOTONIC`, which is a ring's clock unless the program registers another.
///
/// ```
/// use io_uring::IoUring;
/// use spry_timer::{RingBackstop, Terms, Timers, now_ns};
///
/// let (backstop, mut ring) = (RingBackstop::new()?, IoUring::new(8)?);
/// let mut timers = Timers::new();
/// let now = now_ns();
/// timers.arm(now, Terms::firm(now + 300_000, 50_000), "request 7")?;
///
/// let mut ended = Vec::new();
/// while ended.is_empty() {
///     let trigger = backstop.wait(&mut ring, timers.backstop_ns())?;
///     for _completion in ring.completion() {
///         // Work; then a trigger point, if `timers.wants_check()`.
///     }
///     let now = now_ns();
///     while let Some(fired) = timers.take(now, trigger) {
///         ended.push(fired.value);
///     }
/// }
/// assert_eq!(ended, ["request 7"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RingBackstop(());

/// Why a wait in io_uring cannot have an absolute time limit here. Its text is one line with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum RingError {
    /// The kernel has no io_uring (`ENOSYS`).
    #[error(
        "the kernel has no io_uring ({0}): it needs CONFIG_IO_URING=y, and a container's seccomp filter must \
         allow io_uring_setup()"
    )]
    Missing(io::Error),
    /// The kernel may not be asked for a ring (`EPERM`, `EACCES`).
    #[error(
        "io_uring is forbidden here ({0}): the sysctl kernel.io_uring_disabled must be 0, and a seccomp filter \
         or security module must allow io_uring_setup()"
    )]
    Forbidden(io::Error),
    /// The kernel knows no absolute time limit (`EINVAL`).
    #[error(
        "a wait in io_uring has no absolute time limit on this kernel ({0}): it needs Linux 6.12 or later"
    )]
    TooOld(io::Error),
    /// The process is in a time namespace with a monotonic clock of its own. The kernel takes the limit as a
    /// time of the machine's clock.
    #[error(
        "a wait in io_uring ignores this time namespace: it needs a monotonic offset of 0, or an epoll loop"
    )]
    TimeNamespace,
    /// The kernel makes no ring for another reason, for example because the process has too many descriptors.
    #[error("cannot ask the kernel for a ring: {0}")]
    Failed(io::Error),
}

impl RingBackstop {
    /// Asks the kernel, with a ring of its own, whether a wait can have an absolute time limit. A program
    /// that forbids itself new rings calls this before.
    ///
    /// # Errors
    /// See [`RingError`].
    pub fn new() -> Result<RingBackstop, RingError> {
        // The kernel has this file if it has time namespaces.
        if fs::read_to_string("/proc/self/timens_offsets").is_ok_and(|offsets| is_shifted(&offsets)) {
            return Err(RingError::TimeNamespace);
        }
        let ring = IoUring::new(1).map_err(RingError::of)?;
        let Err(error) = enter(&ring, 0) else { return Ok(RingBackstop(())) };
        match Errno::from_io_error(&error) {
            Some(Errno::TIME | Errno::INTR) => Ok(RingBackstop(())),
            Some(Errno::INVAL) => Err(RingError::TooOld(error)),
            Some(_) | None => Err(RingError::of(error)),
        }
    }

    /// Submits the ring's queued operations, and sleeps until the ring has a completion or a time of
    /// [`now_ns`] has come. [`Timers::backstop_ns`](crate::Timers::backstop_ns) returns that time; `None` is
    /// no limit. A signal ends the sleep without completions. If the ring already has completions, nothing
    /// sleeps: take them before the next wait.
    ///
    /// The result is [`Trigger::Backstop`] if the time has come and the ring has no completion.
    ///
    /// # Errors
    /// The errors of `io_uring_enter(2)` and `prctl(2)`. `InvalidInput`: the ring polls for completions
    /// (`IORING_SETUP_IOPOLL` without `IORING_SETUP_SQPOLL`), and the kernel gives such waits no time limit.
    pub fn wait<S, C>(&self, ring: &mut IoUring<S, C>, at_ns: Option<u64>) -> io::Result<Trigger>
    where
        S: squeue::EntryMarker,
        C: cqueue::EntryMarker,
    {
        if ring.params().is_setup_iopoll() && !ring.params().is_setup_sqpoll() {
            let text = "a ring with IORING_SETUP_IOPOLL waits without a time limit";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let entered = match at_ns {
            Some(at_ns) => {
                let _no_slack = NoSlack::set()?;
                enter(ring, at_ns)
            }
            None => ring.submit_and_wait(1),
        };
        let Err(error) = entered else {
            // After submitting operations, the kernel returns their number also when the time has come.
            let has_come = ring.completion().is_empty() && at_ns.is_some_and(|at_ns| now_ns() >= at_ns);
            return Ok(if has_come { Trigger::Backstop } else { Trigger::Check });
        };
        match Errno::from_io_error(&error) {
            Some(Errno::TIME) => Ok(Trigger::Backstop),
            Some(Errno::INTR) => Ok(Trigger::Check),
            Some(_) | None => Err(error),
        }
    }
}

impl RingError {
    /// The cause of the kernel's refusal to make a ring, from its error number.
    fn of(error: io::Error) -> RingError {
        match Errno::from_io_error(&error) {
            Some(Errno::NOSYS) => RingError::Missing(error),
            Some(Errno::PERM | Errno::ACCESS) => RingError::Forbidden(error),
            Some(_) | None => RingError::Failed(error),
        }
    }
}

/// Whether the monotonic clock of a time namespace differs from the machine's, by the text of
/// `/proc/self/timens_offsets`. The text is about new children; a process differs from them only
/// after `unshare(2)`.
fn is_shifted(offsets: &str) -> bool {
    let offset = offsets.lines().find_map(|line| line.strip_prefix("monotonic"));
    offset.is_some_and(|numbers| numbers.split_whitespace().any(|number| number != "0"))
}

/// Submits what is queued, and waits for a completion until a time of `CLOCK_MONOTONIC`.
fn enter<S: squeue::EntryMarker, C: cqueue::EntryMarker>(
    ring: &IoUring<S, C>,
    at_ns: u64,
) -> io::Result<usize> {
    let limit = Timespec::new().sec(at_ns / NS_PER_S).nsec((at_ns % NS_PER_S) as u32);
    let arguments = SubmitArgs::new().timespec(&limit);
    ring.submitter().submit_with_args_and_flags(1, &arguments, EnterFlags::ABS_TIMER)
}

/// The least timer slack for the calling thread; dropping it gives the previous slack back.
struct NoSlack {
    previous_ns: NonZeroU64,
}

impl NoSlack {
    /// Sets the least slack. `None` if the thread has no more slack anyway, as in real-time classes.
    fn set() -> io::Result<Option<NoSlack>> {
        let previous_ns = NonZeroU64::new(timer_slack_ns()?);
        let Some(previous_ns) = previous_ns.filter(|previous_ns| previous_ns.get() > LEAST_SLACK_NS) else {
            return Ok(None);
        };
        set_current_timer_slack(NonZeroU64::new(LEAST_SLACK_NS))?;
        Ok(Some(NoSlack { previous_ns }))
    }
}

impl Drop for NoSlack {
    fn drop(&mut self) {
        // Another slack comes from another process, and stays. Setting it has just worked.
        if timer_slack_ns().is_ok_and(|slack_ns| slack_ns == LEAST_SLACK_NS) {
            _ = set_current_timer_slack(Some(self.previous_ns));
        }
    }
}

/// The calling thread's timer slack, ns; 0 in a real-time class.
fn timer_slack_ns() -> io::Result<u64> {
    // rustix, as the C function, returns 32 bits, and the slack may have more.
    // SAFETY: this request takes no pointer.
    let slack_ns = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    u64::try_from(slack_ns).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_monotonic_offset_shifts_the_clock() {
        assert!(!is_shifted("monotonic           0         0\nboottime            0         0\n"));
        assert!(!is_shifted("monotonic           0         0\nboottime           10         0\n"));
        assert!(is_shifted("monotonic           2         0\nboottime            0         0\n"));
        assert!(is_shifted("monotonic           0         1\n") && is_shifted("monotonic -100 0"));
        assert!(!is_shifted(""));
    }
}
