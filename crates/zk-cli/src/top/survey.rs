//! The locks below a path: who holds them, and who waits.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use zk_recipes::Mutex;
use zk_recipes::session::{Client, Error, ErrorCode, NodeData, Pending, Retry, Stat, path};

use crate::participants::who;
use crate::subtree::{READS_AT_ONCE, or_again, walk};

/// A lock that somebody holds or waits for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockRow {
    pub(crate) path: String,
    pub(crate) kind: LockKind,
    /// The first in line, or the number of readers or of leases of a semaphore.
    pub(crate) holder: String,
    /// Time since the holder is in the queue.
    pub(crate) since: Option<Duration>,
    pub(crate) waiters: usize,
    /// Time since the first waiter is in the queue.
    pub(crate) longest_wait: Option<Duration>,
    /// Holders per second since the last look, if there was one.
    pub(crate) handoffs: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Mutex,
    /// Candidates, as of Curator's `LeaderLatch`.
    Election,
    ReadWrite,
    Semaphore,
}

impl LockKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Election => "election",
            Self::ReadWrite => "read-write",
            Self::Semaphore => "semaphore",
        }
    }
}

/// Looks at the locks again and again, and remembers the last look.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The number of the first in line of each lock, and when it was read.
    last: HashMap<String, (u32, Instant)>,
    /// Whether the root has existed.
    has_root: bool,
}

impl Survey {
    /// Lists the locks at `root` and below. A root that has vanished since the last look has none:
    /// servers remove a container when its last child is deleted.
    pub(crate) async fn look(
        &mut self,
        client: &Client,
        retry: &Retry,
        root: &str,
        now: (Instant, SystemTime),
    ) -> Result<Vec<LockRow>, Error> {
        let queues = match queues(client, retry, root).await {
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) && self.has_root => Vec::new(),
            found => found?,
        };
        self.has_root = true;
        let mut rows = Vec::with_capacity(queues.len());
        for chunk in queues.chunks(READS_AT_ONCE) {
            let asked: Vec<_> = chunk.iter().map(|queue| queue.read_ends(client)).collect();
            for (queue, (first, waiter)) in chunk.iter().zip(asked) {
                let first = answer(retry, queue.first(), first).await?;
                let waiter = answer(retry, queue.first_waiter(), waiter).await?;
                let holders = match (queue.kind, &waiter) {
                    (LockKind::Semaphore, Some(waiter)) => held(retry, queue, &waiter.stat).await?,
                    _ => queue.holders(),
                };
                rows.push(self.row(queue, holders, first.as_ref(), waiter.as_ref(), now));
            }
        }
        rows.sort_by(|one, other| one.path.cmp(&other.path));
        self.last.retain(|path, _| rows.binary_search_by(|row| row.path.cmp(path)).is_ok());
        Ok(rows)
    }

    fn row(
        &mut self,
        queue: &Queue,
        holders: usize,
        first: Option<&NodeData>,
        waiter: Option<&NodeData>,
        (at, wall): (Instant, SystemTime),
    ) -> LockRow {
        let age = |node: &NodeData| {
            let created = u64::try_from(node.stat.ctime_ms).unwrap_or(0);
            let created = SystemTime::UNIX_EPOCH + Duration::from_millis(created);
            wall.duration_since(created).unwrap_or_default()
        };
        let holder = match (queue.kind, holders) {
            (LockKind::Semaphore, _) => format!("{holders} leases"),
            (LockKind::ReadWrite, 2..) => format!("{holders} readers"),
            _ => {
                first.map(|node| who(node.data.as_deref().unwrap_or_default())).unwrap_or_default()
            }
        };
        let handoffs = queue.names.first().and_then(|(number, _)| {
            let last = self.last.insert(queue.path.clone(), (*number, at));
            last.filter(|_| matches!(queue.kind, LockKind::Mutex | LockKind::Election))
                .and_then(|last| rate(last, (*number, at)))
        });
        LockRow {
            path: queue.path.clone(),
            kind: queue.kind,
            holder,
            since: first.map(age),
            waiters: queue.waiters(),
            longest_wait: waiter.map(age),
            handoffs,
        }
    }
}

/// Returns the number of leases of a semaphore that are held. The last ones may be those that the first
/// waiter has created and waits for; see `zk participants --semaphore`.
async fn held(retry: &Retry, queue: &Queue, waiter: &Stat) -> Result<usize, Error> {
    let mut held = queue.names.len();
    for (_, lease) in queue.names.iter().rev() {
        let is_of_waiter = match visible(retry.exists(lease).await)?.flatten() {
            Some(stat) => {
                stat.ephemeral_owner == waiter.ephemeral_owner && stat.czxid > waiter.czxid
            }
            // It was released meanwhile.
            None => true,
        };
        if !is_of_waiter {
            break;
        }
        held -= 1;
    }
    Ok(held)
}

/// Returns the holders per second between two looks at the first in line. Contenders that gave up
/// in between count as well.
fn rate((from, since): (u32, Instant), (to, at): (u32, Instant)) -> Option<f64> {
    let seconds = at.checked_duration_since(since)?.as_secs_f64();
    let passed = to.checked_sub(from)?;
    (seconds > 0.0).then(|| f64::from(passed) / seconds)
}

/// Returns the answer about a node, or `None` if it has left the queue, or may not be read.
async fn answer(
    retry: &Retry,
    path: Option<&str>,
    asked: Option<Pending<NodeData>>,
) -> Result<Option<NodeData>, Error> {
    let (Some(path), Some(asked)) = (path, asked) else { return Ok(None) };
    visible(or_again(asked, || retry.get_data(path)).await)
}

/// Returns `None` for a node that is gone, or that this client may not read.
fn visible<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if matches!(error.code(), Some(ErrorCode::NO_NODE | ErrorCode::NO_AUTH)) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The contenders of one lock, in order, with the numbers at the end of their names.
struct Queue {
    path: String,
    kind: LockKind,
    names: Vec<(u32, String)>,
    /// Contenders that wait for a semaphore: for their turn or, as the first one, for their permits.
    turns: Vec<(u32, String)>,
}

impl Queue {
    /// Returns how many hold the lock, by the order of the queue.
    fn holders(&self) -> usize {
        match self.kind {
            LockKind::Mutex | LockKind::Election => self.names.len().min(1),
            LockKind::Semaphore => self.names.len(),
            LockKind::ReadWrite => {
                let readers = self.names.iter().take_while(|(_, path)| path.contains(READ)).count();
                readers.max(self.names.len().min(1))
            }
        }
    }

    fn waiters(&self) -> usize {
        match self.kind {
            LockKind::Semaphore => self.turns.len(),
            _ => self.names.len() - self.holders(),
        }
    }

    fn first(&self) -> Option<&str> {
        self.names.first().map(|(_, path)| path.as_str())
    }

    fn first_waiter(&self) -> Option<&str> {
        let waiter = match self.kind {
            LockKind::Semaphore => self.turns.first(),
            _ => self.names.get(self.holders()),
        };
        waiter.map(|(_, path)| path.as_str())
    }

    /// Requests the first in line, and the first waiter.
    fn read_ends(&self, client: &Client) -> (Option<Pending<NodeData>>, Option<Pending<NodeData>>) {
        let read = |path: Option<&str>| path.map(|path| client.get_data(path));
        (read(self.first()), read(self.first_waiter()))
    }
}

/// Part of the names of readers.
const READ: &str = "-__READ__";

/// Finds the locks at `root` and below. Nodes that vanish meanwhile, or that this client may not
/// read, are left out.
async fn queues(client: &Client, retry: &Retry, root: &str) -> Result<Vec<Queue>, Error> {
    let mut found = HashMap::new();
    let mut turns = Vec::new();
    walk(client, retry, root, |node, children| {
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
        if let Some(kind) = kind {
            names.sort();
            let is_leases = kind == LockKind::Semaphore && path::file_name(node) == "leases";
            let path = path::parent(node).filter(|_| is_leases).unwrap_or(node).to_owned();
            if kind == LockKind::Mutex && path::file_name(node) == "locks" {
                turns.push(node.to_owned());
            }
            found.insert(path.clone(), Queue { path, kind, names, turns: Vec::new() });
        }
        below
    })
    .await?;
    // The queue for the turns of a semaphore is no lock of its own.
    for node in turns {
        let is_part = |queue: &Queue| queue.kind == LockKind::Semaphore;
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
fn contender(name: &str) -> Option<(LockKind, u32)> {
    let (text, digits) = name.split_at_checked(name.len().checked_sub(10)?)?;
    let number = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))?;
    let kind = match text {
        text if text.ends_with("lock-") => LockKind::Mutex,
        text if text.ends_with(Mutex::LEADER_LATCH) => LockKind::Election,
        text if text.ends_with("__READ__") || text.ends_with("__WRIT__") => LockKind::ReadWrite,
        text if text.ends_with("lease-") => LockKind::Semaphore,
        _ => return None,
    };
    Some((kind, number))
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
            Queue { path: "/l".to_owned(), kind: LockKind::ReadWrite, names, turns: Vec::new() }
        };
        let counted = |sides| (queue(sides).holders(), queue(sides).waiters());
        assert_eq!(counted(&["READ", "READ", "WRIT", "READ"]), (2, 2));
        assert_eq!(counted(&["WRIT", "READ"]), (1, 1));
        assert_eq!(counted(&["READ"]), (1, 0));
        assert_eq!(counted(&[]), (0, 0));
    }

    #[test]
    fn rate_counts_the_numbers_between_two_looks() {
        let begin = crate::top::now().0;
        let later = begin + Duration::from_secs(2);
        assert_eq!(rate((5, begin), (25, later)), Some(10.0));
        assert_eq!(rate((5, begin), (5, later)), Some(0.0));
        assert_eq!(rate((5, begin), (1, later)), None, "the lock was removed in between");
        assert_eq!(rate((5, begin), (6, begin)), None);
    }
}
