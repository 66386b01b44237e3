//! Deadlines of callers, in order.

use std::collections::BTreeMap;
use std::time::Instant;

use super::RequestId;

/// Deadline of a request. The id makes it unique, so that it can be found again.
pub(crate) type Due = (Instant, RequestId);

/// Place at which a request with a deadline waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeadlineOwner {
    /// The queue. The id of the request finds it.
    Queued,
    /// The table of requests in flight, under this xid.
    Sent(i32),
    /// The clean-up tasks. The id of the request finds it.
    CleanUpTask,
    /// The credential with this index.
    Credential(usize),
}

/// All deadlines, in order.
#[derive(Debug, Default)]
pub(super) struct Deadlines {
    owners: BTreeMap<Due, DeadlineOwner>,
}

impl Deadlines {
    pub(super) fn put(&mut self, due: Option<Due>, owner: DeadlineOwner) {
        if let Some(due) = due {
            self.owners.insert(due, owner);
        }
    }

    /// Removes a deadline, because the request was answered or dropped.
    pub(super) fn met(&mut self, due: Option<Due>) {
        if let Some(due) = due {
            self.owners.remove(&due);
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.owners.first_key_value().map(|((at, _), _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(RequestId, DeadlineOwner)> {
        self.next().filter(|at| *at <= now)?;
        self.owners.pop_first().map(|((_, id), owner)| (id, owner))
    }
}
