//! Consecutive sessions: resumed by another client, or opened by a manager.

use zk_session::limits::NEXT_SESSION_PAUSE_MAX;
use zk_session::{Prometheus, RetryPolicy, SessionChange, SessionCredentials};

use super::*;

#[tokio::test(start_paused = true)]
async fn manager_opens_the_next_session_after_an_expiry() {
    let ensemble = Ensemble::new();
    let sessions = ensemble.sessions().await;
    let mut changes = sessions.changes();
    let first = sessions.client();
    let claim = first.claim_lease();
    claim.renew().await.unwrap();
    let term = claim.bind().unwrap();

    ensemble.expire();
    let ended = SessionChange::Ended { session_id: ID, cause: SessionEnd::Expired };
    assert_eq!(changes.next().await, Some(ended));
    let second = sessions.open_client().await.unwrap();
    let opened = SessionChange::Opened { previous_id: ID, session_id: second.session_id() };
    assert_eq!(changes.next().await, Some(opened));
    assert_eq!(ensemble.asked(), [SessionId::NONE, ID, SessionId::NONE], "a new session");
    assert_eq!(first.end_reason(), Some(SessionEnd::Expired), "the old client stays dead");
    assert!(!claim.holds(term) && first.exists("/n").await.is_err());
    assert!(sessions.clone().client().is_same_session(&second));
    assert!(!first.is_same_session(&second));
    second.exists("/n").await.unwrap();
    assert_ne!(zk_session::path::random_uuid(&first), zk_session::path::random_uuid(&second));
}

#[tokio::test(start_paused = true)]
async fn totals_outlast_the_end_of_a_session() {
    let ensemble = Ensemble::new();
    let sessions = ensemble.sessions().await;
    let counted = || {
        let it = sessions.totals();
        (it.opened, it.expired, it.failed_attempts > 0, it.connections_lost)
    };
    assert_eq!(counted(), (1, 0, false, 0));
    let mut events = sessions.client().events();
    ensemble.cut();
    while !matches!(events.next().await, Some(SessionEvent::Reconnected { .. })) {}
    assert_eq!(counted(), (1, 0, false, 1), "the current session counts");
    ensemble.state().script.expired = true;
    ensemble.state().refuses = true;
    let mut changes = sessions.changes();
    ensemble.cut();
    while !matches!(changes.next().await, Some(SessionChange::AttemptFailed { .. })) {}
    assert_eq!(counted(), (1, 1, true, 2), "before the next session");
    ensemble.state().refuses = false;
    let second = sessions.open_client().await.unwrap();
    assert_eq!((second.connections_lost(), counted()), (0, (2, 1, true, 2)));
    let page = sessions.totals().prometheus("of=\"a\"");
    for line in [
        "zk_sessions_opened_total{of=\"a\"} 2",
        "zk_sessions_ended_total{of=\"a\",reason=\"expired\"} 1",
        "zk_session_connections_lost_total{of=\"a\"} 2",
        &format!(
            "zk_session_attempts_failed_total{{of=\"a\"}} {}",
            sessions.totals().failed_attempts
        ),
    ] {
        assert!(page.lines().any(|it| it == line), "{line} in {page}");
    }
    for _ in 0..2 {
        sessions.close().await;
        let totals = sessions.totals();
        assert_eq!((totals.opened, totals.expired, totals.closed), (2, 1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn manager_opens_the_next_session_after_clean_up_overflow() {
    for is_closed in [false, true] {
        let ensemble = Ensemble::new();
        let sessions = ensemble.sessions().await;
        let first = sessions.client();
        let path = format!("/{}", "x".repeat(1_000_000));
        // 64 MiB for the table of clean-up tasks, and 64 MiB for their backlog.
        (0..136).for_each(|_| drop(first.delete_guaranteed(&path)));
        assert_eq!(first.end_reason(), None, "it is being closed");
        if is_closed {
            first.close().await;
            let error = sessions.open_client().await.unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::ManagerStopped(_)));
            continue;
        }
        let next = sessions.open_client().await.unwrap();
        assert!(!next.is_same_session(&first), "one that declines every request is of no use");
        assert_eq!(first.end_reason(), Some(SessionEnd::CleanUpOverflow));
        assert_eq!(sessions.totals().overflowed, 1);
        next.exists("/n").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn manager_stops_when_its_client_is_closed() {
    for by_the_manager in [true, false] {
        let ensemble = Ensemble::new();
        let sessions = ensemble.sessions().await;
        let mut changes = sessions.changes();
        if by_the_manager {
            sessions.close().await;
        } else {
            sessions.client().close().await;
        }
        let closed = ErrorKind::SessionEnded(SessionEnd::Closed);
        let last = loop {
            match changes.next().await {
                Some(SessionChange::Stopped(error)) => break error,
                Some(SessionChange::Ended { .. }) => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(*last.kind(), closed);
        let said = SessionChange::Stopped(last.clone()).to_string();
        assert_eq!(said, "the session manager is closed");
        assert_eq!(changes.next().await, None);
        let mut late = sessions.changes();
        assert_eq!(late.next().await, Some(SessionChange::Stopped(last.clone())));
        assert_eq!(late.next().await, None);
        let error = sessions.open_client().await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::ManagerStopped(last));
        assert_eq!(error.retry_on(), RetryOn::Never);
        assert!(ensemble.state().is_closed());
    }
}

#[tokio::test(start_paused = true)]
async fn manager_retries_without_end_while_servers_refuse() {
    let ensemble = Ensemble::new();
    let sessions = ensemble.sessions().await;
    let mut changes = sessions.changes();
    ensemble.state().script.expired = true;
    ensemble.state().refuses = true;
    ensemble.cut();
    let cause = SessionEnd::ExpiredLocally { paused: None };
    assert_eq!(changes.next().await, Some(SessionChange::Ended { session_id: ID, cause }));
    for number in 1..50 {
        let Some(SessionChange::AttemptFailed { attempts, pause, .. }) = changes.next().await
        else {
            panic!("attempt {number}")
        };
        assert_eq!(attempts, number);
        assert!(pause <= NEXT_SESSION_PAUSE_MAX);
    }
    assert_eq!(sessions.client().end_reason(), Some(cause), "the last client is still there");
    ensemble.state().refuses = false;
    sessions.open_client().await.unwrap().exists("/n").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn manager_pauses_when_sessions_end_early() {
    let ensemble = Ensemble::new();
    let sessions = ensemble.sessions().await;
    let begun = now();
    for _ in 0..30 {
        let client = sessions.open_client().await.unwrap();
        ensemble.expire();
        client.wait_for_end().await;
    }
    // The pauses double up to ten seconds each; the random part shortens each by up to half.
    assert!(now() - begun > 20 * NEXT_SESSION_PAUSE_MAX / 2, "{:?}", now() - begun);
}

#[tokio::test(start_paused = true)]
async fn manager_stops_when_its_attempts_are_used_up() {
    let ensemble = Ensemble::new();
    let policy = RetryPolicy::fixed(T / 100).max_attempts(3);
    let config = ensemble.config("a").next_session_policy(policy);
    let sessions = ensemble.manage(config).await;
    ensemble.state().script.expired = true;
    ensemble.state().refuses = true;
    ensemble.cut();
    sessions.client().wait_for_end().await;
    let error = sessions.open_client().await.unwrap_err();
    let ErrorKind::ManagerStopped(why) = error.kind() else { panic!("{error}") };
    assert!(matches!(why.kind(), ErrorKind::NoSession(_)), "{error}");
}

#[test]
fn manager_stops_when_its_runtime_is_shut_down() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ensemble = Ensemble::new();
    let first = runtime();
    let sessions = first.block_on(async {
        let config = ensemble.config("a");
        SessionManager::connect(config.connector(ensemble.clone())).await.unwrap()
    });
    drop(first);
    let error = runtime().block_on(sessions.open_client()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ManagerStopped(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn session_closes_when_last_manager_handle_is_dropped() {
    let ensemble = Ensemble::new();
    let sessions = ensemble.sessions().await;
    let (weak, other) = (sessions.client().weak(), sessions.clone());
    drop(sessions);
    other.client().exists("/n").await.unwrap();
    drop(other);
    assert_eq!(weak.wait_for_end().await, SessionEnd::Closed);
    assert!(ensemble.state().is_closed());
}

#[tokio::test(start_paused = true)]
async fn dropped_manager_ends_its_attempt_to_connect() {
    let ensemble = Ensemble::new();
    let sessions = ensemble.sessions().await;
    ensemble.state().hangs = true;
    ensemble.cut();
    sessions.client().wait_for_end().await;
    let before = ensemble.state().connections;
    ensemble.until(|state| state.connections > before).await;
    drop(sessions);
    let connections = ensemble.state().connections;
    tokio::time::sleep(T).await; // reason: virtual time, in which the attempt would go on
    assert_eq!(ensemble.state().connections, connections);
}

#[tokio::test(start_paused = true)]
async fn manager_starts_while_no_server_accepts() {
    let ensemble = Ensemble::new();
    ensemble.state().refuses = true;
    let config = ensemble.config("a").connector(ensemble.clone());
    let sessions = SessionManager::start(config).unwrap();
    let mut changes = sessions.changes();
    let first = sessions.client();
    let error = first.exists("/n").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::NotOpened), "{error}");
    assert_eq!((error.retry_on(), first.is_connected()), (RetryOn::NewSession, false));
    for expected in 1..=2 {
        let Some(SessionChange::AttemptFailed { attempts, error, .. }) = changes.next().await
        else {
            panic!("another change");
        };
        assert_eq!(attempts, expected, "{error}");
    }
    let opened = sessions.open_client();
    ensemble.state().refuses = false;
    let client = opened.await.unwrap();
    client.exists("/n").await.unwrap();
    let change = changes.next().await.unwrap();
    let expected = SessionChange::Opened { previous_id: SessionId::NONE, session_id: ID };
    assert_eq!(change, expected);
    assert_eq!(change.to_string(), format!("session {ID} is open"));
    let totals = sessions.totals();
    assert_eq!((totals.opened, totals.failed_attempts, totals.connections_lost), (1, 2, 0));
    assert_eq!((totals.expired, totals.rejected), (0, 0), "the end of no session counts");
    sessions.close().await;
    assert_eq!(client.end_reason(), Some(SessionEnd::Closed));
}

#[tokio::test(start_paused = true)]
async fn manager_does_not_start_with_an_impossible_lease() {
    let ensemble = Ensemble::new();
    let config = ensemble.config("a").session_timeout(Duration::from_millis(1));
    let error = SessionManager::start(config.connector(ensemble)).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LeaseImpossible(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn detached_session_is_resumed_by_another_client() {
    let ensemble = Ensemble::new();
    let first = ensemble.client().await;
    let mut events = first.events();
    let credentials = first.session_credentials().unwrap();
    assert_eq!(first.detach(), Some(credentials.clone()));
    assert_eq!(events.next().await, Some(SessionEvent::Detached { session_id: ID }));
    assert_eq!(events.next().await, None);
    drop(first);
    let second = ensemble.connect_with(ensemble.config("a").resume(credentials)).await;
    assert_eq!(second.session_id(), ID);
    assert!(!ensemble.state().is_closed());
    second.close().await;
    assert!(ensemble.state().is_closed());
    assert_eq!((second.detach(), second.session_credentials()), (None, None));
}

#[tokio::test(start_paused = true)]
async fn failed_resume_does_not_close_the_session() {
    let ensemble = Ensemble::new();
    ensemble.state().hangs = true;
    let session = SessionCredentials::new(ID, *script::PASSWORD, Zxid(7));
    let config = ensemble.config("a").resume(session);
    let error = config.clone().connector(ensemble.clone()).connect().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::NoSession(_)), "{error}");
    ensemble.state().hangs = false;
    let client = ensemble.connect_with(config).await;
    let printed = format!("{client:?} {:?}", ensemble.state().script.connects.len());
    assert!(!printed.contains("0123456789abcdef"));
    assert!(!ensemble.ops().contains(&OpCode::CloseSession));
    assert_eq!(client.session_id(), ID);
}

#[tokio::test(start_paused = true)]
async fn manager_stops_when_its_credentials_are_rejected() {
    // By the first server, at the end of the session, or on a new connection of it.
    for (is_started, expires) in [(true, true), (false, true), (false, false)] {
        let ensemble = Ensemble::new();
        let config = ensemble.config("a").auth("digest", "user:password");
        let sessions = if is_started {
            ensemble.state().refuses_auth = true;
            SessionManager::start(config.connector(ensemble.clone())).unwrap()
        } else {
            ensemble.manage(config).await
        };
        let mut changes = sessions.changes();
        ensemble.state().refuses_auth = true;
        ensemble.state().script.expired = expires;
        ensemble.cut();
        if !is_started {
            sessions.client().wait_for_end().await;
        }
        let error = sessions.open_client().await.unwrap_err();
        let ErrorKind::ManagerStopped(why) = error.kind() else { panic!("{error}") };
        assert_eq!(*why.kind(), ErrorKind::SessionEnded(SessionEnd::AuthFailed));
        if !expires {
            let ended = SessionChange::Ended { session_id: ID, cause: SessionEnd::AuthFailed };
            assert_eq!(changes.next().await, Some(ended));
            let totals = sessions.totals();
            assert_eq!((totals.opened, totals.rejected, totals.expired), (1, 1, 0));
        }
    }
}

/// The session to resume still has its locks and nodes, so that failed attempts do not give it up.
#[tokio::test(start_paused = true)]
async fn started_manager_resumes_its_first_session_only() {
    let ensemble = Ensemble::new();
    let credentials = ensemble.client().await.detach().unwrap();
    ensemble.state().refuses = true;
    let config = ensemble.config("a").resume(credentials).connector(ensemble.clone());
    let sessions = SessionManager::start(config).unwrap();
    let mut changes = sessions.changes();
    for _ in 0..2 {
        assert!(matches!(changes.next().await, Some(SessionChange::AttemptFailed { .. })));
    }
    ensemble.state().refuses = false;
    let first = sessions.open_client().await.unwrap();
    ensemble.expire();
    first.wait_for_end().await;
    sessions.open_client().await.unwrap();
    assert_eq!(ensemble.asked(), [SessionId::NONE, ID, ID, SessionId::NONE]);
}
