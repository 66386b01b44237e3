//! How often a request is retried, and after which pauses.

use std::time::Duration;

use crate::limits::RETRY_PAUSE_MIN;

/// Decides when to retry and when to stop. It is a plain value.
///
/// The policy does not decide *which* requests are retried; see
/// [`Client::retry`](crate::Client::retry).
///
/// ```
/// use std::time::Duration;
/// use zk_session::RetryPolicy;
///
/// let second = Duration::from_secs(1);
/// let patient = RetryPolicy::exponential(second / 50, second); // and never gives up
/// let bounded = patient.attempts(10).with_timeout(60 * second);
/// let steady = RetryPolicy::fixed(second).with_timeout(10 * second);
/// # let _ = (bounded, steady, RetryPolicy::none());
/// ```
#[must_use = "a policy is only a value"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    pauses: Pauses,
    attempts: Option<u32>,
    within: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pauses {
    Fixed(Duration),
    /// A random pause between half of a step and a whole step. The step doubles up to the cap.
    Exponential {
        first: Duration,
        cap: Duration,
    },
}

impl RetryPolicy {
    /// Returns a policy without retries.
    pub const fn none() -> Self {
        Self::fixed(RETRY_PAUSE_MIN).attempts(1)
    }

    /// Returns a policy that retries without end, after pauses of one length. A pause lasts at
    /// least [`RETRY_PAUSE_MIN`](crate::limits::RETRY_PAUSE_MIN).
    pub const fn fixed(pause: Duration) -> Self {
        Self { pauses: Pauses::Fixed(pause), attempts: None, within: None }
    }

    /// Returns a policy that retries without end, after pauses that start at `first` and double up
    /// to `cap`.
    ///
    /// Each pause is shortened at random by up to half, so that clients that failed together do not
    /// retry together.
    pub const fn exponential(first: Duration, cap: Duration) -> Self {
        Self { pauses: Pauses::Exponential { first, cap }, attempts: None, within: None }
    }

    /// Limits the number of attempts, including the first one; 0 counts as 1.
    pub const fn attempts(self, max: u32) -> Self {
        Self { attempts: Some(max), ..self }
    }

    /// Limits the time since the start of the first attempt.
    ///
    /// The limit also bounds the attempts: each attempt waits no longer than the remaining time
    /// ([`Client::with_timeout`](crate::Client::with_timeout)).
    pub const fn with_timeout(self, timeout: Duration) -> Self {
        Self { within: Some(timeout), ..self }
    }

    /// Returns the policy with the same pauses and without limits.
    pub(super) const fn without_end(self) -> Self {
        Self { attempts: None, within: None, ..self }
    }

    /// Returns the time from the start of the first attempt to the end.
    pub(super) const fn bound(self) -> Option<Duration> {
        self.within
    }

    /// Returns the pause after an attempt, or `None` to stop. Attempts count from 1, and `elapsed`
    /// is the time since the start of the first one. `draw` returns a random number below its
    /// argument.
    pub(super) fn pause(
        self,
        attempt: u32,
        elapsed: Duration,
        draw: impl FnOnce(u64) -> u64,
    ) -> Option<Duration> {
        if self.attempts.is_some_and(|max| attempt >= max) {
            return None;
        }
        let pause = match self.pauses {
            Pauses::Fixed(pause) => pause,
            Pauses::Exponential { first, cap } => {
                let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
                let step = first.saturating_mul(factor).min(cap);
                let half = u64::try_from(step.as_nanos() / 2).unwrap_or(u64::MAX);
                step.saturating_sub(Duration::from_nanos(draw(half.saturating_add(1))))
            }
        };
        let pause = pause.max(RETRY_PAUSE_MIN);
        let ends_in_time = |bound| elapsed.checked_add(pause).is_some_and(|end| end < bound);
        self.within.is_none_or(ends_in_time).then_some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the pauses up to the end, or the first `len` of them.
    fn pauses(policy: RetryPolicy, len: u32, draw: fn(u64) -> u64) -> Vec<u128> {
        let mut elapsed = Duration::ZERO;
        let pauses = (1..=len).map_while(|attempt| {
            let pause = policy.pause(attempt, elapsed, draw)?;
            elapsed += pause;
            Some(pause.as_millis())
        });
        pauses.collect()
    }

    #[test]
    fn exponential_pauses_double_up_to_cap_without_end() {
        let policy = RetryPolicy::exponential(10 * MS, 65 * MS);
        assert_eq!(pauses(policy, 6, |_| 0), [10, 20, 40, 65, 65, 65]);
        assert_eq!(pauses(policy, 6, |bound| bound - 1), [5, 10, 20, 32, 32, 32]);
        assert!(policy.pause(u32::MAX, Duration::MAX, |_| 0).is_some());
        let absurd = RetryPolicy::exponential(Duration::MAX, Duration::MAX);
        assert!(absurd.pause(u32::MAX, Duration::MAX, |bound| bound - 1).is_some());
    }

    #[test]
    fn attempts_limit_includes_first_attempt() {
        let policy = RetryPolicy::fixed(10 * MS);
        assert_eq!(pauses(policy.attempts(3), 9, |_| 0), [10, 10]);
        assert_eq!(pauses(policy, 3, |_| 0), [10, 10, 10]);
        for none in [RetryPolicy::none(), policy.attempts(0), policy.attempts(1)] {
            assert_eq!(pauses(none, 9, |_| 0), [0; 0]);
        }
    }

    #[test]
    fn with_timeout_rejects_pause_that_would_end_too_late() {
        let policy = RetryPolicy::fixed(10 * MS).with_timeout(35 * MS);
        assert_eq!(pauses(policy, 9, |_| 0), [10, 10, 10]);
        assert_eq!(pauses(policy.with_timeout(Duration::ZERO), 9, |_| 0), [0; 0]);
    }

    #[test]
    fn zero_pause_is_raised_to_minimum() {
        for policy in [
            RetryPolicy::fixed(Duration::ZERO),
            RetryPolicy::exponential(Duration::ZERO, Duration::ZERO),
        ] {
            assert_eq!(policy.pause(1, Duration::ZERO, |_| 0), Some(RETRY_PAUSE_MIN));
        }
    }
}
