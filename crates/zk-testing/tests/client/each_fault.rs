//! Tests of each fault that has its own method, through a client.

use std::time::Duration;

use zk_session::{Client, Config, CreateMode, EventType, Outcome, SessionEvent};
use zk_testing::{Cut, Fault, FaultBuilder, Op, TestServer};

use crate::in_memory::{client_of, connected, until_reconnected, until_suspended};

async fn create(client: &Client, path: &str, mode: CreateMode) -> String {
    client.create(path, b"", mode).await.unwrap().path
}

#[tokio::test(start_paused = true)]
async fn lost_create_has_unknown_outcome_whether_it_was_applied() {
    type Lose = fn(FaultBuilder) -> Fault;
    let losses: [(bool, Lose); 8] = [
        (true, |on| on.apply_then_drop_reply()),
        (false, |on| on.drop_before_applying()),
        (true, |on| on.cut_after(5, Cut::Fin)),
        (true, |on| on.cut_after(5, Cut::Rst)),
        (true, |on| on.cut_after(5, Cut::Silence)),
        (false, |on| on.cut_request_after(11, Cut::Fin)),
        (false, |on| on.cut_request_after(11, Cut::Rst)),
        (false, |on| on.cut_request_after(11, Cut::Silence)),
    ];
    for (at, (is_applied, lose)) in losses.into_iter().enumerate() {
        let (server, [client]) = connected().await;
        let fault = lose(server.on(Op::Create2));
        let error = client.create("/a", b"", CreateMode::Persistent).await.unwrap_err();
        assert_eq!((error.outcome(), fault.count()), (Outcome::Unknown, 1), "{at}");
        assert_eq!(client.exists("/a").await.unwrap().is_some(), is_applied, "{at}");
    }
}

#[tokio::test(start_paused = true)]
async fn split_and_coalesced_replies_are_read_unchanged() {
    let (server, [client]) = connected().await;
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
    let (server, [watcher, writer]) = connected().await;
    let (_, watch) = watcher.exists_and_watch("/a").await.unwrap();
    let lost = server.on_notification().drop_before_applying();
    create(&writer, "/a", CreateMode::Persistent).await;
    assert_eq!(watch.await.unwrap().event_type, EventType::NODE_CREATED);
    assert_eq!(lost.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn client_reconnects_after_each_kind_of_failed_connect() {
    let (server, [client]) = connected().await;
    let mut events = client.events();
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    until_suspended(&mut events).await;
    server.accept_connects(0);
    until_reconnected(&mut events).await;

    server.close_on_connect(0);
    server.connections().cut(Cut::Fin);
    until_suspended(&mut events).await;
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
    let (server, [client]) = connected().await;
    let mut events = client.events();
    server.make_read_only(0);
    until_suspended(&mut events).await;
    server.make_writable(0);
    until_reconnected(&mut events).await;
    create(&client, "/a", CreateMode::Persistent).await;
}

#[tokio::test(start_paused = true)]
async fn skewed_clock_changes_ctime_but_not_sessions() {
    let (server, [client]) = connected().await;
    create(&client, "/before", CreateMode::Ephemeral).await;
    server.skew_clock(-3_600_000);
    create(&client, "/after", CreateMode::Ephemeral).await;
    let (before, after) = (client.exists("/before"), client.exists("/after"));
    let ctimes = [before.await, after.await].map(|stat| stat.unwrap().unwrap().ctime_ms);
    assert_eq!(ctimes[0] - ctimes[1], 3_600_000);
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
    until_suspended(&mut events).await;
    server.heal(1);
    until_reconnected(&mut events).await;
    assert!(client.exists("/a").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "tokio's clock, which the test has stopped")]
async fn sync_waits_for_late_and_cut_followers() {
    let server = TestServer::ensemble(3);
    let (writer, reader) = (client_of(&server, 0).await, client_of(&server, 1).await);
    server.lag(1, Duration::from_secs(2));
    create(&writer, "/a", CreateMode::Persistent).await;
    assert!(reader.exists("/a").await.unwrap().is_none());
    let started = tokio::time::Instant::now();
    reader.sync("/").await.unwrap();
    assert!(reader.exists("/a").await.unwrap().is_some());
    assert_eq!(started.elapsed(), Duration::from_secs(2));
    server.heal(1);
    server.cut_from_leader(1);
    let synced = reader.sync("/");
    tokio::task::yield_now().await;
    create(&writer, "/b", CreateMode::Persistent).await;
    assert!(server.with(|ensemble| !ensemble.tree_of(1).unwrap().contains("/b")));
    server.heal(1);
    synced.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cleared_faults_have_no_effect() {
    let (server, [client]) = connected().await;
    let fault = server.on_any_request().always().drop_before_applying();
    server.clear_faults();
    client.exists("/").await.unwrap();
    assert_eq!(fault.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn request_latency_contains_the_delay_of_a_reply() {
    let (server, [client]) = connected().await;
    client.get_data("/").await.unwrap();
    let fast = client.stats().request_latency;
    assert_eq!((fast.count(), fast.sum()), (1, Duration::ZERO));
    let delay = Duration::from_millis(700);
    server.on(Op::GetData).delay(delay);
    let (slow, behind) = (client.get_data("/"), client.exists("/"));
    slow.await.unwrap();
    behind.await.unwrap();
    let latency = client.stats().request_latency;
    assert_eq!((latency.count(), latency.sum()), (3, 2 * delay), "replies keep their order");
}

#[tokio::test(start_paused = true)]
async fn expired_session_is_reported_at_reconnect() {
    let (server, [client]) = connected().await;
    let mut events = client.events();
    server.on(Op::Create2).apply_then_expire_session();
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    while !matches!(events.next().await, Some(SessionEvent::Expired { .. })) {}
    assert!(server.with(|ensemble| !ensemble.tree().contains("/e")));
}

#[tokio::test(start_paused = true)]
async fn stalled_connection_continues_after_resume() {
    let (server, [client]) = connected().await;
    let stalled = server.connection_of(client.session_id());
    stalled.stall();
    let created = client.create("/a", b"", CreateMode::Persistent);
    tokio::task::yield_now().await;
    assert!(server.with(|ensemble| !ensemble.tree().contains("/a")));
    stalled.resume();
    created.await.unwrap();
}
