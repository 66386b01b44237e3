//! Nodes of a session that the servers keep after its client has given it up: the next session deletes them.

use zk_recipes::Mutex;
use zk_recipes::session::{Client, CreateMode, SessionManager};
use zk_testing::{Op, TestServer};

use crate::election::sessions;
use crate::{T, children};

/// Ends the manager's session on the client's side, and returns its client. The server has restarted, and so
/// has begun to count the session anew.
async fn end_of_session(server: &TestServer, sessions: &SessionManager) -> Client {
    let last = sessions.client();
    server.kill(0);
    last.wait_for_end().await;
    server.restart(0);
    server.accept_connects(0);
    let next = sessions.open_client().await.unwrap();
    assert_ne!(next.session_id(), last.session_id());
    assert!(is_alive(server, &last));
    last
}

fn is_alive(server: &TestServer, client: &Client) -> bool {
    server.with(|ensemble| ensemble.is_alive(client.session_id()))
}

/// Waits long enough for some requests, and far shorter than the session timeout.
async fn moment() {
    tokio::time::sleep(T / 100).await; // reason: a request that is not sent is no condition
}

#[tokio::test(start_paused = true)]
async fn node_of_a_lost_guard_is_deleted_when_the_guard_is_dropped() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let guard = Mutex::new(&sessions.client(), "/m").unwrap().acquire().await.unwrap();
    let last = end_of_session(&server, &sessions).await;
    assert!(!guard.is_held());
    moment().await;
    assert_eq!(children(&server, "/m").len(), 1, "its user may still be at work");
    drop(guard);
    moment().await;
    assert!(children(&server, "/m").is_empty());
    assert!(is_alive(&server, &last));
}

#[tokio::test(start_paused = true)]
async fn node_of_a_lost_create_is_found_by_its_prefix() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let mutex = Mutex::new(&sessions.client(), "/m").unwrap();
    mutex.acquire().await.unwrap().release().await.unwrap();
    server.refuse_connects(0);
    server.on(Op::Create2).apply_then_drop_reply();
    let acquiring = tokio::spawn(async move { mutex.acquire().await });
    while children(&server, "/m").is_empty() {
        tokio::task::yield_now().await; // before the session ends
    }
    let last = end_of_session(&server, &sessions).await;
    acquiring.await.unwrap().unwrap_err();
    moment().await;
    assert!(children(&server, "/m").is_empty());
    assert!(is_alive(&server, &last));
}

/// The next session may create a node of that name itself, and the old one may go at any time.
#[tokio::test(start_paused = true)]
async fn node_with_a_name_that_is_not_unique_is_left_to_the_server() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    sessions.client().create("/registered", b"", CreateMode::Ephemeral).await.unwrap();
    let last = end_of_session(&server, &sessions).await;
    last.delete_guaranteed("/registered").await.unwrap_err();
    moment().await;
    assert!(children(&server, "/").contains(&"registered".to_owned()));
    tokio::time::sleep(2 * T).await; // reason: the server expires it by its clock
    assert!(!children(&server, "/").contains(&"registered".to_owned()));
}
