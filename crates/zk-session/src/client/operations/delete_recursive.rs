//! Deletion of a node and everything below it.

use proto::ErrorCode;
use zk_session_core::{Error, Outcome};

use crate::client::Client;
use crate::limits::{DELETE_ROUNDS_MAX, NODES_AT_ONCE};

/// # Deleting many nodes
impl Client {
    /// Deletes a node and everything below it, a hundred nodes at once. The future sends the requests from
    /// its first poll on.
    ///
    /// It is no transaction: other clients see a part of the nodes meanwhile. Nodes that they create below
    /// the path are deleted, too.
    ///
    /// # Errors
    /// Returns the errors of [`delete`](Self::delete) and [`get_children`](Self::get_children). Some of the
    /// nodes may be deleted then, and the outcome is unknown; it does no harm to repeat the call.
    ///
    /// The error is `NoNode` if the node does not exist, and `NotEmpty` if other clients create nodes faster
    /// than this one deletes them.
    ///
    /// # Memory
    /// The paths of all nodes below the node are in memory.
    ///
    /// # Cancel safety
    /// If the future is dropped, some of the nodes may have been deleted.
    #[doc(alias = "deletingChildrenIfNeeded")]
    pub async fn delete_recursive(&self, path: &str) -> Result<(), Error> {
        let mut deleted = self.delete(path, None).await;
        for _ in 0..DELETE_ROUNDS_MAX {
            match deleted {
                Err(error) if error.is_not_empty() => {}
                deleted => return deleted,
            }
            self.delete_below(path).await.map_err(|error| error.with_outcome(Outcome::Unknown))?;
            deleted = match self.delete(path, None).await {
                Err(error) if error.is_no_node() => Ok(()),
                deleted => deleted,
            };
        }
        deleted
    }

    /// Deletes what is below the path now: children before their parents.
    async fn delete_below(&self, path: &str) -> Result<(), Error> {
        let paths = self.paths_below(path).await?;
        for part in paths.rchunks(NODES_AT_ONCE) {
            let asked: Vec<_> = part.iter().rev().map(|path| self.delete(path, None)).collect();
            for asked in asked {
                match asked.await.map_err(|error| (error.code(), error)) {
                    Ok(()) | Err((Some(ErrorCode::NO_NODE | ErrorCode::NOT_EMPTY), _)) => {}
                    Err((_, error)) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Returns the paths of all nodes below one: each behind its parent.
    async fn paths_below(&self, path: &str) -> Result<Vec<String>, Error> {
        let mut paths = self.paths_of_children(path).await?;
        let mut listed = 0;
        while listed < paths.len() {
            let part = listed..paths.len().min(listed + NODES_AT_ONCE);
            listed = part.end;
            let asked: Vec<_> = paths
                .get(part)
                .into_iter()
                .flatten()
                .map(|path| self.paths_of_children(path))
                .collect();
            for asked in asked {
                paths.extend(asked.await?);
            }
        }
        Ok(paths)
    }

    /// Sends the request for the children of a node. Returns none if the node does not exist.
    fn paths_of_children(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Vec<String>, Error>> + Send + use<> {
        let (asked, parent) = (self.get_children(path), path.to_owned());
        async move {
            match asked.await {
                Ok(children) => {
                    let names = children.names.names();
                    Ok(names.map(|name| proto::path::child(&parent, &name)).collect())
                }
                Err(error) if error.is_no_node() => Ok(Vec::new()),
                Err(error) => Err(error),
            }
        }
    }
}
