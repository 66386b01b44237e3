//! Nodes that a session has left behind: the next session of a manager deletes them.
//!
//! A Keeper does not resume sessions, and keeps the ephemeral nodes of a lost one until its timeout. The node
//! of a lock would block the queue for all of that time. By then its guard counts as lost.

use std::convert::Infallible;

use proto::path::{PROTECTION, child, file_name};
use zk_session_core::{Error, Failure, LeftBehind, RequestId};

use super::Client;

impl Client {
    /// Deletes the nodes that the ended session of `last` was to delete, now and later. It never
    /// returns.
    pub(super) async fn delete_left_behind(&self, last: &Self) -> Infallible {
        let root = Self { chroot: "".into(), ..self.clone() };
        loop {
            let left = last.shared.lock().take_left_behind();
            for left in left {
                // The server deletes the others.
                if root.delete_one_left_behind(last, left).await.is_err() {
                    break;
                }
            }
            last.shared.left_behind.notified().await;
        }
    }

    /// Tells the next session about a node, unless this session deletes it.
    pub(super) fn left_behind_unless(
        &self,
        accepted: Result<(), Failure>,
    ) -> Result<Option<RequestId>, Failure> {
        if accepted.is_err() {
            self.shared.left_behind.notify_one();
        }
        accepted.map(|()| None)
    }

    async fn delete_one_left_behind(&self, last: &Self, left: LeftBehind) -> Result<(), Error> {
        let paths = match left {
            LeftBehind::Node(path) => vec![path],
            LeftBehind::Children { parent, prefix } => {
                let names = self.get_children(&parent).await?.names;
                let names = names.names().filter(|name| name.starts_with(&prefix));
                names.map(|name| child(&parent, &name)).collect()
            }
        };
        for path in paths {
            // No other node gets the name of a protected one. One with another name may be that of the next
            // session by the time of the deletion.
            let is_unique = file_name(&path).starts_with(PROTECTION);
            let owner = last.session_id();
            if is_unique
                && self.exists(&path).await?.is_some_and(|stat| stat.ephemeral_owner == owner)
            {
                drop(self.delete_guaranteed(&path));
            }
        }
        Ok(())
    }
}
