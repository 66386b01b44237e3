//! Guaranteed deletes, as callers see them.

use std::time::Instant;

use proto::ErrorCode;

use super::Session;
use crate::clean_up::{CleanUpTask, Overflow};
use crate::limits::{CLEAN_UP_RETRY_PART, CLEAN_UPS_MAX};
use crate::{ErrorKind, Failure, Handles, Outcome, Reply, ReplyTo, RequestId, SessionEnd};

/// Node, or nodes, that a session was to delete when it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftBehind {
    /// The node with this path.
    Node(String),
    /// The children of `parent` whose names start with `prefix`.
    Children {
        /// Path of the parent.
        parent: String,
        /// Start of the names.
        prefix: String,
    },
}

impl From<CleanUpTask> for LeftBehind {
    fn from(task: CleanUpTask) -> Self {
        match task {
            CleanUpTask::Delete { path } | CleanUpTask::MarkedDelete { path } => Self::Node(path),
            CleanUpTask::Sweep { parent, prefix } => Self::Children { parent, prefix },
        }
    }
}

impl<H: Handles> Session<H> {
    /// Deletes a node, guaranteed: as long as the session lives, the delete is sent again on every
    /// connection until the server has answered it.
    ///
    /// `NoNode` is returned only if the node was missing before the first attempt. If a repetition
    /// finds no node, an earlier attempt counts as the deletion. Any other rejection by the server
    /// is sent as [`SessionEvent::CleanUpFailed`](crate::SessionEvent::CleanUpFailed) if there is
    /// no handle, or if it is abandoned. A deadline ends the waiting only.
    ///
    /// Beyond [`CLEAN_UPS_MAX`](crate::limits::CLEAN_UPS_MAX), or
    /// [`QUEUED_BYTES_MAX`](crate::limits::QUEUED_BYTES_MAX) bytes of paths, the node is deleted
    /// later, and no caller receives the reply. With a handle the call fails with
    /// [`ErrorKind::LimitReached`] and [`Outcome::Unknown`]. Beyond
    /// [`BACKLOG_BYTES_MAX`](crate::limits::BACKLOG_BYTES_MAX) the session is closed.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn delete_guaranteed(
        &mut self,
        now: Instant,
        path: &str,
        to: Option<ReplyTo<H::Reply>>,
    ) -> Result<(), Failure> {
        self.add_clean_up(now, CleanUpTask::Delete { path: path.to_owned() }, to)
    }

    /// As [`delete_guaranteed`](Self::delete_guaranteed), in one transaction with a change of the
    /// node's data. A server that rejects the transaction receives the delete alone.
    ///
    /// Since 3.9.0 (ZOOKEEPER-4655), a session that watches both the data and the children of the
    /// node receives `NODE_DATA_CHANGED` and `NODE_DELETED` with one zxid. It can distinguish this
    /// delete from any other.
    ///
    /// A delete that is sent again, because it may have been applied, has no mark: the node of that path may
    /// be another one by now.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn delete_marked_guaranteed(
        &mut self,
        now: Instant,
        path: &str,
        to: Option<ReplyTo<H::Reply>>,
    ) -> Result<(), Failure> {
        self.add_clean_up(now, CleanUpTask::marked_delete(path), to)
    }

    /// Deletes, guaranteed, every child of `parent` whose name starts with `prefix`. A create whose
    /// reply no caller waits for may have created such a node. Call it after that create was
    /// submitted.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn delete_protected_guaranteed(
        &mut self,
        now: Instant,
        parent: &str,
        prefix: &str,
    ) -> Result<(), Failure> {
        let task = CleanUpTask::Sweep { parent: parent.to_owned(), prefix: prefix.to_owned() };
        self.add_clean_up(now, task, None)
    }

    /// Returns true if a guaranteed delete of exactly this node is pending: it was submitted, and no
    /// server has answered it. A delete in the backlog counts.
    ///
    /// Compares the path with those of all pending deletes.
    #[must_use]
    pub fn is_deleting(&self, path: &str) -> bool {
        self.clean_up.is_deleting(path)
    }

    /// Returns the nodes that were to be deleted, guaranteed, when the session ended or since, if the servers
    /// may keep them for a while ([`SessionEnd::NotResumed`], [`SessionEnd::ExpiredLocally`]). Each is
    /// returned once, and at most [`CLEAN_UPS_MAX`](crate::limits::CLEAN_UPS_MAX) are kept.
    ///
    /// Another session may delete those that [this one](Self::session_id) owns.
    pub fn take_left_behind(&mut self) -> Vec<LeftBehind> {
        let tasks = std::mem::take(&mut self.left_behind);
        tasks.into_iter().map(LeftBehind::from).collect()
    }

    fn add_clean_up(
        &mut self,
        now: Instant,
        task: CleanUpTask,
        to: Option<ReplyTo<H::Reply>>,
    ) -> Result<(), Failure> {
        let is_left = self.end_reason().is_some_and(SessionEnd::leaves_nodes);
        if is_left && self.left_behind.len() < CLEAN_UPS_MAX {
            self.left_behind.push(task.clone());
        }
        // A frame that the server rejects would close every connection from now on.
        self.admit_frame(task.frame_len())?;
        let to = to.map(|to| self.limited(now, to));
        match self.clean_up.add(now, task, to, &mut self.requests, &mut self.outputs) {
            Ok(result) => {
                self.send_clean_up(now);
                result
            }
            Err(Overflow) => {
                let end = SessionEnd::CleanUpOverflow;
                self.close_as(now, end);
                Err((ErrorKind::SessionEnded(end), Outcome::NotApplied))
            }
        }
    }

    /// Handles the server's reply to a task.
    pub(super) fn clean_up_answered(
        &mut self,
        now: Instant,
        id: RequestId,
        code: ErrorCode,
        reply: &Reply,
    ) {
        let pause = CLEAN_UP_RETRY_PART.of(self.identity.timeout());
        // The jitter spreads the retries of tasks that were rejected at the same time.
        let retry_at = || now + pause + self.rng.duration_below(pause);
        let (requests, outputs) = (&mut self.requests, &mut self.outputs);
        let answered = self.clean_up.answered(id, code, reply, retry_at, requests, outputs);
        if answered == Err(Overflow) {
            self.close_as(now, SessionEnd::CleanUpOverflow);
        }
        self.send_clean_up(now);
        self.send_close(now);
    }

    /// Sends all tasks that were not sent on this connection.
    pub(super) fn send_clean_up(&mut self, now: Instant) {
        self.send_clean_up_before(now, RequestId::LAST);
    }

    /// Sends the tasks that are older than the request with that id. Without a connection they wait
    /// for one, on a read-only server for another server, and behind closeSession they end with the
    /// session.
    pub(super) fn send_clean_up_before(&mut self, now: Instant, before: RequestId) {
        if self.is_connected() && !self.is_read_only() && !self.is_close_sent() {
            self.clean_up.send(now, before, &mut self.requests);
        }
    }
}
