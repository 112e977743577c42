//! The culprits of late samples: one judgement for each sample, added up by culprit and kind of delay.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The most culprits kept apart; further culprits are added up as one.
const CULPRITS_MAX: usize = 4096;
/// The most places in the code that are kept, over all culprits.
const PLACES_MAX: usize = 1 << 15;

/// A task, an interrupt or another party that delayed samples.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Culprit {
    /// The culprit's name.
    pub task: String,
    /// How the culprit kept the CPU.
    pub how: How,
    /// The frames in which the culprit was for at least half of the time, innermost frame first.
    pub stack: Vec<String>,
    /// Every call stack in which the culprit was, innermost frame first, with the time there, ns.
    #[serde(default)]
    pub stacks: Vec<(Vec<String>, u64)>,
    /// The names of the threads that the culprit delayed.
    pub waiters: Vec<String>,
    /// The number of samples that the culprit delayed.
    pub count: u64,
    /// The sum of these samples' delays, ns.
    pub total_ns: u64,
    /// The longest of these delays, ns.
    pub worst_ns: u64,
}

/// How a CPU was kept from rescheduling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The interrupt came late though a program was running that cannot put it off: a hypervisor or the
    /// firmware had the CPU.
    Elsewhere,
    /// Interrupts were off, so that the timer's interrupt came late. The stack shows where interrupts were
    /// switched on again.
    InterruptsOff,
    /// An interrupt's handler, a softirq or a timer's function ran.
    Interrupt,
    /// The task went on in the kernel, where it could not be preempted.
    NotPreempted,
    /// Another task ran before the thread that waited.
    Ran,
}

impl How {
    /// How a culprit kept the CPU, in words that follow the culprit's name.
    pub const fn words(self) -> &'static str {
        match self {
            How::Elsewhere => "had the CPU",
            How::InterruptsOff => "had interrupts off",
            How::Interrupt => "ran in an interrupt's place",
            How::NotPreempted => "was not preempted",
            How::Ran => "ran before it",
        }
    }
}

/// The observations of one late sample.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Evidence {
    /// The thread that waited.
    pub waiter: String,
    /// The time from when the thread was due to the switch to it, ns.
    pub latency_ns: u64,
    /// The time from when the thread was due to the entry of the timer's interrupt, ns; `None` if
    /// that was not seen.
    pub interrupt_ns: Option<u64>,
    /// The state of the CPU when that interrupt came.
    pub at_due: Option<Look>,
    /// The state of the CPU when the latest interrupt came while the thread was late already.
    pub at_late: Option<Look>,
    /// The task that had the CPU before the thread that waited.
    pub at_switch: Option<Look>,
    /// The names and lengths, ns, of interrupts, softirqs and timers that ran while the thread was late.
    pub stretches: Vec<(String, u64)>,
}

/// The state of a CPU at one moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Look {
    /// The thread that had the CPU.
    pub tid: u32,
    /// The thread's name.
    pub task: String,
    /// The thread's call stack, innermost frame first.
    pub stack: Vec<Arc<str>>,
    /// Whether the thread was in the kernel, or in its own program.
    pub place: Place,
}

/// The kind of code that ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Place {
    /// Code of the kernel.
    #[default]
    Kernel,
    /// The task's own code, in which interrupts are always on.
    Program,
}

/// The verdict on one late sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CulpritVerdict<'a> {
    /// The culprit's name.
    pub task: &'a str,
    /// How the culprit kept the CPU.
    pub how: How,
    /// The culprit's call stack, innermost frame first.
    pub stack: &'a [Arc<str>],
}

/// The name for a culprit below the kernel.
const BELOW: &str = "hypervisor or firmware";

impl Evidence {
    /// Finds the cause of the delay; `None` if nothing was seen.
    ///
    /// Interrupts that were off for half of the time come first, then the innermost interrupt, softirq or
    /// timer that took half of it or was seen. Otherwise the task that had the CPU is the cause.
    pub fn judge(&self) -> Option<CulpritVerdict<'_>> {
        let is_most = |part_ns: u64| part_ns.saturating_mul(2) >= self.latency_ns;
        if let (Some(look), true) = (&self.at_due, self.interrupt_ns.is_some_and(is_most)) {
            return Some(match look.place {
                Place::Kernel => {
                    CulpritVerdict { task: &look.task, how: How::InterruptsOff, stack: &look.stack }
                }
                Place::Program => CulpritVerdict { task: BELOW, how: How::Elsewhere, stack: &[] },
            });
        }
        let longest_ns = self.stretches.iter().map(|&(_, length_ns)| length_ns).max().unwrap_or(0);
        let inside = self.looks().find_map(|look| Some((look, look.in_interrupt()?)));
        if is_most(longest_ns) || inside.is_some() {
            // A stretch inside another stretch is hardly shorter, and its name is more precise.
            let inner = self.stretches.iter().rev().find(|(_, length_ns)| length_ns * 10 >= longest_ns * 9);
            let task = inner.map_or("softirq", |(what, _)| what);
            let stack = inside.map_or(&[][..], |(look, depth)| &look.stack[..depth]);
            return Some(CulpritVerdict { task, how: How::Interrupt, stack });
        }
        let last = self.at_switch.as_ref();
        let look = self.looks().next()?;
        let went_on = last.is_none_or(|last| last.tid == look.tid);
        let how = if went_on { How::NotPreempted } else { How::Ran };
        Some(CulpritVerdict { task: &look.task, how, stack: &look.stack })
    }

    /// The looks at the CPU, the most precise look first.
    fn looks(&self) -> impl Iterator<Item = &Look> {
        self.at_late.iter().chain(&self.at_due).chain(&self.at_switch)
    }
}

impl Look {
    /// The number of frames that belong to an interrupt or a softirq, if the CPU was in one; the other frames
    /// belong to the interrupted code.
    fn in_interrupt(&self) -> Option<usize> {
        const WORDS: [&str; 4] = ["softirq", "irq_handler", "handle_irq", "irq_exit"];
        let is_interrupt = |frame: &Arc<str>| WORDS.iter().any(|word| frame.contains(word));
        // A kernel thread that handles softirqs (ksoftirqd) is a task like others.
        let is_task = self.stack.last().is_some_and(|frame| frame.starts_with("ret_from_fork"))
            && self.stack.iter().any(|frame| frame.contains("run_ksoftirqd"));
        self.stack.iter().rposition(is_interrupt).filter(|_| !is_task).map(|at| at + 1)
    }
}

/// Culprits, as they are found.
#[derive(Clone, Debug, Default)]
pub struct Culprits {
    found: BTreeMap<(String, How), Sum>,
    /// How many places in the code all culprits have together.
    places: usize,
}

#[derive(Clone, Debug, Default)]
struct Sum {
    waiters: Vec<String>,
    count: u64,
    total_ns: u64,
    worst_ns: u64,
    stacks: BTreeMap<Vec<Arc<str>>, u64>,
}

impl Culprits {
    /// Adds a late sample.
    pub fn add(&mut self, evidence: &Evidence) {
        let (task, how, stack) = match evidence.judge() {
            Some(judged) => (judged.task.to_owned(), judged.how, judged.stack.to_vec()),
            None => ("unseen".to_owned(), How::Ran, Vec::new()),
        };
        let mut key = (task, how);
        if self.found.len() >= CULPRITS_MAX && !self.found.contains_key(&key) {
            key = ("others".to_owned(), How::Ran);
        }
        let sum = self.found.entry(key).or_default();
        if !sum.waiters.contains(&evidence.waiter) {
            sum.waiters.push(evidence.waiter.clone());
        }
        if let Some(total_ns) = sum.stacks.get_mut(&stack) {
            *total_ns += evidence.latency_ns;
        } else if self.places < PLACES_MAX {
            self.places += 1;
            sum.stacks.insert(stack, evidence.latency_ns);
        }
        sum.count += 1;
        sum.total_ns += evidence.latency_ns;
        sum.worst_ns = sum.worst_ns.max(evidence.latency_ns);
    }

    /// Adds a culprit of another list, with all its figures.
    fn add_found(&mut self, culprit: &Culprit) {
        let sum = self.found.entry((culprit.task.clone(), culprit.how)).or_default();
        for waiter in &culprit.waiters {
            if !sum.waiters.contains(waiter) {
                sum.waiters.push(waiter.clone());
            }
        }
        sum.count += culprit.count;
        sum.total_ns += culprit.total_ns;
        sum.worst_ns = sum.worst_ns.max(culprit.worst_ns);
        // Files of older versions, which did not keep every place, have only the main place.
        let main = [(culprit.stack.clone(), culprit.total_ns)];
        let places = if culprit.stacks.is_empty() { &main[..] } else { culprit.stacks.as_slice() };
        for (stack, total_ns) in places {
            let stack = stack.iter().map(|frame| Arc::from(frame.as_str())).collect();
            *sum.stacks.entry(stack).or_default() += total_ns;
        }
    }

    /// All culprits, the most expensive first.
    pub fn list(&self) -> Vec<Culprit> {
        let mut list: Vec<Culprit> = self
            .found
            .iter()
            .map(|((task, how), sum)| Culprit {
                task: task.clone(),
                how: *how,
                stack: main_way(&sum.stacks),
                stacks: sum.stacks.iter().map(|(stack, &total_ns)| (names(stack), total_ns)).collect(),
                waiters: sum.waiters.clone(),
                count: sum.count,
                total_ns: sum.total_ns,
                worst_ns: sum.worst_ns,
            })
            .collect();
        list.sort_by_key(|culprit| Reverse(culprit.total_ns));
        list
    }
}

/// Merges the lists of several measurements, the culprit with the most time first.
pub fn together(lists: &[Vec<Culprit>]) -> Vec<Culprit> {
    let mut sum = Culprits::default();
    lists.iter().flatten().for_each(|culprit| sum.add_found(culprit));
    sum.list()
}

fn names(stack: &[Arc<str>]) -> Vec<String> {
    stack.iter().map(ToString::to_string).collect()
}

/// The frames that stacks with at least half of all the time share, from the outermost frame inwards;
/// returned innermost first.
fn main_way(stacks: &BTreeMap<Vec<Arc<str>>, u64>) -> Vec<String> {
    let all_ns: u64 = stacks.values().sum();
    let mut way: Vec<Arc<str>> = Vec::new();
    loop {
        let mut next: BTreeMap<&Arc<str>, u64> = BTreeMap::new();
        for (stack, &total_ns) in stacks {
            let mut outwards = stack.iter().rev();
            if way.iter().all(|frame| outwards.next() == Some(frame)) {
                if let Some(frame) = outwards.next() {
                    *next.entry(frame).or_default() += total_ns;
                }
            }
        }
        match next.into_iter().max_by_key(|&(_, total_ns)| total_ns) {
            Some((frame, total_ns)) if total_ns * 2 >= all_ns => way.push(Arc::clone(frame)),
            _ => break,
        }
    }
    way.reverse();
    names(&way)
}

/// Culprits in the input form of flame graphs: `task;outermost;...;innermost microseconds`, a line each.
pub fn folded(culprits: &[Culprit]) -> String {
    let line = |culprit: &Culprit, (stack, total_ns): &(Vec<String>, u64)| {
        let frames = std::iter::once(&culprit.task).chain(stack.iter().rev());
        let frames: Vec<String> = frames.map(|frame| frame.replace([';', '\n'], ":")).collect();
        format!("{} {}\n", frames.join(";"), total_ns.div_ceil(1000))
    };
    culprits.iter().flat_map(|culprit| culprit.stacks.iter().map(move |place| line(culprit, place))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(tid: u32, task: &str, stack: &[&str]) -> Option<Look> {
        Some(Look {
            tid,
            task: task.into(),
            stack: stack.iter().map(|&frame| frame.into()).collect(),
            place: Place::Kernel,
        })
    }

    fn late(latency_ns: u64) -> Evidence {
        Evidence {
            waiter: "sampler".into(),
            latency_ns,
            interrupt_ns: Some(latency_ns / 100),
            at_due: look(7, "cc1", &["copy_page", "vfs_write"]),
            at_late: None,
            at_switch: look(7, "cc1", &["__schedule", "__cond_resched", "vfs_write"]),
            stretches: vec![("tick_nohz_handler".into(), 9_000)],
        }
    }

    fn judged(evidence: &Evidence) -> (&str, How, &str) {
        let judged = evidence.judge().expect("something was seen");
        (judged.task, judged.how, &judged.stack[0])
    }

    #[test]
    fn a_task_not_preempted_in_the_kernel_is_named_by_its_function() {
        assert_eq!(judged(&late(5_000_000)), ("cc1", How::NotPreempted, "copy_page"));
    }

    #[test]
    fn the_place_at_a_later_interrupt_goes_before() {
        let evidence = Evidence { at_late: look(7, "cc1", &["clear_page"]), ..late(5_000_000) };
        assert_eq!(judged(&evidence), ("cc1", How::NotPreempted, "clear_page"));
    }

    #[test]
    fn another_task_that_ran_meanwhile_is_the_culprit() {
        let evidence = Evidence { at_late: look(9, "irq/16", &["handler"]), ..late(5_000_000) };
        assert_eq!(judged(&evidence), ("irq/16", How::Ran, "handler"));
    }

    #[test]
    fn an_interrupt_that_came_late_was_off() {
        let evidence = Evidence { interrupt_ns: Some(3_000_000), ..late(5_000_000) };
        assert_eq!(judged(&evidence), ("cc1", How::InterruptsOff, "copy_page"));
    }

    #[test]
    fn a_late_interrupt_in_a_program_blames_hypervisor_or_firmware() {
        let at_due = Some(Look { place: Place::Program, ..look(7, "cc1", &["cc1+0x10"]).expect("a look") });
        let evidence = Evidence { at_due, interrupt_ns: Some(3_000_000), ..late(5_000_000) };
        let judged = evidence.judge().expect("something was seen");
        assert_eq!(
            (judged.task, judged.how, judged.stack.len()),
            ("hypervisor or firmware", How::Elsewhere, 0)
        );
    }

    #[test]
    fn a_timer_s_function_is_named_instead_of_its_softirq() {
        let stretches = vec![("softirq hrtimer".into(), 4_900_000), ("timer bpf_timer_cb".into(), 4_800_000)];
        let at_due = look(7, "cc1", &["bpf_prog_1_held", "hrtimer_run_softirq", "handle_softirqs"]);
        let evidence = Evidence { stretches, at_due, ..late(5_000_000) };
        assert_eq!(judged(&evidence), ("timer bpf_timer_cb", How::Interrupt, "bpf_prog_1_held"));
    }

    #[test]
    fn one_found_in_a_softirq_is_not_blamed_for_it() {
        let at_due = look(7, "cc1", &["net_rx", "handle_softirqs", "__irq_exit_rcu", "vfs_write"]);
        let evidence = Evidence { at_due, stretches: Vec::new(), ..late(5_000_000) };
        let judged = evidence.judge().expect("something was seen");
        assert_eq!((judged.task, judged.how, judged.stack.len()), ("softirq", How::Interrupt, 3));
    }

    #[test]
    fn the_way_that_most_of_the_time_went_is_the_culprit_s() {
        let mut culprits = Culprits::default();
        for innermost in ["read_tsc", "ktime_get", "ktime_get"] {
            let at_due = look(7, "cc1", &[innermost, "spin", "prctl"]);
            culprits.add(&Evidence { at_due, ..late(5_000_000) });
        }
        culprits.add(&Evidence { at_due: look(7, "cc1", &["copy", "write"]), ..late(1_000_000) });
        let [one] = &culprits.list()[..] else { panic!("one task, one way") };
        assert_eq!(
            (one.stack.as_slice(), one.count, one.stacks.len()),
            (&["ktime_get", "spin", "prctl"].map(String::from)[..], 4, 3)
        );
    }

    #[test]
    fn without_an_observation_no_culprit_is_named() {
        assert_eq!(Evidence { latency_ns: 5_000_000, ..Evidence::default() }.judge(), None);
    }

    #[test]
    fn culprits_are_added_up_and_the_costliest_comes_first() {
        let mut culprits = Culprits::default();
        culprits.add(&late(5_000_000));
        culprits.add(&Evidence { at_late: look(9, "irq/16", &["handler"]), ..late(6_000_000) });
        culprits.add(&late(3_000_000));
        let list = culprits.list();
        let told: Vec<_> =
            list.iter().map(|one| (one.task.as_str(), one.count, one.total_ns, one.worst_ns)).collect();
        assert_eq!(told, [("cc1", 2, 8_000_000, 5_000_000), ("irq/16", 1, 6_000_000, 6_000_000)]);
        assert_eq!(folded(&list), "cc1;vfs_write;copy_page 8000\nirq/16;handler 6000\n");
    }

    #[test]
    fn lists_of_several_measurements_add_up_by_culprit() {
        let list = |latencies: &[u64]| {
            let mut culprits = Culprits::default();
            latencies.iter().for_each(|&latency_ns| culprits.add(&late(latency_ns)));
            culprits.list()
        };
        assert_eq!(
            together(&[list(&[5_000_000, 1_000_000]), list(&[7_000_000])]),
            list(&[5_000_000, 1_000_000, 7_000_000])
        );
        assert!(together(&[]).is_empty());
    }
}
