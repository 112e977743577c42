//! The figures that the HTML report's charts are drawn from, cut to a bounded size.

use std::collections::HashMap;

use serde::Serialize;
use spry_analysis::findings::{BillingSteps, Column, Delay, Drawing, Findings, Party};
use spry_analysis::histogram::Histogram;

use crate::words;

/// The most tasks with curves to pick from.
const CURVES_MAX: usize = 100;
/// How many delays are drawn exactly.
pub(super) const DELAYS_MAX: usize = 40;
/// Columns of the time line over all CPUs together.
const COLUMNS_MAX: usize = 64_000;
/// How many billing charts there are at most: tasks times rates.
const STEPS_MAX: usize = 60;
const STEP_CELLS_MAX: usize = 400;

/// Numbers for parts of a drawing that have no name of their own; the numbers of names count from 0. The
/// page's scripts have the same numbers.
const IDLE: i64 = -1;
const UNKNOWN: i64 = -2;
const OTHERS: i64 = -3;

/// Everything the scripts need. Times in ns since the start of the trace.
#[derive(Serialize)]
pub(super) struct Data {
    from_ns: u64,
    to_ns: u64,
    /// Names that the time line's and the delays' numbers refer to.
    names: Vec<String>,
    curves: Vec<Curve>,
    drawing: Option<DrawingData>,
    delays: Vec<DelayData>,
    steps: Vec<StepsData>,
}

/// The two distributions of a task, as points (ns, fraction of all values that do not exceed it).
#[derive(Serialize)]
struct Curve {
    name: String,
    quanta: Option<Vec<(u64, f64)>>,
    dispatch: Option<Vec<(u64, f64)>>,
}

/// The time line: by CPU, by column, pairs of name and per mille of the column.
#[derive(Serialize)]
struct DrawingData {
    from_ns: u64,
    column_ns: u64,
    cpus: Vec<Vec<Vec<i64>>>,
}

#[derive(Serialize)]
struct DelayData {
    victim: usize,
    cpu: u16,
    start_ns: u64,
    end_ns: u64,
    text: String,
    /// CPU, start, end, name.
    slices: Vec<(u16, u64, u64, i64)>,
}

/// One task's billing steps at one rate: length, ticks, quanta.
#[derive(Serialize)]
struct StepsData {
    name: String,
    hz: u32,
    cells: Vec<(u64, u32, u64)>,
}

/// Names by number, each once.
#[derive(Default)]
struct Names {
    list: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Names {
    fn number(&mut self, name: String) -> usize {
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.list.push(name.clone());
            self.list.len() - 1
        })
    }
}

impl Data {
    pub(super) fn of(findings: &Findings) -> Data {
        let mut names = Names::default();
        let drawing = findings.drawing.as_ref().map(|drawing| draw(drawing, &mut names));
        let worst = findings.delays.iter().flat_map(|delays| &delays.worst).take(DELAYS_MAX);
        let delays = worst.map(|delay| delay_data(delay, &mut names)).collect();
        let steps = findings.billing_steps.iter().flatten().take(STEPS_MAX).map(steps_data).collect();
        Data {
            from_ns: findings.trace.from_ns,
            to_ns: findings.trace.to_ns,
            names: names.list,
            curves: curves(findings),
            drawing,
            delays,
            steps,
        }
    }
}

fn curves(findings: &Findings) -> Vec<Curve> {
    let all = Curve {
        name: "all tasks".into(),
        quanta: findings.overall.quanta.as_ref().map(thin),
        dispatch: findings.overall.dispatch.as_ref().map(thin),
    };
    let each = findings.tasks.iter().take(CURVES_MAX).map(|task| Curve {
        name: words::who(&task.who),
        quanta: task.quanta.as_ref().map(|quanta| thin(&quanta.lengths)),
        dispatch: task.dispatch.as_ref().and_then(|dispatch| Some(thin(dispatch.all.as_ref()?))),
    });
    [all].into_iter().chain(each).collect()
}

/// The points that are far enough apart to be seen: 5 % in length or 2 % of all values; the last always.
fn thin(histogram: &Histogram) -> Vec<(u64, f64)> {
    let points = histogram.cdf();
    let mut kept: Vec<(u64, f64)> = Vec::new();
    for (at, &(value, fraction)) in points.iter().enumerate() {
        let far = kept
            .last()
            .is_none_or(|&(last, before)| value as f64 > last as f64 * 1.05 || fraction > before + 0.02);
        if far || at + 1 == points.len() {
            kept.push((value, (fraction * 1e5).round() / 1e5));
        }
    }
    kept
}

fn draw(drawing: &Drawing, names: &mut Names) -> DrawingData {
    let numbers: Vec<usize> = drawing.tasks.iter().map(|task| names.number(words::who(task))).collect();
    let columns: usize = drawing.cpus.iter().map(Vec::len).sum();
    let together = columns.div_ceil(COLUMNS_MAX).max(1);
    let column_ns = drawing.column_ns.saturating_mul(together as u64);
    let cpus = drawing
        .cpus
        .iter()
        .map(|columns| columns.chunks(together).map(|chunk| pairs(chunk, column_ns, &numbers)).collect())
        .collect();
    DrawingData { from_ns: drawing.from_ns, column_ns, cpus }
}

/// Some columns drawn as one: name and per mille, the greatest task first, then other and unknown time.
fn pairs(columns: &[Column], width_ns: u64, numbers: &[usize]) -> Vec<i64> {
    let mut times: Vec<(u64, u32)> = Vec::new();
    for &(task, time_ns) in columns.iter().flat_map(|column| &column.top) {
        match times.iter_mut().find(|(_, known)| *known == task) {
            Some((sum_ns, _)) => *sum_ns += time_ns,
            None if time_ns > 0 => times.push((time_ns, task)),
            None => {}
        }
    }
    times.sort_unstable_by_key(|&(time_ns, task)| (std::cmp::Reverse(time_ns), task));
    times.truncate(3);
    let busy_ns: u64 = columns.iter().map(|column| column.busy_ns).sum();
    let unknown_ns: u64 = columns.iter().map(|column| column.unknown_ns).sum();
    let named_ns: u64 = times.iter().map(|&(time_ns, _)| time_ns).sum();
    let named =
        times.into_iter().filter_map(|(time_ns, task)| Some((*numbers.get(task as usize)? as i64, time_ns)));
    let nameless = [(OTHERS, busy_ns.saturating_sub(named_ns)), (UNKNOWN, unknown_ns)];
    let width_ns = u128::from(width_ns.max(1));
    let per_mille = |time_ns: u64| (u128::from(time_ns) * 1_000 / width_ns).min(1_000) as i64;
    let visible = named.chain(nameless).map(|(name, time_ns)| [name, per_mille(time_ns)]);
    visible.filter(|pair| pair[1] > 0).flatten().collect()
}

fn delay_data(delay: &Delay, names: &mut Names) -> DelayData {
    let slices = delay.slices.iter().map(|slice| {
        let number = match &slice.party {
            Party::Idle => IDLE,
            Party::Unknown => UNKNOWN,
            Party::Others => OTHERS,
            party => names.number(words::party(party)) as i64,
        };
        (slice.cpu, slice.start_ns, slice.end_ns, number)
    });
    DelayData {
        slices: slices.collect(),
        victim: names.number(words::who(&delay.victim)),
        cpu: delay.cpu,
        start_ns: delay.start_ns,
        end_ns: delay.start_ns + delay.wait_ns,
        text: words::sentence(delay),
    }
}

fn steps_data(steps: &BillingSteps) -> StepsData {
    let mut cells: Vec<(u64, u32, u64)> =
        steps.cells.iter().map(|cell| (cell.quantum_ns, cell.ticks, cell.count)).collect();
    // The rarest cells, which would be the smallest disks, are left out.
    cells.sort_by_key(|&(quantum_ns, ticks, count)| (std::cmp::Reverse(count), quantum_ns, ticks));
    cells.truncate(STEP_CELLS_MAX);
    StepsData { name: words::who(&steps.who), hz: steps.hz, cells }
}
