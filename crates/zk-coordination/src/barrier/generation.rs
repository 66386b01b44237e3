//! Generations of a double barrier: the node `ready`, and the end of a generation.

use std::borrow::Cow;

use bytes::Bytes;
use zk_recipes::session::{Children, Client, Error, ErrorCode, NodeData, path};

use crate::requests::{repeat, retry, unless};

/// Name of the node that exists while a barrier is open.
pub(super) const READY: &str = "ready";

/// The node `ready`. Its `czxid` identifies the generation.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) czxid: i64,
    /// The `czxid` of the newest member in the generation, if this crate has created the node.
    newest: Option<i64>,
}

impl Ready {
    /// Returns the data of a node `ready`, for a generation whose newest member has this `czxid`.
    pub(super) fn data(newest: i64) -> String {
        format!("{PREFIX}{newest:x}")
    }

    fn of(NodeData { data, stat, .. }: NodeData) -> Self {
        Self { czxid: stat.czxid, newest: newest(&data.unwrap_or_default()) }
    }

    /// Returns true if a live member with this `czxid` belongs to the generation. Curator counts
    /// every member that was there when it opened the barrier.
    pub(super) fn admits(&self, czxid: i64) -> bool {
        self.newest.map_or(czxid < self.czxid, |newest| czxid <= newest)
    }
}

/// Reads the data of a node `ready`. Curator's nodes have other data.
fn newest(data: &[u8]) -> Option<i64> {
    let digits = std::str::from_utf8(data).ok()?.strip_prefix(PREFIX)?;
    i64::from_str_radix(digits, 16).ok()
}

/// Beginning of the data of a node `ready`.
const PREFIX: &str = "newest member 0x";

/// Returns the names of the members among a barrier's children.
pub(super) fn members(children: &Children) -> Vec<String> {
    let names = children.names.names().filter(|name| name != READY);
    names.map(Cow::into_owned).collect()
}

/// Waits until all members of the generation with this `ready` have left the barrier, and deletes
/// `ready`.
///
/// It watches one member at a time, the first one by name, and lists the members again when that one
/// has gone. Each waiter so lists them some `ln(n)` times, and not once for each member.
pub(super) async fn wait_for_end(client: &Client, barrier: &str, ready: i64) -> Result<(), Error> {
    let retry = retry(client);
    loop {
        let remaining = retry.run(|client| remaining(client.clone(), barrier, ready)).await?;
        let Some(Remaining { members, version }) = remaining else { return Ok(()) };
        let Some(first) = members.iter().min() else {
            match delete_ready(client, barrier, version).await? {
                true => return Ok(()),
                false => continue,
            }
        };
        let first = path::child(barrier, first);
        let (stat, watch) = retry.run(|client| client.exists_and_watch(&first)).await?;
        if stat.is_some() {
            drop(watch.await?);
        }
    }
}

/// Remaining members of a generation.
struct Remaining {
    members: Vec<String>,
    /// A version of the barrier's node in this generation.
    version: i32,
}

/// Lists the members of a generation. Returns `None` if it is over: its `ready` does not exist.
///
/// `ready` is read last, so the list and the version are from before the end of the generation. No
/// member of a later generation is in the list.
async fn remaining(client: Client, barrier: &str, ready: i64) -> Result<Option<Remaining>, Error> {
    let (children, now) = {
        let _one_write = client.batch();
        (client.get_children(barrier), client.exists(&path::child(barrier, READY)))
    };
    let children = unless(ErrorCode::NO_NODE, children.await)?;
    let (Some(children), Some(now)) = (children, now.await?) else { return Ok(None) };
    let remaining = Remaining { members: members(&children), version: children.stat.version };
    Ok(Some(remaining).filter(|_| now.czxid == ready))
}

/// Deletes `ready`, unless the barrier's node has another version: a later generation has opened, or
/// a client has changed the data. Returns false then.
async fn delete_ready(client: &Client, barrier: &str, version: i32) -> Result<bool, Error> {
    let ready = path::child(barrier, READY);
    let delete = || client.multi().check(barrier, Some(version)).delete(&ready, None).send();
    let deleted = repeat(client, delete).await.reply;
    let deleted = unless(ErrorCode::BAD_VERSION, unless(ErrorCode::NO_NODE, deleted))?;
    Ok(deleted.is_some())
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
    Ok(Some(View { version: node.stat.version, data: node.data.unwrap_or_default(), ready }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_read_back_from_its_data() {
        assert_eq!(Ready::data(0x1_0000_002a), "newest member 0x10000002a");
        assert_eq!(newest(Ready::data(i64::MAX).as_bytes()), Some(i64::MAX));
        for other in ["", "127.0.0.1", "newest member 0x", "newest member 0xg"] {
            assert_eq!(newest(other.as_bytes()), None, "{other}");
        }
    }
}
