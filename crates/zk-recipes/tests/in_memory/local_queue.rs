//! The tasks of one process share a node, and pass the lock to each other.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Wake};
use std::time::Duration;

use futures::future::{FutureExt, join_all};
use tokio::sync::mpsc;
use zk_recipes::session::Client;
use zk_recipes::{FencingToken, LocalQueueLimits, LockError, LossReason, Mutex, Owner, revoke};
use zk_testing::TestServer;

use crate::recorded_connection::{CREATE2, DELETE, GET_CHILDREN2, started_recorded};
use crate::{T, attempt, children, client, polled, running, settle, settle_node_watches, started};

const PATH: &str = "/lock";

const NOTHING: [[i32; 0]; 0] = [];

/// Limits that no test reaches.
fn unlimited() -> LocalQueueLimits {
    LocalQueueLimits::default().max_passes(u32::MAX).max_time(Duration::MAX)
}

fn shared(client: &Client) -> Mutex {
    limited(client, unlimited())
}

fn limited(client: &Client, limits: LocalQueueLimits) -> Mutex {
    Mutex::new(client, PATH).unwrap().with_local_queue(limits)
}

/// A waker that does something while it wakes, as a runtime of another kind may.
struct Waking(Box<dyn Fn() + Send + Sync>);

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        self.0();
    }
}

/// Polls a future once, with a waker that calls `wake`.
fn poll_with<F: Future + Unpin>(future: &mut F, wake: impl Fn() + Send + Sync + 'static) {
    let waker = Arc::new(Waking(Box::new(wake))).into();
    assert!(future.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
}

#[tokio::test(start_paused = true)]
async fn waker_of_a_waiter_may_drop_it_or_try_the_lock() {
    let (server, [client]) = started().await;
    let lock = shared(&client);
    let held = lock.acquire().await.unwrap();
    let waiter = Arc::new(StdMutex::new(None));
    let (dropped, tried) = (waiter.clone(), lock.clone());
    let mut acquiring = Box::pin({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    poll_with(&mut acquiring, move || drop(dropped.lock().unwrap().take()));
    *waiter.lock().unwrap() = Some(acquiring);
    let mut lost = held.lost().boxed();
    poll_with(&mut lost, move || drop(tried.try_acquire().now_or_never()));
    let later = attempt(&lock).await;
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(held.release().now_or_never()));
    let released = is_done.recv_timeout(Duration::from_secs(30)).expect("it hangs");
    assert_eq!(released, Some(Ok(())));
    assert!(waiter.lock().unwrap().is_none());
    later.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(children(&server, PATH), [""; 0]);
}

/// A holder: the number of its task, its node and its token.
type Holder = (u32, String, FencingToken);

/// Starts tasks that each hold the lock once, for `hold`, and queue in the order of their numbers. Returns a
/// future of the holders, in their order.
async fn hold_in_turn(
    lock: &Mutex,
    tasks: u32,
    hold: Duration,
) -> impl Future<Output = Vec<Holder>> {
    let (holder, mut holders) = mpsc::unbounded_channel();
    for number in 0..tasks {
        let (lock, holder) = (lock.clone(), holder.clone());
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            holder.send((number, guard.node().to_owned(), guard.token().unwrap())).unwrap();
            if !hold.is_zero() {
                tokio::time::sleep(hold).await; // reason: virtual time of the hold
            }
            guard.release().await.unwrap();
        });
        tokio::task::yield_now().await;
    }
    async move {
        drop(holder);
        let mut seen: Vec<Holder> = Vec::new();
        while let Some(holder) = holders.recv().await {
            let is_larger =
                |before: &Holder| before.2 < holder.2 && before.2.as_i128() < holder.2.as_i128();
            assert!(seen.last().is_none_or(is_larger), "{seen:?}, {holder:?}");
            seen.push(holder);
        }
        seen
    }
}

#[tokio::test(start_paused = true)]
async fn local_waiters_acquire_in_order_without_a_request() {
    let (server, client, record) = started_recorded().await;
    let lock = shared(&client);
    lock.acquire().await.unwrap().release().await.unwrap(); // creates the path
    record.take();
    let held = lock.acquire().await.unwrap();
    let holders = hold_in_turn(&lock, 10, Duration::ZERO).await;
    settle().await;
    assert_eq!(record.take(), [vec![CREATE2, GET_CHILDREN2]], "one node for all");
    let (token, node) = (held.token().unwrap(), held.node().to_owned());
    held.release().await.unwrap();
    for (at, (number, own, own_token)) in (0..).zip(holders.await) {
        assert_eq!((number, own, own_token.czxid()), (at, node.clone(), token.czxid()));
        assert_eq!(own_token.to_string(), format!("{token}:{}", at + 1));
    }
    assert_eq!(record.take(), [[DELETE]], "a pass is no request");
    assert_eq!(children(&server, PATH), [""; 0]);
}

/// The time counts from the grant of the ensemble, and not from the last pass.
#[tokio::test(start_paused = true)]
async fn lock_goes_to_the_ensemble_at_either_limit() {
    for (limits, hold_ms, passes) in [
        (unlimited(), 1, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (unlimited().max_passes(3), 1, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]),
        (unlimited().max_time(Duration::from_millis(100)), 30, [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]),
        (unlimited().max_time(Duration::ZERO), 0, [0; 10]),
        (unlimited().max_passes(0), 0, [0; 10]),
    ] {
        let (server, [client]) = started().await;
        let lock = limited(&client, limits);
        let holders = hold_in_turn(&lock, 10, Duration::from_millis(hold_ms)).await.await;
        let passed: Vec<u32> = holders.iter().map(|(.., token)| token.pass()).collect();
        assert_eq!(passed, passes, "{limits:?}");
        settle().await;
        assert_eq!(children(&server, PATH), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn lock_of_try_acquire_passes_to_the_next_waiter() {
    let server = TestServer::in_memory();
    let lock = shared(&client(&server, 1).await);
    let held = lock.try_acquire().await.unwrap().expect("it is free");
    let next = attempt(&lock).await;
    assert_eq!(children(&server, PATH).len(), 1, "it waits for its turn, without a node");
    held.release().await.unwrap();
    assert_eq!(next.await.unwrap().unwrap().token().unwrap().pass(), 1);
}

/// The lock was passed in time. The waiter takes it up when its time is over.
#[tokio::test(start_paused = true)]
async fn late_waiter_leaves_the_lock_to_another_process() {
    let (_server, [here, elsewhere]) = started().await;
    let lock = limited(&here, unlimited().max_time(T / 10));
    let held = lock.acquire().await.unwrap();
    let mut late = pin!(lock.acquire());
    assert!(late.as_mut().now_or_never().is_none());
    let other = attempt(&Mutex::new(&elsewhere, PATH).unwrap()).await;
    held.release().await.unwrap();
    settle().await;
    assert!(!other.is_finished(), "it was passed on");
    // reason: virtual time of the limit
    tokio::time::sleep(T / 10).await;
    assert!(late.as_mut().now_or_never().is_none());
    let other = other.await.unwrap().unwrap();
    other.release().await.unwrap();
    assert_eq!(late.await.unwrap().token().unwrap().pass(), 0, "the ensemble granted it");
}

/// The next waiter must not take over a node whose number no contender may use.
#[tokio::test(start_paused = true)]
async fn failed_position_is_not_left_to_the_next_waiter() {
    let server = TestServer::in_memory();
    let lock = limited(&client(&server, 1).await, unlimited().max_passes(0));
    let held = lock.acquire().await.unwrap();
    assert!(server.set_sequence(PATH, i32::MAX));
    let waiting = [attempt(&lock).await, attempt(&lock).await];
    held.release().await.unwrap();
    for waiter in waiting {
        let error = waiter.await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::SequenceExhausted { .. }), "{error}");
    }
    settle().await;
    assert_eq!(children(&server, PATH), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn passed_guard_ends_and_the_next_one_holds() {
    let (_server, [client, operator]) = started().await;
    let lock = shared(&client);
    let first = lock.acquire().await.unwrap();
    let next = attempt(&lock).await;
    let (lost, never_polled, asked) = (first.lost(), first.lost(), first.revocation_requested());
    let (lost, asked) = (tokio::spawn(lost), tokio::spawn(asked));
    settle_node_watches().await;
    first.release().await.unwrap();
    let second = next.await.unwrap().unwrap();
    assert_eq!(lost.await.unwrap(), LossReason::Released);
    let passed_on = Err(LockError::Lost(LossReason::Released));
    assert_eq!(asked.await.unwrap(), passed_on, "requests are the next holder's");
    assert!(second.is_held() && second.remaining() > T * 2 / 5);
    second.check().await.unwrap();

    let second_lost = running(second.lost()).await;
    assert!(!second_lost.is_finished());
    operator.delete(second.node(), None).await.unwrap();
    assert_eq!(second_lost.await.unwrap(), LossReason::NodeDeleted);
    assert_eq!(second.token(), Err(LockError::Lost(LossReason::NodeDeleted)));
    assert_eq!(never_polled.await, LossReason::Released, "it was released before");
}

/// The node is deleted before the release, or between the release and the first poll of the next
/// waiter.
#[tokio::test(start_paused = true)]
async fn lost_lock_does_not_pass() {
    let (_server, [client, operator]) = started().await;
    let lock = shared(&client);
    for how in ["dropped", "released", "lost on its way"] {
        let held = lock.acquire().await.unwrap();
        let mut next = pin!(lock.acquire());
        assert!(next.as_mut().now_or_never().is_none());
        settle_node_watches().await;
        let node = held.node().to_owned();
        if how == "lost on its way" {
            held.release().await.unwrap();
            operator.delete(&node, None).await.unwrap();
            settle().await;
        } else {
            operator.delete(&node, None).await.unwrap();
            held.lost().await;
            let deleted = Err(LockError::Lost(LossReason::NodeDeleted));
            match how {
                "dropped" => drop(held),
                _ => assert_eq!(held.release().await, deleted, "the caller is told"),
            }
        }
        let next = next.await.unwrap();
        assert_ne!(next.node(), node, "{how}");
        next.check().await.unwrap();
        assert_eq!(next.token().unwrap().pass(), 0, "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn lock_does_not_pass_after_a_reported_revocation() {
    let (_server, [here, elsewhere]) = started().await;
    let lock = shared(&here);
    let held = lock.acquire().await.unwrap();
    let local = attempt(&lock).await;
    let other = attempt(&Mutex::new(&elsewhere, PATH).unwrap()).await;
    revoke(&elsewhere, held.node()).await.unwrap();
    held.release().await.unwrap();
    // The first holder did not listen, so its lock passed. The request is still on the node.
    let held = local.await.unwrap().unwrap();
    let local = attempt(&lock).await;
    held.revocation_requested().await.unwrap();
    assert!(held.is_held());
    held.release().await.unwrap();
    let other = other.await.unwrap().unwrap();
    assert!(!local.is_finished(), "it queues behind the other process");
    other.release().await.unwrap();
    local.await.unwrap().unwrap().release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cancelled_waiter_leaves_its_position_to_the_next_one() {
    let (server, [here, elsewhere]) = started().await;
    let lock = shared(&here);
    let held = Mutex::new(&elsewhere, PATH).unwrap().acquire().await.unwrap();
    let in_ensemble = attempt(&lock).await;
    let local = attempt(&lock).await;
    let behind = attempt(&Mutex::new(&elsewhere, PATH).unwrap()).await;
    let nodes = children(&server, PATH);
    assert_eq!(nodes.len(), 3);
    in_ensemble.abort();
    settle().await;
    assert_eq!(children(&server, PATH), nodes, "the position is kept");
    held.release().await.unwrap();
    let local = local.await.unwrap().unwrap();
    assert!(local.node().ends_with(&nodes[1]) && !behind.is_finished());
    assert_eq!(local.token().unwrap().pass(), 0, "the ensemble granted it");
    drop(local);
    behind.await.unwrap().unwrap().release().await.unwrap();
}

/// A waiter is dropped after it was handed the lock, and before it was polled.
#[tokio::test(start_paused = true)]
async fn waiter_cancelled_when_it_is_handed_the_lock_passes_it_on() {
    let (server, client, record) = started_recorded().await;
    let lock = shared(&client);
    for is_last in [false, true] {
        let held = lock.acquire().await.unwrap();
        let mut cancelled = Box::pin(lock.acquire());
        assert!(cancelled.as_mut().now_or_never().is_none());
        let next = match is_last {
            true => None,
            false => Some(attempt(&lock).await),
        };
        record.take();
        held.release().await.unwrap();
        assert_eq!(record.take(), NOTHING, "it passes to the first one");
        drop(cancelled);
        if let Some(next) = next {
            let next = tokio::time::timeout(T, next).await.expect("it is not forgotten");
            let next = next.unwrap().unwrap();
            assert_eq!(record.take(), NOTHING);
            next.release().await.unwrap();
        }
        settle().await;
        assert_eq!(record.take(), [[DELETE]]);
        assert_eq!(children(&server, PATH), [""; 0]);
    }
}

/// One of three waiters is dropped after any number of polls. The others acquire the lock, and no
/// node is left.
#[tokio::test(start_paused = true)]
async fn waiter_cancelled_at_any_poll_forgets_no_other() {
    for limits in [unlimited(), unlimited().max_passes(0)] {
        for place in 0..3 {
            for polls in 0..12 {
                let case = format!("{limits:?}, place {place}, {polls} polls");
                let (server, [here, elsewhere]) = started().await;
                let lock = limited(&here, limits);
                let held = Mutex::new(&elsewhere, PATH).unwrap().acquire().await.unwrap();
                let waiters = (0..3).map(|number| {
                    let lock = lock.clone();
                    tokio::spawn(async move {
                        let polls = if number == place { polls } else { usize::MAX };
                        let guard = polled(polls, lock.acquire()).await;
                        assert!(number == place || guard.is_some());
                    })
                });
                let waiters: Vec<_> = waiters.collect();
                tokio::task::yield_now().await;
                held.release().await.unwrap();
                let ended = tokio::time::timeout(T, join_all(waiters)).await;
                for waiter in ended.expect(&case) {
                    waiter.expect(&case);
                }
                settle().await;
                assert_eq!(children(&server, PATH), [""; 0], "{case}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hold_of_an_owner_passes_with_its_last_guard() {
    let (_server, client, record) = started_recorded().await;
    let lock = shared(&client);
    let owned = lock.clone().with_owner(&Owner::new());
    let outer = owned.acquire().await.unwrap();
    let next = attempt(&lock).await;
    let of_owner = attempt(&owned).await;
    let inner = of_owner.await.unwrap().unwrap();
    assert_eq!(inner.token(), outer.token(), "it enters again, ahead of the waiter");
    settle_node_watches().await;
    record.take();
    outer.release().await.unwrap();
    settle().await;
    assert!(inner.is_held() && !next.is_finished());
    drop(inner);
    let next = next.await.unwrap().unwrap();
    assert_eq!(record.take(), NOTHING);
    // The owner has no hold any more, so it queues.
    let again = attempt(&owned).await;
    assert!(!again.is_finished());
    let token = next.token().unwrap();
    next.release().await.unwrap();
    assert!(again.await.unwrap().unwrap().token().unwrap() > token);
}

#[tokio::test(start_paused = true)]
async fn other_options_and_tickets_have_their_own_nodes() {
    let (_server, [client]) = started().await;
    let lock = shared(&client);
    let held = lock.acquire().await.unwrap();
    let ticket = lock.enqueue().await.unwrap();
    assert_eq!(ticket.position().ahead, 1);
    let other = attempt(&lock.clone().with_data("other")).await;
    assert_eq!(lock.participants().await.unwrap().len(), 3);
    let local = attempt(&lock).await;
    drop(held);
    let local = local.await.unwrap().unwrap();
    assert_eq!(local.token().unwrap().pass(), 1);
    drop(local);
    let ticket = ticket.acquire().await.unwrap();
    assert!(!other.is_finished());
    drop(ticket);
    let other = other.await.unwrap().unwrap();
    assert_eq!(lock.participants().await.unwrap()[0].data, b"other");
    other.release().await.unwrap();
}

/// The release is at the moment of the grant.
#[tokio::test(start_paused = true)]
async fn lock_never_passes_with_a_limit_of_zero() {
    let (_server, [client]) = started().await;
    for (limits, passes) in [
        (unlimited(), 1),
        (unlimited().max_time(Duration::ZERO), 0),
        (unlimited().max_passes(0), 0),
    ] {
        let lock = limited(&client, limits);
        let held = lock.acquire().await.unwrap();
        let mut next = pin!(lock.acquire());
        assert!(next.as_mut().now_or_never().is_none());
        held.release().await.unwrap();
        assert_eq!(next.await.unwrap().token().unwrap().pass(), passes, "{limits:?}");
    }
}
