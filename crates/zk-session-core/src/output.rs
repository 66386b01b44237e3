//! Outputs of the session, and the handles that callers pass in for them.

use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

use bytes::Bytes;
use proto::{ErrorCode, EventType, Zxid};

use crate::{DisconnectReason, ErrorKind, Failure, Host, Outcome, SessionEnd, SessionEvent};

/// Handles that the driver passes in and the session returns, one for each reply and one for each
/// watch.
///
/// A handle travels with its request, so the session needs neither a table of callers nor the
/// channels of a runtime. The driver on tokio uses oneshot senders, a test uses numbers.
pub trait Handles {
    /// Recipient of the reply to a request.
    type Reply: Handle;
    /// Recipient of the event of a one-shot watch.
    type Watch: Handle;
    /// Recipient of the events of a persistent watch, in order.
    type Stream: Handle + Clone;
}

/// Handle of a recipient that may stop waiting.
pub trait Handle: fmt::Debug {
    /// Returns true once the recipient has stopped waiting. The session then drops a request that
    /// is not sent yet, and removes a watch.
    fn is_abandoned(&self) -> bool {
        false
    }
}

/// Reply to a request. The recipient decodes the record.
// Closed: tests of a decoder create one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Zxid of the last transaction that the server had applied when it replied.
    pub zxid: Zxid,
    /// Encoded reply record.
    pub body: Bytes,
}

/// Event of a watch.
// Closed: the driver changes the path of an event, and so creates another event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// Type of the event.
    pub event_type: EventType,
    /// Path of the node: the full path in the session, and without its chroot in a client.
    pub path: String,
    /// Number of the transaction that changed the node. `None` from servers before 3.9.0
    /// (ZOOKEEPER-4655), and for a change that happened during a disconnect.
    pub zxid: Option<Zxid>,
}

/// Item of the stream of a persistent watch.
// Closed: a reader that ignores an item misses changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchStreamItem {
    /// A watched node changed.
    Changed(WatchEvent),
    /// The connection was lost and re-established.
    ///
    /// Changes in between are not reported, because a server keeps no events for a disconnected
    /// client (ZOOKEEPER-4698). Read the nodes again: those reads and the later events together
    /// leave nothing out. If the new server lags behind the previous one, earlier events may be
    /// repeated.
    Gap,
    /// The stream was not read for so long that the driver of the session dropped events. Read the
    /// nodes again, as after a gap. The session itself does not send this item.
    Overflow {
        /// Number of dropped events.
        lost: u64,
    },
}

/// Kind of a one-shot watch. The reply to its request decides in which list the watch is kept.
// Closed: the protocol has three lists of one-shot watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchKind {
    /// Set by getData: fires when the node changes or is deleted.
    Data,
    /// Set by exists: fires when the node changes, is deleted, or is created.
    Exists,
    /// Set by getChildren: fires when a child is created or deleted, or the node is deleted.
    Children,
}

/// Output of [`Session::poll_output`](crate::Session::poll_output).
// Closed: a driver must execute every output.
#[derive(Debug)]
pub enum Output<H: Handles> {
    /// Open a connection to this server and drop the existing one, if any. Then call
    /// [`handle_connected`](crate::Session::handle_connected) or
    /// [`handle_disconnected`](crate::Session::handle_disconnected). A host without addresses may be
    /// resolved first: see [`handle_resolved`](crate::Session::handle_resolved).
    Connect(Host),
    /// Drop the connection.
    Disconnect,
    /// Test on a separate connection whether this server accepts writes, then call
    /// [`handle_probed`](crate::Session::handle_probed).
    Probe(Host),
    /// Test whether the port of this server, which closed a connection without an answer, is for
    /// TLS only. Then call [`handle_tls_probed`](crate::Session::handle_tls_probed).
    ProbeTls(Host),
    /// The only reply to a request.
    Reply {
        /// Handle passed in with the request.
        to: H::Reply,
        /// The reply, or the failure.
        result: Result<Reply, Failure>,
    },
    /// A watch fired, or can never fire because the session is over.
    Watch {
        /// Handle passed in with the watch.
        to: H::Watch,
        /// The event, or the reason for which the session ended.
        result: Result<WatchEvent, SessionEnd>,
    },
    /// The stream of a persistent watch has an item. An error is the last one.
    Stream {
        /// Handle passed in with the watch.
        to: H::Stream,
        /// The item, or the reason for which the session ended.
        item: Result<WatchStreamItem, SessionEnd>,
    },
    /// No server accepts a first session. Either none of them is a ZooKeeper server, or the last
    /// attempt at each failed at once and
    /// [`Settings::refused_timeout`](crate::Settings::refused_timeout) has passed. The value is the
    /// cause of the last failure. Attempts continue.
    Refused(DisconnectReason),
    /// A change in the life of the session.
    Event(SessionEvent),
    /// The state of the lease changed.
    LeaseState(LeaseState),
}

/// Answer of the server that [`Output::Probe`] names.
// Closed: `Other` stands for all further answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// The server accepts writes.
    ReadWrite,
    /// Any other answer, or none in time.
    Other,
}

/// Answer of the port that [`Output::ProbeTls`] names.
// Closed: `Other` stands for all further answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsProbeAnswer {
    /// The port is for TLS only.
    TlsOnly,
    /// Any other answer, or none in time.
    Other,
}

/// State on which the validity of a guard depends. A guard is bound to one term. It is lost as soon
/// as the term differs or the session is over.
// Closed: the validity of a guard depends on every field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseState {
    /// Number of times the lease has ended.
    pub term: u64,
    /// Reason of the end, set from the call that begins to end the session. A server may end the
    /// session and grant its locks to others long before its reply arrives.
    pub closing: Option<SessionEnd>,
    /// Reason of the end, set once the session is over.
    pub ended: Option<SessionEnd>,
    /// Time for which this process did not run when the lease last ended, if that is why it ended.
    pub paused: Option<Duration>,
}

/// Recipient of a reply, and the deadline of the reply. A waiter made from a handle alone uses the
/// request timeout of [`Settings`](crate::Settings).
// Closed: callers create it with both fields.
#[derive(Debug)]
pub struct ReplyTo<R> {
    /// Handle of the recipient.
    pub to: R,
    /// Deadline of the reply, if not the one that follows from the settings.
    pub deadline: Option<Instant>,
}

impl<R> From<R> for ReplyTo<R> {
    fn from(to: R) -> Self {
        Self { to, deadline: None }
    }
}

/// Handle of a watch that was cancelled with its request.
// Closed: a driver must drop the handle of every kind of watch.
#[derive(Debug)]
pub enum Forgotten<H: Handles> {
    /// Handle of a one-shot watch.
    Watch(H::Watch),
    /// Handle of a persistent watch.
    Stream(H::Stream),
}

/// Outputs that the driver has not taken yet, in order.
#[derive(Debug)]
pub(crate) struct Outputs<H: Handles>(VecDeque<Output<H>>);

impl<H: Handles> Outputs<H> {
    pub(crate) fn new() -> Self {
        Self(VecDeque::new())
    }

    pub(crate) fn pop(&mut self) -> Option<Output<H>> {
        self.0.pop_front()
    }

    /// Moves all outputs behind those in `into`.
    pub(crate) fn take(&mut self, into: &mut VecDeque<Output<H>>) {
        if into.is_empty() {
            std::mem::swap(&mut self.0, into);
        } else {
            into.append(&mut self.0);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, output: Output<H>) {
        self.0.push_back(output);
    }

    pub(crate) fn event(&mut self, event: SessionEvent) {
        self.push(Output::Event(event));
    }

    /// Passes the server's reply to a caller.
    pub(crate) fn answer(&mut self, to: H::Reply, code: ErrorCode, reply: Reply) {
        let result = if code.is_ok() {
            Ok(reply)
        } else {
            Err((ErrorKind::Server(code), Outcome::NotApplied))
        };
        self.push(Output::Reply { to, result });
    }

    pub(crate) fn fail(&mut self, to: H::Reply, kind: ErrorKind, outcome: Outcome) {
        self.push(Output::Reply { to, result: Err((kind, outcome)) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Patient;

    impl Handle for Patient {}

    #[test]
    fn handle_waits_by_default() {
        assert!(!Patient.is_abandoned());
    }

    #[test]
    fn reply_prints_its_zxid_in_hexadecimal() {
        let reply = Reply { zxid: Zxid(0x1_0000_0002), body: Bytes::from_static(b"ab") };
        assert_eq!(format!("{reply:?}"), "Reply { zxid: 0x100000002, body: b\"ab\" }");
    }
}
