//! Nodes of other recipes on a lock's path.
//!
//! A mutex, a read-write lock and a semaphore at one path do not exclude each other. Each recipe looks
//! for nodes of the others once for each acquisition, after its own node is there. So of two that
//! come at the same time at least one sees the other and refuses.
//!
//! A mutex and a read-write lock look at the list that they read anyway. A semaphore in use has a
//! node `<path>/leases`: where there is one, its children are listed, too. It counts as a
//! semaphore's if it has none, because one that is used now and then has nodes in it again.
//!
//! A semaphore lists `<path>` after its first lease is there. It need not do so again for as long as
//! the node `leases` is the same: whoever comes later finds it.

use std::borrow::Cow;
use std::fmt;

use zk_session::{ChildList, Children, Client, Error, ErrorCode, Key};

use super::attempts::Attempts;
use super::kind::Kind;
use super::parents;
use crate::error::LockError;

/// Where the nodes of a semaphore's permits are.
pub(crate) const LEASES: &str = "leases";

/// A recipe, by what the names of its nodes look like; see
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

/// What a list tells of a semaphore at the same path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leases {
    /// There is none.
    None,
    /// There is a node of that name.
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
    // A mutex may have another lock name, that ends like those of others.
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
        None if children.names.is_empty() => Err(foreign(path, leases, Recipe::Semaphore)),
        None => Ok(()), // it is somebody else's
    }
}

/// Checks that the path of a semaphore has no nodes of other recipes, by the list that was asked for,
/// if it was.
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

/// The children, by the answer that is there, or by another one if that failed. `None` if there is
/// no such node, or it may not be read.
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
