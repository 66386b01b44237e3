//! Output of a program that returns its errors from `main`.

use std::error::Error;

use zk_recipes::session::{Client, CreateMode};
use zk_recipes::{LockError, LossReason, MultiLock, Mutex, RwLock, Semaphore, SharedCount};
use zk_testing::{TestServer, Zxid};

use crate::client;

/// Formats an error as a `main` that returns a `Result` prints it.
fn printed<T>(result: Result<T, impl Into<Box<dyn Error>>>) -> String {
    let error: Box<dyn Error> = result.err().expect("it fails").into();
    format!("Error: {error:?}")
}

#[tokio::test(start_paused = true)]
async fn path_errors_name_the_path_in_one_line() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
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
    let server = TestServer::in_memory();
    let one = client(&server, 1).await;
    let line = printed(program(&one).await);
    assert_eq!(line, "Error: the lock was lost: the client was closed");

    let other = client(&server, 2).await;
    let line = printed(other.create("/a/b", b"", CreateMode::Ephemeral).await);
    assert_eq!(line, "Error: create /a/b: NoNode (-101)");
    let locks = MultiLock::new([&one, &other].map(|client| {
        let lock = Mutex::new(client, "/l").expect("a path");
        std::sync::Arc::new(lock) as std::sync::Arc<dyn zk_recipes::Lock>
    }));
    let line = printed(locks.acquire().await.map(drop));
    assert!(line.starts_with("Error: lock /l: create /l"), "{line}");
    assert!(line.contains("the client was closed") && !line.contains('{'), "{line}");
}

#[tokio::test(start_paused = true)]
async fn participants_print_ids_in_hexadecimal() {
    let server = TestServer::in_memory();
    let client = client(&server, 1).await;
    let lock = Mutex::new(&client, "/l").unwrap();
    let guard = lock.acquire().await.unwrap();
    let participants = format!("{:?}", lock.participants().await.unwrap());
    let czxid = Zxid(guard.token().unwrap().get());
    let session = format!("session_id: {:#x}, czxid: {:#x}", client.session_id(), czxid);
    assert!(participants.contains(&session), "{participants}");
    assert_ne!(LossReason::NodeDeleted.to_string(), "");
}
