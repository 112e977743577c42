//! The parts that tasks on a display share: the display's name, and a high priority for threads that measure.

use spry_scenario::metrics::Metrics;

use crate::RunError;
use crate::stage::Stage;

/// The name of the display, for a task that needs one.
pub(super) fn display(stage: &Stage) -> Result<&str, RunError> {
    stage.display().ok_or_else(|| RunError::Failed("the scenario's machine has no display".into()))
}

/// Gives the calling thread a priority above all tasks, so that it sees a change of the screen when the
/// change happens. If this is not allowed, it adds a note to the metrics.
pub(super) fn raise(stage: &Stage, metrics: &mut Metrics) {
    if let Err(error) = stage.observe() {
        metrics.note(format!(
            "the observer waits for the CPU like any task, which its figures include: {error}"
        ));
    }
}
