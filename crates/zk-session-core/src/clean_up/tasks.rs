//! Table of the clean-up tasks.
//!
//! A task is done when the server confirms it, or when the session is over and its ephemeral nodes
//! are deleted with it. Until then it is sent again on every new connection, so no lost reply can
//! leave a node behind (CURATOR-42, CURATOR-678).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use proto::{Delete, Multi, MultiOp, SetData};

use super::Overflow;
use crate::limits::{BACKLOG_BYTES_MAX, CLEAN_UPS_MAX, QUEUED_BYTES_MAX};
use crate::output::Outputs;
use crate::requests::Due;
use crate::{ErrorKind, Handles, Limit, Outcome, RequestId, SessionEvent};

/// Clean-up task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CleanUpTask {
    /// Delete this node, in any version.
    Delete { path: String },
    /// Delete this node and change its data before that, in one transaction. A rejected transaction
    /// becomes a [`Delete`](Self::Delete).
    MarkedDelete { path: String },
    /// Delete every child of `parent` whose name starts with `prefix`: the nodes of a create whose
    /// reply no caller received.
    Sweep { parent: String, prefix: String },
}

impl CleanUpTask {
    /// Returns the task that deletes a node, with a mark if the frame of the transaction fits.
    pub(crate) fn marked_delete(path: &str) -> Self {
        let task = Self::MarkedDelete { path: path.to_owned() };
        if task.frame_len() > proto::FRAME_LEN_MAX_SERVER {
            Self::Delete { path: path.to_owned() }
        } else {
            task
        }
    }

    pub(super) fn path(&self) -> &str {
        match self {
            Self::Delete { path } | Self::MarkedDelete { path } => path,
            Self::Sweep { parent, .. } => parent,
        }
    }

    /// Returns the length of the frame that deletes the node. The frame that lists its children is
    /// shorter.
    pub(crate) fn frame_len(&self) -> usize {
        match self {
            Self::MarkedDelete { path } => {
                proto::request_frame_len(&Multi::new(&marked_delete(path)))
            }
            task => proto::request_frame_len(&delete(task.path())),
        }
    }

    /// Returns the size in bytes of memory.
    fn size(&self) -> usize {
        let prefix_len = match self {
            Self::Delete { .. } | Self::MarkedDelete { .. } => 0,
            Self::Sweep { prefix, .. } => prefix.len(),
        };
        size_of::<Self>() + self.path().len() + prefix_len
    }

    fn is_sweep(&self) -> bool {
        matches!(self, Self::Sweep { .. })
    }
}

/// Returns the request that deletes a node in any version.
pub(super) fn delete(path: &str) -> Delete<'_> {
    Delete { path: path.into(), version: -1 }
}

/// Returns the transaction of a marked delete. No client can read the data.
pub(super) fn marked_delete(path: &str) -> [MultiOp<'_>; 2] {
    [
        SetData { path: path.into(), data: Some((&[]).into()), version: -1 }.into(),
        delete(path).into(),
    ]
}

#[derive(Debug)]
pub(super) struct Task<R> {
    pub(super) task: CleanUpTask,
    pub(super) waiter: Option<R>,
    pub(super) due: Option<Due>,
    /// A reply was lost, so the server may have executed the task before.
    pub(super) repeated: bool,
    /// The server rejected the sync before the listing, so its list of children proves nothing.
    pub(super) is_behind: bool,
}

impl<R> Task<R> {
    /// Turns a marked delete into a delete without the mark, because the server has rejected the
    /// transaction. Returns false if the task is of another kind.
    pub(super) fn unmark(&mut self) -> bool {
        let CleanUpTask::MarkedDelete { path } = &mut self.task else { return false };
        self.task = CleanUpTask::Delete { path: std::mem::take(path) };
        true
    }
}

/// Guaranteed deletes of one session, as tasks in the order of submission.
#[derive(Debug)]
pub(crate) struct CleanUp<H: Handles> {
    tasks: BTreeMap<RequestId, Task<H::Reply>>,
    unsent: BTreeSet<RequestId>,
    /// Tasks that the server was too busy for. They wait until `retry_at`, or for another
    /// connection.
    put_off: Vec<RequestId>,
    retry_at: Option<Instant>,
    sweeps: usize,
    /// Bytes of the tasks' paths.
    bytes: usize,
    /// Tasks for which there is no room in `tasks`. No caller waits for their replies.
    backlog: VecDeque<CleanUpTask>,
    backlog_bytes: usize,
    is_backlog_told: bool,
}

impl<H: Handles> CleanUp<H> {
    pub(crate) fn new() -> Self {
        Self {
            tasks: BTreeMap::new(),
            unsent: BTreeSet::new(),
            put_off: Vec::new(),
            retry_at: None,
            sweeps: 0,
            bytes: 0,
            backlog: VecDeque::new(),
            backlog_bytes: 0,
            is_backlog_told: false,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// Returns true if the table or the backlog has a delete of this node. Compares the path with those of
    /// all tasks.
    pub(crate) fn is_deleting(&self, path: &str) -> bool {
        let tasks = self.tasks.values().map(|task| &task.task).chain(&self.backlog);
        tasks.filter(|task| !task.is_sweep()).any(|task| task.path() == path)
    }

    /// Sends the event of a backlog, if there is one and the event was not sent since the
    /// connection changed.
    pub(crate) fn report_backlog(&mut self, outputs: &mut Outputs<H>) {
        if !self.backlog.is_empty() && !std::mem::replace(&mut self.is_backlog_told, true) {
            outputs.event(SessionEvent::CleanUpBacklog { nodes: self.backlog.len() });
        }
    }

    /// Notes that a connection was established or lost.
    pub(crate) fn connection_changed(&mut self) {
        self.is_backlog_told = false;
    }

    /// Adds a task to the backlog.
    pub(super) fn defer(
        &mut self,
        task: CleanUpTask,
        outputs: &mut Outputs<H>,
    ) -> Result<(), Overflow> {
        let bytes = self.backlog_bytes + task.size();
        if bytes > BACKLOG_BYTES_MAX {
            return Err(Overflow);
        }
        self.backlog_bytes = bytes;
        self.backlog.push_back(task);
        self.report_backlog(outputs);
        Ok(())
    }

    /// Removes the oldest task from the backlog, if the table has room for it.
    pub(super) fn next_deferred(&mut self) -> Option<CleanUpTask> {
        self.backlog.front().filter(|task| self.has_room_for(task).is_ok())?;
        let task = self.backlog.pop_front()?;
        self.backlog_bytes -= task.size();
        Some(task)
    }

    /// Fails with the limit that leaves no room for another task.
    pub(super) fn has_room_for(&self, task: &CleanUpTask) -> Result<(), Limit> {
        if self.tasks.len() >= CLEAN_UPS_MAX {
            Err(Limit::CleanUps)
        } else if self.bytes + task.path().len() > QUEUED_BYTES_MAX {
            Err(Limit::CleanUpBytes)
        } else {
            Ok(())
        }
    }

    /// Returns true if something remains to be sent when all sent requests are answered.
    pub(crate) fn needs_replies(&self) -> bool {
        self.sweeps > 0 || !self.put_off.is_empty() || !self.backlog.is_empty()
    }

    pub(super) fn insert(
        &mut self,
        id: RequestId,
        task: CleanUpTask,
        waiter: Option<H::Reply>,
        due: Option<Due>,
    ) {
        self.bytes += task.path().len();
        self.sweeps += usize::from(task.is_sweep());
        self.tasks.insert(id, Task { task, waiter, due, repeated: false, is_behind: false });
        self.unsent.insert(id);
    }

    /// Takes the oldest unsent task and marks it as sent, if it is older than the request with that
    /// id.
    pub(super) fn start_next(&mut self, before: RequestId) -> Option<(RequestId, CleanUpTask)> {
        self.unsent.first().filter(|id| **id < before)?;
        let id = self.unsent.pop_first()?;
        Some((id, self.tasks.get(&id)?.task.clone()))
    }

    /// Removes the recipient of a task's reply, because it stopped waiting.
    pub(crate) fn stop_waiting(&mut self, id: RequestId) -> Option<H::Reply> {
        self.tasks.get_mut(&id)?.waiter.take()
    }

    /// Removes a task that is over, and returns it.
    pub(super) fn remove(&mut self, id: RequestId) -> Option<Task<H::Reply>> {
        self.unsent.remove(&id);
        let task = self.tasks.remove(&id)?;
        self.bytes -= task.task.path().len();
        self.sweeps -= usize::from(task.task.is_sweep());
        Some(task)
    }

    /// Notes that the reply was lost with the connection, and whether the request may have been applied. The
    /// task is sent again.
    pub(crate) fn unsend(&mut self, id: RequestId, outcome: Outcome) {
        if let Some(task) = self.tasks.get_mut(&id) {
            if outcome != Outcome::NotApplied {
                task.repeated = true;
                task.unmark();
            }
            task.is_behind = false;
            self.unsent.insert(id);
        }
    }

    /// Notes that the server rejected the sync before the listing.
    pub(crate) fn sync_declined(&mut self, id: RequestId) {
        if let Some(task) = self.tasks.get_mut(&id) {
            task.is_behind = true;
        }
    }

    pub(super) fn get_mut(&mut self, id: RequestId) -> Option<&mut Task<H::Reply>> {
        self.tasks.get_mut(&id)
    }

    /// Marks a task as unsent.
    pub(super) fn send_again(&mut self, id: RequestId) {
        self.unsent.insert(id);
    }

    /// Postpones a task to `when`, because the server could not execute it now.
    pub(super) fn postpone(&mut self, id: RequestId, when: Instant) {
        self.put_off.push(id);
        self.retry_at = Some(self.retry_at.map_or(when, |at| at.min(when)));
    }

    /// Returns when tasks are sent again that the server was too busy for.
    pub(crate) fn retry_due(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Releases the postponed tasks to be sent again.
    pub(crate) fn retry(&mut self) {
        self.retry_at = None;
        let put_off = self.put_off.drain(..).filter(|id| self.tasks.contains_key(id));
        self.unsent.extend(put_off);
    }

    /// Removes all tasks at the end of the session, answers their callers, and returns the tasks. All
    /// in-flight requests must have failed before.
    pub(crate) fn end(
        &mut self,
        kind: &ErrorKind,
        outputs: &mut Outputs<H>,
    ) -> impl Iterator<Item = CleanUpTask> + use<H> {
        let Self { tasks, backlog, .. } = std::mem::replace(self, Self::new());
        let mut ended = Vec::with_capacity(tasks.len());
        for task in tasks.into_values() {
            let outcome = if task.repeated { Outcome::Unknown } else { Outcome::NotApplied };
            if let Some(to) = task.waiter {
                outputs.fail(to, kind.clone(), outcome);
            }
            ended.push(task.task);
        }
        ended.into_iter().chain(backlog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Handle;

    struct Letters;

    impl Handles for Letters {
        type Reply = char;
        type Watch = char;
        type Stream = char;
    }

    impl Handle for char {}

    /// The limits count what is there, and not what has ever been there.
    #[test]
    fn finished_and_resumed_tasks_leave_room_for_others() {
        let delete = |len: usize| CleanUpTask::Delete { path: "x".repeat(len) };
        let mut tasks = CleanUp::<Letters>::new();
        let id = RequestId::of;
        tasks.insert(id(1), delete(10), None, None);
        assert_eq!(tasks.has_room_for(&delete(QUEUED_BYTES_MAX - 10)), Ok(()));
        assert_eq!(tasks.has_room_for(&delete(QUEUED_BYTES_MAX - 9)), Err(Limit::CleanUpBytes));
        tasks.remove(id(1)).unwrap();
        assert_eq!(tasks.has_room_for(&delete(QUEUED_BYTES_MAX)), Ok(()));

        let mut outputs = Outputs::new();
        for n in 0..3 {
            tasks.defer(delete(BACKLOG_BYTES_MAX / 2), &mut outputs).unwrap();
            assert!(tasks.defer(delete(BACKLOG_BYTES_MAX / 2), &mut outputs).is_err(), "{n}");
            assert!(tasks.next_deferred().is_some());
        }
        assert_eq!(tasks.backlog_bytes, 0);
        let most = BACKLOG_BYTES_MAX - delete(0).size();
        assert!(tasks.defer(delete(most), &mut outputs).is_ok(), "exactly the limit");
    }

    #[test]
    fn size_of_a_sweep_includes_its_prefix() {
        let sweep =
            |prefix: &str| CleanUpTask::Sweep { parent: "/p".into(), prefix: prefix.into() };
        assert_eq!(sweep("").size(), size_of::<CleanUpTask>() + 2);
        assert_eq!(sweep("_c_1").size(), size_of::<CleanUpTask>() + 6);
    }

    #[test]
    fn longest_path_that_fits_a_transaction_is_deleted_with_a_mark() {
        let frame_len = |path: &str| CleanUpTask::MarkedDelete { path: path.into() }.frame_len();
        let spare = proto::FRAME_LEN_MAX_SERVER - frame_len("");
        // The transaction contains the path twice.
        let longest = "x".repeat(spare / 2);
        assert!(frame_len(&longest) + 1 >= proto::FRAME_LEN_MAX_SERVER);
        let is_marked = |path: &str| {
            matches!(CleanUpTask::marked_delete(path), CleanUpTask::MarkedDelete { .. })
        };
        assert!(is_marked(&longest) && !is_marked(&format!("{longest}x")));
    }
}
