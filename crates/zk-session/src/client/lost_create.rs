//! A protected create whose reply was lost: the search for its node,
//! and its deletion if no caller gets it.

use zk_session_core::{Error, ErrorKind, Outcome};

use super::{Client, Created, Pending};
use crate::limits::CREATE_ATTEMPTS_MAX;

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
        match self.may_repeat() && is_lost(&error) {
            true => Ok(()),
            false => Err(error),
        }
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
