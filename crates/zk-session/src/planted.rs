//! Known bugs, to be switched on by the simulation, which has to find them. Only there with
//! `--cfg zk_planted`, and never in a product.

use std::cell::Cell;

thread_local! {
    static ACTIVE: Cell<Option<Planted>> = const { Cell::new(None) };
}

/// Switches a fault on, for this thread, and any other off.
pub fn set(fault: Option<Planted>) {
    ACTIVE.set(fault);
}

/// Whether this fault is on.
#[must_use]
pub fn active(fault: Planted) -> bool {
    ACTIVE.get() == Some(fault)
}

/// A bug that a client had, with where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A create whose reply was lost is made again under a new name (ZOOKEEPER-1262, go #229).
    BlindRecreate,
    /// The node of a dead session is taken for one's own (CURATOR-498, CURATOR-604).
    AdoptDeadSessionsNode,
    /// Watches are not set again on a new connection (kazoo #170).
    WatchNotRearmed,
    /// A delete whose reply was lost is forgotten (CURATOR-678).
    ForgetUnknownRelease,
    /// A holder is never told that its session is over (CURATOR-206, go #20).
    HolderIgnoresExpiry,
    /// The loss of the lease is not announced (Redisson #4698).
    LossNotTold,
    /// A lease that has run out comes back with a late answer (etcd #11456).
    LeaseRevives,
    /// The lease is left to pings, which a follower answers by itself.
    LeaseFedByPings,
    /// The lease runs to the very end of the timeout, from the time of the *answer*.
    LeaseFromAnswer,
    /// Renewal stops half a timeout into a connection (Redisson #775, #3194).
    RenewalStops,
    /// Contenders are sorted by the whole name, so by the random id in front.
    SortByName,
    /// A predecessor that is gone already is waited for (lost wake-up).
    LostWakeUpOnNoNode,
    /// A predecessor that has given up is taken for one that has released.
    CancelIsRelease,
    /// Not being in the list is taken for being first in it (CURATOR-307).
    AbsentIsFirst,
    /// A parent that was reaped is the caller's problem (CURATOR-180, kazoo #563).
    ParentReapedLeaks,
    /// A waiter that gives up leaves its node (zk-ruby #49).
    TimeoutLeavesNode,
    /// Cancelling between the create and its reply forgets the node.
    CancelForgetsCreate,
    /// The sequence number is the token, and starts again when the parent is reaped.
    TokenIsSequence,
    /// Requests in flight are dropped with the connection and never answered.
    PendingDropped,
    /// A lost reply is said to mean that nothing was applied.
    UnknownIsNotApplied,
    /// No pause between attempts to connect.
    SpinOnReconnect,
    /// A connection that ends in the handshake is taken for an expired session.
    EndIsExpiry,
    /// The last zxid seen is taken from notifications and errors, which carry -1.
    ZxidFromNotifications,
}

impl Planted {
    /// All of them.
    pub const ALL: [Self; 23] = [
        Self::BlindRecreate,
        Self::AdoptDeadSessionsNode,
        Self::WatchNotRearmed,
        Self::ForgetUnknownRelease,
        Self::HolderIgnoresExpiry,
        Self::LossNotTold,
        Self::LeaseRevives,
        Self::LeaseFedByPings,
        Self::LeaseFromAnswer,
        Self::RenewalStops,
        Self::SortByName,
        Self::LostWakeUpOnNoNode,
        Self::CancelIsRelease,
        Self::AbsentIsFirst,
        Self::ParentReapedLeaks,
        Self::TimeoutLeavesNode,
        Self::CancelForgetsCreate,
        Self::TokenIsSequence,
        Self::PendingDropped,
        Self::UnknownIsNotApplied,
        Self::SpinOnReconnect,
        Self::EndIsExpiry,
        Self::ZxidFromNotifications,
    ];
}
