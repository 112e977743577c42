//! Culprits: the tasks that had a CPU while other tasks waited for it.

use std::cmp::Reverse;

use spry_timeline::{Holder, Slice, TaskIndex, Timeline, WaitCause, Waited};

use crate::analysis::{Closing, PerTask};
use crate::batch::{Batch, Fill, Keyed};
use crate::findings::{Blame, Culprit, Party};

/// The most stays on a CPU that are read for one wait, from the latest back; earlier stays count as others'.
const STAYS_MAX: usize = 4;
/// The most culprits with a share of their own for one victim.
const CULPRITS_MAX: usize = 8;
/// The most lines in the table of victims and culprits.
const LINES_MAX: usize = 1_000;
/// The most culprits shown for all waits after wake-ups together.
const SHOWN_MAX: usize = 20;

/// The part of each victim's waiting that each task fills. All waits are counted, so only a few stays of
/// each wait are read.
#[derive(Default)]
pub(crate) struct Culprits {
    victims: PerTask<Victim>,
    /// The time for which each task had a CPU that a woken task waited for, ns.
    caused_ns: PerTask<u64>,
    idle_ns: u64,
    unknown_ns: u64,
    others_ns: u64,
}

/// A stay that filled a part of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stay {
    victim: TaskIndex,
    /// [`code`] of the CPU's holder; [`OTHERS`] for stays that were not read.
    holder: u32,
    /// Twice the time, ns, plus 1 if the wait came after a wake-up: one field, since a batch has many stays.
    marked_ns: u64,
}

impl Stay {
    #[inline]
    fn new(waited: &Waited, holder: u32, ran_ns: u64) -> Stay {
        let after_wakeup = matches!(waited.cause, WaitCause::Woken { .. });
        Stay { victim: waited.task, holder, marked_ns: ran_ns << 1 | u64::from(after_wakeup) }
    }

    const fn ran_ns(self) -> u64 {
        self.marked_ns >> 1
    }

    const fn is_after_wakeup(self) -> bool {
        self.marked_ns & 1 != 0
    }
}

impl Keyed for Stay {
    #[inline]
    fn key(&self) -> usize {
        self.victim.at()
    }
}

/// Puts the stays that filled a wait into a batch.
#[inline]
pub(crate) fn put_stays(now: &Timeline, waited: &Waited, batch: &mut Batch<Stay>) -> Fill {
    let mut left_ns = waited.end_ns - waited.start_ns;
    let mut fill = Fill::Room;
    let mut put = |holder: u32, ran_ns: u64| {
        if batch.put(Stay::new(waited, holder, ran_ns)) == Fill::Full {
            fill = Fill::Full;
        }
    };
    if matches!(waited.cause, WaitCause::Throttled { .. }) {
        put(QUOTA, left_ns);
        return fill;
    }
    // A culprit that had the CPU several times in this wait is put once, with all its time. A wait that moved
    // to another CPU has stays of both CPUs.
    let mut parts = [(NOBODY, 0); 2 * STAYS_MAX];
    let mut used = 0;
    each_stay(now, waited, STAYS_MAX, |_, slice| {
        let ran_ns = slice.end_ns - slice.start_ns;
        left_ns -= ran_ns;
        let holder = code(slice.holder);
        let at = parts[..used].iter().position(|part| part.0 == holder).unwrap_or(used);
        parts[at] = (holder, parts[at].1 + ran_ns);
        used = used.max(at + 1);
    });
    parts[..used].iter().for_each(|&(holder, ran_ns)| put(holder, ran_ns));
    if left_ns > 0 {
        put(OTHERS, left_ns);
    }
    fill
}

#[derive(Default)]
struct Victim {
    shares: Option<Box<Shares>>,
    others_ns: u64,
    others_waits: u32,
}

/// The culprits' parts in a victim's waits. All lists have the same positions, so that a search
/// takes no branches.
struct Shares {
    /// [`code`]s, [`NOBODY`] where free.
    holders: [u32; CULPRITS_MAX],
    waits: [u32; CULPRITS_MAX],
    total_ns: [u64; CULPRITS_MAX],
    /// The mean of the shares at the moment when a share was last replaced, ns.
    mean_ns: u64,
    /// The time of all culprits without a share, since one of them last got a share, ns.
    challenge_ns: u64,
}

const IDLE: u32 = u32::MAX;
const UNKNOWN: u32 = u32::MAX - 1;
const NOBODY: u32 = u32::MAX - 2;
const OTHERS: u32 = u32::MAX - 3;
const QUOTA: u32 = u32::MAX - 4;

/// A task's position, or a number that no task has.
#[inline]
pub(crate) fn code(holder: Holder) -> u32 {
    match holder {
        Holder::Task(task) => task.at() as u32,
        Holder::Idle => IDLE,
        Holder::Unknown => UNKNOWN,
    }
}

impl Victim {
    #[inline]
    fn blame(&mut self, holder: u32, ran_ns: u64) {
        let shares = self.shares.get_or_insert_with(Shares::boxed);
        match shares.find(holder).or_else(|| shares.find(NOBODY)) {
            Some(at) => {
                shares.holders[at] = holder;
                shares.total_ns[at] += ran_ns;
                shares.waits[at] = shares.waits[at].saturating_add(1);
            }
            None => {
                let (others_ns, others_waits) = shares.challenge(holder, ran_ns);
                self.others_ns += others_ns;
                self.others_waits = self.others_waits.saturating_add(others_waits);
            }
        }
    }
}

impl Shares {
    fn boxed() -> Box<Shares> {
        Box::new(Shares {
            holders: [NOBODY; CULPRITS_MAX],
            waits: [0; CULPRITS_MAX],
            total_ns: [0; CULPRITS_MAX],
            mean_ns: 0,
            challenge_ns: 0,
        })
    }

    #[inline]
    fn find(&self, holder: u32) -> Option<usize> {
        // All holders are compared at once, with a byte for each.
        let found = u64::from_le_bytes(self.holders.map(|known| u8::from(known == holder)));
        (found != 0).then(|| found.trailing_zeros() as usize / 8)
    }

    /// Takes time of a culprit without a share while no share is free. All such culprits together challenge
    /// the least share. The culprit that brings their time above the mean share gets it: most likely the
    /// culprit with the most time. Returns the time and waits that go to the others.
    #[inline]
    fn challenge(&mut self, holder: u32, ran_ns: u64) -> (u64, u32) {
        self.challenge_ns += ran_ns;
        if self.challenge_ns <= self.mean_ns {
            return (ran_ns, 1);
        }
        self.replace_least(holder, ran_ns)
    }

    #[cold]
    fn replace_least(&mut self, holder: u32, ran_ns: u64) -> (u64, u32) {
        let least = (0..CULPRITS_MAX).min_by_key(|&at| self.total_ns[at]).unwrap_or(0);
        let gone = (self.total_ns[least], self.waits[least]);
        self.holders[least] = holder;
        self.total_ns[least] = ran_ns;
        self.waits[least] = 1;
        self.challenge_ns = 0;
        self.mean_ns = self.total_ns.iter().sum::<u64>() / CULPRITS_MAX as u64;
        gone
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u64, u32)> {
        let lists = self.holders.iter().zip(&self.total_ns).zip(&self.waits);
        lists
            .map(|((&holder, &total_ns), &waits)| (holder, total_ns, waits))
            .filter(|share| share.0 != NOBODY)
    }
}

impl Culprits {
    /// Adds the stays' times to their victims' shares.
    pub(crate) fn count(&mut self, stays: &[Stay]) {
        for stay in stays {
            let ran_ns = stay.ran_ns();
            let victim = self.victims.at(stay.victim);
            if stay.holder == OTHERS {
                victim.others_ns += ran_ns;
                victim.others_waits = victim.others_waits.saturating_add(1);
            } else {
                victim.blame(stay.holder, ran_ns);
            }
            if stay.is_after_wakeup() {
                let sum_ns = match stay.holder {
                    IDLE => &mut self.idle_ns,
                    UNKNOWN => &mut self.unknown_ns,
                    OTHERS | QUOTA => &mut self.others_ns,
                    task => self.caused_ns.at_position(task as usize),
                };
                // Many tasks may wait at a time.
                *sum_ns = sum_ns.saturating_add(ran_ns);
            }
        }
    }

    /// The table of victims and culprits: the lines with the most time.
    pub(crate) fn table(&self, closing: &Closing<'_>) -> Vec<Blame> {
        let mut lines: Vec<(u64, TaskIndex, Option<u32>, u32)> = Vec::new();
        let keep = |lines: &mut Vec<_>| {
            lines
                .sort_unstable_by_key(|&(total_ns, victim, culprit, _)| (Reverse(total_ns), victim, culprit));
            lines.truncate(LINES_MAX);
        };
        for &index in closing.rows {
            let Some(victim) = self.victims.get(index) else { continue };
            let shares = victim.shares.iter().flat_map(|shares| shares.iter());
            lines.extend(shares.map(|(holder, total_ns, waits)| (total_ns, index, Some(holder), waits)));
            lines.extend((victim.others_ns > 0).then_some((
                victim.others_ns,
                index,
                None,
                victim.others_waits,
            )));
            if lines.len() > 4 * LINES_MAX {
                keep(&mut lines);
            }
        }
        keep(&mut lines);
        let line = |(total_ns, victim, culprit, waits): (u64, TaskIndex, Option<u32>, u32)| Blame {
            victim: closing.who(victim),
            culprit: culprit.map_or(Party::Others, |code| party(closing, code)),
            total_ns,
            waits: u64::from(waits),
        };
        lines.into_iter().map(line).collect()
    }

    /// The tasks that had the CPU while woken tasks waited, or its idle time, over all waits.
    pub(crate) fn of_wakeups(&self, closing: &Closing<'_>) -> Vec<Culprit> {
        let caused = closing.timeline.task_indices().filter_map(|index| {
            self.caused_ns.get(index).filter(|&&caused_ns| caused_ns > 0).map(|&caused_ns| (caused_ns, index))
        });
        let mut by_task: Vec<(u64, TaskIndex)> = caused.collect();
        by_task.sort_unstable_by_key(|&(caused_ns, index)| (Reverse(caused_ns), index));
        let hidden = by_task.split_off(by_task.len().min(SHOWN_MAX));
        let hidden_ns = hidden.iter().map(|&(caused_ns, _)| caused_ns);
        let others_ns = hidden_ns.fold(self.others_ns, u64::saturating_add);
        let named = by_task.into_iter().map(|(ran_ns, index)| (Party::Task(closing.who(index)), ran_ns));
        let mut culprits: Vec<Culprit> = named
            .chain([
                (Party::Idle, self.idle_ns),
                (Party::Unknown, self.unknown_ns),
                (Party::Others, others_ns),
            ])
            .filter(|&(_, ran_ns)| ran_ns > 0)
            .map(|(party, ran_ns)| Culprit { party, ran_ns })
            .collect();
        culprits.sort_by_key(|culprit| Reverse(culprit.ran_ns));
        culprits
    }
}

fn party(closing: &Closing<'_>, code: u32) -> Party {
    match closing.timeline.index_at(code as usize) {
        Some(task) => Party::Task(closing.who(task)),
        None if code == IDLE => Party::Idle,
        None if code == QUOTA => Party::Quota,
        None => Party::Unknown,
    }
}

/// The part of a CPU's history that a wait covers.
#[derive(Clone, Copy)]
struct Stretch {
    cpu: u16,
    start_ns: u64,
    end_ns: u64,
}

/// Calls back with each stay that lies in the wait, cut to the wait, and with its CPU, the waiting task's.
/// The stays come newest first on each CPU, at most `most` of them a CPU. Before the task's last move, its
/// CPU is the CPU of the queue in which it then was.
#[inline]
pub(crate) fn each_stay(now: &Timeline, waited: &Waited, most: usize, mut each: impl FnMut(u16, Slice)) {
    let Waited { cpu, start_ns, end_ns, .. } = *waited;
    let mut left = most;
    let mut start_ns = start_ns;
    if let Some((from_cpu, moved_ns)) =
        waited.moved.filter(|moved| moved.0 != cpu && moved.1 > waited.start_ns)
    {
        start_ns = moved_ns;
        each_before_move(
            now,
            Stretch { cpu: from_cpu, start_ns: waited.start_ns, end_ns: moved_ns },
            most,
            &mut each,
        );
    }
    each_on(now, Stretch { cpu, start_ns, end_ns }, &mut left, &mut each);
}

#[cold]
fn each_before_move(now: &Timeline, before: Stretch, most: usize, each: &mut impl FnMut(u16, Slice)) {
    let mut left = most;
    each_open(now, before, &mut left, each);
    each_on(now, before, &mut left, each);
}

/// Calls back with the stays that have ended.
#[inline]
fn each_on(now: &Timeline, stretch: Stretch, left: &mut usize, each: &mut impl FnMut(u16, Slice)) {
    let Some(cpu) = now.cpus().get(usize::from(stretch.cpu)) else { return };
    let mut back = 0;
    while let Some(slice) = cpu.recent(back) {
        if *left == 0 || slice.end_ns <= stretch.start_ns {
            return;
        }
        give(*slice, stretch, left, each);
        back += 1;
    }
}

/// Calls back with the stay that goes on, unless the CPU is just switching.
fn each_open(now: &Timeline, stretch: Stretch, left: &mut usize, each: &mut impl FnMut(u16, Slice)) {
    let Some(cpu) = now.cpus().get(usize::from(stretch.cpu)) else { return };
    if cpu.holder() != Holder::Unknown && *left > 0 {
        let open = Slice { start_ns: cpu.since_ns(), end_ns: now.now_ns(), holder: cpu.holder() };
        give(open, stretch, left, each);
    }
}

#[inline]
fn give(slice: Slice, stretch: Stretch, left: &mut usize, each: &mut impl FnMut(u16, Slice)) {
    let start_ns = slice.start_ns.max(stretch.start_ns);
    let end_ns = slice.end_ns.min(stretch.end_ns);
    if start_ns < end_ns {
        *left -= 1;
        each(stretch.cpu, Slice { start_ns, end_ns, ..slice });
    }
}
