//! Clock ticks: kept until it is certain who had the CPU at each.

use crate::cpu::Holder;
use crate::interval::{Observer, Ticked};
use crate::machine::Timeline;

/// Ticks kept of one stay; of a longer one they are told while it goes on.
const KEPT: usize = 1024;

/// Who had a CPU since its last switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Who has it by what was seen.
    pub(crate) holder: Holder,
    /// Who turned out to have it, and since when, ns.
    pub(crate) later: Option<(Holder, u64)>,
}

impl Timeline {
    /// A tick was handled. Whom it hit is told at the next switch, which may show that one before it went unseen.
    pub(crate) fn tick(&mut self, cpu: u16, to: &mut impl Observer) {
        let now_ns = self.now_ns;
        let this = &mut self.cpus[usize::from(cpu)];
        this.ticks_ns.push(now_ns);
        if this.ticks_ns.len() >= KEPT {
            let turn = Turn { holder: this.holder, later: None };
            self.tell_ticks(cpu, turn, to);
        }
    }

    /// Tells of the ticks since the last switch.
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
