//! Output of a program: errors that `main` returns, and values in logs. Locks, guards and their futures move
//! between threads, which the compiler checks.

use std::error::Error;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use zk_recipes::session::{Client, CreateMode, SessionManager, WatchStream};
use zk_recipes::{
    Candidacy, Candidate, Election, Guard, HeldLock, Leadership, Lock, LockError, LockGuard,
    LossReason, MultiGuard, MultiLock, Mutex, Owner, RwLock, Semaphore, SemaphoreGuard,
    SemaphoreMutex, SharedCount, SharedValue, Ticket, WriteGuard, run_whenever_held,
};

use crate::{client, started};

/// Formats an error as a `main` that returns a `Result` prints it.
fn printed<T>(result: Result<T, impl Into<Box<dyn Error>>>) -> String {
    let error: Box<dyn Error> = result.err().expect("it fails").into();
    format!("Error: {error:?}")
}

#[tokio::test(start_paused = true)]
async fn path_errors_name_the_path_in_one_line() {
    let (_server, [client]) = started().await;
    let line = r#"Error: path "locks/a" does not start with '/' (at byte 0)"#;
    assert_eq!(printed(Mutex::new(&client, "locks/a")), line);
    assert_eq!(printed(Mutex::new(&client, "locks/a").map_err(LockError::from)), line);
    assert_eq!(printed(RwLock::new(&client, "locks/a")), line);
    assert_eq!(printed(Semaphore::new(&client, "locks/a", 1)), line);
    assert_eq!(printed(SharedCount::new(&client, "locks/a", 1)), line);
}

async fn program(client: &Client) -> Result<(), LockError> {
    let lock = Mutex::new(client, "/locks/a")?;
    let guard = lock.acquire().await?;
    client.close().await;
    guard.release().await
}

#[tokio::test(start_paused = true)]
async fn lock_errors_print_as_one_line() {
    let (server, [one]) = started().await;
    let line = printed(program(&one).await);
    assert_eq!(line, "Error: the lock was lost: the client was closed");

    let other = client(&server, 2).await;
    let line = printed(other.create("/a/b", b"", CreateMode::Ephemeral).await);
    assert_eq!(line, "Error: create /a/b: NoNode (-101)");
    let locks = MultiLock::new([&one, &other].map(|client| {
        let lock = Mutex::new(client, "/l").expect("a path");
        Arc::new(lock) as Arc<dyn Lock>
    }));
    let line = printed(locks.acquire().await.map(drop));
    assert!(line.starts_with("Error: lock /l: create /l"), "{line}");
    assert!(line.contains("the client was closed") && !line.contains('{'), "{line}");
}

/// A reporter of errors prints the chain of sources.
#[tokio::test(start_paused = true)]
async fn lock_errors_have_the_failed_request_as_their_source() {
    let (_server, [client]) = started().await;
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    let lock: Arc<dyn Lock> = Arc::new(Mutex::new(&client, "/e").unwrap());
    let failed = MultiLock::new([lock]).acquire().await.unwrap_err();
    let failure: &dyn Error = &failed.failures()[0];
    let error = failure.source().unwrap().downcast_ref::<LockError>().unwrap();
    assert_eq!(failed.source().unwrap().downcast_ref(), Some(error));
    let LockError::Client(request) = error else { panic!("{error}") };
    assert_eq!(error.source().unwrap().downcast_ref(), Some(request));
    assert!(LockError::Lost(LossReason::NodeDeleted).source().is_none());
}

fn is_send_and_sync<T: Send + Sync>() {}
fn is_send<T: Send>(_: T) {}

#[test]
fn locks_and_guards_are_send_and_sync() {
    is_send_and_sync::<(Client, SessionManager, WatchStream)>();
    is_send_and_sync::<(Mutex, RwLock, Semaphore, SemaphoreMutex, MultiLock, Box<dyn Lock>)>();
    is_send_and_sync::<(Guard, WriteGuard, SemaphoreGuard, MultiGuard, Box<dyn LockGuard>)>();
    is_send_and_sync::<(Owner, Ticket, SharedValue, SharedCount, LockError)>();
    is_send_and_sync::<(Election, Candidacy, Candidate, Leadership, HeldLock)>();
}

/// The futures are created and never polled.
#[test]
fn futures_of_locks_and_elections_are_send() {
    fn locks(lock: &Mutex, permits: &Semaphore, guard: Guard, manager: &SessionManager) {
        is_send(lock.acquire());
        is_send(lock.acquire_timeout(Duration::ZERO));
        is_send(permits.acquire_many(2));
        is_send(guard.check());
        is_send(guard.lost());
        is_send(guard.release());
        is_send(run_whenever_held(
            manager,
            |client| Mutex::new(client, "/lock"),
            |_| std::future::ready(Ok::<(), LockError>(())),
            |_| {},
        ));
    }
    fn elections(election: &Election, candidacy: Candidacy) {
        let work = |_| std::future::ready(Ok::<_, LockError>(ControlFlow::Break(())));
        is_send(election.lead(work, |_| {}));
        is_send(election.candidates());
        is_send(election.leader());
        is_send(candidacy.wait_to_lead());
        is_send(candidacy.resign());
    }
    let _: fn(&Mutex, &Semaphore, Guard, &SessionManager) = locks;
    let _: fn(&Election, Candidacy) = elections;
}
