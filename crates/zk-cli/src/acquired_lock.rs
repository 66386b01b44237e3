//! Locks that a command can run under: a lock, permits of a semaphore, or several locks.

use std::fmt;
use std::sync::Arc;

use zk_recipes::session::Client;
use zk_recipes::{
    BoxFuture, Lock, LockError, LockGuard, LossReason, MultiGuard, MultiLock, Mutex, RwLock,
    Semaphore, SemaphoreMutex,
};

use crate::failure::{Failure, for_users};
use crate::lock_args::{Kind, Task};

/// Returns the lock with the options for its nodes.
macro_rules! at {
    ($lock:expr, $contender:expr) => {{
        let lock = $lock?.with_acl($contender.acl.entries());
        if $contender.allow_foreign_nodes { lock.allow_foreign_nodes() } else { lock }
    }};
}

/// The locks that are held.
pub(crate) enum AcquiredLock {
    One {
        path: String,
        guard: Box<dyn LockGuard>,
    },
    All {
        guard: MultiGuard,
        /// For each path on the command line, the index of its lock in the guard.
        places: Vec<usize>,
    },
}

/// The reason why a lock was not acquired, or was lost during the acquisition.
pub(crate) struct Refused {
    /// The first error.
    pub(crate) error: LockError,
    pub(crate) message: String,
}

impl Task {
    /// Waits for the lock, or tries once. Returns `None` if a single try did not acquire it.
    pub(crate) async fn acquire(&self, client: &Client) -> Result<Option<AcquiredLock>, Refused> {
        let Some(path) = self.only_path() else { return self.acquire_all(client).await };
        let guard = if let Kind::Permits { max, take: take @ 2.. } = self.kind {
            let semaphore = at!(Semaphore::new(client, path, max), self.contender);
            let permits = if self.is_single_try() {
                semaphore.try_acquire_many(take).await?
            } else {
                Some(semaphore.acquire_many(take).await?)
            };
            permits.map(|permits| Box::new(permits) as Box<dyn LockGuard>)
        } else {
            let lock = self.lock(client, path)?;
            if self.is_single_try() {
                lock.try_acquire_boxed().await?
            } else {
                Some(lock.acquire_boxed().await?)
            }
        };
        Ok(guard.map(|guard| AcquiredLock::One { path: path.to_owned(), guard }))
    }

    /// Acquires all locks in the canonical order, so that two commands cannot deadlock.
    async fn acquire_all(&self, client: &Client) -> Result<Option<AcquiredLock>, Refused> {
        let locks = self.paths.iter().map(|path| self.lock(client, path));
        let locks = MultiLock::in_canonical_order(locks.collect::<Result<Vec<_>, _>>()?);
        let place = |path: &String| locks.paths().position(|locked| locked == path);
        let places = self.paths.iter().filter_map(place).collect();
        let guard = if self.is_single_try() {
            locks.try_acquire().await?
        } else {
            Some(locks.acquire().await?)
        };
        Ok(guard.map(|guard| AcquiredLock::All { guard, places }))
    }

    /// Returns the lock at one path. Of a semaphore, it is one permit.
    fn lock(&self, client: &Client, path: &str) -> Result<Arc<dyn Lock>, LockError> {
        let contender = &self.contender;
        Ok(match self.kind {
            Kind::Mutex | Kind::All => Arc::new(at!(Mutex::new(client, path), contender)),
            Kind::Read => Arc::new(at!(RwLock::new(client, path), contender).read().clone()),
            Kind::Write => Arc::new(at!(RwLock::new(client, path), contender).write().clone()),
            Kind::SemaphoreMutex => Arc::new(at!(SemaphoreMutex::new(client, path), contender)),
            Kind::Permits { max, .. } => {
                Arc::new(at!(Semaphore::new(client, path, max), contender))
            }
            Kind::Leadership => {
                let election = at!(Mutex::new(client, path), contender);
                let election = match &contender.name {
                    // Curator reads the id of a candidate there.
                    Some(name) => election.with_data(name.as_str()),
                    None => election,
                };
                Arc::new(election.with_lock_name(Mutex::LEADER_LATCH)?)
            }
        })
    }
}

impl AcquiredLock {
    fn guard(&self) -> &dyn LockGuard {
        match self {
            Self::One { guard, .. } => &**guard,
            Self::All { guard, .. } => guard,
        }
    }

    /// Returns the paths of the nodes, separated by commas.
    pub(crate) fn nodes(&self) -> String {
        self.joined(self.guard().nodes().into_iter().map(str::to_owned).collect())
    }

    /// Returns the fencing tokens, one for each node, in the same order.
    pub(crate) fn tokens(&self) -> Result<String, LockError> {
        let tokens = self.guard().tokens()?;
        Ok(self.joined(tokens.into_iter().map(|token| token.czxid().to_string()).collect()))
    }

    /// Joins values of the nodes, in the order of the command line.
    fn joined(&self, mut values: Vec<String>) -> String {
        if let Self::All { places, .. } = self {
            values = places.iter().filter_map(|place| values.get(*place).cloned()).collect();
        }
        values.join(",")
    }

    /// Returns the path of the lock, or the paths of those of several locks that are lost.
    pub(crate) fn lost_path(&self) -> String {
        match self {
            Self::One { path, .. } => path.clone(),
            Self::All { guard, .. } => lost_paths(guard),
        }
    }

    pub(crate) fn lost(&self) -> BoxFuture<'static, LossReason> {
        self.guard().lost_boxed()
    }

    /// Releases the lock and waits for the replies. Returns the path and the reason if it was lost
    /// before. After any other failure, the nodes are deleted with the session.
    pub(crate) async fn release(self) -> Option<(String, LossReason)> {
        match self {
            Self::One { path, guard } => Some((path, loss(&guard.release_boxed().await.err()?)?)),
            Self::All { guard, .. } => {
                if let Err(error) = guard.tokens() {
                    let lost_path = lost_paths(&guard);
                    drop(guard.release().await);
                    return Some((lost_path, loss(&error)?));
                }
                // The locks are released one after the other, which may take longer than the lease
                // of the last ones. That is not a loss, unlike a missing node.
                let refused = guard.release().await.err()?;
                let mut failures = refused.failures().iter();
                let deleted = failures
                    .find(|failure| loss(&failure.error) == Some(LossReason::NodeDeleted))?;
                Some((deleted.path.clone(), LossReason::NodeDeleted))
            }
        }
    }
}

fn lost_paths(guard: &MultiGuard) -> String {
    guard.lost_paths().collect::<Vec<_>>().join(", ")
}

fn loss(error: &LockError) -> Option<LossReason> {
    match error {
        LockError::Lost(reason) => Some(*reason),
        _ => None,
    }
}

impl<E: Into<LockError> + fmt::Display> From<E> for Refused {
    fn from(error: E) -> Self {
        Self { message: error.to_string(), error: error.into() }
    }
}

impl From<Refused> for Failure {
    fn from(Refused { error, message }: Refused) -> Self {
        Self::from(error).with_message(for_users(&message)).of_stream()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::FOREIGN_NODE;

    #[test]
    fn foreign_node_hint_names_the_option() {
        let node = || LockError::ForeignNode {
            path: "/l".to_owned(),
            node: "/l/a".to_owned(),
            recipe: zk_recipes::Recipe::Mutex,
        };
        let several = Refused { message: format!("lock /l: {}", node()), error: node() };
        for failure in [Failure::from(node()), Failure::from(several)] {
            assert_eq!(failure.code, FOREIGN_NODE);
            let message = failure.to_string();
            let says = "use another path, or --allow-foreign-nodes";
            assert!(message.ends_with(says), "{message}");
        }
    }
}
