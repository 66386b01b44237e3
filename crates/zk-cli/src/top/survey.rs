//! The locks below a path: who holds them, and who waits.

use std::collections::HashMap;
use std::time::SystemTime;

use zk_recipes::session::{Error, NodeData, Stat, Zxid, path};
use zk_recipes::{Mutex, Recipe};

use crate::at_once::{Answer, AtOnce, ask, ask_each, visible};
use crate::participants::who;
use crate::prelude::{Duration, Instant, Result, Session, Sessions, clock};
use crate::sessions::wall_clock;
use crate::subtree::walk;

/// A lock that somebody holds or waits for, or that somebody used a short time ago.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockRow {
    pub(crate) path: String,
    pub(crate) kind: Recipe,
    /// The first in line, or the number of readers or of leases of a semaphore; empty if there is none.
    pub(crate) holder: String,
    /// Time since the holder is in the queue.
    pub(crate) since: Option<Duration>,
    pub(crate) waiters: usize,
    /// Time since the first waiter is in the queue.
    pub(crate) longest_wait: Option<Duration>,
    /// Contenders that have left the queue per second since the last look, if there was one.
    pub(crate) handoffs: Option<f64>,
}

/// Looks at the locks again and again, and remembers the last look.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The last look at each lock, by the path of the node that has the contenders.
    last: HashMap<String, Seen>,
    /// Whether the root has existed.
    has_root: bool,
}

/// State of a lock at the last look.
#[derive(Clone, Copy, Debug)]
struct Seen {
    kind: Recipe,
    changes: ChildChanges,
    at: Instant,
    /// Time of the last look that found contenders, or that some have come and gone.
    used: Instant,
}

impl Survey {
    /// Lists the locks at `root` and below. A lock that was seen before stays in the list for
    /// [`KEPT`] after its last use: many looks at a busy lock fall between two holders.
    ///
    /// A root that has vanished since the last look has none: servers remove a container when its
    /// last child is deleted.
    pub(crate) async fn look(&mut self, all: &mut Sessions, root: &str) -> Result<Vec<LockRow>> {
        let look =
            async |session: &Session| session.run_connected(self.read(session, root)).await?;
        all.run(None, look).await
    }

    async fn read(&mut self, session: &Session, root: &str) -> Result<Vec<LockRow>> {
        let known = |node: &str| self.last.get(node).map(|seen| seen.kind);
        let queues = match queues(session, root, known).await {
            Err(failure) if failure.is_no_node() && self.has_root => Vec::new(),
            found => found?,
        };
        self.has_root = true;
        let now = clock();
        let mut rows = Vec::with_capacity(queues.len());
        let mut seen = HashMap::new();
        let at_once = &mut AtOnce::default();
        ask_each(&queues, at_once, |queue| queue.read_ends(session), &mut |queue, ends| {
            let last = self.last.get(&queue.node);
            let now_seen = Seen::of(queue, last, now);
            if now.saturating_duration_since(now_seen.used) <= KEPT {
                let handoffs = last.and_then(|last| rate(last, &now_seen));
                rows.push(LockRow { handoffs, ..queue.row(&ends?) });
                seen.insert(queue.node.clone(), now_seen);
            }
            Ok::<_, Error>(())
        })
        .await?;
        self.last = seen;
        rows.sort_by(|one, other| one.path.cmp(&other.path));
        Ok(rows)
    }
}

impl Seen {
    fn of(queue: &Queue, last: Option<&Self>, at: Instant) -> Self {
        let Queue { kind, changes, .. } = *queue;
        let is_used = !queue.names.is_empty() || !queue.turns.is_empty();
        let used = match last {
            Some(last) if !is_used && last.changes == changes => last.used,
            _ => at,
        };
        Self { kind, changes, at, used }
    }
}

/// Time for which an unused lock stays in the list.
const KEPT: Duration = Duration::from_secs(60);

impl Queue {
    /// Returns the row of the lock, without the hand-offs.
    fn row(&self, Ends { first, waiter, holders }: &Ends) -> LockRow {
        let age = |node: &NodeData| {
            let created = u64::try_from(node.stat.ctime_ms).unwrap_or(0);
            let created = SystemTime::UNIX_EPOCH + Duration::from_millis(created);
            wall_clock().duration_since(created).unwrap_or_default()
        };
        let holder = match (self.kind, holders) {
            (Recipe::Semaphore, 1) => "1 lease".to_owned(),
            (Recipe::Semaphore, _) => format!("{holders} leases"),
            (Recipe::ReadWriteLock, 2..) => format!("{holders} readers"),
            _ => first.as_ref().map(|node| who(&node.data)).unwrap_or_default(),
        };
        LockRow {
            path: self.path.clone(),
            kind: self.kind,
            holder,
            since: first.as_ref().map(age),
            waiters: self.waiters(),
            longest_wait: waiter.as_ref().map(age),
            handoffs: None,
        }
    }
}

/// The ends of a queue, unless they have left it, or may not be read.
struct Ends {
    first: Option<NodeData>,
    waiter: Option<NodeData>,
    holders: usize,
}

impl Answer for Ends {
    fn memory(&self) -> usize {
        [&self.first, &self.waiter].into_iter().flatten().map(Answer::memory).sum()
    }
}

/// Returns the number of leases of a semaphore that are held. The last ones may be those that the first
/// waiter has created and waits for; see `zk participants --semaphore`.
async fn held(session: &Session, queue: &Queue, waiter: &Stat) -> Result<usize, Error> {
    let mut held = queue.names.len();
    for lease in queue.names.iter().rev() {
        let is_of_waiter = match visible(session.retry.exists(lease).await)?.flatten() {
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

/// Returns the contenders that have left the queue per second between two looks. Contenders that gave
/// up count as well.
fn rate(last: &Seen, seen: &Seen) -> Option<f64> {
    let seconds = seen.at.checked_duration_since(last.at)?.as_secs_f64();
    let passed = seen.changes.since(last.changes)?;
    (seconds > 0.0).then(|| f64::from(passed) / seconds)
}

/// Returns the name of a kind of locks in the table.
pub(super) fn kind_name(kind: Recipe) -> &'static str {
    match kind {
        Recipe::Election => "election",
        Recipe::ReadWriteLock => "read-write",
        Recipe::Semaphore => "semaphore",
        _ => "mutex",
    }
}

/// The paths of the contenders of one lock, in order.
pub(super) struct Queue {
    pub(super) path: String,
    /// The node that has the contenders: of a semaphore, the one for its leases.
    pub(super) node: String,
    pub(super) changes: ChildChanges,
    pub(super) kind: Recipe,
    pub(super) names: Vec<String>,
    /// Contenders that wait for a semaphore: for their turn or, as the first one, for their permits.
    pub(super) turns: Vec<String>,
}

impl Queue {
    /// Returns how many hold the lock, by the order of the queue.
    pub(super) fn holders(&self) -> usize {
        match self.kind {
            Recipe::Semaphore => self.names.len(),
            Recipe::ReadWriteLock => {
                let readers = self.names.iter().take_while(|path| path.contains(READ)).count();
                readers.max(self.names.len().min(1))
            }
            _ => self.names.len().min(1),
        }
    }

    pub(super) fn waiters(&self) -> usize {
        match self.kind {
            Recipe::Semaphore => self.turns.len(),
            _ => self.names.len() - self.holders(),
        }
    }

    pub(super) fn first(&self) -> Option<&str> {
        self.names.first().map(String::as_str)
    }

    pub(super) fn first_waiter(&self) -> Option<&str> {
        let waiter = match self.kind {
            Recipe::Semaphore => self.turns.first(),
            _ => self.names.get(self.holders()),
        };
        waiter.map(String::as_str)
    }

    /// Requests the first in line, and the first waiter.
    fn read_ends<'a>(
        &'a self,
        session: &'a Session,
    ) -> impl Future<Output = Result<Ends, Error>> + use<'a> {
        let read = |path| ask(session, move |client| client.get_data(path));
        let (first, waiter) = (self.first().map(read), self.first_waiter().map(read));
        async move {
            let first = seen(first).await?;
            let waiter = seen(waiter).await?;
            let holders = match (self.kind, &waiter) {
                (Recipe::Semaphore, Some(waiter)) => held(session, self, &waiter.stat).await?,
                _ => self.holders(),
            };
            Ok(Ends { first, waiter, holders })
        }
    }
}

/// Returns the answer to a request, if there is one, unless it may not be seen.
async fn seen<T>(
    asked: Option<impl Future<Output = Result<T, Error>>>,
) -> Result<Option<T>, Error> {
    match asked {
        Some(asked) => visible(asked.await),
        None => Ok(None),
    }
}

/// Part of the names of readers.
const READ: &str = "-__READ__";

/// Finds the locks at `root` and below. A node without contenders is one if its kind is `known`. Nodes
/// that vanish meanwhile, or that this client may not read, are left out.
pub(super) async fn queues(
    session: &Session,
    root: &str,
    known: impl Fn(&str) -> Option<Recipe>,
) -> Result<Vec<Queue>> {
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
            let names = names.into_iter().map(|(_, path)| path).collect();
            let is_leases = kind == Recipe::Semaphore && path::file_name(node) == "leases";
            let path = if is_leases { path::parent(node).unwrap_or(node) } else { node }.to_owned();
            if kind == Recipe::Mutex && path::file_name(node) == "locks" {
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
        let is_part = |queue: &Queue| queue.kind == Recipe::Semaphore;
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
fn contender(name: &str) -> Option<(Recipe, u32)> {
    let (text, digits) = name.split_at_checked(name.len().checked_sub(10)?)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = digits.parse().ok()?;
    let kind = match text {
        text if text.ends_with("lock-") => Recipe::Mutex,
        text if text.ends_with(Mutex::LEADER_LATCH) => Recipe::Election,
        text if text.ends_with("__READ__") || text.ends_with("__WRIT__") => Recipe::ReadWriteLock,
        text if text.ends_with("lease-") => Recipe::Semaphore,
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
    use zk_recipes::session::Zxid;

    use super::*;

    #[test]
    fn rate_counts_the_deletions_between_two_looks() {
        let begin = clock();
        let looked = |seconds, czxid, cversion, num_children| {
            let czxid = Zxid(czxid);
            let stat = Stat { czxid, cversion, num_children, ..Stat::default() };
            let at = begin + Duration::from_secs(seconds);
            Seen { kind: Recipe::Mutex, changes: ChildChanges::of(&stat), at, used: at }
        };
        // 12 created and 10 deleted, then 32 created and 30 deleted.
        assert_eq!(rate(&looked(0, 1, 22, 2), &looked(2, 1, 62, 2)), Some(10.0));
        assert_eq!(rate(&looked(0, 1, 22, 2), &looked(2, 1, 22, 2)), Some(0.0));
        assert_eq!(rate(&looked(0, 1, i32::MAX, 1), &looked(1, 1, i32::MIN + 1, 1)), Some(1.0));
        assert_eq!(rate(&looked(0, 1, 22, 2), &looked(1, 7, 62, 2)), None, "another node");
        assert_eq!(rate(&looked(0, 1, 22, 2), &looked(0, 1, 24, 2)), None);
    }

    #[test]
    fn unused_lock_is_kept_for_a_while() {
        let begin = clock();
        let later = begin + Duration::from_secs(5);
        let queue = |cversion, names: &[&str]| Queue {
            path: "/l".to_owned(),
            node: "/l".to_owned(),
            changes: ChildChanges::of(&Stat { cversion, ..Stat::default() }),
            kind: Recipe::Mutex,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            turns: Vec::new(),
        };
        let first = Seen::of(&queue(1, &["a"]), None, begin);
        let idle = Seen::of(&queue(2, &[]), Some(&first), later);
        assert_eq!((first.used, idle.used), (begin, later), "a contender has left");
        let later = later + Duration::from_secs(5);
        assert_eq!(Seen::of(&queue(2, &[]), Some(&idle), later).used, idle.used);
        assert_eq!(Seen::of(&queue(2, &["a"]), Some(&idle), later).used, later);
    }

    #[test]
    fn contenders_are_told_from_other_nodes() {
        let kind = |name| contender(name).map(|(kind, number)| (kind_name(kind), number));
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
            let names = named.map(|(at, side)| format!("/l/_c_1-__{side}__{at:010}")).collect();
            Queue {
                path: "/l".to_owned(),
                node: "/l".to_owned(),
                changes: ChildChanges::of(&Stat::default()),
                kind: Recipe::ReadWriteLock,
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
