//! Nodes that a session has left behind: the next session of a manager deletes them.
//!
//! A Keeper does not resume sessions, and keeps the ephemeral nodes of a lost one until its timeout. The node
//! of a lock would block the queue for all of that time. By then its guard counts as lost.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use proto::SessionId;
use proto::path::{PROTECTION, child, file_name};
use tokio::sync::Notify;
use zk_session_core::{Error, ErrorOrigin, LeftBehind};

use super::{Client, Repeat, RetryPolicy};

/// Nodes that the ended sessions of a manager were to delete, with the sessions that own them.
#[derive(Default)]
pub(super) struct Leftovers {
    nodes: Mutex<VecDeque<(SessionId, LeftBehind)>>,
    added: Notify,
}

/// Where a session of a manager hands its nodes over.
#[derive(Default)]
struct Heir(OnceLock<Arc<Leftovers>>);

impl Leftovers {
    /// Makes the session of `client` hand over what it leaves behind, also long after its end.
    pub(super) fn inherit_from(self: &Arc<Self>, client: &Client) {
        drop(client.session_value::<Heir>().0.set(Arc::clone(self)));
    }

    /// Takes what the ended session of `client` has left behind so far.
    pub(super) fn take_from(&self, client: &Client) {
        let owner = client.session_id();
        let left = client.shared.lock().take_left_behind();
        self.nodes().extend(left.into_iter().map(|node| (owner, node)));
        self.added.notify_one();
    }

    /// Deletes the nodes with the session of this client, now and later. It never returns.
    pub(super) async fn delete_with(&self, client: &Client) -> Infallible {
        let root = Client { chroot: "".into(), ..client.clone() };
        let policy = RetryPolicy::until_session_end();
        loop {
            while let Some((owner, node)) = self.first() {
                let mut attempts = policy.begin();
                while let Err(error) = root.delete_left_behind(owner, &node).await {
                    if error.origin() == ErrorOrigin::Session {
                        return pending().await; // the next one continues
                    }
                    if attempts.again(&root, error, Repeat::Unanswered).await.is_err() {
                        break; // the server deletes it
                    }
                }
                self.nodes().pop_front();
            }
            self.added.notified().await;
        }
    }

    fn first(&self) -> Option<(SessionId, LeftBehind)> {
        self.nodes().front().cloned()
    }

    fn nodes(&self) -> MutexGuard<'_, VecDeque<(SessionId, LeftBehind)>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Hands a node over, unless this session deletes it.
    pub(super) fn hand_over_unless(&self, is_accepted: bool) {
        if is_accepted {
            return;
        }
        if let Some(heir) = self.session_value::<Heir>().0.get() {
            heir.take_from(self);
        }
    }

    async fn delete_left_behind(&self, owner: SessionId, node: &LeftBehind) -> Result<(), Error> {
        let paths = match node {
            LeftBehind::Node(path) => vec![path.clone()],
            LeftBehind::Children { parent, prefix } => {
                let listed = self.get_children(parent).await;
                if listed.as_ref().is_err_and(Error::is_no_node) {
                    return Ok(());
                }
                let names = listed?.names;
                let names = names.names().filter(|name| name.starts_with(prefix.as_str()));
                names.map(|name| child(parent, &name)).collect()
            }
        };
        for path in paths {
            // No other node gets the name of a protected one. One with another name may be that of the next
            // session by the time of the deletion.
            let is_unique = file_name(&path).starts_with(PROTECTION);
            let stat = if is_unique { self.exists(&path).await? } else { None };
            if stat.is_some_and(|stat| stat.ephemeral_owner == owner) {
                self.delete_guaranteed(&path).await?;
            }
        }
        Ok(())
    }
}
