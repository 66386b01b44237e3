//! Instances of a service, kept up to date.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use zk_coordination::session::SessionManager;
use zk_coordination::{Cache, CacheError, CacheStatus, CachedNode, Snapshot};

use crate::error::DiscoveryError;
use crate::instance::{InstanceError, ServiceInstance};
use crate::paths::service_path;

/// The instances of a service in memory, which follow the changes on the servers over any number of
/// sessions: Curator's `ServiceCache`.
///
/// Clones are cheap and share the instances.
///
/// # What it promises
/// * [`Discovery::cache`](crate::Discovery::cache) returns it with all instances. In some versions
///   of Curator it is empty at first (CURATOR-705).
/// * A node whose data is not an instance is left out and [reported](Instances::rejected). In
///   Curator, the listener fails with it.
/// * [`instances`](Self::instances) sends no request. Each node is parsed once for each change.
///
/// The other promises are those of [`Cache`], which is available as [`cache`](Self::cache).
///
/// # On the wire
/// It reads the children of `<base>/<name>`, which need not exist, and writes nothing. It needs
/// ZooKeeper 3.6 or newer.
///
/// # What it costs
/// As a [`Cache`] of children: one watch, three requests and one for each 64 instances at the start,
/// one read for each change, and its [checks](Cache#what-the-server-does-not-report).
///
/// # What happens on loss
/// When the connection is lost, the instances stay as they are, and the [`Cache::status`] is stale.
/// After the reconnect, or on the next session, the instances are read again.
///
/// # Example
/// ```no_run
/// # async fn example(discovery: zk_discovery::Discovery) -> Result<(), zk_discovery::DiscoveryError> {
/// let cache = discovery.cache("web").await?;
/// let mut instances = cache.instances();
/// loop {
///     for instance in instances.iter() {
///         println!("{} {:?}:{:?}", instance.id(), instance.address(), instance.port());
///     }
///     for rejection in instances.rejected() {
///         eprintln!("{rejection}");
///     }
///     instances = cache.changed(&instances).await?;
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct ServiceCache {
    cache: Cache,
    latest: Arc<Mutex<Latest>>,
}

/// The instances of the latest snapshot.
struct Latest {
    snapshot: Arc<Snapshot>,
    nodes: Vec<ParsedNode>,
    instances: Arc<Instances>,
}

/// Node with the instance that its data describes.
#[derive(Clone)]
struct ParsedNode {
    node: Arc<CachedNode>,
    instance: Result<Arc<ServiceInstance>, InstanceError>,
}

impl ServiceCache {
    pub(crate) async fn open(
        sessions: &SessionManager,
        base: &str,
        name: &str,
    ) -> Result<Self, DiscoveryError> {
        let path = service_path(base, name)?;
        let cache = Cache::children(sessions, &path).open().await?;
        let latest = Latest::new(cache.snapshot(), &[]);
        Ok(Self { cache, latest: Arc::new(Mutex::new(latest)) })
    }

    /// Returns the instances now, in the order of their nodes' names.
    ///
    /// After a change, the first call parses the changed nodes.
    #[must_use]
    pub fn instances(&self) -> Arc<Instances> {
        // No user code and no await under this lock.
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let snapshot = self.cache.snapshot();
        if !Arc::ptr_eq(&latest.snapshot, &snapshot) {
            *latest = Latest::new(snapshot, &latest.nodes);
        }
        Arc::clone(&latest.instances)
    }

    /// Waits until the instances differ from the given ones, and returns them. It may skip states
    /// in between, but not the newest one.
    ///
    /// # Errors
    /// [`DiscoveryError::Cache`] if the cache has stopped.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn changed(&self, before: &Instances) -> Result<Arc<Instances>, DiscoveryError> {
        let mut changes = self.cache.changes();
        loop {
            let instances = self.instances();
            if *instances != *before {
                return Ok(instances);
            }
            if changes.next().await.is_none() {
                return Err(match self.cache.status() {
                    CacheStatus::Stopped(error) => error,
                    _ => CacheError::TaskEnded,
                }
                .into());
            }
        }
    }

    /// Returns the cache of the nodes: for the status, and for a stream of changes.
    #[must_use]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }
}

impl fmt::Debug for ServiceCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceCache")
            .field("path", &self.cache.snapshot().root())
            .field("status", &self.cache.status())
            .finish_non_exhaustive()
    }
}

impl Latest {
    /// Parses the nodes of a snapshot that are not among the earlier ones.
    fn new(snapshot: Arc<Snapshot>, earlier: &[ParsedNode]) -> Self {
        let earlier: HashMap<&str, &ParsedNode> =
            earlier.iter().map(|parsed| (parsed.node.path(), parsed)).collect();
        let parsed = |node: &Arc<CachedNode>| match earlier.get(node.path()) {
            Some(parsed) if Arc::ptr_eq(&parsed.node, node) => ParsedNode::clone(parsed),
            _ => ParsedNode::new(node),
        };
        let nodes: Vec<_> = snapshot.children(snapshot.root()).map(parsed).collect();
        let instances = Arc::new(Instances::new(&nodes, &snapshot));
        Self { snapshot, nodes, instances }
    }
}

impl ParsedNode {
    fn new(node: &Arc<CachedNode>) -> Self {
        let instance = ServiceInstance::from_json(node.data()).map(Arc::new);
        Self { node: Arc::clone(node), instance }
    }
}

/// The instances of a service at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instances {
    instances: Vec<Arc<ServiceInstance>>,
    rejected: Vec<Rejection>,
}

/// Node below a service that is not an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rejection {
    /// The data of the node is not an instance.
    Invalid {
        /// Path of the node.
        path: String,
        /// The fault in the data.
        error: InstanceError,
    },
    /// The client may not read the node. The cache reads it again now and then, until it is readable or
    /// deleted.
    Unreadable {
        /// Path of the node.
        path: String,
    },
}

impl Instances {
    fn new(nodes: &[ParsedNode], snapshot: &Snapshot) -> Self {
        let mut this = Self::default();
        for ParsedNode { node, instance } in nodes {
            match instance {
                Ok(instance) => this.instances.push(Arc::clone(instance)),
                Err(error) => this.rejected.push(Rejection::Invalid {
                    path: node.path().to_owned(),
                    error: error.clone(),
                }),
            }
        }
        let unreadable = snapshot.unreadable().map(str::to_owned);
        this.rejected.extend(unreadable.map(|path| Rejection::Unreadable { path }));
        this
    }

    /// Iterates over the instances, in the order of their nodes' names.
    pub fn iter(&self) -> std::slice::Iter<'_, Arc<ServiceInstance>> {
        self.instances.iter()
    }

    /// Returns the instances, in the order of their nodes' names.
    #[must_use]
    pub fn as_slice(&self) -> &[Arc<ServiceInstance>] {
        &self.instances
    }

    /// Returns the first instance with an id.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<&Arc<ServiceInstance>> {
        self.iter().find(|instance| instance.id() == id)
    }

    /// Returns the number of instances.
    #[must_use]
    pub fn len(&self) -> usize {
        self.instances.len()
    }

    /// Returns true if there is no instance.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.instances.is_empty()
    }

    /// Returns the nodes that are not instances.
    #[must_use]
    pub fn rejected(&self) -> &[Rejection] {
        &self.rejected
    }
}

impl<'a> IntoIterator for &'a Instances {
    type Item = &'a Arc<ServiceInstance>;
    type IntoIter = std::slice::Iter<'a, Arc<ServiceInstance>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Rejection {
    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        match self {
            Self::Invalid { path, .. } | Self::Unreadable { path } => path,
        }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { path, error } => write!(f, "{path} is ignored: {error}"),
            Self::Unreadable { path } => {
                write!(f, "{path} is ignored: this client may not read the node")
            }
        }
    }
}
