//! Reservations: the users' permissions to have them for tasks, and their ends. `spry-reservations` decides
//! whether a reservation fits, and the enforcer enforces it.

mod by_bus;
mod ceilings;
mod real_rate;

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::time::Duration;

use spry_control::{
    OpenedReservation, Refusal, RefusalKind, ReservationChoice, ReservationStatus, RunArgs, Scope,
};
use spry_policy::Tgid;
use spry_reservations::{
    Admission, Ask, Covers, Enforcer, Limits, Measurement, OnExhaustion, Owner, ReservationError, Terms,
};
use spry_sys::cpus::Cpus;
use spry_sys::poll::{self, PollFd};
use spry_sys::process::open_thread;

use super::answers::{is_of, no_process};
use super::process::{self, Process};
use crate::deadline;

/// The shortest and the longest period of a user other than root, ns.
const USER_PERIOD_MIN_NS: u64 = 500_000;
const USER_PERIOD_MAX_NS: u64 = 100_000_000;

/// One percent, in millionths.
const PERCENT_PPM: u32 = 10_000;

/// A reservation in force.
#[derive(Debug)]
struct ActiveReservation {
    uid: u32,
    tgid: u32,
    covers: Covers,
    start_ticks: u64,
    /// A descriptor that is readable when the thread or process has exited.
    end: OwnedFd,
}

/// The task of a request, as `/proc` shows it.
#[derive(Debug)]
struct RequestedTask {
    tgid: u32,
    start_ticks: u64,
    end: OwnedFd,
    allowed: Vec<u32>,
    runs_on: Option<u32>,
}

/// All reservations, with their admission and their enforcer.
pub struct Reservations {
    admission: Admission,
    /// `None` if the daemon only observes.
    enforcer: Option<Box<dyn Enforcer>>,
    held: BTreeMap<u32, ActiveReservation>,
    /// The shared servers, with their ceilings.
    servers: Vec<ceilings::Server>,
    /// The reservations that follow pipes, and the time at which the pipes were last read, ns.
    driven: BTreeMap<u32, real_rate::RealRateReservation>,
    looked_ns: u64,
    /// The requests from the system bus.
    by_bus: by_bus::BusRequests,
}

/// The user of a request, and the person to which the user belongs: limits are for each person.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The user that sent the request.
    pub uid: u32,
    /// The person to which the user belongs, as the number of that person's first user.
    pub person: u32,
}

impl Asker {
    const fn owner(self) -> Owner {
        if self.uid == 0 { Owner::Privileged } else { Owner::User(self.person) }
    }
}

impl Reservations {
    /// Starts without reservations. Without an enforcer, all requests are refused.
    pub fn new(args: &RunArgs, enforcer: Option<Box<dyn Enforcer>>) -> Reservations {
        let percent = |share: u8| u32::from(share) * PERCENT_PPM;
        // A user on the bus can have as many reservations as rtkit allows.
        let by_bus = if args.rtkit.is_some() { by_bus::THREADS as u32 } else { 0 };
        let limits = Limits {
            of_each_cpu_ppm: percent(args.reservable),
            of_a_user_ppm: percent(args.user_reservable),
            of_a_user: by_bus.max(args.user_reservations.into()),
            ..Limits::default()
        };
        let admission = Admission::new(0..Cpus::END, limits);
        Reservations {
            admission,
            enforcer,
            held: BTreeMap::new(),
            servers: Vec::new(),
            driven: BTreeMap::new(),
            looked_ns: 0,
            by_bus: by_bus::BusRequests::default(),
        }
    }

    /// Sets the enforcer of future reservations. All present reservations must have ended.
    pub fn enforce_by(&mut self, enforcer: Box<dyn Enforcer>) {
        self.enforcer = Some(enforcer);
    }

    /// The descriptors that become readable when tasks exit.
    pub fn polls(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.held.values().map(|held| poll::readable(&held.end))
    }

    /// The processes with reservations, and shared servers.
    pub fn processes(&self) -> impl Iterator<Item = Tgid> {
        self.held.values().map(|held| Tgid(held.tgid)).chain(self.server_processes())
    }

    /// Reserves time for a task, or changes the terms of the task's reservation.
    ///
    /// # Errors
    /// The reason why the reservation is refused.
    pub fn reserve(
        &mut self,
        asker: Asker,
        covers: Covers,
        asked: Terms,
        cpu: Option<u32>,
    ) -> Result<OpenedReservation, Refusal> {
        if self.enforcer.is_none() {
            return Err(unable("the daemon only looks (--observe-only): it reserves nothing".to_owned()));
        }
        asked.check().map_err(refusal)?;
        if asker.uid != 0 && asked.period_ns < USER_PERIOD_MIN_NS {
            return Err(Refusal {
                kind: RefusalKind::Denied,
                text: "a user's period is 500 us at least: each period costs the CPU two switches, which no \
                       budget pays for"
                    .to_owned(),
            });
        }
        if asker.uid != 0 && asked.period_ns > USER_PERIOD_MAX_NS {
            return Err(Refusal {
                kind: RefusalKind::Denied,
                text: "a user's period is 100 ms at most: a task that waits for its next period may hold \
                       locks that others wait for"
                    .to_owned(),
            });
        }
        let terms = self.possible(asked);
        let found = find(asker.uid, covers)?;
        let same = self.held.iter().find(|(_, held)| held.covers == covers);
        if let Some((&slot, held)) = same {
            // The number may belong to a new task; the old task's reservation is about to end.
            if held.start_ticks == found.start_ticks && (asker.uid == 0 || held.uid == asker.uid) {
                let cpu = self.change(slot, terms)?;
                // These terms were requested, so they no longer follow a pipe or a measurement.
                self.driven.remove(&slot);
                self.by_bus.forget(slot);
                return Ok(self.opened(slot, cpu, asked));
            }
        }
        let ask = Ask {
            terms,
            covers,
            tgid: found.tgid,
            owner: asker.owner(),
            allowed: &found.allowed,
            runs_on: found.runs_on,
            cpu,
        };
        let reservation = self.admission.open(&ask).map_err(refusal)?;
        let opened = match &mut self.enforcer {
            Some(enforcer) => enforcer.open(&reservation).map_err(|error| unable(error.to_string())),
            None => Ok(()),
        };
        if let Err(refused) = opened {
            self.admission.close(reservation.slot);
            return Err(refused);
        }
        let RequestedTask { tgid, start_ticks, end, .. } = found;
        let has_ended = poll::is_ready(&end);
        self.held
            .insert(reservation.slot, ActiveReservation { uid: asker.uid, tgid, covers, start_ticks, end });
        if has_ended {
            self.close(reservation.slot);
            return Err(no_process(asker.uid, covers.number()));
        }
        Ok(self.opened(reservation.slot, reservation.cpu, asked))
    }

    /// Changes the terms of a reservation. Returns its CPU.
    fn change(&mut self, slot: u32, terms: Terms) -> Result<u32, Refusal> {
        let before = self.admission.change(slot, terms).map_err(refusal)?;
        if let Some(Err(error)) = self.enforcer.as_mut().map(|enforcer| enforcer.change(slot, &terms)) {
            // The terms before the change fit again.
            _ = self.admission.change(slot, before);
            return Err(unable(error.to_string()));
        }
        Ok(self.admission.get(slot).map_or(0, |reservation| reservation.cpu))
    }

    /// The requested terms, as far as the enforcer supports them.
    fn possible(&self, asked: Terms) -> Terms {
        match self.enforcer_name() {
            deadline::NAME => Terms { on_exhaustion: OnExhaustion::Wait, ..asked },
            _ => asked,
        }
    }

    /// The answer to a request, with notes on the reservation's differences from the request.
    fn opened(&self, slot: u32, cpu: u32, asked: Terms) -> OpenedReservation {
        let enforcer = self.enforcer_name();
        let notes = if enforcer == deadline::NAME { deadline::notes(&asked, cpu) } else { Vec::new() };
        OpenedReservation { slot, cpu, terms: self.possible(asked), enforcer: enforcer.to_owned(), notes }
    }

    /// Ends a reservation. Returns a message that names it.
    ///
    /// # Errors
    /// If this user has no such reservation.
    pub fn release(&mut self, uid: u32, which: ReservationChoice) -> Result<String, Refusal> {
        let is_meant = |slot: u32, held: &ActiveReservation| match which {
            ReservationChoice::Slot(number) => slot == number,
            ReservationChoice::Tid(tid) => held.covers.number() == tid,
        };
        let own = |held: &ActiveReservation| uid == 0 || held.uid == uid;
        let found = self.held.iter().find(|(slot, held)| is_meant(**slot, held) && own(held));
        let Some((&slot, held)) = found else {
            // An ordinary user must not learn whether another user has such a reservation.
            let text = match which {
                ReservationChoice::Slot(slot) => ReservationError::NoSlot { slot }.to_string(),
                ReservationChoice::Tid(tid) => {
                    format!("there is no reservation of thread {tid} (see `spry reservations`)")
                }
            };
            return Err(Refusal { kind: RefusalKind::NoProcess, text });
        };
        let text = format!("the reservation in slot {slot} (of {}) has ended", held.covers.number());
        self.close(slot);
        Ok(text)
    }

    /// The reservations that a user may see, with the CPU time that their tasks have had.
    pub fn list(&self, uid: u32) -> spry_control::Reservations {
        let seen = self.held.iter().filter(|(_, held)| uid == 0 || held.uid == uid);
        spry_control::Reservations {
            scope: if uid == 0 { Scope::All } else { Scope::Own },
            enforcer: self.enforcer_name().to_owned(),
            reservations: seen.filter_map(|(&slot, held)| self.reserved(slot, held)).collect(),
            ceilings: if uid == 0 { self.ceilings() } else { Vec::new() },
        }
    }

    fn reserved(&self, slot: u32, held: &ActiveReservation) -> Option<ReservationStatus> {
        let reservation = self.admission.get(slot)?;
        let enforcer = self.enforcer.as_ref()?;
        let Measurement { periods, got_ns, asked_ns, .. } = enforcer.measured(slot)?;
        let full = enforcer.measured(slot).filter(|_| enforcer.name() != deadline::NAME);
        let (behind_percent, trouble) =
            self.driven.get(&slot).map(real_rate::RealRateReservation::told).unwrap_or_default();
        let comm = fs::read(format!("/proc/{}/comm", held.covers.number())).unwrap_or_default();
        Some(ReservationStatus {
            slot,
            cpu: reservation.cpu,
            terms: reservation.terms,
            covers: held.covers,
            tgid: held.tgid,
            comm: String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned(),
            uid: held.uid,
            periods,
            got_ns,
            asked_ns,
            deviation_ns: difference(got_ns, asked_ns),
            stolen_ns: full.map(|of| of.stolen_ns),
            exhausted: full.map(|of| of.exhausted),
            worst_short_ns: full.map(|of| of.worst_short_ns),
            worst_late_ns: full.map(|of| of.worst_late_ns),
            misplaced: full.map(|of| of.misplaced),
            behind_percent,
            trouble,
        })
    }

    /// Ends the reservations of tasks that have exited, by their descriptors.
    pub fn end_of_tasks(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let slots: Vec<u32> = self.held.keys().copied().collect();
        let mut polls: Vec<PollFd<'_>> = self.polls().collect();
        _ = poll::wait(&mut polls, Some(Duration::ZERO));
        let has_ended: Vec<bool> = polls.iter().map(|poll| !poll.revents().is_empty()).collect();
        for (slot, _) in slots.into_iter().zip(has_ended).filter(|(_, has_ended)| *has_ended) {
            self.close(slot);
        }
    }

    /// Ends the reservations of tasks that have exited or changed their user. This is done once a second,
    /// since a descriptor does not report the end of a thread on every kernel.
    pub fn prune(&mut self) {
        let is_over = |held: &ActiveReservation| {
            let tid = Tgid(held.covers.number());
            !is_of(tid, held.uid)
                || Process::of(tid).is_none_or(|found| found.start_ticks != held.start_ticks)
        };
        let over: Vec<u32> =
            self.held.iter().filter(|(_, held)| is_over(held)).map(|(&slot, _)| slot).collect();
        over.into_iter().for_each(|slot| self.close(slot));
        if self.held.is_empty() && !self.has_ceilings() {
            if let Some(enforcer) = &mut self.enforcer {
                enforcer.rest();
            }
        }
    }

    /// Ends all reservations. Returns a message if there were any.
    pub fn close_all(&mut self) -> Option<String> {
        let count = self.held.len();
        let slots: Vec<u32> = self.held.keys().copied().collect();
        slots.into_iter().for_each(|slot| self.close(slot));
        self.end_by_bus();
        self.close_ceilings();
        match count {
            0 => None,
            1 => Some("1 reservation has ended: its task is scheduled as before".to_owned()),
            _ => Some(format!("{count} reservations have ended: their tasks are scheduled as before")),
        }
    }

    fn close(&mut self, slot: u32) {
        if let Some(enforcer) = &mut self.enforcer {
            enforcer.close(slot);
        }
        self.admission.close(slot);
        self.held.remove(&slot);
        self.driven.remove(&slot);
        self.by_bus.forget(slot);
        self.forget_client(slot);
    }

    fn enforcer_name(&self) -> &'static str {
        self.enforcer.as_ref().map_or("none", |enforcer| enforcer.name())
    }
}

/// Finds the task of a request. The descriptor is opened first. So all data that is read afterwards is about
/// its task, unless the task has exited by the time of the reservation.
fn find(uid: u32, covers: Covers) -> Result<RequestedTask, Refusal> {
    let number = covers.number();
    let gone = || no_process(uid, number);
    let end = open_thread(number).or_else(|_| of_thread_by_its_process(number)).map_err(|_| gone())?;
    let tgid = process::of_thread(number).ok_or_else(gone)?;
    let task = Process::of(Tgid(number)).ok_or_else(gone)?;
    // An ordinary user must not learn whether another user has a task with this number.
    if !is_of(Tgid(number), uid) || !is_of(tgid, uid) {
        return Err(gone());
    }
    if matches!(covers, Covers::Group { .. }) && tgid.0 != number {
        return Err(unable(format!("{number} is a thread of process {}: name the process", tgid.0)));
    }
    if task.is_kernel() || tgid.0 == std::process::id() {
        return Err(unable("threads of the kernel and of the scheduler have no reservations".to_owned()));
    }
    let allowed = Cpus::allowed_to(number).map_err(|_| gone())?.numbers().collect();
    let (start_ticks, runs_on) = (task.start_ticks, task.cpu);
    Ok(RequestedTask { tgid: tgid.0, start_ticks, end, allowed, runs_on })
}

/// A descriptor of a thread's process, for kernels without descriptors of threads. It reports at least the
/// end of the process.
fn of_thread_by_its_process(tid: u32) -> std::io::Result<OwnedFd> {
    let tgid = process::of_thread(tid).ok_or_else(|| std::io::Error::from_raw_os_error(libc::ESRCH))?;
    spry_sys::process::open(tgid.0)
}

fn refusal(refused: ReservationError) -> Refusal {
    unable(refused.to_string())
}

fn unable(text: String) -> Refusal {
    Refusal { kind: RefusalKind::Unable, text }
}

fn difference(one: u64, other: u64) -> i64 {
    i64::try_from(i128::from(one) - i128::from(other)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
