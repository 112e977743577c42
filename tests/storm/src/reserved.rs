//! Checks the reservations of a storm: the daemon's admissions, and the time of reserved tasks in the trace.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use spry_control::Reservations;
use spry_reservations::PERIOD_MIN_NS;

/// A stay of a thread on a CPU or in a queue, so a time in which it was runnable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stay {
    pub tid: u32,
    pub tgid: u32,
    pub cpu: u16,
    pub start_ns: u64,
    pub end_ns: u64,
    pub ran: bool,
}

/// Terms that were in force for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct InForce {
    number: u32,
    is_group: bool,
    waits: bool,
    budget_ns: u64,
    period_ns: u64,
    cpu: u16,
    from_ns: u64,
    to_ns: u64,
}

/// The notes of a storm's actors.
#[derive(Default)]
struct Notes {
    in_force: Vec<InForce>,
    /// The CPUs that were offline, or going or coming, each with the start and the end of that time, ns.
    absent: Vec<(u16, u64, u64)>,
    faults: Vec<String>,
    opened: u64,
    refused: u64,
    released: u64,
}

/// The findings on a storm's reservations.
#[derive(Default)]
pub struct ReservationFindings {
    /// The numbers of admitted terms, of refused requests and of released reservations.
    pub counts: [u64; 3],
    /// How many accounts of all reservations the daemon gave, the most reservations at once, and the largest
    /// share of a CPU that they had, millionths.
    pub answers: u64,
    pub most: usize,
    pub most_ppm: u64,
    /// How many windows of two periods were checked in which a task was always runnable. The most that a task
    /// lacked of its budget in a window, ns, and the most beyond a tenth of the budget.
    pub windows: u64,
    pub short_ns: u64,
    pub beyond_ns: u64,
    /// The rules that were broken.
    pub broken: Vec<String>,
}

/// The lack of budget that is allowed in a window of two periods besides a tenth of the budget, ns.
pub const TOLERANCE_NS: u64 = 500_000;

/// The requests for reservations of a number that are under way.
#[derive(Default)]
struct Number {
    asking: u32,
    is_mixed: bool,
    now: Option<InForce>,
}

fn notes(text: &str, end_ns: u64) -> Result<Notes> {
    let mut lines: Vec<(u64, Vec<&str>)> = Vec::new();
    for line in text.lines() {
        let (time, rest) = line.split_once(' ').with_context(|| line.to_owned())?;
        lines.push((time.parse().with_context(|| line.to_owned())?, rest.split(' ').collect()));
    }
    lines.sort_by_key(|&(time, _)| time);
    let mut all = Notes::default();
    let mut numbers: BTreeMap<u32, Number> = BTreeMap::new();
    let mut going: BTreeMap<u16, u64> = BTreeMap::new();
    for (time_ns, words) in lines {
        let number: u32 = words.get(1).and_then(|word| word.parse().ok()).context("a note has a number")?;
        let of = numbers.entry(number).or_default();
        match words[0] {
            "goes" => drop(going.insert(number as u16, time_ns)),
            "comes" => {
                let from_ns = going.remove(&(number as u16)).unwrap_or(0);
                all.absent.push((number as u16, from_ns, time_ns));
            }
            "asks" => {
                all.in_force.extend(of.now.take().map(|now| InForce { to_ns: time_ns, ..now }));
                of.asking += 1;
                of.is_mixed |= of.asking > 1;
            }
            what => {
                of.asking = of.asking.saturating_sub(1);
                match what {
                    "has" => {
                        all.opened += 1;
                        if of.asking == 0 && !of.is_mixed {
                            of.now = Some(terms(number, time_ns, &words).with_context(|| words.join(" "))?);
                        }
                    }
                    "refused" => all.refused += 1,
                    "released" => all.released += 1,
                    _ => all.faults.push(words.join(" ")),
                }
                of.is_mixed &= of.asking > 0;
            }
        }
    }
    let open = numbers.into_values().filter_map(|of| of.now);
    all.in_force.extend(open.map(|now| InForce { to_ns: end_ns, ..now }));
    Ok(all)
}

fn terms(number: u32, from_ns: u64, words: &[&str]) -> Option<InForce> {
    let [_, _, what, budget, period, then, cpu, _] = words else { return None };
    Some(InForce {
        number,
        is_group: *what == "group",
        waits: *then == "wait",
        budget_ns: budget.parse().ok()?,
        period_ns: period.parse().ok()?,
        cpu: cpu.parse().ok()?,
        from_ns,
        to_ns: 0,
    })
}

impl ReservationFindings {
    /// Checks the daemon's answers: on each CPU the shares are at most the share that may be reserved.
    fn admission(&mut self, text: &str, reservable_percent: u32) -> Result<()> {
        for line in text.lines() {
            let (_, json) = line.split_once(' ').context("an answer has a time")?;
            let answer: Reservations = serde_json::from_str(json).context("the daemon's answer")?;
            self.answers += 1;
            self.most = self.most.max(answer.reservations.len());
            for (cpu, share) in answer.shares() {
                self.most_ppm = self.most_ppm.max((share * 1e6).round() as u64);
                if share > f64::from(reservable_percent) / 100.0 + 1e-9 {
                    self.broken.push(format!("{share} of CPU {cpu} were reserved"));
                }
            }
        }
        Ok(())
    }

    /// Checks that a task that was always runnable got its budget: two periods contain one whole budget.
    fn budget(&mut self, terms: &InForce, stays: &[Stay], absent: &[(u16, u64, u64)]) {
        let InForce { budget_ns, period_ns, from_ns, to_ns, cpu, .. } = *terms;
        let ran = CpuRuns::on(cpu, stays);
        for (start_ns, end_ns) in wanted(terms, stays, absent) {
            // The first budget comes a period after the reservation was opened.
            let (mut at_ns, end_ns) = (start_ns.max(from_ns + period_ns), end_ns.min(to_ns));
            while at_ns + 2 * period_ns <= end_ns {
                let short_ns = budget_ns.saturating_sub(ran.between(at_ns, at_ns + 2 * period_ns));
                self.windows += 1;
                self.short_ns = self.short_ns.max(short_ns);
                self.beyond_ns = self.beyond_ns.max(short_ns.saturating_sub(budget_ns / 10));
                if short_ns > budget_ns / 10 + TOLERANCE_NS {
                    self.broken.push(format!(
                        "{} ({}) lacked {:.3} ms in 2 periods from {:.6} s on: {terms:?}",
                        terms.number,
                        if terms.is_group { "group" } else { "thread" },
                        short_ns as f64 / 1e6,
                        at_ns as f64 / 1e9,
                    ));
                    break;
                }
                at_ns += period_ns.max(PERIOD_MIN_NS);
            }
        }
    }
}

/// The runs on a CPU, ns: the start and the end of each, and the sum of all runs before it.
struct CpuRuns(Vec<(u64, u64, u64)>);

impl CpuRuns {
    fn on(cpu: u16, stays: &[Stay]) -> CpuRuns {
        let mut all: Vec<(u64, u64, u64)> = stays
            .iter()
            .filter(|stay| stay.ran && stay.cpu == cpu)
            .map(|stay| (stay.start_ns, stay.end_ns, 0))
            .collect();
        all.sort_unstable();
        let mut sum_ns = 0;
        for (start_ns, end_ns, before_ns) in &mut all {
            *before_ns = sum_ns;
            sum_ns += *end_ns - *start_ns;
        }
        CpuRuns(all)
    }

    fn until(&self, time_ns: u64) -> u64 {
        let at = self.0.partition_point(|&(start_ns, _, _)| start_ns < time_ns);
        let Some(&(start_ns, end_ns, before_ns)) = at.checked_sub(1).and_then(|at| self.0.get(at)) else {
            return 0;
        };
        before_ns + end_ns.min(time_ns) - start_ns
    }

    fn between(&self, from_ns: u64, to_ns: u64) -> u64 {
        self.until(to_ns) - self.until(from_ns)
    }
}

/// The times in which a thread of the reservation was runnable on its CPU, merged where they touch, ns.
fn wanted(terms: &InForce, stays: &[Stay], absent: &[(u16, u64, u64)]) -> Vec<(u64, u64)> {
    // While threads were on other CPUs or the CPU was offline, the reservation promises nothing.
    let mut cuts: Vec<(u64, u64)> = absent
        .iter()
        .filter(|&&(cpu, _, _)| cpu == terms.cpu)
        .map(|&(_, from_ns, to_ns)| (from_ns, to_ns + terms.period_ns))
        .collect();
    let mut threads: BTreeMap<u32, Vec<&Stay>> = BTreeMap::new();
    for stay in stays {
        threads.entry(stay.tid).or_default().push(stay);
    }
    for of in threads.values() {
        if of.iter().all(|stay| stay.cpu == terms.cpu) {
            continue;
        }
        let mut last_ns = 0;
        let mut is_here = false;
        for stay in of.iter().filter(|stay| stay.ran) {
            if !is_here || stay.cpu != terms.cpu {
                cuts.push((last_ns, stay.start_ns));
            }
            is_here = stay.cpu == terms.cpu;
            if !is_here {
                cuts.push((stay.start_ns, stay.end_ns));
            }
            last_ns = stay.end_ns;
        }
        cuts.push((last_ns, u64::MAX));
    }
    cuts.sort_unstable();
    let mut spans: Vec<(u64, u64)> = stays.iter().map(|stay| (stay.start_ns, stay.end_ns)).collect();
    spans.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start_ns, end_ns) in spans {
        match merged.last_mut() {
            Some((_, until_ns)) if start_ns <= *until_ns => *until_ns = end_ns.max(*until_ns),
            _ => merged.push((start_ns, end_ns)),
        }
    }
    merged.into_iter().flat_map(|span| without(span, &cuts)).collect()
}

/// The parts of a span that remain without some cuts, which are in order.
fn without((mut start_ns, end_ns): (u64, u64), cuts: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    for &(from_ns, to_ns) in cuts {
        if from_ns >= end_ns {
            break;
        }
        if from_ns > start_ns {
            left.push((start_ns, from_ns));
        }
        start_ns = start_ns.max(to_ns);
    }
    if start_ns < end_ns {
        left.push((start_ns, end_ns));
    }
    left
}

/// Checks a storm's reservations by the actors' notes, the daemon's answers, and the trace.
///
/// # Errors
/// If a line cannot be read.
pub fn check(
    noted: &str,
    answers: &str,
    stays: &[Stay],
    reservable_percent: u32,
) -> Result<ReservationFindings> {
    let end_ns = stays.iter().map(|stay| stay.end_ns).max().unwrap_or(0);
    let notes = notes(noted, end_ns)?;
    let mut kept = ReservationFindings {
        counts: [notes.opened, notes.refused, notes.released],
        ..ReservationFindings::default()
    };
    kept.broken.extend(notes.faults);
    kept.admission(answers, reservable_percent)?;
    let (mut of_threads, mut of_groups) =
        (BTreeMap::<u32, Vec<Stay>>::new(), BTreeMap::<u32, Vec<Stay>>::new());
    for &stay in stays {
        of_threads.entry(stay.tid).or_default().push(stay);
        of_groups.entry(stay.tgid).or_default().push(stay);
    }
    for terms in &notes.in_force {
        let of = if terms.is_group { &of_groups } else { &of_threads };
        let Some(all) = of.get(&terms.number) else { continue };
        let within: Vec<Stay> = all
            .iter()
            .filter(|stay| stay.end_ns > terms.from_ns && stay.start_ns < terms.to_ns)
            .copied()
            .collect();
        kept.budget(terms, &within, &notes.absent);
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn stay(start_ms: u64, end_ms: u64, cpu: u16, ran: bool) -> Stay {
        Stay { tid: 7, tgid: 7, cpu, start_ns: start_ms * MS, end_ns: end_ms * MS, ran }
    }

    fn kept(stays: &[Stay], cpu: u16) -> ReservationFindings {
        let noted = format!("{MS} asks 7\n{} has 7 thread 2000000 10000000 wait {cpu} 0\n", 2 * MS);
        check(&noted, "", stays, 50).unwrap()
    }

    #[test]
    fn a_task_that_gets_its_budget_in_each_period_keeps_the_rules() {
        let mut stays = Vec::new();
        for period in 0..20 {
            stays.push(stay(period * 10, period * 10 + 2, 0, true));
            stays.push(stay(period * 10 + 2, period * 10 + 10, 0, false));
        }
        let kept = kept(&stays, 0);
        assert_eq!((kept.windows, kept.short_ns, kept.broken.len()), (17, 0, 0), "{:?}", kept.broken);
    }

    #[test]
    fn a_task_without_its_budget_for_two_periods_breaks_a_rule() {
        let kept = kept(&[stay(0, 30, 0, true), stay(30, 60, 0, false), stay(60, 70, 0, true)], 0);
        assert_eq!((kept.short_ns, kept.broken.len()), (2 * MS, 1), "{:?}", kept.broken);
    }

    #[test]
    fn where_a_task_is_on_another_cpu_nothing_is_promised() {
        let stays =
            [stay(0, 30, 0, true), stay(30, 60, 1, false), stay(60, 70, 1, true), stay(70, 90, 0, true)];
        let kept = kept(&stays, 0);
        assert_eq!((kept.windows, kept.broken.len()), (1, 0), "{:?}", kept.broken);
    }

    #[test]
    fn more_than_may_be_reserved_and_what_is_no_answer_break_rules() {
        let one = |slot: u32| {
            format!(
                r#"{{"slot":{slot},"cpu":0,"budget_ns":3,"period_ns":10,"covers":{{"thread":{{"tid":7}}}},
                    "tgid":7,"comm":"x","uid":0,"periods":0,"got_ns":0,"asked_ns":0,"deviation_ns":0}}"#
            )
            .replace('\n', "")
        };
        let answer = |all: &str| format!(r#"5 {{"scope":"all","enforcer":"scx","reservations":[{all}]}}"#);
        let answers = format!("{}\n{}\n", answer(&one(0)), answer(&format!("{},{}", one(0), one(1))));
        let kept = check("1 asks 7\n2 fault 7 Err(Silent)\n", &answers, &[], 50).unwrap();
        assert_eq!((kept.answers, kept.most, kept.most_ppm), (2, 2, 600_000));
        assert_eq!(kept.broken.len(), 2, "{:?}", kept.broken);
    }
}
