//! The locks of chaos runs, of any kind.

use std::str::FromStr;

use zk_recipes::session::Client;
use zk_recipes::{LockError, LockGuard, Mutex, RwLock, Semaphore};

use super::event::Access;

/// The lock of an `acquire` command: `KIND:PATH`, or `semaphore:PATH:TAKEN/OF`.
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
    /// Permits of a semaphore.
    Semaphore {
        /// Permits to acquire.
        taken: u32,
        /// Permits of the semaphore.
        of: u32,
    },
}

impl LockSpec {
    /// Waits until the lock is acquired.
    pub(super) async fn acquire(&self, client: &Client) -> Result<Box<dyn LockGuard>, LockError> {
        let path = self.path.as_str();
        Ok(match self.kind {
            Kind::Mutex => Box::new(Mutex::new(client, path)?.acquire().await?),
            Kind::Read => Box::new(RwLock::new(client, path)?.read().acquire().await?),
            Kind::Write => Box::new(RwLock::new(client, path)?.write().acquire().await?),
            Kind::Semaphore { taken, of } => {
                Box::new(Semaphore::new(client, path, of)?.acquire_many(taken).await?)
            }
        })
    }

    pub(super) fn access(&self) -> Access {
        match self.kind {
            Kind::Mutex | Kind::Write => Access::Exclusive,
            Kind::Read => Access::Shared,
            Kind::Semaphore { taken, of } => Access::Permits { taken, of },
        }
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
        assert_eq!((spec.kind, spec.path), (Kind::Semaphore { taken: 2, of: 3 }, "/a".to_owned()));
        assert_eq!("write:/a/b".parse::<LockSpec>().unwrap().kind, Kind::Write);
        for wrong in ["", "mutex", "latch:/a", "semaphore:/a", "semaphore:/a:2"] {
            assert!(wrong.parse::<LockSpec>().is_err(), "{wrong:?}");
        }
    }
}
