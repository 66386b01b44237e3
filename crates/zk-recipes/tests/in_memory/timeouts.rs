//! An acquisition with a timeout returns in that time, in every state of the connection.

use std::fmt::Display;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use zk_recipes::session::{Client, CreateMode, ErrorCode, RetryOn, SessionEvent};
use zk_recipes::{
    LocalQueueLimits, Lock, LockError, MultiGuard, MultiLock, Mutex, Owner, RwLock, Semaphore,
    SemaphoreGuard, SemaphoreMutex, SharedCount,
};
use zk_testing::{Cut, Op, TestServer};

use crate::{Kind, T, children, cut_off, now, reconnect, settle, started};

/// Maximum delay of an acquisition beyond its timeout.
const LATE: Duration = Duration::from_millis(20);

const TIMEOUTS: [Duration; 4] =
    [Duration::ZERO, Duration::from_millis(1), Duration::from_millis(30), Duration::from_secs(2)];

/// Future that returns whether the lock was acquired, or the text of the error.
type Acquired = Pin<Box<dyn Future<Output = Result<bool, String>> + Send>>;

/// Kinds of acquisitions with a timeout. Each recipe has its own path.
const KINDS: [&str; 10] = [
    "mutex", "owned", "local", "reader", "writer", "single", "permit", "permits", "limited",
    "several",
];

/// Returns whether the lock was acquired, and releases it.
async fn told<G, E: Display>(
    asked: impl Future<Output = Result<Option<G>, E>>,
) -> Result<bool, String> {
    asked.await.map(|held| held.is_some()).map_err(|error| error.to_string())
}

fn acquire(kind: &'static str, client: &Client, timeout: Duration) -> Acquired {
    let client = client.clone();
    Box::pin(async move {
        let mutex = Mutex::new(&client, "/m").unwrap();
        let local = mutex.clone().with_local_queue(LocalQueueLimits::default());
        let rw = RwLock::new(&client, "/rw").unwrap();
        let single = SemaphoreMutex::new(&client, "/sm").unwrap();
        let semaphore = Semaphore::new(&client, "/s", 3).unwrap();
        let limit = SharedCount::new(&client, "/limit", 3).unwrap();
        let limited = Semaphore::with_shared_limit(&client, "/s", &limit).unwrap();
        match kind {
            "mutex" => told(mutex.acquire_timeout(timeout)).await,
            "owned" => told(mutex.with_owner(&Owner::new()).acquire_timeout(timeout)).await,
            "local" => told(local.acquire_timeout(timeout)).await,
            "reader" => told(rw.read().acquire_timeout(timeout)).await,
            "writer" => told(rw.write().acquire_timeout(timeout)).await,
            "single" => told(single.acquire_timeout(timeout)).await,
            "permit" => told(semaphore.acquire_timeout(timeout)).await,
            "permits" => told(semaphore.acquire_many_timeout(3, timeout)).await,
            "limited" => told(limited.acquire_many_timeout(3, timeout)).await,
            _ => told(several(&client).acquire_timeout(timeout)).await,
        }
    })
}

/// Holds the locks of all kinds.
async fn hold_all(client: &Client) -> (MultiGuard, Option<SemaphoreGuard>) {
    let locks = [Kind::Mutex, Kind::Writer, Kind::SemaphoreMutex];
    let locks = locks.map(|kind| kind.lock(client));
    let semaphore = Semaphore::new(client, "/s", 3).unwrap();
    let held = MultiLock::new(locks).acquire().await.unwrap();
    (held, semaphore.try_acquire_many(3).await.unwrap())
}

fn several(client: &Client) -> MultiLock {
    let locks: [Arc<dyn Lock>; 4] = [
        Arc::new(Mutex::new(client, "/first").unwrap()),
        Arc::new(SemaphoreMutex::new(client, "/sm").unwrap()),
        Arc::new(RwLock::new(client, "/rw").unwrap().read().clone()),
        Arc::new(Mutex::new(client, "/m").unwrap()),
    ];
    MultiLock::new(locks)
}

/// States of the lock, the connection or the session during an acquisition.
const STATES: [&str; 10] = [
    "free",
    "held",
    "not connected",
    // The server accepts connections, and does not answer the handshake.
    "silent handshake",
    "hanging",
    // The server answers no delete, no list and no read of data. A release is not answered either.
    "hanging after create",
    "throttled",
    // The session is being closed, and the server does not answer.
    "closing",
    "closed",
    "expired",
];

async fn bring_about(state: &str, server: &TestServer, client: &Client) {
    let cut = || server.connection_of(client.session_id()).cut(Cut::Rst);
    match state {
        "not connected" => {
            server.refuse_connects(0);
            cut();
        }
        "silent handshake" => {
            cut();
            server.stall(0);
        }
        "hanging" => server.stall(0),
        "hanging after create" => {
            for op in [Op::Delete, Op::GetChildren2, Op::GetData] {
                drop(server.on(op).always().never_answer());
            }
        }
        "throttled" => {
            drop(server.on_any_request().always().answer(ErrorCode::THROTTLED_OP));
        }
        "closing" => {
            server.stall(0);
            drop(client.close());
        }
        "closed" => client.close().await,
        "expired" => assert!(server.expire(client.session_id())),
        _ => {}
    }
    settle().await;
}

/// A single attempt waits for the replies of a server, for at most a session timeout for each lock.
#[tokio::test(start_paused = true)]
async fn acquire_timeout_returns_in_time_in_every_state() {
    for state in STATES {
        for kind in KINDS {
            for timeout in TIMEOUTS {
                let case = format!("{state}, {kind}, {timeout:?}");
                let (server, [one, other]) = started().await;
                for kind in KINDS {
                    assert_eq!(acquire(kind, &one, T).await, Ok(true), "makes the paths");
                }
                settle().await;
                let held = if state == "held" { Some(hold_all(&other).await) } else { None };
                bring_about(state, &server, &one).await;

                let start = now();
                let acquired = acquire(kind, &one, timeout).await;
                let took = start.elapsed();
                let limit = match (timeout.is_zero(), state) {
                    (true, "hanging" | "hanging after create" | "throttled") => {
                        T * if kind == "several" { 4 } else { 1 }
                    }
                    (true, "not connected") => Duration::ZERO,
                    _ => timeout + LATE,
                };
                assert!(took <= limit, "{case}: {took:?}, {acquired:?}");
                match state {
                    "free" => assert_eq!(acquired, Ok(true), "{case}"),
                    "closing" | "closed" | "expired" => {
                        let error = acquired.expect_err(&case);
                        assert!(error.contains("session") || error.contains("client"), "{error}");
                    }
                    _ => assert_eq!(acquired, Ok(false), "{case}"),
                }
                drop(held);
            }
        }
    }
}

/// One of the locks fails, and the locks before it cannot be released. A single attempt does not wait for
/// the releases.
#[tokio::test(start_paused = true)]
async fn multi_lock_fails_in_time_when_no_release_is_answered() {
    for timeout in TIMEOUTS {
        let (server, [client]) = started().await;
        client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
        let mutex = |path: &str| -> Arc<dyn Lock> { Arc::new(Mutex::new(&client, path).unwrap()) };
        let locks = MultiLock::new(["/a", "/b", "/e"].map(mutex));
        let unanswered = server.on(Op::Delete).always().never_answer();
        let start = now();
        let error = locks.acquire_timeout(timeout).await.unwrap_err();
        assert!(start.elapsed() <= timeout + LATE, "{timeout:?}: {:?}", start.elapsed());
        assert_eq!(error.failures()[0].path, "/e", "{error}");
        unanswered.cancel();
        // reason: virtual time, in which the releases are repeated on another connection
        tokio::time::sleep(2 * T).await;
        let left = ["/a", "/b"].map(|path| children(&server, path).len());
        assert_eq!(left, [0, 0], "{timeout:?}");
    }
}

/// The connection is lost before the request is sent, or together with the answer.
#[tokio::test(start_paused = true)]
async fn try_acquire_does_not_wait_for_a_connection() {
    let (server, [client]) = started().await;
    let locks = Kind::ALL.map(|kind| kind.lock(&client));
    for lock in &locks {
        drop(lock.acquire_boxed().await.unwrap());
    }
    settle().await;
    for (number, is_cut_before) in (0..=locks.len()).flat_map(|it| [(it, true), (it, false)]) {
        let lost = match is_cut_before {
            true => {
                cut_off(&server, &client).await;
                None
            }
            false => {
                server.refuse_connects(0);
                Some(server.on(Op::Create2).apply_then_drop_reply())
            }
        };
        let start = now();
        let (path, error) = match locks.get(number) {
            Some(lock) => (lock.path(), lock.try_acquire_boxed().await.unwrap_err()),
            None => {
                let all = MultiLock::new(locks.clone());
                let error = all.try_acquire().await.unwrap_err();
                (locks[0].path(), error.failures()[0].error.clone())
            }
        };
        assert_eq!(start.elapsed(), Duration::ZERO);
        let expected = LockError::NotConnected { path: path.to_owned() };
        assert_eq!(error, expected, "cut before: {is_cut_before}");
        assert_eq!(error.retry_on(), RetryOn::SameSession, "when there is a connection");
        assert!(error.to_string().contains("connection"), "{error}");
        reconnect(&server).await;
        assert!(lost.is_none_or(|lost| lost.count() == 1) && client.is_connected());
        for folder in Kind::ALL.iter().flat_map(|kind| kind.folders()) {
            assert_eq!(children(&server, folder), [""; 0], "cut before: {is_cut_before}, {path}");
        }
    }
    // Re-acquiring a lock that its owner holds needs no connection.
    let owned = Mutex::new(&client, "/m").unwrap().with_owner(&Owner::new());
    let _guard = owned.acquire().await.unwrap();
    cut_off(&server, &client).await;
    assert!(owned.try_acquire().await.unwrap().is_some());
}

/// The attempt waits for an answer, or for the time to renew the lease.
#[tokio::test(start_paused = true)]
async fn try_acquire_ends_with_the_connection_or_the_session() {
    let steps = [5, 4, 3].into_iter().flat_map(|part| (0..32).map(move |at| (T / part, at)));
    let mut cut_short = 0;
    for ((delay, sixteenths), is_closed) in steps.flat_map(|step| [(step, false), (step, true)]) {
        let case = format!("{delay:?} {sixteenths}, closed: {is_closed}");
        let (server, [client]) = started().await;
        let lock = Mutex::new(&client, "/m").unwrap();
        let mut events = client.events();
        let slow = server.on_any_request().always().session(client.session_id());
        drop(slow.delay(delay));
        let asked = tokio::spawn(async move { (lock.try_acquire().await.map(drop), now()) });
        // reason: virtual time, up to some step of the attempt
        tokio::time::sleep(T * sixteenths / 16).await;
        if is_closed {
            client.close().await;
            let asked = tokio::time::timeout(Duration::ZERO, asked).await.expect(&case).unwrap();
            let retry_on = asked.0.err().map(|error| error.retry_on());
            assert!(retry_on.is_none_or(|it| it == RetryOn::NewSession), "{case}: {retry_on:?}");
            continue;
        }
        server.refuse_connects(0);
        server.connection_of(client.session_id()).cut(Cut::Rst);
        // The loss of the connection is reported after the answers that were already late.
        while !matches!(events.next().await, Some(SessionEvent::Suspended { .. })) {}
        let (asked, at) = asked.await.unwrap();
        let is_cut_short = matches!(asked, Err(LockError::NotConnected { .. })) && at >= now();
        assert!(at <= now(), "{case}");
        cut_short += usize::from(is_cut_short);
    }
    assert!(cut_short > 8, "{cut_short}");
}
