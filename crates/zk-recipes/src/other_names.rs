//! Names of methods in other libraries. The warning of the compiler tells the name here.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use crate::{Guard, LockError, Mutex, ReadLock, SemaphoreMutex, WriteGuard, WriteLock};

impl Mutex {
    #[doc(hidden)]
    #[deprecated(note = "the method is `acquire`")]
    pub async fn lock(&self) -> Result<Guard, LockError> {
        self.acquire().await
    }

    #[doc(hidden)]
    #[deprecated(note = "the method is `try_acquire`")]
    pub async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        self.try_acquire().await
    }
}

impl SemaphoreMutex {
    #[doc(hidden)]
    #[deprecated(note = "the method is `acquire`")]
    pub async fn lock(&self) -> Result<Guard, LockError> {
        self.acquire().await
    }
}

/// `lock.read().await` acquires the read side, as with the locks of tokio.
impl<'a> IntoFuture for &'a ReadLock {
    type Output = Result<Guard, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}

/// `lock.write().await` acquires the write side, as with the locks of tokio.
impl<'a> IntoFuture for &'a WriteLock {
    type Output = Result<WriteGuard, LockError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.acquire())
    }
}
