//! Hand-made streams for every odd record, and the time line's result for each.

use spry_timeline::{
    Cut, Holder, Interrupted, Observer, Ran, RunEnd, Slept, TaskIndex, TaskState, Ticked, Timeline,
    WaitCause, Waited, Window, Woken,
};
use spry_trace::event::{
    Comm, Context, Event, Exec, Exit, Fork, Irq, Lost, Migrate, PrevState, Rename, Softirq, StatState,
    Switch, TaskInfo, TaskStat, Tick, Wakeup, WakeupKind, Waking,
};
use spry_trace::{Header, Stamped, Tgid, Tid};

const START_NS: u64 = 1_000;

/// Keeps everything that the time line reports.
#[derive(Default)]
struct ObservedEvents {
    ran: Vec<Ran>,
    waited: Vec<Waited>,
    slept: Vec<Slept>,
    idle_ns: u64,
    woken: Vec<Woken>,
    ended: Vec<TaskIndex>,
    interrupted: Vec<Interrupted>,
    ticked: Vec<Ticked>,
}

impl Observer for ObservedEvents {
    fn ran(&mut self, _: &Timeline, ran: &Ran) {
        self.ran.push(*ran);
    }
    fn waited(&mut self, _: &Timeline, waited: &Waited) {
        self.waited.push(*waited);
    }
    fn slept(&mut self, _: &Timeline, slept: &Slept) {
        self.slept.push(*slept);
    }
    fn idled(&mut self, _: &Timeline, idled: &spry_timeline::Idled) {
        self.idle_ns += idled.end_ns - idled.start_ns;
    }
    fn woken(&mut self, _: &Timeline, woken: &Woken) {
        self.woken.push(*woken);
    }
    fn ended(&mut self, _: &Timeline, task: TaskIndex) {
        self.ended.push(task);
    }
    fn interrupted(&mut self, _: &Timeline, interrupted: &Interrupted) {
        self.interrupted.push(*interrupted);
    }
    fn ticked(&mut self, _: &Timeline, ticked: &Ticked) {
        self.ticked.push(*ticked);
    }
}

/// A time line with hand-made events; times count from the start, ns.
struct Bench {
    timeline: Timeline,
    heard: ObservedEvents,
}

impl Bench {
    fn new() -> Bench {
        Bench::of_window(0, u64::MAX - START_NS)
    }

    fn of_window(from_ns: u64, to_ns: u64) -> Bench {
        let header = Header { cpus: 2, start_ns: START_NS, ..Header::default() };
        let window = Window { from_ns: START_NS + from_ns, to_ns: START_NS + to_ns };
        Bench { timeline: Timeline::new(&header, window), heard: ObservedEvents::default() }
    }

    fn at(&mut self, time_ns: u64, cpu: u16, event: Event) -> &mut Bench {
        self.timeline.push(&Stamped { time_ns: START_NS + time_ns, cpu, event }, &mut self.heard);
        self
    }

    fn end(&mut self, time_ns: u64) -> &mut Bench {
        self.timeline.finish(START_NS + time_ns, &mut self.heard);
        self
    }

    fn task(&self, tid: u32) -> TaskIndex {
        self.timeline.find(Tid(tid)).unwrap()
    }

    /// (tid, from, to) of every stay on a CPU.
    fn stays(&self) -> Vec<(u32, u64, u64)> {
        let tid = |ran: &Ran| self.timeline.task(ran.task).tid().0;
        self.heard.ran.iter().map(|ran| (tid(ran), ran.start_ns - START_NS, ran.end_ns - START_NS)).collect()
    }

    /// (tid, from, to) of every wait.
    fn waits(&self) -> Vec<(u32, u64, u64)> {
        let tid = |waited: &Waited| self.timeline.task(waited.task).tid().0;
        let waits = self.heard.waited.iter();
        waits.map(|waited| (tid(waited), waited.start_ns - START_NS, waited.end_ns - START_NS)).collect()
    }

    /// (tid, from, to) of every sleep.
    fn sleeps(&self) -> Vec<(u32, u64, u64)> {
        let tid = |slept: &Slept| self.timeline.task(slept.task).tid().0;
        let sleeps = self.heard.slept.iter();
        sleeps.map(|slept| (tid(slept), slept.start_ns - START_NS, slept.end_ns - START_NS)).collect()
    }
}

fn switch(prev: u32, next: u32, prev_state: PrevState) -> Event {
    let (prev, next) = (Tid(prev), Tid(next));
    Event::Switch(Switch { prev, next, prev_state, prev_prio: 120, next_prio: 120, stolen_ns: 0 })
}

fn waking(waker: u32, wakee: u32) -> Event {
    Event::Waking(Waking { waker: Tid(waker), wakee: Tid(wakee), context: Context::Task })
}

fn wakeup(tid: u32, target_cpu: u16) -> Event {
    Event::Wakeup(Wakeup { tid: Tid(tid), target_cpu, kind: WakeupKind::Again })
}

fn fork(parent: u32, child: u32) -> Event {
    let (parent, child, child_tgid) = (Tid(parent), Tid(child), Tgid(child));
    Event::Fork(Fork { parent, child, child_tgid, comm: Comm::new(b"child") })
}

fn thread(parent: u32, child: u32, tgid: u32) -> Event {
    let (parent, child, child_tgid) = (Tid(parent), Tid(child), Tgid(tgid));
    Event::Fork(Fork { parent, child, child_tgid, comm: Comm::new(b"thread") })
}

fn first_wakeup(tid: u32, target_cpu: u16) -> Event {
    Event::Wakeup(Wakeup { tid: Tid(tid), target_cpu, kind: WakeupKind::New })
}

fn named(tid: u32, tgid: u32, name: &str) -> Event {
    Event::Task(TaskInfo::new(Tid(tid), Tgid(tgid), Comm::new(name.as_bytes())))
}

fn stat(tid: u32, state: StatState) -> Event {
    Event::Stat(TaskStat { tid: Tid(tid), state, exec_ns: 0, utime_ns: 0, stime_ns: 0 })
}

use PrevState::{Preempted, Runnable, Sleeping, Zombie};

#[test]
fn the_first_switch_names_the_cpu_s_task_since_the_start() {
    let mut bench = Bench::new();
    bench.at(500, 0, switch(7, 0, Sleeping)).end(600);
    assert_eq!(bench.stays(), [(7, 0, 500)]);
    assert_eq!(bench.heard.ran[0].cut, Cut { start: true, end: false });
    assert_eq!(bench.heard.idle_ns, 100);
}

#[test]
fn a_task_first_seen_when_it_gets_a_cpu_has_no_earlier_wait() {
    let mut bench = Bench::new();
    bench.at(500, 0, switch(0, 7, Runnable)).at(700, 0, switch(7, 0, Sleeping)).end(700);
    assert_eq!(bench.stays(), [(7, 500, 700)]);
    assert_eq!(bench.waits(), []);
    assert!(bench.heard.ran[0].cut.is_whole());
}

#[test]
fn snapshots_give_the_states_at_the_start() {
    let mut bench = Bench::new();
    bench.at(50, 1, stat(7, StatState::Blocked)).at(60, 1, stat(8, StatState::Runnable));
    bench.at(100, 0, switch(9, 8, Preempted)).at(200, 0, waking(8, 7)).at(210, 0, wakeup(7, 0)).end(300);
    assert_eq!(bench.waits()[0], (8, 0, 100));
    assert!(bench.heard.waited[0].cut.start && bench.heard.waited[0].cause == WaitCause::Unknown);
    assert_eq!(bench.sleeps(), [(7, 0, 210)]);
    assert!(bench.heard.slept[0].cut.start);
}

#[test]
fn a_snapshot_changes_nothing_that_events_have_told() {
    let mut bench = Bench::new();
    bench.at(100, 0, switch(0, 7, Runnable)).at(150, 1, stat(7, StatState::Blocked));
    bench.at(200, 0, switch(7, 0, Sleeping)).end(250);
    assert_eq!(bench.stays(), [(7, 100, 200)]);
    assert_eq!(bench.sleeps(), [(7, 200, 250)]);
}

#[test]
fn a_snapshot_that_says_blocked_yields_to_a_later_switch_away() {
    let mut bench = Bench::new();
    bench.at(50, 1, stat(7, StatState::Blocked)).at(100, 0, switch(7, 0, Sleeping)).end(100);
    assert_eq!(bench.stays(), [(7, 0, 100)]);
    assert_eq!(bench.timeline.oddities(), Default::default());
}

#[test]
fn a_wait_lasts_from_the_wake_up_to_the_switch() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(7, 8, Sleeping)).at(100, 0, waking(8, 7)).at(120, 0, wakeup(7, 0));
    bench.at(150, 0, switch(8, 7, Preempted)).end(160);
    assert_eq!(bench.waits(), [(7, 120, 150), (8, 150, 160)]);
    assert_eq!(bench.sleeps(), [(7, 10, 120)]);
    let by = Holder::Task(bench.task(8));
    assert_eq!(bench.heard.waited[0].cause, WaitCause::Woken { by, context: Context::Task });
    assert_eq!(bench.heard.waited[0].waking_ns, START_NS + 100);
    let by = Holder::Task(bench.task(7));
    assert_eq!(bench.heard.waited[1].cause, WaitCause::Preempted { by });
}

#[test]
fn waking_a_task_that_still_has_a_cpu_starts_no_wait() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 7, Runnable)).at(20, 1, switch(0, 8, Runnable));
    bench.at(50, 1, waking(8, 7)).at(60, 1, wakeup(7, 0)).at(100, 0, switch(7, 0, Sleeping)).end(200);
    assert_eq!(bench.waits(), []);
    assert_eq!(bench.sleeps(), [(7, 100, 200)]);
    assert!(bench.heard.woken.is_empty());
    assert_eq!(bench.timeline.oddities().wakeup_of_runnable, 1);
}

#[test]
fn a_waking_before_the_sleeper_s_switch_counts_at_the_wake_up() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 7, Runnable)).at(20, 1, switch(0, 8, Runnable));
    bench.at(50, 1, waking(8, 7)).at(55, 0, switch(7, 0, Sleeping)).at(60, 0, wakeup(7, 0));
    bench.at(70, 0, switch(0, 7, Runnable)).end(70);
    assert_eq!(bench.waits(), [(7, 60, 70)]);
    assert_eq!(bench.sleeps(), [(7, 55, 60)]);
    assert!(matches!(bench.heard.waited[0].cause, WaitCause::Woken { context: Context::Task, .. }));
}

#[test]
fn waking_a_waiting_task_again_does_not_shorten_its_wait() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(7, 8, Sleeping)).at(20, 0, waking(8, 7)).at(21, 0, wakeup(7, 0));
    bench.at(50, 0, waking(8, 7)).at(51, 0, wakeup(7, 0)).at(90, 0, switch(8, 7, Sleeping)).end(90);
    assert_eq!(bench.waits(), [(7, 21, 90)]);
    assert_eq!(bench.heard.woken.len(), 1);
}

#[test]
fn a_waking_without_its_wake_up_counts_from_the_waking() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(7, 8, Sleeping)).at(20, 0, waking(8, 7)).at(90, 0, switch(8, 7, Sleeping)).end(90);
    assert_eq!(bench.waits(), [(7, 20, 90)]);
    assert_eq!(bench.sleeps(), [(7, 10, 20), (8, 90, 90)]);
    assert_eq!(bench.timeline.oddities().waking_without_wakeup, 1);
}

#[test]
fn a_waking_whose_wake_up_never_comes_begins_a_wait_to_the_end() {
    let mut bench = Bench::new();
    bench.at(5, 1, waking(9, 6)).at(10, 0, switch(7, 8, Sleeping)).at(12, 1, switch(6, 9, Sleeping));
    bench.at(20, 0, waking(8, 7)).end(90);
    assert_eq!(bench.waits(), [(6, 12, 90), (7, 20, 90)]);
    assert_eq!(bench.sleeps(), [(6, 12, 12), (7, 10, 20)]);
}

#[test]
fn a_wake_up_without_its_waking_has_an_unknown_waker() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(7, 8, Sleeping)).at(20, 0, wakeup(7, 0)).at(90, 0, switch(8, 7, Sleeping)).end(90);
    assert_eq!(bench.waits(), [(7, 20, 90)]);
    let cause = WaitCause::Woken { by: Holder::Unknown, context: Context::Unknown };
    assert_eq!(bench.heard.waited[0].cause, cause);
    assert_eq!(bench.timeline.oddities().wakeup_without_waking, 1);
}

#[test]
fn a_sleeper_that_runs_unwoken_has_no_known_sleep_or_wait() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(7, 8, Sleeping)).at(90, 0, switch(8, 7, Preempted)).end(95);
    assert_eq!(bench.waits(), [(8, 90, 95)]);
    assert_eq!(bench.sleeps(), []);
    assert_eq!(bench.timeline.oddities().missing_wakeup, 1);
}

#[test]
fn a_remote_wake_up_waits_from_its_insertion_at_the_target_cpu() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(7, 8, Sleeping)).at(12, 1, switch(0, 9, Runnable));
    bench.at(20, 0, waking(8, 7)).at(30, 1, wakeup(7, 1)).at(50, 1, switch(9, 7, Preempted)).end(50);
    let waited = bench.heard.waited[0];
    assert_eq!((waited.start_ns, waited.end_ns, waited.cpu), (START_NS + 30, START_NS + 50, 1));
    assert_eq!(waited.waking_ns, START_NS + 20);
}

#[test]
fn a_move_during_a_wait_is_told_with_it() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(7, 8, Sleeping)).at(20, 0, waking(8, 7)).at(21, 0, wakeup(7, 0));
    bench.at(40, 1, Event::Migrate(Migrate { tid: Tid(7), from_cpu: 0, to_cpu: 1 }));
    bench.at(50, 1, switch(0, 7, Runnable)).end(50);
    assert_eq!(bench.waits()[0], (7, 21, 50));
    assert_eq!(bench.heard.waited[0].moved, Some((0, START_NS + 40)));
}

#[test]
fn a_wake_up_of_a_task_that_ran_all_along_is_no_wait() {
    let mut bench = Bench::new();
    bench.at(10, 1, waking(0, 7)).at(11, 1, wakeup(7, 0)).at(50, 0, switch(7, 0, Sleeping)).end(50);
    assert_eq!(bench.stays(), [(7, 0, 50)]);
    assert_eq!(bench.waits(), []);
}

#[test]
fn a_fork_is_born_then_waits_then_runs() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 5, Runnable)).at(20, 0, fork(5, 7)).at(25, 0, first_wakeup(7, 0));
    bench.at(40, 0, switch(5, 7, Sleeping)).end(60);
    assert_eq!(bench.waits(), [(7, 25, 40)]);
    assert_eq!(bench.heard.waited[0].cause, WaitCause::New);
    assert_eq!(bench.sleeps()[0], (7, 20, 25));
    assert_eq!(bench.timeline.task(bench.task(7)).born_ns(), Some(START_NS + 20));
    assert_eq!(bench.timeline.tgid(bench.task(7)), Tgid(7));
}

#[test]
fn a_reused_tid_is_a_new_task() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 7, Runnable)).at(20, 0, Event::Exit(Exit { tid: Tid(7) }));
    bench.at(30, 0, switch(7, 5, Zombie));
    let old = bench.task(7);
    bench.at(40, 0, fork(5, 7)).at(41, 0, first_wakeup(7, 0)).at(50, 0, switch(5, 7, Sleeping)).end(80);
    let new = bench.task(7);
    assert_ne!(old, new);
    assert_eq!(bench.timeline.task(old).state(), TaskState::Ended);
    assert_eq!(bench.heard.ended, [old]);
    let stays: Vec<_> = bench.heard.ran.iter().map(|ran| ran.task).collect();
    assert_eq!(stays, [old, bench.task(5), new]);
    assert_ne!(bench.timeline.task(old).process(), bench.timeline.task(new).process());
}

#[test]
fn an_exiting_task_may_still_sleep_and_run_before_it_ends() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 7, Runnable)).at(20, 0, Event::Exit(Exit { tid: Tid(7) }));
    bench.at(30, 0, switch(7, 5, Sleeping)).at(40, 0, waking(5, 7)).at(41, 0, wakeup(7, 0));
    bench.at(50, 0, switch(5, 7, Preempted)).at(60, 0, switch(7, 5, Zombie)).end(70);
    assert_eq!(bench.stays(), [(7, 10, 30), (5, 30, 50), (7, 50, 60), (5, 60, 70)]);
    assert_eq!(bench.timeline.tasks().len(), 2);
}

#[test]
fn a_fork_of_a_tid_still_in_use_ends_the_old_task_unseen() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 7, Runnable)).at(15, 1, switch(0, 5, Runnable)).at(30, 1, fork(5, 7)).end(60);
    assert_eq!(bench.timeline.oddities().reused_alive, 1);
    assert_eq!(bench.stays(), [(5, 15, 60)]);
}

#[test]
fn a_thread_that_calls_exec_goes_on_as_its_leader() {
    let mut bench = Bench::new();
    bench.at(1, 0, named(3, 3, "leader")).at(10, 0, switch(0, 3, Runnable)).at(15, 0, thread(3, 4, 3));
    bench.at(16, 0, first_wakeup(4, 1)).at(20, 1, switch(0, 4, Runnable));
    let (leader, thread) = (bench.task(3), bench.task(4));
    bench.at(30, 0, switch(3, 0, Zombie)).at(40, 1, Event::Exec(Exec { tid: Tid(3), old_tid: Tid(4) }));
    bench.at(41, 1, Event::Comm(Rename { tid: Tid(3), comm: Comm::new(b"newname") }));
    bench.at(50, 1, switch(3, 0, Sleeping)).end(60);
    assert_eq!(bench.task(3), thread);
    assert_eq!(bench.timeline.task(thread).comm(), Comm::new(b"newname"));
    assert_eq!(bench.timeline.task(leader).state(), TaskState::Ended);
    let stays: Vec<_> = bench.heard.ran.iter().map(|ran| (ran.task, ran.start_ns, ran.end_ns)).collect();
    let since_start = |task, from, to| (task, START_NS + from, START_NS + to);
    assert_eq!(stays, [since_start(leader, 10, 30), since_start(thread, 20, 50)]);
    assert_eq!(bench.timeline.oddities(), Default::default());
}

#[test]
fn switches_between_a_tid_exchange_and_its_exec_keep_the_thread() {
    let mut bench = Bench::new();
    bench.at(1, 0, named(3, 3, "leader")).at(10, 0, switch(0, 3, Runnable)).at(15, 0, thread(3, 4, 3));
    bench.at(16, 0, first_wakeup(4, 1)).at(20, 1, switch(0, 4, Runnable));
    let (leader, thread) = (bench.task(3), bench.task(4));
    // The tids are exchanged here: the thread is switched as 3, its ending leader as 4.
    bench.at(40, 1, switch(3, 0, Preempted)).at(45, 0, switch(4, 0, Zombie)).at(
        50,
        1,
        switch(0, 3, Runnable),
    );
    bench
        .at(60, 1, Event::Exec(Exec { tid: Tid(3), old_tid: Tid(4) }))
        .at(70, 1, switch(3, 0, Sleeping))
        .end(70);
    let stays: Vec<_> = bench.heard.ran.iter().map(|ran| ran.task).collect();
    assert_eq!(stays, [thread, leader, thread]);
    assert_eq!(bench.timeline.tasks().len(), 2);
    assert_eq!(bench.timeline.oddities(), Default::default());
}

#[test]
fn restated_names_apply_only_to_unknown_tasks() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 7, Runnable)).at(11, 0, named(7, 6, "first"));
    assert_eq!(bench.timeline.task(bench.task(7)).comm(), Comm::new(b"first"));
    assert_eq!(bench.timeline.tgid(bench.task(7)), Tgid(6));
    bench.at(12, 0, Event::Comm(Rename { tid: Tid(7), comm: Comm::new(b"second") }));
    bench.at(13, 1, named(7, 6, "first"));
    assert_eq!(bench.timeline.task(bench.task(7)).comm(), Comm::new(b"second"));
    bench.at(14, 0, switch(7, 5, Zombie)).at(15, 1, named(7, 6, "late"));
    assert_eq!(bench.timeline.task(bench.task(7)).comm(), Comm::new(b"second"), "its end does not rename it");
}

#[test]
fn names_stated_before_a_fork_are_the_forks_own_task() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 5, Runnable)).at(20, 0, named(7, 7, "child")).at(20, 0, fork(5, 7)).end(30);
    assert_eq!(bench.timeline.tasks().len(), 2);
    assert_eq!(bench.timeline.oddities().reused_alive, 0);
    assert_eq!(bench.timeline.task(bench.task(7)).born_ns(), Some(START_NS + 20));
}

#[test]
fn lost_events_make_the_cpus_task_unknown_from_its_last_event() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 7, Runnable)).at(30, 0, waking(7, 9)).at(
        100,
        0,
        Event::Lost(Lost { count: 3 }),
    );
    bench.at(150, 0, switch(8, 0, Sleeping)).end(200);
    assert_eq!(bench.stays(), [(7, 10, 30), (8, 100, 150)]);
    assert!(bench.heard.ran[0].cut.end && bench.heard.ran[1].cut.start);
    assert_eq!(bench.heard.ran[0].end, RunEnd::Open);
    assert_eq!(bench.timeline.cpus()[0].lost(), 3);
}

#[test]
fn waits_and_sleeps_across_a_loss_on_their_cpu_are_not_told() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(7, 8, Sleeping)).at(12, 1, switch(9, 0, Sleeping));
    bench.at(20, 0, Event::Lost(Lost { count: 1 }));
    bench
        .at(30, 1, waking(0, 7))
        .at(31, 1, wakeup(7, 1))
        .at(40, 1, waking(0, 9))
        .at(41, 1, wakeup(9, 1))
        .end(50);
    assert_eq!(bench.sleeps(), [(9, 12, 41)], "only CPU 1's sleeper surely slept all the time");
    assert_eq!(bench.waits(), [(7, 31, 50), (9, 41, 50)]);
}

#[test]
fn a_switch_away_from_a_waiting_task_records_no_stay() {
    let mut bench = Bench::new();
    bench
        .at(10, 0, switch(0, 7, Runnable))
        .at(50, 0, switch(8, 9, Sleeping))
        .at(60, 0, switch(9, 0, Sleeping))
        .end(60);
    assert_eq!(bench.stays(), [(9, 50, 60)]);
    assert_eq!(bench.timeline.oddities().missing_switch_in, 1);
    assert_eq!(bench.timeline.task(bench.task(7)).state(), TaskState::Unknown);
}

#[test]
fn a_task_that_returns_unseen_has_run_except_for_stolen_time() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 7, Runnable)).at(50, 0, switch(7, 8, Preempted)).at(
        90,
        0,
        switch_with_stolen(7, 15),
    );
    bench.end(90);
    assert_eq!(bench.stays(), [(7, 10, 50), (7, 65, 90)]);
    assert_eq!((bench.heard.ran[1].stolen_ns, bench.heard.ran[1].cut.start), (0, true));
    assert_eq!(bench.waits(), []);
    assert_eq!(bench.timeline.task(bench.task(8)).state(), TaskState::Unknown);
    assert_eq!(bench.timeline.oddities().missing_switch_in, 1);
}

#[test]
fn a_task_that_came_unseen_has_a_stay_if_stolen_time_is_known() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(7, 8, Sleeping)).at(30, 1, waking(0, 9)).at(31, 1, wakeup(9, 0));
    bench.at(90, 0, switch_with_stolen(9, 50)).end(90);
    assert_eq!(bench.stays(), [(7, 0, 10), (9, 60, 90)]);
    // Of the 80 ns since the CPU's last switch, 50 were not counted: the task ran for 30.
    assert_eq!(bench.heard.ran[1].stolen_ns, 0);
    assert!(bench.heard.ran[1].cut.start);
}

#[test]
fn a_task_runs_from_the_unseen_end_of_a_task_that_moved_on() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 7, Runnable)).at(50, 0, switch(7, 8, Preempted));
    // Task 8 has left CPU 0 unseen, at the latest now; the kernel did not count 5 ns of the time since 50.
    bench.at(70, 1, switch(0, 8, Runnable)).at(90, 0, switch_with_stolen(7, 5)).end(90);
    assert_eq!(bench.stays(), [(7, 10, 50), (7, 55, 90), (8, 70, 90)]);
    assert_eq!(bench.heard.ran[1].stolen_ns, 0);
}

#[test]
fn a_blocked_task_that_came_unseen_ran_for_the_counted_time() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(7, 8, Sleeping)).at(90, 0, switch_with_stolen(7, 50)).end(90);
    assert_eq!(bench.stays(), [(7, 0, 10), (7, 60, 90)]);
}

#[test]
fn ticks_hit_whoever_the_next_switch_shows_to_have_had_the_cpu() {
    let mut bench = Bench::new();
    let tick = || Event::Tick(Tick { due_ns: 0 });
    bench.at(5, 0, tick()).at(10, 0, switch(7, 8, Sleeping)).at(20, 0, tick()).at(70, 0, tick());
    bench.at(75, 1, waking(0, 9)).at(76, 1, wakeup(9, 0)).at(78, 0, tick());
    bench.at(90, 0, switch_with_stolen(9, 65)).at(95, 0, tick()).end(100);
    let whose = |ticked: &Ticked| match ticked.holder {
        Holder::Task(task) => Some(bench.timeline.task(task).tid().0),
        Holder::Idle | Holder::Unknown => None,
    };
    // Task 7 turns out to have had the CPU from the start. Task 8 lost the CPU, unseen, 65 ns after it got
    // it. Task 9 had the CPU for the rest.
    let hits: Vec<_> = bench.heard.ticked.iter().map(|hit| (hit.time_ns - START_NS, whose(hit))).collect();
    assert_eq!(hits, [(5, Some(7)), (20, Some(8)), (70, Some(8)), (78, Some(9)), (95, None)]);
}

#[test]
fn a_cpu_that_goes_idle_unseen_is_idle_since_its_last_switch() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(7, 8, Sleeping)).at(50, 0, switch(0, 9, Runnable)).end(50);
    assert_eq!(bench.stays(), [(7, 0, 10), (9, 50, 50)]);
    assert_eq!(bench.heard.idle_ns, 40);
}

#[test]
fn a_switch_to_a_task_on_another_cpu_takes_it_from_there() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 7, Runnable)).at(50, 1, switch(0, 7, Runnable)).at(
        60,
        1,
        switch(7, 0, Sleeping),
    );
    bench.at(80, 0, switch(9, 0, Sleeping)).end(80);
    assert_eq!(bench.stays(), [(7, 50, 60), (9, 50, 80)]);
    assert_eq!(bench.timeline.oddities().missing_switch_out, 1);
}

#[test]
fn the_end_of_the_trace_cuts_open_intervals() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(7, 8, Sleeping)).at(20, 1, switch(9, 0, Preempted)).end(100);
    assert_eq!(bench.stays(), [(7, 0, 10), (9, 0, 20), (8, 10, 100)]);
    assert!(bench.heard.ran[2].cut.end && bench.heard.ran[2].end == RunEnd::Open);
    assert_eq!(bench.waits(), [(9, 20, 100)]);
    assert_eq!(bench.sleeps(), [(7, 10, 100)]);
    assert!(bench.heard.waited[0].cut.end && bench.heard.slept[0].cut.end);
    assert_eq!(bench.heard.idle_ns, 80);
}

#[test]
fn intervals_are_cut_to_the_window() {
    let mut bench = Bench::of_window(50, 100);
    bench.at(10, 0, switch(0, 7, Runnable)).at(20, 0, switch(7, 8, Preempted));
    bench.at(60, 0, switch(8, 7, Sleeping)).end(100);
    assert_eq!(bench.stays(), [(8, 50, 60), (7, 60, 100)]);
    assert_eq!(bench.waits(), [(7, 50, 60)]);
    assert!(bench.heard.ran[0].cut.start && bench.heard.waited[0].cut.start);
}

#[test]
fn an_interrupt_inside_a_softirq_is_told_apart_from_it() {
    let mut bench = Bench::new();
    bench.at(5, 0, Event::IrqExit(Irq::LocalTimer)).at(10, 0, switch(0, 7, Runnable));
    bench.at(20, 0, Event::SoftirqEnter(Softirq(1))).at(30, 0, Event::IrqEnter(Irq::Reschedule));
    bench.at(34, 0, Event::IrqExit(Irq::Reschedule)).at(50, 0, Event::SoftirqExit(Softirq(1))).end(60);
    let own: Vec<u64> = bench.heard.interrupted.iter().map(|span| span.own_ns).collect();
    assert_eq!(own, [4, 26], "the exit without its entry is no span");
    assert!(bench.heard.interrupted.iter().all(|span| span.holder == Holder::Task(bench.task(7))));
}

#[test]
fn time_that_goes_backwards_is_counted_and_held() {
    let mut bench = Bench::new();
    bench.at(50, 0, switch(0, 7, Runnable)).at(40, 0, switch(7, 0, Sleeping)).end(60);
    assert_eq!(bench.stays(), [(7, 50, 50)]);
    assert_eq!(bench.timeline.oddities().backwards, 1);
}

fn switch_with_stolen(prev: u32, stolen_ns: i32) -> Event {
    let (prev, next) = (Tid(prev), Tid(0));
    Event::Switch(Switch { prev, next, prev_state: Sleeping, prev_prio: 120, next_prio: 120, stolen_ns })
}

#[test]
fn stolen_time_is_the_kernel_s_even_beyond_the_stay() {
    let mut bench = Bench::new();
    bench.at(10, 0, switch(0, 7, Runnable)).at(40, 0, switch_with_stolen(7, 5_000));
    bench.at(50, 0, switch(0, 7, Runnable)).at(60, 0, switch_with_stolen(7, -4_000)).end(60);
    assert_eq!(bench.heard.ran.iter().map(|ran| ran.stolen_ns).collect::<Vec<_>>(), [5_000, -4_000]);
}

#[test]
fn stolen_time_of_a_cut_stay_is_at_most_the_rest_of_it() {
    let mut bench = Bench::of_window(30, 100);
    bench.at(10, 0, switch(0, 7, Runnable)).at(40, 0, switch_with_stolen(7, 5_000)).end(60);
    assert_eq!(bench.heard.ran[0].stolen_ns, 10);
}

#[test]
fn cpus_beyond_the_headers_count_are_taken_as_they_come() {
    let mut bench = Bench::new();
    bench.at(10, 5, switch(7, 0, Sleeping)).at(30, 5, switch(0, 7, Runnable)).end(60);
    assert_eq!(bench.timeline.cpus().len(), 6);
    assert_eq!(bench.stays(), [(7, 10, 10), (7, 30, 60)]);
}
