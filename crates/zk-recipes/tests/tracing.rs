//! Spans and events for `tracing`: what an operator finds in the logs.

// `cargo xtask test` runs it with the feature; without it, there is nothing to test.
#![cfg(feature = "tracing")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[path = "../../zk-session/tests/driver/tracing_log.rs"]
mod tracing_log;

use std::time::Duration;

use zk_recipes::session::{Client, Config, DigestMd5, ErrorCode};
use zk_recipes::{LossReason, Mutex, Semaphore};
use zk_testing::{Op, Settings, TestServer};

use tracing_log::Log;

async fn connect(server: &TestServer) -> Client {
    Config::new("server-0:1").unwrap().connector(server.clone()).connect().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn life_of_a_lock_is_logged() {
    let (log, _guard) = Log::start();
    let server = TestServer::in_memory();
    let client = connect(&server).await;
    let session = format!("session={}", client.session_id());
    log.assert_one(&["span INFO zk.connect", "server-0:1"]);
    log.assert_one(&["event INFO", "connected", "host=server-0:1", "timeout_ms=", &session]);

    let lock = Mutex::new(&client, "/lock").unwrap();
    let held = lock.acquire().await.unwrap();
    let token = format!("token={}", held.token().unwrap());
    log.assert_one(&["span INFO zk.acquire", "path=\"/lock\""]);
    log.assert_one(&["event DEBUG", "lock acquired", "waited_ms="]);
    log.assert_one(&["span INFO zk.hold", "/lock", held.node(), &token, &session, "waited_ms=0"]);
    assert!(!log.with(&["span DEBUG zk.request", "create", "/lock"]).is_empty());

    let waiting = tokio::time::timeout(Duration::from_secs(3), lock.acquire()).await;
    assert!(waiting.is_err());
    log.assert_one(&["event DEBUG", "acquisition given up", "waited_ms=300"]);
    held.release().await.unwrap();
    log.assert_one(&["event DEBUG", "lock released", "held_ms=300", "left_ms="]);
    // The lease of an idle session may end, and nothing is lost with it.
    tokio::time::sleep(Duration::from_secs(30)).await; // reason: virtual time
    assert_eq!(log.with(&["event WARN"]), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn permit_that_is_acquired_is_not_given_up() {
    let (log, _guard) = Log::start();
    let client = connect(&TestServer::in_memory()).await;
    let permit = Semaphore::new(&client, "/permits", 1).unwrap().acquire().await.unwrap();
    permit.release().await.unwrap();
    log.assert_one(&["span INFO zk.acquire", "/permits/leases"]);
    log.assert_one(&["event DEBUG", "lock released"]);
    assert_eq!(log.with(&["acquisition given up"]), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn lost_lock_is_logged_with_its_reason() {
    let (log, _guard) = Log::start();
    let server = TestServer::in_memory();
    let client = connect(&server).await;
    let lock = Mutex::new(&client, "/lock").unwrap();

    let held = lock.acquire().await.unwrap();
    let lost = held.lost();
    let other = connect(&server).await;
    tokio::time::sleep(Duration::from_secs(1)).await; // reason: the watch on the node is set later
    other.delete(held.node(), None).await.unwrap();
    assert_eq!(lost.await, LossReason::NodeDeleted);
    log.assert_one(&["event WARN", "lock lost: its node was deleted", held.node()]);
    drop(held);
    let expected = ["a lost lock was given up", "held_ms=", "left_ms=", "node was deleted"];
    log.assert_one(&[&["event WARN"][..], &expected].concat());

    // The deletion is found by a check, before its event arrives.
    let held = lock.acquire().await.unwrap();
    server.on_notification().session(client.session_id()).delay(Duration::from_secs(1));
    tokio::time::sleep(Duration::from_secs(1)).await; // reason: the watch on the node is set later
    other.delete(held.node(), None).await.unwrap();
    assert!(held.check().await.is_err());
    log.assert_one(&["event WARN", "lock lost: its node was deleted", held.node()]);
    drop(held);

    let held = lock.acquire().await.unwrap();
    server.expire(client.session_id());
    client.wait_for_end().await;
    log.assert_one(&["event ERROR", "session expired", &format!("{}", client.session_id())]);
    drop(held);
    log.assert_one(&["event WARN", "a lost lock was given up", "reason=the session expired"]);
}

#[tokio::test(start_paused = true)]
async fn ended_lease_is_logged_before_the_session_expires() {
    let (log, _guard) = Log::start();
    let server = TestServer::in_memory();
    let client = connect(&server).await;
    let held = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    server.refuse_connects(0);
    server.connections().cut(zk_testing::Cut::Rst);
    assert_eq!(held.lost().await, LossReason::LeaseDeadlinePassed);
    log.assert_one(&["event WARN", "disconnected", "cause="]);
    // The guard knows by the clock; the session reports it when it next tries to connect.
    while log.with(&["lease ended"]).is_empty() {
        tokio::time::sleep(Duration::from_millis(100)).await; // reason: virtual time
    }
    log.assert_one(&["event WARN", "lease ended", "paused_ms=0"]);
    assert_eq!(log.with(&["session expired"]), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn slow_and_throttled_requests_are_logged() {
    let (log, _guard) = Log::start();
    let server = TestServer::in_memory();
    let client = connect(&server).await;
    server.on(Op::Exists).delay(Duration::from_secs(2));
    client.exists("/slow").await.unwrap();
    log.assert_one(&["event WARN", "slow request", "exists", "path=/slow", "took_ms=2000"]);
    server.on(Op::GetData).answer(ErrorCode::THROTTLED_OP);
    assert!(client.get_data("/often").await.is_err());
    log.assert_one(&["event WARN", "the server throttles requests", "path=/often"]);
}

#[tokio::test(start_paused = true)]
async fn secrets_are_never_logged() {
    let (log, _guard) = Log::start();
    let server = TestServer::in_memory_with(Settings::new().sasl_user("alice", "sesame"));
    let config = Config::new("server-0:1").unwrap().auth("digest", "bob:open-says-me");
    let config = config.sasl(DigestMd5::new("alice", "sesame"));
    let client = config.clone().connector(server.clone()).connect().await.unwrap();
    client.add_auth("digest", "carol:open-says-me").await.unwrap();
    let wrong = config.sasl(DigestMd5::new("alice", "wrong-sesame"));
    assert!(wrong.connector(server).connect().await.is_err());
    log.assert_one(&["event ERROR", "authentication failed"]);
    for secret in ["sesame", "open-says-me"] {
        assert_eq!(log.with(&[secret]), [] as [String; 0]);
    }
}
