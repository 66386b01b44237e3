//! Clean-up tasks: nodes that must be removed from the server, even if connections are lost in the
//! meantime.
//!
//! A task is done when the server confirms it, or when the session is over and its ephemeral nodes
//! are deleted with it. Until then it is sent again on every new connection, so no lost reply can
//! leave a node behind (CURATOR-42, CURATOR-678).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

use super::deadlines::{Due, RequestId};
use crate::limits::BACKLOG_BYTES_MAX;

/// Clean-up task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CleanupTask {
    /// Delete this node, in any version.
    Delete { path: String },
    /// Delete every child of `parent` whose name starts with `prefix`: the nodes of a create whose
    /// reply no caller received.
    Sweep { parent: String, prefix: String },
}

impl CleanupTask {
    pub(super) fn path(&self) -> &str {
        let (Self::Delete { path } | Self::Sweep { parent: path, .. }) = self;
        path
    }

    /// Returns the size in bytes of memory.
    fn size(&self) -> usize {
        let prefix_len = match self {
            Self::Delete { .. } => 0,
            Self::Sweep { prefix, .. } => prefix.len(),
        };
        size_of::<Self>() + self.path().len() + prefix_len
    }

    fn is_sweep(&self) -> bool {
        matches!(self, Self::Sweep { .. })
    }
}

#[derive(Debug)]
pub(super) struct Task<R> {
    pub(super) task: CleanupTask,
    pub(super) waiter: Option<R>,
    pub(super) due: Option<Due>,
    /// A reply was lost, so the server may have executed the task before.
    pub(super) repeated: bool,
    /// The server rejected the sync before the listing, so its list of children proves nothing.
    pub(super) is_behind: bool,
}

/// Clean-up tasks of one session, in the order of submission.
#[derive(Debug)]
pub(super) struct CleanupTasks<R> {
    tasks: BTreeMap<RequestId, Task<R>>,
    unsent: BTreeSet<RequestId>,
    /// Tasks that the server was too busy for. They wait until `retry_at`, or for another
    /// connection.
    put_off: Vec<RequestId>,
    retry_at: Option<Instant>,
    sweeps: usize,
    /// Bytes of the tasks' paths.
    bytes: usize,
    /// Tasks for which there is no room in `tasks`. No caller waits for their replies.
    backlog: VecDeque<CleanupTask>,
    backlog_bytes: usize,
    is_backlog_told: bool,
}

impl<R> CleanupTasks<R> {
    pub(super) fn new() -> Self {
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

    /// Returns the number of tasks in the backlog.
    pub(super) fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// Returns the number of tasks in the backlog, if there are any and this was not reported since
    /// the connection changed.
    pub(super) fn untold_backlog(&mut self) -> Option<usize> {
        let is_news = !self.backlog.is_empty() && !self.is_backlog_told;
        self.is_backlog_told |= is_news;
        is_news.then_some(self.backlog.len())
    }

    /// Notes that a connection was established or lost.
    pub(super) fn connection_changed(&mut self) {
        self.is_backlog_told = false;
    }

    /// Adds a task to the backlog. Returns false if the backlog is full.
    pub(super) fn defer(&mut self, task: CleanupTask) -> bool {
        let bytes = self.backlog_bytes + task.size();
        let has_room = bytes <= BACKLOG_BYTES_MAX;
        if has_room {
            self.backlog_bytes = bytes;
            self.backlog.push_back(task);
        }
        has_room
    }

    /// Removes the oldest task from the backlog, if it fits.
    pub(super) fn next_deferred(
        &mut self,
        fits: impl FnOnce(&Self, &CleanupTask) -> bool,
    ) -> Option<CleanupTask> {
        self.backlog.front().filter(|task| fits(self, task))?;
        let task = self.backlog.pop_front()?;
        self.backlog_bytes -= task.size();
        Some(task)
    }

    /// Returns the bytes of the tasks' paths.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if something remains to be sent when all sent requests are answered.
    pub(super) fn go_on(&self) -> bool {
        self.sweeps > 0 || !self.put_off.is_empty() || !self.backlog.is_empty()
    }

    pub(super) fn add(
        &mut self,
        number: RequestId,
        task: CleanupTask,
        waiter: Option<R>,
        due: Option<Due>,
    ) {
        self.bytes += task.path().len();
        self.sweeps += usize::from(task.is_sweep());
        self.tasks.insert(number, Task { task, waiter, due, repeated: false, is_behind: false });
        self.unsent.insert(number);
    }

    /// Takes the oldest unsent task and marks it as sent, if it is older than the request with that
    /// ticket.
    pub(super) fn start_next(&mut self, before: RequestId) -> Option<(RequestId, CleanupTask)> {
        self.unsent.first().filter(|number| **number < before)?;
        let number = self.unsent.pop_first()?;
        Some((number, self.tasks.get(&number)?.task.clone()))
    }

    /// Removes the recipient of a task's reply, because it stopped waiting.
    pub(super) fn give_up(&mut self, number: RequestId) -> Option<R> {
        self.tasks.get_mut(&number)?.waiter.take()
    }

    /// Removes a task that is over, and returns it.
    pub(super) fn finish(&mut self, number: RequestId) -> Option<Task<R>> {
        self.unsent.remove(&number);
        let task = self.tasks.remove(&number)?;
        self.bytes -= task.task.path().len();
        self.sweeps -= usize::from(task.task.is_sweep());
        Some(task)
    }

    /// Notes that the reply was lost with the connection. The task is sent again.
    pub(super) fn unsend(&mut self, number: RequestId) {
        if let Some(task) = self.tasks.get_mut(&number) {
            task.repeated = true;
            task.is_behind = false;
            self.unsent.insert(number);
        }
    }

    /// Notes that the server rejected the sync before the listing.
    pub(super) fn sync_declined(&mut self, number: RequestId) {
        if let Some(task) = self.tasks.get_mut(&number) {
            task.is_behind = true;
        }
    }

    pub(super) fn is_behind(&self, number: RequestId) -> bool {
        self.tasks.get(&number).is_some_and(|task| task.is_behind)
    }

    /// Postpones a task to `when`, because the server could not execute it now.
    pub(super) fn postpone(&mut self, number: RequestId, when: Instant) {
        if let Some(task) = self.tasks.get_mut(&number) {
            task.is_behind = false;
            self.put_off.push(number);
        }
        self.retry_at = Some(self.retry_at.map_or(when, |at| at.min(when)));
    }

    pub(super) fn retry_at(&self) -> Option<Instant> {
        self.retry_at
    }

    /// Releases the postponed tasks to be sent again.
    pub(super) fn retry(&mut self) {
        self.retry_at = None;
        let put_off = self.put_off.drain(..).filter(|number| self.tasks.contains_key(number));
        self.unsent.extend(put_off);
    }

    /// Removes all tasks at the end of the session. Returns the recipients, each with whether the
    /// task was ever sent. All in-flight requests must have failed before.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (R, bool)> + use<R> {
        let tasks = std::mem::replace(self, Self::new()).tasks.into_values();
        tasks.filter_map(|task| Some((task.waiter?, task.repeated)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_up_task_is_sent_once_per_connection_until_done() {
        let mut cleanup_tasks = CleanupTasks::new();
        let delete = |path: &str| CleanupTask::Delete { path: path.into() };
        cleanup_tasks.add(RequestId(1), delete("/a"), Some('a'), None);
        cleanup_tasks.add(RequestId(3), delete("/b"), None, None);
        assert!(cleanup_tasks.start_next(RequestId(1)).is_none());
        let (first, task) = cleanup_tasks.start_next(RequestId(2)).unwrap();
        assert_eq!(task, delete("/a"));
        assert!(cleanup_tasks.start_next(RequestId(2)).is_none(), "what came later waits");
        let (second, _) = cleanup_tasks.start_next(RequestId(9)).unwrap();
        assert!(cleanup_tasks.start_next(RequestId(9)).is_none());
        cleanup_tasks.unsend(first);
        cleanup_tasks.finish(second);
        assert_eq!(cleanup_tasks.start_next(RequestId(9)), Some((first, delete("/a"))));
        let task = cleanup_tasks.finish(first).unwrap();
        assert_eq!((task.task, task.waiter, task.repeated), (delete("/a"), Some('a'), true));
        assert!(cleanup_tasks.finish(first).is_none());
        assert_eq!(cleanup_tasks.len(), 0);
    }
}
