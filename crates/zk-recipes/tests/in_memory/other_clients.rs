//! Bugs of the other Rust clients, each by its number in the list of observed bugs.
//!
//! K stands for `zookeeper-client` 0.11, A for `zookeeper-async` 5.0. The bugs of their decoders
//! (K7 to K9, A6) are in `zk-proto/tests/other_clients.rs`, those of their sessions (K1, K2, K11) in the
//! tests of zk-session-core and zk-testing. Each step of an acquisition (K3, K5, K6, A1 to A3, A5) is
//! dropped and cut in `cancelled`. K10 is unsafe code, and there is none here.

use std::time::Duration;

use zk_recipes::session::{CreateMode, ErrorKind};
use zk_recipes::{LockError, LossReason, Mutex};
use zk_testing::{Cut, Op};

use crate::{children, settle, started};

#[tokio::test(start_paused = true)]
async fn k4_unlock_completes_when_the_connection_breaks() {
    for how in [Cut::Fin, Cut::Rst, Cut::Silence] {
        let (server, [client]) = started().await;
        let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
        server.on(Op::Delete).cut_request_after(7, how);
        drop(guard);
        while !children(&server, "/lock").is_empty() {
            settle().await;
        }
        assert!(client.end_reason().is_none(), "{how:?}: by the session, not by its end");
    }
}

#[tokio::test(start_paused = true)]
async fn k12_fired_and_dropped_watches_are_forgotten() {
    let (_server, [client]) = started().await;
    for n in 0..100 {
        let path = format!("/n{n}");
        client.create(&path, b"", CreateMode::Persistent).await.unwrap();
        let (_, fires) = client.get_data_and_watch(&path).await.unwrap();
        let (_, dropped) = client.get_data_and_watch("/").await.unwrap();
        drop(dropped);
        client.delete(&path, None).await.unwrap();
        fires.await.unwrap();
    }
    // reason: virtual time, in which the last removal is sent
    tokio::time::sleep(Duration::from_secs(1)).await;
    let stats = client.stats();
    assert_eq!((stats.in_flight, stats.queued), (0, 0), "{stats:?}");
    assert_eq!(stats.one_shot_watches, 0, "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a4_expired_session_stays_ended_and_its_lock_is_lost() {
    let (server, [client]) = started().await;
    let guard = Mutex::new(&client, "/lock").unwrap().acquire().await.unwrap();
    let session_id = client.session_id();
    server.expire(session_id);
    assert!(matches!(guard.lost().await, LossReason::SessionEnded(_)));
    let told = client.create("/a", b"", CreateMode::Ephemeral).await.unwrap_err();
    assert!(matches!(told.kind(), ErrorKind::SessionEnded(_)), "{told}");
    assert_eq!(client.session_id(), session_id, "no other one in its place");
    assert!(matches!(guard.release().await, Err(LockError::Lost(_))));
}
