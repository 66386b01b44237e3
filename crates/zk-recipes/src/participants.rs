//! The holders and waiters of a lock, as other clients see them.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use zk_session::path::file_name;
use zk_session::{Client, Error, NodeData, Repeat, SessionId, Zxid};

use crate::child_order::SequenceOrder;
use crate::contender_info::ContenderInfo;
use crate::error::LockError;
use crate::limits::PARTICIPANTS_CHUNK;

use crate::queue::spec::{contains, sequence};
use crate::queue::{Queue, list};
use crate::retry::{if_exists, retry, retry_after};

/// A contender for a lock: a holder or a waiter. `Debug` prints its session and its czxid in
/// hexadecimal.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// Path of the contender's node.
    pub path: String,
    /// Data of the node; [`info`](Self::info) parses the default data.
    pub data: Vec<u8>,
    /// Number at the end of the node's name, if it has one.
    pub sequence: Option<u32>,
    /// The session that owns the node.
    pub session_id: SessionId,
    /// The czxid of the node, which is the present or future fencing token. A reader that was a
    /// writer has a smaller token; see [`WriteGuard::downgrade`](crate::WriteGuard::downgrade).
    pub czxid: Zxid,
    /// When the node was created, by the clock of the ensemble's leader.
    pub created: SystemTime,
}

impl Participant {
    /// Returns who the contender is, if its node has the default data.
    #[must_use]
    pub fn info(&self) -> Option<ContenderInfo> {
        ContenderInfo::parse(&self.data)
    }
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant")
            .field("path", &self.path)
            .field("data", &format_args!("\"{}\"", self.data.escape_ascii()))
            .field("sequence", &self.sequence)
            .field("session_id", &self.session_id)
            .field("czxid", &self.czxid)
            .field("created", &self.created)
            .finish()
    }
}

/// Lists the contenders in order. Contenders that leave the queue during the call are omitted.
pub(crate) async fn participants(queue: &Queue) -> Result<Vec<Participant>, LockError> {
    let rule = queue.spec.rule();
    listed(queue, |name| rule.is_contender(name)).await
}

/// As [`participants`], restricted to names that contain the lock name. Curator distinguishes readers and
/// writers in the same way.
pub(crate) async fn participants_of_side(queue: &Queue) -> Result<Vec<Participant>, LockError> {
    listed(queue, |name| contains(name, &queue.spec.lock_name)).await
}

/// Returns the first of those with names that contain the lock name. Contenders that leave during the call
/// are skipped.
pub(crate) async fn first_participant(
    Queue { client, spec, .. }: &Queue,
) -> Result<Option<Participant>, LockError> {
    let Some(children) = list(client, &spec.path).await? else { return Ok(None) };
    let rule = spec.rule();
    let is_wanted = |name: &&[u8]| contains(name, &spec.lock_name);
    for name in rule.sort(&children.names).iter().filter(is_wanted) {
        if let Some(first) = participant(client, &spec.node(name), rule).await? {
            return Ok(Some(first));
        }
    }
    Ok(None)
}

async fn listed(
    Queue { client, spec, .. }: &Queue,
    wanted: impl Fn(&[u8]) -> bool,
) -> Result<Vec<Participant>, LockError> {
    let Some(children) = list(client, &spec.path).await? else { return Ok(Vec::new()) };
    let rule = spec.rule();
    let sorted = rule.sort(&children.names);
    let names: Vec<&[u8]> = sorted.iter().filter(|name| wanted(name)).collect();

    let mut participants = Vec::with_capacity(names.len());
    for chunk in names.chunks(PARTICIPANTS_CHUNK) {
        let asked: Vec<_> = chunk
            .iter()
            .map(|name| {
                let path = spec.node(name);
                let data = client.get_data(&path);
                (path, sequence(name, rule), data)
            })
            .collect();
        for (path, sequence, data) in asked {
            let read = || client.get_data(&path);
            let answer = match data.await {
                Err(error) => retry_after(error, client, Repeat::NotApplied, read).await,
                answer => answer,
            };
            participants.extend(seen(path, sequence, answer)?);
        }
    }
    Ok(participants)
}

/// Returns the contender of this node, if the node still exists.
pub(crate) async fn participant(
    client: &Client,
    path: &str,
    rule: SequenceOrder<'_>,
) -> Result<Option<Participant>, LockError> {
    let answer = retry(client, || client.get_data(path)).await;
    seen(path.to_owned(), sequence(file_name(path).as_bytes(), rule), answer)
}

/// Returns `None` if the node no longer exists.
fn seen(
    path: String,
    sequence: Option<u32>,
    answer: Result<NodeData, Error>,
) -> Result<Option<Participant>, LockError> {
    Ok(if_exists(answer)?.map(|NodeData { data, stat, .. }| Participant {
        path,
        data: data.into(),
        sequence,
        session_id: stat.ephemeral_owner,
        czxid: stat.czxid,
        created: UNIX_EPOCH + Duration::from_millis(u64::try_from(stat.ctime_ms).unwrap_or(0)),
    }))
}
