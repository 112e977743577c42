//! Tests of the users' permissions to have reservations, with an enforcer that only counts.

use std::cell::RefCell;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::rc::Rc;

use clap::Parser;
use spry_control::rtkit::{FrontRequest, Outcome, RequestKind};
use spry_control::{CeilingOf, DaemonArgs, DaemonCommand};
use spry_policy::Graph;
use spry_reservations::Reservation;
use spry_sys::schedule;

use super::*;

#[derive(Default)]
struct Log {
    open: BTreeMap<u32, Terms>,
    refuses: bool,
    ranks: BTreeMap<u32, Vec<u32>>,
}

struct LogEnforcer(Rc<RefCell<Log>>);

impl Enforcer for LogEnforcer {
    fn open(&mut self, reservation: &Reservation) -> io::Result<()> {
        if self.0.borrow().refuses {
            return Err(io::Error::other("not today"));
        }
        self.0.borrow_mut().open.insert(reservation.slot, reservation.terms);
        Ok(())
    }

    fn change(&mut self, slot: u32, terms: &Terms) -> io::Result<()> {
        if self.0.borrow().refuses {
            return Err(io::Error::other("not today"));
        }
        self.0.borrow_mut().open.insert(slot, *terms);
        Ok(())
    }

    fn rank_as(&mut self, slot: u32, clients: &[u32]) -> io::Result<()> {
        let mut log = self.0.borrow_mut();
        if log.open.contains_key(&slot) {
            log.ranks.insert(slot, clients.to_vec());
        }
        Ok(())
    }

    fn close(&mut self, slot: u32) {
        self.0.borrow_mut().open.remove(&slot);
        self.0.borrow_mut().ranks.remove(&slot);
    }

    fn measured(&self, slot: u32) -> Option<Measurement> {
        self.0.borrow().open.get(&slot).map(|_| Measurement {
            got_ns: 7,
            asked_ns: 9,
            ..Measurement::default()
        })
    }

    fn name(&self) -> &'static str {
        "counting"
    }
}

const ROOT: Asker = Asker { uid: 0, person: 0 };

fn args(words: &[&str]) -> RunArgs {
    let words = ["spry-sched", "run"].iter().chain(words);
    let DaemonCommand::Run(args) = DaemonArgs::parse_from(words).command;
    args
}

fn reservations() -> (Reservations, Rc<RefCell<Log>>) {
    let log = Rc::new(RefCell::new(Log::default()));
    (Reservations::new(&args(&[]), Some(Box::new(LogEnforcer(Rc::clone(&log))))), log)
}

fn percent(percent: u64) -> Terms {
    Terms { budget_ns: percent * 100_000, period_ns: 10_000_000, on_exhaustion: OnExhaustion::Wait }
}

fn sleeper() -> Child {
    Command::new("sleep").arg("60").spawn().expect("sleep starts")
}

fn of(child: &Child) -> Covers {
    Covers::Thread { tid: child.id() }
}

fn end(mut child: Child) {
    child.kill().expect("it is ours");
    child.wait().expect("it is ours");
}

#[test]
fn a_reservation_ends_with_its_task_and_leaves_nothing() {
    let (mut all, log) = reservations();
    let child = sleeper();
    let opened = all.reserve(ROOT, of(&child), percent(50), None).expect("it fits");
    assert_eq!((opened.slot, opened.enforcer.as_str(), opened.notes.len()), (0, "counting", 0));
    all.end_of_tasks();
    all.prune();
    let told = all.list(0);
    let told = told.reservations.first().expect("it is there");
    assert_eq!((told.comm.as_str(), told.deviation_ns, told.uid), ("sleep", -2, 0));
    end(child);
    all.end_of_tasks();
    assert!(all.list(0).reservations.is_empty() && log.borrow().open.is_empty());
    assert_eq!(all.polls().count(), 0);
    assert_eq!(all.admission.all().count(), 0);
}

#[test]
fn a_hundred_opens_and_closes_leave_nothing() {
    let (mut all, log) = reservations();
    let child = sleeper();
    for _ in 0..100 {
        let slot = all.reserve(ROOT, of(&child), percent(90), Some(0)).expect("it fits each time").slot;
        all.release(0, ReservationChoice::Slot(slot)).expect("it is there");
    }
    assert!(log.borrow().open.is_empty() && all.admission.reserved_ppm(0) == 0);
    end(child);
}

#[test]
fn asking_again_changes_the_terms_and_a_refusal_changes_nothing() {
    let (mut all, log) = reservations();
    let child = sleeper();
    let terms = |log: &Rc<RefCell<Log>>| log.borrow().open.values().copied().collect::<Vec<_>>();
    for share in [50, 90, 30] {
        all.reserve(ROOT, of(&child), percent(share), None).expect("it is there instead of the last");
        assert_eq!(terms(&log), [percent(share)]);
    }
    let refused = all.reserve(ROOT, of(&child), percent(95), None).unwrap_err();
    assert!(refused.text.contains("at most 9000us of 10000us would fit"), "{}", refused.text);
    log.borrow_mut().refuses = true;
    let refused = all.reserve(ROOT, of(&child), percent(40), None).unwrap_err();
    assert_eq!((refused.text.as_str(), terms(&log)), ("not today", vec![percent(30)]));
    assert_eq!(all.admission.all().map(|one| one.terms).collect::<Vec<_>>(), [percent(30)]);
    let other = sleeper();
    assert_eq!(all.reserve(ROOT, of(&other), percent(10), None).unwrap_err().text, "not today");
    assert_eq!(all.admission.all().count(), 1);
    end(child);
    end(other);
}

#[test]
fn another_user_s_task_or_reservation_is_refused_as_absent() {
    let (mut all, _log) = reservations();
    let stranger = Asker { uid: 4_000_000_007, person: 4_000_000_007 };
    let mut refused = |tid: u32| {
        let refusal = all.reserve(stranger, Covers::Thread { tid }, percent(1), None).unwrap_err();
        (refusal.kind, refusal.text.replace(&tid.to_string(), "N"))
    };
    let absent = refused(4_194_305);
    let child = sleeper();
    assert_eq!((refused(1), refused(child.id())), (absent.clone(), absent));
    let slot = all.reserve(ROOT, of(&child), percent(1), None).expect("root may").slot;
    let by = |all: &mut Reservations, which| all.release(stranger.uid, which).unwrap_err().text;
    let number = |text: String| text.replace(|c: char| c.is_ascii_digit(), "");
    let theirs = by(&mut all, ReservationChoice::Slot(slot));
    assert_eq!(number(theirs), number(by(&mut all, ReservationChoice::Slot(200))));
    let theirs = by(&mut all, ReservationChoice::Tid(child.id()));
    assert_eq!(number(theirs), number(by(&mut all, ReservationChoice::Tid(4_194_305))));
    assert!(all.list(stranger.uid).reservations.is_empty());
    assert_eq!(all.list(stranger.uid).scope, Scope::Own);
    assert_eq!(all.list(0).reservations.len(), 1);
    end(child);
}

#[test]
fn a_task_without_a_reservation_is_refused() {
    let (mut all, _log) = reservations();
    let own = Covers::Group { tgid: std::process::id() };
    assert!(all.reserve(ROOT, own, percent(1), None).unwrap_err().text.contains("of the scheduler"));
    let mut looking = Reservations::new(&args(&["--observe-only"]), None);
    let child = sleeper();
    let refused = looking.reserve(ROOT, of(&child), percent(1), None).unwrap_err();
    assert!(refused.text.contains("only looks"), "{}", refused.text);
    end(child);
}

#[test]
fn limits_are_those_of_the_daemons_arguments() {
    let enforcer = Box::new(LogEnforcer(Rc::default()));
    let mut all = Reservations::new(&args(&["--reservable", "20"]), Some(enforcer));
    let child = sleeper();
    let refused = all.reserve(ROOT, of(&child), percent(30), None).unwrap_err().text;
    assert!(refused.contains("0 % reserved of 20 %") && refused.contains("at most 2000us"), "{refused}");
    end(child);
}

#[test]
fn a_named_server_is_ranked_while_reserved_tasks_ask_it() {
    let (mut all, log) = reservations();
    let (server, client, other) = (sleeper(), sleeper(), sleeper());
    let said = all.serve(1000, of(&server), None).unwrap_err();
    assert_eq!((said.kind, all.list(0).ceilings.len()), (RefusalKind::Denied, 0));
    all.serve(0, of(&server), Some(1_000_000)).expect("root names it");
    let mut graph = Graph::new();
    graph.depend(Tgid(client.id()), Tgid(server.id()), 1);
    assert!(all.rank_servers(&graph, &[]).is_empty() && log.borrow().open.is_empty());
    let slot = all.reserve(ROOT, of(&client), percent(50), Some(0)).expect("it fits").slot;
    let beside = all.reserve(ROOT, of(&other), percent(20), Some(0)).expect("it fits").slot;
    all.rank_servers(&graph, &[]);
    let ceiling = all.list(0).ceilings.remove(0);
    let lifted = ceiling.slot.expect("it has a ceiling");
    assert_eq!((ceiling.cpu, ceiling.budget_ns, ceiling.clients), (Some(0), Some(1_000_000), vec![slot]));
    assert_eq!(log.borrow().ranks[&lifted], [slot]);
    // The server may take a tenth, which cannot be reserved. Ordinary users do not see the server.
    let refused = all.reserve(ROOT, of(&other), percent(31), Some(0)).unwrap_err();
    assert!(refused.text.contains("50 % reserved of 80 %"), "{refused:?}");
    assert!(all.list(1000).ceilings.is_empty());
    // A client that no longer uses the server stays a client. When its reservation ends, the ceiling ends.
    all.rank_servers(&Graph::new(), &[]);
    assert_eq!(log.borrow().ranks[&lifted], [slot]);
    all.release(0, ReservationChoice::Slot(slot)).expect("it is there");
    assert!(log.borrow().ranks[&lifted].is_empty());
    all.rank_servers(&graph, &[]);
    assert_eq!(log.borrow().open.keys().copied().collect::<Vec<_>>(), [beside]);
    end(server);
    all.rank_servers(&graph, &[]);
    assert!(all.list(0).ceilings.is_empty());
    [client, other].into_iter().for_each(end);
}

#[test]
fn display_servers_need_no_name_and_a_misfit_is_explained() {
    let (mut all, log) = reservations();
    let (server, client) = (sleeper(), sleeper());
    let mut graph = Graph::new();
    graph.depend(Tgid(client.id()), Tgid(server.id()), 1);
    all.reserve(ROOT, of(&client), percent(90), Some(0)).expect("it fits");
    all.serve(0, of(&server), Some(10_000_000)).expect("root names it");
    all.rank_servers(&graph, &[]);
    let told = all.list(0).ceilings.remove(0);
    // The server's affinity has other CPUs, or none of them has room for a whole budget.
    assert!(told.slot.is_none() && told.trouble.is_some(), "{told:?}");
    all.serve_no_more(0, server.id()).expect("it was named");
    all.serve_no_more(0, server.id()).unwrap_err();
    all.reserve(ROOT, of(&client), percent(40), Some(0)).expect("it fits");
    all.rank_servers(&graph, &[Tgid(server.id())]);
    let told = all.list(0).ceilings.remove(0);
    assert_eq!((told.of, told.budget_ns, told.is_measured), (CeilingOf::Display, Some(1_000_000), true));
    all.rank_servers(&graph, &[]);
    assert!(all.list(0).ceilings.is_empty() && log.borrow().ranks.is_empty());
    [server, client].into_iter().for_each(end);
}

/// A user without privileges, as which the test can start programs.
fn user() -> u32 {
    match rustix::process::geteuid().as_raw() {
        0 => 65_534,
        own => own,
    }
}

fn sleeper_of_user() -> Child {
    let child = Command::new("sleep").arg("60").uid(user()).spawn().expect("sleep starts");
    assert!((0..1_000).any(|_| {
        std::thread::sleep(Duration::from_millis(2));
        is_of(Tgid(child.id()), user())
    }));
    child
}

fn asks(what: RequestKind, uid: u32, child: &Child) -> FrontRequest {
    FrontRequest { what, uid, tgid: child.id(), tid: child.id(), nice: 5 }
}

#[test]
fn requests_by_the_bus_hold_for_the_user_s_own_threads_only() {
    let (mut held, log) = reservations();
    let (mine, roots) = (sleeper_of_user(), sleeper());
    let uid = user();
    let ask = |held: &mut Reservations, asked: FrontRequest| held.asked_by_bus(asked, asked.uid, 0).outcome;
    let asked = asks(RequestKind::Realtime, uid, &mine);
    assert_eq!(ask(&mut held, FrontRequest { uid: uid + 1, ..asked }), Outcome::Denied);
    assert_eq!(ask(&mut held, FrontRequest { uid: 0, ..asked }), Outcome::Denied);
    assert_eq!(ask(&mut held, FrontRequest { tgid: roots.id(), ..asked }), Outcome::Denied);
    if uid != rustix::process::geteuid().as_raw() {
        assert_eq!(ask(&mut held, asks(RequestKind::Realtime, uid, &roots)), Outcome::Denied);
        assert_eq!(ask(&mut held, asks(RequestKind::HighPriority, uid, &roots)), Outcome::Denied);
    }
    assert!(log.borrow().open.is_empty());
    assert_eq!(ask(&mut held, asked), Outcome::Done);
    let terms = *log.borrow().open.values().next().expect("it is there");
    assert_eq!((terms.budget_ns, terms.period_ns), (250_000, 10_000_000));
    assert_eq!(terms.on_exhaustion, OnExhaustion::Demote);
    // The same request again changes nothing.
    assert_eq!((ask(&mut held, asked), log.borrow().open.len()), (Outcome::Done, 1));
    assert_eq!(ask(&mut held, asks(RequestKind::Reset, 0, &mine)), Outcome::Done);
    assert!(log.borrow().open.is_empty());
    [mine, roots].into_iter().for_each(end);
}

#[test]
fn a_thread_has_its_requested_nice_value_until_all_ends() {
    let (mut held, _) = reservations();
    let mine = sleeper_of_user();
    let asked = asks(RequestKind::HighPriority, user(), &mine);
    assert_eq!(held.asked_by_bus(FrontRequest { nice: -16, ..asked }, 1, 0).outcome, Outcome::Denied);
    assert_eq!(held.asked_by_bus(asked, 1, 0).outcome, Outcome::Done);
    assert_eq!(schedule::nice(mine.id()).expect("it is there"), 5);
    held.close_all();
    // Only root can lower the nice value again.
    let expected = if rustix::process::geteuid().is_root() { 0 } else { 5 };
    assert_eq!(schedule::nice(mine.id()).expect("it is there"), expected);
    end(mine);
}

#[test]
fn requests_on_the_bus_beyond_a_burst_are_denied() {
    let (mut held, _) = reservations();
    let mine = sleeper_of_user();
    let asked = asks(RequestKind::Realtime, user(), &mine);
    let done = (0..100).filter(|_| held.asked_by_bus(asked, 1, 0).outcome == Outcome::Done).count();
    assert_eq!(done, 25);
    end(mine);
}

#[test]
fn a_budget_follows_what_its_thread_runs() {
    let (mut held, log) = reservations();
    let mut command = Command::new("sh");
    let busy = command.args(["-c", "while :; do :; done"]).uid(user()).spawn().expect("sh starts");
    std::thread::sleep(Duration::from_millis(50));
    let idle = sleeper_of_user();
    let ask =
        |held: &mut Reservations, child| held.asked_by_bus(asks(RequestKind::Realtime, user(), child), 1, 0);
    assert_eq!(ask(&mut held, &busy).outcome, Outcome::Done);
    assert_eq!(ask(&mut held, &idle).outcome, Outcome::Done);
    held.follow_by_bus(0);
    for at in 1..=301_u64 {
        std::thread::sleep(Duration::from_millis(if at < 100 { 2 } else { 0 }));
        held.read_run_times(at * 10_000_000);
    }
    let budgets: Vec<u64> = log.borrow().open.values().map(|terms| terms.budget_ns).collect();
    // The loop ran up to 2 ms in each of the first readings. The sleeper has the least budget.
    assert!(budgets[0] > 100_000 && budgets[1] == 100_000, "{budgets:?}");
    assert_eq!(held.next_reading_ns(), None);
    [busy, idle].into_iter().for_each(end);
}
