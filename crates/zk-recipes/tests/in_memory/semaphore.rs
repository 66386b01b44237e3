//! Semaphores: order, limits and clean-up. No node is left behind. The limit may be fixed, or shared by all
//! processes and changed meanwhile.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::limits::RESTARTS_MAX;
use zk_recipes::session::{Acl, Client, CreateMode, ErrorCode, Perms, RetryOn};
use zk_recipes::{LockError, LockMetrics, LossReason, Semaphore, SemaphoreGuard, SharedCount};
use zk_testing::{Op, TestServer};

use crate::{T, child, children, running, settle, started};

const PATH: &str = "/s";

fn semaphore(client: &Client, max: u32) -> Semaphore {
    Semaphore::new(client, PATH, max).unwrap()
}

/// Starts an acquisition, and lets it run until it waits or holds its permits.
async fn queue_for(
    semaphore: &Semaphore,
    permits: u32,
) -> JoinHandle<Result<SemaphoreGuard, LockError>> {
    let semaphore = semaphore.clone();
    running(async move { semaphore.acquire_many(permits).await }).await
}

fn turns(server: &TestServer) -> usize {
    children(server, "/s/locks").len()
}

fn leases(server: &TestServer) -> usize {
    children(server, "/s/leases").len()
}

async fn expect_nothing_left(server: &TestServer, what: &str) {
    settle().await;
    assert_eq!((turns(server), leases(server)), (0, 0), "{what}");
}

#[tokio::test(start_paused = true)]
async fn permits_of_a_throttled_create_have_growing_tokens() {
    let (server, [client]) = started().await;
    let semaphore = semaphore(&client, 3);
    semaphore.acquire().await.unwrap().release().await.unwrap();
    server.on(Op::Create2).nth(2).answer(ErrorCode::THROTTLED_OP); // the first is the turn
    let held = semaphore.acquire_many(2).await.unwrap();
    let (token, tokens) = (held.token().unwrap(), held.tokens().unwrap());
    assert!(tokens.is_sorted() && tokens.last() == Some(&token), "{tokens:?}");
    let number = |node: &str| node[node.len() - 10..].to_owned();
    assert!(held.nodes().map(number).is_sorted());
}

/// Another client deletes a lease that waits, and creates it again under the same name.
#[tokio::test(start_paused = true)]
async fn waiting_lease_with_a_namesake_is_neither_granted_nor_deleted() {
    for (permits, which) in [(1, 0), (2, 0), (2, 1)] {
        let (server, [one, other]) = started().await;
        let held = semaphore(&one, 3).acquire_many(3).await.unwrap();
        let waits = queue_for(&semaphore(&other, 3), permits).await;
        let node = child(&server, "/s/leases", 3 + which);
        one.delete(&node, None).await.unwrap();
        one.create(&node, b"", CreateMode::Ephemeral).await.unwrap();
        settle().await;
        held.release().await.unwrap();
        let granted = waits.await.unwrap().unwrap();
        assert!(granted.nodes().all(|own| own != node), "{permits} permits, {which}");
        granted.check().await.unwrap();
        granted.release().await.unwrap();
        settle().await;
        assert_eq!(leases(&server), 1, "{permits} permits, {which}");
        assert!(one.exists(&node).await.unwrap().is_some(), "{permits} permits, {which}");
    }
}

/// Its own client may not read it, so it is compared and not watched.
#[tokio::test(start_paused = true)]
async fn waiting_permit_that_its_client_cannot_read_is_granted() {
    let (server, [one, other]) = started().await;
    let held = semaphore(&one, 1).acquire().await.unwrap();
    let unreadable = vec![Acl::world(Perms::WRITE | Perms::DELETE)];
    let waits = queue_for(&semaphore(&other, 1).with_acl(unreadable), 1).await;
    assert!(!waits.is_finished());
    held.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
    expect_nothing_left(&server, "released").await;
}

#[tokio::test(start_paused = true)]
async fn permits_are_granted_in_queue_order_for_any_count() {
    let (server, [holder, other]) = started().await;
    let first = semaphore(&holder, 3).acquire_many(2).await.unwrap();
    let second = semaphore(&other, 3).acquire().await.unwrap();
    assert!(second.token().unwrap() > first.token().unwrap());
    let wants_two = queue_for(&semaphore(&other, 3), 2).await;
    let wants_one = queue_for(&semaphore(&holder, 3), 1).await;
    assert_eq!((turns(&server), leases(&server)), (2, 3 + 2));

    second.release().await.unwrap();
    settle().await;
    assert!(!wants_two.is_finished() && !wants_one.is_finished(), "nobody is overtaken");
    first.release().await.unwrap();
    let two = wants_two.await.unwrap().unwrap();
    let one = wants_one.await.unwrap().unwrap();
    assert_eq!((two.permits(), one.permits()), (2, 1));
    assert!(two.token().unwrap() < one.token().unwrap());
    assert_eq!((turns(&server), leases(&server)), (0, 3));
    drop((two, one));
    expect_nothing_left(&server, "released").await;
}

/// Its last turn found a free permit.
#[tokio::test(start_paused = true)]
async fn caller_that_finds_no_free_permit_is_overtaken_once() {
    let (server, [holder, other]) = started().await;
    let metrics = LockMetrics::new();
    let expects_one = semaphore(&other, 1).with_metrics(&metrics);
    expects_one.acquire().await.unwrap().release().await.unwrap();
    let held = semaphore(&holder, 1).acquire().await.unwrap();
    let ahead = queue_for(&semaphore(&holder, 1), 1).await;
    let overtaken = queue_for(&expects_one, 1).await;
    let behind = queue_for(&semaphore(&holder, 1), 1).await;
    held.release().await.unwrap();
    let held = ahead.await.unwrap().unwrap();
    settle().await;
    assert_eq!((turns(&server), leases(&server)), (2, 2));
    held.release().await.unwrap();
    let held = behind.await.unwrap().unwrap();
    settle().await;
    let last = queue_for(&semaphore(&holder, 1), 1).await;
    held.release().await.unwrap();
    overtaken.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(metrics.snapshot().given_up, 0);
    last.await.unwrap().unwrap().release().await.unwrap();
    expect_nothing_left(&server, "released").await;
}

/// A handle loses its place only if its last turns have found a free permit, and after a miss only if
/// many more of them have.
#[tokio::test(start_paused = true)]
async fn place_is_lost_again_only_after_many_free_permits_in_a_row() {
    let (_server, [holder, other]) = started().await;
    let kept = semaphore(&other, 2);
    let takes_both = semaphore(&holder, 2);
    // Waits behind two callers and ahead of one. Returns true if that one comes first.
    let loses_its_place = async || {
        let held = queue_for(&takes_both, 2).await.await.unwrap().unwrap();
        let ahead = queue_for(&takes_both, 2).await;
        let waits = queue_for(&kept, 1).await;
        let behind = queue_for(&takes_both, 2).await;
        held.release().await.unwrap();
        ahead.await.unwrap().unwrap().release().await.unwrap();
        settle().await;
        let is_overtaken = !waits.is_finished();
        for next in if is_overtaken { [behind, waits] } else { [waits, behind] } {
            next.await.unwrap().unwrap().release().await.unwrap();
        }
        is_overtaken
    };
    let cases = [
        (9, 2, false),
        (1, 1, true),
        (0, 1, false),
        (7, 1, false),
        (7, 1, false),
        (16, 1, true),
        (31, 1, false),
        (32, 1, true),
    ];
    for (turns, permits, expected) in cases {
        for _ in 0..turns {
            kept.acquire_many(permits).await.unwrap().release().await.unwrap();
        }
        assert_eq!(loses_its_place().await, expected, "after {turns} turns with free permits");
    }
}

/// Curator acquires permits one by one, so both contenders hold some and wait for ever.
#[tokio::test(start_paused = true)]
async fn contenders_for_five_of_six_permits_do_not_deadlock() {
    let (_server, [one, other]) = started().await;
    for _ in 0..20 {
        let acquire = async |client: &Client| {
            let lease = semaphore(client, 6).acquire_many(5).await.unwrap();
            assert_eq!(lease.nodes().len(), 5);
            lease.release().await.unwrap();
        };
        tokio::join!(acquire(&one), acquire(&other));
    }
}

#[tokio::test(start_paused = true)]
async fn permits_out_of_range_are_rejected_without_a_request() {
    let (server, [client]) = started().await;
    let semaphore = semaphore(&client, 3);
    for permits in [0, 4, u32::MAX] {
        let refused = LockError::PermitsOutOfRange { path: PATH.to_owned(), permits, max: 3 };
        assert!(refused.retry_on() != RetryOn::SameSession);
        assert_eq!(semaphore.acquire_many(permits).await.unwrap_err(), refused);
        assert_eq!(semaphore.try_acquire_many(permits).await.unwrap_err(), refused);
        let in_time = semaphore.acquire_many_timeout(permits, T).await;
        assert_eq!(in_time.unwrap_err(), refused);
    }
    let none = Semaphore::new(&client, PATH, 0).unwrap().acquire().await.unwrap_err();
    assert_eq!(none.to_string(), "/s: 1 permits requested, at most 0 possible");
    assert!(children(&server, "/").iter().all(|name| name == "zookeeper"), "nobody was asked");
}

#[tokio::test(start_paused = true)]
async fn lease_reports_revocation_and_stops_work_after_its_loss() {
    let (server, [client, other]) = started().await;
    let lease = semaphore(&client, 2).with_data("mine").acquire_many(2).await.unwrap();
    client.create("/book", b"1", CreateMode::Persistent).await.unwrap();
    assert_eq!(lease.run_while_held(async { 7 }).await, Ok(7));
    lease.multi().set_data("/book", b"2", None).send().await.unwrap();
    let nodes: Vec<String> = lease.nodes().map(str::to_owned).collect();
    let asked = tokio::spawn(lease.revocation_requested());
    assert_eq!(zk_recipes::revoke(&other, &nodes[1]).await, Ok(true));
    assert_eq!(asked.await.unwrap(), Ok(()));
    assert!(lease.is_held(), "to be asked is not to lose it");
    assert!(lease.remaining() > T * 2 / 5, "{:?}", lease.remaining());
    assert_eq!(lease.data().await.unwrap(), "mine", "it was the other that was asked for");

    let vandal = async {
        other.delete(&nodes[0], None).await.unwrap();
        std::future::pending::<()>().await;
    };
    assert_eq!(lease.run_while_held(vandal).await, Err(LockError::Lost(LossReason::NodeDeleted)));
    assert!(lease.multi().set_data("/book", b"3", None).send().await.is_err());
    assert_eq!(client.get_data("/book").await.unwrap().data, &b"2"[..]);
    assert!(lease.release().await.is_err());
    expect_nothing_left(&server, "released").await;
}

#[tokio::test(start_paused = true)]
async fn try_acquire_leaves_permits_that_the_first_waiter_needs() {
    let (server, [one, other]) = started().await;
    let (mine, others) = (semaphore(&one, 3), semaphore(&other, 3));
    let first = mine.try_acquire().await.unwrap().expect("free");
    let two = others.try_acquire_many(2).await.unwrap().expect("free");
    assert!(mine.acquire_timeout(Duration::ZERO).await.unwrap().is_none());
    let waiting = queue_for(&mine, 2).await;
    first.release().await.unwrap();
    settle().await;
    assert!(others.try_acquire().await.unwrap().is_none(), "one is free, and waited for");
    two.release().await.unwrap();
    let lease = waiting.await.unwrap().unwrap();
    let third = others.try_acquire().await.unwrap().expect("free");
    assert!(mine.acquire_many_timeout(2, T).await.unwrap().is_none());
    drop((lease, third));
    expect_nothing_left(&server, "given up").await;
}

#[tokio::test(start_paused = true)]
async fn lease_has_data_splits_and_is_listed_as_participant() {
    let (server, [client]) = started().await;
    let semaphore = semaphore(&client, 5).with_data("worker 7");
    assert_eq!(semaphore.participants().await.unwrap(), []);
    let mut lease = semaphore.acquire_many(3).await.unwrap();
    assert_eq!(lease.data().await.unwrap(), "worker 7");
    let participants = semaphore.participants().await.unwrap();
    let paths: Vec<&str> = participants.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(paths, lease.nodes().collect::<Vec<_>>());
    assert!(paths[2].starts_with("/s/leases/_c_") && paths[2].ends_with("-lease-0000000002"));
    let tokens: Vec<i64> = lease.tokens().unwrap().into_iter().map(|it| it.czxid()).collect();
    assert_eq!(participants.iter().map(|it| it.czxid.0).collect::<Vec<_>>(), tokens);
    assert!(tokens.is_sorted());
    assert_eq!(lease.token().unwrap().czxid(), tokens[2]);
    assert_eq!(lease.check().await.unwrap().czxid(), tokens[2]);
    assert!(participants.iter().all(|it| it.data == b"worker 7"));

    assert!(lease.split(3).is_none() && lease.split(0).is_none() && lease.split(4).is_none());
    let part = lease.split(1).unwrap();
    assert_eq!((lease.permits(), part.permits()), (2, 1));
    part.release().await.unwrap();
    assert_eq!((lease.is_held(), leases(&server)), (true, 2));
    lease.release().await.unwrap();
    expect_nothing_left(&server, "released").await;
}

/// Two waiters that both assume they are first must not both keep some permits and wait.
#[tokio::test(start_paused = true)]
async fn waiter_requeues_when_its_turn_or_lease_node_is_deleted() {
    let (server, [holder, client_b]) = started().await;
    let lease = semaphore(&holder, 6).acquire_many(2).await.unwrap();
    let first = queue_for(&semaphore(&client_b, 6), 5).await;
    let second = queue_for(&semaphore(&holder, 6), 5).await;
    let turn = child(&server, "/s/locks", 0);
    holder.delete(&turn, None).await.unwrap();
    settle().await;
    assert_eq!((turns(&server), leases(&server)), (2, 2 + 5), "one of them has leases");
    let deleted = child(&server, "/s/leases", 3);
    holder.delete(&deleted, None).await.unwrap();
    settle().await;
    assert_eq!((turns(&server), leases(&server)), (2, 2 + 5));
    lease.release().await.unwrap();
    second.await.unwrap().unwrap().release().await.unwrap();
    first.await.unwrap().unwrap().release().await.unwrap();
    expect_nothing_left(&server, "released").await;
}

/// Somebody deletes each lease of the first waiter, which must not keep its turn for ever.
#[tokio::test(start_paused = true)]
async fn turn_ends_after_its_limit_of_deleted_leases() {
    let (server, [holder, other]) = started().await;
    let lease = semaphore(&holder, 1).acquire().await.unwrap();
    let waiting = queue_for(&semaphore(&other, 1), 1).await;
    let turn = children(&server, "/s/locks");
    let mut deleted = 0;
    while children(&server, "/s/locks") == turn && deleted <= 2 * RESTARTS_MAX {
        let node = child(&server, "/s/leases", 1);
        holder.delete(&node, None).await.unwrap();
        settle().await;
        deleted += 1;
    }
    assert_eq!(deleted, RESTARTS_MAX + 1);
    lease.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    expect_nothing_left(&server, "released").await;
}

/// The second caller expects a free permit and finds none. Its turn ends whether or not the lease is
/// created.
#[tokio::test(start_paused = true)]
async fn lost_answer_leaks_no_permit_and_leaves_no_node() {
    let requests = [Op::Create2, Op::CreateContainer, Op::GetChildren2, Op::Delete, Op::Sync];
    let losses = requests.into_iter().flat_map(|op| (1..=4).map(move |nth| (op, nth)));
    for ((op, nth), is_applied) in losses.flat_map(|it| [(it, true), (it, false)]) {
        for expects_free in [false, true] {
            let what = format!("{op:?} {nth} {is_applied} {expects_free}");
            let (server, [client, other]) = started().await;
            let (mine, others) = (semaphore(&client, 3), semaphore(&other, 3));
            let mut held = None;
            if expects_free {
                mine.acquire().await.unwrap().release().await.unwrap();
                held = Some(others.acquire_many(3).await.unwrap());
                settle().await;
            }
            let sentence = server.on(op).session(client.session_id()).nth(nth);
            match is_applied {
                true => sentence.apply_then_drop_reply(),
                false => sentence.drop_before_applying(),
            };
            let permits = if expects_free { 1 } else { 3 };
            let waits = queue_for(&mine, permits).await;
            tokio::time::sleep(T / 4).await; // reason: virtual time, in which the client reconnects
            assert_eq!(
                (turns(&server), leases(&server)),
                (held.iter().count(), if expects_free { 4 } else { 3 }),
                "{what}"
            );
            drop(held);
            let lease = waits.await.unwrap().unwrap();
            settle().await;
            assert_eq!((turns(&server), leases(&server)), (0, lease.nodes().len()), "{what}");
            let left = 3 - permits;
            assert!(others.try_acquire_many(left + 1).await.unwrap().is_none(), "{what}");
            lease.release().await.unwrap();
            expect_nothing_left(&server, &what).await;
        }
    }
}

/// The server may remove empty containers at any moment.
#[tokio::test(start_paused = true)]
async fn parents_reaped_during_an_acquisition_are_recreated() {
    let (server, [client]) = started().await;
    let semaphore = semaphore(&client, 2);
    for permits in [1, 2] {
        reap_at_each_poll(&server, &semaphore, permits).await;
    }
}

async fn reap_at_each_poll(server: &TestServer, semaphore: &Semaphore, permits: u32) {
    let mut moment = 0;
    loop {
        semaphore.acquire_many(permits).await.unwrap().release().await.unwrap();
        let mut polls = 0;
        let acquire = semaphore.acquire_many(permits);
        let mut acquire = std::pin::pin!(acquire);
        let lease = std::future::poll_fn(|cx| {
            if polls == moment {
                server.reap_containers();
            }
            polls += 1;
            acquire.as_mut().poll(cx)
        });
        lease.await.unwrap().release().await.unwrap();
        expect_nothing_left(server, &format!("reaped before poll {moment}")).await;
        if polls <= moment {
            break;
        }
        moment += 1;
    }
    assert!(moment >= 2, "{moment}");
}

/// Returns the handles of one process.
fn shared(client: &Client, limit: i32) -> (SharedCount, Semaphore) {
    let count = SharedCount::new(client, "/limit", limit).unwrap();
    let semaphore = Semaphore::with_shared_limit(client, PATH, &count).unwrap();
    (count, semaphore)
}

#[tokio::test(start_paused = true)]
async fn raised_limit_wakes_waiters_and_lowered_limit_keeps_leases() {
    let (server, [one, other]) = started().await;
    let (count, _) = shared(&other, 1);
    let (_, semaphore) = shared(&one, 1);
    let first = semaphore.acquire().await.unwrap();
    let second = queue_for(&semaphore, 1).await;
    let three_more = queue_for(&semaphore, 3).await;
    assert!(!second.is_finished());
    assert_eq!((turns(&server), leases(&server)), (1, 2), "three are not queued for when one is");

    count.set(2).await.unwrap();
    let second = second.await.unwrap().unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    count.set(5).await.unwrap();
    let three = three_more.await.unwrap().unwrap();
    count.set(-1).await.unwrap();
    settle().await;
    assert!(first.is_held() && second.is_held() && three.is_held());
    assert!(semaphore.try_acquire().await.unwrap().is_none());

    let next = queue_for(&semaphore, 1).await;
    drop((first, second, three));
    settle().await;
    assert!(!next.is_finished() && leases(&server) == 0, "there are none to be had");
    count.set(1).await.unwrap();
    next.await.unwrap().unwrap().release().await.unwrap();
    expect_nothing_left(&server, "released").await;
}

/// The waiter has not read the limit since it queued.
#[tokio::test(start_paused = true)]
async fn waiter_rereads_the_limit_when_it_becomes_first() {
    let (server, [client]) = started().await;
    let (count, semaphore) = shared(&client, 2);
    let holder = semaphore.acquire().await.unwrap();
    let wants_two = queue_for(&semaphore, 2).await;
    let wants_one = queue_for(&semaphore, 1).await;
    count.set(1).await.unwrap();
    settle().await;
    assert!(!wants_one.is_finished() && !wants_two.is_finished(), "the only one is held");
    drop(holder);
    wants_one.await.unwrap().unwrap().release().await.unwrap();
    count.set(2).await.unwrap();
    wants_two.await.unwrap().unwrap().release().await.unwrap();
    expect_nothing_left(&server, "released").await;
}

/// The limit falls from 2 to 1 while one of two permits is held: when the answer with the old limit is in
/// flight, at the same time as a release, or before a throttled list is repeated.
#[tokio::test(start_paused = true)]
async fn limit_lowered_during_an_acquisition_is_not_exceeded() {
    for moment in ["answer in flight", "release", "repeated list"] {
        let (server, [one, other]) = started().await;
        let (count, others) = shared(&other, 2);
        let first = others.acquire().await.unwrap();
        let (_, semaphore) = shared(&one, 2);
        if moment == "answer in flight" {
            server.on(Op::GetData).session(one.session_id()).delay(T / 20);
            let asked = running(async move { semaphore.try_acquire().await }).await;
            count.set(1).await.unwrap();
            assert!(!asked.is_finished(), "the answer of the server was to be late");
            assert!(asked.await.unwrap().unwrap().is_none(), "the only permit is held");
            first.release().await.unwrap();
        } else {
            let second = others.acquire().await.unwrap();
            let mut waiting = pin!(semaphore.acquire());
            assert!(tokio::time::timeout(T / 20, waiting.as_mut()).await.is_err());
            let lists = || server.on(Op::GetChildren2).session(one.session_id());
            if moment == "repeated list" {
                lists().answer(ErrorCode::THROTTLED_OP);
                lists().nth(2).delay(T / 20);
                second.release().await.unwrap();
                assert!(tokio::time::timeout(T / 200, waiting.as_mut()).await.is_err());
                count.set(1).await.unwrap();
            } else {
                count.set(1).await.unwrap();
                second.release().await.unwrap();
                settle().await;
            }
            let granted = tokio::time::timeout(T / 10, waiting.as_mut()).await;
            assert!(granted.is_err(), "{moment}: the only permit is held");
            first.release().await.unwrap();
            waiting.await.unwrap().release().await.unwrap();
        }
        expect_nothing_left(&server, moment).await;
    }
}

/// The first waiter needs more permits than the limit now allows.
#[tokio::test(start_paused = true)]
async fn waiter_above_a_lowered_limit_gives_its_turn_back() {
    let (server, [one, other]) = started().await;
    let (count, others) = shared(&other, 3);
    let [first, second] = [others.acquire_many(2).await.unwrap(), others.acquire().await.unwrap()];

    let (_, semaphore) = shared(&one, 3);
    let mut waiting = pin!(semaphore.acquire_many(2));
    assert!(tokio::time::timeout(T / 20, waiting.as_mut()).await.is_err());
    count.set(1).await.unwrap();
    second.release().await.unwrap();
    settle().await;
    assert!(tokio::time::timeout(T / 20, waiting.as_mut()).await.is_err());
    assert_eq!((turns(&server), leases(&server)), (0, 2), "it waits for a higher limit");
    count.set(2).await.unwrap();
    first.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    expect_nothing_left(&server, "released").await;
}

/// An operator deletes a lock with all its holders and waiters.
///
/// The waiters create the parents again and queue again. The lease of the holder reports its loss.
#[tokio::test(start_paused = true)]
async fn waiters_requeue_when_an_operator_deletes_the_lock() {
    let (server, [one, other, operator]) = started().await;
    let lease = semaphore(&one, 1).acquire().await.unwrap();
    let waiting =
        [queue_for(&semaphore(&one, 1), 1).await, queue_for(&semaphore(&other, 1), 1).await];
    let visits = waiting.map(|waiting| {
        tokio::spawn(async move { waiting.await.unwrap().unwrap().release().await })
    });
    let mut all = operator.multi();
    for below in ["/s/locks", "/s/leases"] {
        for name in children(&server, below) {
            all = all.delete(&format!("{below}/{name}"), None);
        }
        all = all.delete(below, None);
    }
    all.delete(PATH, None).send().await.unwrap();
    assert_eq!(lease.lost().await, LossReason::NodeDeleted);
    for visit in visits {
        let visit = tokio::time::timeout(6 * T, visit).await;
        visit.expect("they queue again").unwrap().expect("it was held");
    }
    assert!(matches!(lease.release().await, Err(LockError::Lost(_))));
}
