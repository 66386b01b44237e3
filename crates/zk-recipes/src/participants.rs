//! Who holds a lock and who waits for it.

use std::fmt;

use zk_session::{Client, Error, ErrorCode, KeyRule, NodeData, Pending};

use crate::error::LockError;
use crate::limits::PARTICIPANTS_CHUNK;
use crate::queue::attempts::{Attempts, is_transient};
use crate::queue::name::{self, contains, sequence};
use crate::queue::parents;

/// One contender for a lock. `Debug` prints its session and its czxid in hexadecimal.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The path of its node.
    pub path: String,
    /// What it put into its node, by default its address.
    pub data: Vec<u8>,
    /// The number at the end of its node's name, if there is one.
    pub sequence: Option<u32>,
    /// The session that owns the node.
    pub session_id: i64,
    /// What its fencing token is, or will be; of a reader that was a writer, see
    /// [`WriteGuard::downgrade`](crate::WriteGuard::downgrade), larger than that.
    pub czxid: i64,
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant")
            .field("path", &self.path)
            .field("data", &format_args!("\"{}\"", self.data.escape_ascii()))
            .field("sequence", &self.sequence)
            .field("session_id", &format_args!("{:#x}", self.session_id))
            .field("czxid", &format_args!("{:#x}", self.czxid))
            .finish()
    }
}

/// Lists the contenders in order. Those that leave while the list is made are
/// left out.
pub(crate) async fn participants(
    client: &Client,
    path: &str,
    rule: KeyRule<'_>,
) -> Result<Vec<Participant>, LockError> {
    listed(client, path, rule, |name| rule.is_contender(name)).await
}

/// As [`participants`], of those only whose names hold `text`, which is how Curator tells
/// readers from writers.
pub(crate) async fn participants_named(
    client: &Client,
    path: &str,
    rule: KeyRule<'_>,
    text: &str,
) -> Result<Vec<Participant>, LockError> {
    listed(client, path, rule, |name| contains(name, text)).await
}

async fn listed(
    client: &Client,
    path: &str,
    rule: KeyRule<'_>,
    wanted: impl Fn(&[u8]) -> bool,
) -> Result<Vec<Participant>, LockError> {
    let children = match read(client, || client.get_children(path)).await {
        Ok(children) => children.names,
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let sorted = children.sorted(rule);
    let names: Vec<&[u8]> = sorted.iter().filter(|name| wanted(name)).collect();

    let mut participants = Vec::with_capacity(names.len());
    for chunk in names.chunks(PARTICIPANTS_CHUNK) {
        let asked: Vec<_> = chunk
            .iter()
            .map(|name| {
                let name = String::from_utf8_lossy(name);
                let path = parents::child(path, &name);
                let data = client.get_data(&path);
                (path, sequence(&name, rule), data)
            })
            .collect();
        for (path, sequence, data) in asked {
            let answer = match data.await {
                Err(error) if is_transient(&error) => read(client, || client.get_data(&path)).await,
                answer => answer,
            };
            participants.extend(seen(path, sequence, answer)?);
        }
    }
    Ok(participants)
}

/// The contender whose node this is, if it is still there.
pub(crate) async fn participant(
    client: &Client,
    path: &str,
    rule: KeyRule<'_>,
) -> Result<Option<Participant>, LockError> {
    let answer = read(client, || client.get_data(path)).await;
    seen(path.to_owned(), sequence(name::of(path), rule), answer)
}

/// Asks until there is an answer: what is only read may be read again.
async fn read<T>(client: &Client, ask: impl Fn() -> Pending<T>) -> Result<T, Error> {
    let mut attempts = Attempts::default();
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => attempts.again(client, error).await?,
        }
    }
}

/// `None` if the node has gone.
fn seen(
    path: String,
    sequence: Option<u32>,
    answer: Result<NodeData, Error>,
) -> Result<Option<Participant>, LockError> {
    match answer {
        Ok(NodeData { data, stat }) => Ok(Some(Participant {
            path,
            data: data.map(Vec::from).unwrap_or_default(),
            sequence,
            session_id: stat.ephemeral_owner,
            czxid: stat.czxid,
        })),
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
