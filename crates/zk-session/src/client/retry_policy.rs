//! How often a request is retried, and after which pauses.

use std::pin::pin;
use std::time::{Duration, Instant};

use futures::future::select;
use zk_session_core::{Error, ErrorKind};

use super::Client;
use super::repeat::Repeat;
use crate::clock::now;
use crate::limits::{
    NEXT_SESSION_PAUSE, NEXT_SESSION_PAUSE_MAX, RETRY_PAUSE_MIN, THROTTLED_PAUSE, TIMED_OUT_MAX,
    TIMED_OUT_PAUSE, TIMED_OUT_PAUSE_PART,
};

/// Decides when to retry and when to stop. It is a plain value.
///
/// The policy does not decide *which* requests are retried; see [`Repeat`] and
/// [`Client::retry`](crate::Client::retry).
///
/// ```
/// use std::time::Duration;
/// use zk_session::RetryPolicy;
///
/// let second = Duration::from_secs(1);
/// let patient = RetryPolicy::exponential(second / 50, second); // and never gives up
/// let bounded = patient.max_attempts(10).timeout(60 * second);
/// let steady = RetryPolicy::fixed(second).timeout(10 * second);
/// # let _ = (bounded, steady, RetryPolicy::none());
/// ```
#[must_use = "a policy is only a value"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    pauses: Pauses,
    attempts: Option<u32>,
    timeout: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pauses {
    Fixed(Duration),
    /// A random pause between half of a step and a whole step. The step doubles up to the cap.
    Exponential {
        first: Duration,
        cap: Duration,
    },
    UntilSessionEnd,
}

impl RetryPolicy {
    /// Returns a policy without retries.
    pub const fn none() -> Self {
        Self::fixed(RETRY_PAUSE_MIN).max_attempts(1)
    }

    /// Returns a policy that retries without end, after pauses of one length. A pause lasts at
    /// least [`RETRY_PAUSE_MIN`](crate::limits::RETRY_PAUSE_MIN).
    pub const fn fixed(pause: Duration) -> Self {
        Self { pauses: Pauses::Fixed(pause), attempts: None, timeout: None }
    }

    /// Returns a policy that retries without end, after pauses that start at `first` and double up
    /// to `cap`.
    ///
    /// Each pause is shortened at random by up to half, so that clients that failed together do not
    /// retry together.
    pub const fn exponential(first: Duration, cap: Duration) -> Self {
        Self { pauses: Pauses::Exponential { first, cap }, attempts: None, timeout: None }
    }

    /// Returns a policy that retries until the session ends, as soon as an attempt can succeed.
    ///
    /// * After a lost connection there is no pause, because the next attempt waits for the next
    ///   connection.
    /// * After a temporary rejection, the pause is [`THROTTLED_PAUSE`](crate::limits::THROTTLED_PAUSE).
    /// * After a timeout on a working connection, it is
    ///   [`TIMED_OUT_PAUSE`](crate::limits::TIMED_OUT_PAUSE). It doubles with each timeout in a row, and
    ///   the policy ends after [`TIMED_OUT_MAX`](crate::limits::TIMED_OUT_MAX) of them: the timeout of
    ///   the handle is too short for the ensemble then.
    /// * A request that reached a limit of the client, or a read-only server, is not retried. It would
    ///   fail again at once.
    pub const fn until_session_end() -> Self {
        Self { pauses: Pauses::UntilSessionEnd, attempts: None, timeout: None }
    }

    /// Limits the number of attempts, including the first one; 0 counts as 1.
    pub const fn max_attempts(self, max: u32) -> Self {
        Self { attempts: Some(max), ..self }
    }

    /// Limits the time since the start of the first attempt.
    ///
    /// The limit also bounds the attempts: each attempt waits no longer than the remaining time
    /// ([`Client::with_timeout`](crate::Client::with_timeout)).
    pub const fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Returns the policy for attempts to open a session. No session exists whose end could end them,
    /// so [`until_session_end`](Self::until_session_end) gets the pauses of the default.
    pub(super) const fn for_next_session(self) -> Self {
        let pauses = match self.pauses {
            Pauses::UntilSessionEnd => {
                Pauses::Exponential { first: NEXT_SESSION_PAUSE, cap: NEXT_SESSION_PAUSE_MAX }
            }
            pauses => pauses,
        };
        Self { pauses, ..self }
    }

    /// Begins the first attempt of a request.
    #[inline]
    #[must_use]
    pub fn begin(&self) -> Attempts<'_> {
        let begun = self.timeout.map(|_| now());
        Attempts { policy: self, begun, failed: 0, timed_out: 0, cuts: 0 }
    }

    /// Returns the pause after an attempt with an unknown error, even if the policy ends before. Attempts
    /// count from 1. `draw` returns a random number below its argument.
    pub(super) fn pause(&self, attempt: u32, draw: impl FnOnce(u64) -> u64) -> Duration {
        let pause = match self.pauses {
            Pauses::Fixed(pause) => pause,
            Pauses::Exponential { first, cap } => {
                let factor = 2_u32.saturating_pow(attempt.saturating_sub(1));
                let step = first.saturating_mul(factor).min(cap);
                let half = u64::try_from(step.as_nanos() / 2).unwrap_or(u64::MAX);
                step.saturating_sub(Duration::from_nanos(draw(half.saturating_add(1))))
            }
            Pauses::UntilSessionEnd => THROTTLED_PAUSE,
        };
        pause.max(RETRY_PAUSE_MIN)
    }

    /// Returns true if another attempt may begin, `elapsed` and this pause after the start of the first
    /// one.
    fn allows(&self, attempt: u32, elapsed: Duration, pause: Duration) -> bool {
        let ends_in_time = |bound| elapsed.checked_add(pause).is_some_and(|end| end < bound);
        self.attempts.is_none_or(|max| attempt < max) && self.timeout.is_none_or(ends_in_time)
    }
}

/// The failed attempts of one request, from [`RetryPolicy::begin`].
///
/// ```no_run
/// # use zk_session::{Client, Error, Repeat, RetryPolicy};
/// # async fn example(client: Client) -> Result<(), Error> {
/// let policy = RetryPolicy::until_session_end();
/// let mut attempts = policy.begin();
/// let node = loop {
///     match client.get_data("/config").await {
///         Ok(node) => break node,
///         Err(error) => attempts.again(&client, error, Repeat::NotApplied).await?,
///     }
/// };
/// # drop(node); Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Attempts<'p> {
    policy: &'p RetryPolicy,
    /// The start of the first attempt, if the policy limits the time.
    begun: Option<Instant>,
    pub(super) failed: u32,
    /// Number of timeouts in a row on one connection.
    timed_out: u32,
    /// Number of connections lost before the first of these timeouts.
    cuts: u64,
}

impl Attempts<'_> {
    /// Waits before the next attempt. The wait ends early with the session; the next attempt then
    /// fails.
    ///
    /// # Errors
    /// Returns `error` if another attempt cannot help or is not safe, or if the policy allows none.
    ///
    /// # Cancel safety
    /// The attempt counts, and the rest of the pause is left out.
    pub async fn again(
        &mut self,
        client: &Client,
        error: Error,
        repeat: Repeat,
    ) -> Result<(), Error> {
        let pause = self.next_pause(client, Some(&error));
        let (Some(pause), true) = (pause, repeat.covers(&error)) else { return Err(error) };
        wait(client, pause).await;
        Ok(())
    }

    /// As [`again`](Self::again), after a failure that the caller can repair. Returns false if the
    /// policy allows no further attempt.
    ///
    /// # Cancel safety
    /// As [`again`](Self::again).
    pub async fn pause(&mut self, client: &Client) -> bool {
        let Some(pause) = self.next_pause(client, None) else { return false };
        wait(client, pause).await;
        true
    }

    /// Forgets the failed attempts, after a success. A time limit of the policy still counts from the
    /// first attempt.
    pub fn reset(&mut self) {
        (self.failed, self.timed_out) = (0, 0);
    }

    /// Counts a failed attempt. Returns the pause before the next one, or `None` if the policy allows
    /// none.
    pub(super) fn next_pause(
        &mut self,
        client: &Client,
        error: Option<&Error>,
    ) -> Option<Duration> {
        self.failed = self.failed.saturating_add(1);
        let draw = |bound| client.shared.lock().random_below(bound);
        let pause = match (self.policy.pauses, error) {
            (Pauses::UntilSessionEnd, Some(error)) => self.shortest_pause(client, error)?,
            _ => self.policy.pause(self.failed, draw),
        };
        self.policy.allows(self.failed, self.elapsed(), pause).then_some(pause)
    }

    /// Returns the pause of [`RetryPolicy::until_session_end`].
    fn shortest_pause(&mut self, client: &Client, error: &Error) -> Option<Duration> {
        if *error.kind() == ErrorKind::TimedOut {
            let cuts = client.connections_lost();
            if self.timed_out == 0 || cuts != self.cuts || !client.is_connected() {
                (self.timed_out, self.cuts) = (0, cuts);
            }
            let step = TIMED_OUT_PAUSE.saturating_mul(2_u32.saturating_pow(self.timed_out));
            self.timed_out += 1;
            let pause = step.min(TIMED_OUT_PAUSE_PART.of(client.session_timeout()));
            return (self.timed_out <= TIMED_OUT_MAX).then_some(pause);
        }
        self.timed_out = 0;
        match error.kind() {
            // The next attempt waits for the next connection.
            ErrorKind::ConnectionLost(_) => Some(Duration::ZERO),
            // A server that throttles replies at once.
            _ => error.code().map(|_| THROTTLED_PAUSE),
        }
    }

    pub(super) fn time_left(&self) -> Option<Duration> {
        self.policy.timeout.map(|bound| bound.saturating_sub(self.elapsed()))
    }

    /// Returns the time since the start of the first attempt, if the policy limits it.
    fn elapsed(&self) -> Duration {
        self.begun.map_or(Duration::ZERO, |begun| now().saturating_duration_since(begun))
    }
}

/// Waits for the pause or for the end of the session.
async fn wait(client: &Client, pause: Duration) {
    if pause.is_zero() {
        return;
    }
    let paused = async {
        let mut lease_state = client.shared.lease_state();
        let over = lease_state.wait_for(|state| state.closing.or(state.ended).is_some());
        select(pin!(over), pin!(client.runtime().sleep(pause))).await;
    };
    // On the heap, because it is rare; this keeps the futures of callers small.
    Box::pin(paused).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the pauses up to the end, or the first `len` of them.
    fn pauses(policy: RetryPolicy, len: u32, draw: fn(u64) -> u64) -> Vec<u128> {
        let mut elapsed = Duration::ZERO;
        let pauses = (1..=len).map_while(|attempt| {
            let pause = policy.pause(attempt, draw);
            let is_allowed = policy.allows(attempt, elapsed, pause);
            elapsed = elapsed.saturating_add(pause);
            is_allowed.then_some(pause.as_millis())
        });
        pauses.collect()
    }

    #[test]
    fn exponential_pauses_double_up_to_cap_without_end() {
        let policy = RetryPolicy::exponential(10 * MS, 65 * MS);
        assert_eq!(pauses(policy, 6, |_| 0), [10, 20, 40, 65, 65, 65]);
        assert_eq!(pauses(policy, 6, |bound| bound - 1), [5, 10, 20, 32, 32, 32]);
        let absurd = RetryPolicy::exponential(Duration::MAX, Duration::MAX);
        for policy in [policy, absurd] {
            let pause = policy.pause(u32::MAX, |bound| bound - 1);
            assert!(policy.allows(u32::MAX, Duration::MAX, pause));
        }
    }

    #[test]
    fn attempts_limit_includes_first_attempt() {
        let policy = RetryPolicy::fixed(10 * MS);
        assert_eq!(pauses(policy.max_attempts(3), 9, |_| 0), [10, 10]);
        assert_eq!(pauses(policy, 3, |_| 0), [10, 10, 10]);
        for none in [RetryPolicy::none(), policy.max_attempts(0), policy.max_attempts(1)] {
            assert_eq!(pauses(none, 9, |_| 0), [0; 0]);
        }
    }

    #[test]
    fn timeout_rejects_pause_that_would_end_too_late() {
        let policy = RetryPolicy::fixed(10 * MS).timeout(35 * MS);
        assert_eq!(pauses(policy, 9, |_| 0), [10, 10, 10]);
        assert_eq!(pauses(policy.timeout(Duration::ZERO), 9, |_| 0), [0; 0]);
    }

    #[test]
    fn next_session_policy_has_growing_random_pauses() {
        let policy = RetryPolicy::until_session_end().max_attempts(9).for_next_session();
        assert_eq!(pauses(policy, 3, |_| 0), [100, 200, 400]);
        assert_eq!(pauses(policy, 3, |bound| bound - 1), [50, 100, 200]);
        assert_eq!(pauses(policy, 20, |_| 0).len(), 8, "the limit remains");
        let fixed = RetryPolicy::fixed(10 * MS);
        assert_eq!(fixed.for_next_session(), fixed);
    }

    #[test]
    fn zero_pause_is_raised_to_minimum() {
        for policy in [
            RetryPolicy::fixed(Duration::ZERO),
            RetryPolicy::exponential(Duration::ZERO, Duration::ZERO),
        ] {
            assert_eq!(policy.pause(1, |_| 0), RETRY_PAUSE_MIN);
        }
    }
}
