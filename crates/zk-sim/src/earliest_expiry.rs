//! The earliest expiry of a session, computed from the traffic of its client. The oracle holds the
//! model of the servers to this bound, independently of the client under test.
//!
//! A leader counts a packet as a touch of the session, at the latest when it answers a later request.
//! This holds if the packet was answered long enough before that request was sent: by the longest gap
//! between two flushes of a follower, which is a third of the timeout.
//!
//! That leader expires the session no earlier than one timeout after the packet was sent. A later
//! leader may not have the touch. It expires the session no earlier than one timeout after the client
//! sent the last request that a quorum agreed to.

use crate::ensure::ensure;
use crate::frames::Frames;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;
use zk_coordination::session::SessionId;

/// Expiry bound of one session: the packets its client has sent, and their replies.
#[derive(Debug)]
pub(crate) struct EarliestExpiry {
    /// The shortest timeout that any server grants the client.
    timeout: Duration,
    /// When the client sent the last packet that a leader has counted.
    counted: Instant,
    /// When the client sent the last request that a quorum has agreed to.
    agreed: Instant,
    /// Whether the client has sent a close request.
    is_closing: bool,
}

/// Packets of one connection, in both directions.
#[derive(Debug)]
pub(crate) struct Exchange {
    connected: Instant,
    /// The session, once the server has accepted it.
    session: Option<SessionId>,
    sent: Frames,
    /// Whether the connect request was sent.
    is_open: bool,
    /// Requests without a reply: xid, operation, and when they were sent.
    pending: VecDeque<(i32, i32, Instant)>,
    /// Packets that were answered: when they were sent, and when they were answered.
    answered: VecDeque<(Instant, Instant)>,
}

/// The bounds of all sessions.
#[derive(Debug, Default)]
pub(crate) struct EarliestExpiries(BTreeMap<SessionId, EarliestExpiry>);

const SYNC: i32 = 9;
const CLOSE_SESSION: i32 = -11;
/// Operations that become transactions, whether or not they succeed.
const WRITES: [i32; 10] = [1, 2, 5, 7, 14, 15, 16, 19, 21, CLOSE_SESSION];
pub(crate) const PING_XID: i32 = -2;
/// The length, the xid and the operation of a request; and of a connect request, all up to its session.
const HEAD_LEN: usize = 28;

impl EarliestExpiries {
    /// Checks that a session which ends at the leader has not expired too early. The caller skips
    /// sessions that a fault has expired.
    pub(crate) fn ends(&self, session: SessionId, now: Instant) -> Result<(), String> {
        let Some(bound) = self.0.get(&session).filter(|bound| !bound.is_closing) else {
            return Ok(());
        };
        let due = bound.counted.min(bound.agreed) + bound.timeout;
        ensure(now >= due, || format!("{session} expires {:?} too early", due - now))
    }
}

impl Exchange {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            connected: now,
            session: None,
            sent: Frames::new(HEAD_LEN),
            is_open: false,
            pending: VecDeque::new(),
            answered: VecDeque::new(),
        }
    }

    /// Records bytes that the client sends. Returns the session of a connect request.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        mut bytes: &[u8],
        bounds: &mut EarliestExpiries,
    ) -> Option<SessionId> {
        let mut requested = None;
        while let Some(head) = self.sent.next(&mut bytes) {
            if !self.is_open {
                (self.is_open, self.connected) = (true, now);
                let id = head.get(20..28).and_then(|id| id.try_into().ok()).map(i64::from_be_bytes);
                requested = id.map(SessionId);
                continue;
            }
            let number = |at: usize| head.get(at..at + 4)?.try_into().ok().map(i32::from_be_bytes);
            let (Some(xid), Some(op)) = (number(4), number(8)) else { continue };
            self.pending.push_back((xid, op, now));
            if op != CLOSE_SESSION {
                continue;
            }
            if let Some(bound) = self.session.and_then(|session| bounds.0.get_mut(&session)) {
                bound.is_closing = true;
            }
        }
        requested
    }

    /// Returns the session, and when its connect request was sent.
    pub(crate) fn session(&self) -> Option<(SessionId, Instant)> {
        Some((self.session?, self.connected))
    }

    /// Records that the server has accepted a session. The connect request counts as a touch.
    pub(crate) fn accepted(
        &mut self,
        session: SessionId,
        timeout: Duration,
        bounds: &mut EarliestExpiries,
    ) {
        self.session = Some(session);
        let connected = self.connected;
        let bound = bounds.0.entry(session).or_insert(EarliestExpiry {
            timeout,
            counted: connected,
            agreed: connected,
            is_closing: false,
        });
        bound.counted = bound.counted.max(connected);
    }

    /// Records a reply. An error proves nothing, because the server may not have consulted the
    /// leader. Returns the operation of the request, and when it was sent.
    pub(crate) fn reply(
        &mut self,
        now: Instant,
        (xid, is_ok): (i32, bool),
        bounds: &mut EarliestExpiries,
    ) -> Option<(i32, Instant)> {
        let at = self.pending.iter().position(|request| request.0 == xid)?;
        let (_, op, sent) = self.pending.remove(at)?;
        self.answered.push_back((sent, now));
        let bound = self.session.and_then(|session| bounds.0.get_mut(&session));
        let Some(bound) = bound else { return Some((op, sent)) };
        let is_write = WRITES.contains(&op) && is_ok;
        if is_ok && xid != PING_XID && (is_write || op == SYNC) {
            let gap = bound.timeout / 3;
            while let Some((touched, answered)) = self.answered.front().copied()
                && answered + gap <= sent
            {
                bound.counted = bound.counted.max(touched);
                self.answered.pop_front();
            }
        }
        if is_write {
            bound.agreed = bound.agreed.max(sent);
        }
        Some((op, sent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(9);

    fn frame(xid: i32, op: i32) -> Vec<u8> {
        [8_i32, xid, op].map(i32::to_be_bytes).concat()
    }

    /// Replays requests of session 7: operation, second of sending, second of the reply. Returns
    /// true if the session may expire at second `at`.
    fn may_expire(requests: &[(i32, u64, u64)], at: u64) -> bool {
        let start = crate::clock::now();
        let second = |number| start + Duration::from_secs(number);
        let (mut exchange, mut bounds) = (Exchange::new(start), EarliestExpiries::default());
        exchange.send(start, &[0, 0, 0, 1, 9], &mut bounds);
        exchange.accepted(SessionId(7), TIMEOUT, &mut bounds);
        for (xid, &(op, sent, answered)) in (1..).zip(requests) {
            let bytes = frame(xid, op);
            exchange.send(second(sent), &bytes[..5], &mut bounds);
            exchange.send(second(sent), &bytes[5..], &mut bounds);
            exchange.reply(second(answered), (xid, true), &mut bounds);
        }
        bounds.ends(SessionId(7), second(at)).is_ok()
    }

    #[test]
    fn session_lasts_for_its_timeout_from_its_connect() {
        assert!(!may_expire(&[], 8) && may_expire(&[], 9));
        assert!(may_expire(&[(1, 4, 4)], 9), "a write counts nothing by itself");
        assert!(may_expire(&[(CLOSE_SESSION, 1, 1)], 2));
    }

    #[test]
    fn write_counts_packets_answered_a_third_of_the_timeout_before() {
        let (read, create) = (4, 1);
        assert!(!may_expire(&[(read, 3, 4), (create, 7, 7)], 11));
        assert!(may_expire(&[(read, 3, 4), (create, 7, 7)], 12));
        assert!(may_expire(&[(read, 3, 4), (create, 6, 6)], 9), "no flush need lie between");
    }

    #[test]
    fn sync_counts_packets_but_is_no_quorum_agreement() {
        let (read, create) = (4, 1);
        assert!(may_expire(&[(read, 3, 3), (SYNC, 7, 7)], 9));
        assert!(!may_expire(&[(create, 1, 1), (read, 3, 3), (SYNC, 7, 7)], 9));
        assert!(may_expire(&[(create, 1, 1), (read, 3, 3), (SYNC, 7, 7)], 10));
    }
}
