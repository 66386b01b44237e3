//! Values that many processes read and change: Curator's `SharedValue` and `SharedCount`, on the
//! same nodes.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_recipes::SharedCount;
//! use zk_recipes::session::Client;
//!
//! let client = Client::connect("127.0.0.1:2181").await?;
//! let limit = SharedCount::new(&client, "/limits/workers", 10)?;
//! let mut now = limit.get().await?;
//! while limit.try_set(&now, now.count() + 1).await?.is_none() {
//!     now = limit.get().await?; // somebody was faster
//! }
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;

use bytes::Bytes;
use zk_session::{
    Acl, Client, Error, ErrorCode, NodeData, OPEN_ACL_UNSAFE, ParentMode, PathError, Stat, Zxid,
};

use crate::error::LockError;
use crate::retry::{if_exists, retry, retry_if_unknown};

/// A shared value in its own node: Curator's `SharedValue`. A missing node is created with a seed
/// on first use.
///
/// It has no background task and no cache. [`get`](Self::get) reads from the server, and
/// [`changed`](Self::changed) waits for a newer value.
#[derive(Clone, Debug)]
pub struct SharedValue {
    client: Client,
    path: String,
    seed: Bytes,
    /// The list of the nodes that the handle creates; `None` if it is open to everyone.
    acl: Option<Arc<[Acl]>>,
}

/// A value with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedValue {
    value: Bytes,
    stat: Stat,
}

impl VersionedValue {
    /// Returns the value.
    #[must_use]
    pub fn value(&self) -> &Bytes {
        &self.value
    }

    /// Returns the number of the transaction that set the value. It grows with each value, even
    /// when the node is deleted and created again. The version of the node does not (CURATOR-688).
    #[must_use]
    pub fn zxid(&self) -> Zxid {
        self.stat.mzxid
    }
}

impl SharedValue {
    /// Creates a handle for the value at `path`. Sends no request. A missing node is created with
    /// `seed` on first use.
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str, seed: impl AsRef<[u8]>) -> Result<Self, PathError> {
        zk_session::validate_path(path)?;
        let (client, path) = (client.clone(), path.to_owned());
        Ok(Self { client, path, seed: Bytes::copy_from_slice(seed.as_ref()), acl: None })
    }

    /// Sets the access control list of the nodes that this handle creates: of the value and of its
    /// missing parents. The default is open to everyone, as with Curator.
    ///
    /// Each client needs permission to read and write the value.
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.acl = Some(acl.into().into());
        self
    }

    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Reads the value, and creates the node if it does not exist. The server may lag behind other
    /// servers; see [`Client::sync`].
    ///
    /// # Errors
    /// Returns the error of a request that a retry does not help.
    ///
    /// # Cancel safety
    /// Dropping the future may leave the node created, and changes nothing else.
    pub async fn get(&self) -> Result<VersionedValue, LockError> {
        let node = self.with_node(|| self.client.get_data(&self.path)).await?;
        Ok(versioned(node))
    }

    /// Waits for a value newer than `before`. It may skip values in between, but not the newest
    /// one.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn changed(&self, before: &VersionedValue) -> Result<VersionedValue, LockError> {
        loop {
            let read = self.with_node(|| self.client.get_data_and_watch(&self.path));
            let (node, watch) = read.await?;
            // A server may lag behind the previous one, so only a newer value counts as a change.
            if node.stat.mzxid > before.stat.mzxid {
                return Ok(versioned(node));
            }
            drop(watch.await?);
        }
    }

    /// Sets the value unconditionally.
    ///
    /// # Errors
    /// As [`get`](Self::get). If the reply is lost with the connection, the error reports that the
    /// outcome is unknown: set the value again, or read it.
    ///
    /// # Cancel safety
    /// The value may or may not be set when the future is dropped.
    pub async fn set(&self, value: impl AsRef<[u8]>) -> Result<VersionedValue, LockError> {
        let value = Bytes::copy_from_slice(value.as_ref());
        let set = self.with_node(|| self.client.set_data(&self.path, &value, None));
        let stat = set.await?;
        Ok(VersionedValue { value, stat })
    }

    /// Sets the value if it has not changed since `before` was read. Returns `None` if another
    /// client changed it first.
    ///
    /// ZooKeeper compares only the version. If another client deletes the node and creates it
    /// again, the new node may have the version that was read. Then its value is overwritten. No
    /// ZooKeeper operation compares the creation of a node, so this cannot be prevented. The reply
    /// reveals it. To avoid it, never delete the node; set a value that stands for "no value"
    /// instead.
    ///
    /// Versions are 32-bit numbers, and a server takes -1 as any version. At version -1, after
    /// `2^32 - 1` changes, only [`set`](Self::set) can change the value.
    ///
    /// # Errors
    /// [`LockError::NodeRecreated`] if the value was set on another node than the one that was
    /// read; otherwise as [`set`](Self::set).
    ///
    /// # Cancel safety
    /// The value may or may not be set when the future is dropped.
    pub async fn try_set(
        &self,
        before: &VersionedValue,
        value: impl AsRef<[u8]>,
    ) -> Result<Option<VersionedValue>, LockError> {
        let (value, version) = (Bytes::copy_from_slice(value.as_ref()), before.stat.version);
        if version == -1 {
            return Ok(None);
        }
        let set = retry(&self.client, || self.client.set_data(&self.path, &value, Some(version)));
        match set.await {
            Ok(stat) if stat.czxid != before.stat.czxid => {
                Err(LockError::NodeRecreated { path: self.path.clone() })
            }
            Ok(stat) => Ok(Some(VersionedValue { value, stat })),
            Err(error) => match error.code() {
                Some(ErrorCode::BAD_VERSION | ErrorCode::NO_NODE) => Ok(None),
                _ => Err(error.into()),
            },
        }
    }

    /// Sends a request, and creates the node first if it does not exist.
    async fn with_node<T, F>(&self, mut request: impl FnMut() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        loop {
            match if_exists(retry(&self.client, &mut request).await)? {
                Some(answer) => return Ok(answer),
                // On the heap, because it is rare; this keeps the futures of waiters small.
                None => Box::pin(self.make()).await?,
            }
        }
    }

    /// Creates the node and its missing parents.
    async fn make(&self) -> Result<(), Error> {
        let acl = self.acl.as_deref().unwrap_or(OPEN_ACL_UNSAFE);
        let create = || {
            let node = self.client.create_builder(&self.path).data(&self.seed).acl(acl);
            node.parents(ParentMode::Containers).parents_acl(acl).create()
        };
        // Repeating the creation does no harm.
        match retry_if_unknown(&self.client, create).await {
            Err(error) if error.is_node_exists() => Ok(()),
            created => created.map(drop),
        }
    }
}

fn versioned(NodeData { data, stat, .. }: NodeData) -> VersionedValue {
    VersionedValue { value: data, stat }
}
