//! The CPU time of an epoch that each level gets (thesis, 8.3.3).

use crate::constants::{Constants, LevelQuanta};

/// The quantum of a level, us. `rank` is the number of lower levels that have an interactive process.
pub fn quantum_us(level: u8, rank: usize, constants: &Constants) -> u32 {
    let halvings = match constants.quanta {
        LevelQuanta::Occupied => rank,
        // The display server on level 0 and the best client on level 1 have the first quantum.
        LevelQuanta::Numbered => usize::from(level).saturating_sub(1),
    };
    let mut grains = constants.quantum_first_us / constants.quantum_grain_us;
    let least = (constants.quantum_least_us / constants.quantum_grain_us).max(1);
    for _ in 0..halvings {
        // The thesis says: "Half, unless the higher level got less than 4 clock ticks, in which case it is
        // 2."
        grains = if grains < 2 * least { least } else { grains / 2 };
        if grains == least {
            break;
        }
    }
    grains * constants.quantum_grain_us
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thesis_quanta_halve_in_whole_ticks_down_to_two() {
        let thesis = Constants::thesis();
        let quanta: Vec<u32> = (0..10).map(|rank| quantum_us(7, rank, &thesis) / 1_000).collect();
        assert_eq!(quanta, [200, 100, 50, 25, 12, 6, 3, 2, 2, 2]);
    }

    #[test]
    fn by_default_a_level_s_quantum_depends_on_no_other_process() {
        let constants = Constants::default();
        for rank in [0, 1, 7] {
            let quanta: Vec<u32> = (0..6).map(|level| quantum_us(level, rank, &constants) / 1_000).collect();
            assert_eq!(quanta, [200, 200, 100, 50, 25, 12]);
        }
    }
}
