//! A client that sends random operations and records them.

use std::future::Future;
use std::pin::Pin;

use zk_session::{
    Client, CreateMode, Error, ErrorCode, ErrorKind, ErrorOrigin, MultiOutcome, Outcome, Stat, Zxid,
};
use zk_testing::Rng;

use crate::record::{Change, Ended, Kind, Level, Node, Open, Recorder, Rejection, Write};

/// A client of the nodes of a history.
pub struct Worker {
    client: Client,
    /// Number of the client in the history.
    number: u32,
    recorder: Recorder,
    root: String,
    rng: Rng,
}

/// An operation that was sent. It returns true if the session is over.
type Sent = Pin<Box<dyn Future<Output = bool> + Send>>;

impl Worker {
    /// Creates a worker on the nodes whose paths begin with `root`. `number` is unique in the history.
    pub fn new(client: Client, number: u32, recorder: &Recorder, root: &str, rng: Rng) -> Self {
        Self { client, number, recorder: recorder.clone(), root: root.to_owned(), rng }
    }

    /// Sends random operations at once, and then waits for them. Returns true if the session is over.
    /// `may_sync` tells whether reads may rely on a `sync`.
    pub fn send(
        &mut self,
        count: u64,
        may_sync: bool,
    ) -> impl Future<Output = bool> + Send + use<> {
        all((0..count).map(|_| self.send_one(may_sync)).collect())
    }

    /// Reads each node with a check by a quorum.
    pub fn read_all(&self) -> impl Future<Output = bool> + Send + use<> {
        let nodes = (0..GROUPS).flat_map(|group| [self.path(group, 0), self.path(group, 1)]);
        all(nodes.map(|path| self.read(path, Level::Quorum)).collect())
    }

    fn send_one(&mut self, may_sync: bool) -> Sent {
        let group = self.rng.below(GROUPS);
        let node = self.rng.below(2);
        let path = self.path(group, node);
        match self.rng.below(14) {
            0..=5 => {
                let change = self.change();
                self.write(path, change)
            }
            6 | 7 => self.transaction(group),
            8 | 9 => self.read(path, Level::Quorum),
            10 | 11 if may_sync => self.read(path, Level::Sync),
            12 => self.exists(path),
            _ => self.read(path, Level::Plain),
        }
    }

    fn path(&self, group: u64, node: u64) -> String {
        format!("{}{group}-{node}", self.root)
    }

    fn change(&mut self) -> Change {
        let number = self.recorder.next_number();
        let version = i32::try_from(self.rng.below(6)).ok().filter(|version| *version < 3);
        match self.rng.below(8) {
            0..=2 => Change::Create(number),
            3..=6 => Change::Set(number, version),
            _ => Change::Delete(version),
        }
    }

    fn write(&self, path: String, change: Change) -> Sent {
        let open = self.begin(Kind::Write(vec![Write { path: path.clone(), change }]));
        match change {
            Change::Create(data) => {
                let sent =
                    self.client.create(&path, text(data), CreateMode::Persistent).with_zxid();
                Box::pin(async move {
                    open.written(sent.await, |made| vec![Some(node(&made.stat, None))])
                })
            }
            Change::Set(data, version) => {
                let sent = self.client.set_data(&path, text(data), version).with_zxid();
                Box::pin(
                    async move { open.written(sent.await, |stat| vec![Some(node(&stat, None))]) },
                )
            }
            Change::Delete(version) => {
                let sent = self.client.delete(&path, version).with_zxid();
                Box::pin(async move { open.written(sent.await, |()| vec![None]) })
            }
        }
    }

    /// Changes both nodes of a group.
    fn transaction(&mut self, group: u64) -> Sent {
        let write = |number| Write { path: self.path(group, number), change: Change::Delete(None) };
        let mut writes = [write(0), write(1)];
        writes.iter_mut().for_each(|write| write.change = self.change());
        let mut multi = self.client.multi();
        let texts = writes.each_ref().map(|write| text(write.change.data().unwrap_or(0)));
        for (Write { path, change }, text) in writes.iter().zip(&texts) {
            multi = match change {
                Change::Create(_) => multi.create(path, text.as_bytes(), CreateMode::Persistent),
                Change::Set(_, version) => multi.set_data(path, text.as_bytes(), *version),
                Change::Delete(version) => multi.delete(path, *version),
            };
        }
        let open = self.begin(Kind::Write(writes.to_vec()));
        let sent = multi.send().with_zxid();
        let seen = |outcome| match outcome {
            MultiOutcome::Created { stat, .. } => stat.map(|stat| node(&stat, None)),
            MultiOutcome::Set(stat) => Some(node(&stat, None)),
            _ => None,
        };
        let all = move |outcomes: Vec<MultiOutcome>| outcomes.into_iter().map(seen).collect();
        Box::pin(async move { open.written(sent.await, all) })
    }

    fn read(&self, path: String, level: Level) -> Sent {
        let open = self.begin(Kind::Read { path: path.clone(), level });
        let client = self.client.weak();
        let lost = client.connections_lost();
        let before = match level {
            Level::Quorum => Some(client.check("/", None)),
            Level::Sync => Some(client.sync(&path)),
            Level::Plain => None,
        };
        let sent = client.get_data(&path).with_zxid();
        Box::pin(async move {
            let is_ready = match before {
                Some(before) => before.await.is_ok(),
                None => true,
            };
            let read = sent.await;
            // A sync is of no use to a read on the next connection.
            let is_lost = level == Level::Sync && lost != client.connections_lost();
            let read =
                read.map(|(data, zxid)| (Some(node(&data.stat, number_in(&data.data))), zxid));
            open.read(read, is_ready && !is_lost)
        })
    }

    fn exists(&self, path: String) -> Sent {
        let open = self.begin(Kind::Read { path: path.clone(), level: Level::Plain });
        let sent = self.client.exists(&path).with_zxid();
        Box::pin(async move {
            let read = sent.await;
            open.read(read.map(|(stat, zxid)| (stat.map(|stat| node(&stat, None)), zxid)), true)
        })
    }

    fn begin(&self, kind: Kind) -> Open {
        self.recorder.begin(self.number, kind)
    }
}

/// Waits for operations in the order in which they were sent, which is that of their replies.
async fn all(operations: Vec<Sent>) -> bool {
    let mut is_over = false;
    for operation in operations {
        is_over |= operation.await;
    }
    is_over
}

type Reply<T> = Result<(T, Option<Zxid>), Error>;

impl Open {
    /// Records the outcome of a write. Returns true if the session is over.
    fn written<T>(self, reply: Reply<T>, seen: impl FnOnce(T) -> Vec<Option<Node>>) -> bool {
        let (ended, zxid, is_over) = match reply {
            Ok((value, zxid)) => (Ended::Applied(seen(value)), zxid, false),
            Err(error) => {
                let is_over = error.origin() == ErrorOrigin::Session;
                (failed(&error), None, is_over)
            }
        };
        self.end(ended, zxid.map(|zxid| zxid.0));
        is_over
    }

    /// Records the result of a read, if it counts. Returns true if the session is over.
    fn read(self, reply: Reply<Option<Node>>, counts: bool) -> bool {
        let (ended, zxid, is_over) = match reply {
            Ok((node, zxid)) => (Ended::Read(node), zxid, false),
            Err(error) if error.is_no_node() => (Ended::Read(None), None, false),
            Err(error) => (Ended::NotApplied, None, error.origin() == ErrorOrigin::Session),
        };
        self.end(if counts { ended } else { Ended::NotApplied }, zxid.map(|zxid| zxid.0));
        is_over
    }
}

/// Returns the outcome of a write that failed.
fn failed(error: &Error) -> Ended {
    let index = if let ErrorKind::RolledBack { index, .. } = error.kind() { *index } else { 0 };
    match (error.outcome(), error.code()) {
        (Outcome::Unknown | Outcome::Applied, _) => Ended::Unknown,
        (_, Some(ErrorCode::NO_NODE)) => Ended::Rejected(index, Rejection::NoNode),
        (_, Some(ErrorCode::NODE_EXISTS)) => Ended::Rejected(index, Rejection::NodeExists),
        (_, Some(ErrorCode::BAD_VERSION)) => Ended::Rejected(index, Rejection::BadVersion),
        (Outcome::NotApplied, _) => Ended::NotApplied,
    }
}

fn node(stat: &Stat, data: Option<u64>) -> Node {
    let Stat { czxid, mzxid, version, .. } = *stat;
    Node { czxid: czxid.0, mzxid: mzxid.0, version, data }
}

fn text(data: u64) -> String {
    data.to_string()
}

fn number_in(data: &[u8]) -> Option<u64> {
    std::str::from_utf8(data).ok()?.parse().ok()
}

/// Each group has two nodes.
const GROUPS: u64 = 3;
