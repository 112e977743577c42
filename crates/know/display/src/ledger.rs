//! The recent drawing and input of each process, as one device saw them.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use spry_policy::{Changes, Device, Sample, Tgid};

use crate::{ClientStatus, Notify};

/// A process that did nothing for this time counts as new when it does something: it is the policy's period.
const LATELY: Duration = Duration::from_secs(1);
/// A process that did nothing for this time is forgotten.
const REMEMBERED: Duration = Duration::from_secs(10);

/// A device's ledger of the processes' input and drawing.
pub(crate) struct Ledger {
    accounts: Mutex<Accounts>,
    notify: Notify,
}

#[derive(Debug)]
struct Accounts {
    list: BTreeMap<Tgid, Account>,
    taken: Instant,
}

#[derive(Debug)]
struct Account {
    /// Input and drawing since the last take.
    changes: Changes,
    /// The number of drawings that were credited since the last take.
    frames: u32,
    latest: Instant,
    latest_input: Option<Instant>,
    /// Input and drawing between the last two takes.
    status: ClientStatus,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Ledger").field("accounts", &self.accounts).finish_non_exhaustive()
    }
}

impl Ledger {
    pub(crate) fn new(notify: Notify) -> Ledger {
        let accounts = Accounts { list: BTreeMap::new(), taken: Instant::now() };
        Ledger { accounts: Mutex::new(accounts), notify }
    }

    fn accounts(&self) -> MutexGuard<'_, Accounts> {
        // Each change of the accounts is complete, so they can be read even if a thread panicked.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds input and drawing of a process. Asks for a round if the process had not done anything lately, or
    /// if it receives input for the first time in a while: the user has turned to it.
    pub(crate) fn credit(&self, tgid: Tgid, changes: Changes) {
        if changes.is_none() {
            return;
        }
        let now = Instant::now();
        let is_new = {
            let mut accounts = self.accounts();
            let is_known = accounts.list.contains_key(&tgid);
            let account = accounts.list.entry(tgid).or_insert_with(|| Account::new(tgid, now));
            let was_lately = |then: Instant| now.duration_since(then) <= LATELY;
            let is_turned_to = changes.input > 0 && !account.latest_input.is_some_and(was_lately);
            let is_new = !is_known || !was_lately(account.latest) || is_turned_to;
            account.changes.add(changes);
            account.frames += u32::from(changes.output_ppm > 0);
            account.latest = now;
            if changes.input > 0 {
                account.latest_input = Some(now);
            }
            is_new
        };
        if is_new {
            (self.notify)();
        }
    }

    /// The processes' input and drawing since the last take, as samples of `device`.
    pub(crate) fn take(&self, device: Device) -> Vec<Sample> {
        let mut accounts = self.accounts();
        let now = Instant::now();
        let seconds = now.duration_since(mem::replace(&mut accounts.taken, now)).as_secs_f64().max(1e-3);
        let mut samples = Vec::new();
        for (&tgid, account) in &mut accounts.list {
            let changes = mem::take(&mut account.changes);
            let frames = mem::take(&mut account.frames);
            account.status = ClientStatus {
                tgid,
                frames,
                frames_per_s: f64::from(frames) / seconds,
                input_per_s: f64::from(changes.input) / seconds,
                screens_per_s: changes.output_ppm as f64 / 1e6 / seconds,
            };
            if !changes.is_none() {
                samples.push(Sample { tgid, device, changes });
            }
        }
        accounts.list.retain(|_, account| now.duration_since(account.latest) < REMEMBERED);
        samples
    }

    /// The processes' input and drawing between the last two takes.
    pub(crate) fn status(&self) -> Vec<ClientStatus> {
        let accounts = self.accounts();
        accounts.list.values().map(|account| account.status).filter(|status| !status.is_idle()).collect()
    }
}

impl Account {
    fn new(tgid: Tgid, now: Instant) -> Account {
        let status =
            ClientStatus { tgid, frames: 0, frames_per_s: 0.0, input_per_s: 0.0, screens_per_s: 0.0 };
        Account { changes: Changes::default(), frames: 0, latest: now, latest_input: None, status }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn a_constant_drawer_is_new_to_the_user_s_input_once() {
        let asked = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&asked);
        let ledger = Ledger::new(Arc::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }));
        let asked_after = |input, output_ppm| {
            ledger.credit(Tgid(10), Changes { input, output_ppm });
            asked.load(Ordering::Relaxed)
        };
        assert_eq!(asked_after(0, 100), 1, "it was not there");
        assert_eq!(asked_after(0, 100), 1);
        assert_eq!(asked_after(1, 0), 2, "the user turns to it");
        assert_eq!(asked_after(1, 100), 2);
    }
}
