//! Connection of a client: its state, its waiting requests and its output.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use proto::{ConnectRequest, ErrorCode, SessionId, Zxid};

use super::acl::Identity;
use super::connection_id::ConnectionId;
use super::faults::{Action, Cut};
use crate::limits::{OUTSTANDING_REQUESTS_MAX, RECEIVED_BYTES_MAX, UNREAD_BYTES_MAX};

/// Connection of a client, on the server's side.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) server: usize,
    pub(crate) peer: SocketAddr,
    pub(crate) state: State,
    /// Identities of the client. They belong to the connection and not to the session.
    pub(crate) identities: Vec<Identity>,
    pub(crate) sasl: SaslProgress,
    /// Bytes received and not processed.
    pub(crate) inbound: BytesMut,
    /// Requests not answered yet, in order. Empty unless a follower waits for its leader.
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) outbox: Outbox,
    /// Fault that affects the reply to the connect request.
    pub(crate) connect_fault: Option<Action>,
    /// Bytes passed to the transport that the client has not read.
    pub(crate) unread: usize,
    /// Whether the connection is stopped in both directions.
    pub(crate) stalled: bool,
    /// Whether the client has closed the connection, and its connect request is not processed yet.
    pub(crate) is_abandoned: bool,
    /// Whether the connection is in the list of those with output.
    pub(crate) listed: bool,
    pub(crate) traffic: Traffic,
}

/// Progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The connect request has not arrived.
    Fresh,
    /// The leader has not confirmed the session.
    Connecting,
    Open {
        session_id: SessionId,
        timeout_ms: i32,
    },
    /// The server has closed the connection; queued output may remain.
    Ended,
}

/// Progress of the SASL exchange of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) enum SaslProgress {
    #[default]
    None,
    /// The server has sent this random text.
    Challenged(String),
    Over,
}

/// Request that waits, and its condition.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// A connect request waits until the leader can be reached.
    Connect(ConnectRequest),
    /// A write waits until this server has applied its transaction.
    Committed,
    /// A `sync` waits for the leader's answer, and until this server has applied the log up to
    /// `place`.
    Sync { ticket: Ticket, path: Option<String>, place: u64, sent: Instant },
    /// A reconnect waits for the leader's answer that the session is alive.
    Revalidated { request: ConnectRequest, timeout_ms: i32, sent: Instant },
    /// A request waits for earlier ones or for the leader.
    Request { ticket: Ticket, op: i32, body: Bytes },
    /// The error that a fault returns waits for the answers to earlier requests.
    Answer { ticket: Ticket, code: ErrorCode },
}

/// Data needed to reply to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) connection: ConnectionId,
    pub(crate) xid: i32,
    /// Fault that affects the reply.
    pub(crate) fault: Option<Action>,
}

/// Statistics of a connection for the four-letter words.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) last_op: Option<i32>,
    pub(crate) last_xid: i32,
    pub(crate) last_zxid: Zxid,
}

impl Waiting {
    /// Returns whether later writes of the connection wait until this is answered.
    pub(crate) fn blocks_writes(&self) -> bool {
        matches!(self, Self::Request { .. } | Self::Answer { .. })
    }
}

impl Connection {
    pub(crate) fn new(server: usize, peer: SocketAddr, identities: Vec<Identity>) -> Self {
        Self {
            server,
            peer,
            state: State::Fresh,
            identities,
            sasl: SaslProgress::None,
            inbound: BytesMut::new(),
            waiting: VecDeque::new(),
            outbox: Outbox::default(),
            connect_fault: None,
            unread: 0,
            stalled: false,
            is_abandoned: false,
            listed: false,
            traffic: Traffic::default(),
        }
    }

    pub(crate) fn session_id(&self) -> Option<SessionId> {
        match self.state {
            State::Open { session_id, .. } => Some(session_id),
            _ => None,
        }
    }

    /// Returns whether the connection ignores all further bytes from the client.
    pub(crate) fn is_deaf(&self) -> bool {
        self.state == State::Ended || self.outbox.silent || self.outbox.end.is_some()
    }

    /// Returns the number of bytes for the client that it has not read.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.unread + self.outbox.len
    }

    /// Returns whether the server accepts no further request for now: the client does not read its
    /// answers, or too many requests wait for the leader.
    pub(crate) fn is_throttled(&self) -> bool {
        self.has_too_much_unread() || self.waiting.len() >= OUTSTANDING_REQUESTS_MAX
    }

    /// Returns whether the client must read before it gets further answers.
    pub(crate) fn has_too_much_unread(&self) -> bool {
        // A held frame is sent with the next answer, so the next request must be accepted.
        self.unread_bytes() >= UNREAD_BYTES_MAX && !self.outbox.is_held()
    }

    /// Returns whether there is room for further bytes from the client.
    pub(crate) fn has_room(&self) -> bool {
        self.is_deaf() || self.inbound.len() < RECEIVED_BYTES_MAX
    }

    /// Ends the connection for the server. Queued output is still sent before the connection
    /// closes.
    pub(crate) fn end(&mut self, how: Cut) {
        self.state = State::Ended;
        self.waiting.clear();
        self.inbound.clear();
        if self.outbox.end.is_none() {
            self.outbox.end = Some(how);
        }
    }
}

/// Output queue of a connection.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    chunks: VecDeque<Chunk>,
    /// Total length of all chunks.
    len: usize,
    /// How the connection ends after all chunks.
    pub(crate) end: Option<Cut>,
    /// Whether the connection is cut silently: it sends nothing more, not even its end.
    pub(crate) silent: bool,
}

/// Bytes sent as one piece.
#[derive(Debug, Default)]
struct Chunk {
    bytes: BytesMut,
    not_before: Option<Instant>,
    /// Whether the chunk waits for the next frame and is sent together with it.
    held: bool,
    /// Whether the chunk accepts no further frame.
    sealed: bool,
}

/// Item taken from an outbox.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Bytes(Bytes),
    End(Cut),
}

impl Outbox {
    /// Appends a frame to the queue.
    pub(crate) fn push(&mut self, encode: impl FnOnce(&mut BytesMut)) {
        if self.silent || self.end.is_some() {
            return;
        }
        if self.chunks.back().is_none_or(|last| last.sealed) {
            self.chunks.push_back(Chunk::default());
        }
        if let Some(last) = self.chunks.back_mut() {
            let before = last.bytes.len();
            encode(&mut last.bytes);
            self.len += last.bytes.len() - before;
            last.held = false;
        }
    }

    /// Appends a frame changed by a fault. The caller handles the consequences for the connection.
    pub(crate) fn push_faulty(&mut self, now: Instant, fault: Action, frame: BytesMut) {
        if self.silent || self.end.is_some() {
            return;
        }
        match fault {
            Action::Delay(by) => {
                self.seal();
                self.len += frame.len();
                let not_before = Some(now + by);
                self.chunks.push_back(Chunk {
                    bytes: frame,
                    not_before,
                    sealed: true,
                    held: false,
                });
            }
            Action::Split { len } => {
                self.seal();
                self.len += frame.len();
                let mut rest = frame;
                while !rest.is_empty() {
                    let bytes = rest.split_to(len.clamp(1, rest.len()));
                    self.chunks.push_back(Chunk { bytes, sealed: true, ..Chunk::default() });
                }
            }
            Action::Coalesce => {
                self.push(|out| out.extend_from_slice(&frame));
                if let Some(last) = self.chunks.back_mut() {
                    last.held = true;
                }
            }
            Action::CutReply { after, .. } => {
                let kept = after.min(frame.len());
                self.push(|out| out.extend_from_slice(&frame[..kept]));
            }
            _ => self.push(|out| out.extend_from_slice(&frame)),
        }
    }

    /// Returns the next item that may be sent now.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Outgoing> {
        if self.silent {
            return None;
        }
        loop {
            let only = self.chunks.len() == 1;
            let Some(first) = self.chunks.front_mut() else {
                return self.end.take().map(Outgoing::End);
            };
            let waits =
                (first.held && self.end.is_none()) || first.not_before.is_some_and(|at| at > now);
            if waits {
                return None;
            }
            let bytes = first.bytes.split().freeze();
            self.len -= bytes.len();
            if only && !first.sealed {
                // Keep the buffer, to reuse its memory.
                return if bytes.is_empty() {
                    self.end.take().map(Outgoing::End)
                } else {
                    Some(Outgoing::Bytes(bytes))
                };
            }
            self.chunks.pop_front();
            if !bytes.is_empty() {
                return Some(Outgoing::Bytes(bytes));
            }
        }
    }

    /// Drops all queued output after the first `kept` bytes.
    pub(crate) fn truncate(&mut self, mut kept: usize) {
        for chunk in &mut self.chunks {
            chunk.bytes.truncate(kept);
            kept -= chunk.bytes.len();
        }
        self.len = self.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
    }

    /// Returns whether the last frame waits for the next one.
    fn is_held(&self) -> bool {
        self.chunks.back().is_some_and(|last| last.held)
    }

    fn seal(&mut self) {
        if let Some(last) = self.chunks.back_mut() {
            last.sealed = true;
            // The next frame is in another chunk, so this one no longer waits for it.
            last.held = false;
        }
    }
}
