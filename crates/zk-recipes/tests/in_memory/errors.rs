//! Output of a program: errors that `main` returns, and values in logs.

use std::error::Error;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use zk_recipes::session::{Client, CreateMode, SessionManager};
use zk_recipes::{
    Election, LocalQueueLimits, Lock, LockError, LossReason, MultiLock, Mutex, Owner, RwLock,
    Semaphore, SharedCount,
};
use zk_testing::Zxid;

use crate::{client, config, started};

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

#[tokio::test(start_paused = true)]
async fn debug_output_names_nodes_and_states() {
    let (server, [client]) = started().await;
    let lock = Mutex::new(&client, "/l").unwrap();
    let guard = lock.clone().with_owner(&Owner::new()).acquire().await.unwrap();
    let ticket = lock.enqueue().await.unwrap();
    let local = Mutex::new(&client, "/q").unwrap().with_local_queue(LocalQueueLimits::default());
    let passed = local.acquire().await.unwrap();
    let mut waits = pin!(local.acquire());
    assert!(waits.as_mut().now_or_never().is_none());
    let sessions = SessionManager::connect(config(2).connector(server.clone())).await.unwrap();
    let candidacy = Election::new(&sessions, "/e", "c1").unwrap().stand();
    candidacy.wait_to_lead().await.unwrap();
    for (output, part) in [
        (format!("{guard:?}"), "Guard { hold: Hold {"),
        (format!("{ticket:?}"), &*format!("Ticket {{ node: Some(\"{}\")", ticket.node().unwrap())),
        (format!("{ticket:?}"), "ahead: 1"),
        (format!("{local:?}"), "TurnQueue { waiters: 1"),
        (format!("{passed:?}"), "turn: Turn {"),
        (format!("{candidacy:?}"), "Candidacy { leadership: Leading {"),
    ] {
        assert!(output.contains(part), "{part} in {output}");
    }
}

#[tokio::test(start_paused = true)]
async fn participants_print_ids_in_hexadecimal() {
    let (_server, [client]) = started().await;
    let lock = Mutex::new(&client, "/l").unwrap();
    let guard = lock.acquire().await.unwrap();
    let participants = format!("{:?}", lock.participants().await.unwrap());
    let czxid = Zxid(guard.token().unwrap().czxid());
    let session = format!("session_id: {:#x}, czxid: {:#x}", client.session_id(), czxid);
    assert!(participants.contains(&session), "{participants}");
    assert_ne!(LossReason::NodeDeleted.to_string(), "");
}
