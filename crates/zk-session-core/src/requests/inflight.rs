//! Requests in flight, found by xid, and the recipients of their replies.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use proto::{OpCode, WatcherType, xid};

use super::RequestId;
use super::deadlines::Due;
use super::stand_in::StandIn;
use crate::Handles;
use crate::watches::PendingWatch;

/// Number of xids in use. They run from 1 to `i32::MAX - 1` (ZOOKEEPER-3253).
const CYCLE: i64 = i32::MAX as i64 - 1;

/// Map from xid to request. Xids are assigned in order, so the map is a ring with the oldest
/// unanswered request in front. It takes constant time without hashing, and keeps the order of
/// submission for requests that must be failed.
///
/// Replies are *not* matched by position: replies to auth packets and rejections by a read-only
/// server overtake others.
#[derive(Debug)]
pub(super) struct Inflight<T> {
    front_xid: i32,
    next_xid: i32,
    ring: VecDeque<Option<T>>,
}

impl<T> Inflight<T> {
    pub(super) fn new(first_xid: i32) -> Self {
        Self { front_xid: first_xid, next_xid: first_xid, ring: VecDeque::new() }
    }

    /// Returns the xid that [`push`](Self::push) will assign next.
    pub(super) fn next_xid(&self) -> i32 {
        self.next_xid
    }

    /// Returns an xid for a request that is sent while no other is in flight, and is not kept here.
    pub(super) fn use_up_xid(&mut self) -> i32 {
        let xid = self.next_xid;
        self.next_xid = xid::next(xid);
        xid
    }

    pub(super) fn push(&mut self, request: T) {
        if self.ring.is_empty() {
            self.front_xid = self.next_xid;
        }
        self.ring.push_back(Some(request));
        self.next_xid = xid::next(self.next_xid);
    }

    /// Removes the request with this xid. Returns `None` if there is none.
    pub(super) fn take(&mut self, xid: i32) -> Option<T> {
        let request = self.ring.get_mut(self.slot(xid)?)?.take();
        while let Some(None) = self.ring.front() {
            self.ring.pop_front();
            self.front_xid = xid::next(self.front_xid);
        }
        request
    }

    pub(super) fn is_oldest(&self, xid: i32) -> bool {
        xid == self.front_xid
    }

    pub(super) fn get(&self, xid: i32) -> Option<&T> {
        self.ring.get(self.slot(xid)?)?.as_ref()
    }

    /// Returns the request with this xid, and leaves it in its place.
    pub(super) fn find(&mut self, xid: i32) -> Option<&mut T> {
        let slot = self.slot(xid)?;
        self.ring.get_mut(slot)?.as_mut()
    }

    pub(super) fn oldest(&self) -> Option<&T> {
        self.ring.front()?.as_ref()
    }

    /// Removes all requests, oldest first. Xids continue from the current one, so that no reply of
    /// an old connection can match.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.ring).into_iter().flatten()
    }

    /// Returns the unanswered requests that are older than the one with this xid.
    pub(super) fn before(&self, xid: i32) -> impl Iterator<Item = &T> {
        self.ring.iter().take(self.slot(xid).unwrap_or(0)).flatten()
    }

    /// Returns the unanswered requests, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.ring.iter().flatten()
    }

    /// Returns the number of occupied places, which the limit on requests counts.
    pub(super) fn len(&self) -> usize {
        self.ring.len()
    }

    fn slot(&self, xid: i32) -> Option<usize> {
        if !(xid::FIRST..=xid::LAST).contains(&xid) {
            return None; // the number after the last xid would map to the first
        }
        let distance = (i64::from(xid) - i64::from(self.front_xid)).rem_euclid(CYCLE);
        usize::try_from(distance).ok()
    }
}

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
    pub(crate) due: Option<Due>,
    /// Set if the request stands in for another one, or may have to be replaced by another one.
    pub(crate) stand_in: Option<Box<StandIn>>,
}

impl<H: Handles> Sent<H> {
    /// Returns true if the caller's request is a write.
    pub(crate) fn is_write(&self) -> bool {
        self.op.is_write() || self.completes_create()
    }

    /// Returns true if the caller's create has been applied, and only its Stat is read.
    pub(super) fn completes_create(&self) -> bool {
        matches!(self.stand_in.as_deref(), Some(StandIn::Stat { .. }))
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xids_wrap_before_the_reserved_numbers() {
        let mut table = Inflight::new(i32::MAX - 2);
        for n in 0..4 {
            table.push(n);
        }
        assert_eq!(table.next_xid(), 3);
        assert_eq!(table.take(1), Some(2));
        assert_eq!(table.take(i32::MAX - 2), Some(0));
        assert_eq!(table.take(i32::MAX), None);
        assert_eq!(table.take(2), Some(3));
        assert_eq!(table.take(i32::MAX - 1), Some(1));
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn used_up_xids_are_not_assigned_again() {
        let mut table = Inflight::new(xid::FIRST);
        assert_eq!([table.use_up_xid(), table.use_up_xid()], [1, 2]);
        table.push('a');
        assert_eq!(table.take(3), Some('a'));
    }
}
