//! Curator's protection of a create: a random id in the node's name, by which the client finds the
//! node after a lost reply, or deletes it if no caller gets it.

use proto::path::child;
use zk_session_core::{Error, ErrorKind, Outcome};

use super::{Client, Created, Pending};
use crate::clock::now;
use crate::limits::CREATE_ATTEMPTS_MAX;

/// Returns a random UUID (version 4), which is the id in the names of Curator's protected nodes.
///
/// It comes from the random numbers of the client's session, and depends on
/// [`Config::seed`](crate::Config::seed) if that is set.
#[must_use]
pub fn random_uuid(client: &Client) -> String {
    client.shared.lock().random_uuid()
}

/// Returns a random id of 63 bits, as 16 hexadecimal digits. The first digit is 8 or more, so the id is no
/// [`Zxid`](crate::Zxid).
///
/// A list of names with such ids is shorter than one with [UUIDs](random_uuid), which have 122
/// random bits. 63 bits are enough for an id that is unique among the children of one node.
#[must_use]
pub fn random_short_id(client: &Client) -> String {
    client.shared.lock().random_short_id()
}

/// # Building blocks of recipes
impl Client {
    /// Searches for the node of a protected create whose reply was lost: the child of `parent` whose
    /// name starts with `prefix`; see [`protection_prefix`](crate::path::protection_prefix). Returns
    /// `None` if it does not exist. The caller decides whether its session owns the node.
    ///
    /// This server may lag behind the server that applied the create. So the search begins with a
    /// `sync`. It also orders the list after all requests of the old connection that were still in
    /// flight: the leader rejects requests from a connection that the session has left.
    ///
    /// # Errors
    /// Returns the errors of [`sync`](Self::sync) and of reads. The search changes nothing, so it
    /// can be repeated.
    pub async fn find_protected(
        &self,
        parent: &str,
        prefix: &str,
    ) -> Result<Option<Created>, Error> {
        let (synced, listed) = {
            let _one_write = self.batch();
            (self.sync(parent), self.get_children(parent))
        };
        let children = match (synced.await, listed.await) {
            (Ok(()), Ok(children)) => children,
            (Ok(()), Err(error)) if error.is_no_node() => return Ok(None),
            (Err(error), _) | (_, Err(error)) => return Err(error),
        };
        let name = children.names.names().find(|name| name.starts_with(prefix));
        let Some(name) = name else { return Ok(None) };
        let path = child(parent, &name);
        Ok(self.exists(&path).await?.map(|stat| Created { path, stat }))
    }

    /// Lists the ephemeral children of `parent` that this session owns and whose names start with
    /// `prefix`. Returns the names in the order of the server; none if `parent` does not exist.
    ///
    /// It finds the node of an unprotected create whose reply was lost: a node of this session that
    /// no caller knows. Like [`find_protected`](Self::find_protected), it begins with a `sync`.
    ///
    /// The reply has no names of other sessions, so that its length does not depend on them. It
    /// has the session's nodes below the children too, which are left out here.
    ///
    /// # Errors
    /// Returns the errors of [`sync`](Self::sync) and of [`ephemerals`](Self::ephemerals). The
    /// search changes nothing, so it can be repeated.
    pub async fn find_own(&self, parent: &str, prefix: &str) -> Result<Vec<String>, Error> {
        let (synced, listed) = {
            let _one_write = self.batch();
            (self.sync(parent), self.ephemerals(&child(parent, prefix)))
        };
        synced.await?;
        let (paths, below) = (listed.await?, child(parent, ""));
        let names = paths.iter().filter_map(|path| path.strip_prefix(&below));
        let names = names.filter(|name| name.starts_with(prefix) && !name.contains('/'));
        Ok(names.map(str::to_owned).collect())
    }

    /// Returns true if a guaranteed delete of exactly this node is pending: the session has accepted
    /// it, and no server has answered it. It may be [marked](Self::delete_marked_guaranteed), and
    /// may wait in the [backlog](crate::SessionEvent::CleanUpBacklog).
    ///
    /// The node may be deleted already, if the reply is on its way or was lost. A delete of all
    /// names with a prefix counts for a node once it has found the node.
    ///
    /// The call compares the path with those of all pending deletes, while it locks the session.
    #[must_use]
    pub fn is_deleting(&self, path: &str) -> bool {
        self.shared.lock().is_deleting(&self.full(path))
    }

    /// Deletes every child of `parent` whose name starts with `prefix`, guaranteed and without a
    /// reply.
    ///
    /// It deletes the node that a protected create may have left, when no caller will get the reply
    /// to that create. The session reports a rejected delete as
    /// [`SessionEvent::CleanUpFailed`](crate::SessionEvent::CleanUpFailed). See
    /// [`delete_guaranteed`](Self::delete_guaranteed).
    pub fn delete_protected_guaranteed(&self, parent: &str, prefix: &str) {
        let full = self.full(parent);
        // An error means that the session is over, and its ephemeral nodes with it, or that the
        // path is longer than that of any create.
        let accepted = self.shared.lock().delete_protected_guaranteed(now(), &full, prefix);
        self.hand_over_unless(accepted.is_ok());
        self.shared.wake();
    }
}

/// A create whose node may be left behind. Dropping this value deletes the node, unless `is_settled`.
pub(super) struct LostCreate {
    client: Client,
    parent: String,
    prefix: String,
    /// The last attempt.
    pub(super) pending: Pending<Created>,
    /// No node can be left behind, or it has been found.
    pub(super) is_settled: bool,
}

impl LostCreate {
    /// Takes a create that was sent, of a child of `parent` whose name starts with `prefix`.
    pub(super) fn new(
        client: &Client,
        parent: String,
        prefix: String,
        pending: Pending<Created>,
    ) -> Self {
        Self { client: client.clone(), parent, prefix, pending, is_settled: false }
    }

    /// Takes the next attempt, which was sent.
    pub(super) fn repeat(&mut self, pending: Pending<Created>) {
        (self.pending, self.is_settled) = (pending, false);
    }

    /// Searches for the node of a create after its reply was lost.
    pub(super) async fn find(&self) -> Result<Option<Created>, Error> {
        let mut failures = Failures::default();
        loop {
            let error = match self.client.find_protected(&self.parent, &self.prefix).await {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            // The outcome is that of the create.
            failures.repeat_if_lost(error.with_outcome(Outcome::Unknown))?;
        }
    }
}

impl Drop for LostCreate {
    fn drop(&mut self) {
        let never_left = self.pending.cancel();
        if !self.is_settled && !never_left {
            self.client.delete_protected_guaranteed(&self.parent, &self.prefix);
        }
    }
}

/// Number of failed attempts.
#[derive(Default)]
pub(super) struct Failures(u32);

impl Failures {
    /// Counts a failure. Returns an error unless the connection was lost, so that the next attempt
    /// waits for another one, and unless this was the last attempt.
    pub(super) fn repeat_if_lost(&mut self, error: Error) -> Result<(), Error> {
        if self.may_repeat() && is_lost(&error) { Ok(()) } else { Err(error) }
    }

    /// Counts a failure. Returns false if this was the last attempt.
    pub(super) fn may_repeat(&mut self) -> bool {
        self.0 += 1;
        self.0 < CREATE_ATTEMPTS_MAX
    }
}

/// Returns true if the connection was lost. A retry waits for the next connection.
pub(super) fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionLost(_))
}
