//! Metrics: counters and histograms, on virtual time.

use std::time::Duration;

use zk_recipes::session::{Client, Prometheus};
use zk_recipes::{LocalQueueLimits, LockMetrics, LossReason, Mutex, RwLock, Semaphore};
use zk_testing::Op;

use crate::{attempt, running, settle, started};

fn mutex(client: &Client, metrics: &LockMetrics) -> Mutex {
    Mutex::new(client, "/l").unwrap().with_metrics(metrics)
}

#[tokio::test(start_paused = true)]
async fn waits_holds_and_margins_are_measured() {
    let (_server, [one, other]) = started().await;
    let metrics = LockMetrics::new();
    let lock = |client| mutex(client, &metrics);
    let held = lock(&one).acquire().await.unwrap();
    let waiting = attempt(&lock(&other)).await;
    let now = metrics.snapshot();
    assert_eq!((now.held, now.waiting, now.acquired), (1, 1, 1));
    assert!(lock(&other).try_acquire().await.unwrap().is_none());
    assert_eq!(metrics.snapshot().given_up, 1);

    tokio::time::sleep(Duration::from_secs(3)).await; // reason: virtual time
    held.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
    settle().await;
    let now = metrics.snapshot();
    assert_eq!((now.held, now.waiting, now.acquired, now.given_up), (0, 0, 2, 1));
    assert_eq!((now.wait.count(), now.hold.count(), now.lease_left.count()), (2, 2, 2));
    assert!(now.wait.sum() >= Duration::from_secs(3), "{now:?}");
    assert!(now.hold.sum() >= Duration::from_secs(3), "{now:?}");
    assert!(now.lease_left.sum() > Duration::ZERO, "{now:?}");
}

/// The event of a marked release grants the lock, without a request.
#[tokio::test(start_paused = true)]
async fn hand_off_begins_with_the_last_contender_that_leaves() {
    let (_server, [one, two, three]) = started().await;
    let metrics = LockMetrics::new();
    let lock = |client| mutex(client, &metrics);
    let held = lock(&one).acquire().await.unwrap();
    let between = lock(&two).enqueue().await.unwrap();
    let waiting = attempt(&lock(&three)).await;
    drop(between);
    tokio::time::sleep(Duration::from_secs(3)).await; // reason: virtual time
    assert_eq!(hand_offs(&metrics), (0, Duration::ZERO), "nobody waited, or still waits");
    held.release().await.unwrap();
    waiting.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(hand_offs(&metrics), (1, Duration::ZERO));
    assert!(metrics.snapshot().wait.sum() >= Duration::from_secs(3));
    lock(&one).acquire().await.unwrap().release().await.unwrap();
    assert!(lock(&one).try_acquire().await.unwrap().is_some());
    assert_eq!(hand_offs(&metrics).0, 1, "a free lock needs no hand-off");
}

/// A waiter for a read-write lock lists the queue after the event.
#[tokio::test(start_paused = true)]
async fn hand_off_contains_the_list_after_the_event() {
    let (server, [one, other]) = started().await;
    let metrics = LockMetrics::new();
    let sides = |client| RwLock::new(client, "/rw").unwrap().with_metrics(&metrics);
    let reading = sides(&one).read().acquire().await.unwrap();
    let waiting = attempt(sides(&other).write()).await;
    let delay = Duration::from_millis(300);
    server.on(Op::GetChildren2).session(other.session_id()).delay(delay);
    reading.release().await.unwrap();
    let writing = waiting.await.unwrap().unwrap();
    assert_eq!(hand_offs(&metrics), (1, delay));

    let waiting = attempt(sides(&one).read()).await;
    server.on(Op::GetChildren2).session(one.session_id()).delay(delay);
    writing.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
    assert_eq!(hand_offs(&metrics), (2, 2 * delay));
}

/// A waiter whose node is deleted queues again. It does not wait in its new place.
#[tokio::test(start_paused = true)]
async fn hand_off_of_a_ticket_lasts_until_it_is_acquired() {
    for is_deleted in [false, true] {
        let (_server, [one, other]) = started().await;
        let metrics = LockMetrics::new();
        let held = Mutex::new(&one, "/l").unwrap().acquire().await.unwrap();
        let mut ticket = mutex(&other, &metrics).enqueue().await.unwrap();
        // One transaction, so that both nodes are gone before the waiter lists.
        let gone = one.multi().delete(held.node(), None);
        let own = ticket.node().unwrap().to_owned();
        let gone = if is_deleted { gone.delete(&own, None) } else { gone };
        gone.send().await.unwrap();
        while ticket.position_changed().await.unwrap().ahead > 0 {}
        let pause = Duration::from_secs(2);
        tokio::time::sleep(pause).await; // reason: virtual time
        drop(ticket.acquire().await.unwrap());
        let expected = if is_deleted { (0, Duration::ZERO) } else { (1, pause) };
        assert_eq!((metrics.snapshot().wait.count(), hand_offs(&metrics)), (1, expected));
    }
}

#[tokio::test(start_paused = true)]
async fn hand_off_of_a_permit_begins_with_its_release_or_the_turn() {
    let (server, [one, two, three]) = started().await;
    let [first, head, last] = [(); 3].map(|()| LockMetrics::new());
    let permits = |client, metrics| Semaphore::new(client, "/s", 3).unwrap().with_metrics(metrics);
    let held = permits(&one, &first).acquire_many(2).await.unwrap();
    // The head waits for two permits; one is free.
    let mine = permits(&two, &head);
    let at_head = running(async move { mine.acquire_many(2).await }).await;
    let behind = attempt(&permits(&three, &last)).await;
    let [list, create] = [300, 500].map(Duration::from_millis);
    server.on(Op::GetChildren2).session(two.session_id()).delay(list);
    server.on(Op::Create2).session(three.session_id()).delay(create);
    held.release().await.unwrap();
    let granted = at_head.await.unwrap().unwrap();
    drop((granted, behind.await.unwrap().unwrap()));
    assert_eq!(hand_offs(&first).0, 0, "the permits were free");
    assert_eq!(hand_offs(&head), (2, 2 * list), "each permit counts, from the event of a lease");
    assert_eq!(hand_offs(&last), (1, create), "a permit was free when the turn came");
    let again = permits(&one, &first).try_acquire().await.unwrap();
    assert!(again.is_some());
    assert_eq!(hand_offs(&first).0, 0);
}

#[tokio::test(start_paused = true)]
async fn losses_are_counted_by_reason() {
    let (server, [one, other]) = started().await;
    let metrics = LockMetrics::new();
    let lock = mutex(&one, &metrics);

    let held = lock.acquire().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await; // reason: the watch on the node is set later
    let lost = held.lost();
    other.delete(held.node(), None).await.unwrap();
    assert_eq!(lost.await, LossReason::NodeDeleted);
    drop(held);
    assert_eq!(metrics.snapshot().lost_node, 1);

    // Before the watch on the node is set, only the release finds out.
    let held = lock.acquire().await.unwrap();
    other.delete(held.node(), None).await.unwrap();
    assert!(held.release().await.is_err());
    assert_eq!((metrics.snapshot().lost_node, metrics.snapshot().lease_left.count()), (2, 0));

    let held = lock.acquire().await.unwrap();
    server.expire(one.session_id());
    one.wait_for_end().await;
    drop(held);
    let now = metrics.snapshot();
    assert_eq!((now.lost_session, now.lost_node, now.lost_lease, now.lost_pause), (1, 2, 0, 0));
    assert_eq!((now.held, now.acquired, now.lease_left.count()), (0, 3, 0));
    assert!(lock.acquire().await.is_err());
    assert_eq!((metrics.snapshot().given_up, metrics.snapshot().waiting), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn every_recipe_counts_what_it_grants() {
    let (_server, [client]) = started().await;
    let metrics = LockMetrics::new();
    let counted =
        |wanted| assert_eq!((metrics.snapshot().acquired, metrics.snapshot().held), wanted);
    let sides = RwLock::new(&client, "/rw").unwrap().with_metrics(&metrics);
    let reading = [sides.read().acquire().await.unwrap(), sides.read().acquire().await.unwrap()];
    counted((2, 2));
    drop(reading);
    let writing = sides.write().acquire().await.unwrap();
    counted((3, 1));
    drop(writing.downgrade().await.unwrap());
    counted((4, 0));
    let permits = Semaphore::new(&client, "/s", 5).unwrap().with_metrics(&metrics);
    let three = permits.acquire_many(3).await.unwrap();
    counted((7, 3));
    drop(three);

    let local = Mutex::new(&client, "/q").unwrap().with_metrics(&metrics);
    let limits = LocalQueueLimits::default().max_time(Duration::from_secs(1));
    let local = local.with_local_queue(limits);
    let held = local.acquire().await.unwrap();
    let next = attempt(&local).await;
    held.release().await.unwrap();
    let passed = next.await.unwrap().unwrap();
    counted((9, 1));
    drop(passed);
    counted((9, 0));
    assert_eq!(
        metrics.snapshot().wait.count(),
        8,
        "the lock that passed on was not waited for here"
    );
}

#[tokio::test(start_paused = true)]
async fn prometheus_page_has_every_value_with_its_labels() {
    let (_server, [client]) = started().await;
    let metrics = LockMetrics::new();
    let lock = mutex(&client, &metrics);
    let held = lock.acquire().await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await; // reason: virtual time
    held.release().await.unwrap();
    let page = metrics.snapshot().prometheus("lock=\"l\"");
    for line in [
        "# TYPE zk_lock_waiting gauge",
        "zk_lock_held{lock=\"l\"} 0",
        "zk_lock_acquired_total{lock=\"l\"} 1",
        "zk_lock_given_up_total{lock=\"l\"} 0",
        "zk_lock_lost_total{lock=\"l\",reason=\"node_deleted\"} 0",
        "# TYPE zk_lock_hold_seconds histogram",
        "zk_lock_hold_seconds_bucket{lock=\"l\",le=\"2\"} 0",
        "zk_lock_hold_seconds_bucket{lock=\"l\",le=\"5\"} 1",
        "zk_lock_hold_seconds_bucket{lock=\"l\",le=\"+Inf\"} 1",
        "zk_lock_hold_seconds_count{lock=\"l\"} 1",
        "# TYPE zk_lock_hand_off_seconds histogram",
        "zk_lock_hand_off_seconds_count{lock=\"l\"} 0",
        "# TYPE zk_lock_wait_seconds histogram",
        "zk_lock_wait_seconds_count{lock=\"l\"} 1",
        "# TYPE zk_lock_lease_left_seconds histogram",
        "zk_lock_lease_left_seconds_count{lock=\"l\"} 1",
    ] {
        assert!(page.lines().any(|it| it == line), "{line} in {page}");
    }
    assert!(metrics.snapshot().prometheus("").contains("\nzk_lock_held 0\n"));
}

/// Returns the number of hand-offs, and the sum of their times.
fn hand_offs(metrics: &LockMetrics) -> (u64, Duration) {
    let hand_off = metrics.snapshot().hand_off;
    (hand_off.count(), hand_off.sum())
}
