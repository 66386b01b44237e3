//! Locks whose calls block.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use zk_session::PathError;

use super::guard::Release;
use super::{Client, Guard, ReadLock, WriteLock};
use crate::error::LockError;
use crate::multi_lock::{MultiGuard, MultiLockError};
use crate::participants::Participant;
use crate::rwlock::WriteGuard;
use crate::semaphore::Lease;

/// A lock whose calls block the calling thread. Cheap to clone; any number of threads may use it,
/// each of which queues for itself.
///
/// The promises and costs are those of the async lock, which [`as_async`](Self::as_async) gives.
#[derive(Clone)]
pub struct Lock<L> {
    client: Client,
    lock: L,
}

impl<L: Acquire> Lock<L> {
    /// The blocking form of an async lock made with the same session, for options that the
    /// constructors here do not have.
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

    /// The async lock.
    pub fn as_async(&self) -> &L {
        &self.lock
    }

    /// Waits for the lock, as long as it takes.
    ///
    /// # Errors
    /// As [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Panics
    /// In a task of a runtime, as all calls that block.
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
    /// In a task of a runtime.
    pub fn try_acquire(&self) -> Result<Option<Guard<L::Guard>>, L::Error> {
        let acquired = self.client.block_on(self.lock.try_acquire())?;
        Ok(acquired.map(|guard| Guard::new(&self.client, guard)))
    }

    /// Waits for the lock for at most `timeout`; returns `None` if it was not acquired by then.
    ///
    /// # Errors
    /// As [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Panics
    /// In a task of a runtime.
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<Option<Guard<L::Guard>>, L::Error> {
        let acquired = self.client.block_on(self.lock.acquire_timeout(timeout))?;
        Ok(acquired.map(|guard| Guard::new(&self.client, guard)))
    }
}

impl<L: crate::Lock + Clone + 'static> Lock<L> {
    /// The lock as a part of a [`MultiLock`](super::MultiLock).
    pub fn shared(&self) -> Arc<dyn crate::Lock> {
        Arc::new(self.lock.clone())
    }
}

impl Lock<crate::Mutex> {
    /// The blocking form of [`Mutex::new`](crate::Mutex::new).
    ///
    /// # Errors
    /// The path is not one that ZooKeeper accepts.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Ok(Self::of(client, crate::Mutex::new(client.as_async(), path)?))
    }

    /// The holder and the waiters, in order.
    ///
    /// # Errors
    /// A failed request.
    pub fn participants(&self) -> Result<Vec<Participant>, LockError> {
        self.client.block_on(self.lock.participants())
    }
}

impl Lock<crate::SemaphoreMutex> {
    /// The blocking form of [`SemaphoreMutex::new`](crate::SemaphoreMutex::new).
    ///
    /// # Errors
    /// The path is not one that ZooKeeper accepts.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Ok(Self::of(client, crate::SemaphoreMutex::new(client.as_async(), path)?))
    }
}

impl Lock<crate::Semaphore> {
    /// The blocking form of [`Semaphore::new`](crate::Semaphore::new).
    ///
    /// # Errors
    /// The path is not one that ZooKeeper accepts.
    pub fn new(client: &Client, path: &str, max: u32) -> Result<Self, PathError> {
        Ok(Self::of(client, crate::Semaphore::new(client.as_async(), path, max)?))
    }

    /// Waits for several permits at once; see
    /// [`Semaphore::acquire_many`](crate::Semaphore::acquire_many).
    ///
    /// # Errors
    /// See there.
    ///
    /// # Panics
    /// In a task of a runtime.
    pub fn acquire_many(&self, permits: u32) -> Result<Guard<Lease>, LockError> {
        let lease = self.client.block_on(self.lock.acquire_many(permits))?;
        Ok(Guard::new(&self.client, lease))
    }

    /// As [`acquire_many`](Self::acquire_many), but no longer than `timeout`.
    ///
    /// # Errors
    /// As [`acquire_many`](Self::acquire_many).
    ///
    /// # Panics
    /// In a task of a runtime.
    pub fn acquire_many_timeout(
        &self,
        permits: u32,
        timeout: Duration,
    ) -> Result<Option<Guard<Lease>>, LockError> {
        let lease = self.client.block_on(self.lock.acquire_many_timeout(permits, timeout))?;
        Ok(lease.map(|lease| Guard::new(&self.client, lease)))
    }
}

impl Lock<crate::MultiLock> {
    /// The blocking form of [`MultiLock::in_canonical_order`](crate::MultiLock::in_canonical_order),
    /// of locks as [`shared`](Self::shared) gives them.
    pub fn in_canonical_order(
        client: &Client,
        locks: impl IntoIterator<Item = Arc<dyn crate::Lock>>,
    ) -> Self {
        Self::of(client, crate::MultiLock::in_canonical_order(locks))
    }

    /// The blocking form of [`MultiLock::new`](crate::MultiLock::new).
    pub fn new(client: &Client, locks: impl IntoIterator<Item = Arc<dyn crate::Lock>>) -> Self {
        Self::of(client, crate::MultiLock::new(locks))
    }
}

/// The blocking form of [`crate::RwLock`].
#[derive(Clone, Debug)]
pub struct RwLock {
    read: ReadLock,
    write: WriteLock,
}

impl RwLock {
    /// The blocking form of [`RwLock::new`](crate::RwLock::new).
    ///
    /// # Errors
    /// The path is not one that ZooKeeper accepts.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        Ok(Self::of(client, &crate::RwLock::new(client.as_async(), path)?))
    }

    /// The blocking form of an async lock made with the same session.
    #[must_use]
    pub fn of(client: &Client, lock: &crate::RwLock) -> Self {
        Self {
            read: Lock::of(client, lock.read().clone()),
            write: Lock::of(client, lock.write().clone()),
        }
    }

    /// The read side, which any number of readers hold at a time.
    #[must_use]
    pub fn read(&self) -> &ReadLock {
        &self.read
    }

    /// The write side, which one writer holds at a time, beside no reader.
    #[must_use]
    pub fn write(&self) -> &WriteLock {
        &self.write
    }
}

impl<L: fmt::Debug> fmt::Debug for Lock<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lock").field(&self.lock).finish()
    }
}

/// An async lock, as a blocking [`Lock`] is made of. Implemented by the locks of this crate.
pub trait Acquire {
    /// The guard of a held lock.
    type Guard: Release;
    /// Why the lock could not be acquired.
    type Error;

    /// Waits for the lock.
    fn acquire(&self) -> impl Future<Output = Result<Self::Guard, Self::Error>>;

    /// Acquires the lock if it is free.
    fn try_acquire(&self) -> impl Future<Output = Result<Option<Self::Guard>, Self::Error>>;

    /// Waits for the lock, but no longer than `timeout`.
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
acquire!(crate::Semaphore, Lease, LockError);
acquire!(crate::MultiLock, MultiGuard, MultiLockError);
