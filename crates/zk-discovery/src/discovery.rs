//! Entry point: services below one base path.

use std::sync::Arc;

use zk_coordination::PersistentNodeBuilder;
use zk_coordination::session::{
    Client, Error, ErrorKind, RetryPolicy, SessionManager, validate_path,
};

use crate::error::DiscoveryError;
use crate::instance::ServiceInstance;
use crate::limits::{RETRY_FIRST, RETRY_MAX};
use crate::provider::Provider;
use crate::registration::Registration;
use crate::service_cache::{Instances, ServiceCache};

/// The services below a base path: Curator's `ServiceDiscovery`.
///
/// It is a handle without state. Clones are cheap.
///
/// # What it promises
/// Instances that are registered here are found by Curator, and the other way round. See
/// [`Registration`], [`ServiceCache`] and [`Provider`].
///
/// # On the wire
/// `<base>/<name of the service>/<id of the instance>`, with the JSON of a [`ServiceInstance`].
///
/// # What it costs
/// The handle costs nothing. See its methods.
///
/// # What happens on loss
/// Registrations and caches continue on the next connection, and on the next session.
/// [`names`](Self::names) waits for them.
///
/// # Example
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_discovery::session::{Config, SessionManager};
/// use zk_discovery::{Discovery, ServiceInstance};
///
/// let sessions = SessionManager::connect(Config::new("zk1:2181,zk2:2181,zk3:2181")?).await?;
/// let discovery = Discovery::new(&sessions, "/services")?;
/// let _registered = discovery.register(ServiceInstance::new("web").with_port(8080))?;
///
/// let stock = discovery.provider("stock").await?;
/// if let Some(instance) = stock.instance() {
///     println!("{}", instance.uri());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Discovery {
    sessions: SessionManager,
    base: String,
}

impl Discovery {
    /// Creates a handle for the services below `base`. Sends no request.
    ///
    /// # Errors
    /// Returns an error if `base` is not a valid ZooKeeper path.
    pub fn new(sessions: &SessionManager, base: &str) -> Result<Self, DiscoveryError> {
        validate_path(base)?;
        Ok(Self { sessions: sessions.clone(), base: base.to_owned() })
    }

    /// Returns the base path.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Starts to register an instance, in the background. The ensemble need not be reachable
    /// (CURATOR-175).
    ///
    /// # Errors
    /// The name or the id of the instance is invalid, or its JSON is larger than a server accepts.
    /// Failed requests are repeated; see [`Registration::state`].
    pub fn register(&self, instance: ServiceInstance) -> Result<Registration, DiscoveryError> {
        self.register_with(instance, |node| node)
    }

    /// Starts to register an instance with options of its node, for example an
    /// [access control list](PersistentNodeBuilder::acl), or the
    /// [session](PersistentNodeBuilder::previous_session) of an earlier run of this program. The
    /// mode and the data of the node cannot be changed.
    ///
    /// # Errors
    /// As [`register`](Self::register).
    pub fn register_with(
        &self,
        instance: ServiceInstance,
        options: impl for<'a> FnOnce(PersistentNodeBuilder<'a>) -> PersistentNodeBuilder<'a>,
    ) -> Result<Registration, DiscoveryError> {
        Registration::start(&self.sessions, &self.base, instance, options)
    }

    /// Lists the names of the services, in alphabetical order. A service may have no instances any
    /// more: the server removes its node a minute or two later.
    ///
    /// Costs one request. Waits over lost connections and ended sessions.
    ///
    /// # Errors
    /// The server rejects the request, or the session manager has stopped.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn names(&self) -> Result<Vec<String>, DiscoveryError> {
        loop {
            let client = self.sessions.open_client().await?;
            match self.list(&client).await {
                Err(error) if matches!(error.kind(), ErrorKind::SessionEnded(_)) => {}
                listed => return Ok(listed?),
            }
        }
    }

    /// Reads the instances of a service once.
    ///
    /// Costs a [`cache`](Self::cache) for the time of the call. To ask again, keep the cache.
    ///
    /// # Errors
    /// As [`cache`](Self::cache).
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind.
    pub async fn instances(&self, name: &str) -> Result<Arc<Instances>, DiscoveryError> {
        Ok(self.cache(name).await?.instances())
    }

    /// Opens a cache of the instances of a service, and waits until it has all of them.
    ///
    /// # Errors
    /// The name is invalid, or the cache cannot start; see
    /// [`CacheBuilder::open`](zk_coordination::CacheBuilder::open).
    ///
    /// # Cancel safety
    /// Dropping the future ends the cache.
    pub async fn cache(&self, name: &str) -> Result<ServiceCache, DiscoveryError> {
        ServiceCache::open(&self.sessions, &self.base, name).await
    }

    /// Opens a provider that chooses among the instances of a service, in turn.
    ///
    /// # Errors
    /// As [`cache`](Self::cache).
    ///
    /// # Cancel safety
    /// Dropping the future ends the cache.
    pub async fn provider(&self, name: &str) -> Result<Provider, DiscoveryError> {
        Ok(Provider::new(self.cache(name).await?))
    }

    async fn list(&self, client: &Client) -> Result<Vec<String>, Error> {
        let policy = RetryPolicy::exponential(RETRY_FIRST, RETRY_MAX);
        match client.retry(policy).get_children(&self.base).await {
            Ok(children) => {
                let mut names: Vec<_> =
                    children.names.names().map(|name| name.into_owned()).collect();
                names.sort_unstable();
                Ok(names)
            }
            Err(error) if error.is_no_node() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}
