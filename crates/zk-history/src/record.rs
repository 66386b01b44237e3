//! The history: each operation with its invocation, its return and its outcome.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An operation on one node, or a transaction on several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One write, or the writes of a transaction.
    Write(Vec<Write>),
    /// A read.
    Read {
        /// Path of the node.
        path: String,
        /// What precedes the read.
        level: Level,
    },
}

/// A change of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    /// Path of the node.
    pub(crate) path: String,
    /// The change.
    pub(crate) change: Change,
}

/// Kind of a change. The data of each write is a number that no other write has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Creates the node with this data.
    Create(u64),
    /// Sets the data, if the node has the version.
    Set(u64, Option<i32>),
    /// Deletes the node, if it has the version.
    Delete(Option<i32>),
}

impl Change {
    /// Returns the number that the node has as data after the change.
    pub(crate) fn data(self) -> Option<u64> {
        match self {
            Self::Create(data) | Self::Set(data, _) => Some(data),
            Self::Delete(_) => None,
        }
    }
}

/// What precedes a read, and so how old its result may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// A check by a quorum: the result is at most as old as the invocation.
    Quorum,
    /// A `sync`. The result is at most as old as the invocation, unless the leader was replaced and has not
    /// noticed (ZOOKEEPER-2136).
    Sync,
    /// Nothing: the result may be old.
    Plain,
}

/// State of a node, as far as a reply shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// The zxid of its creation.
    pub(crate) czxid: i64,
    /// The zxid of its last change.
    pub(crate) mzxid: i64,
    /// Number of changes since its creation.
    pub(crate) version: i32,
    /// The number in its data, if the reply has the data.
    pub(crate) data: Option<u64>,
}

/// Outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The writes were applied. For each one, the node after it, if the reply has it.
    Applied(Vec<Option<Node>>),
    /// The node that was read; `None` if it does not exist.
    Read(Option<Node>),
    /// The server rejected the write with this index, and so applied none.
    Rejected(usize, Rejection),
    /// The operation had no effect, or was a read without a result.
    NotApplied,
    /// The operation may have an effect now, later or never.
    Unknown,
}

/// Reason of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The node does not exist.
    NoNode,
    /// The node exists.
    NodeExists,
    /// The node has another version.
    BadVersion,
}

/// Place of an event in the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    /// Number of the event, which orders all events.
    pub(crate) order: u64,
    /// Time in microseconds, for the reader.
    pub(crate) at_us: u64,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Number of the client. A client that takes over a session has a new number.
    pub(crate) client: u32,
    /// The operation.
    pub(crate) kind: Kind,
    /// When it was invoked.
    pub(crate) invoked: Moment,
    /// When it returned, and how. `None` if it never did.
    pub(crate) returned: Option<(Moment, Ended)>,
    /// The newest transaction that the reply's server had applied.
    pub(crate) zxid: Option<i64>,
}

impl Entry {
    /// Returns the outcome. It is unknown for an operation that never returned.
    pub(crate) fn ended(&self) -> &Ended {
        self.returned.as_ref().map_or(&Ended::Unknown, |(_, ended)| ended)
    }

    /// Returns the zxid of a write that was applied, if its reply has it.
    pub(crate) fn transaction(&self) -> Option<i64> {
        let Ended::Applied(nodes) = self.ended() else { return None };
        self.zxid.or_else(|| nodes.iter().flatten().map(|node| node.mzxid).next())
    }

    /// Returns the paths of the operation, each with the node that the reply shows there.
    pub(crate) fn seen(&self) -> Vec<(&str, Option<&Node>)> {
        match (&self.kind, self.ended()) {
            (Kind::Read { path, .. }, Ended::Read(node)) => vec![(path, node.as_ref())],
            (Kind::Read { path, .. }, _) => vec![(path, None)],
            (Kind::Write(writes), Ended::Applied(nodes)) => writes
                .iter()
                .zip(nodes)
                .map(|(write, node)| (&*write.path, node.as_ref()))
                .collect(),
            (Kind::Write(writes), _) => writes.iter().map(|write| (&*write.path, None)).collect(),
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, kind, invoked, returned, .. } = self;
        write!(f, "{}..", invoked.order)?;
        if let Some((moment, _)) = returned {
            write!(f, "{}", moment.order)?;
        }
        write!(f, " client {client}: {kind:?} -> {:?}", self.ended())
    }
}

/// A history that clients append to. Clones share it.
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    clock_us: Box<dyn Fn() -> u64 + Send + Sync>,
    log: Mutex<Log>,
}

#[derive(Default)]
struct Log {
    entries: Vec<Entry>,
    next: u64,
    numbers: u64,
}

impl Recorder {
    /// Creates an empty history, whose times come from this clock.
    pub fn new(clock_us: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(Shared { clock_us: Box::new(clock_us), log: Mutex::default() }))
    }

    /// Copies the history so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.log().entries.clone()
    }

    /// Returns the number of operations.
    pub fn count(&self) -> usize {
        self.log().entries.len()
    }

    /// Returns a number that no other call returns.
    pub(crate) fn next_number(&self) -> u64 {
        let mut log = self.log();
        log.numbers += 1;
        log.numbers
    }

    /// Records the invocation of an operation, before it is sent.
    pub(crate) fn begin(&self, client: u32, kind: Kind) -> Open {
        let mut log = self.log();
        let invoked = log.moment(&self.0);
        log.entries.push(Entry { client, kind, invoked, returned: None, zxid: None });
        Open { recorder: self.clone(), index: log.entries.len() - 1 }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Log {
    fn moment(&mut self, shared: &Shared) -> Moment {
        self.next += 1;
        Moment { order: self.next, at_us: (shared.clock_us)() }
    }
}

/// An operation that has not returned. If it is dropped, the operation never returns.
pub(crate) struct Open {
    recorder: Recorder,
    index: usize,
}

impl Open {
    /// Records the return of the operation.
    pub(crate) fn end(self, ended: Ended, zxid: Option<i64>) {
        let mut log = self.recorder.log();
        let moment = log.moment(&self.recorder.0);
        let entry = &mut log.entries[self.index];
        (entry.returned, entry.zxid) = (Some((moment, ended)), zxid);
    }
}
