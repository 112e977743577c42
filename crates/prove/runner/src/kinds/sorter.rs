//! The sorting application: fills an array with random numbers and sorts it, over and over (Etsion, Tsafrir,
//! Feitelson 2003, section 3).

use std::hint::black_box;

use spry_scenario::kinds::Sorter;
use spry_scenario::metrics::Metrics;

use crate::RunError;
use crate::stage::Stage;

/// Plays a sorter. It reports how many numbers the arrays had that were sorted within the measured time.
pub(super) fn play(sorter: Sorter, stage: &Stage) -> Result<Metrics, RunError> {
    let mut rng = stage.rng();
    let mut array = vec![u32::MAX; sorter.numbers as usize];
    let start = stage.start_line()?;
    let mut sorted = 0;
    while !stage.over() {
        array.iter_mut().for_each(|number| *number = rng.next_u64() as u32);
        // Like the paper's introsort, this is a quicksort that changes to heapsort where the pivots are bad.
        array.sort_unstable();
        black_box(&mut array);
        if start.counts(stage.now_ns()) {
            sorted += u64::from(sorter.numbers);
        }
    }
    let mut metrics = Metrics::new();
    metrics.count("numbers_sorted", sorted);
    Ok(metrics)
}
