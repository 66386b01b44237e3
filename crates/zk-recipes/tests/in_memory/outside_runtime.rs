//! Locks used on threads outside any runtime.
//!
//! The driver of the client runs on a runtime elsewhere.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zk_recipes::session::{ErrorCode, SessionManager};
use zk_recipes::{
    LocalQueueLimits, Lock, LockError, LossReason, MultiLock, Mutex, Semaphore, run_whenever_held,
};
use zk_testing::{Op, TestServer};

use crate::{T, child, children, client, config, settle, started};

/// Runs `act` on a new thread, and waits until it returns.
async fn on_thread<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> R {
    let acting = thread::spawn(move || {
        assert!(tokio::runtime::Handle::try_current().is_err(), "there is no runtime here");
        act()
    });
    // The wait does not block a worker thread, because the driver may need it.
    tokio::task::spawn_blocking(|| acting.join()).await.unwrap().expect("the thread panicked")
}

/// Waker that unparks the thread that waits for a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future on this thread until it is done, as `futures::executor::block_on` does.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

/// Fails a test that hangs.
async fn in_time<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it hangs")
}

/// A timeout that no test reaches.
const LONG: Duration = Duration::from_secs(600);

const DELETED: LockError = LockError::Lost(LossReason::NodeDeleted);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_runs_outside_the_runtime_after_an_expiry_in_the_queue() {
    let server = TestServer::in_memory();
    let other = client(&server, 2).await;
    let held = Mutex::new(&other, "/lock").unwrap().acquire().await.unwrap();
    let sessions = SessionManager::connect(config(1).connector(server.clone())).await.unwrap();
    let first = sessions.client().session_id();
    let working = tokio::spawn(on_thread(move || {
        block_on(run_whenever_held(
            &sessions,
            |client| Mutex::new(client, "/lock"),
            async |held| Ok::<_, LockError>(held.client().session_id()),
            |_| {},
        ))
    }));
    while children(&server, "/lock").len() < 2 {
        tokio::task::yield_now().await;
    }
    server.expire(first);
    held.release().await.unwrap();
    assert_ne!(in_time(working).await.unwrap().unwrap(), first);
}

/// Every timer runs on the runtime of the session's driver.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_work_outside_the_runtime() {
    let (server, [one, other]) = started().await;
    let lock = Mutex::new(&one, "/lock").unwrap();
    let timeout = Duration::from_millis(20);

    // Another client keeps the lock, so only the timer ends the wait.
    let held = Mutex::new(&other, "/lock").unwrap().acquire().await.unwrap();
    let acquiring = on_thread({
        let lock = lock.clone();
        move || {
            let several: [Arc<dyn Lock>; 1] = [Arc::new(lock.clone())];
            let several = block_on(MultiLock::new(several).acquire_timeout(timeout));
            let zero = block_on(lock.acquire_timeout(Duration::ZERO)).unwrap();
            let permit = Semaphore::new(&one, "/s", 1).unwrap();
            let permit = block_on(permit.acquire_timeout(LONG)).unwrap();
            let tried = block_on(lock.acquire_timeout(timeout)).unwrap();
            (several.unwrap().is_none(), zero.is_none(), permit.is_some(), tried.is_none())
        }
    });
    assert_eq!(in_time(acquiring).await, (true, true, true, true));
    held.release().await.unwrap();

    // The server throttles the next two creates.
    drop(server.on(Op::Create2).times(2).answer(ErrorCode::THROTTLED_OP));
    let guard = in_time(on_thread(move || block_on(lock.acquire()))).await.unwrap();
    let waiting = tokio::spawn(on_thread(move || {
        let lost = block_on(guard.lost());
        (lost, block_on(guard.run_while_held(std::future::pending::<()>())))
    }));
    while children(&server, "/lock").is_empty() {
        tokio::task::yield_now().await;
    }
    other.delete(&child(&server, "/lock", 0), None).await.unwrap();
    let (lost, ran) = in_time(waiting).await.unwrap();
    assert_eq!((lost, ran), (LossReason::NodeDeleted, Err(DELETED)));
}

/// The runtime of the driver shuts down while threads outside wait on it.
#[test]
fn waits_outside_the_runtime_fail_when_it_shuts_down() {
    let runtime = Runtime::new().unwrap();
    let (server, one, other) = runtime.block_on(async {
        let (server, [one, other]) = started().await;
        (server, one, other)
    });
    let lock = Mutex::new(&one, "/lock").unwrap();
    let guard = runtime.block_on(lock.acquire()).unwrap();
    let held = runtime.block_on(Mutex::new(&other, "/held").unwrap().acquire()).unwrap();
    let (told, lost) = std::sync::mpsc::channel();
    thread::spawn({
        let told = told.clone();
        move || told.send(block_on(guard.lost()).to_string())
    });
    thread::spawn(move || {
        let lock = Mutex::new(&one, "/held").unwrap();
        let acquired = block_on(lock.acquire_timeout(LONG));
        told.send(acquired.unwrap_err().to_string())
    });
    while children(&server, "/held").len() < 2 {
        thread::yield_now();
    }
    drop(runtime);
    for _ in 0..2 {
        let ended = lost.recv_timeout(Duration::from_secs(30)).expect("it hangs, or panicked");
        assert!(ended.contains("closed"), "{ended}");
    }
    drop(held);
}

/// Lets a future wait on another runtime, and drops it.
async fn wait_on<F: Future>(runtime: &Runtime, future: F) {
    let mut future = pin!(future);
    let polled = poll_fn(|cx| {
        let _there = runtime.enter();
        future.as_mut().poll(cx)
    });
    assert!(tokio::time::timeout(T / 20, polled).await.is_err(), "the lock is held");
}

#[tokio::test(start_paused = true)]
async fn waiter_moves_to_another_runtime_when_its_own_ends() {
    let (server, [one, other]) = started().await;
    let lock = Mutex::new(&one, "/lock").unwrap();
    let queue = lock.clone().with_local_queue(LocalQueueLimits::default());
    for of_a_queue in [true, false] {
        let held = Mutex::new(&other, "/lock").unwrap().acquire().await.unwrap();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let mut ticket = None;
        if of_a_queue {
            wait_on(&runtime, queue.acquire()).await;
        } else {
            let ticket = ticket.insert(lock.enqueue().await.unwrap());
            wait_on(&runtime, ticket.position_changed()).await;
        }
        runtime.shutdown_background();
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move {
                match ticket {
                    Some(ticket) => ticket.acquire().await,
                    None => queue.acquire().await,
                }
            }
        });
        settle().await;
        assert_eq!(children(&server, "/lock").len(), 2, "it keeps its place");
        held.release().await.unwrap();
        waiting.await.unwrap().unwrap().release().await.unwrap();
    }
}
