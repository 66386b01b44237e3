//! Known bugs of sessions. The simulation switches them on and has to find them. Only a build with
//! `--cfg zk_planted` can switch one on. In any other build the test for a bug is the constant
//! `false`.

#![cfg_attr(not(zk_planted), allow(unreachable_pub, reason = "public for the simulation only"))]

/// Known bug of a client, with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Watches are not re-registered on a new connection (kazoo #170).
    WatchNotRearmed,
    /// A delete whose reply was lost is not repeated (CURATOR-678).
    ForgetUnknownRelease,
    /// The loss of the lease is not reported (Redisson #4698).
    LossNotTold,
    /// A lease that has ended becomes valid again with a late reply (etcd #11456).
    LeaseRevives,
    /// Only pings renew the lease, which a follower answers by itself.
    LeaseFedByPings,
    /// A touch counts from the time of its reply, not of the request.
    LeaseFromAnswer,
    /// A write that a follower forwards counts as a touch at the leader.
    ForwardedWriteTouches,
    /// A touch counts as flushed as soon as the follower has answered.
    NoFlushBound,
    /// A `sync` counts as agreed to by a quorum, although a replaced leader answers it.
    SyncIsQuorum,
    /// A reconnect counts as a touch before a quorum has agreed to anything on the connection.
    ReconnectIsConfirmed,
    /// A client that sent nothing counts as if it had sent pings all the time.
    SilenceIgnored,
    /// The clocks of a new leader, which start with the leader, are ignored.
    NewLeaderIgnored,
    /// The lease keeps counting with the first timeout when a server grants a shorter one.
    ShorterTimeoutIgnored,
    /// Renewal stops half a timeout into a connection (Redisson #775, #3194).
    RenewalStops,
    /// Requests in flight are dropped with the connection and never answered.
    PendingDropped,
    /// A lost reply is reported as a request that was not applied.
    UnknownIsNotApplied,
    /// Connection attempts follow each other without a back-off.
    SpinOnReconnect,
    /// A connection that ends in the handshake counts as an expired session.
    EndIsExpiry,
    /// The last zxid seen is taken from notifications, which carry -1.
    ZxidFromNotifications,
    /// Replies are matched by position, not by xid.
    RepliesByPosition,
    /// Queued requests are sent before watches are re-registered (kazoo #218, go #83).
    RearmAfterRequests,
    /// Persistent watches receive no gap, only the events after it.
    GapNotTold,
    /// A write whose deadline has passed is reported as not applied, though it may be applied
    /// later.
    TimedOutIsNotApplied,
    /// Watches on missing nodes are not re-registered.
    ExistNotRearmed,
    /// Watches are re-registered from the current state, so events in the meantime are lost.
    RearmFromNow,
    /// Queued writes are sent to a read-only server.
    QueuedToReadOnly,
    /// A session that a read-only server assigned is presented to other servers.
    ReadOnlySessionKept,
    /// A new connection does not present the zxid seen, so the session may read an older state.
    ResumesWithoutZxid,
    /// Requests that wait for a connection are not answered at the end of the session.
    EndLeavesQueued,
    /// A watch on a missing node is dropped with its reply.
    AbsentNotWatched,
    /// A lost reply is awaited while later replies arrive.
    LostAnswerAwaited,
}

impl Planted {
    /// Returns false. The compiler removes the code behind it.
    #[cfg(not(zk_planted))]
    pub(crate) const fn is_on(self) -> bool {
        false
    }
}

#[cfg(zk_planted)]
mod switch {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static ON: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    impl Planted {
        /// Bugs that the simulation has to find.
        pub const ALL: [Self; 29] = [
            Self::WatchNotRearmed,
            Self::ForgetUnknownRelease,
            Self::LossNotTold,
            Self::LeaseRevives,
            Self::LeaseFedByPings,
            Self::ForwardedWriteTouches,
            Self::NoFlushBound,
            Self::SyncIsQuorum,
            Self::SilenceIgnored,
            Self::NewLeaderIgnored,
            Self::ShorterTimeoutIgnored,
            Self::RenewalStops,
            Self::PendingDropped,
            Self::UnknownIsNotApplied,
            Self::SpinOnReconnect,
            Self::EndIsExpiry,
            Self::ZxidFromNotifications,
            Self::RepliesByPosition,
            Self::RearmAfterRequests,
            Self::GapNotTold,
            Self::TimedOutIsNotApplied,
            Self::ExistNotRearmed,
            Self::RearmFromNow,
            Self::QueuedToReadOnly,
            Self::ReadOnlySessionKept,
            Self::ResumesWithoutZxid,
            Self::EndLeavesQueued,
            Self::AbsentNotWatched,
            Self::LostAnswerAwaited,
        ];

        /// Bugs in the rule of the lease, which a model of the servers has to find.
        #[cfg(test)]
        pub(crate) const OF_THE_LEASE: [Self; 7] = [
            Self::ForwardedWriteTouches,
            Self::LeaseFromAnswer,
            Self::NewLeaderIgnored,
            Self::NoFlushBound,
            Self::ReconnectIsConfirmed,
            Self::ShorterTimeoutIgnored,
            Self::SilenceIgnored,
        ];

        /// Switches one bug on for this thread, and all others of this crate off.
        pub fn switch(fault: Option<Self>) {
            ON.set(fault);
        }

        pub(crate) fn is_on(self) -> bool {
            ON.get() == Some(self)
        }
    }
}
