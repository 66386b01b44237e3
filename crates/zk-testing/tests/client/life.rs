//! Tests of the start and the end of sessions, for callers of `connect` and readers of events.

use std::future::{self, Future, poll_fn};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use tokio::time::timeout;
use zk_session::{
    Config, Connector, CreateMode, ErrorKind, ErrorOrigin, Host, Limit, SessionChange,
    SessionCredentials, SessionEnd, SessionEvent, SessionManager,
};
use zk_testing::{MemoryStream, Op, SessionId, TestServer, Zxid};

use crate::in_memory::{connected, until_reconnected};

const MS: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn event_stream_of_closed_session_ends_at_once() {
    let (_server, [client]) = connected().await;
    client.close().await;
    let mut events = client.events();
    assert_eq!(timeout(Duration::from_secs(3600), events.next()).await, Ok(None));
}

#[tokio::test(start_paused = true)]
async fn expired_session_fails_requests_and_watches() {
    let (server, [client]) = connected().await;
    let mut events = client.events();
    let (_, watch) = client.get_data_and_watch("/").await.unwrap();
    client.create("/e", b"", CreateMode::Ephemeral).await.unwrap();
    assert!(server.expire(client.session_id()));
    assert!(!server.expire(client.session_id()), "it is gone");
    assert!(server.with(|ensemble| !ensemble.tree().contains("/e")));
    let error = client.sync("/").await.unwrap_err();
    let over = match error.kind() {
        ErrorKind::ConnectionLost(_) => client.sync("/").await.unwrap_err(),
        _ => error,
    };
    assert_eq!(*over.kind(), ErrorKind::SessionEnded(SessionEnd::Expired));
    assert_eq!(over.origin(), ErrorOrigin::Session);
    assert_eq!(*watch.await.unwrap_err().kind(), ErrorKind::SessionEnded(SessionEnd::Expired));
    assert!(matches!(events.next().await, Some(SessionEvent::Suspended { .. })));
    assert!(matches!(events.next().await, Some(SessionEvent::Expired { .. })));
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn detached_session_fails_requests_and_leases() {
    let (_server, [client]) = connected().await;
    let claim = client.claim_lease();
    client.detach().unwrap();
    let error = client.exists("/").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::Detached));
    assert_eq!(claim.loss(), zk_session::LeaseLoss::SessionEnded(SessionEnd::Detached));
}

#[tokio::test(start_paused = true)]
async fn connect_rejects_too_many_or_too_large_credentials() {
    let server = TestServer::in_memory();
    let config = || Config::new("server-0:1").unwrap().seed(1);
    let many = (0..65).fold(config(), |config, n| config.auth("digest", format!("u{n}:p")));
    let error = many.connector(server.clone()).connect().await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::LimitReached(Limit::Credentials), "{error}");
    let large = config().auth("digest", vec![b'x'; 2 << 20]);
    let error = large.connector(server.clone()).connect().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
}

/// The driver runs on another thread and may finish before `connect` listens. Large credentials
/// make that likely.
#[test]
fn connect_reports_session_that_ended_before_it_listened() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let server = TestServer::in_memory();
        let stale = SessionCredentials::new(SessionId(0x77), *b"0123456789abcdef", Zxid::ZERO);
        let mut config = Config::new("server-0:1").unwrap().resume(stale);
        config = config.connect_timeout(Duration::from_secs(3600));
        for n in 0..64 {
            let auth = [vec![b'x'; 1 << 19], vec![n]].concat();
            config = config.auth("digest", auth);
        }
        let error = config.connector(server.clone()).connect().await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::Expired), "{error}");
    });
}

/// Connector that records the hosts. Connections to the host `hole` are neither accepted nor
/// refused.
#[derive(Clone)]
struct Noting {
    server: TestServer,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Noting {
    fn of(server: &TestServer) -> Self {
        Self { server: server.clone(), asked: Arc::default() }
    }

    fn take_asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Connector for Noting {
    type Stream = MemoryStream;

    fn connect(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<MemoryStream>> + Send + 'static {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(host.to_string());
        let stream = (host.name() != "hole").then(|| self.server.stream(0));
        async move {
            match stream {
                Some(stream) => stream,
                None => future::pending().await,
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn unreachable_server_of_three_does_not_prevent_connect() {
    for seed in 0..30 {
        let server = TestServer::in_memory();
        let config = Config::new("hole:1,b:1,c:1").unwrap().seed(seed);
        let config = config.session_timeout(Duration::from_secs(40));
        config.connector(Noting::of(&server)).connect().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn session_manager_connects_next_session_to_updated_servers() {
    let server = TestServer::in_memory();
    let connector = Noting::of(&server);
    let config = Config::new("old:1").unwrap().seed(1);
    let sessions = SessionManager::connect(config.connector(connector.clone())).await.unwrap();
    let mut events = sessions.client().events();
    sessions.client().update_servers("new:1").unwrap();
    until_reconnected(&mut events).await;
    drop(connector.take_asked());
    server.expire(sessions.client().session_id());
    sessions.client().wait_for_end().await;
    sessions.open_client().await.unwrap();
    let asked = connector.take_asked();
    assert!(asked.iter().all(|host| host == "new:1"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn create_cancelled_before_sending_needs_no_clean_up() {
    let server = TestServer::in_memory();
    server.refuse_connects(0);
    let config = Config::new("server-0:1").unwrap().seed(1);
    let client = config.connector(server.clone()).open().unwrap();
    for _ in 0..100 {
        let create = client.create_builder("/q-").ephemeral().protected().create();
        assert!(timeout(MS, create).await.is_err());
    }
    let stats = client.stats();
    assert_eq!((stats.queued, stats.clean_up_pending), (0, 0));
}

/// The node is not ephemeral, so the end of the session does not delete it.
#[tokio::test(start_paused = true)]
async fn create_cancelled_before_close_is_swept() {
    let (_server, [client, other]) = connected().await;
    let mut create = Box::pin(client.create_builder("/n-").sequential().protected().create());
    let asked = poll_fn(|cx| Poll::Ready(create.as_mut().poll(cx).is_pending())).await;
    assert!(asked);
    tokio::task::yield_now().await; // the request is sent
    drop(create);
    client.close().await;
    let names = other.get_children("/").await.unwrap().names;
    assert_eq!(names.names().collect::<Vec<_>>(), ["zookeeper"]);
}

/// Lease terms start from the same number in every session.
#[tokio::test(start_paused = true)]
async fn lease_term_of_one_session_does_not_hold_in_another() {
    let (_server, [old, new]) = connected().await;
    let (of_old, of_new) = (old.claim_lease(), new.claim_lease());
    of_old.renew().await.unwrap();
    of_new.renew().await.unwrap();
    let term = of_old.bind().unwrap();
    assert!(of_old.holds(term) && !of_new.holds(term));
    assert_eq!(timeout(MS, of_new.lost(term)).await, Ok(zk_session::LeaseLoss::DeadlinePassed));
    old.close().await;
    assert!(!of_old.holds(term) && of_new.holds(of_new.bind().unwrap()));
}

/// The session has nodes and locks, and the caller may resume it again after a cancelled attempt.
#[tokio::test(start_paused = true)]
async fn cancelled_resume_leaves_session_alive() {
    let (server, [before, other]) = connected().await;
    before.create("/mine", b"", CreateMode::Ephemeral).await.unwrap();
    let session = before.detach().unwrap();
    let config = || Config::new("server-0:1").unwrap().seed(2).resume(session.clone());
    let mut polls = 0;
    let taken = loop {
        let mut attempt = Box::pin(config().connector(server.clone()).connect());
        let mut taken = None;
        for _ in 0..polls {
            let once = poll_fn(|cx| Poll::Ready(attempt.as_mut().poll(cx))).await;
            if let Poll::Ready(client) = once {
                taken = Some(client.unwrap());
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(attempt);
        tokio::time::sleep(10 * MS).await; // reason: whatever was begun is over by then
        assert!(other.exists("/mine").await.unwrap().is_some(), "after {polls} polls");
        match taken {
            Some(client) => break client,
            None => polls += 1,
        }
    };
    assert_eq!(taken.session_id(), session.session_id());
    assert!(polls > 1);
}

#[tokio::test(start_paused = true)]
async fn session_manager_continues_when_session_expires_before_auth() {
    let server = TestServer::in_memory();
    let config = Config::new("server-0:1").unwrap().seed(1).auth("digest", "user:password");
    let connector = server.clone();
    let sessions = SessionManager::connect(config.connector(connector)).await.unwrap();
    let mut changes = sessions.changes();
    let silence = server.on(Op::Auth).nth(1).never_answer();
    let first = sessions.client().session_id();
    server.expire(first);
    // The second session exists, and the server does not answer its credentials.
    let second = loop {
        let ids: Vec<SessionId> =
            server.with(|servers| servers.sessions().map(|session| session.id).collect());
        match ids.iter().find(|id| **id != first) {
            Some(second) if silence.count() == 1 => break *second,
            // reason: virtual time passes until a condition without a notification holds
            _ => tokio::time::sleep(MS).await,
        }
    };
    server.expire(second);
    loop {
        match changes.next().await.unwrap() {
            SessionChange::AttemptFailed { .. } => break,
            SessionChange::Ended { .. } => {}
            other => panic!("{other}"),
        }
    }
    sessions.client().wait_for_end().await;
    sessions.open_client().await.unwrap().exists("/").await.unwrap();
}
