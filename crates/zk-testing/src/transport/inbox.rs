//! Bytes that the server has sent and the client has not read yet.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::server::Cut;

/// Queue from the server to the reading client, shared by both ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inbox(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Bytes>,
    end: Option<Cut>,
    reader: Option<Waker>,
}

/// Next item of the queue.
#[derive(Debug)]
pub(crate) enum Incoming {
    Bytes(Bytes),
    /// End of the stream. Every later read returns it too.
    End(Cut),
}

impl Inbox {
    pub(crate) fn deliver(&self, bytes: Bytes) {
        let reader = {
            let mut state = self.lock();
            state.chunks.push_back(bytes);
            state.reader.take()
        };
        wake(reader);
    }

    /// Ends the stream after the queued chunks.
    pub(crate) fn finish(&self, how: Cut) {
        let reader = {
            let mut state = self.lock();
            state.end.get_or_insert(how);
            state.reader.take()
        };
        wake(reader);
    }

    /// Returns how the stream ends, if its end is queued.
    pub(crate) fn end(&self) -> Option<Cut> {
        self.lock().end
    }

    /// Returns the next chunk exactly as it was sent, or the end.
    pub(crate) fn poll_next(&self, cx: &Context<'_>) -> Poll<Incoming> {
        let mut state = self.lock();
        if let Some(bytes) = state.chunks.pop_front() {
            return Poll::Ready(Incoming::Bytes(bytes));
        }
        if let Some(how) = state.end {
            return Poll::Ready(Incoming::End(how));
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(reader: Option<Waker>) {
    if let Some(reader) = reader {
        reader.wake();
    }
}
