//! The double barrier: entering and leaving together, generations, timeouts and losses.

use std::time::Duration;

use futures::future::join_all;
use tokio::task::JoinHandle;
use zk_coordination::limits::{MEMBERS_MAX, RESTARTS_MAX, WITHDRAWAL_TIME};
use zk_coordination::session::{Client, CreateMode, ErrorCode, Outcome, RetryOn};
use zk_coordination::{BarrierError, DoubleBarrier, Entered};
use zk_testing::server::NodeKind;
use zk_testing::{Op, TestServer};

use crate::{
    MS, SECOND, T, all, client, clients, cut_off, kind, lose, more_clients, pass, polled, settle,
    settle_watches, watches,
};

pub(crate) type Entering = JoinHandle<Result<Entered, BarrierError>>;

pub(crate) fn barrier(client: &Client, members: u32) -> DoubleBarrier {
    DoubleBarrier::new(client, "/b", members).unwrap()
}

pub(crate) fn entering(client: &Client, members: u32) -> Entering {
    let barrier = barrier(client, members);
    tokio::spawn(async move { barrier.enter().await })
}

/// Enters a barrier of two, within a second.
fn entering_in_time(client: &Client) -> JoinHandle<Result<Option<Entered>, BarrierError>> {
    let barrier = barrier(client, 2);
    tokio::spawn(async move { barrier.enter_timeout(SECOND).await })
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

/// Lets these members leave at once, and expects that nothing is left of the barrier.
pub(crate) async fn leave_all(server: &TestServer, members: Vec<Entered>) {
    all(members.into_iter().map(leaving)).await;
    expect_empty(server).await;
}

/// Returns the names of the barrier's nodes.
pub(crate) fn nodes(server: &TestServer) -> Vec<String> {
    crate::children(server, "/b")
}

/// Expects that nothing is left of the barrier.
pub(crate) async fn expect_empty(server: &TestServer) {
    settle_watches().await;
    assert_eq!(nodes(server), [""; 0]);
    assert_eq!(watches(server), 0, "watches are left");
}

/// Expects that two more members enter and leave.
async fn expect_usable(server: &TestServer, one: &Client, two: &Client) {
    let (first, second) = both_entered(one, two).await;
    leave_all(server, vec![first, second]).await;
}

#[tokio::test(start_paused = true)]
async fn members_enter_and_leave_together() {
    let (server, clients) = clients::<5>().await;
    let mut waiting = Vec::new();
    for client in &clients {
        assert!(waiting.iter().all(|entering: &Entering| !entering.is_finished()));
        waiting.push(entering(client, 5));
        settle().await;
    }
    let members = all(waiting).await;
    assert_eq!(kind(&server, "/b"), NodeKind::Container);
    assert_eq!(kind(&server, "/b/ready"), NodeKind::Persistent);
    assert!(matches!(kind(&server, members[0].node()), NodeKind::Ephemeral(_)));
    let mut waiting = Vec::new();
    for member in members {
        assert!(waiting.iter().all(|leaving: &JoinHandle<_>| !leaving.is_finished()));
        waiting.push(leaving(member));
        settle().await;
    }
    all(waiting).await;
    expect_empty(&server).await;
}

#[tokio::test(start_paused = true)]
async fn member_of_many_costs_twelve_requests() {
    let (_server, [one, other]) = clients().await;
    one.create("/b", b"", CreateMode::Container).await.unwrap();
    let before = one.stats().frames_sent;
    let waiting = entering(&one, 2);
    settle().await;
    let _inside = all([entering(&other, 2), waiting]).await;
    assert_eq!(one.stats().frames_sent - before, 12);
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
    let (server, [others, slow]) = clients().await;
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
    all([entering(&others, 2), surplus]).await;
}

/// A waiter lists the members again only when the first one by name has left.
#[tokio::test(start_paused = true)]
async fn leave_of_many_members_takes_few_requests() {
    const MEMBERS: u32 = 64;
    let server = TestServer::in_memory();
    // Seeds that are far apart, for names in any order.
    let seeds = (0..u128::from(MEMBERS)).map(|n| n.wrapping_mul(u128::MAX / 0x9e37_79b9));
    let clients = join_all(seeds.map(|seed| client(&server, seed))).await;
    let members = all(clients.iter().map(|client| entering(client, MEMBERS))).await;
    settle_watches().await;
    let sent = || clients.iter().map(|client| client.stats().frames_sent).sum::<u64>();
    let before = sent();
    let mut waiting = Vec::new();
    for member in members {
        waiting.push(leaving(member));
        settle().await;
    }
    all(waiting).await;
    let each = (sent() - before) / u64::from(MEMBERS);
    assert!(each < 30, "{each} requests for each member");
    expect_empty(&server).await;
}

#[tokio::test(start_paused = true)]
async fn barrier_is_used_again_and_again() {
    let (server, clients) = clients::<4>().await;
    let playing = clients.each_ref().map(async |client| {
        for _ in 0..25 {
            let mut entered = barrier(client, 4).enter().await.unwrap();
            entered.leave().await.unwrap();
        }
    });
    join_all(playing).await;
    let version = server.with(|ensemble| ensemble.tree().node("/b").unwrap().stat().version);
    assert_eq!(version, 25, "each generation has a version of the node");
    expect_empty(&server).await;
}

/// In CURATOR-318, the node stays, and the next members pass with too few.
#[tokio::test(start_paused = true)]
async fn curator_318_timed_out_member_leaves_nothing_behind() {
    let (server, [one, other]) = clients().await;
    assert!(barrier(&one, 2).enter_timeout(SECOND).await.unwrap().is_none());
    assert_eq!(nodes(&server), [""; 0], "before the call returns");
    expect_empty(&server).await;
    let waiting = entering(&other, 2);
    settle().await;
    assert!(!waiting.is_finished(), "one member is not two");
    all([entering(&one, 2), waiting]).await;
}

#[tokio::test(start_paused = true)]
async fn zero_timeout_enters_and_leaves_at_any_round_trip() {
    for round_trip in [5, 50, 500].map(Duration::from_millis) {
        let (server, [one, other]) = clients().await;
        drop(server.on_any_request().always().delay(round_trip));
        let at_once = barrier(&one, 2);
        for _ in 0..2 {
            let entered_alone = at_once.enter_timeout(Duration::ZERO).await.unwrap();
            assert!(entered_alone.is_none(), "{round_trip:?}");
            assert_eq!(nodes(&server), [""; 0], "before the call returns");
            let waiting = entering(&other, 2);
            pass(8 * round_trip).await;
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
    let (server, [one, other]) = clients().await;
    let late = entering_in_time(&one);
    settle().await;
    server.on_notification().session(one.session_id()).never_answer();
    let _second = entered(entering(&other, 2)).await;
    assert!(late.await.unwrap().unwrap().is_some(), "the barrier has opened with this member");
}

/// The barrier opens while the answer to the member that times out is on its way.
#[tokio::test(start_paused = true)]
async fn withdrawal_fails_if_the_barrier_has_opened() {
    let (server, [one, two]) = clients().await;
    let late = entering_in_time(&one);
    // The member has read the barrier at its start, after its create, and after the timeout.
    let third = server.on(Op::GetData).session(one.session_id()).nth(5).delay(SECOND / 2);
    pass(SECOND + SECOND / 4).await; // in mid withdrawal
    assert_eq!((third.count(), late.is_finished()), (1, false));
    let _second = entered(entering(&two, 2)).await;
    assert!(late.await.unwrap().unwrap().is_some(), "the barrier has opened with this member");
}

/// A member that waits for the end of a generation has no node that it could withdraw.
#[tokio::test(start_paused = true)]
async fn timeout_without_an_ensemble_is_unknown_for_a_member() {
    for is_member in [true, false] {
        let (server, [one, two, three]) = clients().await;
        let inside = if is_member { None } else { Some(both_entered(&one, &two).await) };
        let late = entering_in_time(&three);
        settle().await;
        cut_off(&server);
        pass(SECOND).await; // the timeout itself
        if !is_member {
            assert!(late.is_finished());
            assert!(late.await.unwrap().unwrap().is_none());
            continue;
        }
        pass(WITHDRAWAL_TIME).await;
        let error = late.await.unwrap().unwrap_err();
        let BarrierError::Client(cause) = &error else { panic!("{error}") };
        assert_eq!((cause.outcome(), error.retry_on()), (Outcome::Unknown, RetryOn::SameSession));
        server.accept_connects(0);
        expect_empty(&server).await;
        drop(inside);
    }
}

/// In CURATOR-233 and CURATOR-536, a leave that times out leaves the member in the barrier.
#[tokio::test(start_paused = true)]
async fn timed_out_leave_has_left_and_can_go_on() {
    let (server, [one, other]) = clients().await;
    let (mut first, mut second) = both_entered(&one, &other).await;
    assert!(!first.leave_timeout(SECOND).await.unwrap());
    settle().await; // the first by name deletes its node at the end of the call
    assert_eq!(nodes(&server).len(), 2, "the other member, and `ready`");
    let (left, last) = tokio::join!(first.leave(), second.leave_timeout(SECOND));
    left.unwrap();
    assert!(last.unwrap());
    expect_empty(&server).await;
}

/// In GH-1290, any event of the session lets a member of Curator's pass.
#[tokio::test(start_paused = true)]
async fn gh_1290_reconnect_does_not_open_the_barrier() {
    let (server, [one, two]) = clients().await;
    let waiting = entering(&one, 2);
    settle().await;
    for _ in 0..3 {
        server.connections().cut(zk_testing::Cut::Rst);
        settle().await;
    }
    one.set_data("/b", b"an event", None).await.unwrap();
    settle().await;
    assert!(!waiting.is_finished());
    all([entering(&two, 2), waiting]).await;
}

/// Each of them sees all the others. An opening reads every member.
#[tokio::test(start_paused = true)]
async fn barrier_of_many_that_arrive_together_is_opened_by_one() {
    const MEMBERS: u32 = 64;
    let (server, clients) = clients::<8>().await;
    let [reads, openings] = [Op::Exists, Op::Multi].map(|op| server.on(op).always().delay(MS));
    let waiting: Vec<_> =
        clients.iter().cycle().take(64).map(|client| entering(client, MEMBERS)).collect();
    let _members = all(waiting).await;
    assert_eq!(openings.count(), 1);
    assert!(reads.count() <= 6 * 64, "{}", reads.count());
}

/// A node is created and deleted after that of the newest member, for example `closing` of a late one.
#[tokio::test(start_paused = true)]
async fn barrier_opens_if_another_node_is_newer_than_all_members() {
    let (server, [one, two]) = clients().await;
    let waiting = entering(&one, 2);
    settle().await;
    let looks = server.on(Op::Exists).session(two.session_id()).delay(SECOND);
    let last = entering(&two, 2);
    settle().await;
    assert_eq!((looks.count(), nodes(&server).len()), (1, 2));
    one.create("/b/closing-x", b"", CreateMode::Ephemeral).await.unwrap();
    one.delete("/b/closing-x", None).await.unwrap();
    tokio::time::timeout(2 * SECOND, all([waiting, last])).await.expect("it is closed");
}

/// All are members before any of them can open the barrier.
#[tokio::test(start_paused = true)]
async fn exactly_n_of_many_members_enter_at_once() {
    let (server, clients) = clients::<7>().await;
    let stuck = server.on(Op::Multi).always().answer(ErrorCode::BAD_VERSION);
    let mut waiting = Vec::new();
    for client in &clients {
        waiting.push(entering(client, 3));
        settle().await;
    }
    assert_eq!(nodes(&server).len(), 7);
    stuck.cancel();
    pass(SECOND).await; // for the pauses after conflicts
    let done: Vec<bool> = waiting.iter().map(JoinHandle::is_finished).collect();
    assert_eq!(done, [true, true, true, false, false, false, false], "the oldest members");
    assert_eq!(nodes(&server).len(), 4, "the others have withdrawn");
    let later = waiting.split_off(3);
    drop(all(waiting).await);
    pass(SECOND).await; // for the next generation
    assert_eq!(later.iter().filter(|waiting| waiting.is_finished()).count(), 3);
}

/// The barrier may have opened before the session was lost.
#[tokio::test(start_paused = true)]
async fn expired_member_is_unknown_and_not_counted() {
    let (server, [one, two]) = clients().await;
    let waiting = entering(&one, 2);
    settle().await;
    server.expire(one.session_id());
    assert_eq!(lost_session(waiting).await, Outcome::Unknown);
    let waiting = entering(&two, 2);
    settle().await;
    assert!(!waiting.is_finished());
    waiting.abort();
    expect_empty(&server).await;
}

/// Expects that an entry fails with its session, and returns its outcome.
pub(crate) async fn lost_session(entering: Entering) -> Outcome {
    let error = entering.await.unwrap().unwrap_err();
    assert_eq!(error.retry_on(), RetryOn::NewSession, "{error}");
    let BarrierError::Client(cause) = error else { panic!("{error}") };
    cause.outcome()
}

/// The session expires between the last member's reads and its transaction.
#[tokio::test(start_paused = true)]
async fn member_that_dies_at_the_opening_is_not_counted() {
    let (server, [one, two, three]) = clients().await;
    let waiting = entering(&one, 2);
    settle().await;
    let last_read = server.on(Op::Exists).session(two.session_id()).nth(5).delay(SECOND);
    let last = entering(&two, 2);
    settle().await;
    assert_eq!(last_read.count(), 1);
    server.expire(one.session_id());
    waiting.await.unwrap().unwrap_err();
    pass(2 * SECOND).await; // longer than the delay
    assert!(!last.is_finished(), "one member has opened a barrier of two");
    assert_eq!(nodes(&server).len(), 1);
    all([entering(&three, 2), last]).await;
}

#[tokio::test(start_paused = true)]
async fn last_member_opens_after_a_lost_transaction() {
    for is_applied in [true, false] {
        let (server, [one, two]) = clients().await;
        let waiting = entering(&one, 2);
        settle().await;
        lose(server.on(Op::Multi), is_applied);
        let members = all([entering(&two, 2), waiting]).await;
        leave_all(&server, members).await;
    }
}

#[tokio::test(start_paused = true)]
async fn deleted_member_comes_back_with_a_new_node() {
    let (server, [one, two]) = clients().await;
    let waiting = entering(&one, 2);
    settle().await;
    let first = nodes(&server);
    two.delete(&format!("/b/{}", first[0]), None).await.unwrap();
    settle().await;
    assert_eq!(nodes(&server).len(), 1);
    assert_ne!(nodes(&server), first);
    all([entering(&two, 2), waiting]).await;
}

/// The members have died, and nobody has deleted `ready`.
#[tokio::test(start_paused = true)]
async fn stale_ready_does_not_let_members_pass() {
    let (server, [one, two, three, four]) = clients().await;
    let dead = both_entered(&one, &two).await;
    server.expire(one.session_id());
    server.expire(two.session_id());
    settle().await;
    drop(dead);
    assert_eq!(nodes(&server), ["ready"]);
    let waiting = entering(&three, 2);
    settle().await;
    assert!(!waiting.is_finished());
    all([entering(&four, 2), waiting]).await;
}

/// The last member of a generation has seen an empty barrier, and its transaction that closes the barrier is
/// lost, or its reply is. It has no connection.
pub(crate) async fn slow_close(
    is_applied: bool,
) -> (TestServer, [Client; 2], JoinHandle<Result<(), BarrierError>>) {
    let (server, [one, two]) = clients().await;
    let others = more_clients(&server, 3).await;
    let (first, second) = both_entered(&one, &two).await;
    drop(first);
    settle().await;
    lose(server.on(Op::Multi).session(two.session_id()), is_applied);
    server.refuse_connects(0);
    let slow = leaving(second);
    settle().await;
    (server, others, slow)
}

/// The slow member has seen an empty barrier, and deletes `ready` only after the next opening.
#[tokio::test(start_paused = true)]
async fn slow_leave_does_not_close_the_next_generation() {
    let (server, others, slow) = slow_close(false).await;
    assert_eq!(nodes(&server).len(), 2, "`ready`, and the node that closes the barrier");
    let next = others.map(|client| entering(&client, 2));
    settle().await;
    server.accept_connects(0);
    slow.await.unwrap().unwrap();
    assert_eq!(nodes(&server).len(), 3, "`ready` of the next generation is still there");
    all(next).await;
}

#[tokio::test(start_paused = true)]
async fn operator_may_change_the_data_of_the_barrier() {
    let (_server, [one, two]) = clients().await;
    let (first, second) = both_entered(&one, &two).await;
    one.set_data("/b", b"by an operator", None).await.unwrap();
    let next = [entering(&one, 2), entering(&two, 2)];
    let first = leaving(first);
    settle().await;
    assert!(!first.is_finished() && !next[0].is_finished());
    one.set_data("/b", b"again", None).await.unwrap();
    all([leaving(second), first]).await;
    let _next = all(next).await;
    assert_eq!(one.get_data("/b").await.unwrap().data, "again");
}

/// Creates the node of a member as Curator does, or its `ready`.
pub(crate) async fn create_as_curator(client: &Client, name: &str) {
    let mode = if name == "ready" { CreateMode::Persistent } else { CreateMode::Ephemeral };
    client.create(&format!("/b/{name}"), b"127.0.1.1", mode).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn members_of_curator_are_counted_and_open_the_barrier() {
    for is_opened_by_curator in [true, false] {
        let (server, [one, java]) = clients().await;
        java.create("/b", b"", CreateMode::Container).await.unwrap();
        let early = is_opened_by_curator.then(|| entering(&one, 3));
        settle().await;
        create_as_curator(&java, "java-1").await;
        create_as_curator(&java, "java-2").await;
        if is_opened_by_curator {
            create_as_curator(&java, "ready").await;
        }
        let member = entered(early.unwrap_or_else(|| entering(&one, 3))).await;
        assert!(nodes(&server).contains(&"ready".to_owned()));
        let leaving = leaving(member);
        settle().await;
        java.delete("/b/java-1", None).await.unwrap();
        settle().await;
        assert!(!leaving.is_finished());
        java.delete("/b/java-2", None).await.unwrap();
        leaving.await.unwrap().unwrap();
        expect_empty(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_member_leaves_nothing_behind() {
    let ops = [Op::Create2, Op::GetChildren2, Op::Exists, Op::GetData, Op::Multi];
    for op in ops.into_iter().chain([Op::CreateContainer]) {
        let (server, [client]) = clients().await;
        if op != Op::CreateContainer {
            client.create("/b", b"", CreateMode::Container).await.unwrap();
        }
        let fault = server.on(op).always().answer(ErrorCode::NO_AUTH);
        let BarrierError::Client(error) = barrier(&client, 1).enter().await.unwrap_err() else {
            panic!("{op:?}");
        };
        assert_eq!(error.code(), Some(ErrorCode::NO_AUTH), "{op:?}");
        let is_create = matches!(op, Op::Create2 | Op::CreateContainer);
        assert!(!is_create || error.outcome() == Outcome::NotApplied, "{op:?}: {error}");
        assert!(fault.count() <= 2, "{op:?}: it is not repeated");
        expect_empty(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn number_of_members_is_checked() {
    let (server, [client]) = clients().await;
    for members in [0, MEMBERS_MAX + 1] {
        let error = DoubleBarrier::new(&client, "/b", members).unwrap_err();
        assert_eq!(error, BarrierError::MembersOutOfRange { path: "/b".into(), members });
    }
    assert!(DoubleBarrier::new(&client, "b", 2).is_err());
    let alone = barrier(&client, 1).enter().await.unwrap();
    leave_all(&server, vec![alone]).await;
}

/// After each step, no node and no watch stays, and the next members enter.
#[tokio::test(start_paused = true)]
async fn dropped_member_leaves_nothing_behind() {
    for trouble in [None, Some(Op::Create2), Some(Op::Multi), Some(Op::Delete)] {
        for polls in 1.. {
            let (server, [one, two]) = clients().await;
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
            pass(T / 4).await; // in which the clean-up runs
            if other.is_finished() {
                drop(entered(other).await);
            } else {
                other.abort();
            }
            settle().await;
            expect_usable(&server, &one, &two).await;
            if done.is_some() {
                assert!(polls > 5, "it has several steps");
                break;
            }
        }
    }
}
