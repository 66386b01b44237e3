//! Names of the holders of a lock that was not acquired in time, for the message of the failure.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_recipes::session::path::child;
use zk_recipes::session::{Client, SessionId};

use crate::acquired_lock::LockSpec;
use crate::participants::{self, Role, who};
use crate::sessions::clock;
use crate::text::printable;

/// Returns the holders as text, as far as they can be read in a short time; empty if there are none.
pub(crate) async fn described(client: &Client, wanted: &LockSpec) -> String {
    let deadline = clock() + READ_LIMIT;
    let mut known = Vec::new();
    for path in wanted.each_path() {
        let Some(of_path) = of_path(client, path, wanted.is_semaphore(), deadline).await else {
            break;
        };
        let is_one = wanted.only_path().is_some();
        known.extend(
            of_path
                .into_iter()
                .map(|holder| if is_one { holder } else { format!("{path} by {holder}") }),
        );
    }
    let more = known.len().saturating_sub(SHOWN_MAX);
    known.truncate(SHOWN_MAX);
    match (known.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("; held: {}", known.join(", ")),
        (false, more) => format!("; held: {}, and {more} more", known.join(", ")),
    }
}

/// Returns the holders of one lock, or `None` if they cannot be read before the deadline, or if the
/// queue is long.
async fn of_path(
    client: &Client,
    path: &str,
    is_semaphore: bool,
    deadline: Instant,
) -> Option<Vec<String>> {
    let queue = if is_semaphore { child(path, "locks") } else { path.to_owned() };
    let queued = timeout(deadline - clock(), client.exists(&queue)).await.ok()?.ok()?;
    if queued.is_some_and(|queue| usize::try_from(queue.num_children).unwrap_or(0) > QUEUE_MAX) {
        return None;
    }
    let listing = participants::list(client, path, is_semaphore);
    let listed = timeout(deadline - clock(), listing).await.ok()?.ok()?;
    // The node of this command may not be deleted yet.
    let others =
        listed.iter().filter(|contender| contender.participant.session_id != client.session_id());
    let holders = others.filter(|contender| contender.role == Role::Holds);
    let described = holders.map(|holder| {
        let (who, session) = (who(&holder.participant.data), holder.participant.session_id);
        if session == SessionId::NONE {
            let node = printable(&holder.participant.path);
            return format!(
                "by no session: {node} is persistent and stays until zk delete removes it"
            );
        }
        let since = participants::span(participants::age(&holder.participant));
        format!("{who} (session {session}, queued {since} ago)")
    });
    Some(described.collect())
}

/// The longest time for reading the holders after a failed wait. The failure must not wait for
/// servers that do not answer.
const READ_LIMIT: Duration = Duration::from_millis(500);
/// The longest queue that is read for its holders. All waiters of a queue may give up at once, and each
/// one reads all nodes.
const QUEUE_MAX: usize = 50;
/// Number of holders in a message. A semaphore may have thousands.
const SHOWN_MAX: usize = 3;
