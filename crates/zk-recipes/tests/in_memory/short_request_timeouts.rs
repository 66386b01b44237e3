//! Handles whose requests time out before they can be answered.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use zk_recipes::session::{Client, ErrorKind, RetryOn};
use zk_recipes::{LockError, LossReason, Mutex, RwLock, Semaphore, SharedCount, revoke};
use zk_testing::{Cut, Op};

use crate::{T, now, settle, started};

/// Request timeout of the handle.
const SHORT: Duration = Duration::from_millis(5);

/// Delay of each answer.
const ROUND_TRIP: Duration = Duration::from_millis(20);

/// Maximum number of frames that one operation may send, including those of the lease.
///
/// An operation makes sixteen attempts at each of its concurrent requests, and then cleans up.
const FRAMES_MAX: u64 = 120;

type Ends = Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>>;

/// Prepares an operation while the server is fast. Then expects it to fail after a bounded number
/// of attempts on a slow server.
async fn expect_bounded<P>(name: &str, prepare: fn(Client) -> P)
where
    P: Future<Output = (Ends,)>,
{
    let (server, [client]) = started().await;
    let lock = Mutex::new(&client, "/m").unwrap();
    drop(lock.acquire().await.unwrap());
    drop(Semaphore::new(&client, "/s", 2).unwrap().acquire().await.unwrap());
    settle().await;
    let (operation,) = prepare(client.with_timeout(SHORT)).await;
    drop(server.on_any_request().always().delay(ROUND_TRIP));
    let (start, before) = (now(), client.stats().frames_sent);
    let ended = tokio::time::timeout(60 * T, operation).await;
    let frames = client.stats().frames_sent - before;
    let took = start.elapsed();
    let Ok(Err(LockError::Client(error))) = ended else { panic!("{name}: {ended:?}, {frames}") };
    assert_eq!(*error.kind(), ErrorKind::TimedOut, "{name}");
    assert!(took < 3 * T, "{name}: {took:?}");
    assert!(frames <= FRAMES_MAX, "{name}: {frames} frames in {took:?}");
}

macro_rules! bounded {
    ($($name:ident: |$client:ident| $prepare:block)*) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $name() {
                let prepare = |$client: Client| async move {
                    let operation: Ends = $prepare;
                    (operation,)
                };
                expect_bounded(stringify!($name), prepare).await;
            }
        )*
    };
}

bounded! {
    mutex_acquire_fails_after_bounded_tries: |client| {
        Box::pin(async move { Mutex::new(&client, "/m").unwrap().acquire().await.map(drop) })
    }
    mutex_on_a_new_path_fails_after_bounded_tries: |client| {
        Box::pin(async move { Mutex::new(&client, "/new/m").unwrap().acquire().await.map(drop) })
    }
    waiter_fails_after_bounded_tries: |client| {
        let slow = Mutex::new(&client, "/m").unwrap();
        let held = Mutex::new(&client.with_timeout(T), "/m").unwrap().acquire().await.unwrap();
        let mut waiting = slow.enqueue().await.unwrap();
        Box::pin(async move {
            let looked = waiting.refresh().await.map(drop);
            drop(held);
            looked
        })
    }
    downgrade_fails_after_bounded_tries: |client| {
        let writer = RwLock::new(&client, "/rw").unwrap().write().acquire().await.unwrap();
        Box::pin(async move { writer.downgrade().await.map(drop) })
    }
    permits_fail_after_bounded_tries: |client| {
        Box::pin(async move {
            Semaphore::new(&client, "/s", 2).unwrap().acquire_many(2).await.map(drop)
        })
    }
    shared_limit_fails_after_bounded_tries: |client| {
        let limit = SharedCount::new(&client, "/limit", 2).unwrap();
        Box::pin(async move {
            let semaphore = Semaphore::with_shared_limit(&client, "/s", &limit).unwrap();
            semaphore.acquire().await.map(drop)
        })
    }
    participants_fail_after_bounded_tries: |client| {
        Box::pin(async move { Mutex::new(&client, "/m").unwrap().participants().await.map(drop) })
    }
    check_fails_after_bounded_tries: |client| {
        let guard = Mutex::new(&client, "/m").unwrap().acquire().await.unwrap();
        Box::pin(async move { guard.check().await.map(drop) })
    }
    release_fails_after_bounded_tries: |client| {
        let guard = Mutex::new(&client, "/m").unwrap().acquire().await.unwrap();
        Box::pin(async move { guard.release().await })
    }
    revocation_of_a_guard_fails_after_bounded_tries: |client| {
        let guard = Mutex::new(&client, "/m").unwrap().acquire().await.unwrap();
        Box::pin(async move { guard.revocation_requested().await })
    }
    revoke_fails_after_bounded_tries: |client| {
        Box::pin(async move { revoke(&client, "/m").await.map(drop) })
    }
    count_fails_after_bounded_tries: |client| {
        let count = SharedCount::new(&client, "/count", 2).unwrap();
        let before = count.get().await.unwrap();
        Box::pin(async move { count.changed(&before).await.map(drop) })
    }
    new_count_fails_after_bounded_tries: |client| {
        Box::pin(async move {
            SharedCount::new(&client, "/a/new/count", 2).unwrap().get().await.map(drop)
        })
    }
}

/// A failed acquisition leaves nothing behind, whatever has become of its last request.
#[tokio::test(start_paused = true)]
async fn acquisition_may_be_repeated_after_an_unanswered_write() {
    let mutex = |client: &Client| Mutex::new(client, "/new").unwrap();
    let permits = |client: &Client| Semaphore::new(client, "/new", 1).unwrap();
    for name in ["mutex", "attempt", "ticket", "permit", "free permit"] {
        let (server, [client]) = started().await;
        server.on(Op::CreateContainer).always().delay(ROUND_TRIP);
        let client = client.with_timeout(SHORT);
        let failed = match name {
            "mutex" => mutex(&client).acquire().await.map(drop),
            "attempt" => mutex(&client).try_acquire().await.map(drop),
            "ticket" => mutex(&client).enqueue().await.map(drop),
            "permit" => permits(&client).acquire().await.map(drop),
            _ => permits(&client).try_acquire().await.map(drop),
        };
        let error = failed.unwrap_err();
        let LockError::Client(failed) = &error else { panic!("{name}: {error}") };
        assert_eq!(*failed.kind(), ErrorKind::TimedOut, "{name}");
        assert_eq!(error.retry_on(), RetryOn::SameSession, "{name}: {error}");
    }
}

/// A guard of such a handle still sees the deletion of its node.
#[tokio::test(start_paused = true)]
async fn guard_with_a_short_request_timeout_sees_its_deletion() {
    let (server, [one, other]) = started().await;
    let guard = Mutex::new(&one.with_timeout(SHORT), "/m").unwrap().acquire().await.unwrap();
    drop(server.on_any_request().always().delay(ROUND_TRIP));
    let before = one.stats().frames_sent;
    // reason: virtual time, in which the guard sets its watch and the lease is kept renewed
    tokio::time::sleep(T).await;
    let frames = one.stats().frames_sent - before;
    assert!(frames < 60, "{frames} frames, for the lease and one watch");
    other.delete(guard.node(), None).await.unwrap();
    assert_eq!(guard.lost().await, LossReason::NodeDeleted);
}

/// The connection is lost or hangs for longer than sixteen requests may take.
#[tokio::test(start_paused = true)]
async fn short_request_timeout_waits_out_a_disconnect_or_stall() {
    for hangs in [false, true] {
        let (server, [client]) = started().await;
        match hangs {
            true => server.stall(0),
            false => {
                server.refuse_connects(0);
                server.connection_of(client.session_id()).cut(Cut::Rst);
            }
        }
        let waiting = tokio::spawn({
            let lock = Mutex::new(&client.with_timeout(SHORT), "/m").unwrap();
            async move { lock.acquire().await }
        });
        // reason: virtual time of the fault
        tokio::time::sleep(T / 2).await;
        assert!(!waiting.is_finished(), "hangs: {hangs}");
        let sent = client.stats().frames_sent;
        assert!(sent < 60, "hangs: {hangs}: {sent} frames");
        server.resume(0);
        server.accept_connects(0);
        waiting.await.unwrap().expect("the trouble is over").release().await.unwrap();
    }
}
