//! Ceilings: a shared server is ranked as the reserved tasks that it serves. Shared servers are display
//! servers, and servers that root has named. The graph of dependencies shows the tasks that a server serves.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use spry_control::{Ceiling, CeilingOf, Refusal, RefusalKind};
use spry_policy::{Graph, Tgid};
use spry_reservations::{Ask, Bound, Client, Covers, Owner, ServerUsage, Terms, ranked, tries};
use spry_sys::cpus::Cpus;

use super::{Reservations, find, unable};
use crate::daemon::process::Process;

/// The shortest time between two messages that a server exceeds its bound, s.
const SAID_EVERY_S: u32 = 10;

/// A shared server, with its clients and its ceiling.
#[derive(Debug)]
pub(super) struct Server {
    covers: Covers,
    tgid: u32,
    start_ticks: u64,
    by: CeilingOf,
    bound: Bound,
    /// The slots of the clients' reservations.
    clients: BTreeSet<u32>,
    /// The ceiling, if there are clients and it fits.
    lifted: Option<ActiveCeiling>,
    /// The measurement under this ceiling and earlier ceilings.
    all: ServerUsage,
    demoted: u64,
    /// The time since the last message that the server exceeds its bound, s.
    said_s: u32,
    trouble: Option<String>,
}

/// A ceiling in force.
#[derive(Debug)]
struct ActiveCeiling {
    slot: u32,
    ranked: Vec<u32>,
    /// The number of periods in which the bound was exceeded, when last read.
    exceeded: u64,
}

/// The reservations of possible clients: for each slot the process, the CPU and the period.
type PossibleClients = BTreeMap<u32, (u32, Client)>;

impl Server {
    /// A server without clients. `tgid` and `start_ticks` identify its process.
    fn new(covers: Covers, (tgid, start_ticks): (u32, u64), by: CeilingOf, bound: Bound) -> Server {
        Server {
            covers,
            tgid,
            start_ticks,
            by,
            bound,
            clients: BTreeSet::new(),
            lifted: None,
            all: ServerUsage::default(),
            demoted: 0,
            said_s: SAID_EVERY_S,
            trouble: None,
        }
    }

    fn is_there(&self) -> bool {
        Process::of(Tgid(self.covers.number())).is_some_and(|found| found.start_ticks == self.start_ticks)
    }

    /// The clients' reservations that rank the server, the shortest period first.
    fn ranking(&self, known: &PossibleClients) -> Vec<Client> {
        ranked(self.clients.iter().filter_map(|slot| known.get(slot)).map(|(_, client)| *client))
    }

    /// The server's name and number, for messages.
    fn name(&self) -> String {
        format!("{} {}", comm(self.covers.number()), self.covers.number())
    }
}

impl Reservations {
    /// Root names a shared server, or changes its bound.
    ///
    /// # Errors
    /// The reason why the request is refused.
    pub fn serve(&mut self, uid: u32, covers: Covers, bound_ns: Option<u64>) -> Result<String, Refusal> {
        if uid != 0 {
            let text = "only root names shared servers: a server's rank is above all other tasks'".to_owned();
            return Err(Refusal { kind: RefusalKind::Denied, text });
        }
        let Some(enforcer) = &mut self.enforcer else {
            return Err(unable("the daemon only looks (--observe-only): it gives no ceilings".to_owned()));
        };
        // This slot has no reservation: an enforcer without ceilings returns an error here.
        enforcer.rank_as(spry_reservations::SLOTS_MAX, &[]).map_err(|error| unable(error.to_string()))?;
        if bound_ns == Some(0) {
            return Err(unable("a bound is more than 0".to_owned()));
        }
        let found = find(uid, covers)?;
        let number = covers.number();
        self.end_service(number);
        let named = (found.tgid, found.start_ticks);
        self.servers.push(Server::new(covers, named, CeilingOf::Name, Bound::new(bound_ns)));
        Ok(format!("{number} is a shared server: it gets the rank of the reserved tasks that ask it"))
    }

    /// Root makes a server no longer a shared server.
    ///
    /// # Errors
    /// If there is no shared server with this number.
    pub fn serve_no_more(&mut self, uid: u32, number: u32) -> Result<String, Refusal> {
        if uid != 0 || !self.end_service(number) {
            let text = format!("there is no shared server {number} (see `spry reservations`)");
            return Err(Refusal { kind: RefusalKind::NoProcess, text });
        }
        Ok(format!("{number} is no shared server any more"))
    }

    /// The processes of shared servers.
    pub(super) fn server_processes(&self) -> impl Iterator<Item = Tgid> {
        self.servers.iter().map(|server| Tgid(server.tgid))
    }

    fn end_service(&mut self, number: u32) -> bool {
        let Some(at) = self.servers.iter().position(|server| server.covers.number() == number) else {
            return false;
        };
        let server = self.servers.remove(at);
        self.drop_ceiling(server.lifted);
        true
    }

    fn drop_ceiling(&mut self, lifted: Option<ActiveCeiling>) {
        let Some(lifted) = lifted else { return };
        if let Some(enforcer) = &mut self.enforcer {
            enforcer.close(lifted.slot);
        }
        self.admission.close(lifted.slot);
    }

    /// Once a second: measures the servers, and ranks them by the clients that depend on them. `displays` are
    /// the display servers. Returns messages for the user.
    pub fn rank_servers(&mut self, graph: &Graph, displays: &[Tgid]) -> Vec<String> {
        self.find_displays(displays);
        let mut servers = std::mem::take(&mut self.servers);
        let known = self.known_clients();
        let mut said = Vec::new();
        servers.retain_mut(|server| {
            let is_meant = server.by == CeilingOf::Name || displays.contains(&Tgid(server.tgid));
            if !is_meant || !server.is_there() {
                self.drop_ceiling(server.lifted.take());
                return false;
            }
            said.extend(self.measure(server));
            let asking: Vec<u32> = graph.incoming(Tgid(server.tgid)).iter().map(|edge| edge.on.0).collect();
            let new = known.iter().filter(|(_, (tgid, _))| asking.contains(tgid)).map(|(&slot, _)| slot);
            server.clients.extend(new);
            self.rank(server, &known);
            true
        });
        self.servers = servers;
        said
    }

    /// Adds display servers that are not in the list yet.
    fn find_displays(&mut self, displays: &[Tgid]) {
        for &display in displays {
            if self.servers.iter().any(|server| server.tgid == display.0) {
                continue;
            }
            let Some(process) = Process::of(display) else { continue };
            let (covers, found) = (Covers::Thread { tid: display.0 }, (display.0, process.start_ticks));
            self.servers.push(Server::new(covers, found, CeilingOf::Display, Bound::new(None)));
        }
    }

    fn known_clients(&self) -> PossibleClients {
        let of = |(&slot, held): (&u32, &super::ActiveReservation)| {
            let reservation = self.admission.get(slot)?;
            let period_ns = reservation.terms.period_ns;
            Some((slot, (held.tgid, Client { slot, cpu: reservation.cpu, period_ns })))
        };
        self.held.iter().filter_map(of).collect()
    }

    /// Reads the measurement of a server since the last second. Returns a message if the server has
    /// exceeded its bound.
    fn measure(&mut self, server: &mut Server) -> Option<String> {
        server.said_s = server.said_s.saturating_add(1);
        let (lifted, enforcer) = (server.lifted.as_mut()?, self.enforcer.as_mut()?);
        let served = enforcer.served(lifted.slot);
        server.bound.note(served);
        server.all.requests += served.requests;
        server.all.longest_ns = server.all.longest_ns.max(served.longest_ns);
        server.all.most_ns = server.all.most_ns.max(served.most_ns);
        let exceeded = enforcer.measured(lifted.slot)?.exhausted;
        let more = exceeded.saturating_sub(std::mem::replace(&mut lifted.exceeded, exceeded));
        server.demoted += more;
        if more == 0 || server.said_s < SAID_EVERY_S {
            return None;
        }
        server.said_s = 0;
        let Terms { budget_ns, period_ns, .. } = self.admission.get(lifted.slot)?.terms;
        let us = spry_reservations::exact_us;
        Some(format!(
            "the server {} took more than its bound of {} in {}: it was demoted for the rest of {more} \
             periods in the last second",
            server.name(),
            us(budget_ns),
            us(period_ns)
        ))
    }

    /// Gives a server the rank of its clients; without clients, removes its ceiling.
    fn rank(&mut self, server: &mut Server, known: &PossibleClients) {
        let clients = server.ranking(known);
        let Some(first) = clients.first() else {
            self.drop_ceiling(server.lifted.take());
            server.trouble = None;
            return;
        };
        server.trouble = match &server.lifted {
            None => self.lift(server, first),
            Some(lifted) => self.bound_anew(server, lifted.slot, first.period_ns),
        }
        .err();
        let slots: Vec<u32> = clients.iter().map(|client| client.slot).collect();
        if let (Some(lifted), Some(enforcer)) = (&mut server.lifted, &mut self.enforcer) {
            if lifted.ranked != slots && enforcer.rank_as(lifted.slot, &slots).is_ok() {
                lifted.ranked = slots;
            }
        }
    }

    /// Makes a ceiling for a server, on the CPU of its client with the shortest period, or else on a
    /// CPU where it fits.
    fn lift(&mut self, server: &mut Server, first: &Client) -> Result<(), String> {
        let Some(enforcer) = &mut self.enforcer else { return Ok(()) };
        let number = server.covers.number();
        let allowed: Vec<u32> =
            Cpus::allowed_to(number).map(|cpus| cpus.numbers().collect()).unwrap_or_default();
        let wanted = server.bound.terms(first.period_ns, 0);
        let mut refused = String::new();
        for terms in tries(&server.bound, wanted) {
            let ask = Ask {
                terms,
                covers: server.covers,
                tgid: server.tgid,
                owner: Owner::Server,
                allowed: &allowed,
                runs_on: Some(first.cpu),
                cpu: None,
            };
            let reservation = match self.admission.open(&ask) {
                Ok(reservation) => reservation,
                Err(why) => {
                    refused = why.to_string();
                    continue;
                }
            };
            let slot = reservation.slot;
            let opened = enforcer.open(&reservation).and_then(|()| enforcer.rank_as(slot, &[first.slot]));
            if let Err(error) = opened {
                enforcer.close(slot);
                self.admission.close(slot);
                return Err(error.to_string());
            }
            server.lifted = Some(ActiveCeiling { slot, ranked: vec![first.slot], exceeded: 0 });
            return Ok(());
        }
        Err(refused)
    }

    /// Updates a ceiling to the measured budget and the clients' shortest period. If that does not fit,
    /// it stays as it was.
    fn bound_anew(&mut self, server: &Server, slot: u32, period_ns: u64) -> Result<(), String> {
        let Some(reservation) = self.admission.get(slot) else { return Ok(()) };
        let now = reservation.terms;
        let now_ns = if now.period_ns == period_ns { now.budget_ns } else { 0 };
        let wanted = server.bound.terms(period_ns, now_ns);
        if wanted == now {
            return Ok(());
        }
        self.change(slot, wanted).map(|_| ()).map_err(|refusal| refusal.text)
    }

    /// Removes a reservation that has ended from the servers' clients.
    pub(super) fn forget_client(&mut self, slot: u32) {
        for server in &mut self.servers {
            server.clients.remove(&slot);
            let Some(lifted) = &mut server.lifted else { continue };
            if lifted.ranked.contains(&slot) {
                lifted.ranked.retain(|&client| client != slot);
                if let Some(enforcer) = &mut self.enforcer {
                    _ = enforcer.rank_as(lifted.slot, &lifted.ranked);
                }
            }
        }
    }

    /// Ends all ceilings. Servers that root has named stay named.
    pub(super) fn close_ceilings(&mut self) {
        let lifted: Vec<ActiveCeiling> =
            self.servers.iter_mut().filter_map(|server| server.lifted.take()).collect();
        lifted.into_iter().for_each(|lifted| self.drop_ceiling(Some(lifted)));
    }

    /// Whether a server has a ceiling now.
    pub(super) fn has_ceilings(&self) -> bool {
        self.servers.iter().any(|server| server.lifted.is_some())
    }

    /// For root: the servers that were named, and the servers that have clients.
    pub(super) fn ceilings(&self) -> Vec<Ceiling> {
        let is_told = |server: &&Server| server.by == CeilingOf::Name || !server.clients.is_empty();
        self.servers.iter().filter(is_told).map(|server| self.ceiling(server)).collect()
    }

    fn ceiling(&self, server: &Server) -> Ceiling {
        let reservation = server.lifted.as_ref().and_then(|lifted| self.admission.get(lifted.slot));
        Ceiling {
            of: server.by,
            covers: server.covers,
            tgid: server.tgid,
            comm: comm(server.covers.number()),
            slot: reservation.map(|one| one.slot),
            cpu: reservation.map(|one| one.cpu),
            budget_ns: reservation.map(|one| one.terms.budget_ns),
            period_ns: reservation.map(|one| one.terms.period_ns),
            is_measured: matches!(server.bound, Bound::Measured { .. }),
            clients: server.clients.iter().copied().collect(),
            requests: server.all.requests,
            longest_ns: server.all.longest_ns,
            most_ns: server.all.most_ns,
            demoted: server.demoted,
            trouble: server.trouble.clone(),
        }
    }
}

fn comm(number: u32) -> String {
    let comm = fs::read(format!("/proc/{number}/comm")).unwrap_or_default();
    String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned()
}
