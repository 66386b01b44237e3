//! The printed model follows the run (I25). A lock is followed in runs with a mutex, each session in every
//! run.

use std::time::{Duration, Instant};

use tokio::time::Instant as TokioInstant;
use zk_coordination::session::Zxid;
use zk_testing::server::{Commit, Effect, SessionStep, Tree};
use zk_testing::{ErrorCode, Op};

use super::{Held, LockNode, Oracle, REVOKE};
use crate::clock::now;
use crate::earliest_expiry::{Exchange, PING_XID};
use crate::model::{Lease, Lock, Packet};

impl Oracle {
    pub(crate) fn follow_lease(
        &mut self,
        step: impl FnOnce(&mut Lease, Instant) -> Result<(), String>,
    ) {
        let taken = step(&mut self.lease, now().into_std());
        self.must("I25", taken.map_err(|text| format!("Lease.tla: {text}")));
    }

    pub(super) fn follow_lock(&mut self, step: impl FnOnce(&mut Lock) -> Result<(), String>) {
        let taken = self.lock.as_mut().map_or(Ok(()), step);
        self.must("I25", taken.map_err(|text| format!("Lock.tla: {text}")));
    }

    /// Records a step of the servers with a session.
    pub(crate) fn serves(&mut self, at: Instant, step: SessionStep) {
        self.follow_lease(|lease, _| lease.serves(at, step));
    }

    pub(super) fn lock_node_joins(&mut self, path: &str, node: &LockNode) {
        let LockNode { czxid, owner, attempt, number } = *node;
        self.follow_lock(|lock| lock.joins((path, number), (attempt, owner), czxid));
    }

    /// Records a transaction, other than the creation of a node.
    pub(super) fn lock_steps(&mut self, tree: &Tree, commit: &Commit<'_>) {
        let Commit { zxid, session_id: session, .. } = *commit;
        match commit.effect {
            Effect::SessionClosed => {
                let is_operator = self.forced.contains_key(&session);
                self.follow_lock(|lock| {
                    lock.expires(session, is_operator);
                    Ok(())
                });
            }
            Effect::Deleted(path) => {
                let is_operator = self.operated.contains(path);
                self.follow_lock(|lock| lock.deletes(path, session, zxid, is_operator));
            }
            Effect::Changed(path) => {
                let is_request = tree.node(path).is_some_and(|node| node.data() == Some(REVOKE));
                if !is_request {
                    self.follow_lock(|lock| lock.changes(path, zxid));
                }
            }
            _ => {}
        }
    }

    pub(super) fn lock_is_granted(&mut self, held: &Held, token: i64) {
        let (attempt, session) = (held.attempt, held.session);
        let path = held.claims[0].node.clone();
        let is_leased = self.lease.valid_until(session) > Some(now().into_std());
        self.follow_lock(|lock| lock.grants((&path, attempt), session, Zxid(token), is_leased));
    }

    pub(super) fn lock_is_lost(&mut self, held: &Held) {
        if let (Some(lock), Some(token)) = (&mut self.lock, held.node) {
            lock.loses(Zxid(token));
        }
    }

    pub(super) fn guard_is_used(&mut self, held: &Held, remaining: Duration) {
        let (attempt, session) = (held.attempt, held.session);
        self.follow_lease(|lease, now| lease.is_used(now, session, remaining));
        if let Some(token) = held.node {
            self.follow_lock(|lock| lock.is_used(attempt, Zxid(token)));
        }
    }

    /// Records that a client has read that its session is accepted.
    pub(crate) fn lease_begins(&mut self, exchange: &Exchange, timeout: Duration) {
        if let Some((id, sent)) = exchange.session() {
            self.follow_lease(|lease, now| lease.accepted(now, (id, timeout), sent.into_std()));
        }
    }

    /// Records that a client has read a reply: its xid, zxid and code. `request` is the operation of the
    /// request, and when it was sent.
    pub(crate) fn lease_proof(
        &mut self,
        exchange: &Exchange,
        request: Option<(i32, TokioInstant)>,
        (xid, zxid, code): (i32, Zxid, ErrorCode),
    ) {
        let (Some((id, _)), Some((op, sent))) = (exchange.session(), request) else { return };
        let packet = match Op::from_code(op) {
            _ if xid == PING_XID => Some(Packet::Ping),
            Some(op) => Packet::of(op, code, zxid),
            None => None,
        };
        if let Some(packet) = packet {
            self.follow_lease(|lease, now| lease.receives(now, id, packet, sent.into_std()));
        }
    }
}
