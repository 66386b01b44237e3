//! Locks with blocking calls.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use zk_session::PathError;

use super::client::Client;
use super::guard::{Guard, Release};
use crate::error::LockError;
use crate::multi_lock::{MultiGuard, MultiLockError};
use crate::participants::Participant;
use crate::rwlock::WriteGuard;
use crate::sealed::Sealed;
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

impl<L: Acquire> Lock<L> {
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
    pub fn of(client: &Client, lock: L) -> Self {
        Self { client: client.clone(), lock }
    }

    /// Returns the async lock.
    pub fn as_async(&self) -> &L {
        &self.lock
    }

    /// Waits until the lock is acquired, without a time limit.
    ///
    /// # Errors
    /// As [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Panics
    /// Panics in a task of a runtime, as all blocking calls do.
    pub fn acquire(&self) -> Result<Guard<L::Guard>, L::Error> {
        let guard = self.client.block_on(self.lock.acquire())?;
        Ok(Guard::new(&self.client, guard))
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    /// As [`Mutex::try_acquire`](crate::Mutex::try_acquire).
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn try_acquire(&self) -> Result<Option<Guard<L::Guard>>, L::Error> {
        let acquired = self.client.block_on(self.lock.try_acquire())?;
        Ok(acquired.map(|guard| Guard::new(&self.client, guard)))
    }

    /// Waits until the lock is acquired, for at most `timeout`; returns `None` after the timeout.
    ///
    /// # Errors
    /// As [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Guard<L::Guard>>, L::Error> {
        let acquired = self.client.block_on(self.lock.acquire_timeout(timeout))?;
        Ok(acquired.map(|guard| Guard::new(&self.client, guard)))
    }
}

impl<L: crate::Lock + Clone + 'static> Lock<L> {
    /// Returns the lock as a part of a [`MultiLock`](super::MultiLock).
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
    ///
    /// # Errors
    /// Returns an error if a request fails.
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
        let lease = self.client.block_on(self.lock.acquire_many(permits))?;
        Ok(Guard::new(&self.client, lease))
    }

    /// As [`acquire_many`](Self::acquire_many), for at most `timeout`.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Panics
    /// Panics in a task of a runtime.
    pub fn acquire_many_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<Option<Guard<SemaphoreGuard>>, LockError> {
        let lease = self.client.block_on(self.lock.acquire_many_timeout(permits, timeout))?;
        Ok(lease.map(|lease| Guard::new(&self.client, lease)))
    }
}

impl Lock<crate::MultiLock> {
    /// Blocking form of [`MultiLock::in_canonical_order`](crate::MultiLock::in_canonical_order),
    /// for locks from [`shared`](Self::shared).
    pub fn in_canonical_order(
        client: &Client,
        locks: impl IntoIterator<Item = Arc<dyn crate::Lock>>,
    ) -> Self {
        Self::of(client, crate::MultiLock::in_canonical_order(locks))
    }

    /// Blocking form of [`MultiLock::new`](crate::MultiLock::new).
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

    /// Wraps an async lock of the same session.
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

/// An async lock that a blocking [`Lock`] can wrap: every lock of this crate.
pub trait Acquire: Sealed {
    /// The guard of a held lock.
    type Guard: Release;
    /// Error of an acquisition.
    type Error;

    /// Waits until the lock is acquired.
    fn acquire(&self) -> impl Future<Output = Result<Self::Guard, Self::Error>>;

    /// Acquires the lock if it is free.
    fn try_acquire(&self) -> impl Future<Output = Result<Option<Self::Guard>, Self::Error>>;

    /// Waits until the lock is acquired, for at most `timeout`.
    fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<Option<Self::Guard>, Self::Error>>;
}

macro_rules! acquire {
    ($lock:ty, $guard:ty, $error:ty) => {
        impl Acquire for $lock {
            type Guard = $guard;
            type Error = $error;

            fn acquire(&self) -> impl Future<Output = Result<$guard, $error>> {
                Self::acquire(self)
            }

            fn try_acquire(&self) -> impl Future<Output = Result<Option<$guard>, $error>> {
                Self::try_acquire(self)
            }

            fn acquire_timeout(
                &self,
                timeout: Duration,
            ) -> impl Future<Output = Result<Option<$guard>, $error>> {
                Self::acquire_timeout(self, timeout)
            }
        }
    };
}

acquire!(crate::Mutex, crate::Guard, LockError);
acquire!(crate::SemaphoreMutex, crate::Guard, LockError);
acquire!(crate::ReadLock, crate::Guard, LockError);
acquire!(crate::WriteLock, WriteGuard, LockError);
acquire!(crate::Semaphore, SemaphoreGuard, LockError);
acquire!(crate::MultiLock, MultiGuard, MultiLockError);
