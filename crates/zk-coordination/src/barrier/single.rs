//! Barrier that one client sets and others wait for: Curator's `DistributedBarrier`.

use std::time::Duration;

use zk_recipes::session::{
    Acl, Client, Error, ErrorCode, EventType, ParentMode, PathError, Stat, Watch, validate_path,
};

use super::error::BarrierError;
use crate::create_acl::CreateAcl;
use crate::requests::{one_attempt, repeat, retry, unless, within};

/// A barrier that all waiting processes pass at once when it is removed: Curator's
/// `DistributedBarrier`, on the same node.
///
/// Any client may set and remove the barrier. The handle is cheap to clone.
///
/// # What it promises
/// * [`wait`](Self::wait) returns only if the barrier was not set at some moment during the call. A
///   barrier that was set before the call stops it, also on a server that lags. The exception is a
///   leader that has lost its followers: it answers from its old tree until it notices, after at most
///   its `syncLimit`.
/// * The removal wakes all waiters at once, over one event for each session.
/// * A wait that times out or is dropped leaves no watch behind, on the client or on the server.
/// * The barrier outlives the session that set it. It stays set until a client removes it.
///
/// # On the wire
/// The barrier is set while its node exists. The node is persistent, without data, and its parents
/// are containers. Curator ignores the data.
///
/// # What it costs
/// [`set`](Self::set) and [`remove`](Self::remove) send one request. [`wait`](Self::wait) sends two
/// in one write, `sync` and `exists` with a watch, and receives one event. If the barrier is not
/// set, the session removes the watch with one request more.
///
/// # What happens on loss
/// Waiters wait until the session reconnects or ends; the watch is set again after a reconnect. They
/// fail when their session ends. `set` and `remove` are repeated after a lost reply, so that another
/// client's `remove` or `set` during the call may come before or after it.
///
/// # Example
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_coordination::Barrier;
/// use zk_coordination::session::Client;
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let migration = Barrier::new(&client, "/barriers/migration")?;
/// migration.set().await?; // workers that call `wait` stop
/// println!("migrating");
/// migration.remove().await?; // and go on
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "DistributedBarrier")]
pub struct Barrier {
    client: Client,
    path: String,
    acl: CreateAcl,
}

impl Barrier {
    /// Creates a handle for the barrier at `path`. Sends no request.
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        validate_path(path)?;
        Ok(Self { client: client.clone(), path: path.to_owned(), acl: CreateAcl::default() })
    }

    /// Sets the access control list of the nodes that [`set`](Self::set) creates: of the barrier and
    /// of its missing parents. The default is open to everyone, as with Curator.
    ///
    /// A client that removes the barrier needs permission to delete children of the parent. A client
    /// that waits needs permission to read the barrier, if the servers are of 3.8.4, 3.9.2 or newer
    /// (ZOOKEEPER-2590).
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.acl = CreateAcl::new(acl);
        self
    }

    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Sets the barrier. Does nothing if it is set.
    ///
    /// # Errors
    /// Returns the error of a request that a retry does not help.
    ///
    /// # Cancel safety
    /// The barrier may or may not be set when the future is dropped, and parents may remain.
    pub async fn set(&self) -> Result<(), BarrierError> {
        let acl = self.acl.entries();
        let create = || {
            let node = self.client.create_builder(&self.path).acl(acl);
            node.parents(ParentMode::Containers).parents_acl(acl).create()
        };
        unless(ErrorCode::NODE_EXISTS, repeat(&self.client, create).await.reply)?;
        Ok(())
    }

    /// Removes the barrier, and wakes all waiters. Does nothing if it is not set.
    ///
    /// # Errors
    /// Returns the error of a request that a retry does not help, for example `NotEmpty` if the node
    /// has children.
    ///
    /// # Cancel safety
    /// The barrier may or may not be removed when the future is dropped.
    pub async fn remove(&self) -> Result<(), BarrierError> {
        let delete = || self.client.delete(&self.path, None);
        unless(ErrorCode::NO_NODE, repeat(&self.client, delete).await.reply)?;
        Ok(())
    }

    /// Returns true if the barrier is set. The server may lag behind other servers; see
    /// [`Client::sync`].
    ///
    /// # Errors
    /// Returns the error of a read that a retry does not help.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn is_set(&self) -> Result<bool, BarrierError> {
        Ok(retry(&self.client).exists(&self.path).await?.is_some())
    }

    /// Waits until the barrier is not set.
    ///
    /// # Errors
    /// Fails if the session ends, or if the server rejects a read.
    ///
    /// # Cancel safety
    /// Dropping the future removes the watch.
    pub async fn wait(&self) -> Result<(), BarrierError> {
        let retry = retry(&self.client);
        loop {
            let (stat, watch) = retry.run(|client| read_state(client.clone(), &self.path)).await?;
            if stat.is_none() || watch.await?.event_type == EventType::NODE_DELETED {
                return Ok(());
            }
        }
    }

    /// Waits until the barrier is not set, for at most `timeout`. Returns false after that time. A
    /// timeout of zero reads the barrier once: it waits for the replies of a server that answers, and
    /// not for a connection.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    ///
    /// # Cancel safety
    /// As [`wait`](Self::wait).
    pub async fn wait_timeout(&self, timeout: Duration) -> Result<bool, BarrierError> {
        if timeout.is_zero() {
            return one_attempt(&self.client, self.is_open()).await.unwrap_or(Ok(false));
        }
        let waited = within(&self.client, timeout, self.wait()).await;
        waited.map_or(Ok(false), |waited| waited.map(|()| true))
    }

    /// Returns true if the barrier is not set. A server that lags cannot hide a barrier that was set
    /// before.
    async fn is_open(&self) -> Result<bool, BarrierError> {
        let read = |client: &Client| read_state(client.clone(), &self.path);
        let (stat, _watch) = retry(&self.client).run(read).await?;
        Ok(stat.is_none())
    }
}

/// Reads the state of a barrier after a `sync`, so that a server that lags cannot hide a barrier that
/// was set before.
async fn read_state(client: Client, path: &str) -> Result<(Option<Stat>, Watch), Error> {
    let (synced, found) = {
        let _one_write = client.batch();
        (client.sync(path), client.exists_and_watch(path))
    };
    synced.await?;
    found.await
}
