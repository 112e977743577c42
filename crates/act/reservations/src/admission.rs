//! Admission of reservations: the sum of their shares is bounded on each CPU. The sum of the shares of each
//! user without privileges is bounded, too.

use std::collections::{BTreeMap, BTreeSet};

use crate::share::{MILLION, Sum, largest};
use crate::{Covers, Limit, Reservation, ReservationError, Terms};

/// How many reservations there can be at once. The number of a slot is lower than this.
pub const SLOTS_MAX: u32 = 256;

/// The owner of a reservation, which decides the limits that hold for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Owner {
    /// A user with privileges: only the bound of each CPU holds.
    Privileged,
    /// Another user, by number: the limits for users hold, too.
    User(u32),
    /// A shared server, for the time for which it blocks reserved tasks. Tasks cannot reserve this
    /// time on its CPU.
    Server,
}

/// How much may be reserved. Shares are in millionths of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// The share of each CPU that may be reserved.
    pub of_each_cpu_ppm: u32,
    /// The share of each CPU that all users without privileges together may reserve.
    pub users_of_each_cpu_ppm: u32,
    /// The share that one user without privileges may reserve on all CPUs together; 1 000 000 is one CPU.
    pub of_a_user_ppm: u32,
    /// How many reservations one user without privileges may have.
    pub of_a_user: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            of_each_cpu_ppm: 900_000,
            users_of_each_cpu_ppm: 500_000,
            of_a_user_ppm: 250_000,
            of_a_user: 4,
        }
    }
}

/// The request for a reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask<'a> {
    /// How much time, and how often.
    pub terms: Terms,
    /// The threads for which time is to be reserved.
    pub covers: Covers,
    /// The process that these threads belong to.
    pub tgid: u32,
    /// The owner of the reservation.
    pub owner: Owner,
    /// The CPUs that the threads may run on.
    pub allowed: &'a [u32],
    /// The CPU that the thread runs on, or ran on last.
    pub runs_on: Option<u32>,
    /// The only CPU that may be chosen. Without it, the first CPU with room is chosen: first the CPU that the
    /// thread runs on, then the others by number.
    pub cpu: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    reservation: Reservation,
    tgid: u32,
    owner: Owner,
}

impl Entry {
    fn is_on(&self, cpu: u32) -> bool {
        self.reservation.cpu == cpu
    }

    fn is_in(&self, slot: Option<u32>) -> bool {
        Some(self.reservation.slot) == slot
    }
}

/// The admitted reservations. Every check sums up their shares anew, so a closed reservation leaves
/// nothing behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    limits: Limits,
    cpus: BTreeSet<u32>,
    by_slot: BTreeMap<u32, Entry>,
}

impl Admission {
    /// An admission for these CPUs, without reservations.
    pub fn new(cpus: impl IntoIterator<Item = u32>, limits: Limits) -> Admission {
        let cpus = cpus.into_iter().collect();
        Admission { limits, cpus, by_slot: BTreeMap::new() }
    }

    /// The share of a CPU that may be reserved, in millionths: the bound less the shares of shared servers.
    pub fn room_ppm(&self, cpu: u32) -> u32 {
        let blocking = Sum::of(self.terms(|entry| entry.is_on(cpu) && entry.owner == Owner::Server));
        self.limits.of_each_cpu_ppm.min(MILLION).saturating_sub(blocking.ppm())
    }

    /// The share of a CPU that is reserved for tasks, in millionths, rounded up.
    pub fn reserved_ppm(&self, cpu: u32) -> u32 {
        Sum::of(self.terms(|entry| entry.is_on(cpu) && entry.owner != Owner::Server)).ppm()
    }

    /// Admits a reservation, or refuses it and changes nothing.
    ///
    /// # Errors
    /// The reason why the reservation is refused.
    pub fn open(&mut self, ask: &Ask<'_>) -> Result<Reservation, ReservationError> {
        ask.terms.check()?;
        if let Some(slot) = self.covering(ask.covers, ask.tgid) {
            return Err(ReservationError::Covered { slot });
        }
        let slot = (0..SLOTS_MAX).find(|slot| !self.by_slot.contains_key(slot));
        let slot = slot.ok_or(ReservationError::Slots { most: SLOTS_MAX })?;
        self.check_user(ask.owner, ask.terms, None)?;
        let cpus = self.candidates(ask)?;
        let fitting = cpus.iter().find(|&&cpu| self.check_cpu(cpu, ask.owner, ask.terms, None).is_ok());
        let Some(&cpu) = fitting else { return Err(self.nowhere(&cpus, ask)) };
        let reservation = Reservation { slot, cpu, terms: ask.terms, covers: ask.covers };
        self.by_slot.insert(slot, Entry { reservation, tgid: ask.tgid, owner: ask.owner });
        Ok(reservation)
    }

    /// Gives a reservation other terms on its CPU, or refuses them and changes nothing. Returns the
    /// previous terms.
    ///
    /// # Errors
    /// The reason why the terms are refused.
    pub fn change(&mut self, slot: u32, terms: Terms) -> Result<Terms, ReservationError> {
        terms.check()?;
        let Entry { reservation, owner, .. } =
            *self.by_slot.get(&slot).ok_or(ReservationError::NoSlot { slot })?;
        self.check_user(owner, terms, Some(slot))?;
        self.check_cpu(reservation.cpu, owner, terms, Some(slot))?;
        if let Some(entry) = self.by_slot.get_mut(&slot) {
            entry.reservation.terms = terms;
        }
        Ok(reservation.terms)
    }

    /// Ends a reservation, and returns it.
    pub fn close(&mut self, slot: u32) -> Option<Reservation> {
        self.by_slot.remove(&slot).map(|entry| entry.reservation)
    }

    /// The reservation in a slot.
    pub fn get(&self, slot: u32) -> Option<Reservation> {
        self.by_slot.get(&slot).map(|entry| entry.reservation)
    }

    /// All reservations, by slot.
    pub fn all(&self) -> impl Iterator<Item = Reservation> + '_ {
        self.by_slot.values().map(|entry| entry.reservation)
    }

    /// The slot of a reservation that has a thread in common with these threads; `tgid` is their process.
    fn covering(&self, covers: Covers, tgid: u32) -> Option<u32> {
        let is_common = |entry: &Entry| match (entry.reservation.covers, covers) {
            (Covers::Thread { tid }, Covers::Thread { tid: other }) => tid == other,
            (Covers::Group { .. }, _) | (_, Covers::Group { .. }) => entry.tgid == tgid,
        };
        self.by_slot.values().find(|entry| is_common(entry)).map(|entry| entry.reservation.slot)
    }

    /// The CPUs on which a reservation may be, the best first.
    fn candidates(&self, ask: &Ask<'_>) -> Result<Vec<u32>, ReservationError> {
        let allowed: BTreeSet<u32> =
            ask.allowed.iter().copied().filter(|cpu| self.cpus.contains(cpu)).collect();
        if let Some(cpu) = ask.cpu {
            return if allowed.contains(&cpu) {
                Ok(vec![cpu])
            } else {
                Err(ReservationError::NotThere { cpu })
            };
        }
        let first = ask.runs_on.filter(|cpu| allowed.contains(cpu));
        let rest = allowed.iter().copied().filter(|&cpu| Some(cpu) != first);
        let cpus: Vec<u32> = first.into_iter().chain(rest).collect();
        if cpus.is_empty() { Err(ReservationError::NoCpu) } else { Ok(cpus) }
    }

    /// The terms of the reservations for which `is_meant` holds.
    fn terms(&self, is_meant: impl Fn(&Entry) -> bool) -> Vec<Terms> {
        self.by_slot.values().filter(|entry| is_meant(entry)).map(|entry| entry.reservation.terms).collect()
    }

    /// Checks that terms fit onto a CPU beside its other reservations. `instead` is the slot of a reservation
    /// that the terms would replace.
    fn check_cpu(
        &self,
        cpu: u32,
        owner: Owner,
        terms: Terms,
        instead: Option<u32>,
    ) -> Result<(), ReservationError> {
        let full = |limit, beside: Vec<Terms>, room_ppm| ReservationError::Full {
            limit,
            reserved_ppm: Sum::of(beside).ppm(),
            room_ppm,
            fits_ns: self.most(cpu, owner, terms.period_ns, instead),
            period_ns: terms.period_ns,
        };
        let (beside, room_ppm) = self.beside(cpu, owner, instead);
        if !fits(&beside, terms, room_ppm) {
            return Err(full(Limit::Cpu(cpu), beside, room_ppm));
        }
        let Owner::User(_) = owner else { return Ok(()) };
        let (users, room_ppm) = self.users_beside(cpu, instead);
        if !fits(&users, terms, room_ppm) {
            return Err(full(Limit::UsersOfCpu(cpu), users, room_ppm));
        }
        Ok(())
    }

    /// The terms on a CPU except for one slot, and their bound. Terms of servers count only beside a server.
    fn beside(&self, cpu: u32, owner: Owner, instead: Option<u32>) -> (Vec<Terms>, u32) {
        let is_beside = |entry: &Entry| entry.is_on(cpu) && !entry.is_in(instead);
        match owner {
            Owner::Server => (self.terms(is_beside), self.limits.of_each_cpu_ppm.min(MILLION)),
            Owner::Privileged | Owner::User(_) => {
                let is_task = |entry: &Entry| is_beside(entry) && entry.owner != Owner::Server;
                (self.terms(is_task), self.room_ppm(cpu))
            }
        }
    }

    /// As [`Admission::beside`], but only for users without privileges.
    fn users_beside(&self, cpu: u32, instead: Option<u32>) -> (Vec<Terms>, u32) {
        let is_beside = |entry: &Entry| {
            entry.is_on(cpu) && !entry.is_in(instead) && matches!(entry.owner, Owner::User(_))
        };
        (self.terms(is_beside), self.limits.users_of_each_cpu_ppm.min(self.room_ppm(cpu)))
    }

    /// The terms of all reservations of a user without privileges, except for one slot.
    fn own_beside(&self, owner: Owner, instead: Option<u32>) -> Vec<Terms> {
        self.terms(|entry| entry.owner == owner && !entry.is_in(instead))
    }

    /// The largest budget that an owner may have on a CPU in each period of this length, ns.
    fn most(&self, cpu: u32, owner: Owner, period_ns: u64, instead: Option<u32>) -> u64 {
        let of = |(beside, room_ppm): (Vec<Terms>, u32)| largest(&beside, room_ppm, period_ns);
        let most_ns = of(self.beside(cpu, owner, instead));
        match owner {
            Owner::Privileged | Owner::Server => most_ns,
            Owner::User(_) => {
                let own = (self.own_beside(owner, instead), self.limits.of_a_user_ppm);
                most_ns.min(of(self.users_beside(cpu, instead))).min(of(own))
            }
        }
    }

    /// Checks that a user may have these terms beside the user's other reservations.
    fn check_user(&self, owner: Owner, terms: Terms, instead: Option<u32>) -> Result<(), ReservationError> {
        let Owner::User(_) = owner else { return Ok(()) };
        let own = self.own_beside(owner, instead);
        if own.len() >= self.limits.of_a_user as usize {
            return Err(ReservationError::UserCount { most: self.limits.of_a_user });
        }
        let room_ppm = self.limits.of_a_user_ppm;
        if !fits(&own, terms, room_ppm) {
            let (limit, period_ns) = (Limit::User, terms.period_ns);
            let fits_ns = largest(&own, room_ppm, period_ns);
            let reserved_ppm = Sum::of(own).ppm();
            return Err(ReservationError::Full { limit, reserved_ppm, room_ppm, fits_ns, period_ns });
        }
        Ok(())
    }

    /// The refusal for a reservation that fits onto none of the CPUs: that of the CPU with the most room.
    fn nowhere(&self, cpus: &[u32], ask: &Ask<'_>) -> ReservationError {
        let refusals = cpus.iter().filter_map(|&cpu| self.check_cpu(cpu, ask.owner, ask.terms, None).err());
        let fitting = |refused: &ReservationError| match *refused {
            ReservationError::Full { fits_ns, .. } => fits_ns,
            _ => 0,
        };
        // Of several CPUs with the same room, the first counts.
        let best = refusals.reduce(|best, next| if fitting(&next) > fitting(&best) { next } else { best });
        best.unwrap_or(ReservationError::NoCpu)
    }
}

fn fits(beside: &[Terms], more: Terms, room_ppm: u32) -> bool {
    Sum::of(beside.iter().copied().chain([more])).fits(room_ppm)
}

#[cfg(test)]
mod tests;
