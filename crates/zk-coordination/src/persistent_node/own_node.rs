//! The node of one handle: how it is recognised, created, replaced, written and deleted.

use bytes::Bytes;
use zk_recipes::session::path::{child, file_name, parent, protection_prefix, random_uuid};
use zk_recipes::session::{
    Client, CreateMode, Error, ErrorKind, MultiOutcome, OpCode, Outcome, ParentMode, SessionId,
    Stat, Zxid,
};

use super::builder::{NodeMode, Options};
use super::node_watch::NodeWatch;
use crate::limits::EARLIER_SESSIONS_MAX;

/// The node of a handle, as far as the handle has seen it.
///
/// A node is recognised by its `czxid`, which no other node has. The reply to its create has it. If that
/// reply was lost, the node is recognised by its owner, the session of the create. No other handle of the
/// process can have created it on that session, because the handle has reserved the path. A sequential
/// node whose reply was lost is searched for by its protection, which the handle keeps for its whole life.
#[derive(Debug)]
pub(super) struct OwnNode {
    /// The path of the node. That of a sequential node has the protection, and no number.
    given_path: String,
    options: Options,
    /// Path that the server has given to a sequential node.
    numbered_path: Option<String>,
    /// The node that this handle has created.
    czxid: Option<Zxid>,
    /// Sessions on which this handle may have created a node besides.
    unconfirmed: Vec<SessionId>,
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

/// What a node that exists lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    Nothing,
    /// The handle has newer data.
    NewerData,
    /// Another client has written the node, and the handle keeps its own data.
    OwnData,
}

impl OwnNode {
    pub(super) fn new(client: &Client, path: &str, options: Options) -> Self {
        let unconfirmed = options.previous_session.into_iter().collect();
        let given_path = match options.mode {
            NodeMode::EphemeralSequential => protected(path, &random_uuid(client)),
            _ => path.to_owned(),
        };
        Self {
            given_path,
            options,
            numbered_path: None,
            czxid: None,
            unconfirmed,
            written: 0,
            written_zxid: Zxid::ZERO,
        }
    }

    /// Returns true if the server does not tell the nodes of several handles of one session apart.
    pub(super) fn needs_reservation(&self) -> bool {
        self.options.mode == NodeMode::Ephemeral
    }

    /// Creates the node, and its missing parents, unless an earlier create is found to have been applied.
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
        if self.has_applied_create(client).await? {
            return Ok(());
        }
        let is_first = self.mark_unconfirmed(session_id);
        let node = client.create_builder(self.path()).data(&data.data).acl(&self.options.acl);
        let node = match self.options.mode {
            NodeMode::EphemeralSequential if self.numbered_path.is_none() => {
                node.ephemeral().sequential()
            }
            NodeMode::EphemeralSequential | NodeMode::Ephemeral => node.ephemeral(),
            NodeMode::Persistent => node,
            NodeMode::Ttl(ttl) => node.ttl(ttl),
        };
        let node = node.parents(ParentMode::Containers).parents_acl(&self.options.acl);
        match node.create().await {
            Ok(created) => {
                if self.options.mode == NodeMode::EphemeralSequential {
                    self.numbered_path = Some(created.path);
                }
                self.record_creation(session_id, data, &created.stat);
                Ok(())
            }
            Err(error) => {
                if is_first && error.outcome() == Outcome::NotApplied {
                    self.unmark_unconfirmed(session_id);
                }
                Err(error)
            }
        }
    }

    /// Returns true if an earlier create of a sequential node has lost its reply, and its node is found.
    async fn has_applied_create(&mut self, client: &Client) -> Result<bool, Error> {
        if !self.may_have_lost_number() {
            return Ok(false);
        }
        let is_of_other_session = !self.unconfirmed.contains(&client.session_id());
        match self.find(client).await {
            // The lost node ends with its session.
            Err(error) if error.is_no_auth() && is_of_other_session => Ok(false),
            found => found,
        }
    }

    /// Returns true if a sequential node may exist whose number is not known: the reply to its create was
    /// lost.
    fn may_have_lost_number(&self) -> bool {
        let is_sequential = self.options.mode == NodeMode::EphemeralSequential;
        is_sequential && self.numbered_path.is_none() && !self.unconfirmed.is_empty()
    }

    /// Searches for a sequential node by its protection. Returns false if it does not exist.
    async fn find(&mut self, client: &Client) -> Result<bool, Error> {
        let (parent, prefix) = (parent(&self.given_path), file_name(&self.given_path));
        let found = client.find_protected(parent.unwrap_or("/"), prefix).await?;
        self.numbered_path = found.map(|node| node.path);
        Ok(self.numbered_path.is_some())
    }

    /// Returns the Stat of the node at the path, after the server has caught up.
    async fn read_synced(&self, client: &Client) -> Result<Option<Stat>, Error> {
        let (synced, found) = {
            let _one_write = client.batch();
            (client.sync(self.path()), client.exists(self.path()))
        };
        synced.await?;
        found.await
    }

    pub(super) fn owner(&self, client: &Client, stat: &Stat) -> Owner {
        let owner = stat.ephemeral_owner;
        match (self.options.mode.is_ephemeral(), owner) {
            (false, SessionId::NONE) => Owner::Current,
            (false, _) | (true, SessionId::NONE) => Owner::Other,
            (true, _) if !self.is_own(stat) => Owner::Other,
            (true, _) if owner == client.session_id() => Owner::Current,
            (true, _) => Owner::Earlier,
        }
    }

    fn is_own(&self, stat: &Stat) -> bool {
        self.czxid == Some(stat.czxid) || self.unconfirmed.contains(&stat.ephemeral_owner)
    }

    /// Records that this is the node of the handle, and the only one.
    pub(super) fn confirm(&mut self, stat: &Stat) {
        self.czxid = Some(stat.czxid);
        self.unconfirmed.clear();
    }

    /// Replaces the node of an earlier session in one transaction, unless the path has another one by now.
    ///
    /// The transaction compares the version. ZooKeeper can compare neither the `czxid` nor the owner, so
    /// the node is read right before, after a `sync`.
    pub(super) async fn replace(
        &mut self,
        client: &Client,
        data: &NumberedData,
    ) -> Result<(), Error> {
        let Some(stat) = self.read_synced(client).await? else { return Ok(()) };
        if self.owner(client, &stat) != Owner::Earlier {
            return Ok(());
        }
        let session_id = client.session_id();
        let is_first = self.mark_unconfirmed(session_id);
        let (path, acl) = (self.path(), &self.options.acl);
        let replaced = client
            .multi()
            .delete(path, Some(stat.version))
            .create_with_acl(path, &data.data, CreateMode::Ephemeral, acl)
            .send()
            .await;
        match replaced {
            Ok(outcomes) => {
                // Older servers send no Stat. The node is recognised by its session then, and the data
                // is written once more.
                if let Some(MultiOutcome::Created { stat: Some(stat), .. }) = outcomes.last() {
                    self.record_creation(session_id, data, stat);
                }
                Ok(())
            }
            Err(error) => {
                if is_first && error.outcome() == Outcome::NotApplied {
                    self.unmark_unconfirmed(session_id);
                }
                Err(error)
            }
        }
    }

    pub(super) fn lack(&self, stat: &Stat, data: &NumberedData) -> Lack {
        let is_overwritten = stat.mzxid != self.written_zxid;
        if self.written != data.number {
            Lack::NewerData
        } else if is_overwritten && self.options.keeps_data {
            Lack::OwnData
        } else {
            Lack::Nothing
        }
    }

    /// Writes the data, if the node has the version of this Stat.
    pub(super) async fn write(
        &mut self,
        client: &Client,
        stat: &Stat,
        data: &NumberedData,
    ) -> Result<(), Error> {
        let set = client.set_data(self.path(), &data.data, Some(stat.version)).await?;
        // Another node may have had the same version.
        if set.czxid == stat.czxid {
            self.record_write(data, set.mzxid);
        }
        Ok(())
    }

    /// Writes the data again, unless the node has it. Two handles that keep the same data of one node
    /// would otherwise write it in turn for ever.
    pub(super) async fn restore(
        &mut self,
        client: &Client,
        stat: &Stat,
        data: &NumberedData,
    ) -> Result<(), Error> {
        let found = client.get_data(self.path()).await?;
        if found.stat.czxid != stat.czxid {
            return Ok(());
        }
        if found.data == data.data {
            self.record_write(data, found.stat.mzxid);
            return Ok(());
        }
        self.write(client, &found.stat, data).await
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
        let found = node.data;
        client.set_data(self.path(), &found, Some(node.stat.version)).await.map(drop)
    }

    /// Deletes the node if it belongs to the handle.
    ///
    /// A guaranteed delete would not do: another process may already have a node of the same name.
    /// The `sync` lets the server catch up with a create whose reply was lost.
    ///
    /// A node of an earlier session is left to the server, which deletes it with that session. Only a
    /// delete of the owner itself is safe from an expiry: if the session has expired, the server rejects
    /// its requests. Other sessions might delete the next node of the path, which has the same version.
    /// To close the earlier session would be safe, too. But it would also delete the nodes that other
    /// handles are about to replace without a gap.
    pub(super) async fn delete(&mut self, client: &Client) -> Result<(), Error> {
        if self.czxid.is_none() && self.unconfirmed.is_empty() {
            return Ok(()); // no create was sent, and no node was adopted
        }
        if self.may_have_lost_number() && !self.find(client).await? {
            return Ok(());
        }
        loop {
            let Some(stat) = self.read_synced(client).await? else { return Ok(()) };
            match self.owner(client, &stat) {
                Owner::Other => return Ok(()),
                Owner::Earlier => self.wait_for_end(client, &stat).await?,
                Owner::Current => {
                    return match client.delete(self.path(), Some(stat.version)).await {
                        Err(error) if error.is_no_node() => Ok(()),
                        deleted => deleted,
                    };
                }
            }
        }
    }

    /// Waits for an event of the node with this Stat.
    async fn wait_for_end(&self, client: &Client, stat: &Stat) -> Result<(), Error> {
        let (found, mut watch) = NodeWatch::exists_and_watch(client, self.path()).await?;
        if found.is_some_and(|found| found.czxid == stat.czxid) {
            watch.event(client).await?;
        }
        Ok(())
    }

    pub(super) fn path(&self) -> &str {
        self.numbered_path.as_deref().unwrap_or(&self.given_path)
    }

    fn record_creation(&mut self, session_id: SessionId, data: &NumberedData, stat: &Stat) {
        self.czxid = Some(stat.czxid);
        self.unmark_unconfirmed(session_id);
        self.record_write(data, stat.mzxid);
    }

    fn record_write(&mut self, data: &NumberedData, zxid: Zxid) {
        (self.written, self.written_zxid) = (data.number, zxid);
    }

    /// Records, before a create is sent, that the session may own a node of the handle. Returns false if
    /// that was recorded before.
    fn mark_unconfirmed(&mut self, session_id: SessionId) -> bool {
        let is_new = !self.unconfirmed.contains(&session_id);
        if is_new {
            if self.unconfirmed.len() == EARLIER_SESSIONS_MAX {
                self.unconfirmed.remove(0);
            }
            self.unconfirmed.push(session_id);
        }
        is_new
    }

    /// Records that the session owns no node of the handle, or only the known one.
    fn unmark_unconfirmed(&mut self, session_id: SessionId) {
        self.unconfirmed.retain(|id| *id != session_id);
    }
}

/// Returns the path of a sequential node with the protection of Curator in front of its name.
fn protected(path: &str, uuid: &str) -> String {
    child(parent(path).unwrap_or("/"), &[&protection_prefix(uuid), file_name(path)].concat())
}
