//! The limits of this kernel's SCHED_DEADLINE, and the reasons why it refuses, as text for the user.

use std::fs;
use std::io;
use std::path::Path;

use spry_reservations::{OnExhaustion, Terms, exact_us};
use spry_sys::cpus::Cpus;

/// The file with the features that the kernel's scheduler has switched on.
const FEATURES: &str = "/sys/kernel/debug/sched/features";
const RT_RUNTIME: &str = "/proc/sys/kernel/sched_rt_runtime_us";
const RT_PERIOD: &str = "/proc/sys/kernel/sched_rt_period_us";
const ONLINE: &str = "/sys/devices/system/cpu/online";
/// The longest tick that a kernel can have, ns.
const TICK_MAX_NS: u64 = 10_000_000;
/// The shortest budget that the kernel takes, ns.
const BUDGET_MIN_NS: u64 = 1_024;

/// Makes the kernel recount the reserved time. Linux 6.18 goes on counting threads that have left the class
/// until it rebuilds its scheduling domains. Reading this setting makes it recount.
pub fn recount() {
    _ = fs::read(RT_RUNTIME);
}

/// Notes for the user on the differences of a reservation by SCHED_DEADLINE from the request.
pub fn notes(terms: &Terms, cpu: u32) -> Vec<String> {
    let mut notes = vec![format!(
        "SCHED_DEADLINE stands in for the reserved class: the time is counted on CPU {cpu}, but the thread \
         may run on any CPU"
    )];
    if terms.on_exhaustion == OnExhaustion::Demote {
        notes.push("SCHED_DEADLINE knows no demotion: the thread waits for its next period".to_owned());
    }
    if terms.budget_ns.min(terms.period_ns - terms.budget_ns) < TICK_MAX_NS {
        notes.extend(ticks(fs::read_to_string(FEATURES).ok().as_deref()));
    }
    notes
}

/// A note for the user if budgets shorter than a tick may be overrun, by the list of the
/// scheduler's features.
fn ticks(features: Option<&str>) -> Option<String> {
    let has = |name: &str| features.map(|list| list.split_ascii_whitespace().any(|word| word == name));
    match has("HRTICK_DL") {
        Some(true) => None,
        Some(false) => Some(format!(
            "this kernel ends budgets at its ticks only: one shorter than a tick (1 to 10 ms) is overrun; \
             `echo HRTICK_DL > {FEATURES}` ends them on time"
        )),
        None => Some(format!(
            "whether this kernel ends budgets between its ticks cannot be seen ({FEATURES}): one shorter \
             than a tick may be overrun"
        )),
    }
}

/// The reason why the kernel refused a reservation, as one line.
pub fn why(error: &io::Error, tid: u32, terms: &Terms) -> io::Error {
    let text = match error.raw_os_error() {
        Some(libc::EBUSY) => busy(number_in(RT_RUNTIME), number_in(RT_PERIOD)),
        Some(libc::EPERM) if number_in(RT_RUNTIME) == Some(0) => {
            format!("SCHED_DEADLINE gives nothing: {RT_RUNTIME} is 0 (the kernel's own is 950000)")
        }
        Some(libc::EPERM) => not_permitted(tid),
        Some(libc::EINVAL) if terms.budget_ns < BUDGET_MIN_NS => {
            format!("SCHED_DEADLINE takes no budget below {}", exact_us(BUDGET_MIN_NS))
        }
        Some(libc::EINVAL) => {
            "SCHED_DEADLINE does not take this: see /proc/sys/kernel/sched_deadline_period_min_us and _max_us"
                .to_owned()
        }
        Some(libc::ESRCH) => format!("thread {tid} has ended"),
        _ => format!("SCHED_DEADLINE: {error}"),
    };
    io::Error::other(text)
}

fn busy(runtime_us: Option<i64>, period_us: Option<i64>) -> String {
    let leaves = match (runtime_us, period_us) {
        (Some(runtime), Some(period)) if runtime >= 0 && period > 0 => {
            format!("{} % of all CPUs together", runtime * 100 / period)
        }
        _ => "as much as there are CPUs".to_owned(),
    };
    format!(
        "SCHED_DEADLINE has too little left: {RT_RUNTIME} leaves it {leaves}, and other programs' tasks \
         have their part of that (`ps -eLo tid,cls,comm | grep DLN`), and what has ended counts until the \
         end of its period"
    )
}

fn not_permitted(tid: u32) -> String {
    let allowed = Cpus::allowed_to(tid).map(|cpus| cpus.numbers().count()).unwrap_or(0);
    let online = fs::read_to_string(ONLINE).ok().and_then(|list| count(list.trim()));
    match online {
        Some(online) if allowed < online => format!(
            "SCHED_DEADLINE takes only threads that may run on all {online} CPUs, and this one may run on \
             {allowed} (`taskset -p {tid}`)"
        ),
        _ => "the kernel does not permit SCHED_DEADLINE for this thread: its CPUs are not a whole root \
              domain of scheduling, or the daemon lacks CAP_SYS_NICE"
            .to_owned(),
    }
}

/// The number of CPUs in a list such as `0-3,6`.
fn count(list: &str) -> Option<usize> {
    list.split(',').try_fold(0, |sum, part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        Some(sum + last.checked_sub(first)? + 1)
    })
}

fn number_in(path: &str) -> Option<i64> {
    crate::guardian::number_in(Path::new(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: Terms =
        Terms { budget_ns: 1_000, period_ns: 1_000_000, on_exhaustion: OnExhaustion::Demote };

    #[test]
    fn a_refusal_of_the_kernel_is_one_line_with_its_reason() {
        for number in [libc::EBUSY, libc::EPERM, libc::EINVAL, libc::ESRCH, libc::EIO] {
            let said = why(&io::Error::from_raw_os_error(number), std::process::id(), &TERMS).to_string();
            assert!(said.lines().count() == 1 && said.len() > 15, "{said}");
        }
        assert!(busy(Some(950_000), Some(1_000_000)).contains("95 % of all CPUs"));
        assert!(busy(Some(-1), Some(1_000_000)).contains("as much as"));
    }

    #[test]
    fn limits_of_the_kernel_are_noted() {
        let said = notes(&TERMS, 3).join("\n");
        assert!(said.contains("CPU 3") && said.contains("knows no demotion"), "{said}");
        assert_eq!(ticks(Some("A HRTICK_DL B")), None);
        let off = ticks(Some("A NO_HRTICK_DL B")).unwrap();
        assert!(off.contains("ticks only"), "{off}");
        assert!(ticks(None).unwrap().contains("cannot be seen"));
    }

    #[test]
    fn cpus_of_a_list_are_counted() {
        let counts = ["0", "0-3", "0-3,6,8-9"].map(count);
        assert_eq!(counts, [Some(1), Some(4), Some(7)]);
        assert_eq!(count("3-1"), None);
    }
}
