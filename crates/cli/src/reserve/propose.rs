//! `spry reserve --from-trace`: proposes a reservation for a task of a trace.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use spry_analysis::TaskPattern;
use spry_page::words::{count, duration};
use spry_reservations::{Activity, Proposal, exact_us, propose};
use spry_timeline::{Observer, Ran, TaskIndex, Timeline, Window, Woken};

use crate::output;
use crate::source;
use crate::top;

/// The least percentages of regular intervals for a task to be called regular, and roughly regular.
const REGULAR_PERCENT: u64 = 80;
const ROUGH_PERCENT: u64 = 50;

/// Reads the trace, and prints a proposal for the task that ran longest of the tasks that match.
pub fn run(trace: &Path, task: &str) -> Result<ExitCode> {
    let (mut reader, bytes) = source::open(trace, 0)?;
    let mut timeline = Timeline::new(reader.header(), Window { from_ns: 0, to_ns: u64::MAX });
    let mut seen = ActivityObserver { pattern: TaskPattern::parse(task), by_task: BTreeMap::new() };
    source::read(&mut reader, bytes, |stamped| {
        timeline.push(stamped, &mut seen);
        Ok(ControlFlow::Continue(()))
    })
    .with_context(|| source::name_of(trace))?;
    timeline.finish(reader.totals().end_ns, &mut seen);
    let longest = seen.by_task.iter().max_by_key(|(_, activity)| activity.total_ns());
    let (&index, activity) = longest.ok_or_else(|| {
        anyhow!(
            "{}: no task like `{task}` was woken there (`spry report` lists the tasks)",
            source::name_of(trace)
        )
    })?;
    let found = timeline.task(index);
    let name = format!(
        "{} (thread {} of {})",
        top::plain(&found.comm().to_string()),
        found.tid(),
        timeline.tgid(index)
    );
    let proposal = propose(activity).map_err(|why| anyhow!("{name}: {why}"))?;
    output::print(&account(&name, seen.by_task.len(), &proposal))?;
    Ok(ExitCode::SUCCESS)
}

/// The activity of the tasks that match.
struct ActivityObserver {
    pattern: TaskPattern,
    by_task: BTreeMap<TaskIndex, Activity>,
}

impl ActivityObserver {
    fn is_meant(&self, now: &Timeline, task: TaskIndex) -> bool {
        self.pattern.means(now, task)
    }
}

impl Observer for ActivityObserver {
    fn woken(&mut self, now: &Timeline, woken: &Woken) {
        if self.is_meant(now, woken.task) {
            self.by_task.entry(woken.task).or_default().woken(woken.time_ns);
        }
    }

    fn ran(&mut self, now: &Timeline, ran: &Ran) {
        if self.is_meant(now, ran.task) {
            let own_ns = ran.wall_ns().saturating_add_signed(-ran.stolen_ns);
            self.by_task.entry(ran.task).or_default().ran(own_ns);
        }
    }
}

fn account(name: &str, meant: usize, proposal: &Proposal) -> String {
    let Proposal { terms, wakeups, interval_ns, regular_percent, .. } = *proposal;
    let how = match regular_percent {
        REGULAR_PERCENT.. => "regular",
        ROUGH_PERCENT.. => "roughly regular: look at the period before you rely on it",
        _ => "not regular: the period is no more than a guess",
    };
    let of = if meant > 1 { format!(", the one of {meant} that ran longest") } else { String::new() };
    format!(
        "{name}{of}: woken {} times, every {} at the median; {regular_percent} % of the intervals are within a tenth of that: {how}\n\
         it runs {} from one wake-up to the next at the median, {} in 99 of 100 cases, {} at most\n\
         --budget {} --period {}    ({} of a CPU)\n",
        count(wakeups as u64),
        duration(interval_ns),
        duration(proposal.ran_median_ns),
        duration(proposal.ran_high_ns),
        duration(proposal.ran_most_ns),
        exact_us(terms.budget_ns),
        exact_us(terms.period_ns),
        spry_page::words::percent(terms.budget_ns as f64 / terms.period_ns as f64),
    )
}

#[cfg(test)]
mod tests {
    use spry_control::{OnExhaustion, Terms};

    use super::*;

    #[test]
    fn how_regular_a_task_is_is_said_beside_what_is_proposed() {
        let terms = Terms { budget_ns: 2_200_000, period_ns: 8_192_000, on_exhaustion: OnExhaustion::Wait };
        let proposal = |regular_percent| Proposal {
            terms,
            wakeups: 1_200,
            interval_ns: 8_192_100,
            regular_percent,
            ran_median_ns: 1_000_000,
            ran_high_ns: 2_000_000,
            ran_most_ns: 5_000_000,
        };
        let said = account("player (thread 7 of 7)", 1, &proposal(97));
        assert!(said.contains("--budget 2200us --period 8192us") && said.contains("97 %"), "{said}");
        assert!(said.contains(": regular\n"), "{said}");
        assert!(account("x", 3, &proposal(60)).contains("the one of 3 that ran longest"));
        assert!(account("x", 1, &proposal(60)).contains("roughly regular"));
        assert!(account("x", 1, &proposal(10)).contains("not regular"));
    }
}
