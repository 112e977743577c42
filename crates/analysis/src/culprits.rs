//! Who had the CPU while a task waited for it.

use spry_timeline::{Holder, Slice, Timeline, Waited};

/// The part of a CPU's history that a wait covers.
#[derive(Clone, Copy)]
struct Stretch {
    cpu: u16,
    start_ns: u64,
    end_ns: u64,
}

/// Calls back with each stay on the CPU that lies in the wait, cut to it, newest first, and its CPU; at most `most`
/// of them. Before the task's last move it counts the queue that the task was on.
pub(crate) fn each_stay(now: &Timeline, waited: &Waited, most: usize, mut each: impl FnMut(u16, Slice)) {
    let Waited { cpu, start_ns, end_ns, .. } = *waited;
    let mut left = most;
    match waited.moved {
        Some((from_cpu, moved_ns)) if moved_ns > start_ns && from_cpu != cpu => {
            each_on(now, Stretch { cpu, start_ns: moved_ns, end_ns }, &mut left, &mut each);
            let before = Stretch { cpu: from_cpu, start_ns, end_ns: moved_ns };
            each_open(now, before, &mut left, &mut each);
            each_on(now, before, &mut left, &mut each);
        }
        _ => each_on(now, Stretch { cpu, start_ns, end_ns }, &mut left, &mut each),
    }
}

/// The stays that are over.
#[inline]
fn each_on(now: &Timeline, stretch: Stretch, left: &mut usize, each: &mut impl FnMut(u16, Slice)) {
    let Some(cpu) = now.cpus().get(usize::from(stretch.cpu)) else { return };
    for slice in cpu.recent() {
        if *left == 0 || slice.end_ns <= stretch.start_ns {
            return;
        }
        give(*slice, stretch, left, each);
    }
}

/// The stay that is not over. Only on a CPU that is not just switching.
fn each_open(now: &Timeline, stretch: Stretch, left: &mut usize, each: &mut impl FnMut(u16, Slice)) {
    let Some(cpu) = now.cpus().get(usize::from(stretch.cpu)) else { return };
    if cpu.holder() != Holder::Unknown && *left > 0 {
        let open = Slice { start_ns: cpu.since_ns(), end_ns: now.now_ns(), holder: cpu.holder() };
        give(open, stretch, left, each);
    }
}

#[inline]
fn give(slice: Slice, stretch: Stretch, left: &mut usize, each: &mut impl FnMut(u16, Slice)) {
    let start_ns = slice.start_ns.max(stretch.start_ns);
    let end_ns = slice.end_ns.min(stretch.end_ns);
    if start_ns < end_ns {
        *left -= 1;
        each(stretch.cpu, Slice { start_ns, end_ns, ..slice });
    }
}
