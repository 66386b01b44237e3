//! The locks below a path: who holds them, and who waits.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use zk_recipes::ContenderInfo;
use zk_recipes::session::{Client, Error, ErrorCode, NodeData, Retry, path};

use crate::output::data_text;

/// A lock that somebody holds or waits for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockRow {
    pub(crate) path: String,
    pub(crate) kind: LockKind,
    /// The first in line, or the number of leases of a semaphore.
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
    ReadWrite,
    Semaphore,
}

impl LockKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
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
}

impl Survey {
    /// Lists the locks at `root` and below.
    pub(crate) async fn look(
        &mut self,
        client: &Client,
        retry: &Retry,
        root: &str,
        now: (Instant, SystemTime),
    ) -> Result<Vec<LockRow>, Error> {
        let mut rows = Vec::new();
        for queue in queues(client, retry, root).await? {
            rows.push(self.row(client, queue, now).await?);
        }
        rows.sort_by(|one, other| one.path.cmp(&other.path));
        self.last.retain(|path, _| rows.iter().any(|row| row.path == *path));
        Ok(rows)
    }

    async fn row(
        &mut self,
        client: &Client,
        queue: Queue,
        (at, wall): (Instant, SystemTime),
    ) -> Result<LockRow, Error> {
        let Queue { path, kind, names, turns } = queue;
        let node = |place: usize| names.get(place).map(|name| client.get_data(&name.1));
        let asked = (node(0), if kind == LockKind::Semaphore { None } else { node(1) });
        let first = seen(asked.0).await?;
        let second = seen(asked.1).await?;
        let age = |node: &NodeData| {
            let created = u64::try_from(node.stat.ctime_ms).unwrap_or(0);
            let created = SystemTime::UNIX_EPOCH + Duration::from_millis(created);
            wall.duration_since(created).unwrap_or_default()
        };
        let (holder, waiters) = match kind {
            LockKind::Semaphore => (format!("{} leases", names.len()), turns),
            _ => (first.as_ref().map(holder).unwrap_or_default(), names.len().saturating_sub(1)),
        };
        let handoffs = names.first().and_then(|(number, _)| {
            let last = self.last.insert(path.clone(), (*number, at));
            last.filter(|_| kind == LockKind::Mutex).and_then(|last| rate(last, (*number, at)))
        });
        let (since, longest_wait) = (first.as_ref().map(age), second.as_ref().map(age));
        Ok(LockRow { path, kind, holder, since, waiters, longest_wait, handoffs })
    }
}

/// Returns the holders per second between two looks at the first in line. Contenders that gave up
/// in between count as well.
fn rate((from, since): (u32, Instant), (to, at): (u32, Instant)) -> Option<f64> {
    let seconds = at.checked_duration_since(since)?.as_secs_f64();
    let passed = to.checked_sub(from)?;
    (seconds > 0.0).then(|| f64::from(passed) / seconds)
}

/// Returns the first words that tell who it is.
fn holder(node: &NodeData) -> String {
    let data = node.data.as_deref().unwrap_or_default();
    let Some(info) = ContenderInfo::parse(data) else { return data_text(data) };
    let name = info.name.unwrap_or_default();
    let place = info.host.unwrap_or_else(|| info.address.to_string());
    let process = info.process_id.map(|id| format!(":{id}")).unwrap_or_default();
    data_text(format!("{name} {place}{process}").trim_start().as_bytes())
}

async fn seen<F>(asked: Option<F>) -> Result<Option<NodeData>, Error>
where
    F: Future<Output = Result<NodeData, Error>>,
{
    let Some(asked) = asked else { return Ok(None) };
    match asked.await {
        Ok(node) => Ok(Some(node)),
        // It has left the queue, or may not be read.
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
    /// Number of contenders that wait for the turn at a semaphore.
    turns: usize,
}

/// Finds the locks at `root` and below. Nodes that vanish meanwhile are left out.
async fn queues(client: &Client, retry: &Retry, root: &str) -> Result<Vec<Queue>, Error> {
    let mut found: HashMap<String, Queue> = HashMap::new();
    let mut turns: HashMap<String, usize> = HashMap::new();
    let mut level = vec![root.to_owned()];
    // Also the root must exist.
    retry.run(|client| client.get_children(root)).await?;
    while !level.is_empty() {
        let mut next = Vec::new();
        for chunk in level.chunks(LISTS_AT_ONCE) {
            let asked: Vec<_> = chunk.iter().map(|path| client.get_children(path)).collect();
            for (node, asked) in chunk.iter().zip(asked) {
                let children = match asked.await {
                    Ok(children) => children,
                    Err(error)
                        if matches!(
                            error.code(),
                            Some(ErrorCode::NO_NODE | ErrorCode::NO_AUTH)
                        ) =>
                    {
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                let mut names = Vec::new();
                let mut kind = None;
                for name in children.names.iter() {
                    let text = String::from_utf8_lossy(name);
                    match contender(&text) {
                        Some((its, number)) => {
                            kind = Some(its);
                            names.push((number, path::child(node, &text)));
                        }
                        None => next.push(path::child(node, &text)),
                    }
                }
                let Some(kind) = kind else { continue };
                names.sort();
                let is_part = |name| path::file_name(node) == name && path::parent(node).is_some();
                let whole = path::parent(node).unwrap_or("/").to_owned();
                if kind == LockKind::Semaphore && is_part("leases") {
                    let queue = Queue { path: whole.clone(), kind, names, turns: 0 };
                    found.insert(whole, queue);
                } else if kind == LockKind::Mutex && is_part("locks") {
                    turns.insert(whole, names.len());
                    found.insert(node.clone(), Queue { path: node.clone(), kind, names, turns: 0 });
                } else {
                    found.insert(node.clone(), Queue { path: node.clone(), kind, names, turns: 0 });
                }
            }
        }
        level = next;
    }
    // The queue for the turns of a semaphore is no lock of its own.
    for (whole, waiting) in turns {
        if let Some(semaphore) = found.get_mut(&whole).filter(|it| it.kind == LockKind::Semaphore) {
            semaphore.turns = waiting;
            found.remove(&path::child(&whole, "locks"));
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
        text if text.ends_with("__READ__") || text.ends_with("__WRIT__") => LockKind::ReadWrite,
        text if text.ends_with("lease-") => LockKind::Semaphore,
        _ => return None,
    };
    Some((kind, number))
}

/// Lists that are requested at once.
const LISTS_AT_ONCE: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_are_told_from_other_nodes() {
        let kind = |name| contender(name).map(|(kind, number)| (kind.name(), number));
        assert_eq!(kind("_c_3f-lock-0000000007"), Some(("mutex", 7)));
        assert_eq!(kind("_c_3f-__WRIT__0000000010"), Some(("read-write", 10)));
        assert_eq!(kind("_c_3f-lease-0000000001"), Some(("semaphore", 1)));
        for other in ["locks", "leases", "lock-00000000x1", "ä-lock-000", "", "item-0000000001"] {
            assert_eq!(kind(other), None, "{other}");
        }
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
