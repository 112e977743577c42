//! Messages from other threads to a thread that sleeps until it is woken.

use crate::sync::{AtomicBool, Mutex, Ordering, PoisonError};

/// Messages that wait for their reader.
#[derive(Debug)]
pub(crate) struct Inbox<M> {
    messages: Mutex<Vec<M>>,
    /// Whether the reader was woken, or will be, and has not taken the messages since.
    is_told: AtomicBool,
}

impl<M> Inbox<M> {
    pub(crate) fn new() -> Inbox<M> {
        Inbox { messages: Mutex::new(Vec::new()), is_told: AtomicBool::new(false) }
    }

    /// Adds a message. Returns whether the caller must wake the reader, which may be asleep; otherwise a
    /// previous caller wakes it.
    pub(crate) fn push(&self, message: M) -> bool {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        // The flag is set after the message is added: a reader that clears the flag finds the message.
        !self.is_told.swap(true, Ordering::AcqRel)
    }

    /// Whether messages may wait.
    #[inline]
    pub(crate) fn may_have_messages(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// Takes all messages; `taken` must be empty, and its memory is used for later messages. Only the
    /// reader calls this.
    pub(crate) fn take(&self, taken: &mut Vec<M>) {
        // The flag is cleared first: a message missed here came later, and its sender wakes the reader.
        if self.is_told.swap(false, Ordering::AcqRel) {
            std::mem::swap(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner), taken);
        }
    }
}
