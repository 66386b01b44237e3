//! Strategies of a provider.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::instance::{Identity, ServiceInstance};

/// Chooses one of several instances: Curator's `ProviderStrategy`.
pub trait ProviderStrategy: fmt::Debug + Send + Sync {
    /// Returns one of the instances, or `None` if there are none.
    ///
    /// The instances are in the order of their nodes' names. The call must not block.
    fn choose(&self, instances: &[Arc<ServiceInstance>]) -> Option<Arc<ServiceInstance>>;
}

/// Returns the instances in turn: Curator's `RoundRobinStrategy`.
///
/// When an instance is added or removed, one of the others may be left out of a round, or may be
/// returned twice in it.
#[derive(Debug, Default)]
pub struct RoundRobin {
    next: AtomicUsize,
}

impl RoundRobin {
    /// Creates a strategy that starts with the first instance.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl ProviderStrategy for RoundRobin {
    fn choose(&self, instances: &[Arc<ServiceInstance>]) -> Option<Arc<ServiceInstance>> {
        let turn = self.next.fetch_add(1, Relaxed);
        instances.get(turn.checked_rem(instances.len())?).cloned()
    }
}

/// Returns a random instance: Curator's `RandomStrategy`.
pub struct Random {
    /// State of SplitMix64.
    state: AtomicU64,
}

impl Random {
    /// Creates a strategy with a random seed.
    #[must_use]
    pub fn new() -> Self {
        Self::with_seed(RandomState::new().hash_one(0))
    }

    /// Creates a strategy whose choices repeat with the same seed, for tests.
    #[must_use]
    pub fn with_seed(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    fn next(&self) -> u64 {
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.state.fetch_add(STEP, Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Default for Random {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Random").finish_non_exhaustive()
    }
}

impl ProviderStrategy for Random {
    fn choose(&self, instances: &[Arc<ServiceInstance>]) -> Option<Arc<ServiceInstance>> {
        let count = u64::try_from(instances.len()).ok()?;
        let index = self.next().checked_rem(count)?;
        instances.get(usize::try_from(index).ok()?).cloned()
    }
}

/// Returns the same instance as long as there is one, and then chooses another one: Curator's
/// `StickyStrategy`.
///
/// An update of the instance's payload does not change the choice. In Curator it does.
#[derive(Debug)]
pub struct Sticky<S> {
    strategy: S,
    chosen: Mutex<Option<Identity>>,
}

impl<S: ProviderStrategy> Sticky<S> {
    /// Creates a strategy that chooses with another one.
    #[must_use]
    pub fn new(strategy: S) -> Self {
        Self { strategy, chosen: Mutex::default() }
    }
}

impl<S: ProviderStrategy> ProviderStrategy for Sticky<S> {
    fn choose(&self, instances: &[Arc<ServiceInstance>]) -> Option<Arc<ServiceInstance>> {
        // Held during the choice, so that concurrent callers get one instance.
        let mut chosen = self.chosen.lock().unwrap_or_else(PoisonError::into_inner);
        let is_chosen =
            |instance: &&Arc<ServiceInstance>| chosen.as_ref() == Some(&instance.identity());
        if let Some(instance) = instances.iter().find(is_chosen) {
            return Some(Arc::clone(instance));
        }
        let instance = self.strategy.choose(instances);
        *chosen = instance.as_ref().map(|instance| instance.identity());
        instance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Curator's index is negative after `2^31` calls: `Math.abs` of the smallest number.
    #[test]
    fn round_robin_continues_after_the_largest_number() {
        let strategy = RoundRobin { next: AtomicUsize::new(usize::MAX) };
        let instances = ["a", "b"].map(|id| Arc::new(ServiceInstance::new("web").with_id(id)));
        let ids = [(); 3].map(|()| strategy.choose(&instances).unwrap().id().to_owned());
        assert_eq!(ids, ["b", "a", "b"]);
    }
}
