//! The queues of the locks below a path.

use std::collections::HashMap;

use zk_recipes::Mutex;
use zk_recipes::session::{Client, NodeData, Pending, Stat, Zxid, path};

use crate::failure::Failure;
use crate::sessions::Session;
use crate::subtree::walk;

/// The kind of a queue, by the names of its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueKind {
    Mutex,
    /// Candidates, as of Curator's `LeaderLatch`.
    Election,
    ReadWrite,
    Semaphore,
}

impl QueueKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Election => "election",
            Self::ReadWrite => "read-write",
            Self::Semaphore => "semaphore",
        }
    }
}

/// The contenders of one lock, in order, with the numbers at the end of their names.
pub(super) struct Queue {
    pub(super) path: String,
    /// The node that has the contenders: of a semaphore, the one for its leases.
    pub(super) node: String,
    pub(super) changes: ChildChanges,
    pub(super) kind: QueueKind,
    pub(super) names: Vec<(u32, String)>,
    /// Contenders that wait for a semaphore: for their turn or, as the first one, for their permits.
    pub(super) turns: Vec<(u32, String)>,
}

impl Queue {
    /// Returns how many hold the lock, by the order of the queue.
    pub(super) fn holders(&self) -> usize {
        match self.kind {
            QueueKind::Mutex | QueueKind::Election => self.names.len().min(1),
            QueueKind::Semaphore => self.names.len(),
            QueueKind::ReadWrite => {
                let readers = self.names.iter().take_while(|(_, path)| path.contains(READ)).count();
                readers.max(self.names.len().min(1))
            }
        }
    }

    pub(super) fn waiters(&self) -> usize {
        match self.kind {
            QueueKind::Semaphore => self.turns.len(),
            _ => self.names.len() - self.holders(),
        }
    }

    pub(super) fn first(&self) -> Option<&str> {
        self.names.first().map(|(_, path)| path.as_str())
    }

    pub(super) fn first_waiter(&self) -> Option<&str> {
        let waiter = match self.kind {
            QueueKind::Semaphore => self.turns.first(),
            _ => self.names.get(self.holders()),
        };
        waiter.map(|(_, path)| path.as_str())
    }

    /// Requests the first in line, and the first waiter.
    pub(super) fn read_ends(
        &self,
        client: &Client,
    ) -> (Option<Pending<NodeData>>, Option<Pending<NodeData>>) {
        let read = |path: Option<&str>| path.map(|path| client.get_data(path));
        (read(self.first()), read(self.first_waiter()))
    }
}

/// Part of the names of readers.
const READ: &str = "-__READ__";

/// Finds the locks at `root` and below. A node without contenders is one if its kind is `known`. Nodes
/// that vanish meanwhile, or that this client may not read, are left out.
pub(super) async fn queues(
    session: &Session,
    root: &str,
    known: impl Fn(&str) -> Option<QueueKind>,
) -> Result<Vec<Queue>, Failure> {
    let mut found = HashMap::new();
    let mut turns = Vec::new();
    walk(session, root, &mut |node, children| {
        let (mut names, mut kind, mut below) = (Vec::new(), None, Vec::new());
        for name in children.names.names() {
            let child = path::child(node, &name);
            match contender(&name) {
                Some((its, number)) => {
                    kind = Some(its);
                    names.push((number, child));
                }
                None => below.push(child),
            }
        }
        if let Some(kind) = kind.or_else(|| known(node)) {
            names.sort();
            let is_leases = kind == QueueKind::Semaphore && path::file_name(node) == "leases";
            let path = if is_leases { path::parent(node).unwrap_or(node) } else { node }.to_owned();
            if kind == QueueKind::Mutex && path::file_name(node) == "locks" {
                turns.push(node.to_owned());
            }
            let queue = Queue {
                path: path.clone(),
                node: node.to_owned(),
                changes: ChildChanges::of(&children.stat),
                kind,
                names,
                turns: Vec::new(),
            };
            found.insert(path, queue);
        }
        below
    })
    .await?;
    // The queue for the turns of a semaphore is no lock of its own.
    for node in turns {
        let is_part = |queue: &Queue| queue.kind == QueueKind::Semaphore;
        let whole = path::parent(&node).unwrap_or("/");
        if found.get(whole).is_some_and(is_part) {
            let waiting = found.remove(&node).map(|queue| queue.names).unwrap_or_default();
            if let Some(semaphore) = found.get_mut(whole) {
                semaphore.turns = waiting;
            }
        }
    }
    Ok(found.into_values().collect())
}

/// Returns the kind of lock that a name belongs to, and the number at its end.
fn contender(name: &str) -> Option<(QueueKind, u32)> {
    let (text, digits) = name.split_at_checked(name.len().checked_sub(10)?)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = digits.parse().ok()?;
    let kind = match text {
        text if text.ends_with("lock-") => QueueKind::Mutex,
        text if text.ends_with(Mutex::LEADER_LATCH) => QueueKind::Election,
        text if text.ends_with("__READ__") || text.ends_with("__WRIT__") => QueueKind::ReadWrite,
        text if text.ends_with("lease-") => QueueKind::Semaphore,
        _ => return None,
    };
    Some((kind, number))
}

/// The changes of a node's children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChildChanges {
    /// The zxid that created the node.
    czxid: Zxid,
    /// Twice the number of children that were deleted. It wraps around.
    deletions: i32,
}

impl ChildChanges {
    pub(super) fn of(stat: &Stat) -> Self {
        // Servers count a creation and a deletion as one change each (`DataNode.copyStat`).
        let deletions = stat.cversion.wrapping_sub(stat.num_children);
        Self { czxid: stat.czxid, deletions }
    }

    /// Returns the number of children that were deleted since, if it is the same node.
    pub(super) fn since(self, earlier: Self) -> Option<u32> {
        if self.czxid != earlier.czxid {
            return None;
        }
        let twice = self.deletions.wrapping_sub(earlier.deletions);
        u32::try_from(twice / 2).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_are_told_from_other_nodes() {
        let kind = |name| contender(name).map(|(kind, number)| (kind.name(), number));
        assert_eq!(kind("_c_3f-lock-0000000007"), Some(("mutex", 7)));
        assert_eq!(kind("_c_3f-__WRIT__0000000010"), Some(("read-write", 10)));
        assert_eq!(kind("_c_3f-lease-0000000001"), Some(("semaphore", 1)));
        assert_eq!(kind("_c_3f-latch-0000000002"), Some(("election", 2)));
        for other in ["locks", "leases", "lock-00000000x1", "ä-lock-000", "", "item-0000000001"] {
            assert_eq!(kind(other), None, "{other}");
        }
    }

    #[test]
    fn readers_before_the_first_writer_hold_the_lock() {
        let queue = |sides: &[&str]| {
            let named = (0_u32..).zip(sides);
            let names =
                named.map(|(at, side)| (at, format!("/l/_c_1-__{side}__{at:010}"))).collect();
            Queue {
                path: "/l".to_owned(),
                node: "/l".to_owned(),
                changes: ChildChanges::of(&Stat::default()),
                kind: QueueKind::ReadWrite,
                names,
                turns: Vec::new(),
            }
        };
        let counted = |sides| (queue(sides).holders(), queue(sides).waiters());
        assert_eq!(counted(&["READ", "READ", "WRIT", "READ"]), (2, 2));
        assert_eq!(counted(&["WRIT", "READ"]), (1, 1));
        assert_eq!(counted(&["READ"]), (1, 0));
        assert_eq!(counted(&[]), (0, 0));
    }
}
