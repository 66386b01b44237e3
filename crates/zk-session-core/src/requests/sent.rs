//! Requests that were sent.

use std::sync::Arc;
use std::time::Instant;

use proto::{OpCode, WatcherType};

use super::RequestId;
use super::deadlines::Due;
use crate::Handles;
use crate::watches::PendingWatch;

/// Watch that a request sets.
pub(crate) type WatchOf<H> = PendingWatch<<H as Handles>::Watch, <H as Handles>::Stream>;

/// Request that was sent.
#[derive(Debug)]
pub(crate) struct Sent<H: Handles> {
    pub(crate) op: OpCode,
    pub(crate) at: Instant,
    /// Position of its frame in the connection's byte stream.
    pub(super) offset: u64,
    pub(crate) recipient: Recipient<H>,
    pub(crate) watch: Option<WatchOf<H>>,
    /// Deadline of the reply, if the caller has one.
    pub(super) due: Option<Due>,
}

/// Recipient of the reply to a request.
#[derive(Debug)]
pub(crate) enum Recipient<H: Handles> {
    Caller(H::Reply),
    /// The credential with this index.
    Credential(usize),
    /// A setWatches or addWatch request for watches that are registered.
    Rearm,
    /// A removeWatches request on this path.
    Removal(Arc<str>, WatcherType),
    /// A request that renews the lease.
    Heartbeat,
    /// The sync before the listing of a clean-up task, by the id of the task.
    CatchUp(RequestId),
    /// A clean-up task, by its id.
    CleanUpTask(RequestId),
    /// No recipient, because the caller has stopped waiting.
    Nobody,
    /// The closeSession request.
    Close,
}

impl<H: Handles> Recipient<H> {
    /// Returns true if the server answers the request behind all earlier ones.
    ///
    /// Replies to credentials bypass the server's pipeline. Heartbeats overtake other requests on
    /// the way out.
    pub(super) fn is_answered_in_order(&self) -> bool {
        !matches!(self, Self::Heartbeat | Self::Credential(_))
    }
}
