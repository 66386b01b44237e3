//! Test of a service that uses a lock, from outside. The guide shows the same text.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "written as users write tests")]

// The guide shows what follows.
use std::time::Duration;

use tokio::sync::mpsc;
use zk_recipes::session::{Client, Config};
use zk_recipes::{LockError, Mutex};
use zk_testing::TestServer;

/// The service: writes invoices while it holds the lock, each with the fencing token.
async fn bill(client: Client, invoices: mpsc::UnboundedSender<i64>) -> Result<(), LockError> {
    let lock = Mutex::new(&client, "/locks/billing").expect("a path");
    let guard = lock.acquire().await?;
    let mut due = tokio::time::interval(Duration::from_millis(500));
    loop {
        tokio::select! {
            reason = guard.lost() => return Err(LockError::Lost(reason)),
            _ = due.tick() => {
                let _ = invoices.send(guard.token()?.czxid());
            }
        }
    }
}

#[tokio::test(start_paused = true)] // virtual time: no real waiting
async fn billing_stops_when_its_session_expires() {
    let server = TestServer::in_memory();
    let (invoices, mut written) = mpsc::unbounded_channel();
    let client = connect(&server).await;
    let session_id = client.session_id();
    let first = tokio::spawn(bill(client, invoices.clone()));
    let token = written.recv().await.unwrap(); // the first service is working
    let _standby = tokio::spawn(bill(connect(&server).await, invoices));

    server.expire(session_id);

    let ended = first.await.unwrap();
    assert!(matches!(ended, Err(LockError::Lost(_))), "{ended:?}");
    // After the standby's first invoice, every invoice is the standby's.
    while written.recv().await.unwrap() == token {}
    for _ in 0..100 {
        assert!(written.recv().await.unwrap() > token);
    }
}

/// Connects a client without a socket, which a paused clock requires.
async fn connect(server: &TestServer) -> Client {
    Config::new("server-0:1").unwrap().connector(server.clone()).connect().await.unwrap()
}
// Up to here.

#[test]
fn guide_shows_this_file() {
    let guide = include_str!("../../../docs/testing-your-service.md");
    let this = include_str!("your_own_service.rs");
    let shown = this.split_once("// The guide shows what follows.\n").unwrap().1;
    let shown = shown.split_once("// Up to here.\n").unwrap().0;
    assert!(guide.contains(&format!("```rust\n{shown}```")), "copy it there");
}
