//! Bugs of Curator's caches that this cache does not have.

use zk_coordination::session::limits::REMOVAL_DELAY;
use zk_coordination::session::{Client, CreateMode, SessionManager};
use zk_coordination::{Cache, CacheError, CacheStatus};
use zk_testing::{Cut, ErrorCode, Op, TestServer};

use super::{assert_is_tree, create, synced, words};
use crate::{T, client, sessions, settle};

async fn with_nodes(server: &TestServer) -> (Client, SessionManager) {
    let writer = client(server, 1).await;
    create(&writer, &["/app", "/app/a"]).await;
    (writer, sessions(server, 2).await)
}

/// CURATOR-391: a node that is deleted and created again during a disconnect has the version that
/// it had. `CuratorCache` compares versions, and reports nothing.
#[tokio::test(start_paused = true)]
async fn curator_391_recreated_node_with_equal_version_is_reported() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_nodes(&server).await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    let mut changes = cache.changes();
    server.refuse_connects(0);
    server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
    writer.delete("/app/a", None).await.unwrap();
    writer.create("/app/a", b"/app/a", CreateMode::Persistent).await.unwrap();
    server.accept_connects(0);
    // reason: the client reconnects in virtual time
    tokio::time::sleep(T / 4).await;
    let seen = words(&mut changes).await;
    assert_eq!(seen, ["stale", "deleted /app/a", "created /app/a", "synced"]);
    assert_eq!(cache.snapshot().get("/app/a").unwrap().stat().version, 0);
    assert_is_tree(&cache.snapshot(), &server);
}

/// CURATOR-182, CURATOR-183: `TreeCache` did not follow a root that was created after the start, or
/// deleted and created again.
#[tokio::test(start_paused = true)]
async fn curator_182_183_root_is_followed_when_it_is_recreated() {
    let server = TestServer::in_memory();
    let (writer, sessions) = (client(&server, 1).await, sessions(&server, 2).await);
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    let mut changes = cache.changes();
    assert!(cache.snapshot().is_empty());
    for _ in 0..3 {
        create(&writer, &["/app", "/app/a"]).await;
        assert_eq!(words(&mut changes).await, ["created /app", "created /app/a"]);
        writer.delete("/app/a", None).await.unwrap();
        writer.delete("/app", None).await.unwrap();
        assert_eq!(words(&mut changes).await, ["deleted /app/a", "deleted /app"]);
    }
    create(&writer, &["/app"]).await;
    settle().await;
    assert_is_tree(&cache.snapshot(), &server);
}

/// CURATOR-331: `TreeCache` swallowed the errors of its requests.
#[tokio::test(start_paused = true)]
async fn curator_331_error_that_no_retry_helps_is_reported() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_nodes(&server).await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    let mut changes = cache.changes();
    server.on(Op::GetData).answer(ErrorCode::BAD_ARGUMENTS);
    writer.set_data("/app/a", b"new", None).await.unwrap();
    let seen = words(&mut changes).await;
    assert!(seen[0].starts_with("Stopped(getData /app/a: BadArguments"), "{seen:?}");
    assert!(matches!(cache.status(), CacheStatus::Stopped(CacheError::Client(_))));
}

/// CURATOR-324: events of a node that is deleted and created in quick succession arrived in the
/// wrong order.
#[tokio::test(start_paused = true)]
async fn curator_324_quick_recreation_is_reported_in_order() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_nodes(&server).await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
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
    let server = TestServer::in_memory();
    let (_writer, sessions) = with_nodes(&server).await;
    let cache = Cache::children(&sessions, "/app").open().await.unwrap();
    assert_is_tree(&cache.snapshot(), &server);
}

/// CURATOR-729: a cache looped after it was closed.
#[tokio::test(start_paused = true)]
async fn curator_729_cache_sends_nothing_after_its_end() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_nodes(&server).await;
    let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
    writer.set_data("/app/a", b"new", None).await.unwrap();
    drop(cache);
    // reason: the session removes watches a moment after they are dropped
    tokio::time::sleep(REMOVAL_DELAY * 2).await;
    let reads = server.on(Op::GetData).always().delay(std::time::Duration::ZERO);
    writer.set_data("/app/a", b"newer", None).await.unwrap();
    // reason: a loop would send requests in virtual time
    tokio::time::sleep(T).await;
    assert_eq!(reads.count(), 0);
}

/// CURATOR-153: `PathChildrenCache` did not go on after an outage of all servers.
#[tokio::test(start_paused = true)]
async fn curator_153_cache_goes_on_after_a_restart_of_the_server() {
    let server = TestServer::in_memory();
    let (writer, sessions) = with_nodes(&server).await;
    let cache = Cache::children(&sessions, "/app").open().await.unwrap();
    for round in 0..3 {
        server.kill(0);
        // reason: the outage, in virtual time
        tokio::time::sleep(T / 5).await;
        assert_eq!(cache.status(), CacheStatus::Stale);
        server.restart(0);
        synced(&cache).await;
        let retry = writer.retry(zk_coordination::session::RetryPolicy::fixed(T / 20));
        let path = format!("/app/{round}");
        retry.run(|client| client.create(&path, b"", CreateMode::Persistent)).await.unwrap();
        settle().await;
        assert_is_tree(&cache.snapshot(), &server);
    }
}

/// CURATOR-296: `PathChildrenCache` did not report that it was complete again after a reconnect.
#[tokio::test(start_paused = true)]
async fn curator_296_each_reconnect_is_followed_by_synced() {
    let server = TestServer::in_memory();
    let (_writer, sessions) = with_nodes(&server).await;
    let cache = Cache::children(&sessions, "/app").open().await.unwrap();
    let mut changes = cache.changes();
    for _ in 0..3 {
        server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
        assert_eq!(words(&mut changes).await, ["stale", "synced"]);
    }
}

/// GH-1292: `PersistentWatcher` left its watch on the server.
#[tokio::test(start_paused = true)]
async fn gh_1292_dropped_cache_removes_its_watch() {
    let server = TestServer::in_memory();
    let (_writer, sessions) = with_nodes(&server).await;
    for _ in 0..3 {
        let cache = Cache::tree(&sessions, "/app").open().await.unwrap();
        server.connection_of(sessions.client().session_id()).cut(Cut::Fin);
        synced(&cache).await;
        assert!(server.with(|ensemble| ensemble.watches(0)) > 0);
        drop(cache);
        // reason: the session removes watches a moment after they are dropped
        tokio::time::sleep(REMOVAL_DELAY * 2).await;
        assert_eq!(server.with(|ensemble| ensemble.watches(0)), 0);
    }
}
