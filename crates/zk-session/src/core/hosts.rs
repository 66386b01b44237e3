//! Which server to try next, and when.

use std::time::Duration;

use super::rng::Rng;
use crate::connect_string::Host;
use crate::limits::{BACKOFF_MAX, BACKOFF_STEP};

/// The servers in an order drawn once, so that a thousand clients with the same
/// connect string do not all go to the first of it; and the back-off between
/// attempts.
#[derive(Debug)]
pub(super) struct Hosts {
    hosts: Vec<Host>,
    current: usize,
    failures: u32,
}

impl Hosts {
    /// `hosts` must not be empty; the connect string's parser sees to that.
    pub(super) fn new(mut hosts: Vec<Host>, rng: &mut Rng) -> Self {
        for last in (1..hosts.len()).rev() {
            let bound = u64::try_from(last + 1).unwrap_or(u64::MAX);
            hosts.swap(last, usize::try_from(rng.below(bound)).unwrap_or(0));
        }
        Self { hosts, current: 0, failures: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.hosts.len()
    }

    pub(super) fn current(&self) -> &Host {
        &self.hosts[self.current]
    }

    /// The current host has served for a while.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Gives up on the current host and says how long to wait for the next one.
    ///
    /// The pause is drawn below a step that doubles with each failure in a row,
    /// and is never longer than [`BACKOFF_MAX`]: a server that is behind accepts
    /// and closes at once, over and over, and must not be hammered.
    pub(super) fn failed(&mut self, rng: &mut Rng) -> Duration {
        self.current = (self.current + 1) % self.hosts.len();
        #[cfg(zk_planted)] // no back-off
        if crate::planted::active(crate::planted::Planted::SpinOnReconnect) {
            return Duration::from_millis(1);
        }
        let step = BACKOFF_STEP.saturating_mul(1 << self.failures.min(16)).min(BACKOFF_MAX);
        self.failures = self.failures.saturating_add(1);
        Duration::from_micros(rng.below(u64::try_from(step.as_micros()).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(n: u16, seed: u128) -> Hosts {
        let list = (0..n).map(|port| Host::new("h", port)).collect();
        Hosts::new(list, &mut Rng::new(seed))
    }

    #[test]
    fn every_host_comes_up_once_a_lap_in_an_order_the_seed_decides() {
        let lap = |seed| {
            let (mut hosts, mut rng) = (hosts(5, seed), Rng::new(0));
            let ports: Vec<u16> = (0..5)
                .map(|_| {
                    let port = hosts.current().port();
                    hosts.failed(&mut rng);
                    port
                })
                .collect();
            ports
        };
        let mut sorted = lap(1);
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4]);
        assert_eq!(lap(1), lap(1));
        assert!((2..20).any(|seed| lap(seed) != lap(1)));
    }

    #[test]
    fn the_back_off_grows_to_its_cap_and_starts_afresh_after_a_success() {
        let (mut hosts, mut rng) = (hosts(2, 3), Rng::new(3));
        assert!(hosts.failed(&mut rng) < BACKOFF_STEP);
        let pauses: Vec<Duration> = (0..200).map(|_| hosts.failed(&mut rng)).collect();
        assert!(pauses.iter().all(|pause| *pause < BACKOFF_MAX));
        let mean = pauses[20..].iter().sum::<Duration>() / 180;
        assert!(mean > BACKOFF_MAX / 3, "{mean:?}: drawn over the whole step");
        hosts.succeeded();
        assert!(hosts.failed(&mut rng) < BACKOFF_STEP);
    }
}
