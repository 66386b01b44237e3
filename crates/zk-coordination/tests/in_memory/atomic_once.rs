//! Additions by the id of an operation.

use std::time::Duration;

use futures::future::try_join_all;
use zk_coordination::session::{CreateMode, Outcome};
use zk_coordination::{AtomicError, AtomicInteger};
use zk_testing::{Cut, Op, TestServer};

use crate::atomic::{long, number};
use crate::{
    SECOND, children, client, client_of_all, clients, data, lose, more_clients, pass, settle,
};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn operation_counts_once_over_clients() {
    let (server, [one, other]) = clients().await;
    let (one, other) = (long(&one), long(&other));
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
    let (server, clients) = clients::<16>().await;
    let adding = clients.each_ref().map(async |client| long(client).add_once("a", 3).await);
    assert_eq!(try_join_all(adding).await.unwrap(), [3; 16]);
    assert_eq!(number(&server, "/c"), Some(3));
}

#[tokio::test(start_paused = true)]
async fn operation_survives_a_lost_reply_and_a_lost_request() {
    for is_applied in [true, false] {
        let (server, [client]) = clients().await;
        let counter = long(&client);
        counter.set(10).await.unwrap();
        let fault = lose(server.on(Op::Multi).by(Cut::Rst), is_applied);
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
    let counter = long(&client_of_all(&server, 1).await);
    counter.set(10).await.unwrap();
    for follower in [1, 2] {
        server.lag(follower, SECOND / 2);
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
    let (server, [first]) = clients().await;
    let counter = long(&first);
    counter.set(10).await.unwrap();
    server.on(Op::Multi).apply_then_drop_reply();
    server.refuse_connects(0);
    let error = counter.add_once("a", 1).await.unwrap_err();
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    server.accept_connects(0);
    let counter = long(&client(&server, 2).await);
    assert_eq!(counter.add_once("a", 1).await.unwrap(), 11, "after a restart of the process");
    assert_eq!(counter.get().await.unwrap(), 11);
}

/// ZooKeeper compares versions, and the versions of both nodes begin at 0.
#[tokio::test(start_paused = true)]
async fn operation_on_a_recreated_node_is_reported_as_applied() {
    let (server, [one, other]) = clients().await;
    let counter = long(&one);
    counter.set(10).await.unwrap();
    // The reads of the marker and of the number.
    let slow = server.on(Op::GetData).nth(2).delay(SECOND);
    let adding = tokio::spawn(async move { counter.add_once("a", 1).await });
    settle().await;
    assert_eq!(slow.count(), 1);
    other.delete("/c", None).await.unwrap();
    other.create("/c", 50_i64.to_be_bytes(), CreateMode::Persistent).await.unwrap();
    let error = adding.await.unwrap().unwrap_err();
    assert_eq!(error, AtomicError::NodeRecreated { path: "/c".into() });
    assert_eq!(number(&server, "/c"), Some(11));
}

#[tokio::test(start_paused = true)]
async fn id_with_another_number_is_a_typed_error() {
    let (_server, [client]) = clients().await;
    let counter = AtomicInteger::new(&client, "/c").unwrap();
    counter.add_once("a", 1).await.unwrap();
    let error = counter.add_once("a", 2).await.unwrap_err();
    assert_eq!(error, AtomicError::OperationIdReused { path: "/c/operation-a".into() });
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
    let (server, [client]) = clients().await;
    let counter = long(&client);
    assert_eq!(counter.forget_operations(MINUTE).await.unwrap(), 0);
    for n in 0..300 {
        counter.add_once(&format!("old-{n}"), 1).await.unwrap();
    }
    client.create("/c/another-child", b"", CreateMode::Persistent).await.unwrap();
    pass(2 * MINUTE).await;
    assert_eq!(counter.forget_operations(MINUTE).await.unwrap(), 0, "by the last change");
    counter.add_once("new", 1).await.unwrap();
    assert_eq!(counter.forget_operations(MINUTE).await.unwrap(), 300);
    settle().await;
    let left = children(&server, "/c");
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(counter.add_once("new", 1).await.unwrap(), 301);
    assert_eq!(counter.add_once("old-7", 1).await.unwrap(), 302, "its marker is gone");
}

/// The servers of the clients show an old number, to which the addition would overflow, or data that was
/// no number, and that a client has repaired.
#[tokio::test(start_paused = true)]
async fn errors_are_decided_after_the_server_has_caught_up() {
    let overflow = AtomicError::Overflow { path: "/c".to_owned() };
    let corrupted = AtomicError::Corrupted { path: "/c".to_owned(), len: 3, expected: 8 };
    for (old, error) in [(&i64::MAX.to_be_bytes()[..], overflow), (b"abc", corrupted)] {
        for (id, sum) in [(Some("order-1"), 4), (Some("order-2"), 8), (None, 8)] {
            let server = TestServer::ensemble(3);
            let [one] = more_clients(&server, 1).await;
            one.create("/c", old, CreateMode::Persistent).await.unwrap();
            settle().await;
            for follower in [1, 2] {
                server.lag(follower, 2 * SECOND);
            }
            server.refuse_connects(0);
            let (first, other) = (long(&one), long(&client_of_all(&server, 3).await));
            first.set(0).await.unwrap();
            assert_eq!(first.add_once("order-1", 4).await.unwrap(), 4);
            let added = match id {
                Some(id) => other.add_once(id, 4).await,
                None => other.add(4).await,
            };
            assert_eq!(added, Ok(sum), "{id:?}");
            one.set_data("/c", old, None).await.unwrap();
            assert_eq!(other.add_once("order-3", 4).await, Err(error.clone()));
            assert_eq!(other.add(4).await, Err(error.clone()));
            assert_eq!(error.outcome(), Outcome::NotApplied);
        }
    }
}
