//! The node of one handle: how it is recognised, created, replaced, written and deleted.

use bytes::Bytes;
use zk_recipes::session::{
    Client, CreateMode, Error, ErrorCode, ErrorKind, MultiOutcome, OpCode, Outcome, ParentMode,
    SessionId, Stat, Watch, Zxid,
};

use super::builder::{NodeMode, Options};
use crate::limits::EARLIER_SESSIONS_MAX;

/// The node of a handle, as far as the handle has seen it.
#[derive(Debug)]
pub(super) struct OwnNode {
    given_path: String,
    options: Options,
    /// Path that the server has given to a sequential node.
    numbered_path: Option<String>,
    /// Sessions on which the handle has created the node, or may have created it. The node of such
    /// a session belongs to the handle.
    sessions: Vec<SessionId>,
    /// Number of the data that was written last.
    written: u64,
    /// Zxid of that write.
    written_zxid: Zxid,
}

/// Data of the node. The number grows with each replacement.
#[derive(Clone, Debug)]
pub(super) struct NumberedData {
    pub(super) number: u64,
    pub(super) data: Bytes,
}

/// Owner of a node that was found at the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// This handle, on the current session.
    Current,
    /// This handle, on an earlier session. The server is about to delete the node.
    Earlier,
    Other,
}

/// Reason to write the data of a node that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Write {
    /// The handle has newer data.
    Newer,
    /// Another client has overwritten the data, which the handle keeps.
    Restore,
}

impl OwnNode {
    pub(super) fn new(path: &str, options: Options) -> Self {
        let sessions = options.previous_session.into_iter().collect();
        let given_path = path.to_owned();
        Self {
            given_path,
            options,
            numbered_path: None,
            sessions,
            written: 0,
            written_zxid: Zxid::ZERO,
        }
    }

    /// Creates the node, and its missing parents.
    pub(super) async fn create(
        &mut self,
        client: &Client,
        data: &NumberedData,
    ) -> Result<(), Error> {
        let session_id = client.session_id();
        if session_id == SessionId::NONE {
            // No session yet, only a read-only server: the node would have no owner to recognise.
            return Err(Error::not_applied(ErrorKind::NotReadOnly).on(OpCode::Create, self.path()));
        }
        // Before the request, because the caller may drop this future during the request.
        let is_first = self.add_session(session_id);
        let node = client.create_builder(self.path()).data(&data.data).acl(&self.options.acl);
        let node = match self.options.mode {
            NodeMode::EphemeralSequential if self.numbered_path.is_none() => {
                node.ephemeral().sequential().protected()
            }
            NodeMode::EphemeralSequential | NodeMode::Ephemeral => node.ephemeral(),
            NodeMode::Persistent => node,
            NodeMode::Ttl(ttl) => node.ttl(ttl),
        };
        match node.parents(ParentMode::Containers).create().await {
            Ok(created) => {
                if self.options.mode == NodeMode::EphemeralSequential {
                    self.numbered_path = Some(created.path);
                }
                self.record_write(data, created.stat.mzxid);
                Ok(())
            }
            Err(error) => {
                if is_first && error.outcome() == Outcome::NotApplied {
                    self.forget_session(session_id);
                }
                Err(error)
            }
        }
    }

    /// Returns the Stat of the node at the path, with a watch on it. There is no watch if the
    /// session has too many.
    pub(super) async fn look(
        &self,
        client: &Client,
    ) -> Result<Option<(Stat, Option<Watch>)>, Error> {
        match client.exists_and_watch(self.path()).await {
            Ok((stat, watch)) => Ok(stat.map(|stat| (stat, Some(watch)))),
            Err(error) if matches!(error.kind(), ErrorKind::LimitReached(_)) => {
                let stat = client.exists(self.path()).await?;
                Ok(stat.map(|stat| (stat, None)))
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whose node was found.
    pub(super) fn owner(&self, client: &Client, stat: &Stat) -> Owner {
        let owner = stat.ephemeral_owner;
        match (self.options.mode.is_ephemeral(), owner) {
            (false, SessionId::NONE) => Owner::Current,
            (false, _) | (true, SessionId::NONE) => Owner::Other,
            (true, _) if !self.sessions.contains(&owner) => Owner::Other,
            (true, _) if owner == client.session_id() => Owner::Current,
            (true, _) => Owner::Earlier,
        }
    }

    /// Records that the node is present on this session. It is the only node of the handle.
    pub(super) fn confirm(&mut self, client: &Client) {
        self.sessions.clear();
        self.sessions.push(client.session_id());
    }

    /// Records that the node was deleted while it was present on this session.
    pub(super) fn record_deletion(&mut self, client: &Client) {
        self.forget_session(client.session_id());
    }

    /// Replaces the node of an earlier session in one transaction, if it has the given version.
    pub(super) async fn replace(
        &mut self,
        client: &Client,
        stat: &Stat,
        data: &NumberedData,
    ) -> Result<(), Error> {
        let session_id = client.session_id();
        let is_first = self.add_session(session_id);
        let (path, acl) = (self.path(), &self.options.acl);
        let replaced = client
            .multi()
            .delete(path, Some(stat.version))
            .create_with_acl(path, &data.data, CreateMode::Ephemeral, acl)
            .send()
            .await;
        match replaced {
            Ok(outcomes) => {
                // Older servers send no Stat. The data is written once more then, if it is kept.
                if let Some(MultiOutcome::Created { stat: Some(stat), .. }) = outcomes.last() {
                    self.record_write(data, stat.mzxid);
                }
                Ok(())
            }
            Err(error) => {
                if is_first && error.outcome() == Outcome::NotApplied {
                    self.forget_session(session_id);
                }
                Err(error)
            }
        }
    }

    /// Returns the reason to write the data of the node, if there is one.
    pub(super) fn write_needed(&self, stat: &Stat, data: &NumberedData) -> Option<Write> {
        if self.written != data.number {
            return Some(Write::Newer);
        }
        let is_overwritten = stat.mzxid != self.written_zxid;
        (is_overwritten && self.options.keeps_data).then_some(Write::Restore)
    }

    /// Writes the data, if the node has the given version.
    pub(super) async fn write(
        &mut self,
        client: &Client,
        stat: &Stat,
        data: &NumberedData,
    ) -> Result<(), Error> {
        let set = client.set_data(self.path(), &data.data, Some(stat.version)).await?;
        self.record_write(data, set.mzxid);
        Ok(())
    }

    /// Renews the time to live of the node: writes the data that it has.
    pub(super) async fn renew(
        &mut self,
        client: &Client,
        stat: &Stat,
        data: &NumberedData,
    ) -> Result<(), Error> {
        if stat.mzxid == self.written_zxid && data.number == self.written {
            return self.write(client, stat, data).await;
        }
        let node = client.get_data(self.path()).await?;
        let found = node.data.unwrap_or_default();
        client.set_data(self.path(), &found, Some(node.stat.version)).await.map(drop)
    }

    /// Deletes the node if it belongs to the handle.
    ///
    /// A guaranteed delete would not do: another process may already have a node of the same name.
    /// The `sync` lets the server catch up with a create whose reply was lost.
    pub(super) async fn delete(&self, client: &Client) -> Result<(), Error> {
        if self.sessions.is_empty() {
            return Ok(()); // no create was sent, and no node was adopted
        }
        let (synced, found) = {
            let _one_write = client.batch();
            (client.sync(self.path()), client.exists(self.path()))
        };
        synced.await?;
        let Some(stat) = found.await? else { return Ok(()) };
        if self.owner(client, &stat) == Owner::Other {
            return Ok(());
        }
        match client.delete(self.path(), Some(stat.version)).await {
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(()),
            deleted => deleted,
        }
    }

    pub(super) fn path(&self) -> &str {
        self.numbered_path.as_deref().unwrap_or(&self.given_path)
    }

    fn record_write(&mut self, data: &NumberedData, zxid: Zxid) {
        (self.written, self.written_zxid) = (data.number, zxid);
    }

    /// Returns false if the session was in the list before.
    fn add_session(&mut self, session_id: SessionId) -> bool {
        let is_new = !self.sessions.contains(&session_id);
        if is_new {
            if self.sessions.len() == EARLIER_SESSIONS_MAX {
                self.sessions.remove(0);
            }
            self.sessions.push(session_id);
        }
        is_new
    }

    fn forget_session(&mut self, session_id: SessionId) {
        self.sessions.retain(|id| *id != session_id);
    }
}
