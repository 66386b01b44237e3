//! Guaranteed deletes: nodes that must be removed from the server, even if connections are lost in
//! the meantime.

mod tasks;

use std::time::Instant;

use bytes::Bytes;
use proto::{ChildrenReply, Decode, ErrorCode, GetChildren2, Multi, MultiReply, Sync};

pub(crate) use self::tasks::{CleanUp, CleanUpTask};

use self::tasks::{Task, delete, marked_delete};
use crate::error::TRANSIENT_CODES;
use crate::output::Outputs;
use crate::requests::{DeadlineOwner, Recipient, Requests};
use crate::{
    ErrorKind, Failure, Handle, Handles, Outcome, Reply, ReplyTo, RequestId, SessionEvent,
};

/// The backlog is full. A node that is left behind would block its lock for as long as the session
/// lives, so the session has to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

impl<H: Handles> CleanUp<H> {
    /// Adds a task. The caller [sends](Self::send) it.
    ///
    /// Beyond the limits the task waits in the backlog, and no caller receives its reply. The
    /// inner result is for the caller.
    pub(crate) fn add(
        &mut self,
        now: Instant,
        task: CleanUpTask,
        to: Option<ReplyTo<H::Reply>>,
        requests: &mut Requests<H>,
        outputs: &mut Outputs<H>,
    ) -> Result<Result<(), Failure>, Overflow> {
        if let Err(limit) = self.has_room_for(&task) {
            self.defer(task, outputs)?;
            let told = to.map(|_| (ErrorKind::LimitReached(limit), Outcome::Unknown));
            return Ok(told.map_or(Ok(()), Err));
        }
        let id = requests.next_id();
        let due = to.as_ref().and_then(|to| requests.due(now, id, to));
        requests.set_deadline(due, DeadlineOwner::CleanUpTask);
        self.insert(id, task, to.map(|to| to.to), due);
        Ok(Ok(()))
    }

    /// Sends the tasks that are older than the request with that id.
    pub(crate) fn send(&mut self, now: Instant, before: RequestId, requests: &mut Requests<H>) {
        while let Some((id, task)) = self.start_next(before) {
            let recipient = Recipient::CleanUpTask(id);
            match task {
                CleanUpTask::Delete { path } => {
                    requests.send(now, &delete(&path), recipient, None, None);
                }
                CleanUpTask::MarkedDelete { path } => {
                    let request = marked_delete(&path);
                    requests.send(now, &Multi::new(&request), recipient, None, None);
                }
                CleanUpTask::Sweep { parent, .. } => {
                    // This server may be behind the one that executed the create.
                    let sync = Sync { path: parent.as_str().into() };
                    requests.send(now, &sync, Recipient::CatchUp(id), None, None);
                    let list = GetChildren2 { path: parent.as_str().into(), watch: false };
                    requests.send(now, &list, recipient, None, None);
                }
            }
        }
    }

    /// Handles the server's reply to a task. The caller sends the tasks that follow from it.
    /// `retry_at` is when a task is sent again that the server could not execute.
    pub(crate) fn answered(
        &mut self,
        id: RequestId,
        code: ErrorCode,
        reply: &Reply,
        retry_at: impl FnOnce() -> Instant,
        requests: &mut Requests<H>,
        outputs: &mut Outputs<H>,
    ) -> Result<(), Overflow> {
        let Some(task) = self.get_mut(id) else { return Ok(()) };
        let code = match &task.task {
            CleanUpTask::MarkedDelete { .. } if code.is_ok() => code_of_transaction(&reply.body),
            _ => code,
        };
        let is_behind = std::mem::take(&mut task.is_behind);
        let swept = if TRANSIENT_CODES.contains(&code) || is_behind {
            self.postpone(id, retry_at());
            Ok(())
        } else if !code.is_ok() && code != ErrorCode::NO_NODE && task.unmark() {
            // For example, the node's ACL does not permit a change of its data.
            self.send_again(id);
            Ok(())
        } else {
            self.finish(id, code, reply, requests, outputs)
        };
        self.take_from_backlog(requests);
        swept
    }

    fn finish(
        &mut self,
        id: RequestId,
        code: ErrorCode,
        reply: &Reply,
        requests: &mut Requests<H>,
        outputs: &mut Outputs<H>,
    ) -> Result<(), Overflow> {
        let Some(Task { task, waiter, due, repeated, .. }) = self.remove(id) else {
            return Ok(());
        };
        requests.met(due);
        let gone = code == ErrorCode::NO_NODE;
        let told = if gone && repeated { ErrorCode::OK } else { code };
        let swept = match &task {
            CleanUpTask::Sweep { parent, prefix } if code.is_ok() => {
                self.sweep(parent, prefix, &reply.body, requests, outputs)
            }
            _ => Ok(()),
        };
        match waiter.filter(|to| !to.is_abandoned()) {
            Some(to) => outputs.answer(to, told, reply.clone()),
            None if code.is_ok() || gone => {}
            None => {
                outputs.event(SessionEvent::CleanUpFailed { path: task.path().to_owned(), code })
            }
        }
        swept
    }

    /// Adds the deletions of the nodes that a sweep has found.
    fn sweep(
        &mut self,
        parent: &str,
        prefix: &str,
        list: &Bytes,
        requests: &mut Requests<H>,
        outputs: &mut Outputs<H>,
    ) -> Result<(), Overflow> {
        // A list that cannot be decoded names no node that could be deleted.
        let Ok(ChildrenReply { children, .. }) = ChildrenReply::from_frame(list) else {
            return Ok(());
        };
        for name in children.names().filter(|name| name.starts_with(prefix)) {
            let task = CleanUpTask::Delete { path: proto::path::child(parent, &name) };
            if task.frame_len() > proto::FRAME_LEN_MAX_SERVER {
                continue; // no frame can hold the path, so no create made this node
            }
            match self.has_room_for(&task) {
                Ok(()) => self.insert(requests.next_id(), task, None, None),
                Err(_) => self.defer(task, outputs)?,
            }
        }
        Ok(())
    }

    /// Drops a task whose reply can never be accepted. If it were sent again, its reply would also
    /// close the next connection.
    pub(crate) fn give_up(
        &mut self,
        id: RequestId,
        requests: &mut Requests<H>,
        outputs: &mut Outputs<H>,
    ) {
        let code = ErrorCode::MARSHALLING_ERROR;
        if let Some(Task { task, waiter, due, .. }) = self.remove(id) {
            requests.met(due);
            match waiter {
                Some(to) => outputs.fail(to, ErrorKind::Server(code), Outcome::Unknown),
                None => outputs
                    .event(SessionEvent::CleanUpFailed { path: task.path().to_owned(), code }),
            }
        }
        self.take_from_backlog(requests);
    }

    /// Returns the number of tasks that no server has answered yet.
    pub(crate) fn pending(&self) -> usize {
        self.len() + self.backlog()
    }

    /// Moves tasks from the backlog to the table, as far as there is room.
    fn take_from_backlog(&mut self, requests: &mut Requests<H>) {
        while let Some(task) = self.next_deferred() {
            self.insert(requests.next_id(), task, None, None);
        }
    }

    /// Checks the limits.
    pub(crate) fn check(&self) {
        assert!(self.len() <= crate::limits::CLEAN_UPS_MAX);
        let is_busy = self.len() > 0;
        assert!(self.backlog() == 0 || is_busy, "nothing waits in line for nothing");
    }
}

/// Returns the result of a transaction, whose reply has no error in its header. A reply that cannot
/// be read counts as a rejection: to send the delete again does no harm.
fn code_of_transaction(body: &Bytes) -> ErrorCode {
    match MultiReply::from_frame(body) {
        Ok(reply) => reply.failure().map_or(ErrorCode::OK, |(_, code)| code),
        Err(_) => ErrorCode::MARSHALLING_ERROR,
    }
}
