//! Until when callers wait. A request whose time is over is answered at once; what
//! it was a part of, the queue or the stream of replies, stays in order.

use std::collections::BTreeMap;
use std::time::Instant;

use super::handles::{Owner, Waiter};
use super::outbound::Queued;
use super::watches::Watcher;
use super::{Handles, Output, Session};
use crate::error::{ErrorKind, Outcome};
use crate::planted::Planted;

/// Names a request for as long as it waits for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// A deadline; no two are the same, so that each can be found again.
pub(super) type Due = (Instant, Ticket);

/// Where the request is that has a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Queued,
    Sent(i32),
    /// A clean-up task, whose number is the ticket.
    Chore,
    /// A credential, by its index.
    Credential(usize),
}

/// All deadlines there are, in order.
#[derive(Debug)]
pub(super) struct Deadlines {
    places: BTreeMap<Due, Place>,
    tickets: u64,
}

impl Deadlines {
    pub(super) fn new() -> Self {
        Self { places: BTreeMap::new(), tickets: 0 }
    }

    /// Tickets grow in the order of submission.
    pub(super) fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    pub(super) fn put(&mut self, due: Option<Due>, place: Place) {
        if let Some(due) = due {
            self.places.insert(due, place);
        }
    }

    /// The request was answered or given up.
    pub(super) fn met(&mut self, due: Option<Due>) {
        if let Some(due) = due {
            self.places.remove(&due);
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.places.first_key_value().map(|((at, _), _)| *at)
    }

    fn pop_due(&mut self, now: Instant) -> Option<(Ticket, Place)> {
        self.next().filter(|at| *at <= now)?;
        self.places.pop_first().map(|((_, ticket), place)| (ticket, place))
    }

    pub(super) fn clear(&mut self) {
        self.places.clear();
    }
}

/// The handle of a watch that was taken back with its request.
#[derive(Debug)]
pub enum Forgotten<H: Handles> {
    /// Of a one-shot watch.
    Watch(H::Watch),
    /// Of a persistent one.
    Stream(H::Stream),
}

impl<H: Handles> Session<H> {
    /// Takes a request back that still waits for a connection, because nobody waits
    /// for its answer any more; gives its handles back, to be dropped where that
    /// does no harm. One that was sent is left alone.
    pub fn forget(&mut self, ticket: Ticket) -> Option<(H::Reply, Option<Forgotten<H>>)> {
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

    /// When the answer has to be there, if ever.
    pub(super) fn due(&self, now: Instant, ticket: Ticket, to: &Waiter<H::Reply>) -> Option<Due> {
        let at = to.deadline.or_else(|| Some(now + self.settings.request_timeout?))?;
        Some((at, ticket))
    }

    /// Answers everybody whose time is over. A request that was sent keeps its xid,
    /// for the answer that may still come, and its place: nothing overtakes it. A
    /// watch that a late answer sets at the server is not registered here, and the
    /// server is made to forget it.
    pub(super) fn expire_requests(&mut self, now: Instant) {
        while let Some((ticket, place)) = self.deadlines.pop_due(now) {
            let late = match place {
                Place::Queued => {
                    self.queue.remove(ticket).map(|queued| (queued.to, Outcome::NotApplied))
                }
                Place::Sent(xid) => self.inflight.find(xid).and_then(|sent| {
                    if let Some(watch) = &mut sent.watch {
                        watch.is_given_up = true;
                    }
                    let unknown = sent.op.is_write() && !Planted::TimedOutIsNotApplied.is_on();
                    let outcome = match unknown {
                        true => Outcome::Unknown,
                        false => Outcome::NotApplied, // a read changes nothing
                    };
                    match std::mem::replace(&mut sent.owner, Owner::Nobody) {
                        Owner::Caller(to) => Some((to, outcome)),
                        _ => None,
                    }
                }),
                // It goes on: only the caller stops waiting.
                Place::Chore => self.chores.give_up(ticket).map(|to| (to, Outcome::Unknown)),
                Place::Credential(index) => {
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
