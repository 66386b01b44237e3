//! Bytes on their way to the server, and requests that wait for a connection.

use std::collections::BTreeMap;
use std::fmt;

use bytes::BytesMut;
use proto::OpCode;

use super::deadlines::{Due, Ticket};
use super::handles::{Handle, Handles, WatchOf};

/// The bytes of the current connection that the driver has not taken yet, and
/// how far the socket has got: a request of which not one byte was written was
/// certainly not applied.
#[derive(Debug)]
pub(super) struct Outbound {
    buffer: BytesMut,
    /// Bytes ever put in, over the connection's life.
    encoded: u64,
    /// Bytes the socket has taken.
    written: u64,
    /// Frames, over all connections.
    frames: u64,
}

impl Outbound {
    pub(super) fn new() -> Self {
        Self { buffer: BytesMut::new(), encoded: 0, written: 0, frames: 0 }
    }

    /// Appends a frame; returns where in the stream it begins.
    pub(super) fn append(&mut self, encode: impl FnOnce(&mut BytesMut)) -> u64 {
        self.frames += 1;
        let (offset, before) = (self.encoded, self.buffer.len());
        encode(&mut self.buffer);
        self.encoded += u64::try_from(self.buffer.len() - before).unwrap_or(u64::MAX);
        offset
    }

    /// Changes what the request that was appended last says about its watch, which is
    /// the last byte of all that set one: the flag of exists, getData, getChildren and
    /// getChildren2, and the mode of addWatch.
    pub(super) fn set_last_byte(&mut self, byte: u8) {
        if let Some(last) = self.buffer.last_mut() {
            *last = byte;
        }
    }

    /// Hands the bytes over, by swapping when the caller has none left.
    pub(super) fn take(&mut self, into: &mut BytesMut) {
        if into.is_empty() {
            std::mem::swap(&mut self.buffer, into);
        } else {
            into.extend_from_slice(&self.buffer);
        }
        self.buffer.clear();
    }

    pub(super) fn wrote(&mut self, len: usize) {
        self.written += u64::try_from(len).unwrap_or(u64::MAX);
    }

    pub(super) fn frames(&self) -> u64 {
        self.frames
    }

    /// The bytes that the socket has not taken yet.
    pub(super) fn unwritten(&self) -> usize {
        usize::try_from(self.encoded.saturating_sub(self.written)).unwrap_or(usize::MAX)
    }

    /// True if the socket took at least a byte of the frame that begins there.
    pub(super) fn has_left(&self, offset: u64) -> bool {
        self.written > offset
    }

    /// Starts afresh for the next connection.
    pub(super) fn reset(&mut self) {
        (self.encoded, self.written) = (0, 0);
        self.buffer.clear();
    }
}

/// A request that waits for a connection, encoded but for its xid.
pub(super) struct Queued<H: Handles> {
    pub(super) ticket: Ticket,
    pub(super) op: OpCode,
    pub(super) frame: BytesMut,
    pub(super) to: H::Reply,
    pub(super) watch: Option<WatchOf<H>>,
    pub(super) due: Option<Due>,
}

impl<H: Handles> fmt::Debug for Queued<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queued").field("op", &self.op).finish_non_exhaustive()
    }
}

/// The requests that wait, oldest first.
#[derive(Debug)]
pub(super) struct Queue<H: Handles> {
    requests: BTreeMap<Ticket, Queued<H>>,
    bytes: usize,
}

impl<H: Handles> Queue<H> {
    pub(super) fn new() -> Self {
        Self { requests: BTreeMap::new(), bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn push(&mut self, request: Queued<H>) {
        self.bytes += request.frame.len();
        self.requests.insert(request.ticket, request);
    }

    /// The oldest request somebody still waits for; the abandoned ones before it
    /// are dropped, which is all it takes to cancel them.
    pub(super) fn pop(&mut self) -> Option<Queued<H>> {
        while let Some((ticket, _)) = self.requests.first_key_value() {
            let request = self.remove(*ticket)?;
            if !request.to.is_abandoned() {
                return Some(request);
            }
        }
        None
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Queued<H>> {
        let request = self.requests.remove(&ticket)?;
        self.bytes -= request.frame.len();
        Some(request)
    }
}
