//! A number that many processes read and change; it can drive a semaphore's limit.

use zk_session::{Client, PathError};

use crate::error::LockError;
use crate::shared_value::{SharedValue, Versioned};

/// Curator's `SharedCount`: a [`SharedValue`] of four bytes, a signed number in
/// network order.
#[derive(Clone, Debug)]
pub struct SharedCount {
    value: SharedValue,
}

/// A count, and which of all that there were it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedCount {
    count: i32,
    value: Versioned,
}

impl VersionedCount {
    /// The count.
    #[must_use]
    pub fn count(&self) -> i32 {
        self.count
    }

    /// The transaction that set it; see [`Versioned::zxid`].
    #[must_use]
    pub fn zxid(&self) -> i64 {
        self.value.zxid()
    }
}

impl SharedCount {
    /// A count at `path`, which is `seed` if the node has to be made. Touches no server.
    ///
    /// # Errors
    /// The path is not one that ZooKeeper accepts.
    pub fn new(client: &Client, path: &str, seed: i32) -> Result<Self, PathError> {
        let value = SharedValue::new(client, path, seed.to_be_bytes().to_vec())?;
        Ok(Self { value })
    }

    /// The path of the node.
    #[must_use]
    pub fn path(&self) -> &str {
        self.value.path()
    }

    /// Reads the count; see [`SharedValue::get`].
    ///
    /// # Errors
    /// [`LockError::NotACount`], and as [`SharedValue::get`].
    pub async fn get(&self) -> Result<VersionedCount, LockError> {
        self.count(self.value.get().await?)
    }

    /// Waits for a newer count; see [`SharedValue::changed`].
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn changed(&self, before: &VersionedCount) -> Result<VersionedCount, LockError> {
        self.count(self.value.changed(&before.value).await?)
    }

    /// Sets the count, whatever it is now; see [`SharedValue::set`].
    ///
    /// # Errors
    /// As [`SharedValue::set`].
    pub async fn set(&self, count: i32) -> Result<VersionedCount, LockError> {
        let value = self.value.set(count.to_be_bytes().to_vec()).await?;
        Ok(VersionedCount { count, value })
    }

    /// Sets the count if it is still the one that was read; see [`SharedValue::try_set`].
    ///
    /// # Errors
    /// As [`SharedValue::try_set`], [`LockError::NodeRecreated`] among them.
    pub async fn try_set(
        &self,
        before: &VersionedCount,
        count: i32,
    ) -> Result<Option<VersionedCount>, LockError> {
        let value = self.value.try_set(&before.value, count.to_be_bytes().to_vec()).await?;
        Ok(value.map(|value| VersionedCount { count, value }))
    }

    fn count(&self, value: Versioned) -> Result<VersionedCount, LockError> {
        match <[u8; 4]>::try_from(value.value().as_ref()) {
            Ok(bytes) => Ok(VersionedCount { count: i32::from_be_bytes(bytes), value }),
            Err(_) => Err(LockError::NotACount { path: self.path().to_owned() }),
        }
    }
}
