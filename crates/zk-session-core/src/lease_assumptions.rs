//! Assumptions of a lease about servers and clocks.

use std::fmt;
use std::time::Duration;

use crate::limits::{
    EXPIRY_PASS, FLUSH_BOUND_PART, LEADER_PART, MARGIN_PART, PING_PART, QUORUM_PART,
    ROUND_TRIP_PART, TIMEOUT_MAX, TOUCH_PART, VALIDITY_MIN_PART,
};

/// Assumptions of a session's lease about servers and clocks.
///
/// A lease ends before the leader can expire the session. A client cannot see the leader's clock,
/// so it derives a bound from the replies it receives (ARCHITECTURE.md, "The lease"). The
/// derivation rests on these assumptions:
///
/// 1. **A follower flushes its touch table at least every [`flush_bound`](Self::flush_bound)**, by
///    default a third of the session timeout. A leader requests the table every `tickTime / 2`. A
///    session timeout is at least two ticks, unless `minSessionTimeout` is set otherwise, so half a
///    tick is at most a quarter of it. The rest is for a server or a network that lags.
/// 2. **Timers fire, and the holder reacts, within the [`margin`](Self::margin)**, by default a
///    twelfth of the session timeout. The lease ends this much before the proven bound.
/// 3. **The clocks of client and leader differ in rate by
///    [`clock_drift_ppm`](Self::clock_drift_ppm) at most**, by default 1,000 ppm. Crystals are
///    accurate to 100 ppm, and NTP corrects by 500 ppm at most. The clocks may show different
///    times.
/// 4. **A server grants at least half of the longest timeout so far.** It processes a connect request
///    whose reply was lost within five session timeouts, or never. This matters only if servers
///    differ in `maxSessionTimeout`. This assumption has no setting.
/// 5. **A leader closes the sessions that expire at the same tick within
///    [`expiry_pass`](Self::expiry_pass)**, by default two seconds. A session that is to be closed
///    answers until its turn comes. The assumption matters only after a gap in the evidence: the lease
///    begins again after this time at the earliest.
///
/// # Examples
/// Servers with `tickTime=2000` flush every second. With this bound, the lease of a 10 s session
/// outlasts longer interruptions:
///
/// ```
/// use std::time::Duration;
/// use zk_session_core::LeaseAssumptions;
///
/// let assumptions = LeaseAssumptions::new().flush_bound(Duration::from_millis(1_500));
/// # drop(assumptions);
/// ```
///
/// # Observers behind followers
/// With `observerMasterPort` an observer sends its touches to a follower, which forwards them: two
/// flushes in a row. Set the flush bound to a tick and a half in that case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct LeaseAssumptions {
    flush_bound: Option<Duration>,
    margin: Option<Duration>,
    clock_drift_ppm: u32,
    expiry_pass: Duration,
}

impl Default for LeaseAssumptions {
    fn default() -> Self {
        Self { flush_bound: None, margin: None, clock_drift_ppm: 1_000, expiry_pass: EXPIRY_PASS }
    }
}

impl LeaseAssumptions {
    /// Creates the default assumptions.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the longest time between two flushes of a follower's touch table. It is half of the
    /// servers' `tickTime`, plus the delay that a slow server or network adds.
    ///
    /// A smaller bound keeps locks through longer interruptions. A bound below half a tick is
    /// unsafe.
    pub fn flush_bound(mut self, bound: Duration) -> Self {
        self.flush_bound = Some(bound);
        self
    }

    /// Sets how much earlier than the proven bound the lease ends.
    pub fn margin(mut self, margin: Duration) -> Self {
        self.margin = Some(margin);
        self
    }

    /// Sets by how many millionths the rates of two clocks may differ.
    pub fn clock_drift_ppm(mut self, ppm: u32) -> Self {
        self.clock_drift_ppm = ppm;
        self
    }

    /// Sets the longest time in which a leader closes the sessions that expire at the same tick. It
    /// includes pauses of the leader in the meantime.
    ///
    /// It depends on the number of sessions that a failure can cut off at once, and not on the session
    /// timeout; docs/lease.md of the repository has measurements. A smaller time renews a lease sooner
    /// that has ended.
    pub fn expiry_pass(mut self, longest: Duration) -> Self {
        self.expiry_pass = longest;
        self
    }

    /// Computes the times of a lease for a session timeout.
    ///
    /// # Errors
    /// [`LeaseImpossible`] if a lease could never be safe, or never be valid.
    pub fn times(&self, timeout: Duration) -> Result<LeaseTimes, LeaseImpossible> {
        let timeout = timeout.min(TIMEOUT_MAX);
        let flush_bound = self.flush_bound.unwrap_or_else(|| FLUSH_BOUND_PART.of(timeout));
        let margin = self.margin.unwrap_or_else(|| MARGIN_PART.of(timeout));
        let expiry_pass = self.expiry_pass.min(TIMEOUT_MAX);
        let settings = [
            (LeaseSetting::FlushBound, flush_bound),
            (LeaseSetting::Margin, margin),
            (LeaseSetting::ExpiryPass, expiry_pass),
        ];
        for (setting, value) in settings {
            if value < SHORTEST {
                return Err(LeaseImpossible::NeverSafe { setting, value });
            }
        }
        let drift = timeout.saturating_mul(self.clock_drift_ppm) / 1_000_000;
        let ends_early = margin.saturating_add(drift);
        let times = LeaseTimes {
            flush_bound,
            expiry_pass,
            clock_drift: drift,
            ends_early,
            idle_every: idle_interval(timeout, flush_bound),
            touch_every: TOUCH_PART.of(timeout),
            leader_every: LEADER_PART.of(timeout),
            quorum_every: QUORUM_PART.of(timeout),
        };
        let renewals = times.touch_every + times.leader_every;
        let needed = flush_bound.saturating_add(ends_early).saturating_add(renewals);
        if needed.saturating_add(VALIDITY_MIN_PART.of(timeout)) <= timeout {
            Ok(times)
        } else {
            Err(LeaseImpossible::NeverValid { timeout, flush_bound, margin, drift })
        }
    }
}

/// Times of a lease, for one session timeout.
///
/// A lease that is kept renewed still lasts for a minimum time when all replies stop. It is the
/// session timeout less [`flush_bound`](Self::flush_bound), [`ends_early`](Self::ends_early),
/// [`touch_every`](Self::touch_every) and [`leader_every`](Self::leader_every): two fifths of the
/// session timeout by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseTimes {
    /// Longest time between two flushes of a follower.
    pub flush_bound: Duration,
    /// Longest time in which a leader closes the sessions that expire at the same tick.
    pub expiry_pass: Duration,
    /// Time by which the clocks of client and leader may differ after a session timeout.
    pub clock_drift: Duration,
    /// Time by which the lease ends before the proven bound: the margin, plus the drift of clocks.
    pub ends_early: Duration,
    /// Interval at which the session sends something while the lease is not claimed.
    pub idle_every: Duration,
    /// Interval at which the session sends something while the lease is claimed: a touch to prove
    /// later.
    pub touch_every: Duration,
    /// Interval at which the leader answers a request while the lease is claimed.
    pub leader_every: Duration,
    /// Interval at which a quorum agrees to a request while the lease is claimed.
    pub quorum_every: Duration,
}

impl LeaseTimes {
    /// Returns the minimum time that a lease lasts when all replies stop, if it was kept renewed
    /// before. `timeout` is the session timeout that these times are for.
    #[must_use]
    pub fn least_left(&self, timeout: Duration) -> Duration {
        let renewals = self.touch_every + self.leader_every;
        timeout.saturating_sub(self.flush_bound + self.ends_early + renewals)
    }
}

/// Reason why no lease is possible with these settings and this session timeout.
///
/// `Debug` prints the same line as `Display`.
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseImpossible {
    /// The session was resumed without the timeouts that it was granted before.
    UnknownTimeouts,
    /// With this setting two clients could hold a lock at once.
    NeverSafe {
        /// The setting.
        setting: LeaseSetting,
        /// Value of the setting.
        value: Duration,
    },
    /// The lease would end before it could be renewed.
    NeverValid {
        /// Session timeout, as requested or as negotiated.
        timeout: Duration,
        /// Flush bound.
        flush_bound: Duration,
        /// Margin.
        margin: Duration,
        /// Amount by which the clocks may differ in a session timeout.
        drift: Duration,
    },
}

/// Setting of [`LeaseAssumptions`] that can make a lease unsafe. `Display` prints its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseSetting {
    /// [`LeaseAssumptions::flush_bound`].
    FlushBound,
    /// [`LeaseAssumptions::margin`].
    Margin,
    /// [`LeaseAssumptions::expiry_pass`].
    ExpiryPass,
}

impl fmt::Display for LeaseSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::FlushBound => "flush_bound",
            Self::Margin => "margin",
            Self::ExpiryPass => "expiry_pass",
        })
    }
}

impl fmt::Display for LeaseImpossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownTimeouts => f.write_str(
                "the session was resumed without the session timeouts that it was granted before: \
                 resume it with the credentials that its last client returned, or connect anew",
            ),
            Self::NeverSafe { setting, value } => write!(
                f,
                "the lease setting {setting} is {value:?}, and a lease is never safe with less \
                 than {SHORTEST:?}: ask for a longer session timeout, or set {setting} to at least {}",
                match setting {
                    LeaseSetting::FlushBound => "half of the servers' tickTime",
                    LeaseSetting::Margin => "the time that the holder takes to stop",
                    LeaseSetting::ExpiryPass =>
                        "the time in which a leader expires a rack's sessions",
                }
            ),
            Self::NeverValid { timeout, flush_bound, margin, drift } => write!(
                f,
                "the session timeout of {timeout:?} leaves no time for a lease with a flush bound \
                 of {flush_bound:?}, a margin of {margin:?} and a clock drift of {drift:?}: ask for a \
                 longer session timeout (servers grant up to maxSessionTimeout), or set smaller lease \
                 assumptions"
            ),
        }
    }
}

impl fmt::Debug for LeaseImpossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for LeaseImpossible {}

/// Returns the interval between touches that keeps the evidence of an idle session without a gap.
///
/// The leader is asked an eighth of the timeout before the last proven touch is that old. It must
/// have been preceded, by the flush bound and a round trip, by another touch.
fn idle_interval(timeout: Duration, flush_bound: Duration) -> Duration {
    let spent = LEADER_PART.of(timeout) + ROUND_TRIP_PART.of(timeout);
    let spare = timeout.saturating_sub(flush_bound).saturating_sub(spent);
    spare.clamp(TOUCH_PART.of(timeout), PING_PART.of(timeout))
}

/// The shortest flush bound and margin: one millisecond is the unit of the servers' clocks.
const SHORTEST: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn longest_session_timeout_has_a_lease() {
        let longest = LeaseAssumptions::new().times(Duration::MAX);
        assert_eq!(longest, LeaseAssumptions::new().times(TIMEOUT_MAX));
        assert!(longest.is_ok());
    }

    #[test]
    fn lease_error_names_the_wrong_setting() {
        let text =
            |assumptions: LeaseAssumptions| assumptions.times(4_000 * MS).unwrap_err().to_string();
        let drift = text(LeaseAssumptions::new().clock_drift_ppm(500_000));
        assert!(drift.contains("a clock drift of 2s"), "{drift}");
        let margin = text(LeaseAssumptions::new().margin(Duration::ZERO));
        assert!(margin.contains("set margin to at least the time"), "{margin}");
    }

    #[test]
    fn default_lease_times_leave_two_fifths_of_the_timeout() {
        for timeout in [100 * MS, 4_000 * MS, 40_000 * MS, Duration::from_secs(86_400 * 24)] {
            let times = LeaseAssumptions::new().times(timeout).unwrap();
            let spent =
                times.flush_bound + times.ends_early + times.touch_every + times.leader_every;
            let left = timeout - spent;
            assert!(left > timeout * 39 / 100 && left < timeout * 2 / 5, "{left:?} of {timeout:?}");
            // A session timeout contains at most three logged writes.
            assert!(times.quorum_every * 3 > timeout);
        }
    }

    #[test]
    fn idle_touches_can_be_proven_before_the_gap() {
        for flush_bound in [1, 500, 1_333, 2_000, 2_400] {
            let timeout = 4_000 * MS;
            let assumptions = LeaseAssumptions::new().flush_bound(flush_bound * MS);
            let times = assumptions.times(timeout).unwrap();
            let proof = times.idle_every + ROUND_TRIP_PART.of(timeout) + times.flush_bound;
            assert!(times.idle_every <= PING_PART.of(timeout));
            assert!(proof + times.leader_every <= timeout, "{flush_bound}: {times:?}");
        }
    }

    #[test]
    fn least_left_is_the_timeout_less_all_parts() {
        let assumptions = LeaseAssumptions::new().flush_bound(1_000 * MS).margin(300 * MS);
        let times = assumptions.clock_drift_ppm(0).times(4_000 * MS).unwrap();
        assert_eq!((times.touch_every, times.leader_every), (250 * MS, 500 * MS));
        assert_eq!(times.least_left(4_000 * MS), 1_950 * MS);
        assert_eq!(times.least_left(1_000 * MS), Duration::ZERO);
    }

    #[test]
    fn shortest_flush_bound_and_margin_are_accepted() {
        let assumptions = LeaseAssumptions::new().flush_bound(SHORTEST).margin(SHORTEST);
        assert!(assumptions.times(4_000 * MS).is_ok());
    }

    #[test]
    fn unsafe_lease_setting_is_rejected_by_name() {
        let none = Duration::ZERO;
        for (assumptions, setting) in [
            (LeaseAssumptions::new().flush_bound(none), LeaseSetting::FlushBound),
            (LeaseAssumptions::new().margin(none), LeaseSetting::Margin),
            (LeaseAssumptions::new().expiry_pass(none), LeaseSetting::ExpiryPass),
        ] {
            let refused = assumptions.times(4_000 * MS).unwrap_err();
            assert_eq!(refused, LeaseImpossible::NeverSafe { setting, value: none });
            assert!(refused.to_string().contains(&setting.to_string()), "{refused}");
            assert_eq!(format!("{refused:?}"), refused.to_string());
        }
    }

    #[test]
    fn timeout_too_short_for_a_lease_is_rejected() {
        let assumptions = LeaseAssumptions::new().flush_bound(1_500 * MS).margin(500 * MS);
        assumptions.times(4_000 * MS).unwrap();
        let refused = assumptions.times(2_500 * MS).unwrap_err();
        assert!(refused.to_string().contains("2.5s"), "{refused}");
        for huge in [Duration::MAX, Duration::from_secs(1 << 40)] {
            assert!(LeaseAssumptions::new().flush_bound(huge).times(4_000 * MS).is_err());
            assert!(LeaseAssumptions::new().margin(huge).times(4_000 * MS).is_err());
        }
        assert!(LeaseAssumptions::new().clock_drift_ppm(u32::MAX).times(4_000 * MS).is_err());
        assert!(LeaseAssumptions::new().times(Duration::ZERO).is_err());
    }
}
