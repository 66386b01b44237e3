//! A connection that delivers bytes to the client in steps.
//!
//! Each frame takes two steps: its first bytes, then the rest.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, ReadBuf};
use zk_testing::{MemoryStream, TestServer};

use crate::tapped::{Tap, Tapped};

/// Length of the first step of a frame, which ends within the header.
const FIRST_LEN: usize = 5;

/// Limit on the steps that the client may still read.
///
/// The limit is off at first.
#[derive(Clone, Default)]
pub(crate) struct Steps(Arc<Mutex<Allowed>>);

#[derive(Default)]
struct Allowed {
    /// `None` means that the limit is off.
    left: Option<usize>,
    reader: Option<Waker>,
}

impl Steps {
    pub(crate) fn allow(&self, steps: usize) {
        self.set(Some(steps));
    }

    pub(crate) fn allow_all(&self) {
        self.set(None);
    }

    fn set(&self, steps: Option<usize>) {
        let mut allowed = self.lock();
        allowed.left = steps;
        let reader = allowed.reader.take();
        drop(allowed);
        reader.into_iter().for_each(Waker::wake);
    }

    /// Returns true unless the limit is used up.
    pub(crate) fn are_left(&self) -> bool {
        self.lock().left != Some(0)
    }

    /// Uses one step, and returns true.
    ///
    /// Returns false if no step is left. A change of the limit then wakes the reader.
    fn take(&self, cx: &Context<'_>) -> bool {
        let mut allowed = self.lock();
        match &mut allowed.left {
            None => true,
            Some(0) => {
                allowed.reader = Some(cx.waker().clone());
                false
            }
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Allowed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a connector to the only server, over a stepped stream.
pub(crate) fn stepped(server: &TestServer, steps: &Steps) -> Tapped<Stepped> {
    let tap = Stepped { steps: steps.clone(), arrived: Vec::new(), pieces: VecDeque::new() };
    Tapped { server: server.clone(), tap }
}

#[derive(Clone)]
pub(crate) struct Stepped {
    steps: Steps,
    /// Bytes of an incomplete frame.
    arrived: Vec<u8>,
    /// Pieces that the client has not read.
    pieces: VecDeque<Vec<u8>>,
}

impl Stepped {
    /// Reads all bytes that the server has sent.
    ///
    /// Returns `Ready` at the end of the stream and on an error. Unread pieces are then lost.
    fn poll_server(
        &mut self,
        stream: &mut MemoryStream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut chunk = [0; 4096];
            let mut buf = ReadBuf::new(&mut chunk);
            match Pin::new(&mut *stream).poll_read(cx, &mut buf) {
                Poll::Ready(Ok(())) if !buf.filled().is_empty() => {
                    self.arrived.extend_from_slice(buf.filled());
                }
                end_or_pending => return end_or_pending,
            }
        }
    }

    fn cut_into_pieces(&mut self) {
        while let Some(len) = self.arrived.first_chunk::<4>() {
            let len = 4 + usize::try_from(i32::from_be_bytes(*len)).unwrap();
            if self.arrived.len() < len {
                return;
            }
            let rest = self.arrived.split_off(len);
            let mut first = std::mem::replace(&mut self.arrived, rest);
            let second = first.split_off(FIRST_LEN);
            self.pieces.extend([first, second]);
        }
    }
}

impl Tap for Stepped {
    fn poll_read(
        &mut self,
        stream: &mut MemoryStream,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let ended = self.poll_server(stream, cx);
        if ended.is_ready() {
            return ended;
        }
        self.cut_into_pieces();
        if self.pieces.is_empty() || !self.steps.take(cx) {
            return Poll::Pending;
        }
        let piece = self.pieces.pop_front().unwrap_or_default();
        buf.put_slice(&piece);
        Poll::Ready(Ok(()))
    }
}
