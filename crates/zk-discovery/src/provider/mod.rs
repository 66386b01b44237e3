//! Choice of an instance.

mod failures;
mod strategy;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use self::failures::Failures;
use crate::instance::ServiceInstance;
use crate::limits::{DOWN_ERRORS, DOWN_TIME};
use crate::service_cache::ServiceCache;

pub use self::strategy::{ProviderStrategy, Random, RoundRobin, Sticky};

/// Chooses among the instances of a service: Curator's `ServiceProvider`.
///
/// # What it promises
/// * [`instance`](Self::instance) returns an instance that was registered at the last change that
///   the [`ServiceCache`] has seen.
/// * It never returns an instance that is [disabled](ServiceInstance::is_enabled), that a
///   [filter](Self::with_filter) rejects, or that is [down](Self::note_error).
///
/// # On the wire
/// Nothing. Errors that are noted here are not visible to other processes.
///
/// # What it costs
/// No request. A call looks at each instance of the service.
///
/// # What happens on loss
/// While the [`ServiceCache`] is disconnected, it keeps the last instances that it has seen, and the
/// provider chooses among these.
///
/// # Example
/// ```no_run
/// # async fn example(
/// #     discovery: zk_discovery::Discovery,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use zk_discovery::Random;
///
/// let stock = discovery.provider("stock").await?;
/// let stock = stock.with_strategy(Random::new()).with_filter(|instance| instance.payload()["zone"] == "eu");
/// let instance = stock.instance().ok_or("no instance of the service is up")?;
/// if request(&instance.uri()).await.is_err() {
///     stock.note_error(&instance);
/// }
/// # Ok(())
/// # }
/// # async fn request(uri: &str) -> Result<(), ()> { drop(uri); Ok(()) }
/// ```
pub struct Provider {
    cache: ServiceCache,
    strategy: Box<dyn ProviderStrategy>,
    filters: Vec<Box<Filter>>,
    failures: Failures,
}

type Filter = dyn Fn(&ServiceInstance) -> bool + Send + Sync;

impl Provider {
    /// Creates a provider that returns the instances of a cache in turn.
    #[must_use]
    pub fn new(cache: ServiceCache) -> Self {
        Self {
            cache,
            strategy: Box::new(RoundRobin::new()),
            filters: Vec::new(),
            failures: Failures::new(DOWN_ERRORS, DOWN_TIME),
        }
    }

    /// Sets the strategy. The default is [`RoundRobin`].
    #[must_use]
    pub fn with_strategy(self, strategy: impl ProviderStrategy + 'static) -> Self {
        Self { strategy: Box::new(strategy), ..self }
    }

    /// Adds a filter. Only the instances that all filters accept are returned.
    #[must_use]
    pub fn with_filter(
        mut self,
        accepts: impl Fn(&ServiceInstance) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.filters.push(Box::new(accepts));
        self
    }

    /// Sets how many errors within which time mean that an instance is [down](Self::note_error). The
    /// default is Curator's: [`DOWN_ERRORS`] within [`DOWN_TIME`]. The number is at least 1, and at
    /// most [`DOWN_ERRORS_MAX`](crate::limits::DOWN_ERRORS_MAX).
    #[must_use]
    pub fn with_down_after(self, errors: u32, time: Duration) -> Self {
        Self { failures: Failures::new(errors, time), ..self }
    }

    /// Chooses an instance for a single use. Returns `None` if there is none to be used.
    #[must_use]
    pub fn instance(&self) -> Option<Arc<ServiceInstance>> {
        self.strategy.choose(&self.instances())
    }

    /// Returns the instances to choose from.
    #[must_use]
    pub fn instances(&self) -> Vec<Arc<ServiceInstance>> {
        let all = self.cache.instances();
        let up = self.failures.without_down(all.as_slice());
        let is_wanted = |instance: &ServiceInstance| {
            instance.is_enabled() && self.filters.iter().all(|accepts| accepts(instance))
        };
        up.into_iter().filter(|instance| is_wanted(instance)).collect()
    }

    /// Notes that an instance has failed.
    ///
    /// An instance is down while it has had two errors in the last 30 seconds, or the numbers of
    /// [`with_down_after`](Self::with_down_after). Errors still count after an update of the
    /// payload. They do not count any more when the instance has restarted.
    pub fn note_error(&self, instance: &ServiceInstance) {
        self.failures.note(instance);
    }

    /// Returns the cache of the instances.
    #[must_use]
    pub fn cache(&self) -> &ServiceCache {
        &self.cache
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("cache", &self.cache)
            .field("strategy", &self.strategy)
            .field("filters", &self.filters.len())
            .finish_non_exhaustive()
    }
}
