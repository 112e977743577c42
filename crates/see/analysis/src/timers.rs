//! Lateness of timers by kind, and the periodic wake-ups that ticks would skip.

use spry_timeline::{Observer, Timeline, Waking};
use spry_trace::event::{Event, TimerKind};
use spry_trace::{Group, Stamped};

use crate::analysis::{About, Analysis, Closing, Hook, Parts};
use crate::findings::{Findings, TimerFinding};
use crate::frames::Frames;
use crate::histogram::{Budget, Histogram};

pub(crate) const ABOUT: About = About {
    name: "timers",
    tells: "lateness of timers by kind: from the deadline to the handler's entry; \
            which periodic wake-ups ticks would skip",
    needs: &[Group::Timer],
    uses: &[],
    hooks: &[Hook::Waking, Hook::Other],
    names_culprits: false,
    make: |setup| {
        let frames = Frames::new(setup.options.rates_hz.clone());
        Parts::observing(Timers { kinds: Vec::new(), frames })
    },
};

struct Timers {
    kinds: Vec<TimerFinding>,
    frames: Frames,
}

impl Observer for Timers {
    fn waking(&mut self, now: &Timeline, waking: &Waking) {
        self.frames.waking(now, waking);
    }

    fn other(&mut self, now: &Timeline, event: &Stamped) {
        self.frames.other(now, event);
        let Event::TimerExpire(timer) = &event.event else { return };
        let known = self.kinds.iter().position(|finding| finding.kind == timer.kind);
        let at = known.unwrap_or_else(|| {
            self.kinds.push(TimerFinding {
                kind: timer.kind,
                lateness: Histogram::dense(),
                past_slack: 0,
                early: 0,
            });
            self.kinds.len() - 1
        });
        let finding = &mut self.kinds[at];
        let handler_ns = now.now_ns();
        match handler_ns.checked_sub(timer.deadline_ns) {
            Some(late_ns) => finding.lateness.record(late_ns, &mut Budget::new(0)),
            None => finding.early += 1,
        }
        finding.past_slack += u64::from(handler_ns > timer.latest_ns);
    }
}

impl Analysis for Timers {
    fn finish(mut self: Box<Self>, closing: &Closing<'_>, findings: &mut Findings) {
        let rank = |kind: TimerKind| kind as u8;
        self.kinds.sort_by_key(|finding| rank(finding.kind));
        findings.timers = Some(self.kinds);
        findings.frames = Some(self.frames.finish(closing));
    }
}
