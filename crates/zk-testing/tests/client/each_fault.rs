//! Tests of each fault that has its own method, through a client.

use std::time::Duration;

use tokio::time::Instant;
use zk_session::{Client, Config, CreateMode, EventType, Outcome, SessionEvent, SessionEvents};
use zk_testing::{Cut, Op, TestServer};

use crate::in_memory::client_of;

async fn create(client: &Client, path: &str, mode: CreateMode) -> String {
    client.create(path, b"", mode).await.unwrap().path
}

async fn until_reconnected(events: &mut SessionEvents) {
    while !matches!(events.next().await, Some(SessionEvent::Reconnected { .. })) {}
}

#[tokio::test(start_paused = true)]
async fn cut_reply_gives_unknown_outcome_of_applied_create() {
    for how in [Cut::Fin, Cut::Rst, Cut::Silence] {
        let server = TestServer::in_memory();
        let client = client_of(&server, 0).await;
        server.next_reply_to(Op::Create2).cut_after(5, how);
        let error = client.create("/a", b"", CreateMode::Persistent).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{how:?}");
        assert!(client.exists("/a").await.unwrap().is_some(), "{how:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn cut_request_gives_unknown_outcome_and_is_not_applied() {
    for how in [Cut::Fin, Cut::Rst, Cut::Silence] {
        let server = TestServer::in_memory();
        let client = client_of(&server, 0).await;
        server.on(Op::Create2).cut_request_after(11, how);
        let error = client.create("/a", b"", CreateMode::Persistent).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown, "{how:?}");
        assert!(client.exists("/a").await.unwrap().is_none(), "{how:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn split_and_coalesced_replies_are_read_unchanged() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    let split = server.on(Op::Exists).always().split(1);
    let coalesced = server.on(Op::GetData).coalesce();
    let (first, second) = (client.get_data("/"), client.exists("/"));
    assert_eq!(first.await.unwrap().stat, second.await.unwrap().unwrap());
    assert_eq!((split.count(), coalesced.count()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn fault_affects_only_nth_request_of_its_session_and_server() {
    let server = TestServer::ensemble(3);
    let (hit, other) = (client_of(&server, 1).await, client_of(&server, 2).await);
    let fault =
        server.on(Op::GetData).nth(2).session(hit.session_id()).at_server(1).drop_before_applying();
    for _ in 0..3 {
        other.get_data("/").await.unwrap();
    }
    hit.get_data("/").await.unwrap();
    hit.get_data("/").await.unwrap_err();
    hit.get_data("/").await.unwrap();
    assert_eq!(fault.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn lost_notification_is_delivered_after_reconnect() {
    let server = TestServer::in_memory();
    let (watcher, writer) = (client_of(&server, 0).await, client_of(&server, 0).await);
    let (_, watch) = watcher.exists_and_watch("/a").await.unwrap();
    let lost = server.on_notification().drop_before_applying();
    create(&writer, "/a", CreateMode::Persistent).await;
    assert_eq!(watch.await.unwrap().event_type, EventType::NODE_CREATED);
    assert_eq!(lost.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn expire_ends_session_at_once() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    let mut events = client.events();
    create(&client, "/e", CreateMode::Ephemeral).await;
    assert!(server.expire(client.session_id()));
    assert!(server.with(|ensemble| !ensemble.tree().contains("/e")));
    while !matches!(events.next().await, Some(SessionEvent::Expired { .. })) {}
    assert!(!server.expire(client.session_id()), "it is gone");
}

#[tokio::test(start_paused = true)]
async fn client_reconnects_after_each_kind_of_failed_connect() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    let mut events = client.events();
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    while !matches!(events.next().await, Some(SessionEvent::Suspended { .. })) {}
    server.accept_connects(0);
    until_reconnected(&mut events).await;

    server.close_on_connect(0);
    server.connections().cut(Cut::Fin);
    while !matches!(events.next().await, Some(SessionEvent::Suspended { .. })) {}
    server.accept_connects(0);
    until_reconnected(&mut events).await;

    let unanswered = server.on_connect().times(2).drop_before_applying();
    server.refuse_as_ahead(0, 2);
    server.connections().cut(Cut::Fin);
    until_reconnected(&mut events).await;
    assert_eq!(unanswered.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn read_only_server_disconnects_read_write_client() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    let mut events = client.events();
    server.make_read_only(0);
    while !matches!(events.next().await, Some(SessionEvent::Suspended { .. })) {}
    server.make_writable(0);
    until_reconnected(&mut events).await;
    create(&client, "/a", CreateMode::Persistent).await;
}

#[tokio::test(start_paused = true)]
async fn reap_containers_deletes_empty_container_at_once() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    create(&client, "/c", CreateMode::Container).await;
    create(&client, "/c/child", CreateMode::Persistent).await;
    assert_eq!(server.reap_containers(), 0);
    client.delete("/c/child", None).await.unwrap();
    assert_eq!(server.reap_containers(), 1);
    assert!(client.exists("/c").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn set_sequence_changes_next_sequential_number() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    create(&client, "/q", CreateMode::Persistent).await;
    assert!(server.set_sequence("/q", i32::MAX - 1));
    let made = create(&client, "/q/n-", CreateMode::PersistentSequential).await;
    assert_eq!(made, "/q/n-2147483646");
    assert!(!server.set_sequence("/nowhere", 0));
}

#[tokio::test(start_paused = true)]
async fn skewed_clock_changes_ctime_but_not_sessions() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    create(&client, "/before", CreateMode::Ephemeral).await;
    server.skew_clock(-3_600_000);
    create(&client, "/after", CreateMode::Ephemeral).await;
    let (before, after) = (client.exists("/before"), client.exists("/after"));
    let ctimes = [before.await, after.await].map(|stat| stat.unwrap().unwrap().ctime_ms);
    assert_eq!(ctimes[0] - ctimes[1], 3_600_000);
}

#[tokio::test(start_paused = true)]
async fn sync_waits_for_lagging_follower() {
    let server = TestServer::ensemble(3);
    let (writer, reader) = (client_of(&server, 0).await, client_of(&server, 1).await);
    server.lag(1, Duration::from_secs(2));
    create(&writer, "/a", CreateMode::Persistent).await;
    assert!(reader.exists("/a").await.unwrap().is_none());
    let started = now();
    reader.sync("/").await.unwrap();
    assert!(reader.exists("/a").await.unwrap().is_some());
    assert_eq!(started.elapsed(), Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn frozen_follower_refuses_ahead_client_until_healed() {
    let server = TestServer::ensemble(2);
    let client = Config::new("server-0:1,server-1:1").unwrap();
    let client = client.seed(1).connector(server.clone()).connect().await.unwrap();
    let mut events = client.events();
    server.freeze_view(1);
    create(&client, "/a", CreateMode::Persistent).await;
    server.refuse_connects(0);
    server.connections().cut(Cut::Fin);
    while !matches!(events.next().await, Some(SessionEvent::Suspended { .. })) {}
    server.heal(1);
    until_reconnected(&mut events).await;
    assert!(client.exists("/a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn write_through_cut_follower_completes_after_heal() {
    let server = TestServer::ensemble(3);
    let client = client_of(&server, 1).await;
    server.cut_from_leader(1);
    let created = client.create("/a", b"", CreateMode::Persistent);
    tokio::task::yield_now().await;
    assert!(server.with(|ensemble| !ensemble.tree().contains("/a")));
    server.heal(1);
    created.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cleared_faults_have_no_effect() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    let fault = server.on_any_request().always().drop_before_applying();
    server.clear_faults();
    client.exists("/").await.unwrap();
    assert_eq!(fault.count(), 0);
}

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which the test has stopped")]
fn now() -> Instant {
    Instant::now()
}
