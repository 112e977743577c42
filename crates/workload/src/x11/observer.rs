//! What the kinds of tasks on a display share: keys of the scenario, and being on time while measuring.

use std::io;

use super::server::Size;
use crate::keys::Keys;
use crate::metrics::Metrics;
use crate::mistake::Mistake;
use crate::runner::RunError;
use crate::runner::stage::Stage;

/// Above all that a scenario gives its tasks, below the kernel's own threads of the highest priority.
const OBSERVER_PRIORITY: libc::c_int = 90;

/// The name of the task that is watched or typed at.
pub(super) fn target(keys: &mut Keys<'_>) -> Result<String, Mistake> {
    keys.text("target")?.ok_or_else(|| keys.missing("target"))
}

/// Where a window goes: `at = [x, y]`, from the display's upper left corner.
pub(super) fn place(keys: &mut Keys<'_>) -> Result<Option<(i16, i16)>, Mistake> {
    let Some(sides) = keys.wholes("at")? else { return Ok(None) };
    let side = |side: u64| i16::try_from(side).ok();
    match sides[..] {
        [x, y] => side(x).zip(side(y)),
        _ => None,
    }
    .map(Some)
    .ok_or_else(|| {
        keys.mistake("at", "\"at\" must be [X, Y] in pixels from the upper left corner, as [0, 300]")
    })
}

/// How large a window is: `size = "640x400"`.
pub(super) fn size(keys: &mut Keys<'_>, usual: Size) -> Result<Size, Mistake> {
    match keys.text("size")? {
        None => Ok(usual),
        Some(text) => text.parse().map_err(|wrong| keys.mistake("size", wrong)),
    }
}

/// The display of a task that needs one.
pub(super) fn display(stage: &Stage) -> Result<&str, RunError> {
    stage.display().ok_or_else(|| RunError::Failed("the scenario's machine has no display".into()))
}

/// Puts the calling thread before all others, so that what it sees is when the screen changed, not when it was let look.
/// A note says where that is not allowed.
pub(super) fn raise(metrics: &mut Metrics) {
    let wanted = libc::sched_param { sched_priority: OBSERVER_PRIORITY };
    // SAFETY: 0 is the calling thread; the parameter lives.
    if unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) } != 0 {
        let error = io::Error::last_os_error();
        metrics.note(format!(
            "the observer waits for the CPU like any task, which its figures include: {error}"
        ));
    }
}
