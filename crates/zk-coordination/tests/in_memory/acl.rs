//! Access control lists of the nodes that the recipes create.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::future::try_join;
use zk_coordination::session::{Acl, ErrorCode, Perms};
use zk_coordination::{
    AtomicLong, AtomicValue, Barrier, DoubleBarrier, GroupMember, PersistentNode,
};
use zk_testing::{Op, TestServer};

use crate::{T, client, config, manager, more_clients, sessions};

/// Permits everything but a change of the list.
fn acl() -> Vec<Acl> {
    vec![Acl::world(Perms::READ | Perms::WRITE | Perms::CREATE | Perms::DELETE)]
}

/// Lets a recipe create its nodes, and expects these nodes, all with the list. A name that ends with `*`
/// stands for one node or several.
async fn expect_acl(create: impl AsyncFnOnce(&TestServer), expected: &[&str]) {
    let server = TestServer::in_memory();
    let lists = Arc::new(Mutex::new(BTreeMap::<String, Vec<Acl>>::new()));
    let seen = Arc::clone(&lists);
    server.with(|ensemble| {
        ensemble.observe(move |tree, _| {
            let ours = tree.iter().filter(|(path, _)| !path.starts_with("/zookeeper"));
            for (path, node) in ours.filter(|(path, _)| *path != "/") {
                seen.lock().unwrap().insert(path.to_owned(), node.acl().to_vec());
            }
        });
    });
    create(&server).await;
    let lists = lists.lock().unwrap().clone();
    let is_like = |path: &str, name: &str| match name.strip_suffix('*') {
        Some(beginning) => path.starts_with(beginning),
        None => path == name,
    };
    let name = |path: &String| expected.iter().rev().find(|name| is_like(path, name));
    let names: BTreeSet<_> = lists.keys().map(|path| *name(path).unwrap_or(&&**path)).collect();
    assert!(names.iter().eq(expected), "{:?}", lists.keys());
    assert!(lists.values().all(|list| *list == acl()), "{lists:?}");
}

#[tokio::test(start_paused = true)]
async fn atomic_creates_all_nodes_with_the_given_acl() {
    let count = async |server: &TestServer| {
        let counter = AtomicLong::new(&client(server, 1).await, "/a/count").unwrap();
        let counter = counter.promote_to_lock("/l/lock", 1).unwrap().with_acl(acl());
        counter.add_once("7", 1).await.unwrap();
        server.on(Op::SetData).answer(ErrorCode::BAD_VERSION);
        counter.increment().await.unwrap();
    };
    let nodes = ["/a", "/a/count", "/a/count/operation-7", "/l", "/l/lock", "/l/lock/_c_*"];
    expect_acl(count, &nodes).await;
    let set = async |server: &TestServer| {
        let client = client(server, 1).await;
        let value = |path| AtomicValue::new(&client, path).unwrap().with_acl(acl());
        assert!(value("/i/first").initialize("1").await.unwrap());
        value("/s/second").set("2").await.unwrap();
        let third = value("/u/third").promote_to_lock("/u/lock", 1).unwrap();
        server.on(Op::SetData).answer(ErrorCode::BAD_VERSION);
        third.update(|_| Some("3".into())).await.unwrap();
    };
    let nodes = ["/i", "/i/first", "/s", "/s/second", "/u", "/u/lock", "/u/lock/_c_*", "/u/third"];
    expect_acl(set, &nodes).await;
}

#[tokio::test(start_paused = true)]
async fn barrier_creates_all_nodes_with_the_given_acl() {
    let set = async |server: &TestServer| {
        let barrier = Barrier::new(&client(server, 1).await, "/a/barrier").unwrap();
        barrier.with_acl(acl()).set().await.unwrap();
    };
    expect_acl(set, &["/a", "/a/barrier"]).await;
    let enter = async |server: &TestServer| {
        let [one, two] = more_clients(server, 1)
            .await
            .map(|client| DoubleBarrier::new(&client, "/a/double", 2).unwrap().with_acl(acl()));
        let (mut first, mut second) = try_join(one.enter(), two.enter()).await.unwrap();
        try_join(first.leave(), second.leave()).await.unwrap();
    };
    let nodes = ["/a", "/a/double", "/a/double/*", "/a/double/closing-*", "/a/double/ready"];
    expect_acl(enter, &nodes).await;
}

#[tokio::test(start_paused = true)]
async fn persistent_node_and_its_parents_have_the_given_acl() {
    let keep = async |server: &TestServer| {
        let sessions = sessions(server, 1).await;
        let node = PersistentNode::builder(&sessions, "/a/b/node").acl(acl()).start().unwrap();
        node.wait_until_present(T).await.unwrap();
        let member = GroupMember::join_with(&sessions, "/g/web", "one", "", |node| node.acl(acl()));
        member.unwrap().wait_until_present(T).await.unwrap();
    };
    expect_acl(keep, &["/a", "/a/b", "/a/b/node", "/g", "/g/web", "/g/web/one"]).await;
}

/// The list of the parent decides who may delete a node.
#[tokio::test(start_paused = true)]
async fn stranger_may_not_delete_a_node_with_a_restricted_acl() {
    let server = TestServer::in_memory();
    let sessions = manager(&server, config(1).auth("digest", "ours:secret")).await;
    let list = [Acl::auth(Perms::ALL)];
    let node = PersistentNode::builder(&sessions, "/services/web").acl(list).start().unwrap();
    node.wait_until_present(T).await.unwrap();
    let denied = client(&server, 2).await.delete("/services/web", None).await.unwrap_err();
    assert_eq!(denied.code(), Some(ErrorCode::NO_AUTH));
    node.close().await.unwrap();
}
