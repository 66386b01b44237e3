//! The decisions of a waiter, as a state machine without IO.
//!
//! The runner in [`waiter`](super::waiter) carries out the [`Step`] of the current state and returns
//! its result as an [`Input`]. A step follows from the state alone, so the runner may abandon a step
//! and repeat it. Inputs that are not in the table do not change the state.
//!
//! | state | step | input | next state |
//! |---|---|---|---|
//! | `Absent` | create the node | created | `Outdated` |
//! | `Outdated` | list | own node gone, or not in the list | `Absent` |
//! | | | nobody ahead blocks, and the own node is the listed one | `First` |
//! | | | nobody ahead blocks a node of this name | `Outdated` |
//! | | | blocked | `Blocked` |
//! | | | alone, without a list | `First` |
//! | | | the name ahead is known, without a list | `Blocked` |
//! | `Blocked` | watch | own node deleted, or missing in a list of the caller | `Absent` |
//! | | | nearest released | `Unconfirmed` |
//! | | | nearest deleted: it was the only one | `Unconfirmed` |
//! | | | nearest deleted: one of two | `Blocked` by the other one |
//! | | | second deleted: one of two | `Blocked` by the nearest one |
//! | | | the caller has seen the second leave: one of two | `Blocked` by the nearest one |
//! | | | second changed | `Blocked` by the nearest one, likely the only one |
//! | | | any other event | `Outdated` |
//! | | | long wait, and the nearest one is gone, or known by its name only | `Outdated` |
//! | `Unconfirmed` | check the own node | it exists, no connection lost since the list | `First` |
//! | | | otherwise | `Outdated` |
//! | `First` | none | recheck | `Unconfirmed` |
//!
//! Two properties of the contender follow from the state: it [claims the lease](Machine::is_next)
//! while it is next in line, and [marks its release](Machine::marks_release) once it is first.
//!
//! # The rules
//!
//! A contender becomes first by a list, or by events alone in two cases:
//!
//! * The contender ahead was first and has [marked](Machine::marks_release) its release: one
//!   transaction has changed and deleted its node. Events show that since 3.9.0 (ZOOKEEPER-4655).
//! * The names of all contenders ahead are known, two at most, and all of them have left. No
//!   contender can be placed ahead of a contender for a mutex.
//!
//! A contender can do without any list if the names in its queue have a
//! [common id](super::common_id). Then the Stat of the queue's node tells that it is alone, and the name
//! ahead is its own with the number before. If there is no such node, or if it leaves without a mark, the
//! contender lists.
//!
//! Otherwise it lists again when the contender ahead leaves. On servers before 3.9.0 it also watches
//! the second-nearest contender, and lists when that one leaves. In a moving queue that happens
//! while its predecessor holds the lock. docs/marked-release.md of the repository says what a mark
//! proves.
//!
//! A list has names only. Another client may have deleted the own node and created one of its name, so
//! the first place in a list counts once the own node is known to be the listed one. The list in the
//! write of the create shows that itself if nothing has changed between the two.
//!
//! The watch on the own node detects its deletion by another client without a list. Events arrive
//! in the order of the transactions. If the last predecessor's node is deleted and the own watch
//! has not fired, the own node existed at that time. Events are handled one by one, and that of the
//! own node may be queued too, since one transaction may delete several nodes. So `Unconfirmed`
//! reads the state of the watch. Events that were missed during a disconnect have no order: after a
//! reconnect the contender lists once more.
//!
//! The tests in `tests/machine` try each row, and every order of events with this machine.

use zk_session::{EventType, Zxid};

use super::spec::Admission;
use crate::limits::RESTARTS_MAX;

/// A contender on its way to the head of the queue. `N` identifies a node: its path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Machine<N> {
    state: State<N>,
    /// Number of connections lost before the last list was requested.
    connections_lost: u64,
    /// How often the own node was deleted.
    restarts: usize,
    /// The servers let a waiter distinguish a marked release. Known once it has waited.
    has_marks: bool,
    /// It has waited for [`LONG_WAIT_PART`](crate::limits::LONG_WAIT_PART) of the session timeout.
    waits_long: bool,
    /// It has listed the queue since it created its node.
    has_listed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State<N> {
    /// The own node does not exist, as far as is established.
    Absent,
    /// The own node exists. No list says which contenders block this one, or not any longer.
    Outdated,
    Blocked(Ahead<N>),
    /// No contender is ahead if the own node still exists.
    Unconfirmed,
    First,
}

/// The nearest contenders ahead that block a waiter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ahead<N> {
    /// The only one, and no other contender can be placed ahead.
    One(N),
    /// The only ones, and no other contender can be placed ahead.
    Two { nearest: N, second: N },
    /// Most likely the only one. A list decides once it has left.
    LikelyOne(N),
    /// One of several. The second is known if no contender can be placed ahead.
    Several { nearest: N, second: Option<N> },
    /// One with the number before the own. Nobody can be between the two; who is ahead of it is unknown.
    Guessed(N),
}

impl<N> Ahead<N> {
    /// Returns the contenders that block one with `position` others ahead, the nearest of which are
    /// `nearest`. Returns `None` if it is first.
    pub(super) fn of(
        admission: Admission,
        position: usize,
        nearest: [Option<N>; 2],
    ) -> Option<Self> {
        let is_order_final = admission == Admission::FirstInFinalOrder;
        match (position, nearest) {
            (0, _) | (_, [None, _]) => None,
            (1, [Some(nearest), _]) if is_order_final => Some(Self::One(nearest)),
            (1, [Some(nearest), _]) => Some(Self::LikelyOne(nearest)),
            (2, [Some(nearest), Some(second)]) if is_order_final => {
                Some(Self::Two { nearest, second })
            }
            (_, [Some(nearest), second]) => {
                let second = if is_order_final { second } else { None };
                Some(Self::Several { nearest, second })
            }
        }
    }

    fn nearest(&self) -> &N {
        match self {
            Self::One(nearest)
            | Self::Two { nearest, .. }
            | Self::LikelyOne(nearest)
            | Self::Several { nearest, .. }
            | Self::Guessed(nearest) => nearest,
        }
    }

    fn second(&self) -> Option<&N> {
        match self {
            Self::Two { second, .. } => Some(second),
            Self::Several { second, .. } => second.as_ref(),
            Self::One(_) | Self::LikelyOne(_) | Self::Guessed(_) => None,
        }
    }
}

/// Next step of the contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Create the own node, and look at the queue in the same write.
    Create,
    /// List the queue, unless the list that came with the create is still valid. The first list of a
    /// node is also checked for nodes of other recipes.
    List { checks_path: bool },
    /// Watch the [targets](Machine::targets) and the own node, and wait for an event.
    Watch,
    /// Read the state of the own node's watch, without a request.
    Confirm,
    /// Nothing: the contender is first.
    Done,
}

/// The result of a step, or a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Input<N> {
    Created,
    /// A list that has a node of the own name. `connections_lost` is their number before the list was
    /// requested.
    Listed {
        ahead: Option<Ahead<N>>,
        /// That node is known to be the own one.
        is_own: bool,
        connections_lost: u64,
    },
    /// The Stat of the queue's node shows that no other contender is there, or the name is known that is
    /// ahead. `connections_lost` is as in a list.
    Seen {
        ahead: Option<N>,
        connections_lost: u64,
    },
    /// A list does not have the own node, or its name is not to be used.
    NotListed,
    /// The own node was deleted. Another client's node may have its name.
    OwnNodeGone,
    /// The waiter is about to set its watches.
    Waits {
        has_marks: bool,
    },
    /// A watched node has changed, or is gone when it is to be watched.
    Changed(NodeRole, NodeChange),
    /// The wait for the nearest contender has become long.
    WaitedLong,
    /// After a long wait, the node of the nearest contender does not exist.
    NearestGone,
    /// The caller has seen that this contender has left.
    Left(N),
    /// Whether a watch is set on the own node and has not fired, and the connections lost by now.
    OwnNode {
        is_watched: bool,
        connections_lost: u64,
    },
    /// The caller is about to acquire the lock, maybe long after the contender became first.
    Recheck,
}

/// Task of the runner after an input, before the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    /// Nothing beside the next step.
    Continue,
    /// A contender blocks this one for which it did not wait before.
    Blocked,
    /// Most likely nobody blocks this one any longer: a list decides.
    ListAgain,
    First,
    /// Delete the own node, unless it is gone, and queue again under a new name. Fail if others have
    /// deleted the own node too often.
    StartOver {
        is_node_gone: bool,
        fails: bool,
    },
}

/// Role of a watched node for the waiter. It decides which events matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NodeRole {
    /// The nearest contender ahead: its deletion, and whether that was a
    /// [marked](Machine::marks_release) release if the server can show it.
    Nearest { has_marks: bool },
    /// The second-nearest contender ahead: its deletion, and a change of its data.
    Second,
    /// The contender's own node: its deletion. If the node has an access control list of its own, a
    /// read checks whether the client may read it.
    Own { is_readable: bool },
}

/// Change of a watched node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum NodeChange {
    Deleted,
    /// The contender was first, and has released the lock.
    Released,
    /// The data of the node was changed, by a release or by a revocation request. For the own node:
    /// it may be another client's node of the same name.
    Changed,
}

/// Type and transaction of a watch's event.
pub(super) type Event = (EventType, Option<Zxid>);

impl NodeRole {
    /// Returns the role of a node whose deletion proves nothing, however it is deleted.
    pub(crate) fn without_marks(self) -> Self {
        match self {
            Self::Nearest { .. } => Self::Nearest { has_marks: false },
            role => role,
        }
    }

    /// Returns the change that an event reports, or `None` if it does not matter. `data` is the event of
    /// the watch on the node's data, if that watch has fired.
    pub(super) fn change(self, (kind, zxid): Event, data: Option<Event>) -> Option<NodeChange> {
        match kind {
            EventType::NODE_DELETED if is_mark(zxid, data) => Some(NodeChange::Released),
            EventType::NODE_DELETED => Some(NodeChange::Deleted),
            // The own node is ephemeral and has no children. Most likely this is the event of another
            // node of its name.
            EventType::NODE_CHILDREN_CHANGED if matches!(self, Self::Own { .. }) => {
                Some(NodeChange::Changed)
            }
            EventType::NODE_DATA_CHANGED => Some(NodeChange::Changed),
            _ => None,
        }
    }
}

/// Returns true if the transaction that deleted the node has changed its data as well.
///
/// The event of the change precedes that of the deletion. Before 3.9.0, and for a deletion
/// during a disconnect, no transaction is known.
fn is_mark(deleted: Option<Zxid>, data: Option<Event>) -> bool {
    let Some((kind, changed)) = data else { return false };
    kind == EventType::NODE_DATA_CHANGED && changed.is_some() && changed == deleted
}

impl<N: Clone + PartialEq> Machine<N> {
    /// Returns a contender without a node.
    pub(super) fn new() -> Self {
        Self {
            state: State::Absent,
            connections_lost: 0,
            restarts: 0,
            has_marks: false,
            waits_long: false,
            has_listed: false,
        }
    }

    pub(super) fn step(&self) -> Step {
        match self.state {
            State::Absent => Step::Create,
            State::Outdated => Step::List { checks_path: !self.has_listed },
            State::Blocked(_) => Step::Watch,
            State::Unconfirmed => Step::Confirm,
            State::First => Step::Done,
        }
    }

    pub(super) fn is_first(&self) -> bool {
        matches!(self.state, State::First)
    }

    /// Returns true while the contender is first once the nearest one has left, unless another one is
    /// placed ahead. It claims the session's lease from then on.
    pub(super) fn is_next(&self) -> bool {
        matches!(self.state, State::Blocked(Ahead::One(_) | Ahead::LikelyOne(_)))
    }

    /// Returns true if the release is to be marked. A contender that did not have to wait needs no
    /// mark: the one behind it has seen in its list that it is first, or lists.
    pub(super) fn marks_release(&self) -> bool {
        self.is_first() && self.has_marks
    }

    /// Returns the nearest contender that blocks this one.
    pub(super) fn nearest(&self) -> Option<&N> {
        match &self.state {
            State::Blocked(ahead) => Some(ahead.nearest()),
            _ => None,
        }
    }

    /// Returns the contenders to watch.
    pub(super) fn targets(&self) -> impl Iterator<Item = (&N, NodeRole)> {
        let ahead = match &self.state {
            State::Blocked(ahead) => Some(ahead),
            _ => None,
        };
        let role = NodeRole::Nearest { has_marks: self.has_marks };
        let nearest = ahead.map(|ahead| (ahead.nearest(), role));
        let looks_ahead = !self.has_marks || self.waits_long;
        let second = ahead.and_then(Ahead::second).map(|second| (second, NodeRole::Second));
        nearest.into_iter().chain(if looks_ahead { second } else { None })
    }

    pub(super) fn handle(&mut self, input: Input<N>) -> Output {
        match (&self.state, input) {
            (State::Absent, Input::Created) => self.enter(State::Outdated, Output::Continue),
            (State::Outdated, Input::Seen { ahead, connections_lost }) => {
                self.connections_lost = connections_lost;
                match ahead {
                    Some(ahead) => {
                        self.enter(State::Blocked(Ahead::Guessed(ahead)), Output::Blocked)
                    }
                    None => self.enter(State::First, Output::First),
                }
            }
            (State::Outdated, Input::Listed { ahead, is_own, connections_lost }) => {
                (self.connections_lost, self.has_listed) = (connections_lost, true);
                match ahead {
                    // Its watches show whether the own node is the listed one.
                    Some(ahead) => self.enter(State::Blocked(ahead), Output::Blocked),
                    None if is_own => self.enter(State::First, Output::First),
                    None => self.enter(State::Outdated, Output::Continue),
                }
            }
            (State::Outdated | State::Blocked(_), Input::NotListed) => self.start_over(false),
            (State::Outdated, Input::OwnNodeGone) => self.start_over(true),
            (State::Blocked(_), Input::Waits { has_marks }) => {
                self.has_marks = has_marks;
                Output::Continue
            }
            (State::Blocked(_), Input::Changed(role, change)) => self.handle_change(role, change),
            (State::Blocked(Ahead::Two { nearest, second }), Input::Left(node))
                if *second == node =>
            {
                let ahead = Ahead::One(nearest.clone());
                self.enter(State::Blocked(ahead), Output::Continue)
            }
            (State::Blocked(ahead), Input::WaitedLong) => {
                self.waits_long = true;
                // A list tells when it is next.
                let is_guessed = matches!(ahead, Ahead::Guessed(_));
                if is_guessed { self.list_again() } else { Output::Continue }
            }
            (State::Blocked(_), Input::NearestGone) => self.list_again(),
            (State::Unconfirmed, Input::OwnNode { is_watched, connections_lost }) => {
                let has_disconnected = self.connections_lost != connections_lost;
                if is_watched && !has_disconnected {
                    self.enter(State::First, Output::First)
                } else {
                    self.list_again()
                }
            }
            (State::First, Input::Recheck) => self.enter(State::Unconfirmed, Output::Continue),
            _ => Output::Continue,
        }
    }

    /// Handles the change of a watched node while the contender is blocked.
    fn handle_change(&mut self, role: NodeRole, change: NodeChange) -> Output {
        let State::Blocked(ahead) = std::mem::replace(&mut self.state, State::Outdated) else {
            return Output::Continue;
        };
        match (role, change, ahead) {
            (NodeRole::Own { .. }, NodeChange::Deleted, _) => self.start_over(true),
            // It was first.
            (NodeRole::Nearest { .. }, NodeChange::Released, _)
            | (NodeRole::Nearest { .. }, NodeChange::Deleted, Ahead::One(_)) => {
                self.enter(State::Unconfirmed, Output::Continue)
            }
            (NodeRole::Nearest { .. }, NodeChange::Deleted, Ahead::Two { second, .. }) => {
                self.enter(State::Blocked(Ahead::One(second)), Output::Blocked)
            }
            (NodeRole::Second, NodeChange::Deleted, Ahead::Two { nearest, .. }) => {
                self.enter(State::Blocked(Ahead::One(nearest)), Output::Continue)
            }
            // Most likely it was first and has released the lock, so that this waiter is next. If it
            // was asked to release and stays, this claims the lease too early, which does no harm.
            (
                NodeRole::Second,
                NodeChange::Changed,
                Ahead::Two { nearest, .. } | Ahead::Several { nearest, .. },
            ) => self.enter(State::Blocked(Ahead::LikelyOne(nearest)), Output::Continue),
            _ => self.list_again(),
        }
    }

    fn list_again(&mut self) -> Output {
        self.enter(State::Outdated, Output::ListAgain)
    }

    fn start_over(&mut self, is_node_gone: bool) -> Output {
        let restarts = self.restarts + 1;
        *self = Self { restarts, ..Self::new() };
        Output::StartOver { is_node_gone, fails: restarts >= RESTARTS_MAX }
    }

    fn enter(&mut self, state: State<N>, output: Output) -> Output {
        self.state = state;
        output
    }
}

#[cfg(test)]
#[path = "../../tests/machine/exploration/mod.rs"]
mod exploration;
#[cfg(test)]
#[path = "../../tests/machine/table.rs"]
mod table;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn admission_decides_which_contenders_are_known() {
        let of = |admission, position| {
            let nearest = ["c", "b"].map(Some);
            Ahead::of(admission, position, nearest)
        };
        let mutex = Admission::FirstInFinalOrder;
        assert_eq!(of(mutex, 0), None);
        assert_eq!(of(mutex, 1), Some(Ahead::One("c")));
        assert_eq!(of(mutex, 2), Some(Ahead::Two { nearest: "c", second: "b" }));
        assert_eq!(of(mutex, 3), Some(Ahead::Several { nearest: "c", second: Some("b") }));
        for admission in [Admission::First, Admission::Behind("__WRIT__")] {
            assert_eq!(of(admission, 1), Some(Ahead::LikelyOne("c")));
            for position in [2, 3] {
                let several = Ahead::Several { nearest: "c", second: None };
                assert_eq!(of(admission, position), Some(several));
            }
        }
    }
}
