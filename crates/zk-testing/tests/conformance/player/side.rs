//! A server as its clients see it, and the server in process. A connection takes bytes and returns frames.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use zk_testing::server::{Ensemble, Output};
use zk_testing::{ConnectionId, Settings};

use super::{Outcome, super_digest};

/// Result of a read from a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Frame(Bytes),
    Closed,
    /// No frame arrived within the time limit.
    Silence,
}

/// A server from the point of view of its clients.
pub(crate) trait Side {
    /// Opens a connection and returns its number.
    fn connect(&mut self) -> Outcome<usize>;
    fn send(&mut self, connection: usize, bytes: &[u8]);
    fn hear(&mut self, connection: usize) -> Outcome<Heard>;
    /// Closes a connection at the client's end.
    fn hang_up(&mut self, connection: usize);
}

/// The server in process.
pub(crate) struct Ours {
    ensemble: Ensemble,
    /// Each packet arrives a millisecond after the one before it.
    now: Instant,
    inboxes: HashMap<usize, Inbox>,
    numbers: HashMap<ConnectionId, usize>,
    next: usize,
}

struct Inbox {
    id: ConnectionId,
    bytes: BytesMut,
    is_closed: bool,
}

impl Ours {
    pub(crate) fn new(settings: Settings, now: Instant) -> Self {
        let settings = settings
            .enforce_quota()
            .super_digest(super_digest())
            .container_check_interval(Duration::from_secs(1_000_000));
        let ensemble = Ensemble::new(settings, now);
        Self { ensemble, now, inboxes: HashMap::new(), numbers: HashMap::new(), next: 0 }
    }

    fn drain(&mut self) {
        while let Some(output) = self.ensemble.poll_output() {
            let (Output::Send(id, _) | Output::Close(id, _)) = &output;
            let Some(number) = self.numbers.get(id) else { continue };
            let Some(inbox) = self.inboxes.get_mut(number) else { continue };
            match output {
                Output::Send(_, bytes) => inbox.bytes.extend_from_slice(&bytes),
                Output::Close(..) => inbox.is_closed = true,
            }
        }
    }
}

impl Side for Ours {
    fn connect(&mut self) -> Outcome<usize> {
        let peer = ([127, 0, 0, 1], 4000).into();
        let id = self.ensemble.accept(self.now, 0, peer)?;
        self.next += 1;
        self.numbers.insert(id, self.next);
        let inbox = Inbox { id, bytes: BytesMut::new(), is_closed: false };
        self.inboxes.insert(self.next, inbox);
        self.drain();
        Ok(self.next)
    }

    fn send(&mut self, connection: usize, bytes: &[u8]) {
        let Some(inbox) = self.inboxes.get(&connection) else { return };
        let (id, mut bytes) = (inbox.id, BytesMut::from(bytes));
        self.now += Duration::from_millis(1);
        self.ensemble.receive(self.now, id, &mut bytes);
        self.drain();
    }

    fn hear(&mut self, connection: usize) -> Outcome<Heard> {
        let Some(inbox) = self.inboxes.get_mut(&connection) else { return Ok(Heard::Closed) };
        Ok(match split(&mut inbox.bytes) {
            Some(frame) => Heard::Frame(frame),
            None if inbox.is_closed => Heard::Closed,
            None => Heard::Silence,
        })
    }

    fn hang_up(&mut self, connection: usize) {
        if let Some(inbox) = self.inboxes.remove(&connection) {
            self.numbers.remove(&inbox.id);
            self.ensemble.disconnected(self.now, inbox.id);
            self.drain();
        }
    }
}

/// Splits off one frame, without its length.
pub(crate) fn split(inbox: &mut BytesMut) -> Option<Bytes> {
    let len = usize::try_from(i32::from_be_bytes(*inbox.first_chunk::<4>()?)).ok()?;
    if inbox.len() < 4 + len {
        return None;
    }
    let frame = inbox.split_to(4 + len);
    Some(frame.freeze().slice(4..))
}
