//! Translates a verdict into settings that every kernel has. The functions are pure, and the
//! numbers have names.

use crate::actuator::{Class, Verdict};
use crate::guardian::settings::{IDLE, IN_USE_SLACK_NS, OTHER, ROUND_ROBIN, Settings};

/// The display server's real-time priority, the lowest possible.
pub const SERVER_PRIORITY: u32 = 1;
/// The level of display servers.
pub const SERVER_LEVEL: u8 = 0;
/// The nice value with the greatest weight in the fair scheduler.
pub const NICE_FIRST: i32 = -20;
/// The greatest nice value of a thread in use, if other threads in use are ahead of it.
pub const NICE_LAST: i32 = -8;
/// The number of nice steps by which a process is below the best client, by the number of levels that it is
/// behind. A step is a factor of 1.25 in weight. Over six levels, the program to which the user has turned
/// and the previous program share the CPU 80 to 20.
pub const NICE_BEHIND: [i32; 10] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10];
/// The best client's slice, ns: the shortest that the kernel takes. On kernels with slices (6.12 and later),
/// a woken thread with a shorter slice preempts the running thread at once.
pub const SLICE_FIRST_NS: u64 = 100_000;
/// The longest slice of a thread in use, ns. Each level behind the best client doubles the slice up to this.
pub const SLICE_LAST_NS: u64 = 800_000;
/// The limit of the number of threads in use on one CPU, in the computation of their weight. With a higher
/// number the weight of each thread would be no greater than that of tasks that are not in use.
pub const IN_USE_MAX: u32 = 3;
/// The fair scheduler's weights for nice values from -20 to 0 (`sched_prio_to_weight` in the kernel).
const WEIGHTS: [u64; 21] = [
    88_761, 71_755, 56_483, 46_273, 36_291, 29_154, 23_254, 18_705, 14_949, 11_916, 9_548, 7_620, 6_100,
    4_904, 3_906, 3_121, 2_501, 1_991, 1_586, 1_277, 1_024,
];

/// The changes that the kernel permits Spry on this machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PermittedChanges {
    /// The lowest nice value that Spry can give.
    pub nice_least: i32,
    /// Whether Spry can make tasks real-time.
    pub real_time: bool,
    /// Whether the fair scheduler takes slices.
    pub slice: bool,
}

/// The settings that a process shall have, before its threads' own settings are considered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WantedSettings {
    /// For the display server: a real-time policy, within the guardian's limits.
    RealTime,
    /// For a process in use: more weight, shorter slices, punctual timers.
    Raised {
        /// The nice value of the process' threads.
        nice: i32,
        /// The slice of the process' threads, ns; 0: unchanged.
        slice_ns: u64,
    },
    /// For a manual override: CPU time that no other task wants.
    Idle,
}

/// The settings that a process shall have by its verdict; `None`: nothing is changed. `best` is the lowest
/// level among clients, and `nice_first` the best client's nice value.
pub fn want(
    verdict: &Verdict,
    best: u8,
    nice_first: i32,
    allowed: &PermittedChanges,
) -> Option<WantedSettings> {
    let raised = |behind: usize| {
        let steps = NICE_BEHIND[behind.min(NICE_BEHIND.len() - 1)];
        let nice = (nice_first + steps).min(NICE_LAST).max(nice_first).max(allowed.nice_least);
        let slice_ns = (SLICE_FIRST_NS << behind.min(16)).min(SLICE_LAST_NS);
        WantedSettings::Raised { nice, slice_ns: if allowed.slice { slice_ns } else { 0 } }
    };
    match verdict.class {
        Class::Interactive if verdict.level == SERVER_LEVEL && allowed.real_time => {
            Some(WantedSettings::RealTime)
        }
        Class::Interactive => Some(raised(usize::from(verdict.level.saturating_sub(best)))),
        Class::Daemon => Some(raised(0)),
        Class::Idle => Some(WantedSettings::Idle),
        Class::Kthread | Class::Other => None,
    }
}

/// The settings for a thread that had `before`; `None`: the thread is not changed. A thread that has chosen
/// less than others, or is real-time already, is not raised.
pub fn settings(before: Settings, want: WantedSettings) -> Option<Settings> {
    if before.policy != OTHER {
        return None;
    }
    match want {
        WantedSettings::Idle => Some(Settings { policy: IDLE, slice_ns: 0, ..before }),
        _ if before.nice > 0 => None,
        WantedSettings::RealTime => Some(Settings {
            policy: ROUND_ROBIN,
            reset_on_fork: 1,
            priority: SERVER_PRIORITY,
            slice_ns: 0,
            slack_ns: 0,
            ..before
        }),
        WantedSettings::Raised { nice, slice_ns } => Some(Settings {
            // Without more weight, a thread keeps its reset-on-fork flag, since this cannot be cleared
            // without privilege.
            reset_on_fork: if nice < before.nice { 1 } else { before.reset_on_fork },
            nice: nice.min(before.nice),
            slice_ns: if before.slice_ns == 0 { slice_ns } else { before.slice_ns },
            slack_ns: before.slack_ns.min(IN_USE_SLACK_NS),
            ..before
        }),
    }
}

/// The most steps of the nice value by which the processes in use may be below the greatest weight. With
/// them, one loop of nice 0 has its share beside `in_use` such threads on one CPU. More loops have it even
/// beside the greatest weight.
pub fn steps_most(in_use: u32, share_percent: u32) -> u32 {
    let share = u64::from(share_percent.clamp(1, 50));
    let weight = WEIGHTS[WEIGHTS.len() - 1] * (100 - share) / share / u64::from(in_use.clamp(1, IN_USE_MAX));
    // A step is 25 %, so a weight less than a tenth over the limit counts as equal to it.
    let steps =
        WEIGHTS.iter().position(|&raised| raised <= weight + weight / 10).unwrap_or(WEIGHTS.len() - 1);
    steps as u32
}

/// The best client's nice value, `steps` steps below the greatest weight, as far as permitted.
pub fn nice_first(steps: u32, allowed: &PermittedChanges) -> i32 {
    (NICE_FIRST + steps as i32).max(allowed.nice_least)
}

/// The weight of all processes in use together, for groups; `steps` steps below the greatest weight.
pub fn group_weight(steps: u32) -> u64 {
    WEIGHTS[(steps as usize).min(WEIGHTS.len() - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use spry_policy::Tgid;

    const ALL: PermittedChanges = PermittedChanges { nice_least: -20, real_time: true, slice: true };
    const USUAL: Settings =
        Settings { policy: OTHER, reset_on_fork: 0, nice: 0, priority: 0, slice_ns: 0, slack_ns: 50_000 };

    fn verdict(class: Class, level: u8) -> Verdict {
        Verdict { tgid: Tgid(7), class, level, quantum_us: 200_000 }
    }

    fn raised(level: u8, best: u8) -> (i32, u64) {
        match want(&verdict(Class::Interactive, level), best, -20, &ALL) {
            Some(WantedSettings::Raised { nice, slice_ns }) => (nice, slice_ns),
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
    fn a_server_is_real_time_if_allowed_and_else_the_best_client() {
        assert_eq!(want(&verdict(Class::Interactive, 0), 1, -20, &ALL), Some(WantedSettings::RealTime));
        let no = PermittedChanges { real_time: false, slice: false, nice_least: -5 };
        let expected = WantedSettings::Raised { nice: -5, slice_ns: 0 };
        assert_eq!(want(&verdict(Class::Interactive, 0), 1, -20, &no), Some(expected));
    }

    #[test]
    fn a_thread_with_less_or_more_by_itself_is_left_alone() {
        let want = WantedSettings::Raised { nice: -15, slice_ns: 100_000 };
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
        assert_eq!(nice_first(0, &PermittedChanges { nice_least: -4, ..ALL }), -4);
    }
}
