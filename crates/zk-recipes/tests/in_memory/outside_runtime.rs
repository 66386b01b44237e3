//! Locks that are used on threads outside any runtime, while the driver of the client runs on a
//! runtime elsewhere.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use zk_recipes::{Guard, LockError, LossReason, Mutex};
use zk_testing::TestServer;

use crate::{children, client};

/// Runs `act` on a thread of its own and waits there for its end.
async fn on_thread<R: Send + 'static>(act: impl FnOnce() -> R + Send + 'static) -> R {
    let acting = thread::spawn(move || {
        assert!(tokio::runtime::Handle::try_current().is_err(), "there is no runtime here");
        act()
    });
    // Not on a worker thread, as the driver may need it.
    tokio::task::spawn_blocking(|| acting.join()).await.unwrap().expect("the thread panicked")
}

/// Unparks the thread that waits for a future.
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

const DELETED: LockError = LockError::Lost(LossReason::NodeDeleted);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guard_tells_its_state_on_a_thread_outside_the_runtime() {
    let server = TestServer::in_memory();
    let (one, other) = (client(&server, 1).await, client(&server, 2).await);
    let guard = Mutex::new(&one, "/lock").unwrap().acquire().await.unwrap();
    let token = guard.token().unwrap();
    let guard = on_thread(move || {
        assert!(guard.is_held());
        assert_eq!(guard.token(), Ok(token));
        assert!(!guard.remaining().is_zero() && guard.last_proven().is_some());
        guard
    })
    .await;
    let lost = guard.lost();
    other.delete(guard.node(), None).await.unwrap();
    assert_eq!(in_time(lost).await, LossReason::NodeDeleted);
    on_thread(move || {
        assert!(!guard.is_held());
        assert_eq!(guard.token(), Err(DELETED));
        assert!(guard.remaining().is_zero() && guard.last_proven().is_none());
        drop(guard);
    })
    .await;
}

/// Uncontended, and after a wait for another client.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guard_acquired_outside_the_runtime_learns_of_deletion() {
    for waits in [false, true] {
        let server = TestServer::in_memory();
        let (one, other) = (client(&server, 1).await, client(&server, 2).await);
        let lock = Mutex::new(&one, "/lock").unwrap();
        let in_the_way = match waits {
            true => Some(Mutex::new(&other, "/lock").unwrap().acquire().await.unwrap()),
            false => None,
        };
        let acquiring = tokio::spawn(on_thread(move || block_on(lock.acquire()).unwrap()));
        if let Some(in_the_way) = in_the_way {
            let is_queued = async {
                while children(&server, "/lock").len() < 2 {
                    tokio::task::yield_now().await;
                }
            };
            in_time(is_queued).await;
            in_the_way.release().await.unwrap();
        }
        let guard: Guard = in_time(acquiring).await.unwrap();
        assert!(guard.is_held(), "waits: {waits}");
        // By the guard's own watch: nobody calls the guard until its loss is known.
        let lost = guard.lost();
        other.delete(guard.node(), None).await.unwrap();
        assert_eq!(in_time(lost).await, LossReason::NodeDeleted, "waits: {waits}");
        let released = on_thread(move || {
            assert_eq!(guard.token(), Err(DELETED), "waits: {waits}");
            block_on(guard.release())
        });
        assert_eq!(in_time(released).await, Err(DELETED), "waits: {waits}");
    }
}
