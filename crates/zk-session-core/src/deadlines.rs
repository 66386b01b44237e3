//! Deadlines of callers. A request whose deadline has passed is answered at once. The queue, or the
//! stream of replies, to which it belonged stays in order.

use std::collections::BTreeMap;
use std::time::Instant;

use super::handles::{Recipient, Waiter};
use super::outbound::Queued;
use super::watches::Watcher;
use super::{Handles, Output, Session};
use crate::error::{ErrorKind, Outcome};
use crate::planted::Planted;

/// Identifier of a request, valid while it waits for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// Deadline. The ticket makes it unique, so that it can be found again.
pub(super) type Due = (Instant, RequestId);

/// DeadlineOwner of a request that has a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeadlineOwner {
    Queued,
    Sent(i32),
    /// A clean-up task. Its number is the ticket.
    CleanupTask,
    /// A credential, by its index.
    Credential(usize),
}

/// All deadlines, in order.
#[derive(Debug)]
pub(super) struct Deadlines {
    places: BTreeMap<Due, DeadlineOwner>,
    tickets: u64,
}

impl Deadlines {
    pub(super) fn new() -> Self {
        Self { places: BTreeMap::new(), tickets: 0 }
    }

    /// Issues a ticket. Tickets grow in the order of submission.
    pub(super) fn ticket(&mut self) -> RequestId {
        self.tickets += 1;
        RequestId(self.tickets)
    }

    pub(super) fn put(&mut self, due: Option<Due>, place: DeadlineOwner) {
        if let Some(due) = due {
            self.places.insert(due, place);
        }
    }

    /// Removes a deadline, because the request was answered or dropped.
    pub(super) fn met(&mut self, due: Option<Due>) {
        if let Some(due) = due {
            self.places.remove(&due);
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.places.first_key_value().map(|((at, _), _)| *at)
    }

    fn pop_due(&mut self, now: Instant) -> Option<(RequestId, DeadlineOwner)> {
        self.next().filter(|at| *at <= now)?;
        self.places.pop_first().map(|((_, ticket), place)| (ticket, place))
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
    }
}

/// Handle of a watch that was cancelled with its request.
#[derive(Debug)]
pub enum Forgotten<H: Handles> {
    /// Handle of a one-shot watch.
    Watch(H::Watch),
    /// Handle of a persistent watch.
    Stream(H::Stream),
}

impl<H: Handles> Session<H> {
    /// Cancels a request that still waits for a connection, because no caller waits for its reply.
    /// Returns its handles, to be dropped where that does no harm. A request that was sent is not
    /// cancelled.
    pub fn forget(&mut self, ticket: RequestId) -> Option<(H::Reply, Option<Forgotten<H>>)> {
        let Queued { to, watch, due, .. } = self.queue.remove(ticket)?;
        self.deadlines.met(due);
        Some((
            to,
            watch.map(|watch| match watch.watcher {
                Watcher::OneShot(_, handle) => Forgotten::Watch(handle),
                Watcher::Stream(_, stream) => Forgotten::Stream(stream),
            }),
        ))
    }

    /// Returns the deadline of the reply, if there is one.
    pub(super) fn due(
        &self,
        now: Instant,
        ticket: RequestId,
        to: &Waiter<H::Reply>,
    ) -> Option<Due> {
        let at = to.deadline.or_else(|| Some(now + self.settings.request_timeout?))?;
        Some((at, ticket))
    }

    /// Answers all requests whose deadline has passed. A request that was sent keeps its xid, for
    /// the reply that may still arrive, and its position, so that no reply overtakes it. A watch
    /// that a late reply sets at the server is not registered here, and is removed from the server.
    pub(super) fn expire_requests(&mut self, now: Instant) {
        while let Some((ticket, place)) = self.deadlines.pop_due(now) {
            let late = match place {
                DeadlineOwner::Queued => {
                    self.queue.remove(ticket).map(|queued| (queued.to, Outcome::NotApplied))
                }
                DeadlineOwner::Sent(xid) => self.inflight.find(xid).and_then(|sent| {
                    if let Some(watch) = &mut sent.watch {
                        watch.is_given_up = true;
                    }
                    let unknown = sent.op.is_write() && !Planted::TimedOutIsNotApplied.is_on();
                    let outcome = match unknown {
                        true => Outcome::Unknown,
                        false => Outcome::NotApplied, // a read changes nothing
                    };
                    match std::mem::replace(&mut sent.owner, Recipient::Nobody) {
                        Recipient::Caller(to) => Some((to, outcome)),
                        _ => None,
                    }
                }),
                // The task continues. Only the caller stops waiting.
                DeadlineOwner::CleanupTask => {
                    self.cleanup_tasks.give_up(ticket).map(|to| (to, Outcome::Unknown))
                }
                DeadlineOwner::Credential(index) => {
                    let credential = self.credentials.get_mut(index);
                    credential.and_then(|it| it.give_up(ticket)).map(|to| (to, Outcome::Unknown))
                }
            };
            if let Some((to, outcome)) = late {
                let result = Err((ErrorKind::TimedOut, outcome));
                self.outputs.push_back(Output::Reply { to, result });
            }
        }
    }
}
