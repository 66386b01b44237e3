//! Locks that a command can run under: a lock, permits of a semaphore, or several locks.

use std::sync::Arc;

use zk_recipes::session::{Client, PathError};
use zk_recipes::{
    BoxFuture, Lock, LockError, LockGuard, LossReason, MultiGuard, MultiLock, MultiLockError,
    Mutex, RwLock, Semaphore, SemaphoreMutex,
};

use crate::failure::{Failure, for_users};
use crate::lock_args::Contender;

/// The locks to acquire.
#[derive(Debug)]
pub(crate) enum LockSpec {
    Mutex(String),
    Read(String),
    Write(String),
    SemaphoreMutex(String),
    /// The leadership of an election.
    Leadership(String),
    Permits {
        path: String,
        max: u32,
        take: u32,
    },
    /// Mutexes at all of these paths. No path occurs twice.
    All(Vec<String>),
}

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
    /// The errors; empty if the path is invalid.
    pub(crate) errors: Vec<LockError>,
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
        match self {
            Self::Mutex(path) => one(&at!(Mutex::new(client, path), contender), how).await,
            Self::Read(path) => one(at!(RwLock::new(client, path), contender).read(), how).await,
            Self::Write(path) => one(at!(RwLock::new(client, path), contender).write(), how).await,
            Self::SemaphoreMutex(path) => {
                one(&at!(SemaphoreMutex::new(client, path), contender), how).await
            }
            Self::Leadership(path) => {
                let election = at!(Mutex::new(client, path), contender);
                let election = match &contender.name {
                    // Curator reads the id of a candidate there.
                    Some(name) => election.with_data(name.as_str()),
                    None => election,
                };
                one(&election.with_lock_name(Mutex::LEADER_LATCH)?, how).await
            }
            Self::Permits { path, max, take } => {
                let semaphore = at!(Semaphore::new(client, path, *max), contender);
                let lease = match how {
                    Approach::Look => semaphore.try_acquire_many(*take).await?,
                    Approach::Wait => Some(semaphore.acquire_many(*take).await?),
                };
                Ok(lease
                    .map(|lease| AcquiredLock::One { path: path.clone(), guard: Box::new(lease) }))
            }
            Self::All(paths) => all(client, paths, how, contender).await,
        }
    }

    /// Returns the path, or the paths.
    pub(crate) fn each_path(&self) -> impl Iterator<Item = &str> {
        let several = match self {
            Self::All(paths) => &paths[..],
            _ => &[],
        };
        self.only_path().into_iter().chain(several.iter().map(String::as_str))
    }

    /// Returns the path, unless there are several.
    pub(crate) fn only_path(&self) -> Option<&str> {
        match self {
            Self::Mutex(path)
            | Self::Read(path)
            | Self::Write(path)
            | Self::SemaphoreMutex(path)
            | Self::Leadership(path)
            | Self::Permits { path, .. } => Some(path),
            Self::All(_) => None,
        }
    }

    pub(crate) fn is_semaphore(&self) -> bool {
        matches!(self, Self::SemaphoreMutex(_) | Self::Permits { .. })
    }

    pub(crate) fn not_in_time(&self) -> String {
        match self {
            Self::Mutex(path)
            | Self::Read(path)
            | Self::Write(path)
            | Self::SemaphoreMutex(path) => {
                format!("{path}: the lock was not acquired in time")
            }
            Self::Leadership(path) => format!("{path}: another client leads"),
            Self::Permits { path, take: 1, .. } => {
                format!("{path}: no permit was acquired in time")
            }
            Self::Permits { path, take, .. } => {
                format!("{path}: {take} permits were not acquired in time")
            }
            Self::All(paths) => {
                format!("{}: the locks were not acquired in time", paths.join(", "))
            }
        }
    }
}

async fn one(lock: &dyn Lock, how: Approach) -> Result<Option<AcquiredLock>, Refused> {
    let held = match how {
        Approach::Look => lock.try_acquire_boxed().await?,
        Approach::Wait => Some(lock.acquire_boxed().await?),
    };
    Ok(held.map(|guard| AcquiredLock::One { path: lock.path().to_owned(), guard }))
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
        Self { message: error.to_string(), errors: vec![error] }
    }
}

impl From<MultiLockError> for Refused {
    fn from(error: MultiLockError) -> Self {
        let errors = error.failures().iter().map(|failure| failure.error.clone());
        Self { errors: errors.collect(), message: error.to_string() }
    }
}

impl From<PathError> for Refused {
    fn from(error: PathError) -> Self {
        Self { errors: Vec::new(), message: error.to_string() }
    }
}

impl From<Refused> for Failure {
    fn from(Refused { errors, message }: Refused) -> Self {
        match errors.into_iter().next() {
            Some(first) => Self::from(first).with_message(for_users(&message)).of_stream(),
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
        let several = Refused { message: format!("lock /l: {}", node()), errors: vec![node()] };
        for failure in [Failure::from(node()), Failure::from(several)] {
            assert_eq!(failure.code(), FOREIGN_NODE);
            let message = failure.to_string();
            let says = "use another path, or --allow-foreign-nodes";
            assert!(message.ends_with(says), "{message}");
        }
    }
}
