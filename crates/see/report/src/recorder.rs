//! The cost of recording itself, as far as the findings show it.

use spry_analysis::findings::Findings;
use spry_trace::Tgid;

/// The recorder's own use of the machine.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize)]
pub(crate) struct RecorderCost {
    /// The recorder's process.
    pub(crate) tgid: Tgid,
    /// Run time of the recorder's threads.
    pub(crate) runtime_ns: u64,
    /// The threads' run time as a share of one CPU over the window.
    pub(crate) cpu_share: Option<f64>,
}

/// The recorder's cost; `None` where the trace names no recorder, or the recorder's tasks are not among the
/// selected tasks.
pub(crate) fn cost(findings: &Findings) -> Option<RecorderCost> {
    let tgid = findings.trace.recorder_tgid?;
    let mut own = findings.tasks.iter().filter(|task| task.who.tgid == tgid).peekable();
    own.peek()?;
    let runtime_ns = own.map(|task| task.runtime_ns).fold(0, u64::saturating_add);
    let window_ns = findings.trace.to_ns.saturating_sub(findings.trace.from_ns);
    Some(RecorderCost { tgid, runtime_ns, cpu_share: crate::words::share(runtime_ns, window_ns) })
}
