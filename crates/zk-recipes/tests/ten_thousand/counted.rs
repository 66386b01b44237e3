//! A connection that counts its traffic, and futures that count their polls.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zk_testing::{MemoryStream, TestServer};

use crate::tapped::{Tap, Tapped};

/// Traffic since the last call of [`Traffic::take`].
#[derive(Clone, Default)]
pub(crate) struct Traffic(Arc<Mutex<Sums>>);

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// Requests, without heartbeats and transactions.
    pub(crate) requests: usize,
    /// Requests for a list of children.
    pub(crate) lists: usize,
    pub(crate) bytes_out: usize,
    pub(crate) bytes_in: usize,
}

impl Traffic {
    /// Returns the traffic since the last call.
    pub(crate) fn take(&self) -> Sums {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, change: impl FnOnce(&mut Sums)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Returns a connector to the only server.
pub(crate) fn counted(server: &TestServer, traffic: &Traffic) -> Tapped<Counting> {
    Tapped { server: server.clone(), tap: Counting(traffic.clone(), false) }
}

/// The tap, and whether the connection has sent its connect request. Allocations of the server are not
/// counted.
#[derive(Clone)]
pub(crate) struct Counting(Traffic, bool);

impl Tap for Counting {
    fn stream(&self, server: &TestServer) -> io::Result<MemoryStream> {
        uncounted(|| server.stream(0))
    }

    fn poll_read(
        &mut self,
        stream: &mut MemoryStream,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = uncounted(|| Pin::new(stream).poll_read(cx, buf));
        self.0.add(|sums| sums.bytes_in += buf.filled().len() - before);
        read
    }

    fn poll_write(
        &mut self,
        stream: &mut MemoryStream,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = uncounted(|| Pin::new(stream).poll_write(cx, bytes));
        assert!(matches!(written, Poll::Ready(Ok(len)) if len == bytes.len()), "it takes it all");
        // The connect request has no opcode.
        if std::mem::replace(&mut self.1, true) {
            self.0.add(|sums| {
                sums.bytes_out += bytes.len();
                count(bytes, sums);
            });
        }
        written
    }
}

fn count(mut bytes: &[u8], sums: &mut Sums) {
    const PING: i32 = 11;
    const GET_CHILDREN2: i32 = 12;
    const MULTI: i32 = 14;
    let int = |bytes: &[u8]| i32::from_be_bytes(bytes[..4].try_into().unwrap());
    while !bytes.is_empty() {
        let op = int(&bytes[8..]);
        sums.requests += usize::from(op != PING && op != MULTI);
        sums.lists += usize::from(op == GET_CHILDREN2);
        bytes = &bytes[4 + usize::try_from(int(bytes)).unwrap()..];
    }
}

fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let mut result = None;
    allocation_counter::opt_out(|| result = Some(work()));
    result.unwrap()
}

/// Counter of the polls of some futures.
#[derive(Clone, Default)]
pub(crate) struct Polls(Arc<AtomicUsize>);

impl Polls {
    pub(crate) fn counted<F: Future>(&self, future: F) -> PolledFuture<F> {
        PolledFuture { count: self.0.clone(), future: Box::pin(future) }
    }

    /// Returns the number of polls since the last call.
    pub(crate) fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

pub(crate) struct PolledFuture<F> {
    count: Arc<AtomicUsize>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for PolledFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.future.as_mut().poll(cx)
    }
}
