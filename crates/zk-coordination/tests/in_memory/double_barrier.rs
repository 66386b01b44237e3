//! The double barrier: entering and leaving together, generations, timeouts and losses.

use std::time::Duration;

use tokio::task::JoinHandle;
use zk_coordination::limits::{MEMBERS_MAX, RESTARTS_MAX, WITHDRAWAL_TIME};
use zk_coordination::session::{Client, CreateMode, ErrorCode, Outcome, RetryOn};
use zk_coordination::{BarrierError, DoubleBarrier, Entered};
use zk_testing::server::NodeKind;
use zk_testing::{Cut, Op, TestServer};

use crate::barrier::settle_watches;
use crate::{MS, T, client, polled, settle};

pub(crate) type Entering = JoinHandle<Result<Entered, BarrierError>>;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn barrier(client: &Client, members: u32) -> DoubleBarrier {
    DoubleBarrier::new(client, "/b", members).unwrap()
}

pub(crate) fn entering(client: &Client, members: u32) -> Entering {
    let barrier = barrier(client, members);
    tokio::spawn(async move { barrier.enter().await })
}

pub(crate) async fn entered(entering: Entering) -> Entered {
    entering.await.unwrap().unwrap()
}

/// Enters a barrier of two.
pub(crate) async fn both_entered(one: &Client, two: &Client) -> (Entered, Entered) {
    let (first, second) = (entering(one, 2), entering(two, 2));
    (entered(first).await, entered(second).await)
}

pub(crate) fn leaving(mut entered: Entered) -> JoinHandle<Result<(), BarrierError>> {
    tokio::spawn(async move { entered.leave().await })
}

pub(crate) fn children(server: &TestServer) -> Vec<String> {
    server.with(|ensemble| {
        let node = ensemble.tree().node("/b");
        node.map(|node| node.children().map(str::to_owned).collect()).unwrap_or_default()
    })
}

/// Expects that nothing is left of the barrier.
pub(crate) async fn expect_empty(server: &TestServer) {
    settle_watches().await;
    assert_eq!(children(server), [""; 0]);
    assert_eq!(server.with(|ensemble| ensemble.watches(0)), 0, "watches are left");
}

#[tokio::test(start_paused = true)]
async fn members_enter_and_leave_together() {
    let server = TestServer::in_memory();
    let mut waiting = Vec::new();
    for seed in 0..5 {
        assert!(waiting.iter().all(|entering: &Entering| !entering.is_finished()));
        waiting.push(entering(&client(&server, seed).await, 5));
        settle().await;
    }
    let mut members = Vec::new();
    for entering in waiting {
        members.push(entered(entering).await);
    }
    server.with(|ensemble| {
        let kind = |path: &str| ensemble.tree().node(path).unwrap().kind();
        assert_eq!((kind("/b"), kind("/b/ready")), (NodeKind::Container, NodeKind::Persistent));
        assert!(matches!(kind(members[0].node()), NodeKind::Ephemeral(_)));
    });
    let mut waiting = Vec::new();
    for member in members {
        assert!(waiting.iter().all(|leaving: &JoinHandle<_>| !leaving.is_finished()));
        waiting.push(leaving(member));
        settle().await;
    }
    for leaving in waiting {
        leaving.await.unwrap().unwrap();
    }
    expect_empty(&server).await;
}

#[tokio::test(start_paused = true)]
async fn barrier_opens_after_throttled_requests() {
    let server = TestServer::in_memory();
    let waiting = entering(&client(&server, 0).await, 2);
    settle().await;
    server.on(Op::Multi).answer(ErrorCode::THROTTLED_OP);
    let second = entering(&client(&server, 1).await, 2);
    drop((entered(waiting).await, entered(second).await));
}

#[tokio::test(start_paused = true)]
async fn member_of_many_costs_twelve_requests() {
    let server = TestServer::in_memory();
    let (one, other) = (client(&server, 1).await, client(&server, 2).await);
    one.create("/b", b"", CreateMode::Container).await.unwrap();
    let before = one.stats().frames_sent;
    let waiting = entering(&one, 2);
    settle().await;
    let last = entered(entering(&other, 2)).await;
    let first = entered(waiting).await;
    assert_eq!(one.stats().frames_sent - before, 12);
    drop((first, last));
    settle().await;
}

/// Waits until the barrier has a member, or none.
async fn wait_for_members(client: &Client, are_there: bool) {
    loop {
        let (children, changed) = client.get_children_and_watch("/b").await.unwrap();
        if children.names.names().any(|name| name != "ready") == are_there {
            return;
        }
        changed.await.unwrap();
    }
}

/// Each generation opens after the member has created its node, and ends before the member looks.
#[tokio::test(start_paused = true)]
async fn slow_surplus_member_withdraws_any_number_of_times() {
    let server = TestServer::in_memory();
    let (others, slow) = (client(&server, 1).await, client(&server, 2).await);
    others.create("/b", b"", CreateMode::Persistent).await.unwrap();
    for op in [Op::Create2, Op::Multi] {
        server.on(op).session(slow.session_id()).always().delay(SECOND / 10);
    }
    let surplus = entering(&slow, 2);
    for _ in 0..RESTARTS_MAX + 4 {
        let created = tokio::time::timeout(T, wait_for_members(&others, true)).await;
        created.expect("the member tries again");
        others.create("/b/ready", b"newest member 0x1", CreateMode::Persistent).await.unwrap();
        wait_for_members(&others, false).await;
        others.delete("/b/ready", None).await.unwrap();
    }
    drop((entered(entering(&others, 2)).await, entered(surplus).await));
}

/// A waiter lists the members again only when the first one by name has left.
#[tokio::test(start_paused = true)]
async fn leave_of_many_members_takes_few_requests() {
    const MEMBERS: u32 = 64;
    let server = TestServer::in_memory();
    let mut clients = Vec::new();
    for n in 0..u128::from(MEMBERS) {
        // Seeds that are far apart, for names in any order.
        clients.push(client(&server, n.wrapping_mul(u128::MAX / 0x9e37_79b9)).await);
    }
    let waiting: Vec<Entering> = clients.iter().map(|client| entering(client, MEMBERS)).collect();
    let mut members = Vec::new();
    for waiting in waiting {
        members.push(entered(waiting).await);
    }
    settle_watches().await;
    let sent = || clients.iter().map(|client| client.stats().frames_sent).sum::<u64>();
    let before = sent();
    let mut waiting = Vec::new();
    for member in members {
        waiting.push(leaving(member));
        settle().await;
    }
    for leaving in waiting {
        leaving.await.unwrap().unwrap();
    }
    let each = (sent() - before) / MEMBERS as u64;
    assert!(each < 30, "{each} requests for each member");
    expect_empty(&server).await;
}

#[tokio::test(start_paused = true)]
async fn barrier_is_used_again_and_again() {
    let server = TestServer::in_memory();
    let mut playing = Vec::new();
    for seed in 0..4 {
        let client = client(&server, seed).await;
        playing.push(tokio::spawn(async move {
            for _ in 0..25 {
                let mut entered = barrier(&client, 4).enter().await.unwrap();
                entered.leave().await.unwrap();
            }
        }));
    }
    for playing in playing {
        playing.await.unwrap();
    }
    let version = server.with(|ensemble| ensemble.tree().node("/b").unwrap().stat().version);
    assert_eq!(version, 25, "each generation has a version of the node");
    expect_empty(&server).await;
}

/// In CURATOR-318, the node stays, and the next members pass with too few.
#[tokio::test(start_paused = true)]
async fn curator_318_timed_out_member_leaves_nothing_behind() {
    let server = TestServer::in_memory();
    let (one, other) = (client(&server, 1).await, client(&server, 2).await);
    assert!(barrier(&one, 2).enter_timeout(SECOND).await.unwrap().is_none());
    assert_eq!(children(&server), [""; 0], "before the call returns");
    expect_empty(&server).await;
    let waiting = entering(&other, 2);
    settle().await;
    assert!(!waiting.is_finished(), "one member is not two");
    let second = entered(entering(&one, 2)).await;
    let first = entered(waiting).await;
    drop((first, second));
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn zero_timeout_enters_and_leaves_at_any_round_trip() {
    for round_trip in [5, 50, 500].map(Duration::from_millis) {
        let server = TestServer::in_memory();
        let (one, other) = (client(&server, 1).await, client(&server, 2).await);
        drop(server.on_any_request().always().delay(round_trip));
        let at_once = barrier(&one, 2);
        for _ in 0..2 {
            let entered_alone = at_once.enter_timeout(Duration::ZERO).await.unwrap();
            assert!(entered_alone.is_none(), "{round_trip:?}");
            assert_eq!(children(&server), [""; 0], "before the call returns");
            let waiting = entering(&other, 2);
            // reason: virtual time, in which the other member joins
            tokio::time::sleep(8 * round_trip).await;
            let mut first = at_once.enter_timeout(Duration::ZERO).await.unwrap().unwrap();
            let mut second = entered(waiting).await;
            assert!(!first.leave_timeout(Duration::ZERO).await.unwrap(), "{round_trip:?}");
            let next = at_once.enter_timeout(Duration::ZERO).await.unwrap();
            assert!(next.is_none(), "the last generation is not over");
            assert!(second.leave_timeout(Duration::ZERO).await.unwrap(), "{round_trip:?}");
            assert!(first.leave_timeout(Duration::ZERO).await.unwrap(), "{round_trip:?}");
        }
        expect_empty(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_after_the_opening_enters() {
    let server = TestServer::in_memory();
    let (one, other) = (client(&server, 1).await, client(&server, 2).await);
    let late = {
        let barrier = barrier(&one, 2);
        tokio::spawn(async move { barrier.enter_timeout(SECOND).await })
    };
    settle().await;
    server.on_notification().session(one.session_id()).never_answer();
    let second = entered(entering(&other, 2)).await;
    let first = late.await.unwrap().unwrap();
    assert!(first.is_some(), "the barrier has opened with this member");
    drop((first, second));
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn timeout_without_an_ensemble_is_unknown() {
    let server = TestServer::in_memory();
    let one = client(&server, 1).await;
    let late = {
        let barrier = barrier(&one, 2);
        tokio::spawn(async move { barrier.enter_timeout(SECOND).await })
    };
    settle().await;
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    // reason: virtual time, the timeout itself
    tokio::time::sleep(SECOND + WITHDRAWAL_TIME).await;
    let error = late.await.unwrap().unwrap_err();
    let BarrierError::Client(cause) = &error else { panic!("{error}") };
    assert_eq!((cause.outcome(), error.retry_on()), (Outcome::Unknown, RetryOn::SameSession));
    server.accept_connects(0);
    expect_empty(&server).await;
}

/// In CURATOR-233 and CURATOR-536, a leave that times out leaves the member in the barrier.
#[tokio::test(start_paused = true)]
async fn timed_out_leave_has_left_and_can_go_on() {
    let server = TestServer::in_memory();
    let (one, other) = (client(&server, 1).await, client(&server, 2).await);
    let waiting = entering(&one, 2);
    let mut second = entered(entering(&other, 2)).await;
    let mut first = entered(waiting).await;
    assert!(!first.leave_timeout(SECOND).await.unwrap());
    settle().await; // the first by name deletes its node at the end of the call
    assert_eq!(children(&server).len(), 2, "the other member, and `ready`");
    let (left, last) = tokio::join!(first.leave(), second.leave_timeout(SECOND));
    left.unwrap();
    assert!(last.unwrap());
    expect_empty(&server).await;
}

/// In GH-1290, any event of the session lets a member of Curator's pass.
#[tokio::test(start_paused = true)]
async fn gh_1290_reconnect_does_not_open_the_barrier() {
    let server = TestServer::in_memory();
    let one = client(&server, 1).await;
    let waiting = entering(&one, 2);
    settle().await;
    for _ in 0..3 {
        server.connections().cut(Cut::Rst);
        settle().await;
    }
    one.set_data("/b", b"an event", None).await.unwrap();
    settle().await;
    assert!(!waiting.is_finished());
    let second = entered(entering(&client(&server, 2).await, 2)).await;
    drop((entered(waiting).await, second));
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn surplus_member_waits_for_the_next_generation() {
    let server = TestServer::in_memory();
    let mut clients = Vec::new();
    for seed in 0..4 {
        clients.push(client(&server, seed).await);
    }
    let (one, two) = (entering(&clients[0], 2), entering(&clients[1], 2));
    let (one, two) = (entered(one).await, entered(two).await);
    let surplus = entering(&clients[2], 2);
    settle().await;
    assert!(!surplus.is_finished());
    assert_eq!(children(&server).len(), 3, "it has no node yet");
    let leaving = [leaving(one), leaving(two)];
    for leaving in leaving {
        leaving.await.unwrap().unwrap();
    }
    settle().await;
    assert!(!surplus.is_finished());
    let next = entered(entering(&clients[3], 2)).await;
    drop((entered(surplus).await, next));
    settle().await;
}

/// Each of them sees all the others. An opening reads every member.
#[tokio::test(start_paused = true)]
async fn barrier_of_many_that_arrive_together_is_opened_by_one() {
    const MEMBERS: u32 = 64;
    let server = TestServer::in_memory();
    let (reads, openings) = (server.on(Op::Exists).always(), server.on(Op::Multi).always());
    let (reads, openings) = (reads.delay(MS), openings.delay(MS));
    let mut clients = Vec::new();
    for seed in 0..8 {
        clients.push(client(&server, seed).await);
    }
    let all: Vec<_> =
        clients.iter().cycle().take(64).map(|client| entering(client, MEMBERS)).collect();
    let mut members = Vec::new();
    for entering in all {
        members.push(entered(entering).await);
    }
    assert_eq!(openings.count(), 1);
    assert!(reads.count() <= 6 * 64, "{}", reads.count());
    drop(members);
    settle().await;
}

/// A node is created and deleted after that of the newest member, for example `closing` of a late one.
#[tokio::test(start_paused = true)]
async fn barrier_opens_if_another_node_is_newer_than_all_members() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let waiting = entering(&one, 2);
    settle().await;
    let looks = server.on(Op::Exists).session(two.session_id()).delay(SECOND);
    let last = entering(&two, 2);
    settle().await;
    assert_eq!((looks.count(), children(&server).len()), (1, 2));
    one.create("/b/closing-x", b"", CreateMode::Ephemeral).await.unwrap();
    one.delete("/b/closing-x", None).await.unwrap();
    let both = async { (entered(waiting).await, entered(last).await) };
    drop(tokio::time::timeout(2 * SECOND, both).await.expect("it is closed"));
    settle().await;
}

/// All are members before any of them can open the barrier.
#[tokio::test(start_paused = true)]
async fn exactly_n_of_many_members_enter_at_once() {
    let server = TestServer::in_memory();
    let stuck = server.on(Op::Multi).always().answer(ErrorCode::BAD_VERSION);
    let mut waiting = Vec::new();
    for seed in 0..7 {
        waiting.push(entering(&client(&server, seed).await, 3));
        settle().await;
    }
    assert_eq!(children(&server).len(), 7);
    stuck.cancel();
    tokio::time::sleep(SECOND).await; // reason: virtual time, for the pauses after conflicts
    let done: Vec<bool> = waiting.iter().map(JoinHandle::is_finished).collect();
    assert_eq!(done, [true, true, true, false, false, false, false], "the oldest members");
    assert_eq!(children(&server).len(), 4, "the others have withdrawn");
    let mut later = Vec::new();
    for (n, waiting) in waiting.into_iter().enumerate() {
        match n {
            0..3 => drop(entered(waiting).await),
            _ => later.push(waiting),
        }
    }
    tokio::time::sleep(SECOND).await; // reason: virtual time, for the next generation
    assert_eq!(later.iter().filter(|waiting| waiting.is_finished()).count(), 3);
    later.iter().for_each(JoinHandle::abort);
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn expired_member_is_not_counted() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let waiting = entering(&one, 2);
    settle().await;
    server.expire(one.session_id());
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.retry_on(), RetryOn::NewSession);
    let waiting = entering(&two, 2);
    settle().await;
    assert!(!waiting.is_finished());
    waiting.abort();
    expect_empty(&server).await;
}

/// The session expires between the last member's reads and its transaction.
#[tokio::test(start_paused = true)]
async fn member_that_dies_at_the_opening_is_not_counted() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let waiting = entering(&one, 2);
    settle().await;
    let last_read = server.on(Op::Exists).session(two.session_id()).nth(5).delay(SECOND);
    let last = entering(&two, 2);
    settle().await;
    assert_eq!(last_read.count(), 1);
    server.expire(one.session_id());
    waiting.await.unwrap().unwrap_err();
    tokio::time::sleep(2 * SECOND).await; // reason: virtual time, longer than the delay
    assert!(!last.is_finished(), "one member has opened a barrier of two");
    assert_eq!(children(&server).len(), 1);
    let third = entered(entering(&client(&server, 3).await, 2)).await;
    drop((entered(last).await, third));
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn last_member_opens_after_a_lost_transaction() {
    for is_applied in [true, false] {
        let server = TestServer::in_memory();
        let waiting = entering(&client(&server, 1).await, 2);
        settle().await;
        let fault = server.on(Op::Multi);
        if is_applied {
            fault.apply_then_drop_reply()
        } else {
            fault.drop_before_applying()
        };
        let last = entered(entering(&client(&server, 2).await, 2)).await;
        let first = entered(waiting).await;
        let leaving = [leaving(first), leaving(last)];
        for leaving in leaving {
            leaving.await.unwrap().unwrap();
        }
        expect_empty(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_member_comes_back_with_a_new_node() {
    let server = TestServer::in_memory();
    let (one, operator) = (client(&server, 1).await, client(&server, 9).await);
    let waiting = entering(&one, 2);
    settle().await;
    let first = children(&server);
    operator.delete(&format!("/b/{}", first[0]), None).await.unwrap();
    settle().await;
    assert_eq!(children(&server).len(), 1);
    assert_ne!(children(&server), first);
    let second = entered(entering(&client(&server, 2).await, 2)).await;
    drop((entered(waiting).await, second));
    settle().await;
}

/// The members have died, and nobody has deleted `ready`.
#[tokio::test(start_paused = true)]
async fn stale_ready_does_not_let_members_pass() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let (first, second) = both_entered(&one, &two).await;
    server.expire(one.session_id());
    server.expire(two.session_id());
    settle().await;
    drop((first, second));
    assert_eq!(children(&server), ["ready"]);
    let (three, four) = (client(&server, 3).await, client(&server, 4).await);
    let waiting = entering(&three, 2);
    settle().await;
    assert!(!waiting.is_finished());
    let last = entered(entering(&four, 2)).await;
    drop((entered(waiting).await, last));
    settle().await;
}

/// The slow member has seen an empty barrier, and deletes `ready` only after the next opening.
#[tokio::test(start_paused = true)]
async fn slow_leave_does_not_close_the_next_generation() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let (three, four) = (client(&server, 3).await, client(&server, 4).await);
    let (first, second) = both_entered(&one, &two).await;
    drop(first);
    settle().await;
    server.on(Op::Multi).session(two.session_id()).drop_before_applying();
    server.refuse_connects(0);
    let slow = leaving(second);
    settle().await;
    assert_eq!(children(&server).len(), 2, "`ready`, and the node that closes the barrier");
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

#[tokio::test(start_paused = true)]
async fn operator_may_change_the_data_of_the_barrier() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let (first, second) = both_entered(&one, &two).await;
    one.set_data("/b", b"by an operator", None).await.unwrap();
    let next = [entering(&one, 2), entering(&two, 2)];
    let first = leaving(first);
    settle().await;
    assert!(!first.is_finished() && !next[0].is_finished());
    one.set_data("/b", b"again", None).await.unwrap();
    leaving(second).await.unwrap().unwrap();
    first.await.unwrap().unwrap();
    for next in next {
        drop(entered(next).await);
    }
    assert_eq!(one.get_data("/b").await.unwrap().data, "again");
}

/// The barrier opens while the answer to the member that times out is on its way.
#[tokio::test(start_paused = true)]
async fn withdrawal_fails_if_the_barrier_has_opened() {
    let server = TestServer::in_memory();
    let (one, two) = (client(&server, 1).await, client(&server, 2).await);
    let late = {
        let barrier = barrier(&one, 2);
        tokio::spawn(async move { barrier.enter_timeout(SECOND).await })
    };
    // The member has read the barrier at its start, after its create, and after the timeout.
    let third = server.on(Op::GetData).session(one.session_id()).nth(5).delay(SECOND / 2);
    tokio::time::sleep(SECOND + SECOND / 4).await; // reason: virtual time, in mid withdrawal
    assert_eq!((third.count(), late.is_finished()), (1, false));
    let second = entered(entering(&two, 2)).await;
    let first = late.await.unwrap().unwrap();
    assert!(first.is_some(), "the barrier has opened with this member");
    drop((first, second));
    settle().await;
}

/// Creates the node of a member as Curator does, or its `ready`.
pub(crate) async fn create_as_curator(client: &Client, name: &str) {
    let mode = if name == "ready" { CreateMode::Persistent } else { CreateMode::Ephemeral };
    client.create(&format!("/b/{name}"), b"127.0.1.1", mode).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn member_enters_when_curator_opens_the_barrier() {
    let server = TestServer::in_memory();
    let (one, java) = (client(&server, 1).await, client(&server, 2).await);
    let waiting = entering(&one, 3);
    settle().await;
    create_as_curator(&java, "java-1").await;
    create_as_curator(&java, "java-2").await;
    create_as_curator(&java, "ready").await;
    let leaving = leaving(entered(waiting).await);
    settle().await;
    java.delete("/b/java-1", None).await.unwrap();
    settle().await;
    assert!(!leaving.is_finished());
    java.delete("/b/java-2", None).await.unwrap();
    leaving.await.unwrap().unwrap();
    expect_empty(&server).await;
}

#[tokio::test(start_paused = true)]
async fn members_of_curator_are_counted() {
    let server = TestServer::in_memory();
    let (one, java) = (client(&server, 1).await, client(&server, 2).await);
    java.create("/b", b"", CreateMode::Container).await.unwrap();
    create_as_curator(&java, "java-1").await;
    create_as_curator(&java, "java-2").await;
    let last = entered(entering(&one, 3)).await;
    assert!(children(&server).contains(&"ready".to_owned()));
    let leaving = leaving(last);
    settle().await;
    assert!(!leaving.is_finished());
    java.delete("/b/java-1", None).await.unwrap();
    java.delete("/b/java-2", None).await.unwrap();
    leaving.await.unwrap().unwrap();
    expect_empty(&server).await;
}

#[tokio::test(start_paused = true)]
async fn rejected_member_leaves_nothing_behind() {
    for op in [Op::Create2, Op::GetChildren2, Op::Exists, Op::GetData, Op::Multi] {
        let server = TestServer::in_memory();
        let client = client(&server, 1).await;
        client.create("/b", b"", CreateMode::Container).await.unwrap();
        let fault = server.on(op).always().answer(ErrorCode::NO_AUTH);
        let BarrierError::Client(error) = barrier(&client, 1).enter().await.unwrap_err() else {
            panic!("{op:?}");
        };
        assert_eq!(error.code(), Some(ErrorCode::NO_AUTH), "{op:?}");
        assert!(fault.count() <= 2, "{op:?}: it is not repeated");
        expect_empty(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn number_of_members_is_checked() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    for members in [0, MEMBERS_MAX + 1] {
        let error = DoubleBarrier::new(&client, "/b", members).unwrap_err();
        assert_eq!(error, BarrierError::MembersOutOfRange { path: "/b".into(), members });
    }
    assert!(DoubleBarrier::new(&client, "b", 2).is_err());
    let mut alone = barrier(&client, 1).enter().await.unwrap();
    alone.leave().await.unwrap();
    expect_empty(&server).await;
}

/// After each step, no node and no watch stays, and the next members enter.
#[tokio::test(start_paused = true)]
async fn dropped_member_leaves_nothing_behind() {
    for trouble in [None, Some(Op::Create2), Some(Op::Multi), Some(Op::Delete)] {
        for polls in 1.. {
            let server = TestServer::in_memory();
            let (one, two) = (client(&server, 1).await, client(&server, 2).await);
            let other = entering(&two, 2);
            settle().await;
            if let Some(op) = trouble {
                server.on(op).session(one.session_id()).apply_then_drop_reply();
            }
            let round = async {
                let mut entered = barrier(&one, 2).enter().await.unwrap();
                drop(entered.leave_timeout(SECOND).await);
            };
            let done = polled(polls, round).await;
            // reason: virtual time, in which the clean-up runs
            tokio::time::sleep(T / 4).await;
            if other.is_finished() {
                drop(entered(other).await);
            } else {
                other.abort();
            }
            settle().await;
            let next = [entering(&one, 2), entering(&two, 2)];
            for next in next {
                drop(entered(next).await);
            }
            settle_watches().await;
            let left: Vec<String> = children(&server);
            assert!(left.iter().all(|name| name == "ready"), "{trouble:?}, {polls}: {left:?}");
            assert_eq!(
                server.with(|ensemble| ensemble.watches(0)),
                0,
                "{trouble:?}, {polls} polls"
            );
            if done.is_some() {
                assert!(polls > 5, "it has several steps");
                break;
            }
        }
    }
}
