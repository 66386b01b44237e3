//! Work that runs whenever the lock is held, across sessions that expire.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Mutex as Shared};

use tokio::sync::mpsc;
use zk_recipes::session::{
    Client, Config, CreateMode, PathError, RetryOn, SessionEnd, SessionManager,
};
use zk_recipes::{
    FencingToken, HeldLock, Interruption, LockError, LossReason, Mutex, run_whenever_held,
};
use zk_testing::{Op, TestServer};

use crate::election::sessions;
use crate::{T, children, client, settle};

async fn started() -> (TestServer, SessionManager) {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    (server, sessions)
}

fn mutex(client: &Client) -> Result<Mutex, PathError> {
    Mutex::new(client, "/lock")
}

/// Outcome of work that never finishes.
type Never = Result<Infallible, LockError>;

type Interruptions = Arc<Shared<Vec<Interruption>>>;

/// Runs work that sends each acquired lock to the receiver, and continues until it is dropped.
fn run(
    sessions: SessionManager,
) -> (mpsc::UnboundedReceiver<HeldLock>, Interruptions, tokio::task::JoinHandle<LockError>) {
    let (started, holders) = mpsc::unbounded_channel();
    let interruptions = Interruptions::default();
    let told = interruptions.clone();
    let running = tokio::spawn(async move {
        let ran = run_whenever_held(
            &sessions,
            mutex,
            |held| {
                started.send(held).unwrap();
                std::future::pending::<Never>()
            },
            |interruption| told.lock().unwrap().push(interruption),
        );
        ran.await.unwrap_err()
    });
    (holders, interruptions, running)
}

#[tokio::test(start_paused = true)]
async fn work_runs_again_on_the_next_session() {
    let (server, sessions) = started().await;
    let (mut holders, interruptions, running) = run(sessions.clone());
    let mut tokens: Vec<FencingToken> = Vec::new();
    let mut last: Option<HeldLock> = None;
    for _ in 0..4 {
        let held = holders.recv().await.unwrap();
        if let Some(last) = last.replace(held.clone()) {
            assert!(!last.is_held() && last.token().is_err(), "a lock belongs to its session");
            assert_ne!(last.client().session_id(), held.client().session_id());
        }
        assert!(held.is_held());
        tokens.push(held.token().unwrap());
        server.expire(held.client().session_id());
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    let held = holders.recv().await.unwrap();
    let told = interruptions.lock().unwrap().clone();
    let expired = LossReason::SessionEnded(SessionEnd::Expired);
    let losses: Vec<_> = tokens
        .iter()
        .map(|token| Interruption::Lost { token: Some(*token), reason: expired })
        .collect();
    assert_eq!(told, losses);

    // The manager is closed, so there is no next session.
    held.client().close().await;
    let ended = running.await.unwrap();
    assert_eq!(ended.retry_on(), RetryOn::Never, "{ended}");
    sessions.open_client().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn transaction_of_the_work_has_the_chroot_of_its_lock() {
    let server = TestServer::in_memory();
    client(&server, 2).await.create("/tenant", b"", CreateMode::Persistent).await.unwrap();
    let sessions = sessions(&server, 1).await;
    let done = run_whenever_held(
        &sessions,
        |client| Mutex::new(&client.chroot("/tenant")?, "/lock").map_err(LockError::from),
        |held| async move {
            held.multi().create("/book", b"99", CreateMode::Persistent).send().await?;
            held.client().exists(&held.nodes()[0]).await.map_err(LockError::from)
        },
        |interruption| panic!("{interruption}"),
    );
    assert!(done.await.unwrap().is_some(), "the paths of the nodes are the client's");
    assert!(children(&server, "/tenant").contains(&"book".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_before_another_can_hold_the_lock() {
    let server = TestServer::ensemble(3);
    let other = client(&server, 2).await; // at the leader
    let follower = Config::new("server-1:1").unwrap().session_timeout(T).seed(1);
    let sessions = SessionManager::connect(follower.connector(server.clone())).await.unwrap();
    let (mut holders, interruptions, _running) = run(sessions);
    let held = holders.recv().await.unwrap();
    server.stall(1);
    let guard = Mutex::new(&other, "/lock").unwrap().acquire().await;
    let told = interruptions.lock().unwrap().len();
    assert!(guard.is_ok() && !held.is_held() && told >= 1, "{told}");
}

#[tokio::test(start_paused = true)]
async fn dropped_loop_leaves_nothing_behind() {
    let server = TestServer::in_memory();
    let holder = client(&server, 2).await;
    let guard = Mutex::new(&holder, "/lock").unwrap().acquire().await.unwrap();
    let sessions = sessions(&server, 1).await;
    for waits in [true, false] {
        if !waits {
            // The loop is dropped while it holds the lock.
            holder.close().await;
        }
        let mut running = pin!(run_whenever_held(
            &sessions,
            mutex,
            async |_| std::future::pending::<Never>().await,
            |interruption| panic!("{interruption}"),
        ));
        assert!(tokio::time::timeout(T / 100, running.as_mut()).await.is_err());
        assert_eq!(children(&server, "/lock").len(), 1 + usize::from(waits));
    }
    settle().await;
    assert!(children(&server, "/lock").is_empty() && !guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn loop_waits_while_the_session_is_being_closed() {
    let (server, sessions) = started().await;
    let (mut holders, interruptions, running) = run(sessions.clone());
    holders.recv().await.unwrap();
    // No server answers the request to close, so closing takes its maximum time.
    server.stall(0);
    let closing = sessions.client().close();
    running.await.unwrap();
    closing.await;
    let told = interruptions.lock().unwrap().len();
    assert!(told <= 25, "{told} attempts in the two seconds of closing");
}

#[tokio::test(start_paused = true)]
async fn ended_loop_releases_its_lock_while_a_handle_is_kept() {
    for panics in [false, true] {
        let (server, sessions) = started().await;
        let (started, mut holders) = mpsc::unbounded_channel();
        let running = tokio::spawn(async move {
            let work = async |held| {
                started.send(held).unwrap();
                assert!(!panics, "on purpose");
                std::future::pending::<Never>().await
            };
            run_whenever_held(&sessions, mutex, work, drop).await.unwrap_err();
        });
        let held = holders.recv().await.unwrap();
        running.abort();
        settle().await;
        assert!(children(&server, "/lock").is_empty() && held.token().is_err());
        assert_eq!(server.with(|servers| servers.sessions().count()), 0);
    }
}

/// Runs work until it ends, with the number of each run. Returns its result, the number of runs, and the
/// interruptions.
async fn ran<F: Future<Output = Result<(), LockError>>>(
    sessions: &SessionManager,
    mut work: impl FnMut(usize, HeldLock) -> F,
) -> (Result<(), LockError>, usize, Vec<Interruption>) {
    let (mut runs, mut interruptions) = (0, Vec::new());
    let counted = |held| {
        runs += 1;
        work(runs, held)
    };
    let told = |interruption| interruptions.push(interruption);
    let result = run_whenever_held(sessions, mutex, counted, told).await;
    (result, runs, interruptions)
}

/// The answer is lost with the connection, before the client has noticed the expiry.
#[tokio::test(start_paused = true)]
async fn work_runs_again_if_the_session_expires_during_a_request() {
    let (server, sessions) = started().await;
    let work = async |run, held: HeldLock| {
        if run < 3 {
            let _expires = server.on(Op::SetData).apply_then_expire_session();
            held.client().set_data("/", b"", None).await?;
        }
        held.client().exists("/").await.map(drop).map_err(LockError::from)
    };
    let (result, runs, interruptions) = ran(&sessions, work).await;
    assert_eq!((result, runs, interruptions.len()), (Ok(()), 3, 2), "{interruptions:?}");
}

/// The session expires while the release has no reply. The lock was held when the work ended, so
/// its output counts. Its error does not: it may have the same cause.
#[tokio::test(start_paused = true)]
async fn only_failed_work_runs_again_if_the_session_ends_on_release() {
    for fails in [false, true] {
        let (server, sessions) = started().await;
        server.on(Op::Delete).never_answer();
        let work = async |run, held: HeldLock| {
            let server = server.clone();
            tokio::spawn(async move {
                settle().await;
                server.expire(held.client().session_id());
            });
            if fails && run == 1 { Err(LockError::Lost(LossReason::Released)) } else { Ok(()) }
        };
        let (result, runs, interruptions) = ran(&sessions, work).await;
        assert_eq!((result, runs), (Ok(()), 1 + usize::from(fails)));
        assert_eq!(interruptions.len(), usize::from(fails));
        for interruption in interruptions {
            let Interruption::Lost { token: Some(_), reason } = interruption else {
                panic!("{interruption}")
            };
            assert_eq!(reason, LossReason::SessionEnded(SessionEnd::Expired));
        }
    }
}

/// The node is deleted before the guard watches it.
#[tokio::test(start_paused = true)]
async fn work_runs_again_if_its_node_was_deleted_before_release() {
    let (server, sessions) = started().await;
    let operator = client(&server, 2).await;
    let work = async |run, held: HeldLock| {
        if run == 1 {
            operator.delete(&held.nodes()[0], None).await?;
        }
        Ok(())
    };
    let (result, runs, interruptions) = ran(&sessions, work).await;
    let [Interruption::Lost { reason: LossReason::NodeDeleted, .. }] = interruptions[..] else {
        panic!("{interruptions:?}")
    };
    assert_eq!((result, runs), (Ok(()), 2));
}

#[tokio::test(start_paused = true)]
async fn loop_ends_with_an_error_of_the_work_or_of_the_path() {
    let (server, sessions) = started().await;
    let work = async |_, held: HeldLock| {
        let done = held.multi().set_data("/missing", b"", None).send().await;
        done.map(drop).map_err(LockError::from)
    };
    let (result, _, interruptions) = ran(&sessions, work).await;
    let error = result.unwrap_err();
    assert!(error.to_string().contains("/missing") && interruptions.is_empty(), "{error}");
    assert!(children(&server, "/lock").is_empty());
    let no_path = |client: &Client| Mutex::new(client, "not a path");
    let ran = run_whenever_held(&sessions, no_path, async |_| Never::Err(error.clone()), drop);
    let error = ran.await.unwrap_err();
    assert!(error.retry_on() == RetryOn::Never && error.to_string().contains("path"), "{error}");
}
