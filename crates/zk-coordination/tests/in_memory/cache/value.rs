//! Values of single nodes as `watch` channels.

use bytes::Bytes;
use zk_coordination::{CacheError, watch_value};
use zk_testing::{ErrorCode, Op};

use super::{create, cut, set, tree};
use crate::{settle, settle_watches, watches};

fn number(data: &Bytes) -> Option<u32> {
    std::str::from_utf8(data).ok()?.parse().ok()
}

#[tokio::test(start_paused = true)]
async fn value_follows_its_node() {
    let (_server, writer, sessions) = tree(&[]).await;
    let mut value = watch_value(&sessions, "/n", number).await.unwrap();
    assert_eq!(*value.borrow(), None);
    create(&writer, &["/n"]).await;
    settle().await;
    assert!(!value.has_changed().unwrap(), "the data is no number");
    for (data, expected) in [(&b"7"[..], 7), (b"8", 8)] {
        set(&writer, "/n", data).await;
        value.changed().await.unwrap();
        assert_eq!(*value.borrow_and_update(), Some(expected));
    }
    set(&writer, "/n", b"x").await;
    settle().await;
    assert_eq!(*value.borrow(), Some(8), "the last accepted value");
    writer.delete("/n", None).await.unwrap();
    value.changed().await.unwrap();
    assert_eq!(*value.borrow_and_update(), None);
}

#[tokio::test(start_paused = true)]
async fn value_is_current_after_a_reconnect_and_an_expiry() {
    let (server, writer, sessions) = tree(&["/n"]).await;
    let read = |data: &Bytes| Some(data.clone());
    let mut value = watch_value(&sessions, "/n", read).await.unwrap();
    assert_eq!(value.borrow_and_update().as_deref(), Some(&b"/n"[..]));
    for data in [&b"1"[..], b"2"] {
        match data {
            b"1" => cut(&server, &sessions),
            _ => drop(server.expire(sessions.client().session_id())),
        }
        set(&writer, "/n", data).await;
        value.changed().await.unwrap();
        assert_eq!(value.borrow_and_update().as_deref(), Some(data));
    }
    sessions.close().await;
    assert!(value.changed().await.is_err(), "the channel is closed");
}

#[tokio::test(start_paused = true)]
async fn dropped_receiver_removes_the_watch() {
    let (server, _writer, sessions) = tree(&[]).await;
    let value = watch_value(&sessions, "/n", number).await.unwrap();
    assert!(watches(&server) > 0);
    drop(value);
    settle_watches().await;
    assert_eq!(watches(&server), 0);
    server.on(Op::AddWatch).answer(ErrorCode::UNIMPLEMENTED);
    let error = watch_value(&sessions, "/n", number).await.unwrap_err();
    assert_eq!(error, CacheError::Unsupported { path: "/n".to_owned() });
}
