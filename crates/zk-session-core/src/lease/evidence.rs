//! Evidence about the leader's clock for a session.
//!
//! The leader expires a session when the session's timeout has passed since the leader last
//! *touched* it. This module derives a time before which no leader can have done that, only from
//! the times at which packets were sent and answered. The module documentation of [`lease`](super)
//! explains the servers' side. This is the rule.
//!
//! Let `s(x)` and `a(x)` be the times at which packet `x` was sent and answered.
//!
//! 1. **A follower has received a touch when it answers.** Every ping and every request touches the
//!    session at the server that the client is connected to (`ZooKeeperServer.submitRequestNow`).
//!    On a follower or observer that is only an entry in its touch table
//!    (`LearnerSessionTracker.touchSession`), made by `a(p)` at the latest.
//! 2. **A later request carries an earlier flush with it.** The follower sends its touch table with
//!    its answer to each ping of the leader (`Learner.ping`), at most a *flush bound* `d` apart.
//!    Those answers and the requests that it forwards share one ordered stream. Suppose the leader
//!    has answered a request `w` with `s(w) >= a(p) + d`. Then a flush with the touch of `p` was
//!    sent between the two and has arrived: the leader's clock is at least `s(p)` plus the timeout.
//! 3. **A reconnect touches at the leader.** A server that accepts a session makes the leader
//!    validate it (`Leader.REVALIDATE`), and that touches it.
//! 4. **A quorum rules out another leader.** The first three points are about one leader. It may
//!    have been replaced without noticing: it still answers `sync`, and accepts sessions. A server
//!    keeps its connections only for as long as it keeps its leader. So a write `q` that a quorum
//!    agreed to proves that the leader of its connection was the only one at `s(q)`. A later leader
//!    starts every session's clock at its own start (`SessionTrackerImpl`), with the timeout of the
//!    session's creation. Touches on a connection count from the first such write on it.
//!
//! So no leader expires the session before
//! `min(latest proven touch, latest quorum write) + timeout`, with both on the same connection. The
//! timeout is the shortest that was granted in the session's life. Servers may grant different
//! ones, and a leader counts with the one of its last touch. A connect request whose reply is
//! missing or was lost may have shortened that timeout further: by half at most, as
//! [`LeaseAssumptions`](crate::LeaseAssumptions) state.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::limits::{SHORTENED_PART, TOUCHES_PER_TIMEOUT};

/// Evidence for the lease. See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Evidence {
    flush_bound: Duration,
    /// Shortest session timeout granted so far, if the session was ever granted one.
    timeout: Option<Duration>,
    /// Answered packets of this connection whose touch is not proven yet, oldest first. Both of
    /// their times grow.
    touches: VecDeque<Touch>,
    /// Latest send time of a packet whose touch the leader of this connection is proven to have
    /// counted.
    touched_here: Option<Instant>,
    /// Whether a quorum has agreed to anything on this connection.
    is_confirmed: bool,
    /// Latest `touched_here` on a connection that a quorum has confirmed.
    touched: Option<Instant>,
    /// Send time of the latest request that a quorum agreed to.
    agreed: Option<Instant>,
    /// Send time of the latest connect request.
    handshake: Option<Instant>,
    /// Send time of the earliest connect request whose reply was lost or has not arrived. Its
    /// server may have granted a shorter timeout.
    unanswered: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Touch {
    sent: Instant,
    answered: Instant,
}

impl Evidence {
    /// Creates the evidence. `resumed` is the shortest timeout of a session that another client
    /// began.
    pub(super) fn new(resumed: Option<Duration>) -> Self {
        Self {
            flush_bound: Duration::ZERO,
            timeout: resumed,
            touches: VecDeque::new(),
            touched_here: None,
            is_confirmed: false,
            touched: None,
            agreed: None,
            handshake: None,
            unanswered: None,
        }
    }

    /// Sets the longest time between two flushes of a follower.
    pub(super) fn set_flush_bound(&mut self, bound: Duration) {
        self.flush_bound = bound;
    }

    /// Returns the shortest timeout granted so far.
    pub(super) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Notes that a connect request is sent.
    pub(super) fn handshake_sent(&mut self, now: Instant) {
        self.handshake = Some(now);
        self.unanswered.get_or_insert(now);
    }

    /// Notes that the server has accepted the session.
    pub(super) fn handshake_accepted(&mut self, timeout: Duration) {
        self.timeout = Some(self.timeout.map_or(timeout, |before| before.min(timeout)));
        self.touched_here = self.handshake;
        self.is_confirmed = false;
        // The timeout of this handshake is known now. An earlier handshake may have reached another
        // leader, and counts as unanswered until a quorum agrees to a request on this connection.
        self.unanswered = self.unanswered.filter(|_| self.unanswered != self.handshake);
        // These touches are of an earlier connection, whose server may never flush them.
        self.touches.clear();
    }

    /// Notes that a packet was answered that touches the session at the server of this connection.
    pub(super) fn touch_answered(&mut self, sent: Instant, now: Instant) {
        let Some(timeout) = self.timeout else { return };
        let is_close = |last: &Touch| sent < last.sent + timeout / TOUCHES_PER_TIMEOUT;
        if self.touches.back().is_some_and(is_close) {
            return;
        }
        while self.touches.front().is_some_and(|it| it.sent + timeout <= now) {
            self.touches.pop_front();
        }
        self.touches.push_back(Touch { sent, answered: now });
    }

    /// Notes that a request was answered that only a leader answers.
    pub(super) fn leader_answered(&mut self, sent: Instant) {
        let flushed = sent.checked_sub(self.flush_bound);
        let count = self.touches.iter().take_while(|it| Some(it.answered) <= flushed).count();
        let proven = count.checked_sub(1).and_then(|last| self.touches.get(last)).copied();
        self.touches.drain(..count);
        self.touched_here = self.touched_here.max(proven.map(|touch| touch.sent));
        if self.is_confirmed {
            self.touched = self.touched.max(self.touched_here);
        }
    }

    /// Notes that a request was answered that a quorum of servers agreed to.
    pub(super) fn quorum_agreed(&mut self, sent: Instant) {
        self.agreed = self.agreed.max(Some(sent));
        self.is_confirmed = true;
        // The handshake of this connection was the last to touch the session at this leader.
        self.unanswered = None;
        self.leader_answered(sent);
    }

    /// Returns the send time of the latest request that a quorum agreed to.
    pub(super) fn agreed(&self) -> Option<Instant> {
        self.agreed
    }

    /// Returns the earliest time from which the session's timeout counts, whichever server leads.
    pub(super) fn counts_from(&self) -> Option<Instant> {
        Some(self.touched?.min(self.agreed?))
    }

    /// Returns a time before which no leader expires the session.
    pub(super) fn expires_after(&self) -> Option<Instant> {
        let counted = self.counts_from()? + self.timeout?;
        let shortened = self
            .unanswered
            .zip(self.timeout)
            .map(|(sent, timeout)| sent + SHORTENED_PART.of(timeout));
        Some(shortened.map_or(counted, |it| it.min(counted)))
    }

    /// Returns the earliest time at which a request to the leader can prove another touch.
    pub(super) fn next_proof(&self) -> Option<Instant> {
        self.touches.front().map(|touch| touch.answered + self.flush_bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
    fn now() -> Instant {
        Instant::now()
    }

    /// A client may send thousands of requests in a session timeout. Touches that are closer than
    /// this part of it prove hardly more than the one before.
    #[test]
    fn touches_are_kept_at_a_minimum_distance() {
        let timeout = Duration::from_millis(6400);
        let apart = timeout / TOUCHES_PER_TIMEOUT;
        let kept = |distance: Duration, count: u32| {
            let (mut evidence, begin) = (Evidence::new(Some(timeout)), now());
            for n in 0..count {
                let sent = begin + distance * n;
                evidence.touch_answered(sent, sent);
            }
            evidence.touches.len()
        };
        assert_eq!(kept(apart - Duration::from_millis(1), 3), 2);
        assert_eq!(kept(apart, 3), 3);
        let most = usize::try_from(TOUCHES_PER_TIMEOUT).unwrap();
        assert!(kept(Duration::from_millis(1), 20_000) <= most);
        assert!(kept(apart, 200) <= most);
    }
}
