//! The verdict on a split measurement, in plain words.

use crate::culprits::How;
use crate::results::Results;
use spry_page::words::{count, duration, plain};

/// The largest part of the latencies, and the worst culprit of the late samples; `None` if samples
/// were not split.
pub fn verdict(results: &Results) -> Option<String> {
    let parts = results.parts()?;
    // A sum of measurements may have threads with samples that were not split.
    let split = results.threads.iter().filter(|thread| thread.parts.is_some());
    let whole_ns: f64 = split.filter_map(sum_of).sum();
    let mut shares: Vec<(&str, f64)> = parts
        .named()
        .into_iter()
        .filter_map(|(name, part)| Some((name, part.mean_ns()? * part.count() as f64 / whole_ns * 100.0)))
        .collect();
    shares.sort_by(|one, other| other.1.total_cmp(&one.1));
    let &(name, percent) = shares.first().filter(|_| whole_ns > 0.0)?;
    let mut words = format!("On average {percent:.0} % of the latency is {}.", of_what(name));
    let Some(culprits) = &results.culprits else { return Some(words) };
    let late: u64 = culprits.iter().map(|culprit| culprit.count).sum();
    let not_switched = late_samples(results).map(|all| all.saturating_sub(late));
    let Some(first) = culprits.first() else {
        words += match not_switched {
            None => "",
            Some(0) => " No sample was later than the threshold.",
            Some(_) => {
                " Samples were later than the threshold only without having left the CPU: \
                 interrupts, or a hypervisor."
            }
        };
        return Some(words);
    };
    let total_ns: u64 = culprits.iter().map(|culprit| culprit.total_ns).sum();
    let percent = first.total_ns as f64 / total_ns.max(1) as f64 * 100.0;
    let place = first.stack.first().map(|frame| format!(" in {}", plain(frame))).unwrap_or_default();
    words += &format!(
        " {} later than the threshold; {percent:.0} % of that time {} {}{place}, {} at worst{}.",
        number_of_samples(late),
        plain(&first.task),
        first.how.words(),
        duration(first.worst_ns),
        what_helps(first.how, results.machine.preemption.as_deref()),
    );
    if let Some(not_switched) = not_switched.filter(|&number| number > 0) {
        words += &format!(
            " {} late without having left the CPU: interrupts, or a hypervisor.",
            number_of_samples(not_switched)
        );
    }
    Some(words)
}

fn number_of_samples(number: u64) -> String {
    if number == 1 { "1 sample was".to_owned() } else { format!("{} samples were", count(number)) }
}

/// The number of samples that were later than the threshold, with and without a known culprit; `None` if
/// there is no threshold.
fn late_samples(results: &Results) -> Option<u64> {
    let raw = results.raw();
    results.threshold_ns.map(|threshold_ns| raw.count() - raw.count_below(threshold_ns))
}

fn sum_of(thread: &crate::results::SampledThread) -> Option<f64> {
    Some(thread.latency.mean_ns()? * thread.latency.count() as f64)
}

fn of_what(part: &str) -> &'static str {
    match part {
        "timer_ns" => {
            "the way from the timer's time to its interrupt (interrupts off, a sleeping CPU, a hypervisor)"
        }
        "irq_ns" => "the interrupt's own work until the thread is woken",
        "preemption_ns" => "waiting until the CPU reschedules (what ran could not be preempted)",
        "scheduling_ns" => "the scheduler's choice, the switch and the way back to the program",
        _ => "of parts that this kernel does not show",
    }
}

fn what_helps(how: How, preemption: Option<&str>) -> &'static str {
    match (how, preemption) {
        (How::NotPreempted, Some("none" | "voluntary")) => {
            "; this kernel is preempted at explicit points alone: preempt=full or preempt=lazy \
             would be less late"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::culprits::Culprit;
    use crate::histogram::Histogram;
    use crate::results::{MeasuredMachine, SampledThread};
    use crate::source::Source;
    use crate::split::PartHistograms;

    fn results() -> Results {
        let mut latency = Histogram::default();
        latency.record(10_000);
        let mut parts = PartHistograms::default();
        parts.timer_ns.record(2_000);
        parts.preemption_ns.record(8_000);
        parts.unseen_ns.record(0);
        let machine = MeasuredMachine { preemption: Some("none".into()), ..MeasuredMachine::default() };
        let mut results = Results::new(machine, Source::Nanosleep, 2048, 80);
        results.threads.push(SampledThread {
            cpu: Some(0),
            latency,
            omitted: Histogram::default(),
            max_at_ns: 0,
            parts: Some(parts),
        });
        results
    }

    #[test]
    fn the_verdict_names_the_largest_part_the_culprit_and_a_remedy() {
        let mut results = results();
        assert!(
            verdict(&results)
                .is_some_and(|words| words.starts_with("On average 80 % of the latency is waiting"))
        );
        results.culprits = Some(vec![Culprit {
            task: "cc1".into(),
            how: How::NotPreempted,
            stack: vec!["copy_page".into()],
            stacks: Vec::new(),
            waiters: vec!["sampler".into()],
            count: 3,
            total_ns: 9_000_000,
            worst_ns: 6_000_000,
        }]);
        let words = verdict(&results).expect("it was split");
        for part in [
            "3 samples",
            "100 % of that time cc1 was not preempted in copy_page, 6.00 ms at worst",
            "preempt=full",
        ] {
            assert!(words.contains(part), "no `{part}` in: {words}");
        }
    }

    #[test]
    fn the_largest_part_is_a_part_of_the_split_samples_alone() {
        let mut sum = results();
        let whole = SampledThread { parts: None, ..sum.threads[0].clone() };
        sum.threads.push(whole);
        assert!(verdict(&sum).is_some_and(|words| words.starts_with("On average 80 %")));
    }

    #[test]
    fn without_one_threshold_no_sample_is_said_to_be_in_time() {
        let mut sum = results();
        sum.culprits = Some(Vec::new());
        assert!(verdict(&sum).is_some_and(|words| !words.contains("threshold")));
        sum.threshold_ns = Some(20_000);
        assert!(verdict(&sum).is_some_and(|words| words.contains("No sample was later")));
    }

    #[test]
    fn an_unsplit_sample_has_no_verdict() {
        let mut whole = results();
        whole.threads[0].parts = None;
        assert_eq!(verdict(&whole), None);
    }
}
