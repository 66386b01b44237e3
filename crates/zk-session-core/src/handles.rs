//! What goes out of the core: answers, watch events, session events, orders.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use proto::{EventType, OpCode, WatcherType};

use super::Failure;
use super::watches::PendingWatch;
use crate::{Host, LossCause, SessionEnd, SessionEvent};

/// The caller's handles that the core keeps and gives back: one for each answer
/// and one for each watch. The driver uses oneshot senders, a test uses numbers.
pub trait Handles {
    /// Where the answer to a request goes.
    type Reply: Handle;
    /// Where the event of a one-shot watch goes.
    type Watch: Handle;
    /// Where the events of a persistent watch go, one after the other.
    type Stream: Handle + Clone;
}

/// A handle that somebody may have stopped waiting behind.
pub trait Handle: fmt::Debug {
    /// True once nobody waits any more: a request not yet sent is then dropped,
    /// and a watch is forgotten.
    fn is_abandoned(&self) -> bool {
        false
    }
}

/// An answer: the reply's record, still encoded, to be decoded by who waits.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// The last transaction the server had applied when it answered.
    pub zxid: i64,
    /// The reply record.
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

/// What a watch saw, with the path as the server knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedEvent {
    /// What happened to the node.
    pub event_type: EventType,
    /// The node.
    pub path: String,
}

/// What a persistent watch is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Something happened to a node.
    Event(WatchedEvent),
    /// There was no connection for a while, and whatever happened then is not told
    /// (ZOOKEEPER-4698): read again. What is read from now on, and the events to
    /// come, leave nothing out.
    Gap,
}

/// Which list a one-shot watch goes on, which is decided by the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WatchKind {
    /// Set by getData: changes and deletion of the node.
    Data,
    /// Set by exists: the same, or the creation of a node that is not there.
    Exists,
    /// Set by getChildren: children coming and going, deletion of the node.
    Children,
}

/// What [`Session::poll_output`](super::Session::poll_output) hands out.
#[derive(Debug)]
pub enum Output<H: Handles> {
    /// Open a connection to this server, dropping the one there may be; then call
    /// [`handle_connected`](super::Session::handle_connected) or
    /// [`handle_disconnected`](super::Session::handle_disconnected).
    Connect(Host),
    /// Drop the connection.
    Disconnect,
    /// Ask this server, beside the connection there is, whether it takes writes; then
    /// call [`handle_probed`](super::Session::handle_probed).
    Probe(Host),
    /// Ask this server, which closes connections without a word, whether its port is for TLS only; then call
    /// [`handle_tls_probed`](super::Session::handle_tls_probed).
    ProbeTls(Host),
    /// The one and only answer to a request.
    Reply {
        /// The handle given with the request.
        to: H::Reply,
        /// The answer.
        result: Result<Reply, Failure>,
    },
    /// A watch fired, or will never fire because the session is over.
    Watch {
        /// The handle given with the watch.
        to: H::Watch,
        /// The event.
        result: Result<WatchedEvent, SessionEnd>,
    },
    /// News for a persistent watch; after an error, none.
    Stream {
        /// The handle given with the watch.
        to: H::Stream,
        /// What there is to tell.
        notice: Result<Notice, SessionEnd>,
    },
    /// Each server has refused to be connected to, for as long as
    /// [`Settings::refused_timeout`](super::Settings::refused_timeout), or is no ZooKeeper server;
    /// the last for this reason. Attempts go on.
    Refused(LossCause),
    /// The session's life.
    Event(SessionEvent),
    /// The standing of the lease changed.
    Standing(Standing),
}

/// What a guard's validity hangs on: it is bound to one term, and lost as soon as
/// the term differs or the session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Counts how often the lease ran out.
    pub term: u64,
    /// The end that has begun, from the call that closes the session on: the server may
    /// end it, and give a lock away, long before its answer is here.
    pub closing: Option<SessionEnd>,
    /// Set once the session is over.
    pub ended: Option<SessionEnd>,
    /// For how long this process did not run when the lease last ended, if that is why.
    pub paused: Option<std::time::Duration>,
}

/// Where an answer goes, and until when it is waited for. Made from a handle alone,
/// the answer is waited for as long as [`Settings`](super::Settings) say.
#[derive(Debug)]
pub struct Waiter<R> {
    /// The handle.
    pub to: R,
    /// When to give up, if not at the time the settings say.
    pub deadline: Option<std::time::Instant>,
}

impl<R> From<R> for Waiter<R> {
    fn from(to: R) -> Self {
        Self { to, deadline: None }
    }
}

/// Who waits for an answer.
#[derive(Debug)]
pub(super) enum Owner<H: Handles> {
    Caller(H::Reply),
    /// An auth packet, by its index among the credentials.
    Credential(usize),
    /// setWatches or addWatch, for watches that are registered.
    Rearm,
    /// removeWatches on this path.
    Removal(Arc<str>, WatcherType),
    /// An empty transaction that feeds the lease.
    Heartbeat,
    /// The sync ahead of the list of a clean-up task, by its number.
    CatchUp(super::deadlines::Ticket),
    /// Whoever waited has given up.
    Nobody,
    /// A clean-up task, by its number.
    Chore(super::deadlines::Ticket),
    /// closeSession.
    Close,
}

/// The watch of a request.
pub(super) type WatchOf<H> = PendingWatch<<H as Handles>::Watch, <H as Handles>::Stream>;

/// A request that was sent.
#[derive(Debug)]
pub(super) struct Sent<H: Handles> {
    pub(super) op: OpCode,
    pub(super) at: std::time::Instant,
    /// Where its frame begins in the connection's byte stream.
    pub(super) offset: u64,
    pub(super) owner: Owner<H>,
    pub(super) watch: Option<WatchOf<H>>,
    /// Set for requests of callers who do not wait for ever.
    pub(super) due: Option<super::deadlines::Due>,
}
