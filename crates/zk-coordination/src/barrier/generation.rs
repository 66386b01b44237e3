//! Generations of a double barrier: the node `ready`, and the end of a generation.

use std::borrow::Cow;

use bytes::Bytes;
use futures::future::select;
use zk_recipes::session::{
    Children, Client, CreateMode, Error, ErrorCode, NodeData, Watch, Zxid, path,
};

use super::double::DoubleBarrier;
use super::member_node::MemberNode;
use crate::requests::{repeat, retry, unless};

/// Name of the node that exists while a barrier is open.
pub(super) const READY: &str = "ready";

/// Beginning of the names of the nodes that [`close`] creates.
const CLOSER: &str = "closing-";

/// The node `ready`. Its `czxid` identifies the generation.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) czxid: Zxid,
    /// The `czxid` of the newest member in the generation, if this crate has created the node.
    newest: Option<Zxid>,
}

impl Ready {
    /// Returns the data of a node `ready`, for a generation whose newest member has this `czxid`.
    pub(super) fn data(newest: Zxid) -> String {
        format!("{PREFIX}{newest}")
    }

    fn of(NodeData { data, stat, .. }: NodeData) -> Self {
        Self { czxid: stat.czxid, newest: newest(&data) }
    }

    /// Returns true if a live member with this `czxid` belongs to the generation. Curator counts
    /// every member that was there when it opened the barrier.
    pub(super) fn admits(&self, czxid: Zxid) -> bool {
        self.newest.map_or(czxid < self.czxid, |newest| czxid <= newest)
    }
}

/// Reads the data of a node `ready`. Curator's nodes have other data.
fn newest(data: &[u8]) -> Option<Zxid> {
    std::str::from_utf8(data).ok()?.strip_prefix(PREFIX)?.parse().ok()
}

/// Beginning of the data of a node `ready`.
const PREFIX: &str = "newest member ";

pub(super) fn members(children: &Children) -> Vec<String> {
    let names = children.names.names().filter(|name| name != READY && !name.starts_with(CLOSER));
    names.map(Cow::into_owned).collect()
}

/// Waits until the member with this name is the only one of its generation, if it is the first by name.
///
/// A member of Curator's that has deleted its node watches the first one. When that one has gone and one
/// member is left, it takes that one for the first, and leaves.
pub(super) async fn wait_for_others(
    barrier: &DoubleBarrier,
    ready: Zxid,
    own: &str,
) -> Result<(), Error> {
    let DoubleBarrier { client, path, .. } = barrier;
    let read = |client: &Client| remaining(client.clone(), path, ready);
    while let Some(Remaining { members, end }) = retry(client).run(read).await? {
        let is_first = members.iter().min().is_some_and(|first| first == own);
        let Some(last) = members.iter().max().filter(|last| is_first && *last != own) else {
            break;
        };
        let last = path::child(path, last);
        let (stat, watch) = retry(client).run(|client| client.exists_and_watch(&last)).await?;
        if stat.is_some() {
            select(watch, end).await.factor_first().0?;
        }
    }
    Ok(())
}

/// Waits until all members of the generation with this `ready` have left the barrier, and deletes
/// `ready`.
///
/// It watches `ready`, and of the members one at a time, the first one by name. When that one has gone,
/// it lists the members again. Each waiter so lists them some `ln(n)` times, and not once for each
/// member. Curator deletes `ready` while members are inside if a `leave` times out. The members that
/// remain then belong to the next generation, and only the watch on `ready` ends the wait.
pub(super) async fn wait_for_end(barrier: &DoubleBarrier, ready: Zxid) -> Result<(), Error> {
    let DoubleBarrier { client, path, .. } = barrier;
    while let Some((first, end)) = first_remaining(barrier, ready).await? {
        let first = path::child(path, &first);
        let (stat, watch) = retry(client).run(|client| client.exists_and_watch(&first)).await?;
        if stat.is_some() {
            select(watch, end).await.factor_first().0?;
        }
    }
    Ok(())
}

/// Returns the first member by name of the generation with this `ready`, and the watch on `ready`. If all
/// members have left, it deletes `ready`. Returns `None` if the generation is over.
pub(super) async fn first_remaining(
    barrier: &DoubleBarrier,
    ready: Zxid,
) -> Result<Option<(String, Watch)>, Error> {
    let DoubleBarrier { client, path, .. } = barrier;
    let read = |client: &Client| remaining(client.clone(), path, ready);
    let Some(Remaining { members, end }) = retry(client).run(read).await? else { return Ok(None) };
    match members.into_iter().min() {
        Some(first) => Ok(Some((first, end))),
        None => close(barrier, ready).await.map(|()| None),
    }
}

/// Remaining members of a generation.
struct Remaining {
    members: Vec<String>,
    /// The watch on `ready`.
    end: Watch,
}

/// Lists the members of a generation. Returns `None` if it is over: its `ready` does not exist.
///
/// `ready` is read last, so the list is from before the end of the generation. No member of a later
/// generation is in the list.
async fn remaining(client: Client, barrier: &str, ready: Zxid) -> Result<Option<Remaining>, Error> {
    let (children, now) = {
        let _one_write = client.batch();
        (client.get_children(barrier), client.exists_and_watch(&path::child(barrier, READY)))
    };
    let children = unless(ErrorCode::NO_NODE, children.await)?;
    let (now, end) = now.await?;
    let (Some(children), Some(now)) = (children, now) else { return Ok(None) };
    if now.czxid != ready {
        return Ok(None);
    }
    Ok(Some(Remaining { members: members(&children), end }))
}

/// Deletes the `ready` of a generation without members, and no other one.
///
/// No request can be conditional on a `czxid`. A condition on the version of the barrier's node is not
/// enough. The servers may delete the empty container, and the next one has the same versions again.
/// So the transaction also deletes an ephemeral node that this call has created below the barrier,
/// with a name that was never used before:
///
/// 1. The container is not deleted while the node exists. So the version is one of the container that
///    the call has read, and no generation has opened in between.
/// 2. The transaction is applied at most once, because its node then no longer exists. So it can be
///    repeated after a lost reply, and a delayed one does no harm.
///
/// Members do not count these nodes. Those of Curator do, so they may wait for one, but not for long.
async fn close(barrier: &DoubleBarrier, ready: Zxid) -> Result<(), Error> {
    let DoubleBarrier { client, path: barrier, acl, .. } = barrier;
    let (own, ready_path) =
        ([CLOSER, &path::random_uuid(client)].concat(), path::child(barrier, READY));
    let own = path::child(barrier, &own);
    // Before the request, so that a node is deleted if the reply is lost.
    let mut closer = MemberNode::new(client, own.clone());
    let (mode, acl) = (CreateMode::Ephemeral, acl.entries());
    let created = retry(client).create_with_acl(&own, b"", mode, acl).await;
    if unless(ErrorCode::NO_NODE, created)?.is_none() {
        closer.set_deleted(); // with the container
        return Ok(());
    }
    loop {
        let seen = retry(client).run(|client| view(client.clone(), barrier)).await?;
        let is_open = |view: &View| view.ready.as_ref().is_some_and(|now| now.czxid == ready);
        let Some(View { version, .. }) = seen.filter(is_open) else {
            return closer.delete().await;
        };
        let delete = || {
            let conditions = client.multi().check(barrier, Some(version));
            conditions.delete(&own, None).delete(&ready_path, None).send()
        };
        match repeat(client, delete).await.reply {
            Ok(_) => {
                closer.set_deleted();
                return Ok(());
            }
            // Another client has closed the barrier, or an earlier attempt.
            Err(error) if error.is_no_node() => return closer.delete().await,
            // A client has changed the data of the barrier's node.
            Err(error) if error.is_bad_version() => {}
            Err(error) => return Err(error),
        }
    }
}

/// The barrier's node, and `ready`.
pub(super) struct View {
    /// The version of the barrier's node, which was read before the rest.
    pub(super) version: i32,
    /// The data of the barrier's node.
    pub(super) data: Bytes,
    pub(super) ready: Option<Ready>,
}

/// Reads the barrier's node, and then `ready`. Returns `None` if the barrier's node does not exist.
pub(super) async fn view(client: Client, barrier: &str) -> Result<Option<View>, Error> {
    let (node, ready) = {
        let _one_write = client.batch();
        (client.get_data(barrier), client.get_data(&path::child(barrier, READY)))
    };
    let Some(node) = unless(ErrorCode::NO_NODE, node.await)? else { return Ok(None) };
    let ready = unless(ErrorCode::NO_NODE, ready.await)?.map(Ready::of);
    Ok(Some(View { version: node.stat.version, data: node.data, ready }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_read_back_from_its_data() {
        assert_eq!(Ready::data(Zxid(0x1_0000_002a)), "newest member 0x10000002a");
        assert_eq!(newest(Ready::data(Zxid(i64::MAX)).as_bytes()), Some(Zxid(i64::MAX)));
        for other in ["", "127.0.0.1", "newest member 0x", "newest member 0xg"] {
            assert_eq!(newest(other.as_bytes()), None, "{other}");
        }
    }
}
