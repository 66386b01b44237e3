//! Tests of the tokio driver, over in-memory streams and a paused clock that advances only when all
//! tasks wait.
//!
//! The tests control each byte and each connection. Tests of the client that only need a server are
//! in `crates/zk-testing/tests/client`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with the tests of the core")]
#[path = "../../../zk-session-core/tests/session/script.rs"]
mod script;

mod addresses;
mod dedicated_thread;
mod ensemble;
mod handles;
mod in_place;
mod leases;
#[cfg(feature = "tracing")]
mod logging;
mod memory;
mod network;
mod panics;
mod server_lists;
mod sessions;
#[cfg(feature = "tracing")]
mod tracing_log;
mod waiting;

use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use proto::{Create2, ErrorCode, OpCode, SessionId, SetData, SetWatches, Zxid, split_frame};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::sync::Notify;
use zk_session::{
    Client, Config, Connector, CreateMode, DisconnectReason, ErrorKind, ErrorOrigin, Host,
    LeaseLoss, Outcome, RetryOn, SessionEnd, SessionEvent, SessionManager,
};

use crate::ensemble::*;
use crate::script::{Frame, ID, Script};

const T: Duration = Duration::from_secs(6);

/// Runs every operation, and checks its typed reply and the data that the server received.
async fn converse(client: &Client, ensemble: &Ensemble) {
    let is_missing = |path: &str| ensemble.state().script.missing.insert(path.to_owned());
    let created = client.create("/n/a", b"one", CreateMode::Ephemeral).await.unwrap();
    assert_eq!(created.path, "/n/a");
    let numbered = client.create("/n/s-", b"", CreateMode::EphemeralSequential).await.unwrap();
    assert!(numbered.path.starts_with("/n/s-00000"));
    ensemble.state().script.data = b"one"[..].into();
    let node = client.get_data("/n/a").await.unwrap();
    assert_eq!(node.data, &b"one"[..]);
    client.set_data("/n/a", b"two", None).await.unwrap();
    is_missing("/n/b");
    assert_eq!(client.exists("/n/b").await.unwrap(), None);
    assert!(client.exists("/n/a").await.unwrap().is_some());
    ensemble.state().script.names = vec!["a".to_owned(), numbered.path[3..].to_owned()];
    let names: Vec<String> =
        client.get_children("/n").await.unwrap().names.names().map(Into::into).collect();
    assert_eq!(names, ["a", &numbered.path[3..]]);
    client.sync("/n").await.unwrap();
    client.add_auth("digest", "user:password").await.unwrap();
    client.delete("/n/a", None).await.unwrap();
    assert!(client.delete_guaranteed(&numbered.path).await.unwrap());
    is_missing(&numbered.path);
    assert!(!client.delete_guaranteed(&numbered.path).await.unwrap(), "gone already");
    is_missing("/n/a");
    let error = client.delete("/n/a", None).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NO_NODE));
    assert_eq!(error.to_string(), "delete /n/a: NoNode (-101)");
    let state = ensemble.state();
    let received = |op| &state.seen.iter().find(|(_, frame)| frame.op == op).unwrap().1;
    let create: Create2<'_> = received(OpCode::Create2).read();
    let set: SetData<'_> = received(OpCode::SetData).read();
    assert_eq!(
        (create.data.as_deref(), set.data.as_deref()),
        (Some(&b"one"[..]), Some(&b"two"[..]))
    );
}

#[tokio::test(start_paused = true)]
async fn operations_succeed_and_close_ends_the_session() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    assert_eq!((client.session_id(), client.session_timeout()), (ID, T));
    assert_eq!(client.local_address(), Some(IpAddr::from([10, 0, 0, 7])));
    converse(&client, &ensemble).await;
    let mut events = client.events();
    client.close().await;
    assert!(ensemble.state().is_closed());
    assert_eq!(client.end_reason(), Some(SessionEnd::Closed));
    assert_eq!(events.next().await, Some(SessionEvent::Closed { session_id: ID }));
    assert_eq!(events.next().await, None);
    let error = client.get_data("/n").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::Closed));
}

#[tokio::test(start_paused = true)]
async fn dropped_watch_is_not_rearmed_after_reconnect() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let (_, dropped) = client.get_data_and_watch("/a").await.unwrap();
    let (_, _kept) = client.get_data_and_watch("/b").await.unwrap();
    drop(client.get_data_and_watch("/a")); // before its reply arrives
    client.sync("/").await.unwrap();
    drop(dropped);
    ensemble.cut_and_wait(&client).await;
    client.sync("/").await.unwrap();
    let rearmed: Vec<String> = {
        let state = ensemble.state();
        let (_, frame) = state.seen.iter().find(|(_, f)| f.op == OpCode::SetWatches).unwrap();
        let rearm: SetWatches<'_> = frame.read();
        rearm.data.iter().map(ToString::to_string).collect()
    };
    assert_eq!(rearmed, ["/b"]);
}

#[tokio::test(start_paused = true)]
async fn connection_lost_within_a_reply_fails_pending_requests() {
    for budget in [1, 15, 30] {
        let ensemble = Ensemble::new();
        let client = ensemble.client().await;
        let mut events = client.events();
        ensemble.state().budget = budget;
        let batch = client.batch();
        let write = client.create("/n/a", b"", CreateMode::Ephemeral);
        let read = client.get_data("/n");
        drop(batch);
        let (write, read) = (write.await.unwrap_err(), read.await.unwrap_err());
        let lost = ErrorKind::ConnectionLost(DisconnectReason::ClosedByServer);
        assert_eq!((write.kind(), write.outcome()), (&lost, Outcome::Unknown));
        assert_eq!((read.kind(), read.outcome()), (&lost, Outcome::NotApplied));
        assert!(
            read.retry_on() == RetryOn::SameSession && write.retry_on() != RetryOn::SameSession
        );
        client.get_data("/n/a").await.unwrap();
        assert!(ensemble.state().has_received(OpCode::Create2, "/n/a"), "it had been applied");
        assert!(matches!(events.next().await, Some(SessionEvent::Suspended { .. })));
        assert!(matches!(events.next().await, Some(SessionEvent::Reconnected { .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn connect_fails_when_its_timeout_has_passed() {
    let ensemble = Ensemble::new();
    let attempt = |ensemble: &Ensemble| {
        let config = ensemble.config("a,b").connect_timeout(Duration::from_secs(7));
        config.connector(ensemble.clone()).connect()
    };
    ensemble.state().refuses = true;
    let began = now();
    let error = attempt(&ensemble).await.unwrap_err();
    let cause = DisconnectReason::Unreachable(io::ErrorKind::ConnectionRefused);
    assert_eq!(*error.kind(), ErrorKind::NoSession(cause));
    assert_eq!((error.origin(), error.outcome()), (ErrorOrigin::Network, Outcome::NotApplied));
    assert_eq!(now() - began, Duration::from_secs(7));

    ensemble.state().hangs = true;
    let error = attempt(&ensemble).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::NoSession(DisconnectReason::IdleTimeout));
    let connections = ensemble.state().connections;
    tokio::time::advance(T * 10).await;
    tokio::task::yield_now().await;
    assert_eq!(ensemble.state().connections, connections, "nothing goes on behind it");
}

#[tokio::test(start_paused = true)]
async fn pending_dropped_while_connected_is_applied() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    drop(client.create("/n/a", b"", CreateMode::Persistent));
    ensemble.until(|state| state.has_received(OpCode::Create2, "/n/a")).await;
}

#[tokio::test(start_paused = true)]
async fn session_closes_when_last_client_is_dropped() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let clone = client.clone();
    drop(client);
    clone.sync("/").await.unwrap();
    let last = clone.create("/n/a", b"", CreateMode::Persistent);
    drop(clone);
    last.await.unwrap(); // submitted before the close
    ensemble.until(|state| state.is_closed()).await;
    assert_eq!(ensemble.ops(), [OpCode::Sync, OpCode::Create2, OpCode::CloseSession]);
}

#[tokio::test(start_paused = true)]
async fn dropped_connect_closes_its_session() {
    let ensemble = Ensemble::new();
    let config = ensemble.config("a").auth("digest", "user:password");
    ensemble.state().unanswered.insert(OpCode::Auth.code());
    let connect = config.connector(ensemble.clone()).connect();
    let error = tokio::time::timeout(Duration::from_secs(1), connect).await;
    assert!(error.is_err(), "the credentials are not answered");
    ensemble.until(|state| state.is_closed()).await;
    assert_eq!(ensemble.ops(), [OpCode::Auth, OpCode::CloseSession]);
}

#[tokio::test(start_paused = true)]
async fn connect_fails_when_credentials_are_rejected() {
    let ensemble = Ensemble::new();
    ensemble.state().refuses_auth = true;
    let config = ensemble.config("a").auth("digest", "user:wrong");
    let error = config.connector(ensemble.clone()).connect().await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::AuthFailed));
    assert!(!format!("{error:?} {error}").contains("wrong"));
    assert_eq!(ensemble.state().connections, 1);
}

#[test]
fn runtime_shutdown_ends_pending_requests_and_watches() {
    let start = || {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let mut runtime = runtime;
        runtime.enable_time().start_paused(true).build().unwrap()
    };
    let ensemble = Ensemble::new();
    ensemble.state().unanswered.insert(OpCode::GetData.code());
    ensemble.state().unanswered.insert(OpCode::SetData.code());
    let runtime = start();
    let (client, read, write, watch, events) = runtime.block_on(async {
        let client = ensemble.client().await;
        let events = client.events();
        let (_, watch) = client.exists_and_watch("/n").await.unwrap();
        let (read, write) = (client.get_data("/n"), client.set_data("/n", b"", None));
        ensemble.until(|state| state.seen.len() == 3).await;
        (client, read, write, watch, events)
    });
    drop(runtime);
    let mut events = events;
    start().block_on(async {
        let over = ErrorKind::SessionEnded(SessionEnd::Closed);
        assert_eq!(*read.await.unwrap_err().kind(), over);
        let error = write.await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (&over, Outcome::Unknown));
        assert_eq!(*watch.await.unwrap_err().kind(), over);
        assert_eq!(*client.sync("/").await.unwrap_err().kind(), over);
        assert!(matches!(events.next().await, Some(SessionEvent::Closed { .. })));
        client.close().await;
    });
}

#[tokio::test(start_paused = true)]
async fn requests_submitted_together_are_sent_in_one_write() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    ensemble.state().writes.clear();
    let pending: Vec<_> = (0..50).map(|_| client.get_data("/n")).collect();
    for answer in pending {
        answer.await.unwrap();
    }
    let frame = 4 + 8 + 4 + 2 + 1;
    assert_eq!(ensemble.state().writes, [50 * frame]);
}

#[tokio::test(start_paused = true)]
async fn invalid_path_is_rejected_without_a_request() {
    for connect_string in ["a", "a/app"] {
        let ensemble = Ensemble::new();
        let client = ensemble.connect_with(ensemble.config(connect_string)).await;
        for path in ["le", "", "/a/", "//", "/a//b", "/.", "/a/../b", "/\0"] {
            let errors = [
                client.delete(path, None).await.unwrap_err(),
                client.set_data(path, b"", None).await.unwrap_err(),
                client.delete_guaranteed(path).await.unwrap_err(),
                client.create(path, b"", CreateMode::Ephemeral).await.unwrap_err(),
                client.exists_and_watch(path).await.unwrap_err(),
            ];
            for error in errors {
                assert!(matches!(error.kind(), ErrorKind::InvalidPath(_)), "{path:?}: {error}");
                assert_eq!(
                    (error.origin(), error.outcome()),
                    (ErrorOrigin::Caller, Outcome::NotApplied)
                );
            }
        }
        assert_eq!(ensemble.ops(), []);
    }
}

#[tokio::test(start_paused = true)]
async fn lease_is_lost_at_its_deadline_despite_answered_pings() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    ensemble.state().unanswered.insert(OpCode::Multi.code());
    let claim = client.claim_lease();
    assert_eq!(claim.bind(), None, "no quorum has agreed to anything yet");
    client.sync("/").await.unwrap();
    assert_eq!(claim.bind(), None, "a leader that was replaced answers it as well");
    ensemble.state().unanswered.clear();
    let term = claim.renew().await.unwrap();
    tokio::time::sleep(T * 5).await; // reason: virtual time, in which the lease is renewed
    assert!(claim.holds(term), "kept renewed while it is claimed");

    ensemble.state().unanswered.extend([OpCode::Multi.code(), OpCode::Sync.code()]);
    let until = claim.valid_until(term).unwrap();
    assert_eq!(claim.lost(term).await, LeaseLoss::DeadlinePassed);
    let late = now().into_std().saturating_duration_since(until);
    assert!(now().into_std() >= until && late <= Duration::from_millis(1), "{late:?}");
    assert!(client.is_connected() && !claim.holds(term));

    ensemble.state().unanswered.clear();
    claim.renew().await.unwrap();
    assert!(!claim.holds(term), "once lost, always lost");
    assert_eq!(claim.lost(term).await, LeaseLoss::DeadlinePassed);
    let next = claim.bind().unwrap();
    assert_ne!(next, term);
    client.close().await;
    assert_eq!(claim.lost(next).await, LeaseLoss::SessionEnded(SessionEnd::Closed));
}

#[tokio::test(start_paused = true)]
async fn session_expires_locally_without_any_server() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    client.sync("/").await.unwrap();
    let began = now();
    ensemble.state().refuses = true;
    ensemble.cut();
    let waiting = client.get_data("/n");
    let error = waiting.await.unwrap_err();
    let error = match error.kind() {
        ErrorKind::ConnectionLost(_) => client.get_data("/n").await.unwrap_err(),
        _ => error,
    };
    assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::ExpiredLocally { paused: None }));
    let after = now() - began;
    assert!(after >= T && after <= T * 4 / 3 + Duration::from_millis(2), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn close_returns_at_its_timeout_without_a_server() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    ensemble.state().hangs = true;
    ensemble.cut();
    ensemble.until(|state| state.connections == 2).await;
    let began = now();
    client.close().await;
    let after = now() - began;
    assert!(after >= Duration::from_secs(2) && after < Duration::from_millis(2005), "{after:?}");
    assert_eq!(client.end_reason(), Some(SessionEnd::Closed));
}

#[test]
fn invalid_connect_string_is_rejected() {
    for bad in ["", "a:x", "/x"] {
        let error = Config::new(bad).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidConnectString(_)));
    }
}

/// A client that used such a path would watch, delete or rely on another client's node.
#[tokio::test(start_paused = true)]
async fn create_fails_if_reply_names_another_node() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let modes = [CreateMode::Ephemeral, CreateMode::EphemeralSequential];
    for named in ["/n/b", "/n/a/b", "/a", "", "/n/a-00x"] {
        ensemble.state().script.misnamed = Some(named.to_owned());
        for mode in modes {
            let error = client.create("/n/a", b"", mode).await.unwrap_err();
            assert_eq!((error.kind(), error.outcome()), (&ErrorKind::UnfitReply, Outcome::Applied));
            assert_eq!(error.origin(), ErrorOrigin::Peer);
            client.delete("/n/a", None).await.ok();
        }
        let protected = client.create_builder("/n/a").ephemeral().sequential().protected().create();
        assert_eq!(*protected.await.unwrap_err().kind(), ErrorKind::UnfitReply, "{named}");
    }
    ensemble.state().script.misnamed = None;
    let protected = client.create_builder("/n/a-").ephemeral().sequential().protected().create();
    assert!(protected.await.unwrap().path.starts_with("/n/_c_"));
}

/// The results say which operations were applied, so a client cannot rely on a part of them.
#[tokio::test(start_paused = true)]
async fn transaction_fails_if_reply_has_too_few_results() {
    let ensemble = Ensemble::new(); // its script answers a transaction without results
    let client = ensemble.client().await;
    for multi in
        [client.multi().check("/n", None), client.multi().check("/n", None).delete("/n", None)]
    {
        let error = multi.send().await.unwrap_err();
        assert_eq!((error.kind(), error.outcome()), (&ErrorKind::UnfitReply, Outcome::Unknown));
        assert_eq!(error.origin(), ErrorOrigin::Peer);
    }
}
