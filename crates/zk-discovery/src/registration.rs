//! An instance that is registered for as long as its handle exists.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use zk_coordination::session::SessionManager;
use zk_coordination::{
    NodeMode, NodeState, PersistentNode, PersistentNodeBuilder, PersistentNodeError,
};

use crate::error::DiscoveryError;
use crate::instance::{ServiceInstance, ServiceType};
use crate::paths::instance_path;

/// A registered instance: the registering half of Curator's `ServiceDiscovery`.
///
/// # What it promises
/// The promises of a [`PersistentNode`]:
///
/// * A dynamic instance is registered while this process is connected, on the current session. It
///   is registered again after a deletion, an outage, and the end of its session, always with the
///   latest data. Curator can register it again with old data (CURATOR-146).
/// * A reconnect changes nothing at the servers. Curator deletes the node and creates it again.
/// * A dynamic instance of another owner with the same name and id is reported as
///   [`NodeState::Conflict`], and not changed. Curator replaces it.
/// * After [`unregister`](Self::unregister), nothing registers the instance again.
///
/// A [`Static`](ServiceType::Static) or [`Permanent`](ServiceType::Permanent) instance has no owner:
/// registering it replaces the data of an existing one, as a restarted program does.
///
/// # On the wire
/// A node `<base>/<name>/<id>` with the JSON of the [`ServiceInstance`], as Curator's. Missing
/// parents are created as containers.
///
/// # What it costs
/// As a [`PersistentNode`]: two requests to register, three to update, three to unregister, and one
/// watch.
///
/// # What happens on loss
/// * The connection is lost: the instance stays registered until its session expires, and longer if
///   the connection comes back before.
/// * The session ends: a dynamic instance is missing until the next session has registered it.
/// * The process dies: a dynamic instance is gone when its session expires.
///
/// Dropping the handle unregisters the instance in the background.
///
/// # Example
/// ```no_run
/// # async fn example(
/// #     discovery: zk_discovery::Discovery,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
///
/// use zk_discovery::ServiceInstance;
///
/// let instance = ServiceInstance::new("web").with_address("10.0.0.7").with_port(8080);
/// let registration = discovery.register(instance.clone())?;
/// registration.wait_until_registered(Duration::from_secs(10)).await?;
/// // ... serve, and tell that this instance takes no more work:
/// registration.update(instance.disabled()).await?;
/// registration.unregister().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the handle unregisters the instance"]
pub struct Registration {
    path: String,
    state: watch::Receiver<NodeState>,
    current: Mutex<Current>,
}

/// The instance with its latest update, and its node.
struct Current {
    instance: ServiceInstance,
    /// `None` once the instance is to be unregistered.
    node: Option<PersistentNode>,
}

impl Registration {
    pub(crate) fn start(
        sessions: &SessionManager,
        base: &str,
        instance: ServiceInstance,
        options: impl for<'a> FnOnce(PersistentNodeBuilder<'a>) -> PersistentNodeBuilder<'a>,
    ) -> Result<Self, DiscoveryError> {
        let path = instance_path(base, instance.name(), instance.id())?;
        let node = options(PersistentNode::builder(sessions, &path))
            .mode(node_mode(instance.service_type()))
            .data(instance.to_json())
            .start()?;
        let state = node.subscribe();
        let current = Mutex::new(Current { instance, node: Some(node) });
        Ok(Self { path, state, current })
    }

    /// Returns the path of the instance. That of a
    /// [sequential](ServiceType::DynamicSequential) one is in its
    /// [state](NodeState::Present).
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the instance with its latest update.
    #[must_use]
    pub fn instance(&self) -> ServiceInstance {
        self.current().instance.clone()
    }

    /// Returns the present state.
    #[must_use]
    pub fn state(&self) -> NodeState {
        self.state.borrow().clone()
    }

    /// Subscribes to the states. A slow subscriber skips states, but not the last.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<NodeState> {
        self.state.clone()
    }

    /// Waits until the instance is registered.
    ///
    /// # Errors
    /// [`DiscoveryError::NotRegistered`] after `timeout`, or if the instance is being unregistered.
    /// Unless it is, the registration continues to work for it.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn wait_until_registered(&self, timeout: Duration) -> Result<(), DiscoveryError> {
        let present = self.current().node.as_ref().map(|node| node.wait_until_present(timeout));
        let Some(present) = present else { return Err(self.not_registered()) };
        match present.await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.rejected(&error)),
        }
    }

    /// Replaces the data of the instance, now and whenever it is registered again. Waits until the
    /// node has this data, or that of a later update.
    ///
    /// # Errors
    /// * [`DiscoveryError::OtherInstance`] if the name, the id or the type differ.
    /// * [`DiscoveryError::NotRegistered`] with
    ///   [`ErrorKind::TooLarge`](zk_coordination::session::ErrorKind::TooLarge) if the JSON is larger
    ///   than a server accepts. The instance stays registered as it is.
    /// * [`DiscoveryError::NotRegistered`] if the attempt was refused, or the node belongs to
    ///   another owner. The update is kept, and written as soon as possible.
    ///
    /// # Cancel safety
    /// The first poll stores the update. Dropping the future afterwards only ends the wait.
    pub async fn update(&self, instance: ServiceInstance) -> Result<(), DiscoveryError> {
        let written = {
            let mut current = self.current();
            if !is_same(&current.instance, &instance) {
                return Err(DiscoveryError::OtherInstance { path: self.path.clone() });
            }
            let Some(node) = &current.node else { return Err(self.not_registered()) };
            let json = instance.to_json();
            node.check_data(json.as_ref()).map_err(|error| self.rejected(&error))?;
            let written = node.set_data(json);
            current.instance = instance;
            written
        };
        written.await.map_err(|error| self.rejected(&error))
    }

    /// Unregisters the instance: deletes its node, and waits until a server has confirmed it. The
    /// deletion is repeated over reconnects, and over sessions.
    ///
    /// A second call waits for the same deletion. Curator forgets the instance when its first
    /// attempt fails, so that a second call does nothing (CURATOR-617).
    ///
    /// Without a connection, only the end of the session manager bounds the wait; bound it with a
    /// timeout of your own.
    ///
    /// # Errors
    /// [`DiscoveryError::NotUnregistered`] if the server rejects the deletion, or the session
    /// manager has stopped.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the deletion, once it was polled.
    pub async fn unregister(&self) -> Result<(), DiscoveryError> {
        let node = self.current().node.take();
        if let Some(node) = node {
            drop(node.close().await); // the state has the error
        }
        let mut state = self.state.clone();
        drop(state.wait_for(NodeState::is_closed).await);
        match &*state.borrow() {
            NodeState::Closed { error: Some(error) } | NodeState::Stopped { error } => {
                Err(DiscoveryError::NotUnregistered {
                    path: self.path.clone(),
                    error: error.clone(),
                })
            }
            _ => Ok(()),
        }
    }

    fn rejected(&self, error: &PersistentNodeError) -> DiscoveryError {
        DiscoveryError::NotRegistered { path: self.path.clone(), state: error.state().clone() }
    }

    fn not_registered(&self) -> DiscoveryError {
        let state = self.state.borrow().clone();
        DiscoveryError::NotRegistered { path: self.path.clone(), state }
    }

    /// Locks the state for a short time, never across an await.
    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("path", &self.path)
            .field("state", &*self.state.borrow())
            .finish_non_exhaustive()
    }
}

fn is_same(one: &ServiceInstance, other: &ServiceInstance) -> bool {
    (one.name(), one.id(), one.service_type()) == (other.name(), other.id(), other.service_type())
}

fn node_mode(service_type: ServiceType) -> NodeMode {
    match service_type {
        ServiceType::Dynamic => NodeMode::Ephemeral,
        ServiceType::DynamicSequential => NodeMode::EphemeralSequential,
        ServiceType::Static | ServiceType::Permanent => NodeMode::Persistent,
    }
}
