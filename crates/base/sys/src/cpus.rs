//! The CPUs on which a thread may run.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::number_or_own;

/// A set of CPUs, as the kernel's `cpu_set_t` has it: numbers below [`Cpus::END`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cpus(CpuSet);

impl Cpus {
    /// A set has no CPU of this number or a higher one.
    pub const END: u32 = CpuSet::MAX_CPU as u32;

    /// The set of these CPUs.
    ///
    /// # Errors
    /// `EINVAL` if a number is too high for a set.
    pub fn of(cpus: impl IntoIterator<Item = u32>) -> io::Result<Cpus> {
        let mut set = CpuSet::new();
        for cpu in cpus {
            if cpu >= Cpus::END {
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            set.set(cpu as usize);
        }
        Ok(Cpus(set))
    }

    /// The CPUs that the calling thread may run on.
    ///
    /// # Errors
    /// If the machine has more CPUs than a set.
    pub fn allowed() -> io::Result<Cpus> {
        Ok(Cpus(sched_getaffinity(None)?))
    }

    /// The CPUs that a thread may run on.
    ///
    /// # Errors
    /// If there is no such thread.
    pub fn allowed_to(tid: u32) -> io::Result<Cpus> {
        Ok(Cpus(sched_getaffinity(number_or_own(tid)?)?))
    }

    /// The numbers of the CPUs, in order.
    pub fn numbers(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        (0..Cpus::END).filter(|&cpu| self.0.is_set(cpu as usize))
    }

    /// Lets a thread, and the threads and processes that it starts, run on these CPUs only; 0 is the calling
    /// thread. Allocates no memory.
    ///
    /// # Errors
    /// If none of the CPUs is there, or if there is no such thread, or if it is another user's.
    pub fn hold(&self, tid: u32) -> io::Result<()> {
        Ok(sched_setaffinity(number_or_own(tid)?, &self.0)?)
    }
}

/// Lets the calling thread run on this CPU only.
///
/// # Errors
/// If the CPU is not there, or not for this process.
pub fn set_cpu(cpu: u32) -> io::Result<()> {
    Cpus::of([cpu])?.hold(0)
}

/// The CPUs that the calling thread may run on, in order; none if the kernel returns an error.
pub fn allowed_cpus() -> Vec<u32> {
    Cpus::allowed().map(|set| set.numbers().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_runs_where_it_may() {
        std::thread::spawn(|| {
            let all = allowed_cpus();
            let last = *all.last().expect("there is a CPU");
            set_cpu(last).expect("it may");
            assert_eq!(allowed_cpus(), [last]);
            assert_eq!(Cpus::allowed_to(crate::process::tid()).ok(), Cpus::allowed().ok());
            Cpus::of(all.iter().copied()).expect("they fit").hold(0).expect("it may");
            assert_eq!(allowed_cpus(), all);
            let there = Cpus::allowed().expect("the kernel says");
            assert_eq!(there.numbers().next_back(), Some(last));
        })
        .join()
        .expect("the thread ends well");
    }

    #[test]
    fn a_cpu_that_cannot_be_is_refused() {
        assert_eq!(set_cpu(Cpus::END).map_err(|error| error.raw_os_error()), Err(Some(libc::EINVAL)));
        assert!(set_cpu(Cpus::END - 1).is_err());
        assert!(Cpus::allowed().expect("the kernel says").hold(i32::MAX as u32).is_err());
        assert!(Cpus::allowed_to(i32::MAX as u32).is_err());
    }
}
