//! What a verdict means in settings that every kernel has. Pure functions and named numbers.

use crate::actuator::{Class, Verdict};
use crate::guardian::settings::{IDLE, OTHER, ROUND_ROBIN, Settings};

/// The display server's real-time priority, the lowest that there is.
pub const SERVER_PRIORITY: u32 = 1;
/// The level of a display server.
pub const SERVER_LEVEL: u8 = 0;
/// The nice value that has the fair scheduler's greatest weight.
pub const NICE_FIRST: i32 = -20;
/// The greatest nice value that a thread in use is given because others in use are ahead of it.
pub const NICE_LAST: i32 = -8;
/// How many steps of the nice value, 1.25 each in weight, a process gives way by, for each level that it is
/// behind the best client. Over six levels, the program that the user has turned to and the program that the
/// user has turned away from share the CPU 80 to 20.
pub const NICE_BEHIND: [i32; 10] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10];
/// The best client's slice, ns: on kernels with slices (6.12 and later), a woken thread with a shorter slice
/// preempts the running one at once. This is the shortest slice that the kernel takes.
pub const SLICE_FIRST_NS: u64 = 100_000;
/// The longest slice that a thread in use is given, ns; each level behind the best client doubles the slice,
/// up to this.
pub const SLICE_LAST_NS: u64 = 800_000;
/// By how much the timers of threads in use may be late, ns: the kernel's usual 50,000 is half of the time by
/// which a frame is late at best. It is no round number, so that threads that have inherited it are
/// recognized.
pub const SLACK_NS: u64 = 1_013;
/// If more raised threads than this want one CPU, they count as this many: each of them must still be above
/// the other tasks.
pub const IN_USE_MAX: u32 = 3;
/// The weight of each nice value from -20 to 0, as the kernel has them (`sched_prio_to_weight`).
const WEIGHTS: [u64; 21] = [
    88_761, 71_755, 56_483, 46_273, 36_291, 29_154, 23_254, 18_705, 14_949, 11_916, 9_548, 7_620, 6_100,
    4_904, 3_906, 3_121, 2_501, 1_991, 1_586, 1_277, 1_024,
];

/// What this machine lets Spry do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowed {
    /// The lowest nice value that Spry can give.
    pub nice_least: i32,
    /// Whether Spry can make tasks real-time.
    pub real_time: bool,
    /// Whether the fair scheduler takes a slice.
    pub slice: bool,
}

/// What a process is to have. The own settings of its threads are looked at afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// For the display server: a real-time policy within limits.
    RealTime,
    /// For a process in use: more weight, shorter slices, punctual timers.
    Raised {
        /// The nice value of the process.
        nice: i32,
        /// The slice of the process, ns; 0: the slice stays as it is.
        slice_ns: u64,
    },
    /// For a process by hand: only CPU time that no other task wants.
    Idle,
}

/// What a verdict means for its process. `best` is the lowest level among clients, `nice_first` the best
/// client's nice value.
pub fn want(verdict: &Verdict, best: u8, nice_first: i32, allowed: &Allowed) -> Option<Want> {
    let raised = |behind: usize| {
        let steps = NICE_BEHIND[behind.min(NICE_BEHIND.len() - 1)];
        let nice = (nice_first + steps).min(NICE_LAST).max(nice_first).max(allowed.nice_least);
        let slice_ns = (SLICE_FIRST_NS << behind.min(16)).min(SLICE_LAST_NS);
        Want::Raised { nice, slice_ns: if allowed.slice { slice_ns } else { 0 } }
    };
    match verdict.class {
        Class::Interactive if verdict.level == SERVER_LEVEL && allowed.real_time => Some(Want::RealTime),
        Class::Interactive => Some(raised(usize::from(verdict.level.saturating_sub(best)))),
        Class::Daemon => Some(raised(0)),
        Class::Idle => Some(Want::Idle),
        Class::Kthread | Class::Other => None,
    }
}

/// The settings for a thread that had `before`; `None`: the thread is left as it is. A thread that has asked
/// for less than others, or is real-time already, is not raised.
pub fn settings(before: Settings, want: Want) -> Option<Settings> {
    if before.policy != OTHER {
        return None;
    }
    match want {
        Want::Idle => Some(Settings { policy: IDLE, slice_ns: 0, ..before }),
        _ if before.nice > 0 => None,
        Want::RealTime => Some(Settings {
            policy: ROUND_ROBIN,
            reset_on_fork: 1,
            priority: SERVER_PRIORITY,
            slice_ns: 0,
            slack_ns: 0,
            ..before
        }),
        Want::Raised { nice, slice_ns } => Some(Settings {
            // If a thread gets no more weight, it keeps the flag that says what its children inherit: without
            // privilege the flag cannot be taken back.
            reset_on_fork: if nice < before.nice { 1 } else { before.reset_on_fork },
            nice: nice.min(before.nice),
            slice_ns: if before.slice_ns == 0 { slice_ns } else { before.slice_ns },
            slack_ns: before.slack_ns.min(SLACK_NS),
            ..before
        }),
    }
}

/// By how many steps below the greatest weight the processes in use may be made weaker: one loop of nice 0
/// then has its share beside `in_use` such threads on one CPU. Beside more loops, even the greatest weight
/// leaves them the share.
pub fn steps_most(in_use: u32, share_percent: u32) -> u32 {
    let share = u64::from(share_percent.clamp(1, 50));
    let weight = WEIGHTS[WEIGHTS.len() - 1] * (100 - share) / share / u64::from(in_use.clamp(1, IN_USE_MAX));
    // One step is 25 %, so a weight that is over the limit by less than a tenth is taken as the same.
    let steps =
        WEIGHTS.iter().position(|&raised| raised <= weight + weight / 10).unwrap_or(WEIGHTS.len() - 1);
    steps as u32
}

/// The best client's nice value, `steps` steps below the greatest weight.
pub fn nice_first(steps: u32, allowed: &Allowed) -> i32 {
    (NICE_FIRST + steps as i32).max(allowed.nice_least)
}

/// The weight of all processes in use together where groups are weighed, `steps` steps below the greatest
/// weight.
pub fn group_weight(steps: u32) -> u64 {
    WEIGHTS[(steps as usize).min(WEIGHTS.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use spry_policy::Tgid;

    const ALL: Allowed = Allowed { nice_least: -20, real_time: true, slice: true };
    const USUAL: Settings =
        Settings { policy: OTHER, reset_on_fork: 0, nice: 0, priority: 0, slice_ns: 0, slack_ns: 50_000 };

    fn verdict(class: Class, level: u8) -> Verdict {
        Verdict { tgid: Tgid(7), class, level, quantum_us: 200_000 }
    }

    fn raised(level: u8, best: u8) -> (i32, u64) {
        match want(&verdict(Class::Interactive, level), best, -20, &ALL) {
            Some(Want::Raised { nice, slice_ns }) => (nice, slice_ns),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_best_client_has_the_greatest_weight_whatever_its_level() {
        assert_eq!(raised(1, 1), (-20, 100_000));
        assert_eq!(raised(7, 7), (-20, 100_000));
        assert_eq!(raised(7, 1), (-13, 800_000));
        assert_eq!(raised(255, 1), (-10, 800_000));
    }

    #[test]
    fn the_server_is_real_time_where_that_may_be_and_else_the_best_client() {
        assert_eq!(want(&verdict(Class::Interactive, 0), 1, -20, &ALL), Some(Want::RealTime));
        let no = Allowed { real_time: false, slice: false, nice_least: -5 };
        let expected = Want::Raised { nice: -5, slice_ns: 0 };
        assert_eq!(want(&verdict(Class::Interactive, 0), 1, -20, &no), Some(expected));
    }

    #[test]
    fn who_asked_for_less_or_has_more_is_left_alone() {
        let want = Want::Raised { nice: -15, slice_ns: 100_000 };
        assert_eq!(settings(Settings { nice: 1, ..USUAL }, want), None);
        assert_eq!(settings(Settings { policy: ROUND_ROBIN, priority: 20, ..USUAL }, want), None);
        assert_eq!(settings(Settings { policy: IDLE, ..USUAL }, want), None);
        let own = Settings { nice: -18, slice_ns: 300_000, slack_ns: 10, ..USUAL };
        assert_eq!(settings(own, want), Some(own));
    }

    #[test]
    fn the_weakest_leaves_one_loop_its_share() {
        for (in_use, share) in [(1, 5), (2, 5), (3, 5), (1, 10), (1, 20)] {
            let raised = group_weight(steps_most(in_use, share)) * u64::from(in_use);
            let percent = 102_400 / (1_024 + raised);
            assert!(percent + 1 >= u64::from(share), "{in_use} beside {share} %: {percent} %");
        }
        assert_eq!(nice_first(steps_most(1, 5), &ALL), -13);
        assert_eq!(nice_first(0, &ALL), -20);
        assert_eq!(nice_first(0, &Allowed { nice_least: -4, ..ALL }), -4);
    }
}
