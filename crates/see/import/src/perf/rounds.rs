//! Brings perf's records into order of time: the records of each CPU are in order, and once two rounds have
//! been read, the records of the first can be passed on.

use std::collections::VecDeque;

use spry_trace::event::Comm;
use spry_trace::{Tgid, Tid};

/// The limit of the memory of waiting records, bytes. If a file never ends a round, its records are passed on
/// without that end.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// A record that waits to be passed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PendingRecord {
    pub(crate) time_ns: u64,
    pub(crate) cpu: u16,
    pub(crate) what: What,
}

/// The content of a waiting record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Sample(Box<[u8]>),
    Comm { tid: Tid, tgid: Tgid, comm: Comm, is_exec: bool },
    Fork { parent: Tid, child: Tid, tgid: Tgid },
    Exit { tid: Tid },
    Lost { count: u64 },
}

impl PendingRecord {
    fn bytes(&self) -> usize {
        let more = if let What::Sample(data) = &self.what { data.len() + 16 } else { 0 };
        size_of::<PendingRecord>() + more
    }
}

/// Records of the latest rounds.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    waiting: Vec<PendingRecord>,
    waiting_bytes: usize,
    /// The latest stamp of the previous round; below, the latest stamp of this round, ns.
    before_ns: u64,
    latest_ns: u64,
    ready: VecDeque<PendingRecord>,
}

impl Rounds {
    pub(crate) fn add(&mut self, record: PendingRecord) {
        self.latest_ns = self.latest_ns.max(record.time_ns);
        self.waiting_bytes += record.bytes();
        self.waiting.push(record);
        if self.waiting_bytes > WAITING_BYTES_MAX {
            self.release(self.waiting.len() / 2);
        }
    }

    /// Ends a round: no record that follows is older than the latest record of the previous round.
    pub(crate) fn end_round(&mut self) {
        self.waiting.sort_by_key(|record| record.time_ns);
        let before_ns = std::mem::replace(&mut self.before_ns, self.latest_ns);
        self.release_sorted(self.waiting.partition_point(|record| record.time_ns <= before_ns));
    }

    /// Ends the records: all waiting records can be passed on.
    pub(crate) fn end(&mut self) {
        self.release(self.waiting.len());
    }

    fn release(&mut self, count: usize) {
        self.waiting.sort_by_key(|record| record.time_ns);
        self.release_sorted(count);
    }

    fn release_sorted(&mut self, count: usize) {
        self.waiting_bytes -= self.waiting[..count].iter().map(PendingRecord::bytes).sum::<usize>();
        self.ready.extend(self.waiting.drain(..count));
    }

    /// The next record that can be passed on.
    pub(crate) fn pop(&mut self) -> Option<PendingRecord> {
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_ns: u64) -> PendingRecord {
        PendingRecord { time_ns, cpu: 0, what: What::Lost { count: 1 } }
    }

    fn told(rounds: &mut Rounds) -> Vec<u64> {
        std::iter::from_fn(|| rounds.pop()).map(|record| record.time_ns).collect()
    }

    #[test]
    fn a_record_is_told_once_the_round_after_its_own_is_over() {
        let mut rounds = Rounds::default();
        [1, 3, 2, 4].into_iter().for_each(|time_ns| rounds.add(at(time_ns)));
        rounds.end_round();
        assert_eq!(told(&mut rounds), [0; 0]);
        [4, 6, 3, 7].into_iter().for_each(|time_ns| rounds.add(at(time_ns)));
        rounds.end_round();
        assert_eq!(told(&mut rounds), [1, 2, 3, 3, 4, 4]);
        rounds.end();
        assert_eq!(told(&mut rounds), [6, 7]);
    }

    #[test]
    fn records_of_one_time_keep_their_order() {
        let mut rounds = Rounds::default();
        for cpu in [3, 1, 2] {
            rounds.add(PendingRecord { cpu, ..at(5) });
        }
        rounds.end();
        let cpus: Vec<u16> = std::iter::from_fn(|| rounds.pop()).map(|record| record.cpu).collect();
        assert_eq!(cpus, [3, 1, 2]);
    }

    #[test]
    fn without_rounds_memory_stays_bounded() {
        let mut rounds = Rounds::default();
        let sample = What::Sample(vec![0; 60_000].into());
        for time_ns in 0..6_000 {
            rounds.add(PendingRecord { time_ns, cpu: 0, what: sample.clone() });
            while rounds.pop().is_some() {}
            assert!(rounds.waiting_bytes <= WAITING_BYTES_MAX);
        }
    }
}
