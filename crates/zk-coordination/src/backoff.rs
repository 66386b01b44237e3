//! Pauses between attempts.

use std::time::Duration;

use zk_recipes::session::Client;

use crate::limits::{
    BACKOFF_FIRST, BACKOFF_MAX, CONFLICT_PAUSE, CONFLICT_PAUSE_MAX, REPEAT_PAUSE, REPEAT_PAUSE_MAX,
};

/// Pauses that double up to a limit. Each is shortened at random by up to half, so that clients that
/// fail together do not try again together. It is the rule of
/// [`RetryPolicy::exponential`](zk_recipes::session::RetryPolicy::exponential).
#[derive(Debug)]
pub(crate) struct Backoff {
    client: Client,
    first: Duration,
    step: Duration,
    cap: Duration,
}

impl Backoff {
    /// Returns the pauses before a request is repeated.
    pub(crate) fn of_requests(client: &Client) -> Self {
        Self::new(client, REPEAT_PAUSE, REPEAT_PAUSE_MAX)
    }

    /// Returns the pauses after conflicts with other clients.
    pub(crate) fn of_conflicts(client: &Client) -> Self {
        Self::new(client, CONFLICT_PAUSE, CONFLICT_PAUSE_MAX)
    }

    /// Returns the pauses of a background task, whose requests may be rejected for hours.
    pub(crate) fn of_tasks(client: &Client) -> Self {
        Self::new(client, BACKOFF_FIRST, BACKOFF_MAX)
    }

    fn new(client: &Client, first: Duration, cap: Duration) -> Self {
        Self { client: client.clone(), first, step: first, cap }
    }

    /// Waits for the next pause.
    pub(crate) async fn pause(&mut self) {
        let pause = shortened(self.step, self.random_part());
        self.step = self.step.saturating_mul(2).min(self.cap);
        // On the heap, because it is rare; this keeps the futures of callers small.
        Box::pin(self.client.sleep(pause)).await;
    }

    /// Starts again with the first pause.
    pub(crate) fn reset(&mut self) {
        self.step = self.first;
    }

    /// Returns a random number of at least 0 and less than 1.
    fn random_part(&self) -> f64 {
        let uuid = self.client.random_uuid();
        let digits = uuid.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        f64::from(digits.unwrap_or_default()) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Returns a pause between half of the step and the whole step.
fn shortened(step: Duration, random_part: f64) -> Duration {
    let half = step / 2;
    half + half.mul_f64(random_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_is_at_least_half_of_its_step() {
        let step = BACKOFF_MAX;
        assert_eq!(shortened(step, 0.0), step / 2);
        assert_eq!(shortened(step, 0.5), step / 4 * 3);
        assert!(shortened(step, 0.999_999) < step);
    }
}
