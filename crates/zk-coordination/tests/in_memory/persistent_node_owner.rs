//! Whose node it is: several handles of one process, other clients, and sessions that have ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use zk_coordination::limits::RESTORE_PAUSE;
use zk_coordination::session::{
    Acl, Client, Config, CreateMode, OPEN_ACL_UNSAFE, Perms, SessionManager,
};
use zk_coordination::{NodeMode, PersistentNode};
use zk_testing::server::Effect;
use zk_testing::{ErrorCode, Fault, Op, TestServer};

use crate::persistent_node::{
    Kept, PATH, expect_present, expire_at_the_client_only, is_conflict, is_missing, is_refused,
    kept, kept_on, record_gaps, restoring, start, text,
};
use crate::{MS, T, client, open, owner, pass, sessions, sessions_of_all, settle};

/// Counts the transactions with an effect from now on.
pub(crate) fn count(server: &TestServer, effect: Effect<'static>) -> impl Fn() -> usize + use<> {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    server.with(|ensemble| {
        ensemble.observe(move |_, commit| {
            count.fetch_add(usize::from(commit.effect == effect), Relaxed);
        });
    });
    move || seen.load(Relaxed)
}

/// Keeps a node on an ensemble of three servers.
async fn kept_on_three() -> Kept {
    kept_on(TestServer::ensemble(3), |node| node).await
}

async fn create_other(client: &Client, data: &str) {
    client.create(PATH, data.as_bytes(), CreateMode::Ephemeral).await.unwrap();
}

/// Expects that the node of another process is left as it is.
async fn expect_spared(server: &TestServer, node: &PersistentNode, data: &str) {
    pass(2 * T).await;
    assert!(is_conflict(node), "{node:?}");
    assert_eq!(text(server, PATH), data);
}

#[tokio::test(start_paused = true)]
async fn next_handle_of_the_process_takes_over_after_the_first() {
    for is_closed in [true, false] {
        let (server, sessions, operator, first) = kept().await;
        let [second, third] = ["second", "third"].map(|data| start(&sessions, data));
        for _ in 0..3 {
            settle().await;
            assert!(is_conflict(&second) && is_conflict(&third));
            server.expire(sessions.client().session_id());
            pass(T).await;
            expect_present(&server, &sessions, &first).await;
            operator.delete(PATH, None).await.unwrap();
            pass(T).await;
            expect_present(&server, &sessions, &first).await;
            assert_eq!(text(&server, PATH), "a");
        }
        assert!(second.set_data("new").await.is_err(), "the node of the first handle");
        third.close().await.unwrap();
        if is_closed {
            first.close().await.unwrap();
        } else {
            drop(first);
        }
        expect_present(&server, &sessions, &second).await;
        assert_eq!(text(&server, PATH), "new");
    }
}

/// The first handle is about to restore its data when its node is deleted.
#[tokio::test(start_paused = true)]
async fn handles_of_one_process_share_no_node_after_a_restore_pause() {
    let (server, sessions, operator, first) = kept_on(TestServer::in_memory(), restoring).await;
    let second = restoring(PersistentNode::builder(&sessions, PATH).data("b")).start().unwrap();
    settle().await;
    operator.set_data(PATH, b"x", None).await.unwrap();
    pass(RESTORE_PAUSE / 5).await;
    operator.delete(PATH, None).await.unwrap();
    pass(T).await;
    assert!(first.state().is_present() && is_conflict(&second));
    let writes = count(&server, Effect::Changed(PATH));
    pass(6 * T).await;
    assert_eq!(writes(), 0);
}

#[tokio::test(start_paused = true)]
async fn handles_of_one_process_share_no_node_after_a_failed_look() {
    let (server, sessions, operator, first) = kept().await;
    let second = start(&sessions, "second");
    settle().await;
    // A change of the data leads to looks of both.
    let throttled = server.on(Op::Exists).answer(ErrorCode::THROTTLED_OP);
    operator.set_data(PATH, b"x", None).await.unwrap();
    pass(5 * MS).await;
    operator.delete(PATH, None).await.unwrap();
    pass(T).await;
    assert_eq!(throttled.count(), 1);
    assert!(first.state().is_present() && is_conflict(&second));
}

/// The owner of the node is the session of the handle, and its `czxid` is another one.
#[tokio::test(start_paused = true)]
async fn node_of_the_application_on_the_same_session_is_a_conflict() {
    let (server, sessions, _, node) = kept_on(TestServer::in_memory(), restoring).await;
    let application = sessions.client();
    let deleted = application.delete(PATH, None);
    let created = application.create(PATH, b"other", CreateMode::Ephemeral);
    deleted.await.unwrap();
    created.await.unwrap();
    expect_spared(&server, &node, "other").await;
    let text = node.state().to_string();
    assert!(text.contains("own session") && text.contains("close the other handle"), "{text}");
    node.close().await.unwrap();
    assert!(!is_missing(&server, PATH));
}

#[tokio::test(start_paused = true)]
async fn handles_that_keep_equal_data_write_it_once() {
    for mode in [NodeMode::Persistent, NodeMode::Ttl(60 * T)] {
        let server = TestServer::in_memory();
        let all = [sessions(&server, 1).await, sessions(&server, 2).await];
        let writes = count(&server, Effect::Changed(PATH));
        let [one, other] = all.each_ref().map(|sessions| {
            let node = PersistentNode::builder(sessions, PATH).data("same").mode(mode);
            node.keep_data().start().unwrap()
        });
        one.wait_until_present(T).await.unwrap();
        other.wait_until_present(T).await.unwrap();
        pass(6 * T).await;
        assert!(writes() <= 1, "{mode:?}: {}", writes());
        client(&server, 3).await.set_data(PATH, b"x", None).await.unwrap();
        pass(T).await;
        assert_eq!(text(&server, PATH), "same");
        assert!(writes() <= 4, "{mode:?}: {}", writes());
    }
}

/// A close by the next session must not delete the node that takes the place of its own.
#[tokio::test(start_paused = true)]
async fn close_after_the_session_keeps_the_next_node_of_the_path() {
    for is_closed in [true, false] {
        let (server, sessions, _, node) = kept_on_three().await;
        let others = sessions_of_all(&server, 3).await;
        let other = start(&others, "other");
        settle().await;
        let old = sessions.client();
        // The replacement fails, so that the close finds the node of the old session.
        let refused = server.on(Op::Multi).always().answer(ErrorCode::NO_AUTH);
        expire_at_the_client_only(&server, &sessions).await;
        pass(T / 10).await;
        assert!(server.with(|ensemble| ensemble.is_alive(old.session_id())));
        let closing = tokio::spawn(async move {
            if is_closed { node.close().await.unwrap() } else { drop(node) }
        });
        let deletes = server.on(Op::Delete).always().delay(T);
        settle().await;
        assert_eq!(closing.is_finished(), !is_closed, "it waits for the end of the session");
        let gaps = record_gaps(&server, PATH);
        assert!(server.expire(old.session_id()));
        let stat = other.wait_until_present(T).await.unwrap();
        closing.await.unwrap();
        pass(3 * T).await;
        assert_eq!(other.state().stat().unwrap().czxid, stat.czxid);
        assert_eq!((deletes.count(), *gaps.lock().unwrap()), (0, 1));
        assert!(refused.count() > 0);
    }
}

/// The old session expires before or after the second read of the replacement, and another process
/// takes the path. Before, the owner shows that, and after, the version.
#[tokio::test(start_paused = true)]
async fn replacement_spares_the_node_of_another_process() {
    for (slow_read, data, rejected) in [(1, "unwritten", 0), (2, "written", 1)] {
        let (server, sessions, _, node) = kept_on_three().await;
        let old = sessions.client();
        let slow = server.on(Op::Exists).nth(slow_read).delay(T / 4);
        let replacing = server.on(Op::Multi).always().delay(Duration::ZERO);
        expire_at_the_client_only(&server, &sessions).await;
        let operator = crate::client_of_all(&server, 3).await;
        settle().await;
        assert_eq!((slow.count(), replacing.count()), (1, 0), "it has read the old node");
        assert!(server.expire(old.session_id()));
        create_other(&operator, "unwritten").await;
        if rejected > 0 {
            operator.set_data(PATH, data.as_bytes(), None).await.unwrap();
        }
        expect_spared(&server, &node, data).await;
        assert_eq!(replacing.count(), rejected);
    }
}

/// Lets the client open its next session at a server that lags behind the leader, while its reads are slow.
async fn next_session_at_a_lagging_server(server: &TestServer, sessions: &SessionManager) -> Fault {
    let slow = server.on(Op::Exists).always().delay(100 * MS);
    expire_at_the_client_only(server, sessions).await;
    let leader = server.leader();
    (0..3).filter(|index| *index != leader).for_each(|index| server.lag(index, T / 10));
    slow
}

/// A follower still shows the node of the old session. Another process has the path at the leader.
#[tokio::test(start_paused = true)]
async fn replacement_reads_the_node_after_a_sync() {
    let (server, sessions, _, node) = kept_on_three().await;
    let old = sessions.client();
    let slow = next_session_at_a_lagging_server(&server, &sessions).await;
    let leader = server.leader();
    let config = Config::new(&format!("server-{leader}:1")).unwrap().session_timeout(T).seed(3);
    let operator = open(&server, config).await;
    server.refuse_connects(leader);
    while slow.count() == 0 {
        pass(MS).await;
    }
    assert!(server.expire(old.session_id()));
    create_other(&operator, "other").await;
    expect_spared(&server, &node, "other").await;
}

#[tokio::test(start_paused = true)]
async fn restoration_spares_the_node_of_another_process() {
    let (server, _sessions, operator, node) = kept_on(TestServer::in_memory(), restoring).await;
    // The reads after the event, and after the pause.
    let slow = server.on(Op::Exists).nth(2).delay(T / 10);
    operator.set_data(PATH, b"x", None).await.unwrap();
    pass(2 * RESTORE_PAUSE).await;
    assert_eq!(slow.count(), 1, "it has read its own node");
    operator.delete(PATH, None).await.unwrap();
    create_other(&operator, "other").await;
    expect_spared(&server, &node, "other").await;
}

#[tokio::test(start_paused = true)]
async fn close_spares_a_written_node_of_another_process() {
    let (server, _sessions, operator, node) = kept().await;
    let slow = server.on(Op::Exists).delay(T / 10);
    let closing = tokio::spawn(async move { node.close().await });
    settle().await;
    assert_eq!(slow.count(), 1, "it has read its own node");
    operator.delete(PATH, None).await.unwrap();
    create_other(&operator, "other").await;
    operator.set_data(PATH, b"written", None).await.unwrap();
    closing.await.unwrap().unwrap();
    assert_eq!(text(&server, PATH), "written");
}

/// The handle has a node of its own by then, so the next node of the earlier run is another's.
#[tokio::test(start_paused = true)]
async fn earlier_run_that_goes_on_is_a_conflict_later() {
    let (server, sessions, earlier) = crate::sessions_and_client().await;
    let node = PersistentNode::builder(&sessions, PATH).data("next");
    let node = node.previous_session(earlier.session_id()).start().unwrap();
    expect_present(&server, &sessions, &node).await;
    let taking = earlier.multi().delete(PATH, None);
    taking.create(PATH, b"earlier", CreateMode::Ephemeral).send().await.unwrap();
    expect_spared(&server, &node, "earlier").await;
}

/// The server of the next session still shows the node of the old one, which has expired.
#[tokio::test(start_paused = true)]
async fn lagging_server_causes_no_replacement_of_another_owner() {
    let (server, sessions, _, node) = kept_on_three().await;
    let others = crate::sessions(&server, 3).await;
    let other = start(&others, "other");
    settle().await;
    let old = sessions.client();
    let slow = next_session_at_a_lagging_server(&server, &sessions).await;
    let leader = server.leader();
    server.refuse_connects(leader);
    let next = sessions.open_client().await.unwrap();
    let at =
        server.with(|ensemble| ensemble.sessions().find(|session| session.id == next.session_id()));
    assert!(at.is_some_and(|at| at.server != leader));
    assert!(server.expire(old.session_id()));
    let stat = other.wait_until_present(T).await.unwrap();
    expect_spared(&server, &node, "other").await;
    assert_eq!(other.state().stat().unwrap().czxid, stat.czxid);
    assert!(slow.count() > 0);
}

#[tokio::test(start_paused = true)]
async fn refused_replacement_is_created_when_the_old_node_expires() {
    let server = TestServer::ensemble(3);
    let operator = client(&server, 9).await;
    let acl = [Acl { perms: Perms::READ | Perms::CREATE, ..OPEN_ACL_UNSAFE[0].clone() }];
    operator.create_builder("/g").acl(&acl).create().await.unwrap();
    let sessions = sessions_of_all(&server, 1).await;
    let node = PersistentNode::start(&sessions, "/g/a", "a").unwrap();
    node.wait_until_present(T).await.unwrap();
    let old = sessions.client().session_id();
    expire_at_the_client_only(&server, &sessions).await;
    // Long enough for long pauses between the attempts.
    pass(T / 4).await;
    assert!(is_refused(&node.state()), "{node:?}");
    assert!(server.expire(old));
    settle().await;
    assert_eq!(owner(&server, "/g/a"), Some(sessions.client().session_id()));
}
