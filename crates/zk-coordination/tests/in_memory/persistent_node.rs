//! Tests of persistent nodes: creation, loss, conflicts and data.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use zk_coordination::limits::{BACKOFF_MAX, RESTORE_PAUSE};
use zk_coordination::session::limits::TTL_MAX;
use zk_coordination::session::{
    Client, CreateMode, ErrorKind, RetryOn, SessionId, SessionManager, path::parent,
};
use zk_coordination::{NodeMode, NodeState, PersistentNode};
use zk_recipes::limits::UNWATCHED_PAUSE;
use zk_testing::{Cut, ErrorCode, Op, TestServer};

use crate::{T, client, config, sessions, settle};

pub(crate) const PATH: &str = "/services/web/a";

/// A node on the leader.
pub(crate) struct Found {
    pub(crate) data: Vec<u8>,
    pub(crate) owner: SessionId,
}

pub(crate) fn found(server: &TestServer, path: &str) -> Option<Found> {
    server.with(|ensemble| {
        let node = ensemble.tree().node(path)?;
        let data = node.data().unwrap_or_default().to_vec();
        Some(Found { data, owner: node.stat().ephemeral_owner })
    })
}

fn data(server: &TestServer) -> Vec<u8> {
    found(server, PATH).unwrap().data
}

/// Asserts that the node is present, and belongs to the current session of the manager.
pub(crate) async fn expect_present(
    server: &TestServer,
    sessions: &SessionManager,
    node: &PersistentNode,
) {
    node.wait_until_present(3 * T).await.unwrap();
    let owner = found(server, PATH).map(|node| node.owner);
    assert_eq!(owner, Some(sessions.client().session_id()));
}

/// Waits until the node has another state than the given one.
async fn next_state(node: &PersistentNode, not: impl Fn(&NodeState) -> bool) -> NodeState {
    node.subscribe().wait_for(|state| !not(state)).await.unwrap().clone()
}

fn is_pending(state: &NodeState) -> bool {
    *state == NodeState::Pending
}

/// Opens sessions that know all servers of an ensemble.
pub(crate) async fn sessions_of_all(server: &TestServer, seed: u128) -> SessionManager {
    let hosts: Vec<String> =
        (0..server.servers()).map(|index| format!("server-{index}:1")).collect();
    let config = zk_coordination::session::Config::new(&hosts.join(",")).unwrap();
    let config = config.session_timeout(T).seed(seed);
    SessionManager::connect(config.connector(server.clone())).await.unwrap()
}

/// Cuts all clients off for a time.
async fn outage(server: &TestServer, length: Duration) {
    (0..server.servers()).for_each(|index| server.refuse_connects(index));
    server.connections().cut(Cut::Rst);
    // reason: virtual time, the length of the outage
    tokio::time::sleep(length).await;
    (0..server.servers()).for_each(|index| server.accept_connects(index));
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
    (0..server.servers()).for_each(|index| server.refuse_connects(index));
    server.connections().cut(Cut::Rst);
    // reason: virtual time; the new leader starts the clock of the session again
    tokio::time::sleep(T / 2).await;
    let leader = (server.leader() + 1) % server.servers();
    assert!(server.elect(leader));
    old.wait_for_end().await;
    (0..server.servers()).for_each(|index| server.accept_connects(index));
    assert!(server.with(|ensemble| ensemble.is_alive(old.session_id())));
}

#[tokio::test(start_paused = true)]
async fn node_is_created_with_data_below_containers() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let node = PersistentNode::start(&sessions, PATH, "10.0.0.7").unwrap();
    assert_eq!(node.state(), NodeState::Pending);
    expect_present(&server, &sessions, &node).await;
    assert_eq!(data(&server), b"10.0.0.7");
    let NodeState::Present { path, stat } = next_state(&node, is_pending).await else { panic!() };
    assert_eq!((&*path, stat.version), (PATH, 0));
    let kind = |path: &str| server.with(|ensemble| ensemble.tree().node(path).unwrap().kind());
    assert_eq!(kind(parent(PATH).unwrap()), zk_testing::server::NodeKind::Container);
    node.close().await.unwrap();
    assert!(found(&server, PATH).is_none());
}

#[tokio::test(start_paused = true)]
async fn deleted_node_is_created_again() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    for _ in 0..20 {
        let stat = node.wait_until_present(T).await.unwrap();
        operator.delete(PATH, None).await.unwrap();
        settle().await;
        let again = node.wait_until_present(T).await.unwrap();
        assert!(again.czxid > stat.czxid);
    }
    expect_present(&server, &sessions, &node).await;
}

#[tokio::test(start_paused = true)]
async fn deleted_parents_are_created_again() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    expect_present(&server, &sessions, &node).await;
    let all = operator.multi().delete(PATH, None).delete("/services/web", None);
    all.delete("/services", None).send().await.unwrap();
    settle().await;
    expect_present(&server, &sessions, &node).await;
}

#[tokio::test(start_paused = true)]
async fn next_session_creates_the_node_after_an_expiry() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    for _ in 0..3 {
        expect_present(&server, &sessions, &node).await;
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
    let server = TestServer::ensemble(3);
    let sessions = sessions_of_all(&server, 1).await;
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    expect_present(&server, &sessions, &node).await;
    let gaps = record_gaps(&server, PATH);
    for _ in 0..3 {
        let old = sessions.client().session_id();
        expire_at_the_client_only(&server, &sessions).await;
        next_state(&node, NodeState::is_present).await;
        expect_present(&server, &sessions, &node).await;
        assert_ne!(sessions.client().session_id(), old);
        // reason: virtual time, in which the servers expire the old session
        tokio::time::sleep(2 * T).await;
        assert!(!server.with(|ensemble| ensemble.is_alive(old)));
        expect_present(&server, &sessions, &node).await;
    }
    assert_eq!(*gaps.lock().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn replacement_has_no_gap_when_its_reply_is_lost() {
    for is_applied in [true, false] {
        let server = TestServer::ensemble(3);
        let sessions = sessions_of_all(&server, 1).await;
        let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
        expect_present(&server, &sessions, &node).await;
        let gaps = record_gaps(&server, PATH);
        let lost = if is_applied {
            server.on(Op::Multi).apply_then_drop_reply()
        } else {
            server.on(Op::Multi).drop_before_applying()
        };
        expire_at_the_client_only(&server, &sessions).await;
        next_state(&node, NodeState::is_present).await;
        expect_present(&server, &sessions, &node).await;
        assert_eq!((lost.count(), *gaps.lock().unwrap()), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn node_of_the_named_earlier_run_is_replaced_without_a_gap() {
    let server = TestServer::in_memory();
    let earlier = client(&server, 1).await;
    earlier
        .ensure_path("/services/web", zk_coordination::session::ParentMode::Persistent)
        .await
        .unwrap();
    earlier.create(PATH, b"old", CreateMode::Ephemeral).await.unwrap();
    let gaps = record_gaps(&server, PATH);
    let sessions = sessions(&server, 2).await;
    let node = PersistentNode::builder(&sessions, PATH)
        .data("new")
        .previous_session(earlier.session_id())
        .start()
        .unwrap();
    expect_present(&server, &sessions, &node).await;
    assert_eq!(data(&server), b"new");
    server.expire(earlier.session_id());
    settle().await;
    expect_present(&server, &sessions, &node).await;
    assert_eq!(*gaps.lock().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn resumed_session_adopts_its_named_node() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let id = sessions.client().session_id();
    sessions.client().create("/n", b"old", CreateMode::Ephemeral).await.unwrap();
    let builder = PersistentNode::builder(&sessions, "/n").data("new").previous_session(id);
    let node = builder.start().unwrap();
    let stat = node.wait_until_present(T).await.unwrap();
    assert_eq!((stat.version, stat.ephemeral_owner), (1, id));
    assert_eq!(found(&server, "/n").unwrap().data, b"new");
}

#[tokio::test(start_paused = true)]
async fn node_of_another_process_is_a_conflict_until_it_is_gone() {
    let server = TestServer::in_memory();
    let (first, second) = (sessions(&server, 1).await, sessions(&server, 2).await);
    let node = PersistentNode::start(&first, PATH, "first").unwrap();
    expect_present(&server, &first, &node).await;
    let other = PersistentNode::start(&second, PATH, "second").unwrap();
    let error = other.wait_until_present(T).await.unwrap_err();
    let NodeState::Conflict { stat, .. } = error.state() else { panic!("{error}") };
    assert_eq!(stat.ephemeral_owner, first.client().session_id());
    assert!(error.to_string().contains("belongs to session"), "{error}");
    let error = other.set_data("overwritten").await.unwrap_err();
    assert!(matches!(error.state(), NodeState::Conflict { .. }), "{error}");
    assert_eq!(error.retry_on(), RetryOn::SameSession);
    assert_eq!(data(&server), b"first");
    node.close().await.unwrap();
    expect_present(&server, &second, &other).await;
    assert_eq!(data(&server), b"overwritten");
}

#[tokio::test(start_paused = true)]
async fn two_handles_with_one_path_never_share_the_node() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let first = PersistentNode::start(&sessions, PATH, "a").unwrap();
    expect_present(&server, &sessions, &first).await;
    let second = PersistentNode::start(&sessions, PATH, "b").unwrap();
    for round in 0..80 {
        settle().await;
        let [one, other] = [&first, &second].map(|node| node.state());
        assert!(one.is_present(), "round {round}: {one}");
        assert!(matches!(other, NodeState::Conflict { .. }), "round {round}: {other}");
        let slow = server.on(Op::Create2).times(4).with_probability(0.5);
        let slow = slow.answer(ErrorCode::THROTTLED_OP);
        match round % 4 {
            0 => assert!(server.expire(sessions.client().session_id())),
            _ => operator.delete(PATH, None).await.unwrap(),
        }
        // reason: virtual time, in which the next session opens
        tokio::time::sleep(2 * T).await;
        slow.cancel();
    }
    first.close().await.unwrap();
    expect_present(&server, &sessions, &second).await;
}

#[tokio::test(start_paused = true)]
async fn persistent_node_at_the_path_is_a_conflict() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    operator.create("/n", b"kept", CreateMode::Persistent).await.unwrap();
    let node = PersistentNode::start(&sessions, "/n", "a").unwrap();
    let error = node.wait_until_present(T).await.unwrap_err();
    assert!(error.to_string().contains("node of another kind"), "{error}");
    node.close().await.unwrap();
    assert_eq!(found(&server, "/n").unwrap().data, b"kept");
}

#[tokio::test(start_paused = true)]
async fn parent_at_the_path_is_not_to_be_deleted() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    for path in ["/n", "/n/used"] {
        operator.create(path, b"", CreateMode::Persistent).await.unwrap();
    }
    let node = PersistentNode::start(&sessions, "/n", "a").unwrap();
    let error = node.wait_until_present(T).await.unwrap_err().to_string();
    assert!(error.contains("has children; use another path"), "{error}");
    assert!(!error.contains("delete"), "{error}");
    node.close().await.unwrap();
}

/// CURATOR-53: the node was not created if the servers were down at the start.
#[tokio::test(start_paused = true)]
async fn curator_53_node_is_created_if_servers_were_down_at_start() {
    for length in [T / 2, 3 * T] {
        let server = TestServer::in_memory();
        let sessions = sessions(&server, 1).await;
        server.refuse_connects(0);
        server.connections().cut(Cut::Rst);
        let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
        outage(&server, length).await;
        expect_present(&server, &sessions, &node).await;
    }
}

/// CURATOR-97: the node was not created again after an outage.
#[tokio::test(start_paused = true)]
async fn curator_97_node_is_created_again_after_outages() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    for length in [T / 4, 2 * T, T / 2, 30 * T] {
        expect_present(&server, &sessions, &node).await;
        outage(&server, length).await;
        // reason: virtual time, in which the sessions reconnect
        tokio::time::sleep(T).await;
    }
    expect_present(&server, &sessions, &node).await;
}

/// CURATOR-154: a reconnect restored the data of the start in place of updated data.
#[tokio::test(start_paused = true)]
async fn curator_154_updated_data_is_kept_on_the_next_session() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let node = PersistentNode::start(&sessions, PATH, "old").unwrap();
    node.set_data("new").await.unwrap();
    assert_eq!(data(&server), b"new");
    server.expire(sessions.client().session_id());
    next_state(&node, NodeState::is_present).await;
    expect_present(&server, &sessions, &node).await;
    assert_eq!(data(&server), b"new");

    // Data that is set during an outage is written after it.
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    drop(node.set_data("skipped"));
    let set = node.set_data("newest");
    outage(&server, 2 * T).await;
    set.await.unwrap();
    expect_present(&server, &sessions, &node).await;
    assert_eq!(data(&server), b"newest");
}

/// CURATOR-258: after a change of the data, a deletion was not noticed any more.
#[tokio::test(start_paused = true)]
async fn curator_258_node_is_watched_after_a_change_of_its_data() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    expect_present(&server, &sessions, &node).await;
    for change in 0..3 {
        operator.set_data(PATH, b"x", None).await.unwrap();
        settle().await;
        assert_eq!(node.state().stat().unwrap().version, change + 1);
    }
    operator.delete(PATH, None).await.unwrap();
    settle().await;
    expect_present(&server, &sessions, &node).await;
    assert_eq!(data(&server), b"a");
}

/// CURATOR-297: a node that was closed right after its start remained.
#[tokio::test(start_paused = true)]
async fn curator_297_start_and_close_leave_no_node() {
    for is_closed in [true, false] {
        for yields in 0..40 {
            let server = TestServer::in_memory();
            let sessions = sessions(&server, 1).await;
            let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
            for _ in 0..yields {
                tokio::task::yield_now().await;
            }
            if is_closed {
                node.close().await.unwrap();
            } else {
                drop(node);
            }
            settle().await;
            assert!(found(&server, PATH).is_none(), "after {yields} yields");
            assert!(sessions.client().end_reason().is_none());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn overwritten_data_is_restored_if_it_is_kept() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let node = PersistentNode::builder(&sessions, PATH).data("kept").keep_data().start().unwrap();
    expect_present(&server, &sessions, &node).await;
    for _ in 0..3 {
        operator.set_data(PATH, b"overwritten", None).await.unwrap();
        // reason: virtual time, the pause before the data is restored
        tokio::time::sleep(RESTORE_PAUSE).await;
        settle().await;
        assert_eq!(data(&server), b"kept");
    }
}

#[tokio::test(start_paused = true)]
async fn overwritten_data_stays_by_default() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    expect_present(&server, &sessions, &node).await;
    operator.set_data(PATH, b"overwritten", None).await.unwrap();
    // reason: virtual time, in which the data could be restored
    tokio::time::sleep(T).await;
    assert_eq!(data(&server), b"overwritten");
    node.set_data("a").await.unwrap();
    assert_eq!(data(&server), b"a");
}

#[tokio::test(start_paused = true)]
async fn refused_creation_is_repeated_with_growing_pauses() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let refusal = server.on(Op::Create2).always().answer(ErrorCode::NO_AUTH);
    let node = PersistentNode::start(&sessions, "/n", "a").unwrap();
    let state = next_state(&node, is_pending).await;
    let NodeState::Refused { error } = &state else { panic!("{state}") };
    assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
    assert!(state.to_string().contains("permit the client to create"), "{state}");
    let error = node.set_data("b").await.unwrap_err();
    assert!(matches!(error.state(), NodeState::Refused { .. }), "{error}");
    assert_eq!(error.retry_on(), RetryOn::Never);
    // reason: virtual time, in which the pauses grow up to their limit
    tokio::time::sleep(60 * BACKOFF_MAX).await;
    let count = refusal.count();
    assert!((60..140).contains(&count), "{count} attempts in ten minutes");
    refusal.cancel();
    node.wait_until_present(BACKOFF_MAX + T).await.unwrap();
    assert_eq!(found(&server, "/n").unwrap().data, b"b");
}

#[tokio::test(start_paused = true)]
async fn refused_node_is_created_again_right_after_its_deletion() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    expect_present(&server, &sessions, &node).await;
    let refusal = server.on(Op::SetData).session(sessions.client().session_id()).always();
    let refusal = refusal.answer(ErrorCode::NO_AUTH);
    node.set_data("b").await.unwrap_err();
    // reason: virtual time, in which the pauses grow up to their limit
    tokio::time::sleep(6 * BACKOFF_MAX).await;
    operator.set_data(PATH, b"x", None).await.unwrap();
    settle().await;
    let count = refusal.count();
    operator.delete(PATH, None).await.unwrap();
    settle().await;
    expect_present(&server, &sessions, &node).await;
    assert_eq!((&*data(&server), refusal.count()), (&b"b"[..], count), "no change ends a pause");
}

#[tokio::test(start_paused = true)]
async fn node_is_created_at_once_if_it_is_deleted_in_a_restore_pause() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let node = PersistentNode::builder(&sessions, PATH).data("kept").keep_data().start().unwrap();
    expect_present(&server, &sessions, &node).await;
    operator.set_data(PATH, b"overwritten", None).await.unwrap();
    // reason: virtual time, a part of the pause
    tokio::time::sleep(RESTORE_PAUSE / 10).await;
    operator.delete(PATH, None).await.unwrap();
    // reason: virtual time, in which the node is created
    tokio::time::sleep(RESTORE_PAUSE / 10).await;
    assert_eq!(data(&server), b"kept");
    assert!(node.state().is_present());
}

/// A server closes the connection of a client that sends too much.
#[tokio::test(start_paused = true)]
async fn too_large_data_is_rejected_and_the_node_keeps_its_data() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
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
        assert_eq!(found(&server, &path).unwrap().data, b"a");
        node.set_data(vec![1; largest]).await.unwrap();
        server.expire(sessions.client().session_id());
        settle().await;
        node.wait_until_present(T).await.unwrap();
        assert_eq!(found(&server, &path).unwrap().data.len(), largest);
        node.close().await.unwrap();
    }
    let error = PersistentNode::start(&sessions, "/n", vec![0; 2 << 20]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn refused_creation_is_repeated_at_once_on_the_next_session() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let refusal = server.on(Op::Create2).always().answer(ErrorCode::NO_AUTH);
    let node = PersistentNode::start(&sessions, "/n", "a").unwrap();
    // reason: virtual time, in which the pauses grow up to their limit
    tokio::time::sleep(10 * BACKOFF_MAX).await;
    let count = refusal.count();
    while refusal.count() == count {
        settle().await;
    }
    refusal.cancel();
    server.expire(sessions.client().session_id());
    node.wait_until_present(BACKOFF_MAX / 4).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn sequential_node_keeps_its_name() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let lost = server.on(Op::Create2).nth(3).apply_then_drop_reply();
    let builder = PersistentNode::builder(&sessions, "/workers/w-");
    let node = builder.mode(NodeMode::EphemeralSequential).data("a").start().unwrap();
    node.wait_until_present(T).await.unwrap();
    let NodeState::Present { path, .. } = next_state(&node, is_pending).await else { panic!() };
    assert!(path.ends_with("-w-0000000000"), "{path}");
    operator.delete(&path, None).await.unwrap();
    settle().await;
    node.wait_until_present(T).await.unwrap();
    server.expire(sessions.client().session_id());
    next_state(&node, NodeState::is_present).await;
    node.wait_until_present(T).await.unwrap();
    let names = operator.get_children("/workers").await.unwrap().names;
    assert_eq!((names.len(), lost.count()), (1, 1), "the lost reply left a node");
    assert!(found(&server, &path).is_some());
    node.close().await.unwrap();
    assert!(found(&server, &path).is_none());
}

#[tokio::test(start_paused = true)]
async fn persistent_node_is_adopted_and_deleted_at_the_end() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    operator.create("/n", b"old", CreateMode::Persistent).await.unwrap();
    let builder = PersistentNode::builder(&sessions, "/n").mode(NodeMode::Persistent);
    let node = builder.data("new").start().unwrap();
    node.wait_until_present(T).await.unwrap();
    assert_eq!(found(&server, "/n").unwrap().data, b"new");
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
    let config = config(1).max_watches(0);
    let sessions = SessionManager::connect(config.connector(server.clone())).await.unwrap();
    let operator = client(&server, 2).await;
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    expect_present(&server, &sessions, &node).await;
    operator.delete(PATH, None).await.unwrap();
    // reason: virtual time, after which a node without a watch is read
    tokio::time::sleep(UNWATCHED_PAUSE).await;
    settle().await;
    expect_present(&server, &sessions, &node).await;
}

#[tokio::test(start_paused = true)]
async fn slow_follower_causes_no_conflict() {
    let server = TestServer::ensemble(3);
    for follower in [1, 2] {
        server.lag(follower, Duration::from_millis(700));
    }
    let (sessions, operator) = (sessions_of_all(&server, 5).await, client(&server, 2).await);
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    let mut states = node.subscribe();
    let watching = tokio::spawn(async move {
        let conflict = states.wait_for(|state| matches!(state, NodeState::Conflict { .. })).await;
        conflict.is_ok()
    });
    for _ in 0..5 {
        expect_present(&server, &sessions, &node).await;
        operator.delete(PATH, None).await.unwrap();
        server.connection_of(sessions.client().session_id()).cut(Cut::Rst);
        // reason: virtual time, in which the follower catches up
        tokio::time::sleep(T / 2).await;
    }
    expect_present(&server, &sessions, &node).await;
    node.close().await.unwrap();
    assert!(!watching.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn stopped_session_manager_ends_the_node() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    expect_present(&server, &sessions, &node).await;
    sessions.close().await;
    settle().await;
    let state = node.state();
    let NodeState::Stopped { error } = &state else { panic!("{state}") };
    assert!(matches!(error.kind(), ErrorKind::ManagerStopped(_)), "{error}");
    assert!(state.is_closed() && !state.to_string().contains("closed, and"), "{state}");
    assert_ne!(error.retry_on(), RetryOn::SameSession);
    assert!(node.set_data("b").await.is_err());
    assert!(node.close().await.is_err());
    assert!(found(&server, PATH).is_none());
}

#[tokio::test(start_paused = true)]
async fn dropped_handle_and_manager_end_the_session() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let id = sessions.client().session_id();
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    drop(sessions);
    node.wait_until_present(T).await.unwrap();
    assert!(server.with(|ensemble| ensemble.is_alive(id)), "the handle keeps the sessions alive");
    drop(node);
    settle().await;
    assert!(!server.with(|ensemble| ensemble.is_alive(id)));
}

#[tokio::test(start_paused = true)]
async fn created_node_costs_two_requests_and_close_three() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    sessions.client().create("/p", b"", CreateMode::Persistent).await.unwrap();
    let before = requests(&sessions.client());
    let node = PersistentNode::start(&sessions, "/p/n", "a").unwrap();
    node.wait_until_present(T).await.unwrap();
    assert_eq!(requests(&sessions.client()) - before, 2);
    operator.delete("/p/n", None).await.unwrap();
    settle().await;
    node.wait_until_present(T).await.unwrap();
    assert_eq!(requests(&sessions.client()) - before, 4);
    node.close().await.unwrap();
    assert_eq!(requests(&sessions.client()) - before, 7);
}

fn requests(client: &Client) -> u64 {
    client.stats().frames_sent
}

/// The handle would try for ever.
#[tokio::test(start_paused = true)]
async fn time_to_live_that_no_server_takes_is_refused_at_once() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    for ttl in [Duration::ZERO, Duration::from_micros(999), TTL_MAX + Duration::from_millis(1)] {
        let refused = PersistentNode::builder(&sessions, "/n").mode(NodeMode::Ttl(ttl)).start();
        assert_eq!(*refused.unwrap_err().kind(), ErrorKind::InvalidTtl(ttl));
        let client = sessions.client();
        let created = client.create_builder("/n").ttl(ttl).create().await;
        assert_eq!(*created.unwrap_err().kind(), ErrorKind::InvalidTtl(ttl));
        let sent = client.multi().create_with_ttl("/n", b"", ttl).send().await;
        assert_eq!(*sent.unwrap_err().kind(), ErrorKind::InvalidTtl(ttl));
    }
}
