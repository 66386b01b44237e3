//! Atomic value of bytes: Curator's `DistributedAtomicValue`.

use bytes::Bytes;
use zk_recipes::Mutex;
use zk_recipes::session::{Acl, Client, ErrorCode, Outcome, PathError};

use super::contention::Promotion;
use super::error::AtomicError;
use super::node::{Missing, ValueNode};
use crate::create_acl::CreateAcl;
use crate::requests::{Repeated, repeat, retry, unless};

/// A value in its own node that many clients change at once: Curator's `DistributedAtomicValue`, on
/// the same node.
///
/// [`AtomicNumber`](crate::AtomicNumber) is the same for numbers. The handle has no background task
/// and no cache, and is cheap to clone.
///
/// # What it promises
/// * A change is applied **once or not at all**, also after a lost reply. The error of a failed call
///   says which ([`AtomicError::outcome`]).
/// * After a lost reply, the call repeats the request, which the server applies at most once. If the
///   data proves neither that an earlier attempt was applied nor the contrary, the outcome is
///   [`Unknown`](Outcome::Unknown). Curator repeats the whole change instead, and applies it twice.
/// * If other clients change the value first, the call starts again, after a random pause that
///   doubles. It fails after [`CONFLICTS_MAX`](crate::limits::CONFLICTS_MAX) conflicts.
/// * [`get`](Self::get) may lag behind changes of other clients; see [`Client::sync`].
///
/// # On the wire
/// The data of the node is the value. The node is persistent, and its parents are containers. A
/// missing node has the empty value.
///
/// # What it costs
/// A change sends two requests, a read and a write with the version that was read, in two round
/// trips. A conflict costs two more, and so does a result that changes nothing, which the client
/// verifies after a `sync`. The first change of a missing node sends one more request, and
/// one for each missing parent.
///
/// # What happens on loss
/// Without a connection, a call waits until the session reconnects or ends. If the session ends
/// before a write is answered, the outcome is unknown. Nothing is left behind.
///
/// If a client deletes the node and creates it again, the call may overwrite a value that it has not
/// read, and fails with [`AtomicError::NodeRecreated`].
///
/// # Example
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use zk_coordination::AtomicValue;
/// use zk_coordination::session::Client;
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let owner = AtomicValue::new(&client, "/shards/7/owner")?;
/// if owner.initialize("worker-3").await? {
///     println!("shard 7 had no owner");
/// } else if owner.compare_and_set(b"worker-2", "worker-3").await? {
///     println!("worker 2 was the owner");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "DistributedAtomicValue")]
pub struct AtomicValue {
    pub(super) node: ValueNode,
}

impl AtomicValue {
    /// Creates a handle for the value at `path`. Sends no request.
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Self::with_zero(client, path, Bytes::new())
    }

    /// As [`new`](Self::new), for a value that is `zero` if the node does not exist.
    pub(super) fn with_zero(client: &Client, path: &str, zero: Bytes) -> Result<Self, PathError> {
        Ok(Self { node: ValueNode::new(client, path, zero)? })
    }

    /// Returns a handle whose changes acquire a lock after a number of conflicts: Curator's
    /// `PromotedToLock`. See [`AtomicNumber::promote_to_lock`](crate::AtomicNumber::promote_to_lock).
    ///
    /// # Errors
    /// Returns an error if `lock_path` is not a valid ZooKeeper path.
    pub fn promote_to_lock(mut self, lock_path: &str, after: u32) -> Result<Self, PathError> {
        let lock = Mutex::new(&self.node.client, lock_path)?;
        let lock = lock.with_acl(self.node.acl.entries());
        self.node.promotion = Some(Promotion { lock, after: after.max(1) });
        Ok(self)
    }

    /// Sets the access control list of all nodes that this handle creates: of the value, its missing
    /// parents, and the lock of contended changes. The default is open to everyone, as with Curator.
    ///
    /// Each client needs permission to read and write the value, and to create its node.
    #[must_use]
    pub fn with_acl(mut self, acl: impl Into<Vec<Acl>>) -> Self {
        self.node.acl = CreateAcl::new(acl);
        let promotion = self.node.promotion.take();
        self.node.promotion = promotion.map(|promotion| Promotion {
            lock: promotion.lock.with_acl(self.node.acl.entries()),
            ..promotion
        });
        self
    }

    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.node.path
    }

    /// Reads the value. A missing node has the empty value, and is not created.
    ///
    /// # Errors
    /// Returns the error of a read that a retry does not help.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn get(&self) -> Result<Bytes, AtomicError> {
        let read = self.node.read().await?;
        Ok(read.map_or_else(|| self.node.zero.clone(), |read| read.data))
    }

    /// Creates the node with a value. Returns false if it exists; its value is then unchanged.
    ///
    /// # Errors
    /// Returns the error of a request. The outcome is unknown if a reply was lost and the node then
    /// has the given value: this call or another client may have created it.
    ///
    /// # Cancel safety
    /// The node may or may not be created when the future is dropped, and parents may remain.
    pub async fn initialize(&self, value: impl AsRef<[u8]>) -> Result<bool, AtomicError> {
        let (node, value) = (&self.node, Bytes::copy_from_slice(value.as_ref()));
        let create = || node.create(&node.client, &value);
        loop {
            let Repeated { reply, is_unconfirmed } = repeat(&node.client, create).await;
            let Err(error) = reply else { return Ok(true) };
            match error.code() {
                Some(ErrorCode::NODE_EXISTS) if !is_unconfirmed => return Ok(false),
                Some(ErrorCode::NODE_EXISTS) => {
                    let unknown = error.with_outcome(Outcome::Unknown);
                    let now = node.read().await.map_err(|e| e.with_outcome(Outcome::Unknown))?;
                    let is_by_another =
                        now.is_some_and(|now| now.stat.version == 0 && now.data != value);
                    return if is_by_another { Ok(false) } else { Err(unknown.into()) };
                }
                // The parent existed if an attempt was applied.
                _ if is_unconfirmed => return Err(error.with_outcome(Outcome::Unknown).into()),
                _ => node.create_parents_if_missing(error).await?,
            }
        }
    }

    /// Sets the value unconditionally, and creates the node if it does not exist: Curator's
    /// `forceSet`.
    ///
    /// # Errors
    /// Returns the error of a request. If the reply is lost with the connection, the outcome is
    /// unknown: set the value again, or read it.
    ///
    /// # Cancel safety
    /// The value may or may not be set when the future is dropped.
    pub async fn set(&self, value: impl AsRef<[u8]>) -> Result<(), AtomicError> {
        let (node, value, retry) =
            (&self.node, Bytes::copy_from_slice(value.as_ref()), retry(&self.node.client));
        loop {
            let set = retry.run(|client| client.set_data(&node.path, &value, None)).await;
            if unless(ErrorCode::NO_NODE, set)?.is_some() {
                return Ok(());
            }
            match retry.run(|client| node.create(client, &value)).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_node_exists() => {}
                Err(error) => node.create_parents_if_missing(error).await?,
            }
        }
    }

    /// Sets the value if it equals `expected`. Returns false, and changes nothing, if it does not, or
    /// if the node does not exist. [`initialize`](Self::initialize) creates it.
    ///
    /// # Errors
    /// Returns the error of a request, and the errors of conflicts; see [`AtomicError`].
    ///
    /// # Cancel safety
    /// The value may or may not be set when the future is dropped.
    pub async fn compare_and_set(
        &self,
        expected: &[u8],
        value: impl AsRef<[u8]>,
    ) -> Result<bool, AtomicError> {
        let value = Bytes::copy_from_slice(value.as_ref());
        let next = |now: &Bytes| Ok((now == expected).then(|| value.clone()));
        Ok(self.node.change(Missing::IsNoValue, next).await?.is_some())
    }

    /// Replaces the value with the result of `next`, and returns it. Returns `None`, and
    /// changes nothing, if `next` does.
    ///
    /// `next` may be called several times. It must not block.
    ///
    /// # Errors
    /// Returns the error of a request, and the errors of conflicts; see [`AtomicError`].
    ///
    /// # Cancel safety
    /// The value may or may not be changed when the future is dropped, but only once.
    pub async fn update(
        &self,
        mut next: impl FnMut(&[u8]) -> Option<Bytes>,
    ) -> Result<Option<Bytes>, AtomicError> {
        self.node.change(Missing::IsZero, |now| Ok(next(now))).await
    }
}
