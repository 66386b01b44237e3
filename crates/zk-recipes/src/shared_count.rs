//! A number that many processes read and change. It can set the limit of a semaphore.

use zk_session::{Acl, Client, PathError, Zxid};

use crate::error::LockError;
use crate::shared_value::{SharedValue, VersionedValue};

/// A shared number: Curator's `SharedCount`, on the same node. It is a [`SharedValue`] of four
/// bytes, a signed integer in network byte order.
#[derive(Clone, Debug)]
pub struct SharedCount {
    value: SharedValue,
}

/// A count with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedCount {
    count: i32,
    value: VersionedValue,
}

impl VersionedCount {
    /// Returns the count.
    #[must_use]
    pub fn count(&self) -> i32 {
        self.count
    }

    /// Returns the number of the transaction that set the count; see [`VersionedValue::zxid`].
    #[must_use]
    pub fn zxid(&self) -> Zxid {
        self.value.zxid()
    }
}

impl SharedCount {
    /// Creates a handle for the count at `path`. Sends no request. A missing node is created with
    /// `seed` on first use.
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str, seed: i32) -> Result<Self, PathError> {
        let value = SharedValue::new(client, path, seed.to_be_bytes())?;
        Ok(Self { value })
    }

    /// Sets the access control list of the nodes that this handle creates; see
    /// [`SharedValue::with_acl`].
    #[must_use]
    pub fn with_acl(self, acl: impl Into<Vec<Acl>>) -> Self {
        Self { value: self.value.with_acl(acl) }
    }

    /// Returns the path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.value.path()
    }

    /// Reads the count; see [`SharedValue::get`].
    ///
    /// # Errors
    /// [`LockError::NotACount`] if the data of the node is not four bytes; otherwise as
    /// [`SharedValue::get`].
    pub async fn get(&self) -> Result<VersionedCount, LockError> {
        self.count(self.value.get().await?)
    }

    /// Waits for a newer count; see [`SharedValue::changed`].
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn changed(&self, before: &VersionedCount) -> Result<VersionedCount, LockError> {
        self.count(self.value.changed(&before.value).await?)
    }

    /// Sets the count unconditionally; see [`SharedValue::set`].
    pub async fn set(&self, count: i32) -> Result<VersionedCount, LockError> {
        let value = self.value.set(count.to_be_bytes().to_vec()).await?;
        Ok(VersionedCount { count, value })
    }

    /// Sets the count if it has not changed since `before` was read; see [`SharedValue::try_set`].
    ///
    /// # Errors
    /// As [`SharedValue::try_set`], including [`LockError::NodeRecreated`].
    pub async fn try_set(
        &self,
        before: &VersionedCount,
        count: i32,
    ) -> Result<Option<VersionedCount>, LockError> {
        let value = self.value.try_set(&before.value, count.to_be_bytes().to_vec()).await?;
        Ok(value.map(|value| VersionedCount { count, value }))
    }

    fn count(&self, value: VersionedValue) -> Result<VersionedCount, LockError> {
        match <[u8; 4]>::try_from(value.value().as_ref()) {
            Ok(bytes) => Ok(VersionedCount { count: i32::from_be_bytes(bytes), value }),
            Err(_) => Err(LockError::NotACount { path: self.path().to_owned() }),
        }
    }
}
