//! Persistent nodes through lost requests, lost replies, and a close at any time.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use futures::future::{Either, select};
use zk_coordination::limits::RESTORE_PAUSE;
use zk_coordination::session::limits::REQUESTS_MAX;
use zk_coordination::session::{Acl, CreateMode, ErrorKind, Perms, SessionManager};
use zk_coordination::{NodeMode, NodeState, PersistentNode};
use zk_testing::server::Effect;
use zk_testing::{Cut, ErrorCode, Fault, Op, TestServer};

use crate::persistent_node::{PATH, expect_present, found, sessions_of_all};
use crate::{MS, T, client, sessions, settle};

const OPS: [Op; 8] = [
    Op::Create2,
    Op::CreateContainer,
    Op::Exists,
    Op::SetData,
    Op::Delete,
    Op::Sync,
    Op::SetWatches,
    Op::GetData,
];

/// Goes through every situation of a node.
async fn live(server: &TestServer, sessions: &SessionManager, mode: NodeMode) {
    let operator = client(server, 2).await;
    let builder = PersistentNode::builder(sessions, PATH).data("first").mode(mode).keep_data();
    let node = builder.start().unwrap();
    node.wait_until_present(3 * T).await.unwrap();
    node.set_data("second").await.unwrap();
    assert_eq!(found(server, PATH).unwrap().data, b"second");
    server.connection_of(sessions.client().session_id()).cut(Cut::Rst);
    settle().await;
    node.wait_until_present(3 * T).await.unwrap();
    drop(operator.set_data(PATH, b"overwritten", None).await);
    // reason: virtual time, in which the data is restored, over a lost connection
    tokio::time::sleep(RESTORE_PAUSE + T / 2).await;
    assert_eq!(found(server, PATH).unwrap().data, b"second");
    drop(operator.delete(PATH, None).await);
    settle().await;
    node.wait_until_present(3 * T).await.unwrap();
    // reason: virtual time, in which the node is created, over a lost connection
    tokio::time::sleep(T / 2).await;
    match mode {
        NodeMode::Ephemeral => expect_present(server, sessions, &node).await,
        _ => assert!(found(server, PATH).is_some()),
    }
    assert_eq!(found(server, PATH).unwrap().data, b"second");
    node.close().await.unwrap();
    assert!(found(server, PATH).is_none());
}

#[tokio::test(start_paused = true)]
async fn lost_request_or_reply_leaves_one_node() {
    for mode in [NodeMode::Ephemeral, NodeMode::Persistent, NodeMode::Ttl(T)] {
        for op in OPS {
            for nth in 1..=3 {
                for is_applied in [true, false] {
                    let server = TestServer::in_memory();
                    let sessions = sessions(&server, 1).await;
                    let id = sessions.client().session_id();
                    let fault = server.on(op).session(id).nth(nth);
                    if is_applied {
                        fault.apply_then_drop_reply()
                    } else {
                        fault.drop_before_applying()
                    };
                    live(&server, &sessions, mode).await;
                    assert_eq!(sessions.client().session_id(), id, "{mode:?} {op:?} {nth}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn node_lives_through_random_cuts() {
    for seed in 0..20 {
        let settings = zk_testing::Settings::new().seed(seed);
        let server = TestServer::in_memory_with(settings);
        let sessions = sessions(&server, 1).await;
        let id = sessions.client().session_id();
        let cut = server.on_any_request().session(id).always().with_probability(0.1);
        cut.apply_then_drop_reply();
        let cut = server.on_any_request().session(id).always().with_probability(0.1);
        cut.drop_before_applying();
        let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
        node.wait_until_present(30 * T).await.unwrap();
        node.set_data("b").await.unwrap();
        assert_eq!(found(&server, PATH).unwrap().data, b"b", "seed {seed}");
        node.close().await.unwrap();
        assert!(found(&server, PATH).is_none(), "seed {seed}");
    }
}

/// Fault of the connection at the time of the close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Nothing,
    Cut,
    CreateReplyLost,
}

/// Way to close the handle.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Close,
    DroppedClose,
    Drop,
}

#[tokio::test(start_paused = true)]
async fn close_at_any_time_leaves_no_node() {
    let modes = [NodeMode::Ephemeral, NodeMode::EphemeralSequential, NodeMode::Persistent];
    for mode in modes {
        for trouble in [Trouble::Nothing, Trouble::Cut, Trouble::CreateReplyLost] {
            for ending in [Ending::Close, Ending::DroppedClose, Ending::Drop] {
                for after in 0..16 {
                    close_after(mode, trouble, ending, after * 5 * MS).await;
                }
            }
        }
    }
}

async fn close_after(mode: NodeMode, trouble: Trouble, ending: Ending, after: Duration) {
    let what = format!("{mode:?} {trouble:?} {ending:?} {after:?}");
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let id = sessions.client().session_id();
    server.on_any_request().session(id).always().delay(10 * MS);
    if trouble == Trouble::CreateReplyLost {
        server.on(Op::Create2).session(id).apply_then_drop_reply();
    }
    let node = PersistentNode::builder(&sessions, PATH).mode(mode).start().unwrap();
    // reason: virtual time, after which the handle is closed
    tokio::time::sleep(after).await;
    if trouble == Trouble::Cut {
        server.connection_of(id).cut(Cut::Rst);
    }
    match ending {
        Ending::Close => node.close().await.unwrap(),
        Ending::DroppedClose => {
            let pause = pin!(tokio::time::sleep(7 * MS)); // reason: virtual time of the close
            let (close, pause) = (pin!(node.close()), pause);
            if let Either::Left((closed, _)) = select(close, pause).await {
                closed.unwrap();
            }
        }
        Ending::Drop => drop(node),
    }
    // reason: virtual time, in which the node is deleted over the next connection
    tokio::time::sleep(T / 2).await;
    let left = server.with(|ensemble| {
        let group = ensemble.tree().node("/services/web");
        group.map_or(0, |group| group.children().count())
    });
    assert_eq!(left, 0, "{what}");
    assert_eq!(sessions.client().session_id(), id, "{what}: by the session, not by its end");
}

#[tokio::test(start_paused = true)]
async fn close_between_two_sessions_waits_for_the_end_of_the_old_one() {
    let server = TestServer::ensemble(3);
    let sessions = sessions(&server, 1).await;
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    expect_present(&server, &sessions, &node).await;
    let old = sessions.client();
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    // reason: virtual time; the next leader starts the clock of the session again
    tokio::time::sleep(T * 8 / 10).await;
    assert!(server.elect(1) && server.elect(0));
    old.wait_for_end().await;
    let closing = tokio::spawn(node.close());
    settle().await;
    assert!(!closing.is_finished() && found(&server, PATH).is_some());
    server.accept_connects(0);
    settle().await;
    assert!(!closing.is_finished() && server.with(|ensemble| ensemble.is_alive(old.session_id())));
    let deletes = server.on(Op::Delete).always().delay(T);
    closing.await.unwrap().unwrap();
    assert!(!server.with(|ensemble| ensemble.is_alive(old.session_id())));
    assert!(found(&server, PATH).is_none() && deletes.count() == 0);
}

/// The close learns the name of the node that its create makes, and deletes it by that name.
#[tokio::test(start_paused = true)]
async fn close_waits_for_the_create_of_a_sequential_node() {
    for is_rejected in [false, true] {
        let server = TestServer::in_memory();
        let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
        let id = sessions.client().session_id();
        operator.create("/g", b"", CreateMode::Persistent).await.unwrap();
        let late = server.on(Op::Create2).session(id).delay(T / 50);
        let node = PersistentNode::builder(&sessions, "/g/a-").mode(NodeMode::EphemeralSequential);
        let node = node.start().unwrap();
        settle().await;
        if is_rejected {
            server.on(Op::Delete).session(id).answer(ErrorCode::NO_AUTH);
        }
        assert_eq!(node.close().await.is_err(), is_rejected);
        assert_eq!((members(&server), late.count()), (usize::from(is_rejected), 1));
    }
}

#[tokio::test(start_paused = true)]
async fn close_keeps_the_node_of_another_process() {
    let server = TestServer::in_memory();
    let (first, second) = (sessions(&server, 1).await, sessions(&server, 2).await);
    let node = PersistentNode::start(&first, PATH, "first").unwrap();
    expect_present(&server, &first, &node).await;
    for is_closed in [true, false] {
        let other = PersistentNode::start(&second, PATH, "second").unwrap();
        settle().await;
        if is_closed {
            other.close().await.unwrap();
        } else {
            drop(other);
        }
        settle().await;
        expect_present(&server, &first, &node).await;
    }
    assert_eq!(node.state().stat().unwrap().version, 0);
}

/// The first delete is applied and its reply is lost. The repeated one finds the node of the next
/// process.
#[tokio::test(start_paused = true)]
async fn repeated_close_keeps_the_next_node_of_the_path() {
    let server = TestServer::in_memory();
    let (first, second) = (sessions(&server, 1).await, sessions(&server, 2).await);
    let node = PersistentNode::start(&first, PATH, "first").unwrap();
    expect_present(&server, &first, &node).await;
    let other = PersistentNode::start(&second, PATH, "second").unwrap();
    settle().await;
    let creates = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&creates);
    server.with(|ensemble| {
        ensemble.observe(move |_, commit| {
            if commit.effect == Effect::Created(PATH) {
                count.fetch_add(1, Relaxed);
            }
        });
    });
    let lost = server.on(Op::Delete).apply_then_drop_reply();
    node.close().await.unwrap();
    expect_present(&server, &second, &other).await;
    assert_eq!((lost.count(), creates.load(Relaxed)), (1, 1));
}

/// The next server has not applied the create yet whose reply was lost.
#[tokio::test(start_paused = true)]
async fn close_at_a_slow_follower_finds_the_created_node() {
    let server = TestServer::ensemble(2);
    let sessions = sessions_of_all(&server, 1).await;
    let id = sessions.client().session_id();
    while server.with(|ensemble| ensemble.connection_of(id)).is_none() {
        settle().await;
    }
    server.lag(1, T / 3);
    server.refuse_connects(1);
    server.connection_of(id).cut(Cut::Rst);
    // reason: virtual time, in which the session connects to the leader
    tokio::time::sleep(T / 2).await;
    server.accept_connects(1);
    server.refuse_connects(0);
    let lost = server.on(Op::Create2).apply_then_drop_reply();
    let node = PersistentNode::start(&sessions, "/n", "a").unwrap();
    while lost.count() == 0 {
        tokio::time::sleep(MS).await; // reason: virtual time, in which the create is sent
    }
    node.close().await.unwrap();
    assert!(found(&server, "/n").is_none());
    assert_eq!(sessions.client().session_id(), id);
}

#[tokio::test(start_paused = true)]
async fn close_of_a_client_at_its_limits_deletes_the_node_later() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    expect_present(&server, &sessions, &node).await;
    let client = sessions.client();
    server.on(Op::GetData).always().never_answer();
    let reads: Vec<_> = (0..REQUESTS_MAX).map(|_| client.get_data(PATH)).collect();
    let error = client.exists(PATH).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitReached(_)), "{error}");
    let closing = tokio::spawn(node.close());
    settle().await;
    assert!(!closing.is_finished() && found(&server, PATH).is_some());
    // The session gives up the silent connection, and its requests.
    closing.await.unwrap().unwrap();
    assert!(found(&server, PATH).is_none());
    drop(reads);
}

#[tokio::test(start_paused = true)]
async fn close_reports_a_rejected_deletion() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    expect_present(&server, &sessions, &node).await;
    server.on(Op::Delete).answer(ErrorCode::NO_AUTH);
    let error = node.close().await.unwrap_err();
    let NodeState::Closed { error: Some(cause) } = error.state() else { panic!("{error}") };
    assert_eq!(cause.code(), Some(ErrorCode::NO_AUTH));
    assert!(error.to_string().contains("not confirmed"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn dropped_waits_change_nothing() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let node = PersistentNode::start(&sessions, PATH, "a").unwrap();
    drop(node.wait_until_present(T));
    drop(node.set_data("b"));
    expect_present(&server, &sessions, &node).await;
    settle().await;
    assert_eq!(found(&server, PATH).unwrap().data, b"b");
}

#[tokio::test(start_paused = true)]
async fn refused_restoration_backs_off() {
    for op in [Op::SetData, Op::GetData] {
        let server = TestServer::in_memory();
        let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
        let node =
            PersistentNode::builder(&sessions, PATH).data("own").keep_data().start().unwrap();
        node.wait_until_present(T).await.unwrap();
        let id = sessions.client().session_id();
        let refused = server.on(op).session(id).always().answer(ErrorCode::NO_AUTH);
        operator.set_data(PATH, b"other", None).await.unwrap();
        // reason: virtual time, in which the restoration is repeated
        tokio::time::sleep(6 * T).await;
        assert!((3..20).contains(&refused.count()), "{op:?}: {} requests", refused.count());
        assert!(matches!(node.state(), NodeState::Refused { .. }));
    }
}

#[tokio::test(start_paused = true)]
async fn raced_deletion_ends() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let node = PersistentNode::start(&sessions, PATH, "own").unwrap();
    node.wait_until_present(T).await.unwrap();
    let id = sessions.client().session_id();
    server.on(Op::Delete).session(id).always().answer(ErrorCode::BAD_VERSION);
    let closed = tokio::time::timeout(T, node.close()).await.unwrap();
    assert!(closed.unwrap_err().to_string().contains("BadVersion"));
}

#[tokio::test(start_paused = true)]
async fn close_does_not_confirm_deletion_of_unfound_sequential_node() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let id = sessions.client().session_id();
    operator.create("/g", b"", CreateMode::Persistent).await.unwrap();
    server.on(Op::Create2).session(id).apply_then_drop_reply();
    for op in [Op::GetChildren, Op::GetChildren2] {
        server.on(op).session(id).always().answer(ErrorCode::NO_AUTH);
    }
    let builder = PersistentNode::builder(&sessions, "/g/a-").mode(NodeMode::EphemeralSequential);
    let node = builder.start().unwrap();
    let mut state = node.subscribe();
    state.wait_for(|state| matches!(state, NodeState::Refused { .. })).await.unwrap();
    let closed = node.close().await.unwrap_err();
    assert!(closed.to_string().contains("not confirmed"), "{closed}");

    // The server deletes the node with its session, and nothing is left to be confirmed.
    server.on(Op::Create2).session(id).apply_then_drop_reply();
    let node = PersistentNode::builder(&sessions, "/g/b-").mode(NodeMode::EphemeralSequential);
    let node = node.start().unwrap();
    let mut state = node.subscribe();
    state.wait_for(|state| matches!(state, NodeState::Refused { .. })).await.unwrap();
    server.expire(id);
    state.wait_for(|state| matches!(state, NodeState::Present { .. })).await.unwrap();
    node.close().await.unwrap();
}

/// The list of the children is refused after the reply to the create was lost. Once it is permitted, the
/// handle finds its node, and creates no other one.
#[tokio::test(start_paused = true)]
async fn sequential_node_is_found_after_a_refused_search() {
    for is_closed_first in [false, true] {
        let server = TestServer::in_memory();
        let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
        let id = sessions.client().session_id();
        operator.create("/g", b"", CreateMode::Persistent).await.unwrap();
        server.on(Op::Create2).session(id).apply_then_drop_reply();
        let refused = [Op::GetChildren, Op::GetChildren2]
            .map(|op| server.on(op).session(id).always().answer(ErrorCode::NO_AUTH));
        let builder = PersistentNode::builder(&sessions, "/g/a-").data("a");
        let node = builder.mode(NodeMode::EphemeralSequential).start().unwrap();
        let mut state = node.subscribe();
        state.wait_for(|state| matches!(state, NodeState::Refused { .. })).await.unwrap();
        refused.into_iter().for_each(Fault::cancel);
        if !is_closed_first {
            state.wait_for(NodeState::is_present).await.unwrap();
            assert_eq!(members(&server), 1);
        }
        node.close().await.unwrap();
        assert_eq!(members(&server), 0, "{is_closed_first}");
    }
}

/// The node of the lost reply ends with its session.
#[tokio::test(start_paused = true)]
async fn sequential_node_of_an_unreadable_parent_returns() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let id = sessions.client().session_id();
    let acl = [Acl::world(Perms::CREATE | Perms::DELETE)];
    operator.create_with_acl("/g", b"", CreateMode::Persistent, &acl).await.unwrap();
    server.on(Op::Create2).session(id).apply_then_drop_reply();
    let builder = PersistentNode::builder(&sessions, "/g/a-").data("a");
    let node = builder.mode(NodeMode::EphemeralSequential).start().unwrap();
    let mut states = node.subscribe();
    let refused = |state: &NodeState| matches!(state, NodeState::Refused { .. });
    states.wait_for(refused).await.unwrap();
    server.expire(id);
    states.wait_for(NodeState::is_present).await.unwrap();
    assert_eq!(members(&server), 1);
}

/// Returns the number of nodes below `/g`.
fn members(server: &TestServer) -> usize {
    server.with(|ensemble| ensemble.tree().node("/g").unwrap().children().count())
}
