//! Pace of the attempts to reconnect: the pauses between them, and the time of each.
//!
//! A change of leader takes some tenths of a second. Meanwhile the other servers accept connections
//! and close them at once. A lock survives only if its session reaches a server again before the
//! lease ends. So the limits follow from what may be lost:
//!
//! | session | longest step of the back-off | longest time of an attempt, at first |
//! |---|---|---|
//! | with a claimed lease | a part of what the lease has left | half of what it has left |
//! | without one | a part of the session timeout | a third of the session timeout or less |
//! | not opened yet | [`BACKOFF_MAX`] | the same |
//!
//! A server may answer each handshake late, but in time for the session. After each attempt without an
//! answer the server has a session that nobody uses. So the time for the handshake and SASL doubles once all
//! servers that accept connections have been late. It is the session timeout at most, and half of what a
//! session that exists has left.
//!
//! Attempts are most frequent in the first row, for the short time that a lease lasts. A session
//! that no server acknowledges ends after 4/3 of its timeout. So in a long outage all sessions are
//! in the last row.

use std::time::Duration;

use crate::limits::{
    ATTEMPTS_PER_TIMEOUT, BACKOFF_MAX, BACKOFF_STEP, CONNECT_TIMEOUT_MAX, CONNECT_TIMEOUT_MIN,
    LEASE_ATTEMPT_MIN, LEASE_ATTEMPT_PART, LEASE_BACKOFF_MIN, LEASE_BACKOFF_MIN_PART,
    LEASE_BACKOFF_PART, SESSION_BACKOFF_PART,
};

/// Pace of the attempts to reconnect. See the [module documentation](self).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Timeout of the session, or the requested one if there is no session yet.
    pub(crate) session_timeout: Duration,
    /// Time until the servers may expire the session, if it exists.
    pub(crate) life_left: Option<Duration>,
    /// Time that is left of the lease, if the lease is claimed and valid.
    pub(crate) lease_left: Option<Duration>,
}

impl Pace {
    /// Returns the longest step of the back-off.
    pub(super) fn longest_step(&self) -> Duration {
        let longest = match self.lease_left {
            Some(left) => {
                let least = LEASE_BACKOFF_MIN.min(LEASE_BACKOFF_MIN_PART.of(left));
                LEASE_BACKOFF_PART.of(left).max(least)
            }
            None if self.life_left.is_some() => SESSION_BACKOFF_PART.of(self.session_timeout),
            None => BACKOFF_MAX,
        };
        longest.clamp(BACKOFF_STEP, BACKOFF_MAX)
    }

    /// Returns the time that one of so many servers gets to answer the handshake, after so many laps in
    /// which all of them were late.
    pub(super) fn handshake_limit(&self, servers: usize, late_laps: u32) -> Duration {
        let share = self.share(servers);
        let limit = share.saturating_mul(1 << late_laps.min(16));
        let half_life = self.life_left.map_or(limit, |left| left / 2);
        let longest = half_life.min(self.session_timeout).max(share);
        self.within_lease(limit.min(longest))
    }

    /// Returns the time that one of so many servers gets to accept a connection, and at first to answer
    /// the handshake.
    ///
    /// It is at most a third of the session timeout, however few servers there are, but at least
    /// `CONNECT_TIMEOUT_MIN`. A ZooKeeper that is starting may accept a connection and never answer
    /// it. The session must have time to reconnect before it expires. The upper bound
    /// `CONNECT_TIMEOUT_MAX` lets a caller that waits for a first connection reach more than one
    /// server.
    ///
    /// While the lease is claimed, an attempt at a server that does not answer leaves half of the
    /// lease for the next server.
    pub(super) fn attempt_limit(&self, servers: usize) -> Duration {
        self.within_lease(self.share(servers))
    }

    fn share(&self, servers: usize) -> Duration {
        let shares = u32::try_from(servers).unwrap_or(u32::MAX);
        let share = self.session_timeout / shares.max(ATTEMPTS_PER_TIMEOUT);
        share.clamp(CONNECT_TIMEOUT_MIN, CONNECT_TIMEOUT_MAX)
    }

    fn within_lease(&self, limit: Duration) -> Duration {
        match self.lease_left {
            Some(left) => limit.min(LEASE_ATTEMPT_PART.of(left).max(LEASE_ATTEMPT_MIN)),
            None => limit,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(timeout_ms: u64, lease_left_ms: Option<u64>) -> Pace {
        let ms = Duration::from_millis;
        let (session_timeout, lease_left) = (ms(timeout_ms), lease_left_ms.map(ms));
        Pace { session_timeout, life_left: Some(session_timeout), lease_left }
    }

    #[test]
    fn longest_step_follows_from_what_may_be_lost() {
        for (timeout_ms, left_ms, step_ms) in [
            (30_000, Some(16_000), 400),
            (10_000, Some(4_800), 120),
            (4_000, Some(1_560), 60),
            (2_000, Some(200), 50),
            (2_000, Some(0), 20),
            (2_000, None, 250),
            (4_000, None, 500),
            (40_000, None, 1_000),
        ] {
            let step = pace(timeout_ms, left_ms).longest_step();
            assert_eq!(step, Duration::from_millis(step_ms), "{timeout_ms} {left_ms:?}");
        }
        let first = Pace { life_left: None, ..pace(2_000, None) };
        assert_eq!(first.longest_step(), BACKOFF_MAX);
    }

    #[test]
    fn attempt_leaves_half_of_a_claimed_lease() {
        for (timeout_ms, left_ms, limit_ms) in [
            (40_000, Some(20_000), 6_000),
            (4_000, Some(1_600), 800),
            (2_000, Some(800), 400),
            (2_000, Some(100), 300),
            (2_000, None, 1_000),
            (9_000, None, 3_000),
        ] {
            let limit = pace(timeout_ms, left_ms).attempt_limit(3);
            assert_eq!(limit, Duration::from_millis(limit_ms), "{timeout_ms} {left_ms:?}");
        }
    }

    #[test]
    fn handshake_limit_leaves_half_of_what_the_session_has_left() {
        for (left_ms, limit_ms) in [(9_000, 4_500), (8_000, 4_000), (5_000, 3_000), (0, 3_000)] {
            let life_left = Some(Duration::from_millis(left_ms));
            let limit = Pace { life_left, ..pace(9_000, None) }.handshake_limit(3, 5);
            assert_eq!(limit, Duration::from_millis(limit_ms), "{left_ms}");
        }
    }
}
