//! Known bugs of sessions, to be switched on by the simulation, which has to find them. Only a
//! build with `--cfg zk_planted` can switch one on; in any other there is nothing to
//! switch, and a look at a bug is the constant `false`.

#![cfg_attr(not(zk_planted), allow(unreachable_pub, reason = "public for the simulation only"))]

/// A bug that a client had, with where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// Watches are not set again on a new connection (kazoo #170).
    WatchNotRearmed,
    /// A delete whose reply was lost is forgotten (CURATOR-678).
    ForgetUnknownRelease,
    /// The loss of the lease is not announced (Redisson #4698).
    LossNotTold,
    /// A lease that has run out comes back with a late answer (etcd #11456).
    LeaseRevives,
    /// The lease is left to pings, which a follower answers by itself.
    LeaseFedByPings,
    /// A touch is counted from the time of its answer, not of the request.
    LeaseFromAnswer,
    /// A write that a follower forwards counts as a touch at the leader.
    ForwardedWriteTouches,
    /// A touch counts as flushed as soon as the follower has answered.
    NoFlushBound,
    /// A `sync` counts as agreed to by a quorum; a leader that was replaced answers it.
    SyncIsQuorum,
    /// A reconnect counts as a touch before a quorum has agreed to anything on the connection.
    ReconnectIsConfirmed,
    /// A client that was quiet counts as if it had sent pings all the time.
    SilenceIgnored,
    /// A new leader's clocks, which start with its own start, are ignored.
    NewLeaderIgnored,
    /// The lease goes on counting with the first timeout when a server grants a shorter one.
    ShorterTimeoutIgnored,
    /// Renewal stops half a timeout into a connection (Redisson #775, #3194).
    RenewalStops,
    /// Requests in flight are dropped with the connection and never answered.
    PendingDropped,
    /// A lost reply is said to mean that nothing was applied.
    UnknownIsNotApplied,
    /// No pause between attempts to connect.
    SpinOnReconnect,
    /// A connection that ends in the handshake is taken for an expired session.
    EndIsExpiry,
    /// The last zxid seen is taken from notifications, which carry -1.
    ZxidFromNotifications,
    /// Replies are matched by their position, not by their xid.
    RepliesByPosition,
    /// Requests that waited go out before the watches are set again (kazoo #218, go #83).
    RearmAfterRequests,
    /// Streams are not told of a gap, only of what comes after it.
    GapNotTold,
    /// A write whose time is over is said not to be applied, though it may be yet.
    TimedOutIsNotApplied,
    /// Watches on nodes that are not there are not set again.
    ExistNotRearmed,
    /// Watches are set again as of now, and what happened meanwhile is not told.
    RearmFromNow,
    /// Writes that waited are sent to a read-only server.
    QueuedToReadOnly,
    /// A session that a read-only server gave out is presented to others.
    ReadOnlySessionKept,
    /// A new connection does not say what was seen already, and time goes back.
    ResumesWithoutZxid,
    /// Requests that wait for a connection are not told of the end of the session.
    EndLeavesQueued,
    /// A watch on a node that is not there is dropped with its answer.
    AbsentNotWatched,
    /// An answer that was lost, while others go on, is waited for.
    LostAnswerAwaited,
}

impl Planted {
    /// False, for the compiler to see: what stands behind it is not even built.
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
        /// Those that the simulation has to find.
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

        /// Those of the rule that the lease goes by, which a model of the servers has to find.
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

        /// Switches one on, for this thread, and any other of this crate off.
        pub fn switch(fault: Option<Self>) {
            ON.set(fault);
        }

        pub(crate) fn is_on(self) -> bool {
            ON.get() == Some(self)
        }
    }
}
