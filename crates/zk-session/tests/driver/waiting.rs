//! How long callers wait, and which outcome they get at the end.

use super::*;
use zk_session::RetryOn;
use zk_session_core::Limit;

#[tokio::test(start_paused = true)]
async fn with_timeout_replaces_the_request_timeout() {
    let ensemble = Ensemble::new();
    let client =
        ensemble.connect_with(ensemble.config("a").request_timeout(Duration::from_secs(2))).await;
    ensemble.state().unanswered.insert(OpCode::SetData.code());
    let start = now();
    let short = client.with_timeout(Duration::from_millis(300)).set_data("/n", b"", None);
    let long = client.set_data("/n", b"", None);
    let error = short.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::TimedOut, Outcome::Unknown));
    assert_eq!(
        error.to_string(),
        "setData /n: no answer within the timeout (the request may have been applied)"
    );
    assert!(start.elapsed() < Duration::from_millis(310), "{:?}", start.elapsed());
    assert!(error.retry_on() != RetryOn::SameSession);
    long.await.unwrap_err();
    assert!(start.elapsed() < Duration::from_millis(2010), "{:?}", start.elapsed());

    ensemble.state().refuses = true;
    ensemble.cut();
    while client.is_connected() {
        tokio::task::yield_now().await;
    }
    let error = client.exists("/n").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::TimedOut, Outcome::NotApplied));
    assert!(error.retry_on() == RetryOn::SameSession);
}

#[tokio::test(start_paused = true)]
async fn request_dropped_while_queued_is_withdrawn() {
    let ensemble = Ensemble::new();
    ensemble.state().hangs = true;
    let client = ensemble.config("a").connector(ensemble.clone()).open().unwrap();
    let limit = zk_session::limits::REQUESTS_MAX;
    let asked: Vec<_> = (0..limit).map(|_| client.exists("/n")).collect();
    let error = client.exists("/n").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitReached(Limit::Requests)), "{error}");
    drop(asked);
    assert_eq!((client.stats().queued, client.stats().queued_bytes), (0, 0));
    let one_more = client.exists("/n");
    ensemble.state().hangs = false;
    assert!(one_more.await.unwrap().is_some());
    client.close().await;
    assert_eq!(ensemble.count(OpCode::Exists), 1);
}

#[tokio::test(start_paused = true)]
async fn guaranteed_delete_continues_after_its_timeout() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    ensemble.state().unanswered = BTreeSet::from([OpCode::Delete.code()]);
    let second = Duration::from_secs(1);
    let began = now();
    let error = client.with_timeout(second).delete_guaranteed("/n/a").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::TimedOut, Outcome::Unknown));
    assert_eq!(now() - began, second);

    // Without a timeout, the caller waits over reconnects until a server answers.
    let without_bound = tokio::spawn(client.delete_guaranteed("/n/b"));
    ensemble.until(|state| state.connections > 2).await;
    assert!(!without_bound.is_finished());
    let before = {
        let mut state = ensemble.state();
        state.unanswered.clear();
        state.seen.len()
    };
    let is_delete = |frame: &Frame| frame.op == OpCode::Delete && frame.path() == "/n/a";
    ensemble.until(|state| state.seen[before..].iter().any(|(_, frame)| is_delete(frame))).await;
    assert!(without_bound.await.unwrap().unwrap());
}

/// Credentials that are not answered in time stay with the session, which presents them again.
#[tokio::test(start_paused = true)]
async fn unanswered_credentials_do_not_fail_the_connect() {
    let ensemble = Ensemble::new();
    ensemble.state().unanswered.insert(OpCode::Auth.code());
    let config = ensemble.config("a").auth("digest", "user:password");
    let config = config.request_timeout(Duration::from_millis(300));
    let client = ensemble.connect_with(config).await;
    assert!(client.is_connected());
}
