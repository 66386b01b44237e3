//! Nodes of other recipes on a lock's path.
//!
//! A mutex, an election, a read-write lock and a semaphore at one path do not exclude each other. Each recipe
//! creates its own node and then checks for nodes of the others. So if two recipes arrive at the
//! same time, at least one of them detects the other and rejects the path.
//!
//! All but a semaphore check the list that they read in any case. If it contains
//! `leases`, they also list the children of that node. It belongs to a semaphore if it has a lease,
//! or if it had children and has none: an idle semaphore uses its empty node again.
//!
//! A semaphore lists `<path>` before it creates `leases`, so a rejected semaphore leaves no node.
//! It repeats this list with its first lease. After that it does not check again while the node
//! `leases` is the same one: a mutex that arrives later finds that node.
//!
//! An empty `leases` is rejected until the server has removed it, as a container, within a minute
//! or two: an idle semaphore may use it again. A semaphore that arrives at the same time as a mutex,
//! or whose server lags behind, also leaves such a node.

use std::borrow::Cow;

use zk_session::path::{child, parent};
use zk_session::{ChildList, Children, Client, Error, Repeat};

use super::spec::QueueSpec;
use crate::child_order::SequenceKey;
use crate::error::LockError;
use crate::recipe::{LEASES, Recipe};
use crate::retry::{if_exists, retry, retry_after};

/// Checks that no other recipe uses the path of a queue with these names. Returns true if there is a node
/// `leases`, which may become a semaphore's.
///
/// # Errors
/// [`LockError::ForeignNode`], or the error of a failed request.
pub(crate) async fn refuse(
    client: &Client,
    spec: &QueueSpec,
    names: &ChildList,
) -> Result<bool, LockError> {
    let Some(recipe) = spec.exclusive else { return Ok(false) };
    // The lock name of a mutex may end like the lock name of another recipe.
    let is_own = |name: &[u8]| matches!(spec.rule().key(name), SequenceKey::Number(_));
    for name in names.iter() {
        match Recipe::of_name(name) {
            Some(other) if other != recipe && !is_own(name) => {
                return Err(foreign(&spec.path, spec.node(name), other));
            }
            _ => {}
        }
    }
    let has_leases = names.iter().any(|name| name == LEASES.as_bytes());
    if has_leases {
        refuse_leases(client, &spec.path).await?;
    }
    Ok(has_leases)
}

/// Checks that the node `leases` does not belong to a semaphore at the path.
///
/// # Errors
/// [`LockError::ForeignNode`], or the error of a failed request.
async fn refuse_leases(client: &Client, path: &str) -> Result<(), LockError> {
    let leases = child(path, LEASES);
    let Some(children) = answer(client, &leases, None).await? else { return Ok(()) };
    let lease = children.names.iter().find(|name| Recipe::of_name(name) == Some(Recipe::Semaphore));
    match lease {
        Some(lease) => Err(foreign(path, child(&leases, &lossy(lease)), Recipe::Semaphore)),
        None if children.names.is_empty() && was_used(&children) => {
            Err(foreign(path, leases, Recipe::Semaphore))
        }
        None => Ok(()), // no node of a semaphore
    }
}

/// Whether the node ever had a child. If it had none, no server removes it, and a semaphore that
/// creates its first lease there lists the path again.
fn was_used(children: &Children) -> bool {
    children.stat.cversion > 0
}

/// Checks that a semaphore without a node `leases` may create it.
///
/// # Errors
/// [`LockError::ForeignNode`], or the error of a failed request.
pub(crate) async fn refuse_before_leases(client: &Client, leases: &str) -> Result<(), LockError> {
    refuse_beside_semaphore(client, parent(leases).unwrap_or("/"), None).await
}

/// Checks that the path of a semaphore has no nodes of other recipes. `listed` is a list of its
/// children, if one was already requested; it saves a request.
///
/// # Errors
/// [`LockError::ForeignNode`], or the error of a failed request.
pub(crate) async fn refuse_beside_semaphore(
    client: &Client,
    path: &str,
    listed: Option<Result<Children, Error>>,
) -> Result<(), LockError> {
    let Some(children) = answer(client, path, listed).await? else { return Ok(()) };
    for name in children.names.iter() {
        match Recipe::of_name(name) {
            None | Some(Recipe::Semaphore) => {}
            Some(other) => return Err(foreign(path, child(path, &lossy(name)), other)),
        }
    }
    Ok(())
}

/// Returns the children of a node. Returns `None` if the node does not exist, or if this client may
/// not read it.
async fn answer(
    client: &Client,
    path: &str,
    listed: Option<Result<Children, Error>>,
) -> Result<Option<Children>, LockError> {
    let list = || client.get_children(path);
    let answer = match listed {
        Some(Ok(children)) => Ok(children),
        Some(Err(error)) => retry_after(error, client, Repeat::NotApplied, list).await,
        None => retry(client, list).await,
    };
    match answer {
        Err(error) if error.is_no_auth() => Ok(None),
        answer => Ok(if_exists(answer)?),
    }
}

fn lossy(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(name)
}

fn foreign(path: &str, node: String, recipe: Recipe) -> LockError {
    LockError::ForeignNode { path: path.to_owned(), node, recipe }
}
