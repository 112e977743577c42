//! The queue of encoded bytes between the drain and the file, so that a slow disk never holds up the drain.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

/// The queue is full when it holds this many bytes.
const QUEUE_BYTES_MAX: usize = 256 << 20;

#[derive(Default)]
struct State {
    pieces: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Whether the last piece ends a round of the drain: the writer thread may then write them all.
    is_round_over: bool,
    is_closed: bool,
    error: Option<io::Error>,
}

/// The destination of the bytes: a file, or the memory of a flight recorder.
pub(crate) trait Destination: Send + 'static {
    /// Takes the bytes that the trace's writer wrote with one call.
    fn take(&mut self, piece: &[u8]) -> io::Result<()>;

    /// Makes sure that the bytes taken so far survive a crash.
    fn sync(&mut self) -> io::Result<()>;
}

impl Destination for File {
    fn take(&mut self, piece: &[u8]) -> io::Result<()> {
        self.write_all(piece)
    }

    fn sync(&mut self) -> io::Result<()> {
        sync(self)
    }
}

/// The state that the drain and the writer thread share.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the disk is so far behind that nothing more can be taken.
    pub(crate) fn is_full(&self) -> bool {
        self.lock().bytes >= QUEUE_BYTES_MAX
    }

    /// Whether writing has failed; from then on nothing is written any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.lock().error.is_some()
    }

    /// The error of the failed write, if any.
    pub(crate) fn take_error(&self) -> Option<io::Error> {
        self.lock().error.take()
    }

    /// Lets the writer thread write all bytes that came so far to the disk.
    pub(crate) fn end_round(&self) {
        self.lock().is_round_over = true;
        self.changed.notify_one();
    }

    /// Lets the writer thread end after all bytes that came so far.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// Passes the bytes to the destination until the queue is closed or writing fails.
    pub(crate) fn write_to(&self, to: &mut dyn Destination) {
        loop {
            let mut state = self.lock();
            while !state.is_round_over && !state.is_closed {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let is_last = state.is_closed;
            state.is_round_over = false;
            let pieces = std::mem::take(&mut state.pieces);
            drop(state);
            let taken: usize = pieces.iter().map(Vec::len).sum();
            let result = pieces.iter().try_for_each(|piece| to.take(piece)).and_then(|()| to.sync());
            let mut state = self.lock();
            state.bytes -= taken;
            if let Err(error) = result {
                state.error = Some(error);
                return;
            }
            if is_last {
                return;
            }
        }
    }
}

fn sync(file: &File) -> io::Result<()> {
    match rustix::fs::fdatasync(file) {
        // Pipes and devices have nothing to synchronise.
        Ok(()) | Err(Errno::INVAL | Errno::ROFS | Errno::NOTSUP) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The drain's end of the queue.
pub(crate) struct Sink(pub(crate) Arc<Queue>);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        state.bytes += bytes.len();
        state.pieces.push_back(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
