//! The end of a generation of the double barrier, and members that cannot enter or leave at once.

use zk_coordination::session::{CreateMode, ErrorCode, Outcome};
use zk_testing::{Cut, Op};

use crate::double_barrier::{
    barrier, both_entered, create_as_curator, entered, entering, expect_empty, leave_all, leaving,
    lost_session, nodes, slow_close,
};
use crate::{MS, SECOND, T, all, clients, data, pass, settle};

/// In Curator, a member whose `leave` times out deletes `ready` while others are inside.
#[tokio::test(start_paused = true)]
async fn leave_ends_when_another_client_deletes_ready() {
    let (server, [one, two, java]) = clients().await;
    let (first, second) = both_entered(&one, &two).await;
    let first = leaving(first);
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
    let (server, [java, one]) = clients().await;
    java.create("/b", b"", CreateMode::Container).await.unwrap();
    create_as_curator(&java, "java-1").await;
    create_as_curator(&java, "ready").await;
    let newcomer = entering(&one, 2);
    settle().await;
    assert_eq!(nodes(&server).len(), 2, "it waits for the end of the generation");
    java.delete("/b/ready", None).await.unwrap();
    settle().await;
    assert!(newcomer.is_finished(), "the member of Curator's counts for the next generation");
    drop(entered(newcomer).await);
}

/// The connection is lost while the next generation enters.
#[tokio::test(start_paused = true)]
async fn leave_does_not_wait_for_the_next_generation() {
    let (server, [one, two, three, four]) = clients().await;
    let (first, second) = both_entered(&one, &two).await;
    let slow = leaving(second);
    settle().await;
    server.refuse_connects(0);
    server.connection_of(two.session_id()).cut(Cut::Rst);
    leaving(first).await.unwrap().unwrap();
    let _next = both_entered(&three, &four).await;
    server.accept_connects(0);
    pass(T / 2).await; // in which the session reconnects
    assert!(slow.is_finished(), "it waits for another generation");
    slow.await.unwrap().unwrap();
}

/// The servers delete the empty container, so the next generation has the same version again.
#[tokio::test(start_paused = true)]
async fn repeated_close_keeps_ready_of_a_new_container() {
    let (server, others, slow) = slow_close(true).await;
    assert_eq!(nodes(&server), [""; 0]);
    server.reap_containers();
    assert!(data(&server, "/b").is_none());
    let next = others.map(|client| entering(&client, 2));
    settle().await;
    server.accept_connects(0);
    slow.await.unwrap().unwrap();
    assert_eq!(nodes(&server).len(), 3, "`ready` of the next generation is still there");
    all(next).await;
}

/// The members of the next generation may come while the last one is closed.
#[tokio::test(start_paused = true)]
async fn node_of_a_closing_member_is_not_counted() {
    let (server, [three, _], slow) = slow_close(false).await;
    assert_eq!(nodes(&server).len(), 2, "`ready`, and the node that closes the barrier");
    let waiting = entering(&three, 2);
    pass(SECOND).await; // in which the member would open the barrier
    let left = nodes(&server);
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
            let (server, [one, two]) = clients().await;
            let waiting = entering(&one, 2);
            settle().await;
            let throttled = server.on(op).session(two.session_id()).nth(nth);
            throttled.times(3).answer(ErrorCode::THROTTLED_OP);
            let second = barrier(&two, 2).enter_timeout(T).await;
            let second = second.unwrap_or_else(|error| panic!("{op:?}, {nth}: {error}"));
            leave_all(&server, vec![second.unwrap(), entered(waiting).await]).await;
        }
    }
}

/// The newcomer closes the barrier of members that have died, and loses its session.
#[tokio::test(start_paused = true)]
async fn session_lost_before_the_create_is_not_applied() {
    let (server, [one, two]) = clients().await;
    two.create("/b", b"", CreateMode::Container).await.unwrap();
    two.create("/b/ready", b"", CreateMode::Persistent).await.unwrap();
    server.on(Op::Multi).apply_then_drop_reply();
    server.refuse_connects(0);
    let waiting = entering(&one, 2);
    settle().await;
    server.expire(one.session_id());
    server.accept_connects(0);
    assert_eq!(lost_session(waiting).await, Outcome::NotApplied, "it has had no node of a member");
}

#[tokio::test(start_paused = true)]
async fn leave_goes_on_when_its_delete_times_out() {
    let (server, [one, two]) = clients().await;
    let waiting = entering(&one, 2);
    let second = entered(entering(&two.with_timeout(SECOND), 2)).await;
    server.on(Op::Delete).session(two.session_id()).delay(2 * SECOND);
    leave_all(&server, vec![second, entered(waiting).await]).await;
}

#[tokio::test(start_paused = true)]
async fn leave_after_a_rejected_delete_deletes_again() {
    let (server, [client]) = clients().await;
    let mut alone = barrier(&client, 1).enter().await.unwrap();
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
        let (server, clients) = clients::<6>().await;
        let inside = all(clients.each_ref().map(|client| entering(client, 6))).await;
        if is_slow {
            server.on(Op::Create2).always().delay(20 * MS);
        }
        leave_all(&server, inside).await;
    }
}
