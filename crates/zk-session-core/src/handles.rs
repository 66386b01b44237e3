//! Outputs of the session: replies, watch events, session events, and orders to the driver.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use proto::{EventType, OpCode, WatcherType};

use super::Failure;
use super::watches::PendingWatch;
use crate::{DisconnectReason, Host, SessionEnd, SessionEvent};

/// Handles that the driver passes in and the session returns, one for each reply and one for each
/// watch. The driver uses oneshot senders, a test uses numbers.
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
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// Zxid of the last transaction that the server had applied when it replied.
    pub zxid: i64,
    /// Encoded reply record.
    pub body: Bytes,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("zxid", &format_args!("{:#x}", self.zxid))
            .field("body", &self.body)
            .finish()
    }
}

/// Event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchEvent {
    /// Type of the event.
    pub event_type: EventType,
    /// Path of the node: the full path in the session, and without its chroot in a client.
    pub path: String,
}

/// Item of the stream of a persistent watch.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchKind {
    /// Set by getData: fires when the node changes or is deleted.
    Data,
    /// Set by exists: fires when the node changes, is deleted, or is created.
    Exists,
    /// Set by getChildren: fires when a child is created or deleted, or the node is deleted.
    Children,
}

/// Output of [`Session::poll_output`](super::Session::poll_output).
#[derive(Debug)]
pub enum Output<H: Handles> {
    /// Open a connection to this server and drop the existing one, if any. Then call
    /// [`handle_connected`](super::Session::handle_connected) or
    /// [`handle_disconnected`](super::Session::handle_disconnected).
    Connect(Host),
    /// Drop the connection.
    Disconnect,
    /// Test on a separate connection whether this server accepts writes, then call
    /// [`handle_probed`](super::Session::handle_probed).
    Probe(Host),
    /// Test whether the port of this server, which closed a connection without an answer, is for
    /// TLS only. Then call [`handle_tls_probed`](super::Session::handle_tls_probed).
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
    /// A persistent watch has a notification. An error is the last one.
    Stream {
        /// Handle passed in with the watch.
        to: H::Stream,
        /// The notification, or the reason for which the session ended.
        notice: Result<WatchStreamItem, SessionEnd>,
    },
    /// No server accepts a first session. Either none of them is a ZooKeeper server, or the last
    /// attempt at each failed at once and
    /// [`Settings::refused_timeout`](super::Settings::refused_timeout) has passed. The value is the
    /// cause of the last failure. Attempts continue.
    Refused(DisconnectReason),
    /// A change in the life of the session.
    Event(SessionEvent),
    /// The state of the lease changed.
    LeaseState(LeaseState),
}

/// State on which the validity of a guard depends. A guard is bound to one term. It is lost as soon
/// as the term differs or the session is over.
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
    pub paused: Option<std::time::Duration>,
}

/// Recipient of a reply, and the deadline of the reply. A waiter made from a handle alone uses the
/// request timeout of [`Settings`](super::Settings).
#[derive(Debug)]
pub struct Waiter<R> {
    /// Handle of the recipient.
    pub to: R,
    /// Deadline of the reply, if not the one that follows from the settings.
    pub deadline: Option<std::time::Instant>,
}

impl<R> From<R> for Waiter<R> {
    fn from(to: R) -> Self {
        Self { to, deadline: None }
    }
}

/// Recipient of a request, to whom its reply belongs.
#[derive(Debug)]
pub(super) enum Recipient<H: Handles> {
    Caller(H::Reply),
    /// An auth packet, by the index of its credential.
    Credential(usize),
    /// A setWatches or addWatch request for watches that are registered.
    Rearm,
    /// A removeWatches request on this path.
    Removal(Arc<str>, WatcherType),
    /// An empty transaction that renews the lease.
    Heartbeat,
    /// The sync before the listing of a clean-up task, by the task's number.
    CatchUp(super::deadlines::RequestId),
    /// No owner, because the caller has stopped waiting.
    Nobody,
    /// A clean-up task, by its number.
    CleanupTask(super::deadlines::RequestId),
    /// The closeSession request.
    Close,
}

/// Watch that a request sets.
pub(super) type WatchOf<H> = PendingWatch<<H as Handles>::Watch, <H as Handles>::Stream>;

/// Request that was sent.
#[derive(Debug)]
pub(super) struct Sent<H: Handles> {
    pub(super) op: OpCode,
    pub(super) at: std::time::Instant,
    /// Offset of its frame in the connection's byte stream.
    pub(super) offset: u64,
    pub(super) owner: Recipient<H>,
    pub(super) watch: Option<WatchOf<H>>,
    /// Deadline of the reply, if the caller has one.
    pub(super) due: Option<super::deadlines::Due>,
}
