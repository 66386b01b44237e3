//! Values of single nodes as `watch` channels.

use bytes::Bytes;
use zk_coordination::session::limits::REMOVAL_DELAY;
use zk_coordination::{CacheError, watch_value};
use zk_testing::{Cut, ErrorCode, Op, TestServer};

use super::create;
use crate::{T, client, sessions, settle};

fn number(data: &Bytes) -> Option<u32> {
    std::str::from_utf8(data).ok()?.parse().ok()
}

#[tokio::test(start_paused = true)]
async fn value_follows_its_node() {
    let server = TestServer::in_memory();
    let writer = client(&server, 1).await;
    let sessions = sessions(&server, 2).await;
    let mut value = watch_value(&sessions, "/n", number).await.unwrap();
    assert_eq!(*value.borrow(), None);
    create(&writer, &["/n"]).await;
    settle().await;
    assert!(!value.has_changed().unwrap(), "the data is no number");
    for (data, expected) in [(&b"7"[..], 7), (b"8", 8)] {
        writer.set_data("/n", data, None).await.unwrap();
        value.changed().await.unwrap();
        assert_eq!(*value.borrow_and_update(), Some(expected));
    }
    writer.set_data("/n", b"x", None).await.unwrap();
    settle().await;
    assert_eq!(*value.borrow(), Some(8), "the last accepted value");
    writer.delete("/n", None).await.unwrap();
    value.changed().await.unwrap();
    assert_eq!(*value.borrow_and_update(), None);
}

#[tokio::test(start_paused = true)]
async fn value_is_current_after_a_reconnect_and_an_expiry() {
    let server = TestServer::in_memory();
    let writer = client(&server, 1).await;
    create(&writer, &["/n"]).await;
    let sessions = sessions(&server, 2).await;
    let read = |data: &Bytes| Some(data.clone());
    let mut value = watch_value(&sessions, "/n", read).await.unwrap();
    assert_eq!(value.borrow_and_update().as_deref(), Some(&b"/n"[..]));
    for data in [&b"1"[..], b"2"] {
        let session_id = sessions.client().session_id();
        match data {
            b"1" => server.connection_of(session_id).cut(Cut::Fin),
            _ => drop(server.expire(session_id)),
        }
        writer.set_data("/n", data, None).await.unwrap();
        value.changed().await.unwrap();
        assert_eq!(value.borrow_and_update().as_deref(), Some(data));
    }
    sessions.close().await;
    assert!(value.changed().await.is_err(), "the channel is closed");
}

#[tokio::test(start_paused = true)]
async fn dropped_receiver_removes_the_watch() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 2).await;
    let value = watch_value(&sessions, "/n", number).await.unwrap();
    assert!(server.with(|ensemble| ensemble.watches(0)) > 0);
    drop(value);
    // reason: the session removes watches a moment after they are dropped
    tokio::time::sleep(REMOVAL_DELAY * 2).await;
    assert_eq!(server.with(|ensemble| ensemble.watches(0)), 0);
    server.on(Op::AddWatch).answer(ErrorCode::UNIMPLEMENTED);
    let error = watch_value(&sessions, "/n", number).await.unwrap_err();
    assert_eq!(error, CacheError::Unsupported { path: "/n".to_owned() });
    // reason: the channel outlives nothing, and no task waits, in virtual time
    tokio::time::sleep(T).await;
}
