//! Why tasks leave the CPU: by the kernel's count, by state, and by the next task (thesis, section 6.4).

use spry_timeline::{Holder, Observer, Switched, TaskIndex, Timeline, WaitCause};
use spry_trace::event::{Context, PrevState};

use crate::analysis::{About, Analysis, Closing, Hook, Parts, PerTask};
use crate::findings::{ByWakings, Findings, Reasons};

pub(crate) const ABOUT: About = About {
    name: "reasons",
    tells: "reasons for switches: voluntary or not, by state, preempted by which task",
    needs: &[],
    uses: &[],
    hooks: &[Hook::Switched],
    names_culprits: false,
    make: |_| Parts::observing(Why { tasks: PerTask::default(), carries: Vec::new() }),
};

/// The number of a task's counts: one for each state in order, then one for each way to give way.
const KINDS: usize = PrevState::ALL.len() + 4;

/// One task's counts modulo 2^32, in one cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(64))]
struct Counts([u32; KINDS]);

struct Why {
    tasks: PerTask<Counts>,
    /// Each entry adds 2^32 to a count.
    carries: Vec<(TaskIndex, usize)>,
}

/// Why a task that stays runnable had to give way.
#[derive(Clone, Copy)]
enum GaveWay {
    OwnWakee,
    OtherWakee,
    EndOfSlice,
    Other,
}

impl Why {
    #[inline]
    fn count(&mut self, task: TaskIndex, kind: usize) {
        let count = &mut self.tasks.at(task).0[kind];
        *count = count.wrapping_add(1);
        if *count == 0 {
            self.carries.push((task, kind));
        }
    }

    fn reasons(&mut self, task: TaskIndex) -> Reasons {
        let mut counts = self.tasks.take(task).0.map(u64::from);
        for &(_, kind) in self.carries.iter().filter(|carry| carry.0 == task) {
            counts[kind] += 1 << 32;
        }
        let by_state = std::array::from_fn(|state| counts[state]);
        let gave_way = |way: GaveWay| counts[PrevState::ALL.len() + way as usize];
        let blocked = PrevState::ALL.iter().filter(|state| !state.is_runnable());
        let blocked: u64 = blocked.map(|&state| by_state[state as usize]).sum();
        Reasons {
            by_state,
            by_wakings: Some(ByWakings {
                preempted_by_own_wakee: gave_way(GaveWay::OwnWakee),
                preempted_by_other_wakee: gave_way(GaveWay::OtherWakee),
                end_of_slice: gave_way(GaveWay::EndOfSlice),
                other_involuntary: gave_way(GaveWay::Other),
                thesis_voluntary: blocked + gave_way(GaveWay::OwnWakee),
            }),
        }
    }
}

impl Observer for Why {
    fn switched(&mut self, now: &Timeline, switched: &Switched) {
        let Holder::Task(task) = switched.prev else { return };
        self.count(task, switched.state as usize);
        if switched.state.is_runnable() {
            self.count(task, PrevState::ALL.len() + gave_way(now, switched) as usize);
        }
    }
}

fn gave_way(now: &Timeline, switched: &Switched) -> GaveWay {
    let Holder::Task(next) = switched.next else { return GaveWay::Other };
    let next = now.task(next);
    let (Some(cause), Some(waking_ns)) = (next.wait_cause(), next.waking_ns()) else { return GaveWay::Other };
    let quantum_ns = now.cpus()[usize::from(switched.cpu)].since_ns();
    match cause {
        WaitCause::Unknown => GaveWay::Other,
        _ if waking_ns < quantum_ns => GaveWay::EndOfSlice,
        WaitCause::Woken { by, context: Context::Task } if by == switched.prev => GaveWay::OwnWakee,
        WaitCause::Woken { .. } | WaitCause::New => GaveWay::OtherWakee,
        // The task that takes over lost another CPU during that quantum and moved here.
        WaitCause::Preempted { .. } | WaitCause::Throttled { .. } | WaitCause::Released { .. } => {
            GaveWay::EndOfSlice
        }
    }
}

impl Analysis for Why {
    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            finding.reasons = Some(Box::new(self.reasons(index)));
        }
    }
}
