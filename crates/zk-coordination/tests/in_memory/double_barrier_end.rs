//! The end of a generation of the double barrier, and members that cannot enter or leave at once.

use std::time::Duration;

use zk_coordination::BarrierError;
use zk_coordination::session::{CreateMode, ErrorCode, Outcome, RetryOn};
use zk_testing::{Cut, Op, TestServer};

use crate::double_barrier::{
    SECOND, barrier, both_entered, children, create_as_curator, entered, entering, expect_empty,
    leaving,
};
use crate::{T, client, settle};

/// In Curator, a member whose `leave` times out deletes `ready` while others are inside.
#[tokio::test(start_paused = true)]
async fn leave_ends_when_another_client_deletes_ready() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let java = client(&server, 3).await;
    let waiting = entering(&one, 2);
    let second = entered(entering(&two, 2)).await;
    let first = leaving(entered(waiting).await);
    settle().await;
    assert!(!first.is_finished());
    java.delete("/b/ready", None).await.unwrap();
    settle().await;
    assert!(first.is_finished(), "it waits for a member of an ended generation");
    first.await.unwrap().unwrap();
    drop(second);
    expect_empty(&server).await;
}

#[tokio::test(start_paused = true)]
async fn newcomer_becomes_a_member_when_ready_is_deleted() {
    let server = TestServer::in_memory();
    let (java, one) = (client(&server, 1).await, client(&server, 2).await);
    java.create("/b", b"", CreateMode::Container).await.unwrap();
    create_as_curator(&java, "java-1").await;
    create_as_curator(&java, "ready").await;
    let newcomer = entering(&one, 2);
    settle().await;
    assert_eq!(children(&server).len(), 2, "it waits for the end of the generation");
    java.delete("/b/ready", None).await.unwrap();
    settle().await;
    assert!(newcomer.is_finished(), "the member of Curator's counts for the next generation");
    drop(entered(newcomer).await);
    settle().await;
}

/// The connection is lost while the next generation enters.
#[tokio::test(start_paused = true)]
async fn leave_does_not_wait_for_the_next_generation() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let (three, four) = (client(&server, 3).await, client(&server, 4).await);
    let (first, second) = both_entered(&one, &two).await;
    let slow = leaving(second);
    settle().await;
    server.refuse_connects(0);
    server.connection_of(two.session_id()).cut(Cut::Rst);
    leaving(first).await.unwrap().unwrap();
    let next = both_entered(&three, &four).await;
    server.accept_connects(0);
    // reason: virtual time, in which the session reconnects
    tokio::time::sleep(T / 2).await;
    assert!(slow.is_finished(), "it waits for another generation");
    slow.await.unwrap().unwrap();
    drop(next);
    settle().await;
}

/// The servers delete the empty container, so the next generation has the same version again.
#[tokio::test(start_paused = true)]
async fn repeated_close_keeps_ready_of_a_new_container() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let (three, four) = (client(&server, 3).await, client(&server, 4).await);
    let (first, second) = both_entered(&one, &two).await;
    drop(first);
    settle().await;
    server.on(Op::Multi).session(two.session_id()).apply_then_drop_reply();
    server.refuse_connects(0);
    let slow = leaving(second);
    settle().await;
    assert_eq!(children(&server), [""; 0]);
    server.reap_containers();
    assert!(server.with(|ensemble| ensemble.tree().node("/b").is_none()));
    let next = [entering(&three, 2), entering(&four, 2)];
    settle().await;
    server.accept_connects(0);
    slow.await.unwrap().unwrap();
    assert_eq!(children(&server).len(), 3, "`ready` of the next generation is still there");
    for next in next {
        drop(entered(next).await);
    }
    settle().await;
}

/// The members of the next generation may come while the last one is closed.
#[tokio::test(start_paused = true)]
async fn node_of_a_closing_member_is_not_counted() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let three = client(&server, 3).await;
    let (first, second) = both_entered(&one, &two).await;
    drop(first);
    settle().await;
    server.on(Op::Multi).session(two.session_id()).drop_before_applying();
    server.refuse_connects(0);
    let slow = leaving(second);
    settle().await;
    assert_eq!(children(&server).len(), 2, "`ready`, and the node that closes the barrier");
    let waiting = entering(&three, 2);
    // reason: virtual time, in which the member would open the barrier
    tokio::time::sleep(SECOND).await;
    let left = children(&server);
    assert_eq!(left.len(), 2, "a member, and the node that closed the barrier");
    assert!(!left.contains(&"ready".to_owned()), "the member has closed the barrier: {left:?}");
    assert!(!waiting.is_finished(), "one member has opened a barrier of two");
    server.accept_connects(0);
    slow.await.unwrap().unwrap();
    waiting.abort();
    expect_empty(&server).await;
}

#[tokio::test(start_paused = true)]
async fn throttled_member_enters_and_leaves() {
    let ops = [Op::Create2, Op::GetChildren2, Op::Exists, Op::GetData, Op::Multi, Op::Delete];
    for op in ops {
        for nth in 1..8 {
            let server = TestServer::in_memory();
            let (one, two) = (client(&server, 1).await, client(&server, 2).await);
            let waiting = entering(&one, 2);
            settle().await;
            let throttled = server.on(op).session(two.session_id()).nth(nth);
            throttled.times(3).answer(ErrorCode::THROTTLED_OP);
            let second = barrier(&two, 2).enter_timeout(T).await;
            let second = second.unwrap_or_else(|error| panic!("{op:?}, {nth}: {error}"));
            let leaving = [leaving(second.unwrap()), leaving(entered(waiting).await)];
            for leaving in leaving {
                let left = leaving.await.unwrap();
                left.unwrap_or_else(|error| panic!("{op:?}, {nth}: {error}"));
            }
            expect_empty(&server).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_without_a_member_needs_no_ensemble() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let three = client(&server, 3).await;
    let _inside = both_entered(&one, &two).await;
    let late = {
        let barrier = barrier(&three, 2);
        tokio::spawn(async move { barrier.enter_timeout(SECOND).await })
    };
    settle().await;
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    // reason: virtual time, the timeout itself
    tokio::time::sleep(SECOND).await;
    assert!(late.is_finished(), "it has no node that it could withdraw");
    assert!(late.await.unwrap().unwrap().is_none());
}

/// Expects an error of a request, and returns the outcome of the entry.
fn outcome(error: &BarrierError) -> Outcome {
    assert_eq!(error.retry_on(), RetryOn::NewSession, "{error}");
    let BarrierError::Client(cause) = error else { panic!("{error}") };
    cause.outcome()
}

/// The newcomer closes the barrier of members that have died, and loses its session.
#[tokio::test(start_paused = true)]
async fn session_lost_before_the_create_is_not_applied() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    two.create("/b", b"", CreateMode::Container).await.unwrap();
    two.create("/b/ready", b"", CreateMode::Persistent).await.unwrap();
    server.on(Op::Multi).apply_then_drop_reply();
    server.refuse_connects(0);
    let waiting = entering(&one, 2);
    settle().await;
    server.expire(one.session_id());
    server.accept_connects(0);
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(outcome(&error), Outcome::NotApplied, "it has had no node of a member");
}

#[tokio::test(start_paused = true)]
async fn entry_below_a_rejected_parent_is_not_applied() {
    let server = TestServer::in_memory();
    let one = client(&server, 1).await;
    server.on(Op::CreateContainer).always().answer(ErrorCode::NO_AUTH);
    let error = barrier(&one, 2).enter().await.unwrap_err();
    let BarrierError::Client(error) = error else { panic!("{error}") };
    assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
    assert_eq!(error.outcome(), Outcome::NotApplied);
}

#[tokio::test(start_paused = true)]
async fn session_lost_by_a_member_has_an_unknown_outcome() {
    let server = TestServer::in_memory();
    let one = client(&server, 1).await;
    let waiting = entering(&one, 2);
    settle().await;
    server.expire(one.session_id());
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(outcome(&error), Outcome::Unknown, "the barrier may have opened");
}

#[tokio::test(start_paused = true)]
async fn leave_goes_on_when_its_delete_times_out() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let waiting = entering(&one, 2);
    let impatient = two.with_timeout(SECOND);
    let second = entered(entering(&impatient, 2)).await;
    server.on(Op::Delete).session(two.session_id()).delay(2 * SECOND);
    let leaving = [leaving(second), leaving(entered(waiting).await)];
    for leaving in leaving {
        leaving.await.unwrap().unwrap();
    }
    expect_empty(&server).await;
}

#[tokio::test(start_paused = true)]
async fn leave_after_a_rejected_delete_deletes_again() {
    let server = TestServer::in_memory();
    let mut alone = barrier(&client(&server, 1).await, 1).enter().await.unwrap();
    server.on(Op::Delete).answer(ErrorCode::NO_AUTH);
    alone.leave().await.unwrap_err();
    let left = tokio::time::timeout(T, alone.leave()).await;
    left.expect("it waits for its own node").unwrap();
    expect_empty(&server).await;
}

/// All members leave in one moment, so each of them may close the barrier.
#[tokio::test(start_paused = true)]
async fn members_that_leave_at_once_close_the_barrier() {
    for is_slow in [false, true] {
        let server = TestServer::in_memory();
        let mut members = Vec::new();
        for seed in 0..6 {
            members.push(entering(&client(&server, seed).await, 6));
        }
        let mut inside = Vec::new();
        for member in members {
            inside.push(entered(member).await);
        }
        if is_slow {
            server.on(Op::Create2).always().delay(Duration::from_millis(20));
        }
        let leaving: Vec<_> = inside.into_iter().map(leaving).collect();
        for leaving in leaving {
            leaving.await.unwrap().unwrap();
        }
        expect_empty(&server).await;
    }
}
