//! Known bugs of recipes, to be switched on by the simulation, which has to find them. Only a
//! build with `--cfg zk_planted` can switch one on; in any other there is nothing to
//! switch, and a look at a bug is the constant `false`.

#![cfg_attr(not(zk_planted), allow(unreachable_pub, reason = "public for the simulation only"))]

use zk_session::ChildList;

use crate::queue::kind::Kind;

/// A bug that a client had, with where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A guard does not look at the event of its node's deletion.
    DeletionNotTold,
    /// A create whose reply was lost is made again under a new name (ZOOKEEPER-1262, go #229).
    BlindRecreate,
    /// The node of a dead session is taken for one's own (CURATOR-498, CURATOR-604).
    AdoptDeadSessionsNode,
    /// A holder is never told that its session is over (CURATOR-206, go #20).
    HolderIgnoresExpiry,
    /// Contenders are sorted by the whole name, so by the random id in front.
    SortByName,
    /// A predecessor that is gone already is waited for (lost wake-up).
    LostWakeUpOnNoNode,
    /// The two nearest ahead are taken for all there are.
    LooksAheadBlindly,
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
    /// A reader waits for nobody.
    ReaderIgnoresWriters,
    /// A writer waits for the nearest writer only, and not for readers.
    WriterIgnoresReaders,
    /// A writer counts those who go, and does not see who became a reader ahead of it
    /// (CURATOR-621).
    WriterLooksAhead,
    /// A writer becomes a reader whether or not its write node is there.
    DowngradeUnchecked,
    /// A reader that was a writer has its new node's token, which no writer behind it exceeds.
    DowngradeTakesNewToken,
    /// The leases are counted before one's own are there.
    CountsBeforeOwnLease,
    /// The limit counts from 0.
    OnePermitTooMany,
    /// Of several permits the first is looked at, and not the last.
    FirstLeaseIsEnough,
    /// The turn to take permits is not given up by who has taken some.
    TurnIsKept,
    /// A lease whose holder or waiter is dropped stays.
    LeaseNotReturned,
    /// A limit that was lowered is not heard of.
    LoweredLimitIgnored,
    /// A limit that was raised wakes nobody.
    RaisedLimitUnseen,
    /// When one of several locks is not free, those that were had are kept.
    MultiKeepsTheFirst,
    /// Several locks are taken in any order.
    MultiOrderAsGiven,
    /// Several locks are given up in the order in which they were taken.
    MultiReleasesInOrder,
    /// A holder that was asked to let go before it listened does not hear of it.
    MarkBeforeWatchUnseen,
    /// A compare-and-set does not compare.
    BlindSet,
    /// Who waits for a newer value than one it has read does not look at the one there is.
    ChangeBeforeWatchUnseen,
}

impl Planted {
    /// False, for the compiler to see: what stands behind it is not even built.
    #[cfg(not(zk_planted))]
    pub(crate) const fn is_on(self) -> bool {
        false
    }
}

/// An id that is the same in every session of the same owner.
#[inline]
pub(crate) fn id_for_life(kind: &Kind) -> Option<String> {
    let data = kind.data.as_deref().filter(|_| Planted::AdoptDeadSessionsNode.is_on())?;
    String::from_utf8_lossy(data).split('#').next().map(str::to_owned)
}

/// A parent is made once only.
pub(crate) fn parent_attempts_max() -> Option<usize> {
    Planted::ParentReapedLeaks.is_on().then_some(1)
}

/// Who is next ahead if the random id in front of the names counts.
#[inline]
pub(crate) fn name_before(names: &ChildList, own: &str) -> Option<String> {
    names.names().filter(|name| &**name < own).max().map(std::borrow::Cow::into_owned)
}

/// A token that starts again when the parent does.
pub(crate) fn sequence_token(path: &str) -> i64 {
    path.rsplit('-').next().and_then(|digits| digits.parse::<i64>().ok()).unwrap_or(0) + 1
}

#[cfg(zk_planted)]
mod switch {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static ON: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    impl Planted {
        /// All of them.
        pub const ALL: [Self; 31] = [
            Self::DeletionNotTold,
            Self::BlindRecreate,
            Self::AdoptDeadSessionsNode,
            Self::HolderIgnoresExpiry,
            Self::SortByName,
            Self::LostWakeUpOnNoNode,
            Self::LooksAheadBlindly,
            Self::CancelIsRelease,
            Self::AbsentIsFirst,
            Self::ParentReapedLeaks,
            Self::TimeoutLeavesNode,
            Self::CancelForgetsCreate,
            Self::TokenIsSequence,
            Self::ReaderIgnoresWriters,
            Self::WriterIgnoresReaders,
            Self::WriterLooksAhead,
            Self::DowngradeUnchecked,
            Self::DowngradeTakesNewToken,
            Self::CountsBeforeOwnLease,
            Self::OnePermitTooMany,
            Self::FirstLeaseIsEnough,
            Self::TurnIsKept,
            Self::LeaseNotReturned,
            Self::LoweredLimitIgnored,
            Self::RaisedLimitUnseen,
            Self::MultiKeepsTheFirst,
            Self::MultiOrderAsGiven,
            Self::MultiReleasesInOrder,
            Self::MarkBeforeWatchUnseen,
            Self::BlindSet,
            Self::ChangeBeforeWatchUnseen,
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
