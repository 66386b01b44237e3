//! Additions by the id of an operation.

use std::time::Duration;

use zk_coordination::session::{CreateMode, Outcome};
use zk_coordination::{AtomicError, AtomicInteger, AtomicLong};
use zk_testing::{Cut, Op, TestServer};

use crate::atomic::data;
use crate::{client, client_of_three, settle};

#[tokio::test(start_paused = true)]
async fn operation_counts_once_over_clients() {
    let server = TestServer::in_memory();
    let (one, other) = (client(&server, 1).await, client(&server, 2).await);
    let (one, other) =
        (AtomicLong::new(&one, "/c").unwrap(), AtomicLong::new(&other, "/c").unwrap());
    assert_eq!(one.add_once("order-1", 5).await.unwrap(), 5);
    assert_eq!(one.add(10).await.unwrap(), 15);
    assert_eq!(other.add_once("order-1", 5).await.unwrap(), 5, "the number at that time");
    assert_eq!(other.add_once("order-2", 5).await.unwrap(), 20);
    assert_eq!(one.get().await.unwrap(), 20);
    let marker = [5_i64.to_be_bytes(), 20_i64.to_be_bytes()].concat();
    assert_eq!(data(&server, "/c/operation-order-2").unwrap(), marker);
}

#[tokio::test(start_paused = true)]
async fn racing_clients_apply_an_operation_once() {
    let server = TestServer::in_memory();
    let mut adding = Vec::new();
    for seed in 0..16 {
        let client = client(&server, seed).await;
        adding.push(tokio::spawn(async move {
            AtomicLong::new(&client, "/c").unwrap().add_once("a", 3).await
        }));
    }
    for adding in adding {
        assert_eq!(adding.await.unwrap().unwrap(), 3);
    }
    assert_eq!(data(&server, "/c").unwrap(), 3_i64.to_be_bytes());
}

#[tokio::test(start_paused = true)]
async fn operation_survives_a_lost_reply_and_a_lost_request() {
    for is_applied in [true, false] {
        let server = TestServer::in_memory();
        let client = client(&server, 1).await;
        let counter = AtomicLong::new(&client, "/c").unwrap();
        counter.set(10).await.unwrap();
        let fault = server.on(Op::Multi).by(Cut::Rst);
        let fault =
            if is_applied { fault.apply_then_drop_reply() } else { fault.drop_before_applying() };
        assert_eq!(counter.add_once("a", 1).await.unwrap(), 11);
        assert_eq!((counter.get().await.unwrap(), fault.count()), (11, 1));
    }
}

/// The new connection is to a server that has not applied the transaction. Without a `sync`, a second
/// transaction would follow, and its failure would say that the operation was not applied.
#[tokio::test(start_paused = true)]
async fn operation_is_decided_after_a_sync() {
    let server = TestServer::ensemble(3);
    server.refuse_connects(1);
    server.refuse_connects(2);
    let client = client_of_three(&server, 1).await;
    let counter = AtomicLong::new(&client, "/c").unwrap();
    counter.set(10).await.unwrap();
    for follower in [1, 2] {
        server.lag(follower, Duration::from_millis(500));
    }
    server.refuse_connects(0);
    server.accept_connects(1);
    server.on(Op::Multi).apply_then_drop_reply();
    let second = server.on(Op::Multi).drop_before_applying();
    assert_eq!(counter.add_once("a", 1).await.unwrap(), 11);
    assert_eq!(second.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn operation_goes_on_in_the_next_session() {
    let server = TestServer::in_memory();
    let first = client(&server, 1).await;
    let counter = AtomicLong::new(&first, "/c").unwrap();
    counter.set(10).await.unwrap();
    server.on(Op::Multi).apply_then_drop_reply();
    server.refuse_connects(0);
    let error = counter.add_once("a", 1).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    server.accept_connects(0);
    let counter = AtomicLong::new(&client(&server, 2).await, "/c").unwrap();
    assert_eq!(counter.add_once("a", 1).await.unwrap(), 11, "after a restart of the process");
    assert_eq!(counter.get().await.unwrap(), 11);
}

/// ZooKeeper compares versions, and the versions of both nodes begin at 0.
#[tokio::test(start_paused = true)]
async fn operation_on_a_recreated_node_is_reported_as_applied() {
    let server = TestServer::in_memory();
    let (one, other) = (client(&server, 1).await, client(&server, 2).await);
    let counter = AtomicLong::new(&one, "/c").unwrap();
    counter.set(10).await.unwrap();
    // The reads of the marker and of the number.
    let slow = server.on(Op::GetData).nth(2).delay(Duration::from_secs(1));
    let adding = tokio::spawn(async move { counter.add_once("a", 1).await });
    settle().await;
    assert_eq!(slow.count(), 1);
    other.delete("/c", None).await.unwrap();
    other.create("/c", 50_i64.to_be_bytes(), CreateMode::Persistent).await.unwrap();
    let error = adding.await.unwrap().unwrap_err();
    assert_eq!(error, AtomicError::NodeRecreated { path: "/c".into() });
    assert_eq!(data(&server, "/c").unwrap(), 11_i64.to_be_bytes());
}

#[tokio::test(start_paused = true)]
async fn id_with_another_number_is_a_typed_error() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let counter = AtomicInteger::new(&client, "/c").unwrap();
    counter.add_once("a", 1).await.unwrap();
    let marker = "/c/operation-a".to_owned();
    let error = counter.add_once("a", 2).await.unwrap_err();
    assert_eq!(error, AtomicError::OperationIdReused { path: marker.clone() });
    for id in ["", "a/b", "a\0", "/"] {
        let error = counter.add_once(id, 1).await.unwrap_err();
        assert_eq!(error, AtomicError::InvalidOperationId { id: id.to_owned() });
    }
    client.create("/c/operation-b", b"123456789", CreateMode::Persistent).await.unwrap();
    let error = counter.add_once("b", 1).await.unwrap_err();
    let path = "/c/operation-b".to_owned();
    assert_eq!(error, AtomicError::Corrupted { path, len: 9, expected: 8 });
    assert_eq!(counter.get().await.unwrap(), 1);
}

#[tokio::test(start_paused = true)]
async fn old_markers_are_forgotten_and_count_again() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let counter = AtomicLong::new(&client, "/c").unwrap();
    let minute = Duration::from_secs(60);
    assert_eq!(counter.forget_operations(minute).await.unwrap(), 0);
    for n in 0..300 {
        counter.add_once(&format!("old-{n}"), 1).await.unwrap();
    }
    client.create("/c/another-child", b"", CreateMode::Persistent).await.unwrap();
    tokio::time::sleep(2 * minute).await; // reason: virtual time, the age of the markers
    assert_eq!(counter.forget_operations(minute).await.unwrap(), 0, "by the last change");
    counter.add_once("new", 1).await.unwrap();
    assert_eq!(counter.forget_operations(minute).await.unwrap(), 300);
    settle().await;
    let left: Vec<String> = server
        .with(|ensemble| ensemble.tree().node("/c").unwrap().children().map(Into::into).collect());
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(counter.add_once("new", 1).await.unwrap(), 301);
    assert_eq!(counter.add_once("old-7", 1).await.unwrap(), 302, "its marker is gone");
}

/// The server shows the number of before, to which the addition would overflow.
#[tokio::test(start_paused = true)]
async fn overflow_is_decided_after_the_server_has_caught_up() {
    let server = TestServer::ensemble(3);
    let first = AtomicLong::new(&client(&server, 1).await, "/c").unwrap();
    first.set(i64::MAX).await.unwrap();
    settle().await;
    for follower in [1, 2] {
        server.lag(follower, Duration::from_secs(2));
    }
    server.refuse_connects(0);
    let mut others = Vec::new();
    for seed in 3..6 {
        let other = client_of_three(&server, seed).await;
        others.push(AtomicLong::new(&other, "/c").unwrap());
    }
    first.set(0).await.unwrap();
    assert_eq!(first.add_once("order-1", 4).await.unwrap(), 4);
    assert_eq!(others[0].add_once("order-1", 4).await.unwrap(), 4, "it was applied");
    assert_eq!(others[1].add_once("order-2", 4).await.unwrap(), 8, "it can be applied");
    first.set(i64::MAX).await.unwrap();
    let error = others[2].add_once("order-3", 4).await.unwrap_err();
    assert_eq!(error, AtomicError::Overflow { path: "/c".to_owned() });
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

/// The server shows data that was no number, and that a client has repaired.
#[tokio::test(start_paused = true)]
async fn corruption_is_decided_after_the_server_has_caught_up() {
    let server = TestServer::ensemble(3);
    let one = client(&server, 1).await;
    one.create("/c", b"abc", CreateMode::Persistent).await.unwrap();
    settle().await;
    for follower in [1, 2] {
        server.lag(follower, Duration::from_secs(2));
    }
    server.refuse_connects(0);
    let [first, second, third] = [3, 4, 5].map(|seed| client_of_three(&server, seed));
    let other = |client| AtomicLong::new(&client, "/c").unwrap();
    let others = [other(first.await), other(second.await), other(third.await)];
    AtomicLong::new(&one, "/c").unwrap().set(0).await.unwrap();
    assert_eq!(others[0].add(4).await.unwrap(), 4);
    assert_eq!(others[1].add_once("a", 4).await.unwrap(), 8);
    assert!(others[2].compare_and_set(8, 1).await.unwrap());
    one.set_data("/c", b"abc", None).await.unwrap();
    let corrupted = AtomicError::Corrupted { path: "/c".to_owned(), len: 3, expected: 8 };
    assert_eq!(others[0].add(4).await.unwrap_err(), corrupted);
    assert_eq!(others[1].add_once("b", 4).await.unwrap_err(), corrupted);
}
