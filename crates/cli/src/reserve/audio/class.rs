//! Real-time classes of threads that get a reservation. A thread in such a class runs before every
//! reservation, so it is in the ordinary class while it has one. Afterwards it gets its own class back.

use std::io;

use spry_sys::attributes::Attributes;

/// A thread that was in a real-time class.
#[derive(Clone, Copy, Debug)]
pub struct DemotedThread {
    tid: u32,
    before: Attributes,
}

impl DemotedThread {
    /// Takes a thread out of its real-time class. `None` if it is in none.
    ///
    /// # Errors
    /// If the kernel does not allow it, or if there is no such thread.
    pub fn take(tid: u32) -> io::Result<Option<DemotedThread>> {
        let before = Attributes::of(tid)?;
        if !before.is_real_time() {
            return Ok(None);
        }
        let ordinary = Attributes::other(0, 0);
        // The flag cannot be removed without privileges, so it stays as it is.
        let resets = before.numbers().sched_flags & reset_on_fork() != 0;
        if resets { ordinary.for_itself_alone() } else { ordinary }.give(tid)?;
        Ok(Some(DemotedThread { tid, before }))
    }

    /// Gives the thread its class back.
    ///
    /// # Errors
    /// If the kernel does not allow it, or if there is no such thread.
    pub fn give_back(&self) -> io::Result<()> {
        self.before.give(self.tid)
    }
}

/// The flag of a thread that begins its children in the ordinary class.
fn reset_on_fork() -> u64 {
    Attributes::other(0, 0).for_itself_alone().numbers().sched_flags
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_an_ordinary_class_is_left_as_it_is() {
        std::thread::spawn(|| {
            Attributes::batch(3).give(0).expect("any thread may");
            assert!(DemotedThread::take(spry_sys::process::tid()).expect("it is there").is_none());
            assert_eq!(Attributes::of(0).expect("it is there").numbers().sched_policy, 3);
        })
        .join()
        .expect("the thread ends well");
    }

    #[test]
    fn a_real_time_thread_is_ordinary_until_its_class_is_given_back() {
        std::thread::spawn(|| {
            let tid = spry_sys::process::tid();
            for given in [Attributes::fifo(3), Attributes::round_robin(4).for_itself_alone()] {
                if given.give(0).is_err() {
                    // Without the right to real-time classes a thread cannot be in one.
                    assert!(
                        !spry_sys::process::is_root()
                            || DemotedThread::take(tid).expect("it is there").is_none()
                    );
                    return;
                }
                let lifted = DemotedThread::take(tid).expect("it is there").expect("it is in such a class");
                assert_eq!(Attributes::of(0).expect("it is there").numbers().sched_policy, 0);
                lifted.give_back().expect("it had it");
                let now = Attributes::of(0).expect("it is there");
                assert_eq!(now.numbers().sched_policy, given.numbers().sched_policy);
                assert_eq!(now.numbers().sched_priority, given.numbers().sched_priority);
            }
        })
        .join()
        .expect("the thread ends well");
    }
}
