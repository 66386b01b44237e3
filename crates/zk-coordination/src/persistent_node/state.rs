//! States of a persistent node, and the error of a caller that waits for one of them.

use std::fmt;

use zk_recipes::session::{Abbreviated, Error, ErrorCode, Outcome, RetryOn, Stat};

/// State of a [`PersistentNode`](super::PersistentNode), as of the latest reply of the ensemble.
///
/// While the session is disconnected, the state does not change. The node exists until the session
/// expires.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// The node does not exist yet, or it was lost and is being created again.
    Pending,
    /// The node exists and belongs to the handle.
    Present {
        /// Path of the node, with the sequence number if it has one.
        path: String,
        /// Stat of the node. Its `ephemeral_owner` is the session that owns an ephemeral node.
        stat: Stat,
    },
    /// The last attempt failed, and a repetition fails until somebody corrects the cause. For
    /// example, the access control list of the parent does not permit the creation.
    ///
    /// The attempt is repeated after a pause of up to [`BACKOFF_MAX`](crate::limits::BACKOFF_MAX), when
    /// the node is deleted, on each new session, and after each
    /// [`set_data`](super::PersistentNode::set_data).
    Refused {
        /// The error of the last attempt.
        error: Error,
    },
    /// The path has a node that does not belong to the handle. It is not changed, apart from two
    /// [races](super::PersistentNode#whose-node-it-is). The attempt is repeated when that node is
    /// deleted or changed.
    ///
    /// The node belongs to another process, to an earlier run of this program whose session has not
    /// expired yet, or to another handle of this process. The attempt then waits for the end of that
    /// handle.
    Conflict {
        /// Stat of that node. Its `ephemeral_owner` is
        /// [`SessionId::NONE`](zk_recipes::session::SessionId::NONE) if it is not ephemeral.
        stat: Stat,
        /// Whether the node belongs to the session of the handle: another handle or another part of
        /// this program has created it.
        is_own_session: bool,
    },
    /// The session manager opens no further session, for example because the server rejects the
    /// credentials. An ephemeral node goes with its session. It is the last state.
    Stopped {
        /// The error of the session manager.
        error: Error,
    },
    /// The handle was closed or dropped, or its runtime has ended. It is the last state.
    Closed {
        /// `None` if the node is deleted, or did not exist. Otherwise the reason why nothing
        /// confirms that: the server removes an ephemeral node with its session.
        error: Option<Error>,
    },
}

impl NodeState {
    /// Returns the Stat of the node if it is present.
    #[must_use]
    pub fn stat(&self) -> Option<&Stat> {
        match self {
            Self::Present { stat, .. } => Some(stat),
            _ => None,
        }
    }

    /// Returns true if the node is present.
    #[must_use]
    pub fn is_present(&self) -> bool {
        self.stat().is_some()
    }

    /// Returns true for a last state: [`Closed`](Self::Closed) and [`Stopped`](Self::Stopped).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. } | Self::Stopped { .. })
    }

    /// Returns on which session a call may succeed that failed in this state, or a new handle if this
    /// one is closed. The node belongs to its handle, so every outcome permits a repetition.
    #[must_use]
    pub fn retry_on(&self) -> RetryOn {
        match self {
            Self::Pending | Self::Present { .. } | Self::Conflict { .. } => RetryOn::SameSession,
            Self::Refused { error }
            | Self::Stopped { error }
            | Self::Closed { error: Some(error) } => {
                error.clone().with_outcome(Outcome::NotApplied).retry_on()
            }
            Self::Closed { error: None } => RetryOn::Never,
        }
    }
}

impl fmt::Display for NodeState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pending => f.write_str("the ensemble has not answered yet"),
            Self::Present { path, stat } => {
                write!(f, "{} is present, czxid {}", Abbreviated(path), stat.czxid)
            }
            Self::Refused { error } => {
                write!(f, "{error}; {}; the attempt is repeated", advice(error))
            }
            Self::Conflict { stat, is_own_session: true } => write!(
                f,
                "the node belongs to this program's own session {}; close the other handle, or use \
                 another path",
                stat.ephemeral_owner
            ),
            Self::Conflict { stat, .. } if stat.is_ephemeral() => write!(
                f,
                "the node belongs to session {}; give each process its own path, or wait until \
                 that session ends",
                stat.ephemeral_owner
            ),
            Self::Conflict { stat, .. } if stat.num_children > 0 => f.write_str(
                "a node of another kind has the path, and has children; use another path",
            ),
            Self::Conflict { .. } => f.write_str(
                "a node of another kind has the path; use another path, or delete the node if \
                 nothing uses it",
            ),
            Self::Stopped { error } => write!(f, "the node is not kept any longer: {error}"),
            Self::Closed { error: None } => f.write_str("closed, and the node is deleted"),
            Self::Closed { error: Some(error) } => {
                write!(f, "closed, and the deletion of the node is not confirmed: {error}")
            }
        }
    }
}

/// Returns what an operator can do about a refusal.
fn advice(error: &Error) -> &'static str {
    match error.code() {
        Some(ErrorCode::NO_AUTH) => {
            "permit the client to create and delete in the parent, and to read and write the node"
        }
        Some(ErrorCode::UNIMPLEMENTED) => {
            "start the server with zookeeper.extendedTypesEnabled=true"
        }
        Some(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS) => "choose a path below a persistent node",
        _ => "correct the cause",
    }
}

/// Error of a caller that waited for a [`PersistentNode`](super::PersistentNode): the node did not
/// reach the wanted state. The handle continues to work for it, unless it is closed.
#[derive(Clone, PartialEq, Eq)]
pub struct PersistentNodeError {
    path: String,
    state: NodeState,
}

impl PersistentNodeError {
    pub(super) fn new(path: &str, state: NodeState) -> Self {
        Self { path: path.to_owned(), state }
    }

    /// Returns the path that the handle was started with.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the state at the time of the error.
    #[must_use]
    pub fn state(&self) -> &NodeState {
        &self.state
    }

    /// Returns on which session the call may succeed; see [`NodeState::retry_on`].
    #[must_use]
    pub fn retry_on(&self) -> RetryOn {
        self.state.retry_on()
    }
}

impl fmt::Display for PersistentNodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "persistent node {}: {}", Abbreviated(&self.path), self.state)
    }
}

impl fmt::Debug for PersistentNodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for PersistentNodeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.state {
            NodeState::Refused { error }
            | NodeState::Stopped { error }
            | NodeState::Closed { error: Some(error) } => Some(error),
            _ => None,
        }
    }
}
