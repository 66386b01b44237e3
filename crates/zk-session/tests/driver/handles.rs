//! What a handle reports about its session, and what its methods do to the session.

use std::panic::Location;

use zk_session::DelayedStart;

use super::*;

#[tokio::test(start_paused = true)]
async fn handle_reports_its_name_and_full_paths() {
    let ensemble = Ensemble::new();
    let client = ensemble.connect_with(ensemble.config("a/app").name("billing")).await;
    assert_eq!(client.name(), Some("billing"));
    assert_eq!(client.full_path("/n"), "/app/n");
    assert_eq!(client.full_path("/"), "/app");
    assert_eq!(client.full_path("le"), "le", "the chroot does not make the path valid");
    assert_eq!(client.chroot("/7").unwrap().full_path("/n"), "/app/7/n");
    assert_eq!(ensemble.client().await.name(), None);
}

#[tokio::test(start_paused = true)]
async fn handle_reports_lost_connections_and_their_cause() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    assert_eq!((client.connections_lost(), client.last_disconnect()), (0, None));
    for lost in 1..=2 {
        ensemble.cut_and_wait(&client).await;
        assert_eq!((client.connections_lost(), client.last_disconnect()), (lost, None));
    }
    ensemble.state().refuses = true;
    let before = ensemble.state().connections;
    ensemble.cut();
    ensemble.until(|state| state.connections > before + 1).await;
    let refused = DisconnectReason::Unreachable(io::ErrorKind::ConnectionRefused);
    assert_eq!(client.last_disconnect(), Some(refused));
}

#[tokio::test(start_paused = true)]
async fn update_servers_rejects_another_chroot() {
    for (connected, updated, is_accepted) in [
        ("a/app", "b/app", true),
        ("a/app", "b", true),
        ("a/app", "b/other", false),
        ("a", "b", true),
        ("a", "b/app", false),
    ] {
        let ensemble = Ensemble::new();
        let client = ensemble.connect_with(ensemble.config(connected)).await;
        let result = client.update_servers(updated);
        assert_eq!(result.is_ok(), is_accepted, "from {connected} to {updated}: {result:?}");
        if let Err(error) = result {
            assert!(matches!(error.kind(), ErrorKind::InvalidConnectString(_)), "{error}");
            assert!(error.to_string().contains("the chroot cannot be changed"), "{error}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn spawn_runs_the_future_until_it_is_aborted() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let (tell, told) = tokio::sync::oneshot::channel();
    let spawned = client.runtime().spawn(async move { tell.send("done").unwrap() });
    assert!(spawned.is_some());
    assert_eq!(told.await, Ok("done"));
    let (tell, told) = tokio::sync::oneshot::channel::<()>();
    let spawned = client.runtime().spawn(async move {
        std::future::pending::<()>().await;
        drop(tell);
    });
    spawned.unwrap().abort();
    assert!(told.await.is_err(), "the future is dropped");
}

/// An object whose work is to send its number.
struct Work(u32, tokio::sync::mpsc::UnboundedSender<u32>);

impl DelayedStart for Work {
    fn start(self: Arc<Self>) {
        self.1.send(self.0).unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn start_after_skips_objects_that_are_dropped_before() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let mut started = async |wait| {
        // reason: virtual time, up to the end of a delay or to shortly before it
        tokio::time::sleep(wait).await;
        std::iter::from_fn(|| told.try_recv().ok()).collect::<Vec<_>>()
    };
    let (delay, margin) = (Duration::from_millis(100), Duration::from_millis(2));
    // The second time, the task that waited for the first objects has ended.
    for time in ["first", "second"] {
        let mut works = [1, 2, 3, 4].map(|number| Some(Arc::new(Work(number, tell.clone()))));
        let start_after = |delay, work: &Option<Arc<Work>>| {
            let weak = Arc::downgrade(work.as_ref().unwrap());
            client.runtime().start_after(delay, weak);
        };
        let late = Some(Arc::new(Work(5, tell.clone())));
        start_after(delay * 3, &late);
        works[..3].iter().for_each(|work| start_after(delay, work));
        works[0] = None;
        assert_eq!(started(delay / 2).await, [], "{time}");
        start_after(delay, &works[3]);
        assert_eq!(started(delay / 2 - margin).await, [], "{time}");
        works[2] = None;
        assert_eq!(started(margin * 2).await, [2], "{time}");
        assert_eq!(started(delay / 2 - margin * 2).await, [], "{time}: the last one waits longer");
        assert_eq!(started(margin * 2).await, [4], "{time}");
        assert_eq!(started(delay * 3).await, [5], "{time}: each starts once");
    }
}

#[tokio::test(start_paused = true)]
async fn batch_delays_its_requests_until_it_is_dropped() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    ensemble.state().writes.clear();
    let batch = client.batch();
    let (first, second) = (client.exists("/n"), client.get_data("/n"));
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ensemble.state().writes, []);
    drop(batch);
    first.await.unwrap();
    second.await.unwrap();
    assert_eq!(ensemble.state().writes.len(), 1);
}

/// The servers apply a container only from its own operation.
#[tokio::test(start_paused = true)]
async fn container_in_a_transaction_has_its_own_operation() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let multi = client.multi().create("/c", b"", CreateMode::Container);
    multi.send().await.unwrap_err(); // the script answers without results
    let state = ensemble.state();
    let (_, frame) = state.seen.last().unwrap();
    let (path, mode) = ("/c".into(), CreateMode::Container);
    let (data, acl) = (Some((&[]).into()), proto::OPEN_ACL_UNSAFE.into());
    let create = proto::CreateContainer { path, data, acl, mode };
    assert_eq!(frame.read::<proto::Multi<'_>>(), proto::Multi::new(&[create.into()]));
}

/// The server removes a watch only when the client tells it to. A client that creates and drops
/// watches on many nodes would fill the server's memory.
#[tokio::test(start_paused = true)]
async fn dropped_watch_is_removed_from_the_server_unless_it_fired() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let (_, watch) = client.get_data_and_watch("/n").await.unwrap();
    let began = now();
    drop(watch);
    ensemble.until(|state| state.has_received(OpCode::RemoveWatches, "/n")).await;
    let after = now() - began;
    assert!(after <= zk_session::limits::REMOVAL_DELAY * 2, "{after:?}");
}

/// Debug texts reach logs. They identify the value and show no secret.
#[tokio::test(start_paused = true)]
async fn debug_texts_identify_values_and_show_no_secret() {
    #[track_caller]
    fn assert_shows(value: &dyn std::fmt::Debug, texts: &[&str]) {
        let printed = format!("{value:?}");
        for text in texts {
            assert!(printed.contains(text), "{}: no {text} in {printed}", Location::caller());
        }
        for secret in ["sesame", "0123456789abcdef"] {
            assert!(!printed.contains(secret), "{}: {printed}", Location::caller());
        }
    }
    let ensemble = Ensemble::new();
    let config = ensemble.config("a/app").auth("digest", "alice:sesame");
    assert_shows(&config, &["Credential", "digest"]);
    let sessions = ensemble.manage(config).await;
    let client = sessions.client();
    assert_shows(&client, &["Client", "session_id: 0x100000001", "/app"]);
    assert_shows(&sessions, &["SessionManager", "session_id: 0x100000001"]);
    assert_shows(&client.batch(), &["Batch"]);
    assert_shows(&client.get_data("/n"), &["Pending", "GetData", "/n"]);
    let (_, watch) = client.get_data_and_watch("/n").await.unwrap();
    assert_shows(&watch, &["Watch", "/app/n"]);
    assert_shows(&client.watch("/n").await.unwrap(), &["WatchStream", "/app/n"]);
}

#[test]
fn lease_losses_and_session_changes_have_readable_texts() {
    use zk_session::SessionChange;
    let second = Duration::from_secs(1);
    for (loss, text) in [
        (LeaseLoss::SessionEnded(SessionEnd::Expired), "the session expired"),
        (LeaseLoss::DeadlinePassed, "the ensemble did not answer within the lease"),
    ] {
        assert_eq!(loss.to_string(), text);
    }
    let paused = LeaseLoss::ProcessPaused(9 * second).to_string();
    assert!(
        paused.contains("9") && paused.ends_with(", and the lease ended meanwhile"),
        "{paused}"
    );
    let cause = SessionEnd::Expired;
    let closed = zk_session::Error::from(SessionEnd::Closed);
    let error = zk_session::Error::from(SessionEnd::AuthFailed);
    for (change, text) in [
        (
            SessionChange::Ended { session_id: SessionId(0x1f), cause },
            "session 0x1f: the session expired".to_owned(),
        ),
        (
            SessionChange::AttemptFailed { error: error.clone(), attempts: 3, pause: second },
            format!("attempt 3 failed: {error}; the next one in 1.0s"),
        ),
        (
            SessionChange::Opened { previous_id: SessionId(0x1f), session_id: SessionId(0x20) },
            "session 0x20 takes the place of 0x1f".to_owned(),
        ),
        (SessionChange::Stopped(error.clone()), format!("no next session: {error}")),
        (SessionChange::Stopped(closed), "the session manager is closed".to_owned()),
        (SessionChange::Missed(4), "4 changes were missed".to_owned()),
    ] {
        assert_eq!(change.to_string(), text);
    }
}

/// The future was not polled yet.
#[tokio::test(start_paused = true)]
async fn create_builder_sends_its_request_when_called() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    for (path, is_protected) in [("/n/plain", false), ("/n/protected", true)] {
        let builder = client.create_builder(path);
        let created = if is_protected { builder.protected().create() } else { builder.create() };
        client.sync("/n").await.unwrap();
        let is_sent =
            |frame: &Frame| frame.op == OpCode::Create2 && frame.path().contains(&path[3..]);
        assert!(ensemble.state().seen.iter().any(|(_, frame)| is_sent(frame)), "{path}");
        created.await.unwrap();
    }
}

/// The servers may not exist.
#[tokio::test(start_paused = true)]
async fn request_before_the_first_session_has_a_time_limit() {
    let ensemble = Ensemble::new();
    ensemble.state().refuses = true;
    let config = ensemble.config("a").connect_timeout(Duration::from_secs(7));
    let (client, began) = (config.connector(ensemble.clone()).open().unwrap(), now());
    assert_eq!((client.is_connected(), client.session_id()), (false, SessionId::NONE));
    let error = client.get_data("/n").await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::TimedOut, "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert_eq!(now() - began, Duration::from_secs(7));
    // A session that was open waits for a server, as documented.
    ensemble.state().refuses = false;
    client.get_data("/n").await.unwrap();
    assert!(client.is_connected());
}

#[tokio::test(start_paused = true)]
async fn idle_session_moves_at_once_when_its_server_is_removed() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    let began = now();
    client.update_servers("b").unwrap();
    ensemble.until(|state| state.connections == 2).await;
    assert!(now() - began < T / 10, "{:?}", now() - began);
}
