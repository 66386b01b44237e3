//! Locks that a command can run under: a lock, permits of a semaphore, or several locks.

use std::sync::Arc;

use zk_recipes::session::{Client, PathError};
use zk_recipes::{
    BoxFuture, Lock, LockError, LockGuard, LossReason, MultiGuard, MultiLock, MultiLockError,
    Mutex, RwLock, Semaphore, SemaphoreMutex,
};

use crate::failure::{Failure, for_users};
use crate::lock_args::{Contender, Kind, LockSpec};

/// Whether to wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Approach {
    /// Waits without a limit.
    Wait,
    /// Tries once, and does not wait for other holders.
    Look,
}

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
    /// The first error; `None` if the path is invalid.
    pub(crate) error: Option<LockError>,
    pub(crate) message: String,
}

impl LockSpec {
    /// Waits for the lock, or tries once. Returns `None` if a single try did not acquire it.
    pub(crate) async fn acquire(
        &self,
        client: &Client,
        how: Approach,
        contender: &Contender,
    ) -> Result<Option<AcquiredLock>, Refused> {
        let Some(path) = self.only_path() else {
            return all(client, &self.paths, how, contender).await;
        };
        match self.kind {
            Kind::Mutex | Kind::All => one(&at!(Mutex::new(client, path), contender), how).await,
            Kind::Read => one(at!(RwLock::new(client, path), contender).read(), how).await,
            Kind::Write => one(at!(RwLock::new(client, path), contender).write(), how).await,
            Kind::SemaphoreMutex => {
                one(&at!(SemaphoreMutex::new(client, path), contender), how).await
            }
            Kind::Leadership => {
                let election = at!(Mutex::new(client, path), contender);
                let election = match &contender.name {
                    // Curator reads the id of a candidate there.
                    Some(name) => election.with_data(name.as_str()),
                    None => election,
                };
                one(&election.with_lock_name(Mutex::LEADER_LATCH)?, how).await
            }
            Kind::Permits { max, take } => {
                let semaphore = at!(Semaphore::new(client, path, max), contender);
                let lease = match how {
                    Approach::Look => semaphore.try_acquire_many(take).await?,
                    Approach::Wait => Some(semaphore.acquire_many(take).await?),
                };
                Ok(lease.map(|lease| AcquiredLock::of(path, Box::new(lease))))
            }
        }
    }
}

async fn one(lock: &dyn Lock, how: Approach) -> Result<Option<AcquiredLock>, Refused> {
    let held = match how {
        Approach::Look => lock.try_acquire_boxed().await?,
        Approach::Wait => Some(lock.acquire_boxed().await?),
    };
    Ok(held.map(|guard| AcquiredLock::of(lock.path(), guard)))
}

/// Acquires all locks in the canonical order, so that two commands cannot deadlock.
async fn all(
    client: &Client,
    paths: &[String],
    how: Approach,
    contender: &Contender,
) -> Result<Option<AcquiredLock>, Refused> {
    let mut locks: Vec<Arc<dyn Lock>> = Vec::with_capacity(paths.len());
    for path in paths {
        locks.push(Arc::new(at!(Mutex::new(client, path), contender)));
    }
    let locks = MultiLock::in_canonical_order(locks);
    let place = |path: &String| locks.paths().position(|locked| locked == path);
    let places = paths.iter().filter_map(place).collect();
    let guard = match how {
        Approach::Look => locks.try_acquire().await?,
        Approach::Wait => Some(locks.acquire().await?),
    };
    Ok(guard.map(|guard| AcquiredLock::All { guard, places }))
}

impl AcquiredLock {
    fn of(path: &str, guard: Box<dyn LockGuard>) -> Self {
        Self::One { path: path.to_owned(), guard }
    }

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

impl From<LockError> for Refused {
    fn from(error: LockError) -> Self {
        Self { message: error.to_string(), error: Some(error) }
    }
}

impl From<MultiLockError> for Refused {
    fn from(error: MultiLockError) -> Self {
        let first = error.failures().first().map(|failure| failure.error.clone());
        Self { message: error.to_string(), error: first }
    }
}

impl From<PathError> for Refused {
    fn from(error: PathError) -> Self {
        Self { message: error.to_string(), error: None }
    }
}

impl From<Refused> for Failure {
    fn from(Refused { error, message }: Refused) -> Self {
        match error {
            Some(error) => Self::from(error).with_message(for_users(&message)).of_stream(),
            None => Self::usage(message),
        }
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
        let several = Refused { message: format!("lock /l: {}", node()), error: Some(node()) };
        for failure in [Failure::from(node()), Failure::from(several)] {
            assert_eq!(failure.code(), FOREIGN_NODE);
            let message = failure.to_string();
            let says = "use another path, or --allow-foreign-nodes";
            assert!(message.ends_with(says), "{message}");
        }
    }
}
