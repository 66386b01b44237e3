//! Instances that have failed: Curator's `DownInstanceManager`.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::instance::{Identity, ServiceInstance};
use crate::limits::DOWN_ERRORS_MAX;

/// Errors of instances. An instance is forgotten when its latest error is old.
pub(super) struct Failures {
    /// Errors within `time` that mean that an instance is down.
    errors_max: usize,
    time: Duration,
    /// Times of the latest errors, at most `errors_max` for each instance.
    noted: Mutex<HashMap<Identity, VecDeque<Instant>>>,
}

impl Failures {
    pub(super) fn new(errors: u32, time: Duration) -> Self {
        let errors = errors.clamp(1, DOWN_ERRORS_MAX);
        let errors_max = usize::try_from(errors).unwrap_or(usize::MAX);
        Self { errors_max, time, noted: Mutex::default() }
    }

    pub(super) fn note(&self, instance: &ServiceInstance) {
        let now = now();
        let mut noted = self.lock();
        noted.retain(|_, times| times.back().is_some_and(|time| now - *time < self.time));
        let times = noted.entry(instance.identity()).or_default();
        if times.len() == self.errors_max {
            times.pop_front();
        }
        times.push_back(now);
    }

    pub(super) fn without_down(
        &self,
        instances: &[Arc<ServiceInstance>],
    ) -> Vec<Arc<ServiceInstance>> {
        let noted = self.lock();
        if noted.is_empty() {
            return instances.to_vec();
        }
        let now = now();
        let is_down = |instance: &ServiceInstance| {
            let Some(times) = noted.get(&instance.identity()) else { return false };
            let is_recent = times.front().is_some_and(|time| now - *time < self.time);
            times.len() == self.errors_max && is_recent
        };
        instances.iter().filter(|instance| !is_down(instance)).cloned().collect()
    }

    /// Locks the errors for a short time. No user code runs under this lock.
    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, VecDeque<Instant>>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[allow(clippy::disallowed_methods, reason = "the one place where this crate reads this clock")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn old_errors_use_no_memory() {
        let failures = Failures::new(2, Duration::from_secs(30));
        for id in ["a", "b"] {
            failures.note(&ServiceInstance::new("web").with_id(id));
            // reason: virtual time, after which the error is old
            tokio::time::sleep(Duration::from_secs(30)).await;
        }
        assert_eq!(failures.lock().len(), 1);
    }
}
