//! Nodes that the client may not read, and changes that the server does not report.

use std::sync::Arc;
use std::time::Duration;

use zk_coordination::limits::{BACKOFF_FIRST, BACKOFF_MAX, CHECK_PAUSE, READS_PER_REQUEST};
use zk_coordination::session::CreateMode;
use zk_coordination::{Cache, CacheStatus, watch_value};
use zk_testing::{Op, Settings, TestServer, Version};

use super::{
    assert_is_tree, cached, create, create_hidden, hide, paths, set, show, synced, tree, words,
};
use crate::{client, pass, sessions, settle};

const TREE: [&str; 4] = ["/app", "/app/a", "/app/a/x", "/app/b"];
/// Time after which each node of a small tree was checked.
const CHECKED: Duration = CHECK_PAUSE.saturating_mul(2);

async fn wait_for_checks() {
    pass(CHECKED).await;
}

fn partial(unreadable: usize) -> CacheStatus {
    CacheStatus::Partial { unreadable }
}

#[tokio::test(start_paused = true)]
async fn hidden_node_goes_after_its_unreported_deletion() {
    for version in [Version::V3_8, Version::V3_9] {
        let server = TestServer::in_memory_with(Settings::new().version(version));
        let (writer, sessions) = (client(&server, 1).await, sessions(&server, 2).await);
        create(&writer, &TREE).await;
        let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
        let mut changes = cache.changes();
        hide(&writer, "/app/b").await;
        writer.delete("/app/b", None).await.unwrap();
        assert_eq!(words(&mut changes).await, [""; 0], "no event of {version:?}");
        wait_for_checks().await;
        assert_eq!(words(&mut changes).await, ["deleted /app/b"]);
        assert_eq!(cache.status(), CacheStatus::Synced);
        assert_is_tree(&cache.snapshot(), &server);
    }
}

#[tokio::test(start_paused = true)]
async fn status_counts_unreadable_nodes_until_they_are_deleted() {
    let (_server, writer, _sessions, cache) = cached(&TREE).await;
    let mut changes = cache.changes();
    for path in ["/app/a/x", "/app/b"] {
        hide(&writer, path).await;
    }
    wait_for_checks().await;
    assert_eq!(words(&mut changes).await, ["unreadable /app/a/x", "unreadable /app/b"]);
    assert_eq!(cache.status(), partial(2));
    cache.wait_until_synced().await.unwrap();
    writer.delete("/app/a/x", None).await.unwrap();
    wait_for_checks().await;
    assert_eq!(cache.status(), partial(1));
    assert!(cache.snapshot().unreadable().eq(["/app/b"]));
    writer.delete("/app/b", None).await.unwrap();
    wait_for_checks().await;
    assert_eq!(words(&mut changes).await, ["deleted /app/a/x", "deleted /app/b"]);
    synced(&cache).await;
}

#[tokio::test(start_paused = true)]
async fn hidden_node_returns_with_its_children_when_readable() {
    let (server, writer, sessions, loaded) = cached(&TREE).await;
    hide(&writer, "/app/a").await;
    let later = Cache::tree(&sessions, "/app").open().await.unwrap();
    assert_eq!((later.status(), paths(&later.snapshot()).len()), (partial(1), 2));
    wait_for_checks().await;
    assert_eq!(loaded.status(), partial(1));
    show(&writer, "/app/a").await;
    wait_for_checks().await;
    for cache in [loaded, later] {
        assert_eq!(cache.status(), CacheStatus::Synced);
        assert_is_tree(&cache.snapshot(), &server);
    }
}

#[tokio::test(start_paused = true)]
async fn node_that_was_created_hidden_is_found() {
    let (server, writer, _sessions, cache) = cached(&TREE).await;
    for path in ["/app/a/secret", "/app/b/secret"] {
        create_hidden(&writer, path).await;
    }
    settle().await;
    assert_eq!(cache.status(), CacheStatus::Synced, "no event reports the nodes");
    wait_for_checks().await;
    assert_eq!(cache.status(), partial(2));
    show(&writer, "/app/b/secret").await;
    writer.delete("/app/a/secret", None).await.unwrap();
    wait_for_checks().await;
    assert_eq!(cache.status(), CacheStatus::Synced);
    assert_is_tree(&cache.snapshot(), &server);
}

/// The children of a node go one by one, and no event reports the last of them.
#[tokio::test(start_paused = true)]
async fn check_of_a_parent_finds_what_is_below_it() {
    let (_server, writer, _sessions, cache) = cached(&TREE).await;
    set(&writer, "/app/a", [7; 5_000]).await;
    settle().await;
    hide(&writer, "/app/a/x").await;
    writer.delete("/app/a/x", None).await.unwrap();
    wait_for_checks().await;
    assert_eq!(paths(&cache.snapshot()), ["/app", "/app/a", "/app/b"]);
    // The data of the parent is large, so a check reads its Stat alone.
    create_hidden(&writer, "/app/a/y").await;
    wait_for_checks().await;
    assert!(cache.snapshot().unreadable().eq(["/app/a/y"]));
}

#[tokio::test(start_paused = true)]
async fn children_of_a_hidden_node_are_still_followed() {
    let (server, writer, _sessions, cache) = cached(&TREE).await;
    hide(&writer, "/app/a").await;
    wait_for_checks().await;
    let mut changes = cache.changes();
    set(&writer, "/app/a/x", b"new").await;
    create(&writer, &["/app/a/y"]).await;
    assert_eq!(words(&mut changes).await, ["changed /app/a/x", "created /app/a/y"]);
    for path in ["/app/a/x", "/app/a/y"] {
        hide(&writer, path).await;
        writer.delete(path, None).await.unwrap();
    }
    writer.delete("/app/a", None).await.unwrap();
    wait_for_checks().await;
    assert_eq!(cache.status(), CacheStatus::Synced);
    assert_is_tree(&cache.snapshot(), &server);
}

#[tokio::test(start_paused = true)]
async fn value_of_a_node_that_is_hidden_and_deleted_is_none() {
    let (_server, writer, sessions) = tree(&TREE).await;
    let mut value = watch_value(&sessions, "/app/b", |data| Some(data.clone())).await.unwrap();
    assert!(value.borrow_and_update().is_some());
    hide(&writer, "/app/b").await;
    tokio::time::timeout(CHECKED, value.changed()).await.unwrap().unwrap();
    assert!(value.borrow_and_update().is_none());
    show(&writer, "/app/b").await;
    tokio::time::timeout(CHECKED, value.changed()).await.unwrap().unwrap();
    assert!(value.borrow_and_update().is_some());
}

#[tokio::test(start_paused = true)]
async fn pauses_between_reads_of_a_hidden_node_grow_to_a_bound() {
    let (server, writer, sessions) = tree(&TREE).await;
    hide(&writer, "/app/b").await;
    let cache = Cache::node(&sessions, "/app/b").open().await.unwrap();
    let reads = server.on(Op::GetData).always().delay(Duration::ZERO);
    let mut counts = Vec::new();
    for pauses in [1, 100] {
        let before = reads.count();
        pass(BACKOFF_MAX * pauses).await; // the cache reads the node in virtual time
        counts.push(reads.count() - before);
    }
    assert!((6..=12).contains(&counts[0]), "{counts:?} reads in the first pauses");
    assert!((100..=210).contains(&counts[1]), "{counts:?} reads in the later ones");
    assert_eq!(cache.status(), partial(1));
}

#[tokio::test(start_paused = true)]
async fn check_without_a_difference_makes_no_new_snapshot() {
    let (server, writer, sessions, cache) = cached(&TREE).await;
    hide(&writer, "/app/b").await;
    wait_for_checks().await;
    let before = cache.snapshot();
    let log = server.log_requests(sessions.client().session_id());
    wait_for_checks().await;
    assert!(log.take().len() >= 4);
    assert!(Arc::ptr_eq(&before, &cache.snapshot()));
}

/// More nodes than a check reads: each has its turn.
#[tokio::test(start_paused = true)]
async fn checks_read_a_bounded_number_of_nodes_in_turn() {
    let (server, writer, sessions, cache) = cached(&TREE).await;
    let names = |prefix| (0..3 * READS_PER_REQUEST).map(move |n| format!("/app/{prefix}{n:03}"));
    for path in names("n") {
        writer.create(&path, b"", CreateMode::Persistent).await.unwrap();
    }
    for path in names("s") {
        create_hidden(&writer, &path).await;
    }
    wait_for_checks().await;
    assert_eq!(cache.status(), partial(3 * READS_PER_REQUEST));
    pass(BACKOFF_MAX * 2).await; // the pauses between the reads of unreadable nodes grow in virtual time
    let log = server.log_requests(sessions.client().session_id());
    pass(BACKOFF_MAX * 10).await; // the cache checks its nodes in virtual time
    let requests = log.take().len();
    assert!((20..=31).contains(&requests), "{requests} requests");
    let last = format!("/app/n{:03}", 3 * READS_PER_REQUEST - 1);
    hide(&writer, &last).await;
    for path in names("s") {
        writer.delete(&path, None).await.unwrap();
    }
    pass(CHECK_PAUSE * 6).await; // the cache checks all nodes in virtual time
    assert!(cache.snapshot().unreadable().eq([&last]), "{:?}", cache.status());
}

#[tokio::test(start_paused = true)]
async fn pauses_are_short_again_after_another_node_is_hidden() {
    let (_server, writer, _sessions, cache) = cached(&TREE).await;
    hide(&writer, "/app/a/x").await;
    // the pauses between the reads of the first node grow in virtual time
    pass(CHECKED + BACKOFF_MAX * 4).await;
    let mut changes = cache.changes();
    hide(&writer, "/app/b").await;
    changes.next().await.unwrap();
    assert_eq!(cache.status(), partial(2));
    show(&writer, "/app/b").await;
    tokio::time::timeout(BACKOFF_FIRST * 4, changes.next()).await.unwrap().unwrap();
    assert_eq!(cache.status(), partial(1));
}
