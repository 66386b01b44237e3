//! Access control lists of the nodes that the recipes create.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::future::try_join;
use zk_coordination::session::{Acl, ErrorCode, Perms, SessionManager};
use zk_coordination::{
    AtomicLong, AtomicValue, Barrier, DoubleBarrier, GroupMember, PersistentNode,
};
use zk_testing::{Op, TestServer};

use crate::{T, client, config, sessions};

/// Permits everything but a change of the list.
fn acl() -> Vec<Acl> {
    vec![Acl::world(Perms::READ | Perms::WRITE | Perms::CREATE | Perms::DELETE)]
}

/// The nodes that have ever existed below the root, with their lists.
#[derive(Clone, Default)]
struct Lists(Arc<Mutex<BTreeMap<String, Vec<Acl>>>>);

impl Lists {
    fn of(server: &TestServer) -> Self {
        let lists = Self::default();
        let seen = lists.clone();
        server.with(|ensemble| {
            ensemble.observe(move |tree, _| {
                let ours = tree.iter().filter(|(path, _)| !path.starts_with("/zookeeper"));
                for (path, node) in ours.filter(|(path, _)| *path != "/") {
                    seen.0.lock().unwrap().insert(path.to_owned(), node.acl().to_vec());
                }
            });
        });
        lists
    }

    /// Expects these nodes, all with the list. A name that ends with `*` stands for one node.
    fn expect(&self, expected: &[&str]) {
        let seen = self.0.lock().unwrap();
        for (path, list) in seen.iter() {
            assert_eq!(*list, acl(), "{path}");
        }
        let is_match = |(seen, expected): (&String, &&str)| match expected.strip_suffix('*') {
            Some(beginning) => seen.starts_with(beginning),
            None => seen == expected,
        };
        let is_complete = seen.len() == expected.len() && seen.keys().zip(expected).all(is_match);
        assert!(is_complete, "{:?}", seen.keys());
    }
}

#[tokio::test(start_paused = true)]
async fn counter_creates_all_nodes_with_the_given_acl() {
    let server = TestServer::in_memory();
    let lists = Lists::of(&server);
    let client = client(&server, 1).await;
    let counter = AtomicLong::new(&client, "/a/count").unwrap();
    let counter = counter.promote_to_lock("/l/lock", 1).unwrap().with_acl(acl());
    counter.add_once("7", 1).await.unwrap();
    server.on(Op::SetData).answer(ErrorCode::BAD_VERSION);
    counter.increment().await.unwrap();
    lists.expect(&["/a", "/a/count", "/a/count/operation-7", "/l", "/l/lock", "/l/lock/_c_*"]);
}

#[tokio::test(start_paused = true)]
async fn value_creates_all_nodes_with_the_given_acl() {
    let server = TestServer::in_memory();
    let lists = Lists::of(&server);
    let client = client(&server, 1).await;
    let value = |path| AtomicValue::new(&client, path).unwrap().with_acl(acl());
    assert!(value("/i/first").initialize("1").await.unwrap());
    value("/s/second").set("2").await.unwrap();
    let third = value("/u/third").promote_to_lock("/u/lock", 1).unwrap();
    server.on(Op::SetData).answer(ErrorCode::BAD_VERSION);
    third.update(|_| Some("3".into())).await.unwrap();
    lists.expect(&[
        "/i",
        "/i/first",
        "/s",
        "/s/second",
        "/u",
        "/u/lock",
        "/u/lock/_c_*",
        "/u/third",
    ]);
}

#[tokio::test(start_paused = true)]
async fn barrier_creates_all_nodes_with_the_given_acl() {
    let server = TestServer::in_memory();
    let lists = Lists::of(&server);
    let client = client(&server, 1).await;
    Barrier::new(&client, "/a/barrier").unwrap().with_acl(acl()).set().await.unwrap();
    lists.expect(&["/a", "/a/barrier"]);
}

#[tokio::test(start_paused = true)]
async fn double_barrier_creates_all_nodes_with_the_given_acl() {
    let server = TestServer::in_memory();
    let lists = Lists::of(&server);
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let barrier = |client| DoubleBarrier::new(client, "/a/barrier", 2).unwrap().with_acl(acl());
    let (one, two) = (barrier(&one), barrier(&two));
    let (mut first, mut second) = try_join(one.enter(), two.enter()).await.unwrap();
    try_join(first.leave(), second.leave()).await.unwrap();
    let seen = lists.0.lock().unwrap().clone();
    assert!(seen.values().all(|list| *list == acl()), "{seen:?}");
    let has = |name: &str| seen.keys().any(|path| path.starts_with(&format!("/a/barrier/{name}")));
    assert!(has("ready") && has("closing-"), "{:?}", seen.keys());
}

#[tokio::test(start_paused = true)]
async fn persistent_node_and_its_parents_have_the_given_acl() {
    let server = TestServer::in_memory();
    let lists = Lists::of(&server);
    let sessions = sessions(&server, 1).await;
    let node = PersistentNode::builder(&sessions, "/a/b/node").acl(acl()).start().unwrap();
    node.wait_until_present(T).await.unwrap();
    let member = GroupMember::join_with(&sessions, "/g/web", "one", "", |node| node.acl(acl()));
    let member = member.unwrap();
    member.wait_until_present(T).await.unwrap();
    lists.expect(&["/a", "/a/b", "/a/b/node", "/g", "/g/web", "/g/web/one"]);
}

/// The list of the parent decides who may delete a node.
#[tokio::test(start_paused = true)]
async fn stranger_may_not_delete_a_node_with_a_restricted_acl() {
    let server = TestServer::in_memory();
    let config = config(1).auth("digest", "ours:secret");
    let sessions = SessionManager::connect(config.connector(server.clone())).await.unwrap();
    let list = [Acl::auth(Perms::ALL)];
    let node = PersistentNode::builder(&sessions, "/services/web").acl(list).start().unwrap();
    node.wait_until_present(T).await.unwrap();
    let stranger = client(&server, 2).await;
    let denied = stranger.delete("/services/web", None).await.unwrap_err();
    assert_eq!(denied.code(), Some(ErrorCode::NO_AUTH));
    node.close().await.unwrap();
}
