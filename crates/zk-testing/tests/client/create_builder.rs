//! Tests of the builder for new nodes.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use zk_session::{
    Acl, Client, CreateMode, ErrorCode, ErrorKind, Outcome, ParentMode, Perms, RetryPolicy,
    limits::CREATE_ATTEMPTS_MAX,
};
use zk_testing::{Cut, Op, SessionId};

use crate::cancellation::polled;
use crate::in_memory::{connected, until_reconnected};

async fn names(client: &Client, path: &str) -> Vec<String> {
    let children = client.get_children(path).await.unwrap();
    let mut names: Vec<String> = children.names.names().map(Into::into).collect();
    names.sort();
    names
}

#[tokio::test(start_paused = true)]
async fn create_builder_sets_requested_mode_and_acl() {
    let (server, [client]) = connected().await;
    let plain = client.create_builder("/p").create().await.unwrap();
    assert_eq!((plain.path.as_str(), plain.stat.ephemeral_owner), ("/p", SessionId::NONE));
    let readable = [Acl::world(Perms::READ)];
    let new = client.create_builder("/e-").data(b"x").ephemeral().sequential().acl(&readable);
    let created = new.create().await.unwrap();
    assert_eq!(created.path, "/e-0000000001");
    assert_eq!(created.stat.ephemeral_owner, client.session_id());
    assert_eq!(client.get_acl(&created.path).await.unwrap().acl, readable);
    let new = client.create_builder("/m-").mode(CreateMode::EphemeralSequential);
    assert_eq!(new.create().await.unwrap().path, "/m-0000000002");
    let new = client.create_builder("/c-").container().sequential();
    let container = new.create().await.unwrap().path;
    assert_eq!(container, "/c-0000000003");
    let new = client.create_builder("/t-").ttl(Duration::from_secs(5)).sequential();
    assert_eq!(new.create().await.unwrap().path, "/t-0000000004");

    client.create_builder(format!("{container}/a")).create().await.unwrap();
    client.delete(&format!("{container}/a"), None).await.unwrap();
    server.skew_clock(10_000);
    server.reap_containers();
    assert_eq!(names(&client, "/").await, ["e-0000000001", "m-0000000002", "p", "zookeeper"]);
}

#[tokio::test(start_paused = true)]
async fn missing_parents_are_created_with_their_acl() {
    let (_server, [client]) = connected().await;
    let (own, above) = ([Acl::world(Perms::READ)], [Acl::world(Perms::READ | Perms::CREATE)]);
    let new = |path| client.create_builder(path).acl(&own).parents(ParentMode::Containers);
    new("/a/b/c").parents_acl(&above).create().await.unwrap();
    let ephemeral = new("/d/e").ephemeral().protected();
    ephemeral.parents_acl(&above).create().await.unwrap();
    new("/f/g").create().await.unwrap();
    for path in ["/a", "/a/b", "/d"] {
        assert_eq!(client.get_acl(path).await.unwrap().acl, above, "{path}");
    }
    assert_eq!(client.get_acl("/a/b/c").await.unwrap().acl, own);
    assert_eq!(client.get_acl("/f").await.unwrap().acl, [Acl::open()]);
}

#[tokio::test(start_paused = true)]
async fn missing_parents_are_created_in_requested_mode() {
    let (server, [client]) = connected().await;
    let error = client.create_builder("/a/b/c").create().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NO_NODE));
    client.create_builder("/a/b/c").parents(ParentMode::Persistent).create().await.unwrap();
    let inside = client.chroot("/a").unwrap();
    inside
        .create_builder("/x/y/z")
        .ephemeral()
        .parents(ParentMode::Containers)
        .create()
        .await
        .unwrap();
    inside.delete("/x/y/z", None).await.unwrap();
    inside.delete("/b/c", None).await.unwrap();
    server.reap_containers();
    server.reap_containers();
    assert_eq!(names(&client, "/a").await, ["b"], "containers go, persistent nodes stay");

    let nowhere = client.chroot("/nowhere").unwrap();
    let error =
        nowhere.create_builder("/x/y").parents(ParentMode::Persistent).create().await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NO_NODE), "a chroot is not made up");
    assert_eq!(client.exists("/nowhere").await.unwrap(), None);
    client.ensure_path("/a/b/c/d", ParentMode::Persistent).await.unwrap();
    client.ensure_path("/a/b/c/d", ParentMode::Containers).await.unwrap();
    for op in [Op::Create2, Op::CreateContainer] {
        server.on(op).apply_then_drop_reply();
    }
    client.ensure_path("/u/v", ParentMode::Persistent).await.unwrap();
    client.ensure_path("/w/v", ParentMode::Containers).await.unwrap();
    assert_eq!(names(&client, "/u").await, ["v"]);
}

#[tokio::test(start_paused = true)]
async fn protected_node_is_created_once_despite_lost_replies() {
    let (server, [client]) = connected().await;
    client.create("/q", b"", CreateMode::Persistent).await.unwrap();
    for (nth, is_applied) in [true, false, true, false].into_iter().enumerate() {
        let on = server.on(Op::Create2);
        let fault = if is_applied { on.apply_then_drop_reply() } else { on.drop_before_applying() };
        server.on(Op::GetChildren2).apply_then_drop_reply();
        let new = client.create_builder("/q/n-").sequential().protected();
        let new = if nth < 2 { new.ephemeral() } else { new };
        let created = new.create().await.unwrap();
        assert_eq!(fault.count(), 1);
        let name = created.path.strip_prefix("/q/_c_").unwrap();
        assert_eq!(name.find("-n-"), Some(36), "{name}");
        assert_eq!(
            created.stat.ephemeral_owner,
            if nth < 2 { client.session_id() } else { SessionId::NONE }
        );
        let all = names(&client, "/q").await;
        assert_eq!(all.len(), nth + 1, "{all:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn protected_node_can_be_top_level_or_have_missing_parents() {
    let (server, [client]) = connected().await;
    server.on(Op::Create2).apply_then_drop_reply();
    let top = client.create_builder("/top").protected().create().await.unwrap();
    assert!(top.path.starts_with("/_c_") && top.path.ends_with("-top"), "{}", top.path);
    let new = client.create_builder("/a/b/").ephemeral().sequential().protected();
    let error = new.clone().create().await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(ErrorCode::NO_NODE), Outcome::NotApplied));
    let created = new.parents(ParentMode::Containers).create().await.unwrap();
    assert!(created.path.starts_with("/a/b/_c_"), "{}", created.path);
    assert_eq!(names(&client, "/").await.len(), 3, "the top one was made once");
    let error = client.create_builder("no path").protected().create().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidPath(_)), "{error}");
}

/// K3, A2: a future dropped at any point leaves no node.
#[tokio::test(start_paused = true)]
async fn dropped_protected_create_leaves_no_node_k3_a2() {
    for polls in 1..40 {
        let (server, [client]) = connected().await;
        client.create("/q", b"", CreateMode::Persistent).await.unwrap();
        server.on(Op::Create2).apply_then_drop_reply();
        let new = client.create_builder("/q/n-").ephemeral().sequential().protected();
        if polled(polls, async { new.create().await.map(drop) }).await {
            assert!(polls > 2, "it was dropped in the middle, too");
            assert_eq!(names(&client, "/q").await.len(), 1);
            return;
        }
        for _ in 0..2 {
            // The second sync is behind the deletes that follow from the list request of the sweep.
            let patient = client.retry(RetryPolicy::fixed(Duration::from_millis(10)));
            patient.run(|client| client.sync("/")).await.unwrap();
        }
        assert_eq!(names(&client, "/q").await, [""; 0], "dropped after {polls} polls");
    }
    panic!("it never came to an end");
}

#[tokio::test(start_paused = true)]
async fn timed_out_protected_create_is_deleted() {
    let (server, [client]) = connected().await;
    server.on(Op::Create2).delay(Duration::from_secs(2));
    let impatient = client.with_timeout(Duration::from_millis(100));
    let error = impatient.create_builder("/n").protected().create().await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::TimedOut, Outcome::Unknown));
    client.sync("/").await.unwrap();
    client.sync("/").await.unwrap();
    assert_eq!(names(&client, "/").await, ["zookeeper"]);
}

/// CURATOR-604: a node with the same id that belongs to another session is not adopted. Only two
/// sessions with the same seed can generate the same id.
#[tokio::test(start_paused = true)]
async fn protected_create_does_not_adopt_node_of_another_session() {
    let (server, [client, other]) = connected().await;
    let create = async |client: &Client| {
        let new = client.create_builder("/n-").ephemeral().sequential().protected();
        new.create().await.unwrap()
    };
    let theirs = create(&other).await;
    server.on(Op::Create2).drop_before_applying();
    let mine = create(&client).await;
    assert_eq!(mine.path[..44], theirs.path[..44], "the ids are the same");
    assert_ne!(mine.path, theirs.path);
    assert_eq!(mine.stat.ephemeral_owner, client.session_id());
    assert!(client.exists(&theirs.path).await.unwrap().is_some(), "nor is it deleted");
}

#[tokio::test(start_paused = true)]
async fn node_with_ttl_is_deleted_after_its_ttl() {
    let (server, [client]) = connected().await;
    client.create_builder("/t").ttl(Duration::from_secs(5)).create().await.unwrap();
    for (passed_ms, expected) in [(4_000, true), (2_000, false)] {
        server.skew_clock(passed_ms);
        server.reap_containers();
        assert_eq!(client.exists("/t").await.unwrap().is_some(), expected);
    }
}

/// Parents are no help against other errors, and a repetition would only load the servers.
#[tokio::test(start_paused = true)]
async fn create_with_parents_returns_other_errors_at_once() {
    let (server, [client]) = connected().await;
    client.ensure_path("/a/b", ParentMode::Persistent).await.unwrap();
    let counted = server.on(Op::Create2).always().delay(Duration::from_millis(1));
    let create = client.create_builder("/a/b").parents(ParentMode::Persistent).create();
    assert_eq!(create.await.unwrap_err().code(), Some(ErrorCode::NODE_EXISTS));
    assert_eq!(counted.count(), 1);
    let nowhere = client.chroot("/nowhere").unwrap();
    let create = nowhere.create_builder("/n").parents(ParentMode::Persistent).create();
    assert_eq!(create.await.unwrap_err().code(), Some(ErrorCode::NO_NODE));
    assert_eq!(counted.count(), 2);
    counted.cancel();

    let rejected = server.on(Op::Create2).always().answer(ErrorCode::NO_AUTH);
    let error = client.ensure_path("/a/c", ParentMode::Persistent).await.unwrap_err();
    assert_eq!((error.code(), rejected.count()), (Some(ErrorCode::NO_AUTH), 1));
}

#[tokio::test(start_paused = true)]
async fn create_stops_after_its_limit_of_lost_attempts() {
    let (server, [client]) = connected().await;
    let lost = server.on(Op::Create2).always().drop_before_applying();
    let error = client.ensure_path("/a", ParentMode::Persistent).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ConnectionLost(_)), "{error}");
    assert_eq!(lost.count(), u64::from(CREATE_ATTEMPTS_MAX));
}

/// The connection is lost before the request is written, so the node need not be searched for.
#[tokio::test(start_paused = true)]
async fn protected_create_stops_after_its_limit_of_unsent_attempts() {
    let (server, [client]) = connected().await;
    let mut events = client.events();
    let mut create = pin!(client.create_builder("/n").protected().create());
    for attempt in 1..=CREATE_ATTEMPTS_MAX {
        let waits = poll_fn(|cx| Poll::Ready(create.as_mut().poll(cx).is_pending())).await;
        assert!(waits, "attempt {attempt}");
        server.connections().cut(Cut::Rst);
        until_reconnected(&mut events).await;
    }
    let error = create.await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ConnectionLost(_)), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert_eq!(names(&client, "/").await, ["zookeeper"]);
}

/// Without the list of the parent, nobody can tell whether the lost attempt has created the node.
#[tokio::test(start_paused = true)]
async fn lost_protected_create_fails_if_its_node_cannot_be_searched() {
    let (server, [client]) = connected().await;
    server.on(Op::Create2).apply_then_drop_reply();
    let refused = server.on(Op::GetChildren2).times(20).answer(ErrorCode::NO_AUTH);
    let error = client.create_builder("/n").protected().create().await.unwrap_err();
    assert_eq!((error.code(), error.outcome()), (Some(ErrorCode::NO_AUTH), Outcome::Unknown));
    assert_eq!(refused.count(), 1);
}

/// The limit on failures leaves room for a parent that vanishes a few times, and for deep paths.
#[tokio::test(start_paused = true)]
async fn ensure_path_creates_vanished_parents_again() {
    let (server, [client]) = connected().await;
    for nth in 3..6 {
        server.on(Op::Create2).nth(nth).answer(ErrorCode::NO_NODE);
    }
    client.ensure_path("/a/b", ParentMode::Persistent).await.unwrap();
    let deep = "/d".repeat(2 * CREATE_ATTEMPTS_MAX as usize);
    client.ensure_path(&deep, ParentMode::Persistent).await.unwrap();
    assert!(client.exists(&deep).await.unwrap().is_some());
}

/// A client that deletes the parent again and again must not keep another one busy for ever.
#[tokio::test(start_paused = true)]
async fn ensure_path_gives_up_if_its_parent_keeps_vanishing() {
    let (server, [client]) = connected().await;
    // Every second request creates the parent. A fault does not count the requests of those before it.
    for nth in 3..100 {
        server.on(Op::Create2).nth(nth).answer(ErrorCode::NO_NODE);
    }
    let error = client.ensure_path("/a/b", ParentMode::Persistent).await.unwrap_err();
    assert_eq!((error.code(), error.path()), (Some(ErrorCode::NO_NODE), Some("/a/b")));
}
