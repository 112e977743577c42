//! The rows of the study: the paper's value, the measured value, and whether they agree.

use serde::Serialize;

use super::costs::{numbers, ticks_s};
use super::published::{COSTS_US, TWENTY_PERCENT, gain_percent};
use super::{CASES, Case, Expiry, SYSTEMS, Study, System, costs};
use crate::study::Spread;

/// Whether a measured value agrees with the paper's.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The value agrees.
    AsThen,
    /// The value does not agree.
    Otherwise,
    /// The measurement does not give the value apart from others.
    CannotBeToldApart,
}

impl Verdict {
    /// The verdict in words.
    pub const fn words(self) -> &'static str {
        match self {
            Verdict::AsThen => "as then",
            Verdict::Otherwise => "differs",
            Verdict::CannotBeToldApart => "cannot be told apart",
        }
    }

    const fn of(agrees: bool) -> Self {
        if agrees { Verdict::AsThen } else { Verdict::Otherwise }
    }
}

/// A quantity with the paper's value and the measured value.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// The group of rows: a figure of the paper, or the costs.
    pub group: &'static str,
    /// The system's key; `None` for quantities of the whole study.
    pub system: Option<&'static str>,
    /// The quantity in words, with its unit.
    pub what: &'static str,
    /// The paper's value, where its text has it.
    pub published: Option<f64>,
    /// The measured value over the seeds; `None` if it cannot be told apart from others.
    pub measured: Option<Spread>,
    /// Whether both agree; `None` if the paper prints no value.
    pub verdict: Option<Verdict>,
    /// The reason if they do not agree.
    pub why: Option<&'static str>,
}

const OVERHEAD: &str = "povray takes longer than with timers at ticks by, %";
const GAIN: &str = "povray takes less time than with hard timers by, %";
const GONE: &str = "of what hard timers cost over none, gone, %";
const LATE: &str = "99 % of the signals are late by at most, us";
const SHARE: &str = "checks that serve a timer, % (N_s / N_c)";

/// The heading of the costs.
pub(super) const COSTS: &str = "Costs and break-even";

const NO_CACHES: &str =
    "the lab has no caches: the pollution by interrupts, which the paper counts, costs nothing";
const WAKE_UPS: &str = "without the pollution of caches most of a timer's cost is the wake-up of its process, two \
                        switches and two system calls, which a soft timer has, too";
const CHECKS: &str = "a check takes the time from the clock and compares it; at a nanosecond an instruction";
const COSTS_MORE: &str = "a nanosecond an instruction: today's kernel takes more of them for an interrupt, a wake-up \
                          and a switch than the paper's processor took time";

const SAVES_LESS: &str = "the checks cost more than the interrupts that they save";
const NOT_APART: &str = "the cells' numbers of hard timers, soft timers and checks grow together";

/// A difference of half a point, or of half the paper's value, agrees.
fn agrees(published: f64, measured: f64) -> bool {
    (measured - published).abs() <= (published.abs() / 2.0).max(0.5)
}

/// A cost within a factor of two agrees.
fn is_near(published: f64, measured: f64) -> bool {
    measured > published / 2.0 && measured < published * 2.0
}

/// All rows: those of figures 6 to 8, and the costs.
pub fn rows(study: &Study) -> Vec<Row> {
    let mut rows = Vec::new();
    for case in CASES.iter().filter(|case| case.figure.is_some()) {
        rows.extend(SYSTEMS.iter().filter_map(|system| overhead(study, case, system)));
        rows.extend(SYSTEMS.iter().filter_map(|system| gain(study, case, system)));
        for system in SYSTEMS.iter().filter(|system| matches!(system.expiry, Expiry::Overshoot(_))) {
            rows.extend(plain(case, system, GONE, study.gone_percent(system.key, case.key)));
        }
        for system in &SYSTEMS {
            let late = study.spread(system.key, case.key, |cell| Some(cell.cost.late?.p99_us));
            rows.extend(plain(case, system, LATE, late));
        }
        for system in SYSTEMS.iter().filter(|system| matches!(system.expiry, Expiry::Overshoot(_))) {
            rows.extend(plain(case, system, SHARE, share_percent(study, case, system)));
        }
    }
    rows.extend(of_costs(study));
    rows
}

/// The heading of a case's rows.
pub(super) fn group(case: &Case) -> &'static str {
    match case.figure {
        Some("6") => "Figure 6: 20 timer processes of 10 ms",
        Some("7") => "Figure 7: 50 timer processes of 10 ms",
        Some(_) => "Figure 8: 20 timer processes of 1 ms",
        None => "povray alone",
    }
}

fn plain(case: &Case, system: &System, what: &'static str, measured: Option<Spread>) -> Option<Row> {
    let (group, system) = (group(case), Some(system.key));
    Some(Row { group, system, what, published: None, measured: Some(measured?), verdict: None, why: None })
}

/// The paper's verdict on a value, with the reason if it does not agree.
fn judged(row: Row, published: f64, agrees: bool, why: &'static str) -> Row {
    let why = (!agrees).then_some(why);
    Row { published: Some(published), verdict: Some(Verdict::of(agrees)), why, ..row }
}

/// A cost that the fit puts below 0: the cells do not tell it apart from the other costs.
fn not_apart(row: Row, published: f64) -> Row {
    let verdict = Some(Verdict::CannotBeToldApart);
    Row { published: Some(published), measured: None, verdict, why: Some(NOT_APART), ..row }
}

/// Figures 6 and 7: the overhead against standard Linux.
fn overhead(study: &Study, case: &Case, system: &System) -> Option<Row> {
    if system.expiry == Expiry::AtTick {
        return None;
    }
    let measured = study.longer_percent((system.key, case.key), ("ticks", case.key));
    let row = plain(case, system, OVERHEAD, measured)?;
    let median = measured?.median;
    Some(match (case.figure, system.key) {
        (Some("6"), "soft") => judged(row, 0.0, agrees(0.0, median), WAKE_UPS),
        (Some("6"), _) => judged(row, TWENTY_PERCENT, agrees(TWENTY_PERCENT, median), NO_CACHES),
        (Some("7"), "soft") => judged(row, 0.0, agrees(0.0, median), WAKE_UPS),
        // The paper's povray is faster than on standard Linux.
        (Some("7"), "firm-500") => judged(row, 0.0, median < 0.0, WAKE_UPS),
        _ => row,
    })
}

/// The gain over hard timers, which figure 8 shows.
fn gain(study: &Study, case: &Case, system: &System) -> Option<Row> {
    if !matches!(system.expiry, Expiry::Overshoot(_)) {
        return None;
    }
    let longer = study.longer_percent((system.key, case.key), ("hard", case.key))?;
    let Spread { median, low, high } = longer;
    let row = plain(case, system, GAIN, Some(Spread { median: -median, low: -high, high: -low }))?;
    Some(match gain_percent(case.key).filter(|_| system.key == "firm-500") {
        Some(published) => {
            let why = if median > 0.0 { SAVES_LESS } else { WAKE_UPS };
            judged(row, published, agrees(published, -median), why)
        }
        None => row,
    })
}

fn share_percent(study: &Study, case: &Case, system: &System) -> Option<Spread> {
    let ticks_s = ticks_s(study)?;
    study.spread(system.key, case.key, |cell| {
        let [_, soft, checks] = numbers(cell, ticks_s);
        (checks > 0.0).then(|| 100.0 * soft / checks)
    })
}

fn of_costs(study: &Study) -> Vec<Row> {
    let Some(costs) = costs(study) else { return Vec::new() };
    let row = |what, value: f64| {
        let measured = Spread { median: value, low: value, high: value };
        let measured = Some(measured);
        Row { group: COSTS, system: None, what, published: None, measured, verdict: None, why: None }
    };
    let [hard_us, soft_us, check_us] = COSTS_US;
    let mut rows: Vec<Row> = [
        ("a hard timer costs, us (C_h)", costs.hard_us, hard_us, NO_CACHES),
        ("a soft timer costs, us (C_s)", costs.soft_us, soft_us, COSTS_MORE),
        ("a check costs, us (C_c)", costs.check_us, check_us, CHECKS),
    ]
    .into_iter()
    .map(|(what, value, published, why)| {
        let row = row(what, value);
        if value < 0.0 {
            not_apart(row, published)
        } else {
            judged(row, published, is_near(published, value), why)
        }
    })
    .collect();
    if let Some(share) = costs.break_even() {
        let what = "checks that must serve a timer for firm timers to pay, % (C_c / (C_h - C_s))";
        let published = 100.0 * check_us / (hard_us - soft_us);
        let agrees = is_near(published, 100.0 * share);
        rows.push(judged(row(what, 100.0 * share), published, agrees, WAKE_UPS));
        if let Some(percent) = rule_holds_percent(study, share) {
            rows.push(row(
                "cells in which this rule says whether hard or firm timers are faster, %",
                percent,
            ));
        }
    }
    rows.push(row("a cell's time is off from the time by these costs by at most, %", costs.off_percent));
    rows
}

/// The part of the cells with firm timers that are faster than hard timers exactly if their share of useful
/// checks is above the break-even; `None` without such cells.
fn rule_holds_percent(study: &Study, break_even: f64) -> Option<f64> {
    let mut held = Vec::new();
    for case in CASES.iter().filter(|case| case.figure.is_some()) {
        for system in SYSTEMS.iter().filter(|system| matches!(system.expiry, Expiry::Overshoot(_))) {
            let share = share_percent(study, case, system);
            let longer = study.longer_percent((system.key, case.key), ("hard", case.key));
            if let (Some(share), Some(longer)) = (share, longer) {
                held.push((share.median > 100.0 * break_even) == (longer.median < 0.0));
            }
        }
    }
    let kept = held.iter().filter(|held| **held).count();
    (!held.is_empty()).then(|| 100.0 * kept as f64 / held.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn gains_and_overheads_are_judged_by_the_paper() {
        let rows = rows(&study());
        let find = |figure: &str, system: &str, what: &str| {
            let is_it =
                |row: &&Row| row.group.contains(figure) && row.system == Some(system) && row.what == what;
            rows.iter().find(is_it).unwrap_or_else(|| panic!("no {figure} {system} {what}"))
        };
        let hard = find("Figure 6", "hard", OVERHEAD);
        assert_eq!((hard.published, hard.verdict), (Some(1.5), Some(Verdict::Otherwise)));
        assert!(hard.why.is_some_and(|why| why.contains("caches")));
        let soft = find("Figure 6", "soft", OVERHEAD);
        assert_eq!((soft.published, soft.verdict, soft.why), (Some(0.0), Some(Verdict::AsThen), None));
        let gain = find("Figure 8", "firm-500", GAIN);
        assert_eq!((gain.published, gain.verdict), (Some(8.0), Some(Verdict::AsThen)));
        assert!(gain.measured.is_some_and(|gain| (gain.median - 4.1).abs() < 0.1), "{gain:?}");
        assert_eq!(find("Figure 8", "firm-0", GAIN).verdict, None);
        assert!(rows.iter().all(|row| row.group != COSTS || row.system.is_none()));
    }

    #[test]
    fn a_cost_below_zero_is_shown_as_none_and_not_judged() {
        let mut study = study();
        for cell in &mut study.cells {
            let checks = cell.cost.firm.map_or(0, |[checks, ..]| checks);
            // A check was made of 250 ns; now it seems to save as much.
            cell.cost.elapsed_ns -= checks * 500;
        }
        let rows = rows(&study);
        let find = |what: &str| rows.iter().find(|row| row.what.contains(what));
        let check = find("C_c)").expect("the paper has it");
        assert_eq!((check.measured, check.verdict), (None, Some(Verdict::CannotBeToldApart)));
        assert!(find("a hard timer costs").is_some_and(|row| row.verdict == Some(Verdict::AsThen)));
        assert!(find("C_c / (C_h - C_s)").is_none() && find("this rule").is_none());
    }

    #[test]
    fn the_rule_of_break_even_is_held_against_the_cells() {
        let of = rows(&study());
        let rule = of.iter().find(|row| row.what.contains("this rule")).expect("there are costs");
        assert_eq!(rule.measured.map(|rule| rule.median), Some(100.0));
        assert_eq!(rows(&Study::default()), []);
    }
}
