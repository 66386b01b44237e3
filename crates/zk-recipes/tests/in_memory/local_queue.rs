//! The tasks of one process share a node, and pass the lock to each other.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex as StdMutex};
use std::task::{Context, Wake};
use std::time::Duration;

use futures::future::{FutureExt, join_all};
use tokio::task::JoinHandle;
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

/// A holder, by the name of its task.
#[derive(Clone, Debug)]
struct Holder {
    name: String,
    node: String,
    token: FencingToken,
}

/// The holders of a lock, in order.
#[derive(Clone, Default)]
struct Holders(Arc<StdMutex<Vec<Holder>>>);

impl Holders {
    /// Starts tasks that each hold the lock once, for `hold`. They arrive in the order of their
    /// numbers.
    async fn start(
        &self,
        name: &str,
        lock: &Mutex,
        tasks: u32,
        hold: Duration,
    ) -> Vec<JoinHandle<()>> {
        let mut started = Vec::new();
        for number in 0..tasks {
            let (lock, log, name) = (lock.clone(), self.0.clone(), format!("{name}{number}"));
            started.push(tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                let (node, token) = (guard.node().to_owned(), guard.token().unwrap());
                log.lock().unwrap().push(Holder { name, node, token });
                // reason: virtual time of the hold
                tokio::time::sleep(hold).await;
                guard.release().await.unwrap();
            }));
            tokio::task::yield_now().await;
        }
        started
    }

    fn seen(&self) -> Vec<Holder> {
        self.0.lock().unwrap().clone()
    }

    fn names(&self) -> Vec<String> {
        self.seen().into_iter().map(|holder| holder.name).collect()
    }

    /// Returns the second number of each token, and checks that the tokens grow.
    fn passes(&self) -> Vec<u32> {
        let tokens: Vec<FencingToken> = self.seen().iter().map(|holder| holder.token).collect();
        assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
        assert!(tokens.is_sorted_by(|a, b| a.as_i128() < b.as_i128()), "{tokens:?}");
        tokens.into_iter().map(FencingToken::pass).collect()
    }
}

async fn finished(tasks: Vec<JoinHandle<()>>) {
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn local_waiters_acquire_in_order_without_a_request() {
    let (server, client, record) = started_recorded().await;
    let lock = shared(&client);
    lock.acquire().await.unwrap().release().await.unwrap(); // creates the path
    record.take();
    let held = lock.acquire().await.unwrap();
    let holders = Holders::default();
    let tasks = holders.start("", &lock, 10, Duration::ZERO).await;
    settle().await;
    assert_eq!(record.take(), [vec![CREATE2, GET_CHILDREN2]], "one node for all");
    let token = held.token().unwrap();
    let node = held.node().to_owned();
    held.release().await.unwrap();
    finished(tasks).await;
    assert_eq!(record.take(), [[DELETE]], "a pass is no request");
    let order: Vec<String> = (0..10).map(|number| number.to_string()).collect();
    assert_eq!(holders.names(), order);
    assert_eq!(holders.passes(), (1..=10).collect::<Vec<_>>());
    for holder in holders.seen() {
        assert_eq!((&holder.node, holder.token.czxid()), (&node, token.czxid()));
        assert_eq!(holder.token.to_string(), format!("{token}:{}", holder.token.pass()));
    }
    assert_eq!(children(&server, PATH), [""; 0]);
}

/// The time counts from the grant of the ensemble, and not from the last pass.
#[tokio::test(start_paused = true)]
async fn lock_goes_to_the_ensemble_at_either_limit() {
    for (limits, hold_ms) in
        [(unlimited().max_passes(3), 1), (unlimited().max_time(Duration::from_millis(100)), 30)]
    {
        let (server, [client]) = started().await;
        let (lock, holders) = (limited(&client, limits), Holders::default());
        finished(holders.start("", &lock, 10, Duration::from_millis(hold_ms)).await).await;
        assert_eq!(holders.passes(), [0, 1, 2, 3, 0, 1, 2, 3, 0, 1], "{limits:?}");
        assert_eq!(children(&server, PATH), [""; 0]);
    }
}

/// The waiters have no node, and wait for the turn of a holder that has lost the lock.
#[tokio::test(start_paused = true)]
async fn local_waiters_fail_when_their_holders_session_ends() {
    let (server, [client]) = started().await;
    let lock = shared(&client);
    let held = lock.acquire().await.unwrap();
    let waiting = [attempt(&lock).await, attempt(&lock).await];
    assert!(server.expire(client.session_id()));
    for waiter in waiting {
        let error = waiter.await.unwrap().unwrap_err();
        assert!(matches!(error, LockError::Client(_)), "{error:?}");
    }
    assert!(!held.is_held(), "the holder keeps a lost guard");
    drop(held);
    lock.acquire().await.unwrap_err();
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
async fn two_processes_alternate_within_their_limits() {
    let (_server, [one, other]) = started().await;
    let limits = unlimited().max_passes(2);
    let (one, other) = (limited(&one, limits), limited(&other, limits));
    let holders = Holders::default();
    let hold = Duration::from_millis(1);
    let mut tasks = holders.start("a", &one, 6, hold).await;
    tasks.extend(holders.start("b", &other, 6, hold).await);
    finished(tasks).await;
    let order = ["a0", "a1", "a2", "b0", "b1", "b2", "a3", "a4", "a5", "b3", "b4", "b5"];
    assert_eq!(holders.names(), order);
    assert_eq!(holders.passes(), [0, 1, 2].repeat(4));
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
async fn timeouts_end_a_local_wait() {
    let (server, [client]) = started().await;
    let lock = shared(&client);
    let held = lock.acquire().await.unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(lock.acquire_timeout(Duration::ZERO).await.unwrap().is_none());
    assert!(lock.acquire_timeout(T).await.unwrap().is_none());
    let next = attempt(&lock).await;
    let late = running({
        let lock = lock.clone();
        async move { lock.acquire_timeout(T).await }
    })
    .await;
    held.release().await.unwrap();
    drop(next.await.unwrap().unwrap());
    late.await.unwrap().unwrap().expect("it is in time").release().await.unwrap();
    lock.try_acquire().await.unwrap().expect("it is free").release().await.unwrap();
    assert_eq!(children(&server, PATH), [""; 0]);
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
