//! Output of a program: errors that `main` returns, and values in logs.

use std::error::Error;
use std::sync::Arc;

use zk_recipes::session::{Client, CreateMode};
use zk_recipes::{Lock, LockError, LossReason, MultiLock, Mutex, RwLock, Semaphore, SharedCount};

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
