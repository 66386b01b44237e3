//! Tests of request faults and of their effect on a client.

use std::time::Duration;

use tokio::time::Instant;
use zk_session::{CreateMode, ErrorCode, ErrorKind, Outcome, SessionEvent};
use zk_testing::{Op, TestServer};

use crate::in_memory::client_of;

#[tokio::test(start_paused = true)]
async fn lost_reply_gives_unknown_outcome() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    for (path, is_there) in [("/applied", true), ("/dropped", false)] {
        let fault = if is_there {
            server.on(Op::Create2).apply_then_drop_reply()
        } else {
            server.on(Op::Create2).drop_before_applying()
        };
        let error = client.create(path, b"", CreateMode::Persistent).await.unwrap_err();
        assert_eq!(error.outcome(), Outcome::Unknown);
        assert_eq!(server.with(|ensemble| ensemble.tree().contains(path)), is_there);
        assert_eq!(fault.count(), 1);
        assert_eq!(client.exists(path).await.unwrap().is_some(), is_there);
    }
}

#[tokio::test(start_paused = true)]
async fn request_latency_contains_the_delay_of_a_reply() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
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
async fn answer_fault_returns_chosen_error_until_cancelled() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    let fault = server.on(Op::GetData).always().answer(ErrorCode::THROTTLED_OP);
    let error = client.get_data("/").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Server(ErrorCode::THROTTLED_OP)), "{error:?}");
    fault.cancel();
    assert!(client.get_data("/").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn delayed_reply_arrives_after_exact_delay() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    server.on(Op::Exists).delay(Duration::from_millis(700));
    let started = now();
    client.exists("/").await.unwrap();
    assert_eq!(started.elapsed().as_millis(), 700);
}

#[tokio::test(start_paused = true)]
async fn expired_session_is_reported_at_reconnect() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    let mut events = client.events();
    server.on(Op::Create2).apply_then_expire_session();
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    while !matches!(events.next().await, Some(SessionEvent::Expired { .. })) {}
    assert!(server.with(|ensemble| !ensemble.tree().contains("/e")));
}

#[tokio::test(start_paused = true)]
async fn stalled_connection_continues_after_resume() {
    let server = TestServer::in_memory();
    let client = client_of(&server, 0).await;
    let stalled = server.connection_of(client.session_id());
    stalled.stall();
    let created = client.create("/a", b"", CreateMode::Persistent);
    tokio::task::yield_now().await;
    assert!(server.with(|ensemble| !ensemble.tree().contains("/a")));
    stalled.resume();
    created.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn requests_have_correct_outcome_under_random_faults() {
    for seed in 0..20 {
        let settings = zk_testing::Settings::new().seed(seed);
        let server = TestServer::in_memory_with(settings);
        let client = client_of(&server, 0).await;
        server.on(Op::Create2).always().with_probability(0.1).apply_then_drop_reply();
        server.on(Op::Create2).always().with_probability(0.1).drop_before_applying();
        server.next_reply_to(Op::Create2).always().with_probability(0.3).split(3);
        let mut applied = 0;
        for number in 0..50 {
            let path = format!("/{number}");
            let result = client.create(&path, b"", CreateMode::Persistent).await;
            let is_there = server.with(|ensemble| ensemble.tree().contains(&path));
            applied += usize::from(is_there);
            match result {
                Ok(_) => assert!(is_there, "seed {seed}"),
                Err(error) => assert_ne!(error.outcome(), Outcome::Applied, "seed {seed}"),
            }
        }
        assert_eq!(server.with(|ensemble| ensemble.tree().len()), 4 + applied, "seed {seed}");
    }
}

#[allow(clippy::disallowed_methods, reason = "tokio's clock, which the test has stopped")]
fn now() -> Instant {
    Instant::now()
}
