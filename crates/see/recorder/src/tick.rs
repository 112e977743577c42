//! The clock tick: its rate, and its phase on each CPU.

use std::fs;
use std::thread;
use std::time::Duration;

/// The rates that kernels are built with.
const RATES: [u32; 8] = [100, 250, 300, 1000, 128, 256, 512, 1024];

/// The values that are read from `/proc/timer_list`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TimerList {
    now_ns: u64,
    jiffies: u64,
    /// The next or last tick of each CPU, ns.
    ticks: Vec<(usize, u64)>,
    is_high_resolution: bool,
}

fn timer_list() -> Option<TimerList> {
    fs::read_to_string("/proc/timer_list").ok().map(|text| parse(&text))
}

fn number_after<'a>(line: &'a str, what: &str) -> Option<(u64, &'a str)> {
    let rest = line.trim_start().strip_prefix(what)?.trim_start_matches([' ', ':']);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((rest[..end].parse().ok()?, &rest[end..]))
}

fn parse(text: &str) -> TimerList {
    let mut list = TimerList::default();
    let (mut cpu, mut is_tick, mut next, mut last) = (None, false, None, None);
    for line in text.lines() {
        if let Some((number, _)) = number_after(line, "cpu:") {
            (cpu, next, last) = (Some(number as usize), None, None);
        } else if let Some((now_ns, _)) = number_after(line, "now at") {
            list.now_ns = now_ns;
        } else if let Some((expiry, _)) = number_after(line, "# expires at") {
            next = if is_tick { Some(expiry) } else { next };
        } else if line.trim_start().starts_with('#') {
            is_tick = line.contains("tick_nohz_handler") || line.contains("tick_sched_timer");
        } else if let Some((expiry, _)) = number_after(line, ".last_tick") {
            last = Some(expiry);
        } else if let Some((is_stopped, _)) = number_after(line, ".tick_stopped") {
            // While a CPU's tick is stopped, the tick's timer is set for another purpose.
            let tick = if is_stopped == 0 { next } else { last };
            list.ticks.extend(cpu.zip(tick));
        } else if let Some((jiffies, _)) = number_after(line, "jiffies") {
            list.jiffies = jiffies;
        } else if line.trim_start().starts_with("event_handler:") {
            list.is_high_resolution |= line.contains("hrtimer_interrupt");
        }
    }
    list
}

/// Whether the tick is the CPU's timer interrupt itself and not a high-resolution timer.
pub(crate) fn comes_as_interrupt() -> bool {
    timer_list().is_some_and(|list| !list.is_high_resolution)
}

/// The tick rate by the kernel's configuration or by its jiffies and, for each CPU below `cpus`, the tick's
/// place in its period, ns.
pub(crate) fn rate_and_phases(config: &str, cpus: usize) -> (Option<u32>, Vec<Option<u64>>) {
    let mut phases = vec![None; cpus];
    let Some(list) = timer_list() else { return (configured_rate(config), phases) };
    let Some(hz) = configured_rate(config).or_else(|| rate_since_boot(&list)).or_else(measured_rate) else {
        return (None, phases);
    };
    for (cpu, tick_ns) in list.ticks {
        if let Some(phase) = phases.get_mut(cpu) {
            *phase = Some(tick_ns % (1_000_000_000 / u64::from(hz)));
        }
    }
    (Some(hz), phases)
}

fn configured_rate(config: &str) -> Option<u32> {
    config.lines().find_map(|line| line.strip_prefix("CONFIG_HZ=")?.parse().ok())
}

/// Jiffies begin 300 s below the wrap of 32 bits (`INITIAL_JIFFIES`), so their number shows the rate.
fn rate_since_boot(list: &TimerList) -> Option<u32> {
    let off_by = |hz: u32| {
        let begin = (1_u64 << 32) as f64 - 300.0 * f64::from(hz);
        let seconds = (list.jiffies as f64 - begin) / f64::from(hz);
        (seconds - list.now_ns as f64 / 1e9).abs()
    };
    let mut rates = RATES;
    rates.sort_by(|&a, &b| off_by(a).total_cmp(&off_by(b)));
    // Near 300 s after the boot every rate fits.
    (off_by(rates[0]) < 5.0 && off_by(rates[1]) > 4.0 * off_by(rates[0]).max(1.0)).then_some(rates[0])
}

fn measured_rate() -> Option<u32> {
    let before = timer_list()?;
    thread::sleep(Duration::from_millis(300));
    let after = timer_list()?;
    let seconds = (after.now_ns - before.now_ns) as f64 / 1e9;
    let rate = (after.jiffies - before.jiffies) as f64 / seconds;
    RATES.into_iter().min_by(|&a, &b| (rate - f64::from(a)).abs().total_cmp(&(rate - f64::from(b)).abs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Timer List Version: v0.10\nnow at 2178359726797 nsecs\n\ncpu: 0\n clock 0:\n\
        active timers:\n #0: <000000007f425b41>, tick_nohz_handler, S:01\n\
        \x20# expires at 2178384000000-2178384000000 nsecs [in 3 to 3 nsecs]\n\
        \x20#1: <0>, hrtimer_wakeup, S:01\n # expires at 5-6 nsecs [in 3 to 3 nsecs]\n\
        \x20 .last_tick      : 2175836000000 nsecs\n  .tick_stopped   : 0\njiffies: 4295436828\n\
        cpu: 1\n #0: <0>, tick_nohz_handler, S:01\n # expires at 99-99 nsecs [in 3 to 3 nsecs]\n\
        \x20 .last_tick      : 2178124000001 nsecs\n  .tick_stopped   : 1\njiffies: 4295436828\n\
        \x20event_handler:  hrtimer_interrupt\n";

    #[test]
    fn a_running_tick_is_its_timers_and_a_stopped_one_the_last() {
        let list = parse(TEXT);
        assert_eq!(list.ticks, [(0, 2_178_384_000_000), (1, 2_178_124_000_001)]);
        assert!(list.is_high_resolution);
    }

    #[test]
    fn jiffies_since_boot_give_the_rate_unless_every_rate_fits() {
        let list = parse(TEXT);
        assert_eq!(rate_since_boot(&list), Some(250));
        for hz in RATES {
            let jiffies = (1 << 32) - 300 * u64::from(hz) + 5000 * u64::from(hz);
            let list = TimerList { now_ns: 5_000_200_000_000, jiffies, ..TimerList::default() };
            assert_eq!(rate_since_boot(&list), Some(hz));
            let jiffies = (1 << 32) + u64::from(hz);
            let list = TimerList { now_ns: 301_000_000_000, jiffies, ..TimerList::default() };
            assert_eq!(rate_since_boot(&list), None);
        }
    }
}
