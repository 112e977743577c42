//! Why tasks leave the CPU: as the kernel counts, by state, and by who takes over (thesis, section 6.4).

use spry_timeline::{Holder, Observer, Switched, Timeline, WaitCause};
use spry_trace::event::Context;

use crate::analysis::{About, Analysis, Closing, Hook, PerTask};
use crate::findings::{Findings, Reasons};

pub(crate) const ABOUT: About = About {
    name: "reasons",
    tells: "reasons for switches: voluntary or not, by state, preempted by whom",
    needs: &[],
    uses: &[],
    hooks: &[Hook::Switched],
    names_culprits: false,
    make: |_| Box::new(Why { tasks: PerTask::default() }),
};

struct Why {
    tasks: PerTask<Reasons>,
}

/// Why a task that stays runnable had to give way.
enum GaveWay {
    OwnWakee,
    OtherWakee,
    EndOfSlice,
    Other,
}

impl Observer for Why {
    fn switched(&mut self, now: &Timeline, switched: &Switched) {
        let Holder::Task(task) = switched.prev else { return };
        let reasons = self.tasks.at(task);
        reasons.by_state[switched.state as usize] += 1;
        if !switched.state.is_runnable() {
            reasons.thesis_voluntary += 1;
            return;
        }
        match gave_way(now, switched) {
            GaveWay::OwnWakee => {
                reasons.preempted_by_own_wakee += 1;
                reasons.thesis_voluntary += 1;
            }
            GaveWay::OtherWakee => reasons.preempted_by_other_wakee += 1,
            GaveWay::EndOfSlice => reasons.end_of_slice += 1,
            GaveWay::Other => reasons.other_involuntary += 1,
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
        // It lost another CPU meanwhile and moved here.
        WaitCause::Preempted { .. } => GaveWay::EndOfSlice,
    }
}

impl Analysis for Why {
    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        for (finding, &index) in findings.tasks.iter_mut().zip(closing.rows) {
            finding.reasons = Some(Box::new(self.tasks.take(index)));
        }
    }
}
