//! Locks with blocking calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use zk_session::PathError;

use super::client::Client;
use super::guard::{Guard, Release};
use crate::error::{LockError, MultiLockError};
use crate::multi_lock::MultiGuard;
use crate::participants::Participant;
use crate::rwlock::WriteGuard;
use crate::semaphore::SemaphoreGuard;

/// A lock whose calls block the calling thread. It is cheap to clone, and any number of threads may
/// use it. Each acquisition queues separately.
///
/// It has the promises and costs of the async lock, which [`as_async`](Self::as_async) returns.
#[derive(Clone)]
pub struct Lock<L> {
    client: Client,
    lock: L,
}

impl<L> Lock<L> {
    /// Wraps an async lock of the same session, for options that the constructors here do not have.
    ///
    /// ```no_run
    /// use zk_recipes::blocking::{Client, Mutex};
    ///
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("127.0.0.1:2181")?;
    /// let lock = zk_recipes::Mutex::new(client.as_async(), "/locks/stock")?;
    /// let lock = Mutex::of(&client, lock.with_data("the nightly run"));
    /// lock.acquire()?.release()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn of(client: &Client, lock: L) -> Self {
        Self { client: client.clone(), lock }
    }

    /// Returns the async lock.
    #[must_use]
    pub fn as_async(&self) -> &L {
        &self.lock
    }

    fn guard<G: Release>(&self, guard: G) -> Guard<G> {
        Guard::new(&self.client, guard)
    }
}

/// Adds the acquisitions, which are those of the async lock.
macro_rules! blocking {
    ($lock:ty, $guard:ty, $error:ty) => {
        impl Lock<$lock> {
            /// Waits until the lock is acquired, without a time limit.
            ///
            /// # Errors
            /// The same as the async method.
            ///
            /// # Panics
            /// Panics in a task of a runtime, as all blocking calls do.
            pub fn acquire(&self) -> Result<Guard<$guard>, $error> {
                Ok(self.guard(self.client.block_on(self.lock.acquire())?))
            }

            /// Acquires the lock if it is free.
            ///
            /// # Errors
            /// The same as the async method.
            ///
            /// # Panics
            /// Panics in a task of a runtime.
            pub fn try_acquire(&self) -> Result<Option<Guard<$guard>>, $error> {
                let acquired = self.client.block_on(self.lock.try_acquire())?;
                Ok(acquired.map(|guard| self.guard(guard)))
            }

            /// Waits until the lock is acquired, for at most `timeout`; returns `None` after the
            /// timeout. A timeout of zero makes one attempt, which waits for the replies of a server
            /// that answers.
            ///
            /// # Errors
            /// The same as the async method.
            ///
            /// # Panics
            /// Panics in a task of a runtime.
            pub fn acquire_timeout(
                &self,
                timeout: Duration,
            ) -> Result<Option<Guard<$guard>>, $error> {
                let acquired = self.client.block_on(self.lock.acquire_timeout(timeout))?;
                Ok(acquired.map(|guard| self.guard(guard)))
            }
        }
    };
}

blocking!(crate::Mutex, crate::Guard, LockError);
blocking!(crate::SemaphoreMutex, crate::Guard, LockError);
blocking!(crate::ReadLock, crate::Guard, LockError);
blocking!(crate::WriteLock, WriteGuard, LockError);
blocking!(crate::Semaphore, SemaphoreGuard, LockError);
blocking!(crate::MultiLock, MultiGuard, MultiLockError);

impl<L: crate::Lock + Clone + 'static> Lock<L> {
    /// Returns the lock as a part of a [`MultiLock`](super::MultiLock).
    #[must_use]
    pub fn shared(&self) -> Arc<dyn crate::Lock> {
        Arc::new(self.lock.clone())
    }
}

impl Lock<crate::Mutex> {
    /// Blocking form of [`Mutex::new`](crate::Mutex::new).
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Ok(Self::of(client, crate::Mutex::new(client.as_async(), path)?))
    }

    /// Returns the holder and the waiters, in queue order.
    pub fn participants(&self) -> Result<Vec<Participant>, LockError> {
        self.client.block_on(self.lock.participants())
    }
}

impl Lock<crate::SemaphoreMutex> {
    /// Blocking form of [`SemaphoreMutex::new`](crate::SemaphoreMutex::new).
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Ok(Self::of(client, crate::SemaphoreMutex::new(client.as_async(), path)?))
    }
}

impl Lock<crate::Semaphore> {
    /// Blocking form of [`Semaphore::new`](crate::Semaphore::new).
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str, max: u32) -> Result<Self, PathError> {
        Ok(Self::of(client, crate::Semaphore::new(client.as_async(), path, max)?))
    }

    /// Waits until several permits are acquired together; see
    /// [`Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    ///
    /// # Errors
    /// The same as the async method.
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn acquire_many(&self, permits: u32) -> Result<Guard<SemaphoreGuard>, LockError> {
        Ok(self.guard(self.client.block_on(self.lock.acquire_many(permits))?))
    }

    /// Acquires several permits together if they are free; see
    /// [`Semaphore::try_acquire_many`](crate::Semaphore::try_acquire_many).
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn try_acquire_many(
        &self,
        permits: u32,
    ) -> Result<Option<Guard<SemaphoreGuard>>, LockError> {
        let acquired = self.client.block_on(self.lock.try_acquire_many(permits))?;
        Ok(acquired.map(|guard| self.guard(guard)))
    }

    /// As [`acquire_many`](Self::acquire_many), for at most `timeout`.
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn acquire_many_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<Option<Guard<SemaphoreGuard>>, LockError> {
        let acquired = self.client.block_on(self.lock.acquire_many_timeout(permits, timeout))?;
        Ok(acquired.map(|guard| self.guard(guard)))
    }
}

impl Lock<crate::MultiLock> {
    /// Blocking form of [`MultiLock::in_canonical_order`](crate::MultiLock::in_canonical_order),
    /// for locks from [`shared`](Self::shared).
    #[must_use]
    pub fn in_canonical_order(
        client: &Client,
        locks: impl IntoIterator<Item = Arc<dyn crate::Lock>>,
    ) -> Self {
        Self::of(client, crate::MultiLock::in_canonical_order(locks))
    }

    /// Blocking form of [`MultiLock::new`](crate::MultiLock::new).
    #[must_use]
    pub fn new(client: &Client, locks: impl IntoIterator<Item = Arc<dyn crate::Lock>>) -> Self {
        Self::of(client, crate::MultiLock::new(locks))
    }
}

/// A read-write lock with blocking calls; the blocking form of [`crate::RwLock`].
#[derive(Clone, Debug)]
pub struct RwLock {
    read: Lock<crate::ReadLock>,
    write: Lock<crate::WriteLock>,
}

impl RwLock {
    /// Blocking form of [`RwLock::new`](crate::RwLock::new).
    ///
    /// # Errors
    /// Returns an error if `path` is not a valid ZooKeeper path.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Ok(Self::of(client, &crate::RwLock::new(client.as_async(), path)?))
    }

    /// Wraps an async lock of the same session, for options that [`new`](Self::new) does not have.
    ///
    /// ```no_run
    /// use zk_recipes::blocking::{Client, RwLock};
    ///
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let client = Client::connect("127.0.0.1:2181")?;
    /// let lock = zk_recipes::RwLock::new(client.as_async(), "/locks/catalogue")?;
    /// let lock = RwLock::of(&client, &lock.with_data("the nightly run"));
    /// lock.write().acquire()?.release()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn of(client: &Client, lock: &crate::RwLock) -> Self {
        Self {
            read: Lock::of(client, lock.read().clone()),
            write: Lock::of(client, lock.write().clone()),
        }
    }

    /// Returns the read side. Any number of readers hold it at a time.
    #[must_use]
    pub fn read(&self) -> &Lock<crate::ReadLock> {
        &self.read
    }

    /// Returns the write side. One writer holds it alone.
    #[must_use]
    pub fn write(&self) -> &Lock<crate::WriteLock> {
        &self.write
    }
}

impl<L: fmt::Debug> fmt::Debug for Lock<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lock").field(&self.lock).finish()
    }
}
