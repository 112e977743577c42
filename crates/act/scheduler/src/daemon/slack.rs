//! The daemon's timer slack by class: it is in force while the daemon acts through sched_ext, if an
//! option asks for it.

use spry_control::{RunArgs, TimerSlack, TimerSlackArg};
use spry_policy::{Due, Tgid};

use super::Daemon;
use crate::actuator::Class;
use crate::guardian::{RestoreCounts, restore_left};
use crate::scx;
use crate::slack::{JOURNAL, Placement, SlackByClass, SlackOptions};

/// The state of timer slack by class.
pub(super) struct DaemonSlack {
    wanted: TimerSlackArg,
    /// `None` if no thread is changed.
    by_class: Option<SlackByClass>,
    /// Number of changes of the actuator when slack by class was last started; `None` before that.
    started: Option<u64>,
    /// The changes of an earlier daemon that were undone.
    left: RestoreCounts,
    trouble: Option<String>,
}

impl DaemonSlack {
    /// Undoes changes that an earlier daemon may have left. An observing daemon changes nothing.
    pub fn new(args: &RunArgs) -> DaemonSlack {
        let (wanted, left) = match args.observe_only {
            true => (TimerSlackArg::Kept, RestoreCounts::default()),
            false => (args.timer_slack, restore_left(JOURNAL.as_ref()).unwrap_or_default()),
        };
        DaemonSlack { wanted, by_class: None, started: None, left, trouble: None }
    }

    /// Starts slack by class once for each time that sched_ext is put in charge.
    fn start(&mut self, changes: u64) -> Option<&mut SlackByClass> {
        if self.started.replace(changes) != Some(changes) {
            self.by_class = None;
            (self.by_class, self.trouble) = match SlackByClass::start(SlackOptions::default()) {
                Ok(by_class) => (Some(by_class), None),
                Err(error) => (None, Some(format!("timer slack is not set by class: {error}"))),
            };
        }
        self.by_class.as_mut()
    }

    /// Gives all threads their former slack.
    fn end(&mut self) {
        (self.by_class, self.started, self.trouble) = (None, None, None);
    }

    /// The slack of each class; `None` if no thread is changed.
    pub fn told(&self) -> Option<TimerSlack> {
        self.by_class.as_ref().map(SlackByClass::told)
    }

    /// Warnings for the user.
    pub fn warnings(&self) -> Vec<String> {
        let threads = self.left.restored + self.left.theirs;
        let left = (threads > 0).then(|| {
            format!(
                "an earlier daemon and its guardian were both killed: {threads} threads have their timer \
                 slack again"
            )
        });
        let by_class = self.by_class.iter().flat_map(SlackByClass::warnings);
        left.into_iter().chain(self.trouble.clone()).chain(by_class).collect()
    }
}

impl Daemon {
    /// Gives threads the slack of their class after a round, or their former slack if sched_ext is not in
    /// charge any more.
    pub(super) fn give_slack(&mut self, due: Due) {
        if self.slack.wanted == TimerSlackArg::Kept {
            return;
        }
        if self.acting.name() != scx::NAME {
            return self.slack.end();
        }
        let placement = self.placement();
        if let Some(by_class) = self.slack.start(self.changes) {
            by_class.round(&placement, due);
        }
    }

    fn placement(&self) -> Placement {
        let by_hand = |tgid: Tgid| self.by_hand.of(tgid).map(|hand| hand.class);
        let by_policy = self.rounds.standings().keys().copied().filter(|&tgid| by_hand(tgid).is_none());
        let raised = self.by_hand.all().filter(|(_, hand)| hand.class == Class::Interactive);
        Placement {
            in_use: by_policy.chain(raised.map(|(tgid, _)| tgid)).collect(),
            kept: self.senses.helpers().into_iter().chain(self.reservations.processes()).collect(),
        }
    }
}
