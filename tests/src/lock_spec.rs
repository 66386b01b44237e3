//! Locks of any kind, named by text.

use std::str::FromStr;
use std::sync::Arc;

use zk_recipes::session::Client;
use zk_recipes::{
    Lock, LockError, LockGuard, Mutex, Participant, RwLock, Semaphore, SemaphoreMutex,
};

/// A lock: `KIND:PATH`, or `semaphore:PATH:TAKEN/OF`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockSpec {
    /// Kind of the lock.
    pub kind: Kind,
    /// Path of the lock.
    pub path: String,
}

/// Kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A mutex.
    Mutex,
    /// The read side of a read-write lock.
    Read,
    /// The write side of a read-write lock.
    Write,
    /// A semaphore mutex.
    SemaphoreMutex,
    /// Permits of a semaphore.
    Semaphore {
        /// Permits to acquire.
        taken: u32,
        /// Permits of the semaphore.
        of: u32,
    },
}

impl LockSpec {
    /// Creates the lock of a kind, for example `semaphore:1/3`, at a path.
    pub fn new(kind: &str, path: &str) -> Self {
        let (kind, permits) = kind.split_at(kind.find(':').unwrap_or(kind.len()));
        format!("{kind}:{path}{permits}").parse().unwrap()
    }

    /// Returns the lock. A semaphore then gives one permit at a time.
    ///
    /// # Errors
    /// The path is invalid.
    pub fn lock(&self, client: &Client) -> Result<Arc<dyn Lock>, LockError> {
        let path = self.path.as_str();
        Ok(match self.kind {
            Kind::Mutex => Arc::new(Mutex::new(client, path)?),
            Kind::Read => Arc::new(RwLock::new(client, path)?.read().clone()),
            Kind::Write => Arc::new(RwLock::new(client, path)?.write().clone()),
            Kind::SemaphoreMutex => Arc::new(SemaphoreMutex::new(client, path)?),
            Kind::Semaphore { of, .. } => Arc::new(Semaphore::new(client, path, of)?),
        })
    }

    /// Waits until the lock is acquired.
    ///
    /// # Errors
    /// As those of the lock.
    pub async fn acquire(&self, client: &Client) -> Result<Box<dyn LockGuard>, LockError> {
        match self.kind {
            Kind::Semaphore { taken, of } => {
                let semaphore = Semaphore::new(client, &self.path, of)?;
                Ok(Box::new(semaphore.acquire_many(taken).await?))
            }
            _ => self.lock(client)?.acquire_boxed().await,
        }
    }

    /// Returns the paths of the contenders' nodes, in order.
    ///
    /// # Errors
    /// As those of the lock.
    pub async fn participants(&self, client: &Client) -> Result<Vec<String>, LockError> {
        let path = self.path.as_str();
        let participants: Vec<Participant> = match self.kind {
            Kind::Mutex => Mutex::new(client, path)?.participants().await?,
            Kind::Read => RwLock::new(client, path)?.read().participants().await?,
            Kind::Write => RwLock::new(client, path)?.write().participants().await?,
            Kind::SemaphoreMutex => SemaphoreMutex::new(client, path)?.participants().await?,
            Kind::Semaphore { of, .. } => Semaphore::new(client, path, of)?.participants().await?,
        };
        Ok(participants.into_iter().map(|participant| participant.path).collect())
    }
}

impl FromStr for LockSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("not a lock: {text:?}");
        let parts: Vec<&str> = text.split(':').collect();
        let (kind, path) = match parts[..] {
            ["mutex", path] => (Kind::Mutex, path),
            ["read", path] => (Kind::Read, path),
            ["write", path] => (Kind::Write, path),
            ["semaphore-mutex", path] => (Kind::SemaphoreMutex, path),
            ["semaphore", path, permits] => {
                let (taken, of) = permits.split_once('/').ok_or_else(wrong)?;
                let number = |text: &str| text.parse().map_err(|_| wrong());
                (Kind::Semaphore { taken: number(taken)?, of: number(of)? }, path)
            }
            _ => return Err(wrong()),
        };
        Ok(Self { kind, path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_spec_is_parsed() {
        let spec: LockSpec = "semaphore:/a:2/3".parse().unwrap();
        assert_eq!((spec.kind, &*spec.path), (Kind::Semaphore { taken: 2, of: 3 }, "/a"));
        assert_eq!(LockSpec::new("semaphore:2/3", "/a"), spec);
        assert_eq!("write:/a/b".parse::<LockSpec>().unwrap().kind, Kind::Write);
        for wrong in ["", "mutex", "latch:/a", "semaphore:/a", "semaphore:/a:2"] {
            assert!(wrong.parse::<LockSpec>().is_err(), "{wrong:?}");
        }
    }
}
