//! Known bugs of recipes, which the simulation switches on and has to find. Only a build with
//! `--cfg zk_planted` can switch them on. In any other build each check of a bug is the constant
//! `false`.

#![cfg_attr(not(zk_planted), allow(unreachable_pub, reason = "public for the simulation only"))]

use zk_session::ChildList;

use crate::queue::kind::Kind;

/// A bug that a client had, with a reference to the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A guard ignores the event of its node's deletion.
    DeletionNotTold,
    /// A create with a lost reply is repeated under a new name (ZOOKEEPER-1262, go #229).
    BlindRecreate,
    /// A contender adopts the node of its dead session (CURATOR-498, CURATOR-604).
    AdoptDeadSessionsNode,
    /// A holder never detects that its session has ended (CURATOR-206, go #20).
    HolderIgnoresExpiry,
    /// Contenders are sorted by the whole name, and so by the random id in front.
    SortByName,
    /// A waiter waits for a predecessor that no longer exists (lost wake-up).
    LostWakeUpOnNoNode,
    /// A waiter treats the two nearest contenders ahead as all contenders ahead.
    LooksAheadBlindly,
    /// A waiter treats a predecessor that was cancelled as one that has released.
    CancelIsRelease,
    /// A contender that is missing from the list treats itself as the first (CURATOR-307).
    AbsentIsFirst,
    /// A parent that the server has removed is reported to the caller as an error (CURATOR-180,
    /// kazoo #563).
    ParentReapedLeaks,
    /// A waiter that times out leaves its node (zk-ruby #49).
    TimeoutLeavesNode,
    /// Cancelling an acquisition between the create and its reply leaves the node.
    CancelForgetsCreate,
    /// The sequence number is the token, and starts again after the server has removed the parent.
    TokenIsSequence,
    /// A reader waits for no writer.
    ReaderIgnoresWriters,
    /// A writer waits for the nearest writer only, and not for readers.
    WriterIgnoresReaders,
    /// A writer counts the contenders that leave, and misses a reader that was placed ahead of it
    /// by a downgrade (CURATOR-621).
    WriterLooksAhead,
    /// A downgrade does not check that the write node exists.
    DowngradeUnchecked,
    /// A reader that was a writer has the token of its new node, which can exceed that of a later
    /// writer.
    DowngradeTakesNewToken,
    /// The leases are counted before the caller's own leases exist.
    CountsBeforeOwnLease,
    /// The limit is counted from 0, so one permit too many is granted.
    OnePermitTooMany,
    /// For several permits, the first lease is compared with the limit instead of the last.
    FirstLeaseIsEnough,
    /// A contender with its permits does not release the turn.
    TurnIsKept,
    /// The lease of a dropped holder or waiter stays.
    LeaseNotReturned,
    /// A waiter ignores a lowered limit.
    LoweredLimitIgnored,
    /// A raised limit wakes no waiter.
    RaisedLimitUnseen,
    /// If one of several locks is not free, the locks acquired before it stay held.
    MultiKeepsTheFirst,
    /// Several locks are acquired in any order.
    MultiOrderAsGiven,
    /// Several locks are released in the order of their acquisition.
    MultiReleasesInOrder,
    /// A holder misses a revocation request from before its first watch.
    MarkBeforeWatchUnseen,
    /// A compare-and-set does not compare.
    BlindSet,
    /// A waiter for a newer value than the one it has read ignores the present value.
    ChangeBeforeWatchUnseen,
}

impl Planted {
    /// Returns false as a constant, so that the compiler removes the code of the bug.
    #[cfg(not(zk_planted))]
    pub(crate) const fn is_on(self) -> bool {
        false
    }
}

/// Returns an id that is the same in every session of an owner.
#[inline]
pub(crate) fn id_for_life(kind: &Kind) -> Option<String> {
    let data = kind.data.as_deref().filter(|_| Planted::AdoptDeadSessionsNode.is_on())?;
    String::from_utf8_lossy(data).split('#').next().map(str::to_owned)
}

/// Returns the number of times a missing parent is created, if it is limited by the bug.
pub(crate) fn parent_attempts_max() -> Option<usize> {
    Planted::ParentReapedLeaks.is_on().then_some(1)
}

/// Returns the nearest contender ahead if names are compared with the random id in front.
#[inline]
pub(crate) fn name_before(names: &ChildList, own: &str) -> Option<String> {
    names.names().filter(|name| &**name < own).max().map(std::borrow::Cow::into_owned)
}

/// Returns a token that starts again when the parent is created again.
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
        /// All planted bugs.
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

        /// Switches one bug on for this thread, and all others of this crate off.
        pub fn switch(fault: Option<Self>) {
            ON.set(fault);
        }

        pub(crate) fn is_on(self) -> bool {
            ON.get() == Some(self)
        }
    }
}
