//! Persistent nodes through lost requests, lost replies, and a close at any time.

use std::time::Duration;

use zk_coordination::limits::RESTORE_PAUSE;
use zk_coordination::session::limits::REQUESTS_MAX;
use zk_coordination::session::{Acl, CreateMode, ErrorKind, Perms, SessionId, SessionManager};
use zk_coordination::{NodeMode, NodeState, PersistentNode};
use zk_testing::server::Effect;
use zk_testing::{Cut, ErrorCode, Fault, Op, TestServer};

use crate::persistent_node::{
    PATH, expect_present, is_missing, is_refused, kept, kept_on, restoring, start, text,
};
use crate::persistent_node_owner::count;
use crate::{
    MS, T, children, client, lose, pass, sessions, sessions_and_client, sessions_of_all, settle,
};

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
    assert_eq!(text(server, PATH), "second");
    server.connection_of(sessions.client().session_id()).cut(Cut::Rst);
    settle().await;
    node.wait_until_present(3 * T).await.unwrap();
    drop(operator.set_data(PATH, b"overwritten", None).await);
    pass(RESTORE_PAUSE + T / 2).await; // over a lost connection
    assert_eq!(text(server, PATH), "second");
    drop(operator.delete(PATH, None).await);
    settle().await;
    node.wait_until_present(3 * T).await.unwrap();
    pass(T / 2).await; // over a lost connection
    if mode == NodeMode::Ephemeral {
        expect_present(server, sessions, &node).await;
    }
    assert_eq!(text(server, PATH), "second");
    node.close().await.unwrap();
    assert!(is_missing(server, PATH));
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
                    lose(server.on(op).session(id).nth(nth), is_applied);
                    live(&server, &sessions, mode).await;
                    assert_eq!(sessions.client().session_id(), id, "{mode:?} {op:?} {nth}");
                }
            }
        }
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

/// CURATOR-297: a node that was closed right after its start remained.
#[tokio::test(start_paused = true)]
async fn curator_297_close_at_any_time_leaves_no_node() {
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
    let (server, sessions, _) = sessions_and_client().await;
    let id = sessions.client().session_id();
    server.on_any_request().session(id).always().delay(10 * MS);
    if trouble == Trouble::CreateReplyLost {
        server.on(Op::Create2).session(id).apply_then_drop_reply();
    }
    let node = PersistentNode::builder(&sessions, PATH).mode(mode).start().unwrap();
    pass(after).await;
    if trouble == Trouble::Cut {
        server.connection_of(id).cut(Cut::Rst);
    }
    match ending {
        Ending::Close => node.close().await.unwrap(),
        Ending::DroppedClose => {
            let closed = tokio::time::timeout(7 * MS, node.close()).await;
            assert!(closed.is_err() || closed.is_ok_and(|closed| closed.is_ok()), "{what}");
        }
        Ending::Drop => drop(node),
    }
    pass(T / 2).await; // in which the node is deleted over the next connection
    assert_eq!(children(&server, "/services/web"), [""; 0], "{what}");
    assert_eq!(sessions.client().session_id(), id, "{what}: by the session, not by its end");
}

#[tokio::test(start_paused = true)]
async fn close_between_two_sessions_waits_for_the_end_of_the_old_one() {
    let server = TestServer::ensemble(3);
    let sessions = sessions(&server, 1).await;
    let node = start(&sessions, "a");
    expect_present(&server, &sessions, &node).await;
    let old = sessions.client();
    let is_alive = || server.with(|ensemble| ensemble.is_alive(old.session_id()));
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    pass(T * 8 / 10).await; // the next leader starts the clock of the session again
    assert!(server.elect(1) && server.elect(0));
    old.wait_for_end().await;
    let closing = tokio::spawn(node.close());
    settle().await;
    assert!(!closing.is_finished() && !is_missing(&server, PATH));
    server.accept_connects(0);
    settle().await;
    assert!(!closing.is_finished() && is_alive());
    let deletes = server.on(Op::Delete).always().delay(T);
    closing.await.unwrap().unwrap();
    assert!(!is_alive());
    assert!(is_missing(&server, PATH) && deletes.count() == 0);
}

/// The first delete is applied and its reply is lost. The repeated one finds the node of the next
/// process.
#[tokio::test(start_paused = true)]
async fn repeated_close_keeps_the_next_node_of_the_path() {
    let (server, _first, _, node) = kept().await;
    let second = sessions(&server, 3).await;
    let other = start(&second, "second");
    settle().await;
    let creates = count(&server, Effect::Created(PATH));
    let lost = server.on(Op::Delete).apply_then_drop_reply();
    node.close().await.unwrap();
    expect_present(&server, &second, &other).await;
    assert_eq!((lost.count(), creates()), (1, 1));
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
    pass(T / 2).await; // in which the session connects to the leader
    server.accept_connects(1);
    server.refuse_connects(0);
    let lost = server.on(Op::Create2).apply_then_drop_reply();
    let node = PersistentNode::start(&sessions, "/n", "a").unwrap();
    while lost.count() == 0 {
        pass(MS).await;
    }
    node.close().await.unwrap();
    assert!(is_missing(&server, "/n"));
    assert_eq!(sessions.client().session_id(), id);
}

#[tokio::test(start_paused = true)]
async fn close_of_a_client_at_its_limits_deletes_the_node_later() {
    let (server, sessions, _, node) = kept().await;
    let client = sessions.client();
    server.on(Op::GetData).always().never_answer();
    let _reads: Vec<_> = (0..REQUESTS_MAX).map(|_| client.get_data(PATH)).collect();
    let error = client.exists(PATH).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitReached(_)), "{error}");
    let closing = tokio::spawn(node.close());
    settle().await;
    assert!(!closing.is_finished() && !is_missing(&server, PATH));
    // The session gives up the silent connection, and its requests.
    closing.await.unwrap().unwrap();
    assert!(is_missing(&server, PATH));
}

/// A delete that loses a race is not repeated for ever.
#[tokio::test(start_paused = true)]
async fn close_reports_a_rejected_deletion() {
    for code in [ErrorCode::NO_AUTH, ErrorCode::BAD_VERSION] {
        let (server, sessions, _, node) = kept().await;
        let id = sessions.client().session_id();
        server.on(Op::Delete).session(id).always().answer(code);
        let error = tokio::time::timeout(T, node.close()).await.unwrap().unwrap_err();
        let NodeState::Closed { error: Some(cause) } = error.state() else { panic!("{error}") };
        assert_eq!(cause.code(), Some(code));
        assert!(error.to_string().contains("not confirmed"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_waits_change_nothing() {
    let (server, sessions, _) = sessions_and_client().await;
    let node = start(&sessions, "a");
    drop(node.wait_until_present(T));
    drop(node.set_data("b"));
    expect_present(&server, &sessions, &node).await;
    settle().await;
    assert_eq!(text(&server, PATH), "b");
}

#[tokio::test(start_paused = true)]
async fn refused_restoration_backs_off() {
    for op in [Op::SetData, Op::GetData] {
        let (server, sessions, operator, node) = kept_on(TestServer::in_memory(), restoring).await;
        let id = sessions.client().session_id();
        let refused = server.on(op).session(id).always().answer(ErrorCode::NO_AUTH);
        operator.set_data(PATH, b"other", None).await.unwrap();
        pass(6 * T).await; // in which the restoration is repeated
        assert!((3..20).contains(&refused.count()), "{op:?}: {} requests", refused.count());
        assert!(is_refused(&node.state()));
    }
}

/// A group `/g` with a list of these permissions, and a manager for sequential nodes in it.
async fn group(perms: Perms) -> (TestServer, SessionManager, SessionId) {
    let (server, sessions, operator) = sessions_and_client().await;
    let acl = [Acl::world(perms)];
    operator.create_with_acl("/g", b"", CreateMode::Persistent, &acl).await.unwrap();
    let id = sessions.client().session_id();
    (server, sessions, id)
}

fn start_sequential(sessions: &SessionManager) -> PersistentNode {
    let node = PersistentNode::builder(sessions, "/g/a-").mode(NodeMode::EphemeralSequential);
    node.data("a").start().unwrap()
}

/// The close learns the name of the node that its create makes, and deletes it by that name.
#[tokio::test(start_paused = true)]
async fn close_waits_for_the_create_of_a_sequential_node() {
    for is_rejected in [false, true] {
        let (server, sessions, id) = group(Perms::ALL).await;
        let late = server.on(Op::Create2).session(id).delay(T / 50);
        let node = start_sequential(&sessions);
        settle().await;
        if is_rejected {
            server.on(Op::Delete).session(id).answer(ErrorCode::NO_AUTH);
        }
        assert_eq!(node.close().await.is_err(), is_rejected);
        let left = children(&server, "/g").len();
        assert_eq!((left, late.count()), (usize::from(is_rejected), 1));
    }
}

/// Starts a sequential node, whose reply to the create is lost. The list of the children is refused until the
/// faults are cancelled.
async fn start_unfound(
    server: &TestServer,
    sessions: &SessionManager,
) -> (PersistentNode, [Fault; 2]) {
    let id = sessions.client().session_id();
    server.on(Op::Create2).session(id).apply_then_drop_reply();
    let refused = [Op::GetChildren, Op::GetChildren2]
        .map(|op| server.on(op).session(id).always().answer(ErrorCode::NO_AUTH));
    let node = start_sequential(sessions);
    node.subscribe().wait_for(is_refused).await.unwrap();
    (node, refused)
}

#[tokio::test(start_paused = true)]
async fn close_does_not_confirm_deletion_of_unfound_sequential_node() {
    let (server, sessions, id) = group(Perms::ALL).await;
    let (node, _refused) = start_unfound(&server, &sessions).await;
    let closed = node.close().await.unwrap_err();
    assert!(closed.to_string().contains("not confirmed"), "{closed}");

    // The server deletes the node with its session, and nothing is left to be confirmed.
    let (node, _refused) = start_unfound(&server, &sessions).await;
    server.expire(id);
    node.subscribe().wait_for(NodeState::is_present).await.unwrap();
    node.close().await.unwrap();
}

/// Once the list is permitted, the handle finds its node, and creates no other one.
#[tokio::test(start_paused = true)]
async fn sequential_node_is_found_after_a_refused_search() {
    for is_closed_first in [false, true] {
        let (server, sessions, _) = group(Perms::ALL).await;
        let (node, refused) = start_unfound(&server, &sessions).await;
        refused.into_iter().for_each(Fault::cancel);
        if !is_closed_first {
            node.subscribe().wait_for(NodeState::is_present).await.unwrap();
            assert_eq!(children(&server, "/g").len(), 1);
        }
        node.close().await.unwrap();
        assert_eq!(children(&server, "/g").len(), 0, "{is_closed_first}");
    }
}

/// The node of the lost reply ends with its session.
#[tokio::test(start_paused = true)]
async fn sequential_node_of_an_unreadable_parent_returns() {
    let (server, sessions, id) = group(Perms::CREATE | Perms::DELETE).await;
    server.on(Op::Create2).session(id).apply_then_drop_reply();
    let node = start_sequential(&sessions);
    node.subscribe().wait_for(is_refused).await.unwrap();
    server.expire(id);
    node.subscribe().wait_for(NodeState::is_present).await.unwrap();
    assert_eq!(children(&server, "/g").len(), 1);
}
