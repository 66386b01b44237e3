//! Tests of persistent nodes: creation, loss, conflicts and data.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_coordination::limits::{BACKOFF_MAX, RESTORE_PAUSE};
use zk_coordination::session::limits::TTL_MAX;
use zk_coordination::session::{
    Client, CreateMode, ErrorKind, ParentMode, RetryOn, SessionManager, path::parent,
};
use zk_coordination::{NodeMode, NodeState, PersistentNode, PersistentNodeBuilder};
use zk_recipes::limits::UNWATCHED_PAUSE;
use zk_testing::server::NodeKind;
use zk_testing::{Cut, ErrorCode, Op, TestServer};

use crate::{
    MS, T, accept, client, config, cut_off, kind, lose, manager, owner, pass, sessions,
    sessions_and_client, sessions_of_all, settle,
};

pub(crate) const PATH: &str = "/services/web/a";

/// A node at [`PATH`] that is present, with the sessions of its process and another client.
pub(crate) type Kept = (TestServer, SessionManager, Client, PersistentNode);

/// Keeps a node with the data `a`.
pub(crate) async fn kept() -> Kept {
    kept_on(TestServer::in_memory(), |node| node).await
}

/// Keeps a node with these options. Its sessions may use every server.
pub(crate) async fn kept_on(
    server: TestServer,
    options: impl FnOnce(PersistentNodeBuilder<'_>) -> PersistentNodeBuilder<'_>,
) -> Kept {
    let (sessions, operator) = (sessions_of_all(&server, 1).await, client(&server, 2).await);
    let node = options(PersistentNode::builder(&sessions, PATH).data("a")).start().unwrap();
    node.wait_until_present(T).await.unwrap();
    (server, sessions, operator, node)
}

/// Restores the data `a` after each change.
pub(crate) fn restoring(node: PersistentNodeBuilder<'_>) -> PersistentNodeBuilder<'_> {
    node.keep_data()
}

/// Starts a node at [`PATH`].
pub(crate) fn start(sessions: &SessionManager, data: &'static str) -> PersistentNode {
    PersistentNode::start(sessions, PATH, data).unwrap()
}

/// Returns the data of a node that exists.
pub(crate) fn text(server: &TestServer, path: &str) -> String {
    String::from_utf8(crate::data(server, path).unwrap()).unwrap()
}

pub(crate) fn is_missing(server: &TestServer, path: &str) -> bool {
    crate::data(server, path).is_none()
}

pub(crate) fn is_conflict(node: &PersistentNode) -> bool {
    matches!(node.state(), NodeState::Conflict { .. })
}

pub(crate) fn is_refused(state: &NodeState) -> bool {
    matches!(state, NodeState::Refused { .. })
}

/// Asserts that the node is present, and belongs to the current session of the manager.
pub(crate) async fn expect_present(
    server: &TestServer,
    sessions: &SessionManager,
    node: &PersistentNode,
) {
    node.wait_until_present(3 * T).await.unwrap();
    assert_eq!(owner(server, PATH), Some(sessions.client().session_id()));
}

/// Waits until the node has another state than the given one.
async fn next_state(node: &PersistentNode, not: impl Fn(&NodeState) -> bool) -> NodeState {
    node.subscribe().wait_for(|state| !not(state)).await.unwrap().clone()
}

fn is_pending(state: &NodeState) -> bool {
    *state == NodeState::Pending
}

/// Cuts all clients off for a time.
async fn outage(server: &TestServer, length: Duration) {
    cut_off(server);
    pass(length).await;
    accept(server);
}

/// Records each transaction after which the node does not exist, once it has existed.
pub(crate) fn record_gaps(server: &TestServer, path: &'static str) -> Arc<Mutex<u32>> {
    let gaps = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&gaps);
    server.with(|ensemble| {
        let mut has_existed = ensemble.tree().contains(path);
        ensemble.observe(move |tree, _| {
            has_existed |= tree.contains(path);
            if has_existed && !tree.contains(path) {
                *seen.lock().unwrap() += 1;
            }
        });
    });
    gaps
}

/// Lets the client expire its session by its own clock, while the servers keep it.
pub(crate) async fn expire_at_the_client_only(server: &TestServer, sessions: &SessionManager) {
    let old = sessions.client();
    cut_off(server);
    pass(T / 2).await; // the new leader starts the clock of the session again
    let leader = (server.leader() + 1) % server.servers();
    assert!(server.elect(leader));
    old.wait_for_end().await;
    accept(server);
    assert!(server.with(|ensemble| ensemble.is_alive(old.session_id())));
}

#[tokio::test(start_paused = true)]
async fn node_is_created_with_data_below_containers() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let node = start(&sessions, "10.0.0.7");
    assert_eq!(node.state(), NodeState::Pending);
    expect_present(&server, &sessions, &node).await;
    assert_eq!(text(&server, PATH), "10.0.0.7");
    let NodeState::Present { path, stat } = next_state(&node, is_pending).await else { panic!() };
    assert_eq!((&*path, stat.version), (PATH, 0));
    assert_eq!(kind(&server, parent(PATH).unwrap()), NodeKind::Container);
    node.close().await.unwrap();
    assert!(is_missing(&server, PATH));
}

#[tokio::test(start_paused = true)]
async fn deleted_node_is_created_again_with_its_parents() {
    let (server, sessions, operator, node) = kept().await;
    for round in 0..20 {
        let stat = node.wait_until_present(T).await.unwrap();
        let mut deletion = operator.multi().delete(PATH, None);
        if round == 7 {
            deletion = deletion.delete("/services/web", None).delete("/services", None);
        }
        deletion.send().await.unwrap();
        settle().await;
        let again = node.wait_until_present(T).await.unwrap();
        assert!(again.czxid > stat.czxid);
    }
    expect_present(&server, &sessions, &node).await;
}

#[tokio::test(start_paused = true)]
async fn next_session_creates_the_node_after_an_expiry() {
    let (server, sessions, _, node) = kept().await;
    for _ in 0..3 {
        let old = sessions.client().session_id();
        server.expire(old);
        next_state(&node, NodeState::is_present).await;
        expect_present(&server, &sessions, &node).await;
        assert_ne!(sessions.client().session_id(), old);
    }
}

/// Curator adopts the node of its own dead session. The node is missing from the expiry of that
/// session until a watch fires.
#[tokio::test(start_paused = true)]
async fn node_of_own_dead_session_is_replaced_without_a_gap() {
    let (server, sessions, _, node) = kept_on(TestServer::ensemble(3), |node| node).await;
    let gaps = record_gaps(&server, PATH);
    for is_lost_reply_applied in [None, Some(true), Some(false)] {
        let old = sessions.client().session_id();
        let lost = is_lost_reply_applied.map(|is_applied| lose(server.on(Op::Multi), is_applied));
        expire_at_the_client_only(&server, &sessions).await;
        next_state(&node, NodeState::is_present).await;
        expect_present(&server, &sessions, &node).await;
        assert_ne!(sessions.client().session_id(), old);
        assert!(lost.is_none_or(|lost| lost.count() == 1));
        pass(2 * T).await; // in which the servers expire the old session
        assert!(!server.with(|ensemble| ensemble.is_alive(old)));
        expect_present(&server, &sessions, &node).await;
    }
    assert_eq!(*gaps.lock().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn node_of_the_named_earlier_run_is_replaced_without_a_gap() {
    let (server, sessions, earlier) = sessions_and_client().await;
    earlier.ensure_path("/services/web", ParentMode::Persistent).await.unwrap();
    earlier.create(PATH, b"old", CreateMode::Ephemeral).await.unwrap();
    let gaps = record_gaps(&server, PATH);
    let node = PersistentNode::builder(&sessions, PATH).data("new");
    let node = node.previous_session(earlier.session_id()).start().unwrap();
    expect_present(&server, &sessions, &node).await;
    assert_eq!(text(&server, PATH), "new");
    server.expire(earlier.session_id());
    settle().await;
    expect_present(&server, &sessions, &node).await;
    assert_eq!(*gaps.lock().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn resumed_session_adopts_its_named_node() {
    let (server, sessions, _) = sessions_and_client().await;
    let id = sessions.client().session_id();
    sessions.client().create("/n", b"old", CreateMode::Ephemeral).await.unwrap();
    let builder = PersistentNode::builder(&sessions, "/n").data("new").previous_session(id);
    let node = builder.start().unwrap();
    let stat = node.wait_until_present(T).await.unwrap();
    assert_eq!((stat.version, stat.ephemeral_owner), (1, id));
    assert_eq!(text(&server, "/n"), "new");
}

#[tokio::test(start_paused = true)]
async fn node_of_another_process_is_a_conflict_until_it_is_gone() {
    let (server, first, _, node) = kept().await;
    let second = sessions(&server, 3).await;
    let other = start(&second, "second");
    let error = other.wait_until_present(T).await.unwrap_err();
    let NodeState::Conflict { stat, .. } = error.state() else { panic!("{error}") };
    assert_eq!(stat.ephemeral_owner, first.client().session_id());
    assert!(error.to_string().contains("belongs to session"), "{error}");
    let error = other.set_data("overwritten").await.unwrap_err();
    assert!(matches!(error.state(), NodeState::Conflict { .. }), "{error}");
    assert_eq!(error.retry_on(), RetryOn::SameSession);
    assert_eq!(text(&server, PATH), "a");
    node.close().await.unwrap();
    expect_present(&server, &second, &other).await;
    assert_eq!(text(&server, PATH), "overwritten");
}

/// A parent is not to be deleted, so the error does not propose it.
#[tokio::test(start_paused = true)]
async fn persistent_node_at_the_path_is_a_conflict() {
    let (server, sessions, operator) = sessions_and_client().await;
    for (below, expected) in [("", "node of another kind"), ("/used", "has children; use another")]
    {
        operator.create(&format!("/n{below}"), b"kept", CreateMode::Persistent).await.unwrap();
        let node = PersistentNode::start(&sessions, "/n", "a").unwrap();
        let error = node.wait_until_present(T).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(below.is_empty() || !error.contains("delete"), "{error}");
        node.close().await.unwrap();
        assert_eq!(text(&server, "/n"), "kept");
    }
}

/// CURATOR-53: the node was not created if the servers were down at the start.
#[tokio::test(start_paused = true)]
async fn curator_53_node_is_created_if_servers_were_down_at_start() {
    for length in [T / 2, 3 * T] {
        let (server, sessions, _) = sessions_and_client().await;
        cut_off(&server);
        let node = start(&sessions, "a");
        outage(&server, length).await;
        expect_present(&server, &sessions, &node).await;
    }
}

/// CURATOR-97: the node was not created again after an outage.
#[tokio::test(start_paused = true)]
async fn curator_97_node_is_created_again_after_outages() {
    let (server, sessions, _, node) = kept().await;
    for length in [T / 4, 2 * T, T / 2, 30 * T] {
        outage(&server, length).await;
        pass(T).await; // in which the sessions reconnect
        expect_present(&server, &sessions, &node).await;
    }
}

/// CURATOR-154: a reconnect restored the data of the start in place of updated data.
#[tokio::test(start_paused = true)]
async fn curator_154_updated_data_is_kept_on_the_next_session() {
    let (server, sessions, _, node) = kept().await;
    node.set_data("new").await.unwrap();
    assert_eq!(text(&server, PATH), "new");
    server.expire(sessions.client().session_id());
    next_state(&node, NodeState::is_present).await;
    expect_present(&server, &sessions, &node).await;
    assert_eq!(text(&server, PATH), "new");

    // Data that is set during an outage is written after it.
    cut_off(&server);
    drop(node.set_data("skipped"));
    let set = node.set_data("newest");
    outage(&server, 2 * T).await;
    set.await.unwrap();
    expect_present(&server, &sessions, &node).await;
    assert_eq!(text(&server, PATH), "newest");
}

/// CURATOR-258: after a change of the data, a deletion was not noticed any more.
#[tokio::test(start_paused = true)]
async fn curator_258_node_is_watched_after_a_change_of_its_data() {
    let (server, sessions, operator, node) = kept().await;
    for change in 0..3 {
        operator.set_data(PATH, b"x", None).await.unwrap();
        settle().await;
        assert_eq!(node.state().stat().unwrap().version, change + 1);
    }
    operator.delete(PATH, None).await.unwrap();
    settle().await;
    expect_present(&server, &sessions, &node).await;
    assert_eq!(text(&server, PATH), "a");
}

#[tokio::test(start_paused = true)]
async fn overwritten_data_is_restored_only_if_it_is_kept() {
    let (server, _sessions, operator, node) = kept().await;
    operator.set_data(PATH, b"overwritten", None).await.unwrap();
    pass(T).await; // in which the data could be restored
    assert_eq!(text(&server, PATH), "overwritten");
    node.set_data("a").await.unwrap();
    assert_eq!(text(&server, PATH), "a");

    let (server, _sessions, operator, node) = kept_on(TestServer::in_memory(), restoring).await;
    for _ in 0..3 {
        operator.set_data(PATH, b"overwritten", None).await.unwrap();
        pass(RESTORE_PAUSE + 50 * MS).await;
        assert_eq!(text(&server, PATH), "a");
    }
    operator.set_data(PATH, b"overwritten", None).await.unwrap();
    pass(RESTORE_PAUSE / 10).await;
    operator.delete(PATH, None).await.unwrap();
    pass(RESTORE_PAUSE / 10).await;
    assert_eq!(text(&server, PATH), "a", "a deletion ends the pause");
    assert!(node.state().is_present());
}

#[tokio::test(start_paused = true)]
async fn refused_creation_is_repeated_with_growing_pauses() {
    let (server, sessions, _) = sessions_and_client().await;
    let refusal = server.on(Op::Create2).always().answer(ErrorCode::NO_AUTH);
    let node = PersistentNode::start(&sessions, "/n", "a").unwrap();
    let state = next_state(&node, is_pending).await;
    let NodeState::Refused { error } = &state else { panic!("{state}") };
    assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
    assert!(state.to_string().contains("permit the client to create"), "{state}");
    let error = node.set_data("b").await.unwrap_err();
    assert!(is_refused(error.state()), "{error}");
    assert_eq!(error.retry_on(), RetryOn::Never);
    pass(60 * BACKOFF_MAX).await; // in which the pauses grow up to their limit
    let count = refusal.count();
    assert!((60..140).contains(&count), "{count} attempts in ten minutes");
    while refusal.count() == count {
        settle().await;
    }
    refusal.cancel();
    server.expire(sessions.client().session_id());
    node.wait_until_present(BACKOFF_MAX / 4).await.expect("at once on the next session");
    assert_eq!(text(&server, "/n"), "b");
}

#[tokio::test(start_paused = true)]
async fn refused_node_is_created_again_right_after_its_deletion() {
    let (server, sessions, operator, node) = kept().await;
    let refusal = server.on(Op::SetData).session(sessions.client().session_id()).always();
    let refusal = refusal.answer(ErrorCode::NO_AUTH);
    node.set_data("b").await.unwrap_err();
    pass(6 * BACKOFF_MAX).await; // in which the pauses grow up to their limit
    operator.set_data(PATH, b"x", None).await.unwrap();
    settle().await;
    let count = refusal.count();
    operator.delete(PATH, None).await.unwrap();
    settle().await;
    expect_present(&server, &sessions, &node).await;
    assert_eq!((&*text(&server, PATH), refusal.count()), ("b", count), "no change ends a pause");
}

/// A server closes the connection of a client that sends too much.
#[tokio::test(start_paused = true)]
async fn too_large_data_is_rejected_and_the_node_keeps_its_data() {
    let (server, sessions, operator) = sessions_and_client().await;
    for mode in [NodeMode::Ephemeral, NodeMode::EphemeralSequential, NodeMode::Persistent] {
        let node = PersistentNode::builder(&sessions, "/n").mode(mode).data("a").start().unwrap();
        node.wait_until_present(T).await.unwrap();
        let NodeState::Present { path, .. } = node.state() else { panic!() };
        let (mut largest, mut too_large) = (0, 2 << 20);
        while too_large - largest > 1 {
            let middle = usize::midpoint(largest, too_large);
            match node.check_data(&vec![0; middle]) {
                Ok(()) => largest = middle,
                Err(_) => too_large = middle,
            }
        }
        let error = node.set_data(vec![0; largest + 1]).await.unwrap_err();
        let NodeState::Refused { error: cause } = error.state() else { panic!("{error}") };
        assert!(matches!(cause.kind(), ErrorKind::TooLarge { .. }), "{error}");
        assert!(node.state().is_present());
        operator.delete(&path, None).await.unwrap();
        settle().await;
        assert_eq!(text(&server, &path), "a");
        node.set_data(vec![1; largest]).await.unwrap();
        server.expire(sessions.client().session_id());
        settle().await;
        node.wait_until_present(T).await.unwrap();
        assert_eq!(text(&server, &path).len(), largest);
        node.close().await.unwrap();
    }
    let error = PersistentNode::start(&sessions, "/n", vec![0; 2 << 20]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn sequential_node_keeps_its_name() {
    let (server, sessions, operator) = sessions_and_client().await;
    let lost = server.on(Op::Create2).nth(3).apply_then_drop_reply();
    let builder = PersistentNode::builder(&sessions, "/workers/w-");
    let node = builder.mode(NodeMode::EphemeralSequential).data("a").start().unwrap();
    node.wait_until_present(T).await.unwrap();
    let NodeState::Present { path, .. } = node.state() else { panic!() };
    assert!(path.ends_with("-w-0000000000"), "{path}");
    operator.delete(&path, None).await.unwrap();
    settle().await;
    node.wait_until_present(T).await.unwrap();
    server.expire(sessions.client().session_id());
    next_state(&node, NodeState::is_present).await;
    node.wait_until_present(T).await.unwrap();
    let names = crate::children(&server, "/workers");
    assert_eq!((names.len(), lost.count()), (1, 1), "the lost reply left a node");
    assert!(!is_missing(&server, &path));
    node.close().await.unwrap();
    assert!(is_missing(&server, &path));
}

#[tokio::test(start_paused = true)]
async fn persistent_node_is_adopted_and_deleted_at_the_end() {
    let (server, sessions, operator) = sessions_and_client().await;
    operator.create("/n", b"old", CreateMode::Persistent).await.unwrap();
    let builder = PersistentNode::builder(&sessions, "/n").mode(NodeMode::Persistent);
    let node = builder.data("new").start().unwrap();
    node.wait_until_present(T).await.unwrap();
    assert_eq!(text(&server, "/n"), "new");
    operator.delete("/n", None).await.unwrap();
    settle().await;
    server.expire(sessions.client().session_id());
    settle().await;
    node.wait_until_present(T).await.unwrap();
    operator.create("/n/child", b"", CreateMode::Persistent).await.unwrap();
    let error = node.close().await.unwrap_err();
    let NodeState::Closed { error: Some(cause) } = error.state() else { panic!("{error}") };
    assert_eq!(cause.code(), Some(ErrorCode::NOT_EMPTY));
}

#[tokio::test(start_paused = true)]
async fn unwatched_node_is_created_again() {
    let server = TestServer::in_memory();
    let sessions = manager(&server, config(1).max_watches(0)).await;
    let node = start(&sessions, "a");
    expect_present(&server, &sessions, &node).await;
    client(&server, 2).await.delete(PATH, None).await.unwrap();
    pass(UNWATCHED_PAUSE + 50 * MS).await;
    expect_present(&server, &sessions, &node).await;
}

#[tokio::test(start_paused = true)]
async fn slow_follower_causes_no_conflict() {
    let server = TestServer::ensemble(3);
    for follower in [1, 2] {
        server.lag(follower, 700 * MS);
    }
    let (sessions, operator) = (sessions_of_all(&server, 5).await, client(&server, 2).await);
    let node = start(&sessions, "a");
    let mut states = node.subscribe();
    let watching = tokio::spawn(async move {
        let conflict = states.wait_for(|state| matches!(state, NodeState::Conflict { .. })).await;
        conflict.is_ok()
    });
    for _ in 0..5 {
        expect_present(&server, &sessions, &node).await;
        operator.delete(PATH, None).await.unwrap();
        server.connection_of(sessions.client().session_id()).cut(Cut::Rst);
        pass(T / 2).await; // in which the follower catches up
    }
    expect_present(&server, &sessions, &node).await;
    node.close().await.unwrap();
    assert!(!watching.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn stopped_session_manager_ends_the_node() {
    let (server, sessions, _, node) = kept().await;
    sessions.close().await;
    settle().await;
    let state = node.state();
    let NodeState::Stopped { error } = &state else { panic!("{state}") };
    assert!(matches!(error.kind(), ErrorKind::ManagerStopped(_)), "{error}");
    assert!(state.is_closed() && !state.to_string().contains("closed, and"), "{state}");
    assert_ne!(error.retry_on(), RetryOn::SameSession);
    assert!(node.set_data("b").await.is_err());
    assert!(node.close().await.is_err());
    assert!(is_missing(&server, PATH));
}

#[tokio::test(start_paused = true)]
async fn dropped_handle_and_manager_end_the_session() {
    let (server, sessions, _) = sessions_and_client().await;
    let id = sessions.client().session_id();
    let is_alive = || server.with(|ensemble| ensemble.is_alive(id));
    let node = start(&sessions, "a");
    drop(sessions);
    node.wait_until_present(T).await.unwrap();
    assert!(is_alive(), "the handle keeps the sessions alive");
    drop(node);
    settle().await;
    assert!(!is_alive());
}

#[tokio::test(start_paused = true)]
async fn created_node_costs_two_requests_and_close_three() {
    let (_server, sessions, operator) = sessions_and_client().await;
    operator.create("/p", b"", CreateMode::Persistent).await.unwrap();
    let before = sessions.client().stats().frames_sent;
    let requests = || sessions.client().stats().frames_sent - before;
    let node = PersistentNode::start(&sessions, "/p/n", "a").unwrap();
    node.wait_until_present(T).await.unwrap();
    assert_eq!(requests(), 2);
    operator.delete("/p/n", None).await.unwrap();
    settle().await;
    node.wait_until_present(T).await.unwrap();
    assert_eq!(requests(), 4);
    node.close().await.unwrap();
    assert_eq!(requests(), 7);
}

/// The handle would try for ever.
#[tokio::test(start_paused = true)]
async fn time_to_live_that_no_server_takes_is_refused_at_once() {
    let (_server, sessions, client) = sessions_and_client().await;
    for ttl in [Duration::ZERO, Duration::from_micros(999), TTL_MAX + MS] {
        let refused = PersistentNode::builder(&sessions, "/n").mode(NodeMode::Ttl(ttl)).start();
        assert_eq!(*refused.unwrap_err().kind(), ErrorKind::InvalidTtl(ttl));
        let created = client.create_builder("/n").ttl(ttl).create().await;
        assert_eq!(*created.unwrap_err().kind(), ErrorKind::InvalidTtl(ttl));
        let sent = client.multi().create_with_ttl("/n", b"", ttl).send().await;
        assert_eq!(*sent.unwrap_err().kind(), ErrorKind::InvalidTtl(ttl));
    }
}
