//! `reasons` on a terminal: why tasks left the CPU.

use spry_analysis::findings::Findings;
use spry_page::words::count;
use spry_trace::event::PrevState;

use super::style::{Style, Table, Tone};
use super::{ROWS_MAX, or_dash, shown};
use crate::words;

pub(super) fn render(findings: &Findings, style: Style) -> Option<String> {
    findings.tasks.iter().find(|task| task.reasons.is_some())?;
    let figures = ["slept", "disk", "other block", "own wakee", "other's wakee", "end of slice", "else"];
    let mut table = Table::new("task", &figures);
    let (tasks, note) = shown(findings, ROWS_MAX);
    for task in tasks {
        let Some(reasons) = &task.reasons else { continue };
        let of = |state: PrevState| reasons.by_state[state as usize];
        let blocked: u64 = PrevState::ALL.into_iter().filter(|state| !state.is_runnable()).map(of).sum();
        table.row([
            words::who(&task.who),
            count(of(PrevState::Sleeping)),
            count(of(PrevState::DiskSleep)),
            count(blocked - of(PrevState::Sleeping) - of(PrevState::DiskSleep)),
            or_dash(reasons.by_wakings.map(|by| by.preempted_by_own_wakee), count),
            or_dash(reasons.by_wakings.map(|by| by.preempted_by_other_wakee), count),
            or_dash(reasons.by_wakings.map(|by| by.end_of_slice), count),
            or_dash(reasons.by_wakings.map(|by| by.other_involuntary), count),
        ]);
    }
    let legend = "the last four stayed runnable and gave way: to a task they woke, to one that another woke, \
                  to one that had waited longer, or for none of these";
    Some(table.render(style) + &note + &style.wrap(Tone::Faint, 2, legend))
}
