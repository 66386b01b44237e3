//! Semaphores with a limit that all processes share, and that changes meanwhile.

use std::pin::pin;

use zk_recipes::session::{Client, ErrorCode};
use zk_recipes::{Semaphore, SharedCount};
use zk_testing::Op;

use crate::semaphore::{PATH, expect_nothing_left, leases, queue_for, turns};
use crate::{T, running, settle, started};

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

/// The answer with the old limit is in flight when the limit is lowered.
#[tokio::test(start_paused = true)]
async fn limit_lowered_during_an_acquisition_is_not_exceeded() {
    let (server, [one, other]) = started().await;
    let (count, others) = shared(&other, 2);
    let holder = others.acquire().await.unwrap();

    server.on(Op::GetData).session(one.session_id()).delay(T / 20);
    let (_, semaphore) = shared(&one, 2);
    let asked = running(async move { semaphore.try_acquire().await }).await;
    count.set(1).await.unwrap();
    assert!(!asked.is_finished(), "the answer of the server was to be late");
    assert!(asked.await.unwrap().unwrap().is_none(), "the only permit is held");
    holder.release().await.unwrap();
    expect_nothing_left(&server, "released").await;
}

/// The first waiter hears of the lower limit and of the release at the same time.
#[tokio::test(start_paused = true)]
async fn limit_lowered_before_a_release_is_not_exceeded() {
    let (server, [one, other]) = started().await;
    let (count, others) = shared(&other, 2);
    let (first, second) = (others.acquire().await.unwrap(), others.acquire().await.unwrap());

    let (_, semaphore) = shared(&one, 2);
    let mut waiting = pin!(semaphore.acquire());
    assert!(tokio::time::timeout(T / 20, waiting.as_mut()).await.is_err());
    count.set(1).await.unwrap();
    second.release().await.unwrap();
    settle().await;
    let granted = tokio::time::timeout(T / 20, waiting.as_mut()).await;
    assert!(granted.is_err(), "the only permit is held");
    first.release().await.unwrap();
    waiting.await.unwrap().release().await.unwrap();
    expect_nothing_left(&server, "released").await;
}

/// The list is throttled, and the limit beside it is not. The limit falls before the list is repeated.
#[tokio::test(start_paused = true)]
async fn limit_lowered_before_a_repeated_list_is_not_exceeded() {
    let (server, [one, other]) = started().await;
    let (count, others) = shared(&other, 2);
    let (first, second) = (others.acquire().await.unwrap(), others.acquire().await.unwrap());

    let (_, semaphore) = shared(&one, 2);
    let waiting = queue_for(&semaphore, 1).await;
    server.on(Op::GetChildren2).session(one.session_id()).answer(ErrorCode::THROTTLED_OP);
    server.on(Op::GetChildren2).session(one.session_id()).nth(2).delay(T / 20);
    second.release().await.unwrap();
    settle().await;
    count.set(1).await.unwrap();
    assert!(!waiting.is_finished(), "the repeated list was to be late");
    tokio::time::sleep(T / 10).await; // reason: virtual time, longer than the delay
    assert!(!waiting.is_finished(), "the only permit is held");
    first.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    expect_nothing_left(&server, "released").await;
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
