//! One connection of a client: what it is, what waits to be answered, what waits to be sent.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use proto::ConnectRequest;

use super::acl::{self, Identity};
use super::faults::{Action, Cut};
use crate::limits::{OUTSTANDING_REQUESTS_MAX, RECEIVED_BYTES_MAX, UNREAD_BYTES_MAX};

/// A connection, as whoever moves its bytes knows it. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub(crate) u64);

/// A connection, as the server knows it.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) server: usize,
    pub(crate) peer: SocketAddr,
    pub(crate) state: State,
    /// Who it is. They belong to the connection, not to the session.
    pub(crate) identities: Vec<Identity>,
    /// Bytes received and not processed.
    pub(crate) inbound: BytesMut,
    /// Requests not answered yet, in order. Empty unless a follower waits for its leader.
    pub(crate) waiting: VecDeque<Waiting>,
    pub(crate) outbox: Outbox,
    /// Bytes handed to the transport that the client has not read.
    pub(crate) unread: usize,
    /// Nothing goes in or out for now.
    pub(crate) stalled: bool,
    /// Whether it is in the list of connections with something to send.
    pub(crate) listed: bool,
    pub(crate) traffic: Traffic,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No connect request yet.
    Fresh,
    /// The leader has not said yes yet.
    Connecting,
    Open {
        session_id: i64,
        timeout_ms: i32,
    },
    /// Over, but for what is still to be sent.
    Ended,
}

/// What a connection waits for.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// The leader, to be asked for a session.
    Connect(ConnectRequest),
    /// A transaction of its own, to be applied here.
    Committed,
    /// The leader's answer to a `sync`, and all transactions up to this place in the log, to be
    /// applied here.
    Sync { ticket: Ticket, path: Option<String>, place: u64, sent: Instant },
    /// The leader's answer that the session is alive.
    Revalidated { request: ConnectRequest, timeout_ms: i32, sent: Instant },
    /// Its turn, or the leader.
    Request { ticket: Ticket, op: i32, body: Bytes },
}

/// A request, as far as its reply is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    pub(crate) connection: ConnectionId,
    pub(crate) xid: i32,
    /// What is to happen to the reply.
    pub(crate) fault: Option<Action>,
}

/// What the four-letter words tell of a connection.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) last_op: Option<i32>,
    pub(crate) last_xid: i32,
    pub(crate) last_zxid: i64,
}

impl Connection {
    pub(crate) fn new(server: usize, peer: SocketAddr) -> Self {
        Self {
            server,
            peer,
            state: State::Fresh,
            identities: vec![acl::of_address(peer.ip())],
            inbound: BytesMut::new(),
            waiting: VecDeque::new(),
            outbox: Outbox::default(),
            unread: 0,
            stalled: false,
            listed: false,
            traffic: Traffic::default(),
        }
    }

    pub(crate) fn session_id(&self) -> Option<i64> {
        match self.state {
            State::Open { session_id, .. } => Some(session_id),
            _ => None,
        }
    }

    /// Whether nothing it receives is heard any more.
    pub(crate) fn is_deaf(&self) -> bool {
        self.state == State::Ended || self.outbox.silent || self.outbox.end.is_some()
    }

    /// Bytes for the client that it has not read.
    pub(crate) fn unread_bytes(&self) -> usize {
        self.unread + self.outbox.len
    }

    /// Whether the server takes no further request for now: the client does not read its answers,
    /// or too many requests wait for the leader.
    pub(crate) fn is_throttled(&self) -> bool {
        self.has_too_much_unread() || self.waiting.len() >= OUTSTANDING_REQUESTS_MAX
    }

    /// Whether the client has to read before it gets further answers.
    pub(crate) fn has_too_much_unread(&self) -> bool {
        // A held frame leaves with the answer to the next request, which must be taken for that.
        self.unread_bytes() >= UNREAD_BYTES_MAX && !self.outbox.is_held()
    }

    /// Whether there is room for further bytes from the client.
    pub(crate) fn has_room(&self) -> bool {
        self.is_deaf() || self.inbound.len() < RECEIVED_BYTES_MAX
    }

    /// Ends it for the server; what is queued is still sent, then it is closed.
    pub(crate) fn end(&mut self, how: Cut) {
        self.state = State::Ended;
        self.waiting.clear();
        self.inbound.clear();
        if self.outbox.end.is_none() {
            self.outbox.end = Some(how);
        }
    }
}

/// What is to be sent, and when.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    chunks: VecDeque<Chunk>,
    /// The bytes in all chunks.
    len: usize,
    /// How the connection ends, behind all chunks.
    pub(crate) end: Option<Cut>,
    /// Nothing leaves any more, and nobody is told.
    pub(crate) silent: bool,
}

/// Bytes that are sent in one go.
#[derive(Debug, Default)]
struct Chunk {
    bytes: BytesMut,
    not_before: Option<Instant>,
    /// Waits for the next frame, to leave together with it.
    held: bool,
    /// Takes no further frame.
    sealed: bool,
}

/// What comes out of an outbox.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Bytes(Bytes),
    End(Cut),
}

impl Outbox {
    /// Appends a frame behind everything else.
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

    /// Appends a frame that a fault happens to. What follows the frame is up to the caller.
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

    /// The next thing to leave, if any may leave now.
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
                // The buffer stays, and its memory with it.
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

    /// Keeps this many bytes of what has not left yet.
    pub(crate) fn truncate(&mut self, mut kept: usize) {
        for chunk in &mut self.chunks {
            chunk.bytes.truncate(kept);
            kept -= chunk.bytes.len();
        }
        self.len = self.chunks.iter().map(|chunk| chunk.bytes.len()).sum();
    }

    /// Whether the last frame waits for the next one.
    fn is_held(&self) -> bool {
        self.chunks.back().is_some_and(|last| last.held)
    }

    fn seal(&mut self) {
        if let Some(last) = self.chunks.back_mut() {
            last.sealed = true;
            // What it has waited for comes now, by itself.
            last.held = false;
        }
    }
}
