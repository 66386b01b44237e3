//! Nodes of other recipes on a lock's path.
//!
//! A mutex, a read-write lock and a semaphore at one path do not exclude each other. Each recipe
//! creates its own node and then looks for nodes of the others. So if two arrive at the same time,
//! at least one of them sees the other and refuses the path.
//!
//! A mutex and a read-write lock check the list that they read anyway. If it contains `leases`, they
//! list the children of that node, too. It belongs to a semaphore if it has a lease, or had
//! children and has none: a semaphore that is idle at the moment uses it again.
//!
//! A semaphore lists `<path>` before it makes `leases`, so one that is refused leaves no such node. It
//! does so again with its first lease. Then it is done for as long as the node `leases` is the same
//! one: a mutex that arrives later finds that node.
//!
//! An empty `leases` is refused until the server has removed it, as a container, within a minute or
//! two: a semaphore that pauses may come back. One that arrives at the same time as a mutex, or
//! whose server is behind, leaves such a node, too.

use std::borrow::Cow;
use std::fmt;

use zk_session::{ChildList, Children, Client, Error, ErrorCode, Key};

use super::attempts::Attempts;
use super::kind::Kind;
use super::parents;
use crate::error::LockError;

/// Where the nodes of a semaphore's permits are.
pub(crate) const LEASES: &str = "leases";

/// A recipe that is recognised by the names of its nodes; see
/// [`LockError::ForeignNode`](crate::LockError::ForeignNode).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recipe {
    /// A [`Mutex`](crate::Mutex) with the usual lock name.
    Mutex,
    /// A [`RwLock`](crate::RwLock).
    ReadWriteLock,
    /// A [`Semaphore`](crate::Semaphore), or a [`SemaphoreMutex`](crate::SemaphoreMutex).
    Semaphore,
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "mutex",
            Self::ReadWriteLock => "read-write lock",
            Self::Semaphore => "semaphore",
        })
    }
}

/// The recipe whose nodes have such names. `None` for names that none of the recipes gives.
fn recipe_of(name: &[u8]) -> Option<Recipe> {
    let (front, number) = name.split_last_chunk::<10>()?;
    let ends_in = |lock_name: &str| front.ends_with(lock_name.as_bytes());
    if !number.iter().all(u8::is_ascii_digit) {
        None
    } else if ends_in("lock-") {
        Some(Recipe::Mutex)
    } else if ends_in("__READ__") || ends_in("__WRIT__") {
        Some(Recipe::ReadWriteLock)
    } else {
        ends_in("lease-").then_some(Recipe::Semaphore)
    }
}

/// Whether a list has a node in which a semaphore keeps its leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leases {
    /// It has no such node.
    None,
    /// It has a node of that name.
    MayBe,
}

/// Checks that the queue has no nodes of other recipes than this one.
///
/// # Errors
/// [`LockError::ForeignNode`].
pub(crate) fn refuse_in_queue(
    kind: &Kind,
    recipe: Recipe,
    names: &ChildList,
) -> Result<Leases, LockError> {
    // The lock name of a mutex may end like that of another recipe.
    let is_own = |name: &[u8]| matches!(kind.rule().key(name), Key::Number(_));
    let mut leases = Leases::None;
    for name in names {
        if name == LEASES.as_bytes() {
            leases = Leases::MayBe;
        } else if let Some(other) = recipe_of(name).filter(|other| *other != recipe)
            && !is_own(name)
        {
            return Err(foreign(&kind.path, parents::child(&kind.path, &lossy(name)), other));
        }
    }
    Ok(leases)
}

/// Checks that the node `leases` is not that of a semaphore at the path.
///
/// # Errors
/// [`LockError::ForeignNode`], or a failed request.
pub(crate) async fn refuse_leases(client: &Client, path: &str) -> Result<(), LockError> {
    let leases = parents::child(path, LEASES);
    let Some(children) = answer(client, &leases, None).await? else { return Ok(()) };
    let lease = children.names.into_iter().find(|name| recipe_of(name) == Some(Recipe::Semaphore));
    match lease {
        Some(lease) => {
            Err(foreign(path, parents::child(&leases, &lossy(lease)), Recipe::Semaphore))
        }
        None if children.names.is_empty() && was_used(&children) => {
            Err(foreign(path, leases, Recipe::Semaphore))
        }
        None => Ok(()), // not a semaphore's
    }
}

/// Whether the node ever had a child. If not, no server removes it, and a semaphore that comes with its
/// first lease lists the path again.
fn was_used(children: &Children) -> bool {
    children.stat.cversion > 0
}

/// Checks that a semaphore whose node `leases` does not exist may make it.
///
/// # Errors
/// [`LockError::ForeignNode`], or a failed request.
pub(crate) async fn refuse_before_leases(client: &Client, leases: &str) -> Result<(), LockError> {
    refuse_beside_semaphore(client, parents::above(leases).unwrap_or("/"), None).await
}

/// Checks that the path of a semaphore has no nodes of other recipes. `listed` saves a request, if
/// there is an answer already.
///
/// # Errors
/// [`LockError::ForeignNode`], or a failed request.
pub(crate) async fn refuse_beside_semaphore(
    client: &Client,
    path: &str,
    listed: Option<Result<Children, Error>>,
) -> Result<(), LockError> {
    let Some(children) = answer(client, path, listed).await? else { return Ok(()) };
    for name in &children.names {
        if let Some(other) = recipe_of(name).filter(|other| *other != Recipe::Semaphore) {
            return Err(foreign(path, parents::child(path, &lossy(name)), other));
        }
    }
    Ok(())
}

/// The children of a node. `None` if the node does not exist, or this client may not read it.
async fn answer(
    client: &Client,
    path: &str,
    mut listed: Option<Result<Children, Error>>,
) -> Result<Option<Children>, LockError> {
    let mut attempts = Attempts::default();
    loop {
        let answer = match listed.take() {
            Some(listed) => listed,
            None => client.get_children(path).await,
        };
        match answer {
            Ok(children) => return Ok(Some(children)),
            Err(error)
                if [Some(ErrorCode::NO_NODE), Some(ErrorCode::NO_AUTH)].contains(&error.code()) =>
            {
                return Ok(None);
            }
            Err(error) => attempts.again(client, error).await?,
        }
    }
}

fn lossy(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(name)
}

fn foreign(path: &str, node: String, recipe: Recipe) -> LockError {
    LockError::ForeignNode { path: path.to_owned(), node, recipe }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recipe_is_known_by_lock_name_and_number() {
        let of = |name: &str| recipe_of(name.as_bytes());
        let uuid = "_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-";
        for prefix in ["", uuid] {
            let of = |name: &str| of(&format!("{prefix}{name}"));
            assert_eq!(of("lock-0000000007"), Some(Recipe::Mutex));
            assert_eq!(of("__READ__0000000007"), Some(Recipe::ReadWriteLock));
            assert_eq!(of("__WRIT__0000000007"), Some(Recipe::ReadWriteLock));
            assert_eq!(of("lease-0000000007"), Some(Recipe::Semaphore));
        }
        for name in ["", "0000000007", "lock-7", "lock-000000000x", "latch-0000000007", "locks"] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
