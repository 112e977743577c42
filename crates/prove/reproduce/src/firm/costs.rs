//! What a hard timer, a soft timer and a check cost, and from which share of useful checks on
//! firm timers pay.

use serde::Serialize;

use super::{Cell, Expiry, NONE, SYSTEMS, Study};

/// The costs of timers, from all cells with timer processes and high-resolution timers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Costs {
    /// What a timer with an interrupt of its own costs the ray tracer, us (C_h).
    pub hard_us: f64,
    /// What a timer that is served at a check, or together with another timer, costs, us (C_s).
    pub soft_us: f64,
    /// What a check costs, us (C_c).
    pub check_us: f64,
    /// The greatest difference between a cell's time and the time by these costs, percent of that time.
    pub off_percent: f64,
}

impl Costs {
    /// The share of checks that must serve a timer so that firm timers pay: `C_c / (C_h - C_s)`. `None` if a
    /// hard timer costs no more than a soft timer, or a cost is below 0, which is no cost.
    pub fn break_even(&self) -> Option<f64> {
        let are_costs = self.soft_us >= 0.0 && self.check_us >= 0.0 && self.hard_us > self.soft_us;
        are_costs.then(|| self.check_us / (self.hard_us - self.soft_us))
    }
}

/// The numbers of hard timers, soft timers and checks of a cell: N_h, N_s and N_c. `ticks_s` is the rate of
/// the clock device's interrupts without timers.
pub(super) fn numbers(cell: &Cell, ticks_s: f64) -> [f64; 3] {
    let cost = &cell.cost;
    let ticks = ticks_s * cost.elapsed_ns as f64 / 1e9;
    // An interrupt may serve several timers. The others are as cheap as soft timers.
    let hard = (cost.interrupts as f64 - ticks).clamp(0.0, cost.signals as f64);
    let checks = cost.firm.map_or(0, |[checks, ..]| checks);
    [hard, cost.signals as f64 - hard, checks as f64]
}

/// The clock device's interrupts a second beside the ray tracer alone.
pub(super) fn ticks_s(study: &Study) -> Option<f64> {
    let alone = study
        .spread("hard", NONE, |cell| Some(cell.cost.interrupts as f64 * 1e9 / cell.cost.elapsed_ns as f64));
    alone.map(|spread| spread.median)
}

/// The costs that explain the cells best (least squares); `None` if there are too few cells.
pub fn costs(study: &Study) -> Option<Costs> {
    let ticks_s = ticks_s(study)?;
    let fine: Vec<&str> =
        SYSTEMS.iter().filter(|system| system.expiry != Expiry::AtTick).map(|system| system.key).collect();
    let mut equations = Vec::new();
    for cell in &study.cells {
        let Some(alone) = study.of("hard", NONE).find(|alone| alone.seed == cell.seed) else { continue };
        if cell.case != NONE && fine.contains(&cell.system.as_str()) {
            let beyond_us = (cell.cost.elapsed_ns as f64 - alone.cost.elapsed_ns as f64) / 1e3;
            equations.push((numbers(cell, ticks_s), beyond_us, cell.cost.elapsed_ns as f64 / 1e3));
        }
    }
    let [hard_us, soft_us, check_us] = least_squares(&equations)?;
    let off = |(numbers, beyond_us, elapsed_us): &([f64; 3], f64, f64)| {
        let said_us = numbers[0] * hard_us + numbers[1] * soft_us + numbers[2] * check_us;
        100.0 * (said_us - beyond_us).abs() / elapsed_us
    };
    Some(Costs { hard_us, soft_us, check_us, off_percent: equations.iter().map(off).fold(0.0, f64::max) })
}

/// Solves the normal equations by Cramer's rule; `None` if they have no single solution.
fn least_squares(equations: &[([f64; 3], f64, f64)]) -> Option<[f64; 3]> {
    let mut left = [[0.0; 3]; 3];
    let mut right = [0.0; 3];
    for (numbers, value, _) in equations {
        for row in 0..3 {
            for column in 0..3 {
                left[row][column] += numbers[row] * numbers[column];
            }
            right[row] += numbers[row] * value;
        }
    }
    let whole = determinant(&left);
    // The scale of a determinant of such sums: below a millionth of it, the equations depend on each other.
    let scale = left[0][0] * left[1][1] * left[2][2];
    if equations.len() < 3 || whole.abs() <= 1e-9 * scale {
        return None;
    }
    let mut solution = [0.0; 3];
    for (column, value) in solution.iter_mut().enumerate() {
        let mut replaced = left;
        (0..3).for_each(|row| replaced[row][column] = right[row]);
        *value = determinant(&replaced) / whole;
    }
    Some(solution)
}

fn determinant(of: &[[f64; 3]; 3]) -> f64 {
    let minor = |a: usize, b: usize| of[1][a] * of[2][b] - of[1][b] * of[2][a];
    of[0][0] * minor(1, 2) - of[0][1] * minor(0, 2) + of[0][2] * minor(0, 1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{MADE_OF, study};
    use super::*;

    #[test]
    fn the_costs_are_those_of_which_the_cells_are_made() {
        let costs = costs(&study()).expect("there are cells");
        for (found, made) in [costs.hard_us, costs.soft_us, costs.check_us].into_iter().zip(MADE_OF) {
            assert!((found - made).abs() < 0.02, "{costs:?}");
        }
        assert!(costs.off_percent < 0.01, "{costs:?}");
        let share = costs.break_even().expect("hard timers cost more");
        assert!((share - 0.25 / 3.0).abs() < 0.01, "{share}");
    }

    #[test]
    fn without_firm_cells_there_are_no_costs() {
        let mut study = study();
        study.cells.retain(|cell| cell.system == "hard" || cell.system == "ticks");
        assert_eq!(costs(&study), None);
        assert_eq!(costs(&Study::default()), None);
        let dear = Costs { hard_us: 1.0, soft_us: 2.0, check_us: 0.1, off_percent: 0.0 };
        assert_eq!(dear.break_even(), None);
        for costs in [Costs { check_us: -0.1, hard_us: 3.0, ..dear }, Costs { soft_us: -1.0, ..dear }] {
            assert_eq!(costs.break_even(), None);
        }
    }
}
