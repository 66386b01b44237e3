//! The candidates of an election, as other clients see them.

use crate::participants::Participant;

/// A candidate of an [`Election`](crate::Election).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// The id that it stands with. Bytes that are not UTF-8 are replaced.
    pub id: String,
    /// True for the candidate at the head of the queue. It leads, or begins to lead when it notices
    /// that the one before it has gone. A leader that was paused may not lead any more.
    pub is_leader: bool,
    /// Its node: path, session, and the time since when it stands.
    pub participant: Participant,
}

impl Candidate {
    pub(super) fn new(participant: Participant, is_leader: bool) -> Self {
        let id = String::from_utf8_lossy(&participant.data).into_owned();
        Self { id, is_leader, participant }
    }
}
