//! Clock ticks: kept until the task that had the CPU at each tick is certain.

use crate::cpu::Holder;
use crate::interval::{Observer, Ticked};
use crate::machine::Timeline;

/// The most ticks kept for one stay on a CPU; the ticks of a longer stay are reported during the stay.
const KEPT: usize = 1024;

/// The holders of a CPU since its last seen switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// The task that had the CPU according to the switches that were seen.
    pub(crate) holder: Holder,
    /// A task that had the CPU after a hidden switch, and the time of that switch, ns.
    pub(crate) later: Option<(Holder, u64)>,
}

impl Timeline {
    /// Keeps a tick. The time line reports at the CPU's next switch which task the tick hit, since that
    /// switch may show that an earlier switch was hidden.
    pub(crate) fn tick(&mut self, cpu: u16, to: &mut impl Observer) {
        let now_ns = self.now_ns;
        let this = &mut self.cpus[usize::from(cpu)];
        this.ticks_ns.push(now_ns);
        if this.ticks_ns.len() >= KEPT {
            let turn = Turn { holder: this.holder, later: None };
            self.tell_ticks(cpu, turn, to);
        }
    }

    /// Reports the ticks since the last switch.
    #[inline(always)]
    pub(crate) fn tell_ticks(&mut self, cpu: u16, turn: Turn, to: &mut impl Observer) {
        if !self.cpus[usize::from(cpu)].ticks_ns.is_empty() {
            self.tell_kept_ticks(cpu, turn, to);
        }
    }

    #[cold]
    fn tell_kept_ticks(&mut self, cpu: u16, turn: Turn, to: &mut impl Observer) {
        let mut ticks_ns = std::mem::take(&mut self.cpus[usize::from(cpu)].ticks_ns);
        for time_ns in ticks_ns.drain(..) {
            let holder = match turn.later {
                Some((later, since_ns)) if time_ns >= since_ns => later,
                _ => turn.holder,
            };
            to.ticked(self, &Ticked { time_ns, cpu, holder });
        }
        self.cpus[usize::from(cpu)].ticks_ns = ticks_ns;
    }
}
