//! Faults of decisions. The exploration must find each of them.

use zk_session::EventType;

use super::super::{Ahead, Event, Input, Machine, NodeChange, NodeRole, Output, State};
use super::server::Name;

/// A wrong rule in place of one of the machine's or of its runner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// A change of the second of two counts as its exit: it was asked to release, and stays.
    ChangeOfSecondIsExit,
    /// The nearest of several ahead counts as the last one.
    NearestOfSeveralIsLast,
    /// Any deletion of the nearest counts as a release.
    DeletionIsRelease,
    /// A change of the data counts as a release before the deletion.
    ChangeIsRelease,
    /// Any change before the deletion counts as a mark.
    MarkOfAnyTransaction,
    /// A change and a deletion during a later disconnect are a mark.
    MarkAcrossDisconnect,
    /// The watch on the own node is not read before the contender becomes first.
    OwnWatchNotRead,
    /// A lost connection is ignored before the contender becomes first.
    DisconnectIgnored,
    /// A contender that is not in the list is first.
    AbsentIsFirst,
    /// A list from before the create is accepted.
    ListBeforeCreate,
    /// The deletion of the only one ahead is ignored.
    LastDeletionIgnored,
    /// The only one ahead is not watched.
    RemainingOneNotWatched,
    /// The next contender in line does not claim the lease.
    NextDoesNotClaim,
    /// A contender that queues again keeps its mark.
    RestartKeepsMark,
    /// A contender that queues again keeps its name.
    RestartKeepsName,
    /// A contender that leaves the queue marks the deletion of its node.
    CancelMarks,
    /// A contender that leaves the queue does not delete its node.
    CancelLeavesNode,
    /// A create with a lost reply is repeated without a search.
    CreateRepeatedBlindly,
    /// A contender that leaves before the reply to its create forgets the node.
    CancelForgetsCreate,
    /// The watches report later changes only, and not those since the own create.
    WatchesFromNowOn,
    /// The list accepts another node of the own name.
    AnyNodeOfNameIsOwn,
    /// The list that is sent with the create accepts another node of the own name.
    FirstListIsOwn,
    /// The queue is sorted by the id in front of the number.
    SortedById,
    /// A reader does not wait for writers.
    ReaderIgnoresWriters,
    /// A writer does not wait for readers.
    WriterIgnoresReaders,
    /// A reader marks its release, although other readers may hold the lock.
    ReaderMarks,
    /// The two nearest of several ahead count as the only ones.
    TwoNearestAreAll,
    /// The common id is the same whichever node the queue has.
    ConstantId,
    /// A contender keeps a node whose name has the id of an earlier parent.
    StaleNameIsUsed,
    /// A contender is alone if it is the only child: its own node may be gone, and another be there.
    OnlyChildIsAlone,
    /// A contender is alone if it was created last.
    LastChangeIsAlone,
    /// An attempt uses a node that a search of another one has found before.
    FoundIsForgotten,
    /// A search leaves a node with a stale name alone if a node of that name was found before.
    StaleNameIsLeft,
}

/// As [`Machine::handle`], with a wrong rule.
pub(super) fn handle(
    machine: &mut Machine<Name>,
    input: Input<Name>,
    fault: Option<Fault>,
) -> Output {
    let Some(fault) = fault else { return machine.handle(input) };
    let (state, output) = match (fault, &machine.state, &input) {
        (
            Fault::ChangeOfSecondIsExit,
            State::Blocked(Ahead::Two { nearest, .. }),
            Input::Changed(NodeRole::Second, NodeChange::Changed),
        ) => (State::Blocked(Ahead::One(*nearest)), Output::Continue),
        (
            Fault::NearestOfSeveralIsLast,
            State::Blocked(Ahead::Several { .. }),
            Input::Changed(NodeRole::Nearest { .. }, NodeChange::Deleted),
        )
        | (
            Fault::DeletionIsRelease,
            State::Blocked(_),
            Input::Changed(NodeRole::Nearest { .. }, NodeChange::Deleted),
        )
        | (
            Fault::ChangeIsRelease,
            State::Blocked(_),
            Input::Changed(NodeRole::Second, NodeChange::Changed),
        ) => (State::Unconfirmed, Output::Continue),
        (Fault::OwnWatchNotRead, State::Unconfirmed, Input::OwnNode { connections_lost, .. }) => {
            let connections_lost = *connections_lost;
            return machine.handle(Input::OwnNode { is_watched: true, connections_lost });
        }
        (
            Fault::DisconnectIgnored | Fault::MarkAcrossDisconnect,
            State::Unconfirmed,
            Input::OwnNode { is_watched, .. },
        ) => {
            let (is_watched, connections_lost) = (*is_watched, machine.connections_lost);
            return machine.handle(Input::OwnNode { is_watched, connections_lost });
        }
        (
            Fault::LastDeletionIgnored,
            State::Blocked(Ahead::One(_)),
            Input::Changed(NodeRole::Nearest { .. }, NodeChange::Deleted),
        ) => return Output::Continue,
        (Fault::AbsentIsFirst, _, Input::NotListed) => (State::First, Output::First),
        _ => return machine.handle(input),
    };
    machine.state = state;
    output
}

/// As [`NodeRole::change`], with a wrong rule.
pub(super) fn change(
    role: NodeRole,
    event: Event,
    data: Option<Event>,
    fault: Option<Fault>,
) -> Option<NodeChange> {
    let has_changed = data.is_some_and(|(kind, _)| kind == EventType::NODE_DATA_CHANGED);
    let changed = data.and_then(|(_, zxid)| zxid);
    let is_wrong_mark = match fault {
        Some(Fault::MarkOfAnyTransaction) => changed.is_some() && event.1.is_some(),
        Some(Fault::MarkAcrossDisconnect) => has_changed && event.1.is_none(),
        _ => false,
    };
    if event.0 == EventType::NODE_DELETED && is_wrong_mark {
        return Some(NodeChange::Released);
    }
    role.change(event, data)
}
