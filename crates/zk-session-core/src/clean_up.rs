//! Guaranteed deletes of the session. See [`super::cleanup_tasks`] for the pending tasks.

use std::time::{Duration, Instant};

use bytes::Bytes;
use proto::{ChildrenReply, Decode, Delete, GetChildren2, Sync};

use super::cleanup_tasks::{CleanupTask, CleanupTasks, Task};
use super::deadlines::{DeadlineOwner, RequestId};
use super::handles::{Handle, Recipient, Waiter};
use super::{Failure, Handles, Output, Reply, Session};
use crate::error::{ErrorKind, Outcome, TRANSIENT_CODES};
use crate::limits::{CLEANUPS_MAX, QUEUED_BYTES_MAX};
use crate::{SessionEnd, SessionEvent};

impl<H: Handles> Session<H> {
    /// Deletes a node, guaranteed: as long as the session lives, the delete is sent again on every
    /// connection until the server has answered it.
    ///
    /// `NoNode` is returned only if the node was missing before the first attempt. If a repetition
    /// finds no node, an earlier attempt counts as the deletion. Any other rejection by the server
    /// is sent as [`SessionEvent::CleanUpFailed`] if there is no handle, or if it is abandoned. A
    /// deadline ends the waiting only.
    ///
    /// Beyond [`CLEANUPS_MAX`] the node is deleted later, and no caller receives the reply. With a
    /// handle the call fails with [`ErrorKind::LimitReached`] and [`Outcome::Unknown`]. Beyond
    /// [`BACKLOG_BYTES_MAX`](crate::limits::BACKLOG_BYTES_MAX) the session is closed.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn delete_guaranteed(
        &mut self,
        now: Instant,
        path: &str,
        to: Option<Waiter<H::Reply>>,
    ) -> Result<(), Failure> {
        self.add_cleanup_task(now, CleanupTask::Delete { path: path.to_owned() }, to)
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
        let task = CleanupTask::Sweep { parent: parent.to_owned(), prefix: prefix.to_owned() };
        self.add_cleanup_task(now, task, None)
    }

    fn add_cleanup_task(
        &mut self,
        now: Instant,
        task: CleanupTask,
        to: Option<Waiter<H::Reply>>,
    ) -> Result<(), Failure> {
        // A frame that the server rejects would close every connection from now on.
        self.admit_frame(delete_len(&task))?;
        if let Err(limit) = fits(&self.cleanup_tasks, &task) {
            self.defer(now, task)?;
            return match to {
                Some(_) => Err((ErrorKind::LimitReached(limit), Outcome::Unknown)),
                None => Ok(()),
            };
        }
        let number = self.deadlines.ticket();
        let due = to.as_ref().and_then(|to| self.due(now, number, to));
        self.deadlines.put(due, DeadlineOwner::CleanupTask);
        self.cleanup_tasks.add(number, task, to.map(|to| to.to), due);
        if self.is_connected() {
            self.send_all_cleanup_tasks(now);
        }
        Ok(())
    }

    /// Adds a task to the backlog. A node that is left behind would block its lock for as long as
    /// the session lives, so a session with a full backlog is closed.
    fn defer(&mut self, now: Instant, task: CleanupTask) -> Result<(), Failure> {
        if !self.cleanup_tasks.defer(task) {
            let end = SessionEnd::CleanUpOverflow;
            self.close_as(now, end);
            return Err((ErrorKind::SessionEnded(end), Outcome::NotApplied));
        }
        self.tell_backlog();
        Ok(())
    }

    /// Sends the event of a backlog, if there is one and the event was not sent since the
    /// connection changed.
    pub(super) fn tell_backlog(&mut self) {
        if let Some(nodes) = self.cleanup_tasks.untold_backlog() {
            self.event(SessionEvent::CleanUpBacklog { nodes });
        }
    }

    /// Moves tasks from the backlog to the table, as far as there is room.
    fn take_from_backlog(&mut self, now: Instant) {
        let mut is_more = false;
        while let Some(task) = self
            .cleanup_tasks
            .next_deferred(|cleanup_tasks, task| fits(cleanup_tasks, task).is_ok())
        {
            let number = self.deadlines.ticket();
            self.cleanup_tasks.add(number, task, None, None);
            is_more = true;
        }
        if is_more && self.is_connected() {
            self.send_all_cleanup_tasks(now);
        }
    }

    pub(super) fn send_all_cleanup_tasks(&mut self, now: Instant) {
        self.send_cleanup_tasks(now, RequestId(u64::MAX));
    }

    /// Sends the tasks that are older than the request with that ticket.
    pub(super) fn send_cleanup_tasks(&mut self, now: Instant, before: RequestId) {
        if self.is_read_only() || self.is_close_said() {
            return; // tasks wait for a read-write server, or end with the session
        }
        while let Some((number, task)) = self.cleanup_tasks.start_next(before) {
            let owner = Recipient::CleanupTask(number);
            match task {
                CleanupTask::Delete { path } => {
                    let request = Delete { path: path.as_str().into(), version: -1 };
                    self.transmit(now, &request, owner, None);
                }
                CleanupTask::Sweep { parent, .. } => {
                    // This server may be behind the one that executed the create.
                    let sync = Sync { path: parent.as_str().into() };
                    self.transmit(now, &sync, Recipient::CatchUp(number), None);
                    let list = GetChildren2 { path: parent.as_str().into(), watch: false };
                    self.transmit(now, &list, owner, None);
                }
            }
        }
    }

    /// Handles the server's reply to a task.
    pub(super) fn cleanup_answered(
        &mut self,
        now: Instant,
        number: RequestId,
        code: proto::ErrorCode,
        reply: Reply,
    ) {
        self.carry_on(now, number, code, &reply);
        self.take_from_backlog(now);
        self.send_close(now);
    }

    fn carry_on(&mut self, now: Instant, number: RequestId, code: proto::ErrorCode, reply: &Reply) {
        use proto::ErrorCode as Code;
        if TRANSIENT_CODES.contains(&code) || self.cleanup_tasks.is_behind(number) {
            // The jitter spreads the retries of tasks that were rejected at the same time.
            let pause = self.identity.timeout / 10;
            let jitter = u64::try_from(pause.as_micros()).unwrap_or(u64::MAX);
            let jitter = Duration::from_micros(self.rng.below(jitter));
            self.cleanup_tasks.postpone(number, now + pause + jitter);
            return;
        }
        let Some(Task { task, waiter, due, repeated, .. }) = self.cleanup_tasks.finish(number)
        else {
            return;
        };
        self.deadlines.met(due);
        let gone = code == Code::NO_NODE;
        let told = if gone && repeated { Code::OK } else { code };
        if let (true, CleanupTask::Sweep { parent, prefix }) = (code.is_ok(), &task) {
            self.sweep(now, parent, prefix, &reply.body);
            self.send_all_cleanup_tasks(now);
        }
        match waiter.filter(|to| !to.is_abandoned()) {
            Some(to) => {
                let result = match told.is_ok() {
                    true => Ok(reply.clone()),
                    false => Err((ErrorKind::Server(told), Outcome::NotApplied)),
                };
                self.outputs.push_back(Output::Reply { to, result });
            }
            None if code.is_ok() || gone => {}
            None => {
                let (CleanupTask::Delete { path } | CleanupTask::Sweep { parent: path, .. }) = task;
                self.event(SessionEvent::CleanUpFailed { path, code });
            }
        }
    }

    /// Drops a task whose reply can never be accepted. If it were sent again, its reply would also
    /// close the next connection.
    pub(super) fn give_up_cleanup(&mut self, now: Instant, number: RequestId) {
        self.give_up(number);
        self.take_from_backlog(now);
    }

    fn give_up(&mut self, number: RequestId) {
        let Some(Task { task, waiter, due, .. }) = self.cleanup_tasks.finish(number) else {
            return;
        };
        self.deadlines.met(due);
        let code = proto::ErrorCode::MARSHALLING_ERROR;
        match waiter {
            Some(to) => {
                let result = Err((ErrorKind::Server(code), Outcome::Unknown));
                self.outputs.push_back(Output::Reply { to, result });
            }
            None => {
                let (CleanupTask::Delete { path } | CleanupTask::Sweep { parent: path, .. }) = task;
                self.event(SessionEvent::CleanUpFailed { path, code });
            }
        }
    }

    fn sweep(&mut self, now: Instant, parent: &str, prefix: &str, list: &Bytes) {
        // A list that cannot be decoded names no node that could be deleted.
        let Ok(ChildrenReply { children, .. }) = ChildrenReply::from_frame(list) else {
            return;
        };
        let parent = parent.trim_end_matches('/');
        for name in children.names().filter(|name| name.starts_with(prefix)) {
            let task = CleanupTask::Delete { path: format!("{parent}/{name}") };
            if delete_len(&task) > proto::FRAME_LEN_MAX_SERVER {
                continue; // no frame can hold the path, so no create made this node
            }
            if fits(&self.cleanup_tasks, &task).is_ok() {
                let number = self.deadlines.ticket();
                self.cleanup_tasks.add(number, task, None, None);
            } else if self.defer(now, task).is_err() {
                return;
            }
        }
    }
}

/// Returns the name of the limit that leaves no room for another task, if one does.
fn fits<R>(cleanup_tasks: &CleanupTasks<R>, task: &CleanupTask) -> Result<(), &'static str> {
    if cleanup_tasks.len() >= CLEANUPS_MAX {
        Err("CLEANUPS_MAX")
    } else if cleanup_tasks.bytes() + task.path().len() > QUEUED_BYTES_MAX {
        Err("QUEUED_BYTES_MAX")
    } else {
        Ok(())
    }
}

/// Returns the length of the frame that deletes the node. The frame that lists its children is
/// shorter.
fn delete_len(task: &CleanupTask) -> usize {
    proto::request_frame_len(&Delete { path: task.path().into(), version: -1 })
}
