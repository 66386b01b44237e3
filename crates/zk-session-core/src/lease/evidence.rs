//! Evidence about the leader's clock for a session.
//!
//! The leader expires a session when the session's timeout has passed since the leader last
//! *touched* it. This module derives a time before which no leader can have done that, only from
//! the times at which packets were sent and answered. The module documentation of [`lease`](super)
//! explains the servers' side. This is the rule.
//!
//! Let `s(x)` and `a(x)` be the times at which packet `x` was sent and answered, and `T` the
//! shortest timeout that the session was granted. Servers may grant different ones; a leader counts
//! with the one of its last touch, and a new leader with that of the session's creation.
//!
//! # Touches
//!
//! 1. **A follower has received a touch when it answers.** Every ping and every request touches the
//!    session at the server that the client is connected to (`ZooKeeperServer.submitRequestNow`).
//!    On a follower or observer that is only an entry in its touch table
//!    (`LearnerSessionTracker.touchSession`), made by `a(p)` at the latest.
//! 2. **A later request carries an earlier flush with it.** The follower sends its touch table with
//!    its answer to each ping of the leader (`Learner.ping`), at most a *flush bound* `d` apart.
//!    Those answers and the requests that it forwards share one ordered stream. Suppose the leader
//!    has answered a request `w` with `s(w) >= a(p) + d`. Then a flush with the touch of `p` was
//!    sent between the two and has arrived by `a(w)`.
//! 3. **A reconnect touches at the leader.** A server that accepts a session makes the leader
//!    validate it (`Leader.REVALIDATE`), and that touches it.
//!
//! # The chain
//!
//! 4. **A touch may come too late, unseen.** `SessionTrackerImpl.run` takes the whole bucket of
//!    sessions that are overdue, and closes them one after the other. Until its turn comes, a
//!    doomed session answers everything: touches, `REVALIDATE`, `sync`, and writes that a quorum
//!    agrees to. None of them saves it.
//! 5. **A touch in time moves the clock.** The leader of a connection does not change: a server
//!    keeps its connections only for as long as it keeps its leader. If a touch is proven to have
//!    arrived before the previous one plus `T`, no bucket with the session was taken before. So the
//!    proofs of a connection form a *chain*: each is received before the bound of the one before. The
//!    leader's clock may be faster: its `T` is shorter by the drift in a timeout.
//! 6. **A chain begins** with the creation of the session, or with a reconnect that is accepted
//!    before the bound that holds whichever server leads: `T` after the creation, or the one of
//!    point 7. After a gap, the chain is *unproven*. Let
//!    `p` be its first proof; the accepted reconnect is one. If the session was doomed at `a(p)`,
//!    it is closed by `a(p) + e`, where `e` bounds one pass over a bucket. The close is ordered
//!    before each later request, and the server closes the connection when it applies it. So an
//!    answer to a request that was sent at `a(p) + e` or later makes the chain sound.
//!
//! # The bound
//!
//! 7. **A quorum rules out another leader.** All this is about the leader of the connection. It may
//!    have been replaced without noticing: it still answers `sync`, and accepts sessions. A write
//!    `q` that a quorum agreed to proves that the leader of its connection was the only one at
//!    `s(q)`. A later leader starts every session's clock at its own start (`SessionTrackerImpl`).
//!    So no leader expires the session before `min(last proven touch, q) + T`, if the chain is
//!    sound. This is an instant, which stays true when `T` gets shorter later.
//! 8. **A connect request can take it back.** It sets the leader's clock to the timeout that its
//!    server grants, even to an earlier expiry. Unanswered, it is assumed to grant the *least
//!    timeout*: half of the longest so far, as [`LeaseAssumptions`](crate::LeaseAssumptions) state.
//! 9. **An abandoned connect request may take effect later.** A server that was stopped may process
//!    it at any time, until its [time](ABANDONED_TIMEOUTS) is over. It then makes that server the
//!    owner of the session, and closes the connection if it is of the same server. So it has not
//!    taken effect before a request `c` of which the leader has checked the owner. It leaves the
//!    session at least `min(c, q)` plus the least timeout. If `c` was sent after that time, it never
//!    takes effect, and is forgotten. The leader checks the owner of a write
//!    (`SessionTrackerImpl.checkSession`). It checks none of an empty transaction, and lets a
//!    follower answer a `sync` in spite of the check. A reconnect takes the session over.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::connection::GrantedTimeouts;
use crate::limits::{ABANDONED_TIMEOUTS, TOUCHES_PER_TIMEOUT};

/// Evidence for the lease. See the [module documentation](self).
#[derive(Debug)]
#[cfg_attr(test, derive(Clone, PartialEq, Eq, Hash))]
pub(super) struct Evidence {
    flush_bound: Duration,
    expiry_pass: Duration,
    /// The time by which a clock of a leader may be ahead after a session timeout.
    drift: Duration,
    /// `None` before the first handshake, and for a session of which another client knows them.
    granted: Option<GrantedTimeouts>,
    /// Whether another client has begun the session.
    is_resumed: bool,
    /// Answered packets of this connection whose touch is not proven yet, oldest first. Both of
    /// their times grow.
    touches: VecDeque<Touch>,
    /// Proofs of this connection.
    chain: Option<Chain>,
    /// A time before which no leader expires the session, unless the pending connect request has
    /// changed that.
    bound: Option<Instant>,
    /// The same, also for a new session to which no quorum has agreed to anything yet. No leader knows
    /// the session for longer than since its creation. A reconnect before this time has no gap.
    no_gap_until: Option<Instant>,
    /// Send time of the connect request that is not answered yet.
    pending: Option<Instant>,
    /// Send time of the latest connect request whose reply was lost.
    abandoned: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
struct Touch {
    sent: Instant,
    answered: Instant,
}

/// Proofs of one connection, by the send times of the packets.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(test, derive(PartialEq, Eq, Hash))]
struct Chain {
    /// Latest packet whose touch has reached the leader.
    touched: Instant,
    /// When the first proof was received, if the session may have been doomed at that time.
    unproven_since: Option<Instant>,
    /// Latest request of which the leader has checked the owner.
    checked: Instant,
    /// Latest request that a quorum agreed to.
    agreed: Option<Instant>,
}

/// Whether the leader has checked the owner of a request's session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnerCheck {
    Checked,
    Unchecked,
}

/// Updates.
impl Evidence {
    /// Creates the evidence for a new session.
    pub(super) fn new() -> Self {
        Self {
            flush_bound: Duration::ZERO,
            expiry_pass: Duration::ZERO,
            drift: Duration::ZERO,
            granted: None,
            is_resumed: false,
            touches: VecDeque::new(),
            chain: None,
            bound: None,
            no_gap_until: None,
            pending: None,
            abandoned: None,
        }
    }

    /// Creates the evidence for a session that another client began. Without the timeouts that it
    /// was granted, nothing is ever proven.
    pub(super) fn resumed(granted: Option<GrantedTimeouts>) -> Self {
        Self { granted, is_resumed: true, ..Self::new() }
    }

    /// Sets the longest time between two flushes of a follower, the longest pass over a bucket, and the
    /// drift of the clocks in a session timeout.
    pub(super) fn set_bounds(
        &mut self,
        flush_bound: Duration,
        expiry_pass: Duration,
        drift: Duration,
    ) {
        (self.flush_bound, self.expiry_pass, self.drift) = (flush_bound, expiry_pass, drift);
    }

    /// Notes that a connect request is sent.
    pub(super) fn handshake_sent(&mut self, now: Instant) {
        // The other client may have abandoned one.
        let is_first = self.is_resumed && self.pending.is_none() && self.chain.is_none();
        let before = self.pending.replace(now).or_else(|| is_first.then_some(now));
        if let (Some(sent), Some(granted)) = (before, self.granted) {
            self.shorten(sent + granted.least());
            self.abandoned = Some(sent);
        }
    }

    /// Notes that the server has accepted the session.
    pub(super) fn handshake_accepted(&mut self, timeout: Duration, now: Instant) {
        let Some(sent) = self.pending.take() else { return };
        let is_continuous = self.no_gap_until.is_some_and(|until| now + self.drift < until);
        let is_created = self.granted.is_none() && !self.is_resumed;
        match &mut self.granted {
            Some(granted) => granted.add(timeout),
            None if is_created => self.granted = Some(GrantedTimeouts::of(timeout)),
            None => return,
        }
        if is_created {
            self.no_gap_until = Some(sent + timeout);
        } else {
            self.shorten(sent + timeout);
        }
        // The server of an earlier connection may never flush the touches of that connection.
        self.touches.clear();
        self.chain = Some(Chain {
            touched: sent,
            unproven_since: (!is_created && !is_continuous).then_some(now),
            checked: sent,
            agreed: None,
        });
    }

    /// Notes that a packet was answered that touches the session at the server of this connection.
    pub(super) fn touch_answered(&mut self, sent: Instant, now: Instant) {
        let Some(timeout) = self.shortest_timeout() else { return };
        let is_close = |last: &Touch| sent < last.sent + timeout / TOUCHES_PER_TIMEOUT;
        if self.touches.back().is_some_and(is_close) {
            return;
        }
        while self.touches.front().is_some_and(|touch| touch.sent + timeout <= now) {
            self.touches.pop_front();
        }
        self.touches.push_back(Touch { sent, answered: now });
    }

    /// Notes that a request was answered that only a leader answers.
    pub(super) fn leader_answered(&mut self, sent: Instant, now: Instant) {
        let proven = self.take_proven(sent);
        let timeout = self.shortest_timeout();
        let Some((chain, timeout)) = self.chain.as_mut().zip(timeout) else { return };
        if now + self.drift < chain.touched + timeout {
            chain.touched = proven.map_or(chain.touched, |proven| proven.max(chain.touched));
            let is_proof = |since: Instant| sent >= since + self.expiry_pass;
            chain.unproven_since = chain.unproven_since.filter(|since| !is_proof(*since));
        } else if let Some(proven) = proven {
            (chain.touched, chain.unproven_since) = (proven, Some(now));
        }
        self.prolong();
    }

    /// Notes that a request was answered that a quorum of servers agreed to.
    pub(super) fn quorum_agreed(&mut self, sent: Instant, owner: OwnerCheck, now: Instant) {
        if let Some(chain) = &mut self.chain {
            chain.agreed = chain.agreed.max(Some(sent));
            if owner == OwnerCheck::Checked {
                chain.checked = chain.checked.max(sent);
            }
        }
        self.leader_answered(sent, now);
    }

    /// Takes the touches that a request to the leader proves, and returns the latest of them.
    fn take_proven(&mut self, sent: Instant) -> Option<Instant> {
        let flushed = sent.checked_sub(self.flush_bound);
        let count = self.touches.iter().take_while(|touch| Some(touch.answered) <= flushed).count();
        self.touches.drain(..count).next_back().map(|touch| touch.sent)
    }

    /// Moves the bound to the time that the chain proves.
    fn prolong(&mut self) {
        let (Some(chain), Some(granted)) = (self.chain, self.granted) else { return };
        self.abandoned = self
            .abandoned
            .filter(|sent| chain.checked < *sent + granted.longest() * ABANDONED_TIMEOUTS);
        if chain.unproven_since.is_some() {
            return;
        }
        let Some(agreed) = chain.agreed else { return };
        let mut proven = chain.touched.min(agreed) + granted.shortest();
        if self.abandoned.is_some() {
            proven = proven.min(chain.checked.min(agreed) + granted.least());
        }
        self.bound = self.bound.max(Some(proven));
        self.no_gap_until = self.no_gap_until.max(Some(proven));
    }

    /// Takes back what a connect request may have changed.
    fn shorten(&mut self, to: Instant) {
        self.bound = self.bound.map(|bound| bound.min(to));
        self.no_gap_until = self.no_gap_until.map(|until| until.min(to));
    }
}

/// Results.
impl Evidence {
    /// Returns the timeouts granted so far, if they are known.
    pub(super) fn granted(&self) -> Option<GrantedTimeouts> {
        self.granted
    }

    /// Returns the shortest timeout granted so far.
    pub(super) fn shortest_timeout(&self) -> Option<Duration> {
        self.granted.map(GrantedTimeouts::shortest)
    }

    /// Returns a time before which no leader expires the session.
    pub(super) fn expires_after(&self) -> Option<Instant> {
        let shortened =
            self.pending.zip(self.granted).map(|(sent, granted)| sent + granted.least());
        self.bound.map(|bound| shortened.map_or(bound, |shortened| shortened.min(bound)))
    }

    /// Returns what the next moment cannot take back: the part of [`expires_after`] that holds even
    /// if a connect request is sent right after `now`.
    ///
    /// [`expires_after`]: Self::expires_after
    pub(super) fn promised(&self, now: Instant) -> Option<Instant> {
        Some(self.expires_after()?.min(now + self.granted?.least()))
    }

    /// Returns true if a connect request may take effect whose reply was lost. Only requests of
    /// which the leader checks the owner prolong the lease then.
    pub(super) fn needs_owner_checks(&self) -> bool {
        self.abandoned.is_some()
    }

    /// Returns the earliest time at which a request to the leader can prove another touch.
    pub(super) fn next_proof(&self) -> Option<Instant> {
        self.touches.front().map(|touch| touch.answered + self.flush_bound)
    }

    /// Returns the time by which the next proof must be received, or the chain gets a gap.
    pub(super) fn gap_after(&self) -> Option<Instant> {
        (self.chain?.touched + self.shortest_timeout()?).checked_sub(self.drift)
    }

    /// Returns the earliest time at which a request to the leader can end the doubt about a chain
    /// that began after a gap.
    pub(super) fn second_proof(&self) -> Option<Instant> {
        self.chain?.unproven_since.map(|since| since + self.expiry_pass)
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
            let begin = now();
            let mut evidence = Evidence::resumed(Some(GrantedTimeouts::of(timeout)));
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

    /// It may have taken effect just before its time was over, and behind the last check of the owner.
    #[test]
    fn abandoned_connect_counts_until_a_later_check_of_the_owner() {
        let (begin, ms) = (now(), Duration::from_millis);
        let at = |time: u64| begin + ms(time);
        let mut evidence = Evidence::new();
        evidence.handshake_sent(begin);
        evidence.handshake_accepted(ms(96), begin);
        evidence.set_bounds(ms(32), ms(1), Duration::ZERO);
        evidence.handshake_sent(at(10)); // abandoned, and over after five timeouts
        evidence.handshake_sent(at(20));
        evidence.handshake_accepted(ms(96), at(21));
        for time in (60..480).step_by(40) {
            evidence.quorum_agreed(at(time), OwnerCheck::Checked, at(time));
            evidence.touch_answered(at(time), at(time));
        }
        assert_eq!(evidence.expires_after(), Some(at(460 + 48)));
        evidence.quorum_agreed(at(492), OwnerCheck::Unchecked, at(492));
        evidence.leader_answered(at(493), at(493));
        assert_eq!(evidence.expires_after(), Some(at(460 + 48)), "it may have come at 489");
        evidence.quorum_agreed(at(494), OwnerCheck::Checked, at(494));
        assert_eq!(evidence.expires_after(), Some(at(460 + 96)));
    }

    /// The clock of a leader may be faster by the drift.
    #[test]
    fn gap_begins_a_drift_before_the_session_timeout() {
        let (begin, ms) = (now(), Duration::from_millis);
        for (drift, is_sound) in [(0, true), (2, false)] {
            let mut evidence = Evidence::new();
            evidence.handshake_sent(begin);
            evidence.handshake_accepted(ms(100), begin);
            evidence.set_bounds(ms(10), ms(50), ms(drift));
            evidence.touch_answered(begin + ms(60), begin + ms(60));
            let late = begin + ms(99);
            evidence.quorum_agreed(begin + ms(97), OwnerCheck::Checked, late);
            assert_eq!(evidence.expires_after().is_some(), is_sound);
            let second = (!is_sound).then_some(late + ms(50)); // counts from the answer
            assert_eq!(evidence.second_proof(), second);

            let mut reconnected = Evidence::new();
            reconnected.handshake_sent(begin);
            reconnected.handshake_accepted(ms(100), begin);
            reconnected.set_bounds(ms(10), ms(50), ms(drift));
            reconnected.handshake_sent(late);
            reconnected.handshake_accepted(ms(100), late);
            assert_eq!(reconnected.second_proof().is_none(), is_sound);
        }
    }

    /// Another client may have been granted a shorter timeout.
    #[test]
    fn session_with_unknown_timeouts_proves_nothing() {
        let (mut evidence, begin) = (Evidence::resumed(None), now());
        evidence.handshake_sent(begin);
        evidence.handshake_accepted(Duration::from_secs(4), begin);
        evidence.quorum_agreed(begin, OwnerCheck::Checked, begin);
        evidence.leader_answered(begin + Duration::from_secs(2), begin + Duration::from_secs(2));
        assert_eq!(evidence.expires_after(), None);
    }
}
