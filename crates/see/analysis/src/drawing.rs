//! The tasks that had each CPU over time, in at most about 2000 columns a CPU for any length of trace.

use std::collections::BTreeMap;

use spry_timeline::{Idled, Ran};

use crate::analysis::Closing;
use crate::findings::{Column, Drawing};

/// The first columns are 2^16 ns (66 us) wide; each time that there are too many columns, every
/// two become one.
const FIRST_WIDTH_BITS: u32 = 16;
/// The most columns of all CPUs together.
const COLUMNS_MAX: usize = 1 << 17;
const NOBODY: u32 = u32::MAX;

/// A column while it is filled. `top` keeps the tasks with about the most time. A newcomer takes the place
/// and the time of the task with the least time (Metwally, Agrawal, El Abbadi 2005, Space-Saving).
#[derive(Clone, Copy)]
struct Cell {
    busy_ns: u64,
    idle_ns: u64,
    top: [(u32, u64); 3],
}

const EMPTY: Cell = Cell { busy_ns: 0, idle_ns: 0, top: [(NOBODY, 0); 3] };

impl Cell {
    #[inline]
    fn ran(&mut self, task: u32, ran_ns: u64) {
        self.busy_ns += ran_ns;
        self.add(task, ran_ns);
    }

    #[inline]
    fn add(&mut self, task: u32, ran_ns: u64) {
        if let Some(entry) = self.top.iter_mut().find(|entry| entry.0 == task || entry.0 == NOBODY) {
            *entry = (task, entry.1 + ran_ns);
        } else if let Some(least) = self.top.iter_mut().min_by_key(|entry| entry.1) {
            *least = (task, least.1 + ran_ns);
        }
    }

    fn merge(mut self, other: Cell) -> Cell {
        self.busy_ns += other.busy_ns;
        self.idle_ns += other.idle_ns;
        for (task, ran_ns) in other.top.into_iter().filter(|entry| entry.0 != NOBODY) {
            self.add(task, ran_ns);
        }
        self
    }
}

/// The picture while it is drawn.
pub(crate) struct Canvas {
    from_ns: u64,
    width_bits: u32,
    columns_max: usize,
    cpus: Vec<Vec<Cell>>,
}

/// The most columns of each CPU, if there are this many CPUs.
fn columns_max(cpus: usize) -> usize {
    (COLUMNS_MAX / cpus.max(1)).clamp(64, 2048)
}

impl Canvas {
    pub(crate) fn new(from_ns: u64, cpus: u16) -> Canvas {
        let columns_max = columns_max(usize::from(cpus));
        Canvas { from_ns, width_bits: FIRST_WIDTH_BITS, columns_max, cpus: Vec::new() }
    }

    #[inline]
    pub(crate) fn ran(&mut self, ran: &Ran) {
        let task = ran.task.at() as u32;
        self.spread(ran.cpu, ran.start_ns, ran.end_ns, |cell, ran_ns| cell.ran(task, ran_ns));
    }

    #[inline]
    pub(crate) fn idled(&mut self, idled: &Idled) {
        self.spread(idled.cpu, idled.start_ns, idled.end_ns, |cell, idle_ns| cell.idle_ns += idle_ns);
    }

    /// Gives each column of an interval its part.
    #[inline]
    fn spread(&mut self, cpu: u16, start_ns: u64, end_ns: u64, mut give: impl FnMut(&mut Cell, u64)) {
        let (mut at_ns, end_ns) =
            (start_ns.saturating_sub(self.from_ns), end_ns.saturating_sub(self.from_ns));
        let last = (end_ns >> self.width_bits) as usize;
        if self.cpus.get(usize::from(cpu)).is_none_or(|cells| last >= cells.len()) {
            self.widen(cpu, end_ns);
        }
        let cells = &mut self.cpus[usize::from(cpu)];
        while at_ns < end_ns {
            let column = at_ns >> self.width_bits;
            let column_end_ns = (column + 1).saturating_mul(1 << self.width_bits);
            let until_ns = end_ns.min(column_end_ns);
            give(&mut cells[column as usize], until_ns - at_ns);
            at_ns = until_ns;
        }
    }

    /// Makes room for a time on a CPU.
    #[cold]
    fn widen(&mut self, cpu: u16, end_ns: u64) {
        self.coarsen(end_ns);
        if usize::from(cpu) >= self.cpus.len() {
            self.cpus.resize(usize::from(cpu) + 1, Vec::new());
        }
        let columns = (end_ns >> self.width_bits) as usize + 1;
        let cells = &mut self.cpus[usize::from(cpu)];
        cells.resize(columns.max(cells.len()), EMPTY);
    }

    /// Widens the columns until the columns up to `end_ns` are not too many.
    fn coarsen(&mut self, end_ns: u64) {
        while (end_ns >> self.width_bits) as usize >= self.columns_max {
            self.width_bits += 1;
            for cells in &mut self.cpus {
                *cells = cells
                    .chunks(2)
                    .map(|pair| pair.get(1).map_or(pair[0], |&second| pair[0].merge(second)))
                    .collect();
            }
        }
    }

    pub(crate) fn finish(mut self, closing: &Closing<'_>, cpus: usize) -> Drawing {
        let mut numbers = BTreeMap::new();
        let window_ns = closing.to_ns.saturating_sub(self.from_ns);
        // There may be more CPUs than the header names, and the last stay may end long before the window.
        self.columns_max = columns_max(cpus);
        self.coarsen(window_ns);
        let width_ns = 1 << self.width_bits;
        let columns = window_ns.div_ceil(width_ns) as usize;
        let mut drawn: Vec<Vec<Column>> = Vec::with_capacity(cpus);
        for cpu in 0..cpus {
            let cells = self.cpus.get(cpu).map_or(&[][..], Vec::as_slice);
            let column = |at: usize| {
                let cell = cells.get(at).copied().unwrap_or(EMPTY);
                let whole_ns = width_ns.min(window_ns - at as u64 * width_ns);
                cell.column(whole_ns, |task| {
                    let next = numbers.len() as u32;
                    *numbers.entry(task).or_insert(next)
                })
            };
            drawn.push((0..columns).map(column).collect());
        }
        let mut named: Vec<(u32, u32)> = numbers.into_iter().map(|(task, number)| (number, task)).collect();
        named.sort_unstable();
        let index = |task| closing.timeline.index_at(task as usize);
        let tasks =
            named.into_iter().filter_map(|(_, task)| index(task)).map(|task| closing.who(task)).collect();
        Drawing { from_ns: closing.since_start_ns(self.from_ns), column_ns: width_ns, tasks, cpus: drawn }
    }
}

impl Cell {
    fn column(mut self, whole_ns: u64, mut number: impl FnMut(u32) -> u32) -> Column {
        self.top.sort_unstable_by_key(|entry| (std::cmp::Reverse(entry.1), entry.0));
        Column {
            busy_ns: self.busy_ns,
            unknown_ns: whole_ns.saturating_sub(self.busy_ns + self.idle_ns),
            top: self.top.map(|(task, ran_ns)| match task {
                NOBODY => (0, 0),
                task => (number(task), ran_ns.min(self.busy_ns)),
            }),
        }
    }
}
