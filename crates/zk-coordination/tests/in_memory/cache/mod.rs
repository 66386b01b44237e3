//! Tests of the cache, and their helpers.

mod contents;
mod curator_bugs;
mod hidden;
mod lost_requests;
mod random;
mod staleness;
mod subscribers;
mod value;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use futures::FutureExt;
use zk_coordination::session::path::parent;
use zk_coordination::session::{Acl, Client, CreateMode, Perms, SessionManager, Zxid};
use zk_coordination::{Cache, CacheStatus, CachedNode, Change, Changes, Snapshot};
use zk_testing::{Cut, TestServer};

use crate::{T, client, pass, sessions, settle};

/// Starts a server with these nodes, and opens a writer, and the sessions of a cache.
pub(crate) async fn tree(paths: &[&str]) -> (TestServer, Client, SessionManager) {
    let server = TestServer::in_memory();
    let writer = client(&server, 1).await;
    create(&writer, paths).await;
    let sessions = sessions(&server, 2).await;
    (server, writer, sessions)
}

/// Opens a cache of `/app` with these nodes.
async fn cached(paths: &[&str]) -> (TestServer, Client, SessionManager, Cache) {
    let (server, writer, sessions) = tree(paths).await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    (server, writer, sessions, cache)
}

/// Everything but the permission to read.
fn hidden() -> [Acl; 1] {
    [Acl::world(Perms::WRITE | Perms::CREATE | Perms::DELETE | Perms::ADMIN)]
}

async fn hide(writer: &Client, path: &str) {
    writer.set_acl(path, &hidden(), None).await.unwrap();
}

async fn show(writer: &Client, path: &str) {
    writer.set_acl(path, &[Acl::open()], None).await.unwrap();
}

async fn create_hidden(writer: &Client, path: &str) {
    writer.create_with_acl(path, b"", CreateMode::Persistent, &hidden()).await.unwrap();
}

async fn set(writer: &Client, path: &str, data: impl AsRef<[u8]>) {
    writer.set_data(path, data.as_ref(), None).await.unwrap();
}

/// Cuts the connection of a cache.
fn cut(server: &TestServer, sessions: &SessionManager) {
    server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
}

/// Keeps a cache without a connection while `change` runs.
async fn disconnected(server: &TestServer, sessions: &SessionManager, change: impl Future) {
    server.refuse_connects(0);
    cut(server, sessions);
    settle().await;
    change.await;
    server.accept_connects(0);
    pass(T / 4).await; // in which the client reconnects
}

/// Nodes by their paths, as a subscriber that applies each change to them knows them. Each change is
/// checked against the nodes.
pub(crate) struct Replay {
    root: String,
    nodes: BTreeMap<String, Option<Known>>,
}

/// What the changes of a cache tell about a node: `czxid`, `mzxid` and data.
type Known = (Zxid, Zxid, Bytes);

fn known(node: &CachedNode) -> Known {
    (node.stat().czxid, node.stat().mzxid, node.data().clone())
}

impl Replay {
    pub(crate) fn new(changes: &Changes) -> Self {
        let snapshot = changes.snapshot().unwrap();
        Self { root: snapshot.root().to_owned(), nodes: nodes(snapshot) }
    }

    /// Applies the changes that have arrived.
    pub(crate) fn apply_all(&mut self, changes: &mut Changes) {
        while let Some(Some(change)) = changes.next().now_or_never() {
            self.apply(changes, &change);
        }
    }

    pub(crate) fn apply(&mut self, changes: &Changes, change: &Change) {
        match change {
            Change::Created { new } => {
                let path = new.path();
                assert!(
                    !matches!(self.nodes.get(path), Some(Some(_))),
                    "{path} exists: {change:?}"
                );
                self.expect_parent(path);
                self.nodes.insert(path.to_owned(), Some(known(new)));
            }
            Change::DataChanged { old, new } => {
                assert_eq!(self.nodes.get(new.path()), Some(&Some(known(old))));
                assert_eq!(old.stat().czxid, new.stat().czxid);
                assert!(old.stat().mzxid < new.stat().mzxid, "{change:?} goes back");
                self.nodes.insert(new.path().to_owned(), Some(known(new)));
            }
            Change::Deleted { path, old } => {
                let old = old.as_deref().map(known);
                assert_eq!(self.nodes.remove(&**path), Some(old), "{change:?}");
                let left = self.nodes.keys().find(|one| parent(one) == Some(path));
                assert_eq!(left, None, "{path} was deleted before its child");
            }
            Change::Unreadable { path, old } => {
                self.expect_parent(path);
                let before = self.nodes.insert(path.to_string(), None);
                assert_eq!(before.unwrap_or_default(), old.as_deref().map(known), "{change:?}");
            }
            Change::Missed(_) => *self = Self::new(changes),
            Change::Stale | Change::Synced { .. } | Change::Stopped(_) => {}
            other => panic!("unknown change {other:?}"),
        }
    }

    pub(crate) fn assert_same(&self, snapshot: &Snapshot) {
        assert_eq!(self.nodes, nodes(snapshot));
    }

    fn expect_parent(&self, path: &str) {
        let parent = parent(path).unwrap_or_default();
        assert!(path == self.root || self.nodes.contains_key(parent), "{path} before its parent");
    }
}

/// Returns the nodes of a snapshot, and checks its order.
fn nodes(snapshot: &Snapshot) -> BTreeMap<String, Option<Known>> {
    let readable = snapshot.iter().map(|node| (node.path().to_owned(), Some(known(node))));
    let nodes: BTreeMap<_, _> =
        readable.chain(snapshot.unreadable().map(|path| (path.to_owned(), None))).collect();
    assert_eq!(nodes.len(), snapshot.len());
    nodes
}

/// Asserts that a snapshot of readable nodes has the tree of the server below its root.
pub(crate) fn assert_is_tree(snapshot: &Snapshot, server: &TestServer) {
    let root = snapshot.root();
    let below = format!("{}/", root.trim_end_matches('/'));
    let expected: BTreeMap<_, _> = server.with(|ensemble| {
        let nodes = ensemble.tree().iter();
        let nodes = nodes.filter(|(path, _)| *path == root || path.starts_with(&below));
        let known = nodes.map(|(path, node)| {
            let data = Bytes::copy_from_slice(node.data().unwrap_or_default());
            (path.to_owned(), Some((node.stat().czxid, node.stat().mzxid, data)))
        });
        known.collect()
    });
    assert_eq!(nodes(snapshot), expected);
    let listed: BTreeSet<_> = snapshot.children(root).map(|node| node.path()).collect();
    let children = expected.keys().filter(|path| *path != root && parent(path) == Some(root));
    assert_eq!(listed, children.map(String::as_str).collect());
}

pub(crate) async fn create(client: &Client, paths: &[&str]) {
    for path in paths {
        client.create(path, path.as_bytes(), CreateMode::Persistent).await.unwrap();
    }
}

/// Returns the paths of a snapshot, in its order.
pub(crate) fn paths(snapshot: &Snapshot) -> Vec<String> {
    snapshot.iter().map(|node| node.path().to_owned()).collect()
}

/// Waits until the cache is synced and no task is ready.
pub(crate) async fn synced(cache: &Cache) {
    cache.wait_until_synced().await.unwrap();
    settle().await;
    assert_eq!(cache.status(), CacheStatus::Synced);
}

/// Returns the changes that have arrived, as one word and a path each.
pub(crate) async fn words(changes: &mut Changes) -> Vec<String> {
    settle().await;
    let mut words = Vec::new();
    while let Some(Some(change)) = changes.next().now_or_never() {
        words.push(word(&change));
    }
    words
}

fn word(change: &Change) -> String {
    let path = change.path().unwrap_or_default();
    match change {
        Change::Created { .. } => format!("created {path}"),
        Change::DataChanged { .. } => format!("changed {path}"),
        Change::Deleted { .. } => format!("deleted {path}"),
        Change::Unreadable { .. } => format!("unreadable {path}"),
        Change::Stale => "stale".into(),
        Change::Synced { .. } => "synced".into(),
        Change::Missed(count) => format!("missed {count}"),
        other => format!("{other:?}"),
    }
}
