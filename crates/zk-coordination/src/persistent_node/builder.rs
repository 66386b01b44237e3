//! Options of a persistent node.

use std::time::Duration;

use bytes::Bytes;
use zk_recipes::session::{
    Acl, Client, CreateMode, Error, OPEN_ACL_UNSAFE, SessionId, SessionManager, validate_path,
    validate_ttl,
};

use super::PersistentNode;

/// Kind of node that a [`PersistentNode`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeMode {
    /// An ephemeral node. The server deletes it when the session ends, and the next session creates
    /// it again.
    Ephemeral,
    /// An ephemeral sequential node: the server appends a number to its path. The node keeps its
    /// name when it is created again, as in Curator.
    ///
    /// The name has the prefix `_c_<uuid>-`, as that of a
    /// [protected](zk_recipes::session::CreateBuilder::protected) node. After a lost reply, the handle
    /// finds its node by the prefix, also on the next session, and creates no second one. That needs
    /// permission to read the parent; without it, such a node is created again on the next session.
    EphemeralSequential,
    /// A persistent node. It has no owner: a node that exists already is adopted, and two handles
    /// with one path share the node.
    Persistent,
    /// A node with a time to live, which the handle renews. The server deletes it when no handle
    /// has renewed it for this long. It has no owner, like a persistent node.
    ///
    /// The handle writes the data of the node after half of that time. Curator's
    /// `PersistentTtlNode` writes a child `touch` instead. Both keep the node alive, so they can
    /// share it. A reader of the data sees the version grow with each renewal.
    Ttl(Duration),
}

impl NodeMode {
    pub(super) fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }
}

/// Options of a [`PersistentNode`]; see [`PersistentNode::builder`].
#[must_use = "nothing happens before `start`"]
#[derive(Clone, Debug)]
pub struct PersistentNodeBuilder<'a> {
    sessions: &'a SessionManager,
    path: &'a str,
    data: Bytes,
    options: Options,
}

/// Properties of a persistent node, besides its data.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) mode: NodeMode,
    pub(super) acl: Vec<Acl>,
    pub(super) keeps_data: bool,
    /// Earlier session whose node belongs to the handle.
    pub(super) previous_session: Option<SessionId>,
}

impl Options {
    /// Checks that the largest request with this data is not larger than a server accepts: the
    /// transaction that replaces a node.
    pub(super) fn check_data(&self, client: &Client, path: &str, data: &[u8]) -> Result<(), Error> {
        let path = match self.mode {
            NodeMode::EphemeralSequential => [path, NUMBERING].concat(),
            _ => path.to_owned(),
        };
        let replacement = client.multi().delete(&path, None);
        replacement.create_with_acl(&path, data, CreateMode::Ephemeral, &self.acl).check_len()
    }
}

/// As long as the protection and the number that a sequential node has in its name.
const NUMBERING: &str = "_c_00000000-0000-0000-0000-000000000000-0000000000";

impl<'a> PersistentNodeBuilder<'a> {
    pub(super) fn new(sessions: &'a SessionManager, path: &'a str) -> Self {
        let options = Options {
            mode: NodeMode::Ephemeral,
            acl: OPEN_ACL_UNSAFE.to_vec(),
            keeps_data: false,
            previous_session: None,
        };
        Self { sessions, path, data: Bytes::new(), options }
    }

    /// Sets the data of the node. The default is no data.
    pub fn data(self, data: impl AsRef<[u8]>) -> Self {
        Self { data: Bytes::copy_from_slice(data.as_ref()), ..self }
    }

    /// Sets the kind of the node. The default is [`NodeMode::Ephemeral`].
    pub fn mode(mut self, mode: NodeMode) -> Self {
        self.options.mode = mode;
        self
    }

    /// Sets the access control list of the node and of its missing parents. The default is open to
    /// everyone, as with Curator.
    ///
    /// The list must permit this client to read and write the node, and to create and delete nodes in
    /// a parent that the handle creates. If the permission to read is withdrawn later, the handle does not
    /// notice a deletion of its node: [no server reports it](crate::Cache#what-the-server-does-not-report).
    ///
    /// The next session presents the credentials of
    /// [`Config::auth`](zk_recipes::session::Config::auth) again, and not those of
    /// [`Client::add_auth`](zk_recipes::session::Client::add_auth).
    pub fn acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.options.acl = acl.into();
        self
    }

    /// Restores the data when another client overwrites it, after
    /// [`RESTORE_PAUSE`](crate::limits::RESTORE_PAUSE). By default, the data of the other client
    /// stays until the node is created again.
    pub fn keep_data(mut self) -> Self {
        self.options.keeps_data = true;
        self
    }

    /// Declares that a node of this session belongs to the handle: the session of an earlier run of
    /// the program, which has ended without a close.
    ///
    /// Such a node is replaced in one transaction, without a gap. The session must have ended: a handle
    /// that is closed before it has replaced the node waits for the end of that session. Without this
    /// option, the node of the earlier run is a [`Conflict`](super::NodeState::Conflict) until its
    /// session expires.
    /// A program learns the id of its session from
    /// [`Client::session_id`](zk_recipes::session::Client::session_id), and keeps it in a file.
    pub fn previous_session(mut self, session_id: SessionId) -> Self {
        self.options.previous_session = Some(session_id);
        self
    }

    /// Starts to create the node, in the background.
    ///
    /// # Errors
    /// As [`PersistentNode::start`].
    pub fn start(self) -> Result<PersistentNode, Error> {
        validate_path(self.path)?;
        if let NodeMode::Ttl(ttl) = self.options.mode {
            validate_ttl(ttl)?;
        }
        self.options.check_data(&self.sessions.client(), self.path, &self.data)?;
        Ok(PersistentNode::spawn(self.sessions, self.path, self.data, self.options))
    }
}
