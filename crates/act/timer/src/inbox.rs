//! Messages from other threads to a thread that sleeps until it is told.

use crate::sync::{AtomicBool, Mutex, Ordering, PoisonError};

/// Messages that wait for their reader.
#[derive(Debug)]
pub(crate) struct Inbox<M> {
    messages: Mutex<Vec<M>>,
    /// The reader was told, or will be, and has not taken the messages since.
    is_told: AtomicBool,
}

impl<M> Inbox<M> {
    pub(crate) fn new() -> Inbox<M> {
        Inbox { messages: Mutex::new(Vec::new()), is_told: AtomicBool::new(false) }
    }

    /// Leaves a message. Returns whether the caller must tell the reader, which may be asleep; otherwise a
    /// previous caller does.
    pub(crate) fn push(&self, message: M) -> bool {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        // After the message: a reader that takes this mark back finds the message.
        !self.is_told.swap(true, Ordering::AcqRel)
    }

    /// Whether messages may wait.
    #[inline]
    pub(crate) fn may_have_messages(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// Takes all messages; `taken` must be empty, and its memory is used for the next ones. Only the reader
    /// calls this.
    pub(crate) fn take(&self, taken: &mut Vec<M>) {
        // Before the messages: one that is missed here was left later, and its sender tells the reader.
        if self.is_told.swap(false, Ordering::AcqRel) {
            std::mem::swap(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner), taken);
        }
    }
}
