//! Bugs of Curator's caches that this cache does not have.

use std::time::Duration;

use zk_coordination::session::{CreateMode, RetryPolicy};
use zk_coordination::{Cache, CacheError, CacheStatus};
use zk_testing::{ErrorCode, Op};

use super::{assert_is_tree, cached, create, cut, disconnected, set, synced, tree, words};
use crate::{T, pass, settle, settle_watches, watches};

const TREE: [&str; 2] = ["/app", "/app/a"];

/// CURATOR-391: a node that is deleted and created again during a disconnect has the version that
/// it had. `CuratorCache` compares versions, and reports nothing.
#[tokio::test(start_paused = true)]
async fn curator_391_recreated_node_with_equal_version_is_reported() {
    let (server, writer, sessions, cache) = cached(&TREE).await;
    let mut changes = cache.changes();
    let recreation = async {
        writer.delete("/app/a", None).await.unwrap();
        create(&writer, &["/app/a"]).await;
    };
    disconnected(&server, &sessions, recreation).await;
    let seen = words(&mut changes).await;
    assert_eq!(seen, ["stale", "deleted /app/a", "created /app/a", "synced"]);
    assert_eq!(cache.snapshot().get("/app/a").unwrap().stat().version, 0);
    assert_is_tree(&cache.snapshot(), &server);
}

/// CURATOR-182, CURATOR-183: `TreeCache` did not follow a root that was created after the start, or
/// deleted and created again.
#[tokio::test(start_paused = true)]
async fn curator_182_183_root_is_followed_when_it_is_recreated() {
    let (server, writer, _sessions, cache) = cached(&[]).await;
    let mut changes = cache.changes();
    assert!(cache.snapshot().is_empty());
    for _ in 0..3 {
        create(&writer, &TREE).await;
        assert_eq!(words(&mut changes).await, ["created /app", "created /app/a"]);
        assert_is_tree(&cache.snapshot(), &server);
        writer.delete("/app/a", None).await.unwrap();
        writer.delete("/app", None).await.unwrap();
        assert_eq!(words(&mut changes).await, ["deleted /app/a", "deleted /app"]);
    }
}

/// CURATOR-331: `TreeCache` swallowed the errors of its requests.
#[tokio::test(start_paused = true)]
async fn curator_331_error_that_no_retry_helps_is_reported() {
    let (server, writer, _sessions, cache) = cached(&TREE).await;
    let mut changes = cache.changes();
    server.on(Op::GetData).answer(ErrorCode::BAD_ARGUMENTS);
    set(&writer, "/app/a", b"new").await;
    let seen = words(&mut changes).await;
    assert!(seen[0].starts_with("Stopped(getData /app/a: BadArguments"), "{seen:?}");
    assert!(matches!(cache.status(), CacheStatus::Stopped(CacheError::Client(_))));
}

/// CURATOR-324: events of a node that is deleted and created in quick succession arrived in the
/// wrong order.
#[tokio::test(start_paused = true)]
async fn curator_324_quick_recreation_is_reported_in_order() {
    let (server, writer, _sessions, cache) = cached(&TREE).await;
    let mut changes = cache.changes();
    for _ in 0..5 {
        let deleted = writer.delete("/app/a", None);
        let created = writer.create("/app/a", b"", CreateMode::Persistent);
        deleted.await.unwrap();
        created.await.unwrap();
    }
    let seen = words(&mut changes).await;
    assert!(!seen.is_empty());
    assert!(seen.chunks(2).all(|pair| pair == ["deleted /app/a", "created /app/a"]), "{seen:?}");
    assert_is_tree(&cache.snapshot(), &server);
}

/// CURATOR-705: the cache of `ServiceProvider` was empty right after its start.
#[tokio::test(start_paused = true)]
async fn curator_705_open_returns_a_loaded_cache() {
    let (server, _writer, sessions) = tree(&TREE).await;
    let cache = Cache::children(&sessions, "/app").open().await.unwrap();
    assert_is_tree(&cache.snapshot(), &server);
}

/// CURATOR-729, GH-1292: a cache looped after it was closed, and `PersistentWatcher` left its watch on
/// the server.
#[tokio::test(start_paused = true)]
async fn curator_729_cache_sends_nothing_after_its_end() {
    let (server, writer, sessions) = tree(&TREE).await;
    for is_cut in [false, true] {
        let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
        if is_cut {
            cut(&server, &sessions);
            synced(&cache).await;
        }
        assert!(watches(&server) > 0);
        set(&writer, "/app/a", b"new").await;
        drop(cache);
        settle_watches().await;
        assert_eq!(watches(&server), 0);
        let reads = server.on(Op::GetData).always().delay(Duration::ZERO);
        set(&writer, "/app/a", b"newer").await;
        pass(T).await; // in which a loop would send requests
        assert_eq!(reads.count(), 0);
    }
}

/// CURATOR-153: `PathChildrenCache` did not go on after an outage of all servers.
#[tokio::test(start_paused = true)]
async fn curator_153_cache_goes_on_after_a_restart_of_the_server() {
    let (server, writer, sessions) = tree(&TREE).await;
    let cache = Cache::children(&sessions, "/app").open().await.unwrap();
    for round in 0..3 {
        server.kill(0);
        pass(T / 5).await; // the outage
        assert_eq!(cache.status(), CacheStatus::Stale);
        server.restart(0);
        synced(&cache).await;
        let retry = writer.retry(RetryPolicy::fixed(T / 20));
        let path = format!("/app/{round}");
        retry.run(|client| client.create(&path, b"", CreateMode::Persistent)).await.unwrap();
        settle().await;
        assert_is_tree(&cache.snapshot(), &server);
    }
}

/// CURATOR-296: `PathChildrenCache` did not report that it was complete again after a reconnect.
#[tokio::test(start_paused = true)]
async fn curator_296_each_reconnect_is_followed_by_synced() {
    let (server, _writer, sessions) = tree(&TREE).await;
    let cache = Cache::children(&sessions, "/app").open().await.unwrap();
    let mut changes = cache.changes();
    for _ in 0..3 {
        cut(&server, &sessions);
        assert_eq!(words(&mut changes).await, ["stale", "synced"]);
    }
}
