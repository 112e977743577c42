//! Sums that must come out exactly, on streams of a toy scheduler that records the true times.

mod toy;

use spry_analysis::findings::TaskFinding;
use spry_analysis::{Engine, Findings, Options, Selection, TraceTotals};
use toy::{Plan, START_NS, ToyTrace, make};

fn plans() -> impl Iterator<Item = Plan> {
    (0..24).map(|seed| Plan {
        seed,
        cpus: 1 + (seed % 4) as u16,
        tasks: 2 + (seed * 3 % 17) as u32,
        events: 8_000,
        burst_ns: 3_000 << (seed % 9),
        churn: seed % 2 == 1,
        all_groups: seed % 3 == 0,
    })
}

fn analyse(made: &ToyTrace, selection: Selection) -> Findings {
    let mut engine = Engine::new(&made.header, selection, Options::default()).unwrap();
    for event in &made.events {
        engine.push(event);
    }
    engine.finish(TraceTotals { end_ns: Some(made.end_ns), ..TraceTotals::default() })
}

/// The time for which a task waited and slept, ns.
fn off_cpu_ns(task: &TaskFinding) -> u64 {
    task.runnable_wait_ns.unwrap() + task.blocked_ns.unwrap()
}

#[test]
fn every_task_has_the_times_and_counts_that_really_were() {
    for plan in plans() {
        let made = make(plan);
        let findings = analyse(&made, Selection::default());
        assert_eq!(findings.trace.oddities, Default::default(), "seed {}", plan.seed);
        let expected: usize = made.truth.values().map(Vec::len).sum();
        assert_eq!(findings.tasks.len(), expected);
        for (&tid, lives) in &made.truth {
            let mut rows: Vec<_> = findings.tasks.iter().filter(|task| task.who.tid.0 == tid).collect();
            rows.sort_by_key(|task| task.start_ns);
            assert_eq!(rows.len(), lives.len(), "a reused tid is a task of its own");
            for (row, truth) in rows.into_iter().zip(lives) {
                assert_eq!(row.runtime_ns, truth.run_ns, "seed {} tid {tid}", plan.seed);
                assert_eq!(row.runnable_wait_ns, Some(truth.wait_ns));
                assert_eq!(row.blocked_ns, Some(truth.blocked_ns));
                assert_eq!(row.switches.voluntary, truth.voluntary);
                assert_eq!(row.switches.involuntary, truth.involuntary);
                assert_eq!(row.quanta.as_ref().unwrap().lengths.count(), truth.quanta);
                assert_eq!(row.dispatch.as_ref().unwrap().all.as_ref().unwrap().count(), truth.waits);
                assert_eq!(row.end_ns, truth.died_ns.map(|died_ns| died_ns - START_NS));
                assert_eq!(row.unknown_ns, 0);
            }
        }
    }
}

#[test]
fn running_waiting_and_blocked_make_up_every_life() {
    for plan in plans() {
        let made = make(plan);
        for task in analyse(&made, Selection::default()).tasks {
            let on_cpu_ns = task.runtime_ns.checked_add_signed(task.stolen_ns.unwrap()).unwrap();
            assert_eq!(on_cpu_ns + off_cpu_ns(&task), task.life_ns);
        }
    }
}

#[test]
fn busy_idle_and_unknown_make_up_the_window_on_every_cpu() {
    for plan in plans() {
        let made = make(plan);
        let findings = analyse(&made, Selection::default());
        for (cpu, &busy_ns) in findings.cpus.iter().zip(&made.busy_ns) {
            assert_eq!(cpu.busy_ns, busy_ns);
            assert_eq!(cpu.busy_ns + cpu.idle_ns + cpu.unknown_ns, made.end_ns - START_NS);
        }
        let run_ns: u64 = findings.tasks.iter().map(|task| task.runtime_ns).sum();
        assert_eq!(run_ns, findings.cpus.iter().map(|cpu| cpu.busy_ns).sum::<u64>());
    }
}

#[test]
fn two_halves_of_a_trace_add_up_to_the_whole() {
    for plan in plans().filter(|plan| !plan.churn) {
        let made = make(plan);
        let half_ns = (made.end_ns - START_NS) / 2;
        let whole = analyse(&made, Selection::default());
        let first = analyse(&made, Selection { to_ns: Some(half_ns), ..Selection::default() });
        let second = analyse(&made, Selection { from_ns: half_ns, ..Selection::default() });
        let of = |findings: &Findings, tid| {
            let task = findings.tasks.iter().find(|task| task.who.tid == tid).unwrap();
            assert_eq!(task.runtime_ns + off_cpu_ns(task), task.life_ns);
            let shares: u64 = task.cpu_shares.iter().flatten().map(|share| share.runtime_ns).sum();
            assert_eq!(shares, task.runtime_ns);
            let (wait_ns, blocked_ns) = (task.runnable_wait_ns.unwrap(), task.blocked_ns.unwrap());
            [task.runtime_ns, wait_ns, blocked_ns, task.switches.voluntary, task.wakeups.unwrap()]
        };
        for task in &whole.tasks {
            let (first, second) = (of(&first, task.who.tid), of(&second, task.who.tid));
            let sum: Vec<u64> = first.iter().zip(second).map(|(a, b)| a + b).collect();
            assert_eq!(sum, of(&whole, task.who.tid));
        }
        assert!(!first.tasks.is_empty());
        assert!(first.tasks.iter().all(|task| task.life_ns == half_ns));
    }
}

#[test]
fn billing_at_a_phase_is_within_the_range_over_all_phases() {
    let mut compared = 0;
    for plan in plans() {
        let made = make(plan);
        for task in analyse(&made, Selection::default()).tasks {
            for billing in task.billing.iter().flatten().filter(|_| task.runtime_ns > 0) {
                let (ratio, min, max) =
                    (billing.ratio.unwrap(), billing.ratio_min.unwrap(), billing.ratio_max.unwrap());
                assert!(min <= ratio && ratio <= max, "{billing:?}");
                compared += 1;
            }
        }
    }
    assert!(compared > 0, "nothing was billed");
}

#[test]
fn the_columns_of_the_drawing_hold_all_busy_time() {
    for plan in plans() {
        let made = make(plan);
        let findings = analyse(&made, Selection::default());
        let drawing = findings.drawing.unwrap();
        for (cpu, columns) in findings.cpus.iter().zip(&drawing.cpus) {
            assert_eq!(columns.iter().map(|column| column.busy_ns).sum::<u64>(), cpu.busy_ns);
            assert_eq!(columns.iter().map(|column| column.unknown_ns).sum::<u64>(), cpu.unknown_ns);
            assert!(columns.len() <= 2048);
        }
    }
}

#[test]
fn culprits_of_the_worst_delays_fill_the_wait() {
    for plan in plans() {
        let made = make(plan);
        let delays = analyse(&made, Selection::default()).delays.unwrap();
        assert!(!delays.worst.is_empty());
        assert!(delays.worst.windows(2).all(|pair| pair[0].wait_ns >= pair[1].wait_ns));
        for delay in delays.worst {
            let tasks = delay
                .culprits
                .iter()
                .filter(|culprit| !matches!(culprit.party, spry_analysis::findings::Party::Interrupt(_)));
            assert_eq!(tasks.map(|culprit| culprit.ran_ns).sum::<u64>(), delay.wait_ns);
        }
    }
}

#[test]
fn losing_any_stretch_of_events_invents_no_time() {
    for plan in plans().filter(|plan| !plan.churn) {
        let mut made = make(plan);
        let mut mix = toy::Mix(plan.seed ^ 0xabcd);
        for cpu in 0..plan.cpus {
            let from_ns = START_NS + mix.below(made.end_ns - START_NS);
            let to_ns = from_ns + mix.below(2_000_000);
            let is_lost =
                |event: &spry_trace::Stamped| event.cpu == cpu && (from_ns..to_ns).contains(&event.time_ns);
            let Some(after) = made.events.iter().position(|event| event.cpu == cpu && event.time_ns >= to_ns)
            else {
                continue;
            };
            let count = made.events.iter().filter(|event| is_lost(event)).count() as u64;
            let time_ns = made.events[after].time_ns;
            let lost = spry_trace::Event::Lost(spry_trace::event::Lost { count });
            made.events.insert(after, spry_trace::Stamped { time_ns, cpu, event: lost });
            made.events.retain(|event| !is_lost(event));
        }
        let findings = analyse(&made, Selection::default());
        for task in &findings.tasks {
            let truth = made.truth[&task.who.tid.0][0];
            assert!(task.runtime_ns <= truth.run_ns, "seed {} {:?}", plan.seed, task.who);
            let known = task.runtime_ns + off_cpu_ns(task);
            assert_eq!(known + task.unknown_ns, task.life_ns, "seed {} {:?}", plan.seed, task.who);
        }
        for (cpu, &busy_ns) in findings.cpus.iter().zip(&made.busy_ns) {
            assert!(cpu.busy_ns <= busy_ns);
            assert_eq!(cpu.busy_ns + cpu.idle_ns + cpu.unknown_ns, made.end_ns - START_NS);
        }
    }
}
