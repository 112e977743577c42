//! Keeps in memory the latest part of a trace that is being written, and writes that part as a trace of its
//! own on request.

use std::collections::VecDeque;
use std::io::{self, Read, Write};

use crate::format::{FRAME_RESTART, MAGIC, SYNC};
use crate::reader::{ReadError, Reader};
use crate::writer::{Options, Writer, Written};

/// The latest frames of one trace. They begin at a restart, so that all their blocks are whole.
#[derive(Clone, Debug)]
pub struct Flight {
    window_ns: u64,
    bytes_max: usize,
    header: Vec<u8>,
    groups: VecDeque<Group>,
    bytes: usize,
}

/// The frames that came between two restarts.
#[derive(Clone, Debug)]
struct Group {
    bytes: Vec<u8>,
    began_ns: u64,
}

/// Readings of two clocks at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockReadings {
    /// The clock of the trace, ns.
    pub trace_ns: u64,
    /// The wall clock, ns since the UNIX epoch.
    pub unix_ns: u64,
}

/// The reason why the kept frames could not be written as a trace.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The kept frames cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The new trace cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// No event has been kept yet.
    #[error("nothing has been recorded yet")]
    Empty,
}

impl Flight {
    /// Keeps the frames of the latest `window_ns`, or the latest `bytes_max` bytes if these are less. The
    /// trace should restart several times in that window.
    pub const fn new(window_ns: u64, bytes_max: usize) -> Flight {
        Flight { window_ns, bytes_max, header: Vec::new(), groups: VecDeque::new(), bytes: 0 }
    }

    /// Takes the bytes that a [`Writer`] wrote with one call, at `now_ns` of any clock, always the same, ns.
    pub fn take(&mut self, piece: &[u8], now_ns: u64) {
        if piece.starts_with(&MAGIC) {
            self.header = piece.to_vec();
            return;
        }
        if piece.starts_with(&[SYNC, FRAME_RESTART]) || self.groups.is_empty() {
            self.groups.push_back(Group { bytes: Vec::new(), began_ns: now_ns });
            self.forget(now_ns);
        }
        if let Some(group) = self.groups.back_mut() {
            group.bytes.extend_from_slice(piece);
            self.bytes += piece.len();
        }
    }

    /// Drops the oldest group while the group after it began before the window, or while all groups take too
    /// much memory. The newest group stays.
    fn forget(&mut self, now_ns: u64) {
        while let Some(second) = self.groups.get(1) {
            let is_old = now_ns.saturating_sub(second.began_ns) >= self.window_ns;
            if !is_old && self.bytes <= self.bytes_max {
                return;
            }
            self.bytes -= self.groups.pop_front().map_or(0, |group| group.bytes.len());
        }
    }

    /// Writes the kept frames as a trace of their own, which begins with their first event. The date of its
    /// start follows from the present readings of the clocks: the wall clock may have been set since the
    /// recording began.
    ///
    /// # Errors
    /// If no event was kept, or `sink` fails.
    pub fn write<W: Write>(
        &self,
        sink: W,
        options: Options,
        now: ClockReadings,
    ) -> Result<(W, Written), KeepError> {
        let header: Box<dyn Read + '_> = Box::new(self.header.as_slice());
        let source =
            self.groups.iter().fold(header, |before, group| Box::new(before.chain(group.bytes.as_slice())));
        let mut reader = Reader::new(source)?;
        let mut header = reader.header().clone();
        let first = reader.next_event()?.ok_or(KeepError::Empty)?.clone();
        let first_ns = first.time_ns;
        header.start_ns = first_ns;
        let since_ns = now.trace_ns.saturating_sub(first_ns);
        header.start_unix_ns = header.start_unix_ns.map(|_| now.unix_ns.saturating_sub(since_ns));
        let mut writer = Writer::new(sink, &header, options)?;
        writer.event(&first)?;
        let mut round_ns = first_ns;
        while let Some(stamped) = reader.next_event()? {
            writer.event(stamped)?;
            // Rounds limit the memory that a reader needs to merge the CPUs.
            if stamped.time_ns >= round_ns + ROUND_NS {
                round_ns = stamped.time_ns;
                writer.round(round_ns - 1)?;
            }
        }
        Ok(writer.finish(reader.totals().end_ns)?)
    }
}

/// The time between two rounds of the written trace, ns: about as long as the recorder's rounds.
const ROUND_NS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;
    use crate::event::{Event, Mark, Stamped, Tid};
    use crate::header::Header;

    const S: u64 = 1_000_000_000;

    /// A flight, and the time of the latest event, ns.
    #[derive(Clone)]
    struct FlightSink(Rc<RefCell<(Flight, u64)>>);

    impl Write for FlightSink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let (flight, now_ns) = &mut *self.0.borrow_mut();
            flight.take(bytes, *now_ns);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Writes a trace of `seconds` with a mark every 10 ms. Returns the numbers of the kept marks.
    fn kept(seconds: u64, bytes_max: usize) -> Vec<u64> {
        let header = Header { cpus: 1, start_ns: 5 * S, start_unix_ns: Some(S), ..Header::default() };
        let kept = FlightSink(Rc::new(RefCell::new((Flight::new(2 * S, bytes_max), 0))));
        let options = Options { block_ns: S / 4, ..Options::default() };
        let mut writer = Writer::new(kept.clone(), &header, options).expect("memory takes everything");
        for step in 0..seconds * 100 {
            let time_ns = header.start_ns + step * S / 100;
            let text = step.to_string().into();
            writer
                .event(&Stamped { time_ns, cpu: 0, event: Event::Mark(Mark { tid: Tid(7), text }) })
                .expect("memory takes everything");
            kept.0.borrow_mut().1 = time_ns;
            if step % 10 == 9 {
                writer.round(time_ns).expect("memory takes everything");
            }
        }
        // The wall clock was set to another century since the recording began.
        let now = ClockReadings { trace_ns: (5 + seconds) * S, unix_ns: 4_000_000_000 * S };
        let written = kept.0.borrow().0.write(Vec::new(), Options::default(), now);
        let (bytes, _) = written.expect("it is a trace");
        let mut reader = Reader::new(bytes.as_slice()).expect("it reads");
        let mut marks = Vec::new();
        while let Some(stamped) = reader.next_event().expect("it reads") {
            if let Event::Mark(mark) = &stamped.event {
                marks.push(mark.text.parse().expect("a number"));
            }
        }
        assert_eq!(reader.totals().lost, 0);
        assert_eq!(reader.header().start_ns, 5 * S + marks[0] * S / 100);
        let since_ns = now.trace_ns - reader.header().start_ns;
        assert_eq!(reader.header().start_unix_ns, Some(now.unix_ns - since_ns));
        marks
    }

    #[test]
    fn the_latest_seconds_are_kept_and_nothing_between_is_missing() {
        let marks = kept(10, usize::MAX);
        assert!(marks.windows(2).all(|two| two[1] == two[0] + 1), "{marks:?}");
        assert_eq!(marks.last(), Some(&999));
        assert!((200..=240).contains(&marks.len()), "{}", marks.len());
    }

    #[test]
    fn a_trace_shorter_than_the_window_is_kept_whole() {
        assert_eq!(kept(1, usize::MAX).len(), 100);
    }

    #[test]
    fn less_is_kept_where_there_is_no_room_for_more() {
        assert!(kept(10, 1000).len() < 150);
    }
}
