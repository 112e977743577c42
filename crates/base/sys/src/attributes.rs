//! All attributes by which the kernel schedules a thread: its class, and the numbers of the class.
//!
//! [`Attributes::give`] sets all of them. [`set_policy`](crate::schedule::set_policy) is another system call:
//! it changes the class alone, and the thread keeps its nice value and its slice.

use std::io;

use crate::checked;

/// A class and its numbers. It may be read from one thread and given to others.
#[derive(Clone, Copy, Debug)]
pub struct Attributes(libc::sched_attr);

impl Attributes {
    /// The size of the first version of the kernel's structure. A kernel with a longer one
    /// accepts it as well.
    const SIZE: u32 = size_of::<libc::sched_attr>() as u32;

    fn of_class(policy: libc::c_int) -> Attributes {
        Attributes(libc::sched_attr {
            size: Attributes::SIZE,
            sched_policy: policy.unsigned_abs(),
            sched_flags: 0,
            sched_nice: 0,
            sched_priority: 0,
            sched_runtime: 0,
            sched_deadline: 0,
            sched_period: 0,
        })
    }

    /// The ordinary class, with a nice value of -20 to 19 and the length of a slice, ns; 0 is the
    /// kernel's own length.
    pub fn other(nice: i32, slice_ns: u64) -> Attributes {
        let mut attributes = Attributes::of_class(libc::SCHED_OTHER);
        (attributes.0.sched_nice, attributes.0.sched_runtime) = (nice, slice_ns);
        attributes
    }

    /// The batch class, in which a woken task preempts no other task, with a nice value of -20 to 19.
    pub fn batch(nice: i32) -> Attributes {
        let mut attributes = Attributes::of_class(libc::SCHED_BATCH);
        attributes.0.sched_nice = nice;
        attributes
    }

    /// The idle class, which gets hardly any CPU time while other tasks need it.
    pub fn idle() -> Attributes {
        Attributes::of_class(libc::SCHED_IDLE)
    }

    /// The FIFO class: real-time, until the task sleeps, at a priority of 1 to 99.
    pub fn fifo(priority: u32) -> Attributes {
        let mut attributes = Attributes::of_class(libc::SCHED_FIFO);
        attributes.0.sched_priority = priority;
        attributes
    }

    /// The round-robin class: real-time, in turns with other tasks of the same priority, 1 to 99.
    pub fn round_robin(priority: u32) -> Attributes {
        let mut attributes = Attributes::of_class(libc::SCHED_RR);
        attributes.0.sched_priority = priority;
        attributes
    }

    /// A reservation: so much CPU time until the deadline of every period, all in ns.
    pub fn deadline(budget_ns: u64, deadline_ns: u64, period_ns: u64) -> Attributes {
        let mut attributes = Attributes::of_class(libc::SCHED_DEADLINE);
        attributes.0.sched_runtime = budget_ns;
        (attributes.0.sched_deadline, attributes.0.sched_period) = (deadline_ns, period_ns);
        attributes
    }

    /// Attributes by the kernel's own numbers. The size among them is ignored.
    pub const fn of_numbers(mut numbers: libc::sched_attr) -> Attributes {
        numbers.size = Attributes::SIZE;
        Attributes(numbers)
    }

    /// The kernel's own numbers.
    pub const fn numbers(&self) -> &libc::sched_attr {
        &self.0
    }

    /// Whether the class runs before the ordinary classes, and so before the scheduler's reservations.
    pub const fn is_real_time(&self) -> bool {
        // The numbers of SCHED_FIFO, SCHED_RR and SCHED_DEADLINE (sched.h).
        matches!(self.0.sched_policy, 1 | 2 | 6)
    }

    /// Whether the class shares the CPU fairly and its threads have slices: the ordinary class and
    /// the batch class.
    pub const fn is_fair(&self) -> bool {
        // The numbers of SCHED_OTHER and SCHED_BATCH (sched.h).
        matches!(self.0.sched_policy, 0 | 3)
    }

    /// How long a thread of a fair class runs before the next thread has its turn, ns. It is 0 in other
    /// classes, and on kernels that have no slices of single threads.
    pub const fn slice_ns(&self) -> u64 {
        if self.is_fair() { self.0.sched_runtime } else { 0 }
    }

    /// The same attributes with another slice, ns. The kernel may give a thread a shorter or a longer slice.
    #[must_use]
    pub const fn with_slice(mut self, slice_ns: u64) -> Attributes {
        self.0.sched_runtime = slice_ns;
        self
    }

    /// The same attributes, but tasks that the thread starts are in the ordinary class: a thread with a
    /// reservation may start others only so.
    #[must_use]
    pub fn for_itself_alone(mut self) -> Attributes {
        self.0.sched_flags |= libc::SCHED_FLAG_RESET_ON_FORK as u64;
        self
    }

    /// The attributes of a thread; 0 is the calling thread.
    ///
    /// # Errors
    /// `ESRCH` if there is no such thread.
    pub fn of(tid: u32) -> io::Result<Attributes> {
        let mut attributes = Attributes::of_class(0);
        let place = &raw mut attributes.0;
        // SAFETY: the structure is ours and has the size that is passed to the call.
        let done = unsafe { libc::syscall(libc::SYS_sched_getattr, tid, place, Attributes::SIZE, 0) };
        checked(done as libc::c_int)?;
        attributes.0.size = Attributes::SIZE;
        Ok(attributes)
    }

    /// Gives these attributes to a thread; 0 is the calling thread.
    ///
    /// # Errors
    /// `ESRCH` if there is no such thread, `EPERM` if it may not have them, `EBUSY` if a reservation does not
    /// fit onto the CPUs, `EINVAL` if a number is out of its range.
    pub fn give(&self, tid: u32) -> io::Result<()> {
        // SAFETY: the structure outlives the call, and holds its own size.
        let done = unsafe { libc::syscall(libc::SYS_sched_setattr, tid, &raw const self.0, 0) };
        checked(done as libc::c_int).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{process, schedule};

    #[test]
    fn a_thread_has_what_it_is_given_and_passes_it_on() {
        std::thread::spawn(|| {
            for (given, number) in [
                (Attributes::batch(3), libc::SCHED_BATCH),
                (Attributes::other(4, 0), libc::SCHED_OTHER),
                (Attributes::idle(), libc::SCHED_IDLE),
            ] {
                given.give(0).expect("any thread may");
                assert_eq!(schedule::policy(0).expect("it is there"), number);
                let own = Attributes::of(process::tid()).expect("it is there");
                assert_eq!(own.0.sched_policy, number.unsigned_abs());
                own.give(0).expect("it has them already");
            }
        })
        .join()
        .expect("the thread ends well");
    }

    #[test]
    fn a_slice_is_of_fair_classes_and_leaves_the_rest_as_it_is() {
        std::thread::spawn(|| {
            let nicer = Attributes::batch(5).with_slice(5_000_000);
            nicer.give(0).expect("any thread may");
            let own = Attributes::of(0).expect("it is there");
            assert!(own.is_fair() && own.0.sched_nice == 5, "{own:?}");
            // Kernels without slices of single threads report none.
            assert!([0, 5_000_000].contains(&own.slice_ns()), "{own:?}");
        })
        .join()
        .expect("the thread ends well");
        assert!(!Attributes::idle().is_fair() && !Attributes::fifo(1).is_fair());
        assert_eq!(Attributes::deadline(7, 8, 9).slice_ns(), 0);
    }

    #[test]
    fn real_time_is_given_or_refused_and_what_cannot_be_is_refused() {
        std::thread::spawn(|| {
            for (given, number) in [
                (Attributes::fifo(1), libc::SCHED_FIFO),
                (Attributes::round_robin(1), libc::SCHED_RR),
                (Attributes::deadline(1_000_000, 100_000_000, 100_000_000), libc::SCHED_DEADLINE),
            ] {
                match given.give(0) {
                    Ok(()) => assert_eq!(schedule::policy(0).expect("it is there"), number),
                    Err(error) => assert!(
                        [libc::EPERM, libc::EBUSY].map(Some).contains(&error.raw_os_error()),
                        "{error}"
                    ),
                }
            }
        })
        .join()
        .expect("the thread ends well");
        std::thread::spawn(|| {
            Attributes::batch(3).for_itself_alone().give(0).expect("any thread may");
            let child = std::thread::spawn(|| schedule::policy(0).expect("it is there"));
            assert_eq!(child.join().expect("it ends well"), libc::SCHED_BATCH);
            if Attributes::fifo(1).for_itself_alone().give(0).is_ok() {
                let child = std::thread::spawn(|| schedule::policy(0).expect("it is there"));
                assert_eq!(child.join().expect("it ends well"), libc::SCHED_OTHER);
            }
        })
        .join()
        .expect("the thread ends well");
        let errors = [
            Attributes::fifo(100).give(0),
            Attributes::idle().give(i32::MAX as u32),
            Attributes::of(i32::MAX as u32).map(|_| ()),
        ];
        let numbers = errors.map(|error| error.map_err(|error| error.raw_os_error()));
        assert_eq!(numbers, [Err(Some(libc::EINVAL)), Err(Some(libc::ESRCH)), Err(Some(libc::ESRCH))]);
    }
}
