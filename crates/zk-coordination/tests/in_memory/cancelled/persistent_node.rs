//! Persistent nodes and members of groups whose operations are dropped.

use zk_coordination::session::SessionManager;
use zk_coordination::{Group, GroupMember, NodeMode, NodeState, PersistentNode};
use zk_testing::{Op, TestServer};

use super::{drop_after_every_poll, polled_with_yields, watches};
use crate::barrier::settle_watches;
use crate::persistent_node::{PATH, found};
use crate::{T, polled, sessions, settle};

const GROUP: &str = "/groups/web";
const MEMBER: &str = "/groups/web/a";

/// The call stores the data, before the first poll.
#[tokio::test(start_paused = true)]
async fn dropped_set_data_of_a_node_is_applied() {
    for mode in [NodeMode::Ephemeral, NodeMode::EphemeralSequential, NodeMode::Persistent] {
        for lost in [None, Some(Op::SetData)] {
            let what = format!("set_data, {mode:?}, lost reply: {lost:?}");
            drop_after_every_poll(&what, async |polls| {
                set_data_completes(mode, lost, polls, &what).await
            })
            .await;
        }
    }
}

/// Returns true if the operation completes before it is dropped.
async fn set_data_completes(mode: NodeMode, lost: Option<Op>, polls: usize, what: &str) -> bool {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let node = PersistentNode::builder(&sessions, PATH).mode(mode).data("old").start().unwrap();
    node.wait_until_present(T).await.unwrap();
    settle().await;
    let watches_before = watches(&server);
    let path = present_path(&node);
    let done = match lost {
        None => polled_with_yields(polls, node.set_data("new")).await,
        Some(op) => {
            server.on(op).apply_then_drop_reply();
            polled(polls, node.set_data("new")).await // time passes until the reconnect
        }
    };
    assert!(done.as_ref().is_none_or(Result::is_ok), "{what}, {polls} polls: {done:?}");
    settle_watches().await;
    assert_eq!(found(&server, &path).unwrap().data, b"new", "{what}, {polls} polls");
    assert_eq!((present_path(&node), watches(&server)), (path.clone(), watches_before), "{what}");
    node.set_data("newer").await.unwrap();
    assert_eq!(found(&server, &path).unwrap().data, b"newer", "{what}, {polls} polls");
    node.close().await.unwrap();
    settle_watches().await;
    assert!(found(&server, &path).is_none(), "{what}, {polls} polls");
    assert_eq!(watches(&server), 0, "{what}, {polls} polls");
    done.is_some()
}

fn present_path(node: &PersistentNode) -> String {
    match node.state() {
        NodeState::Present { path, .. } => path,
        state => panic!("{state:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_wait_until_present_has_no_effect() {
    for is_member in [false, true] {
        let what = format!("wait_until_present, member: {is_member}");
        drop_after_every_poll(&what, async |polls| {
            let server = TestServer::in_memory();
            let sessions = sessions(&server, 1).await;
            let done = if is_member {
                let member = join(&sessions);
                let done = polled_with_yields(polls, member.wait_until_present(T)).await;
                member.wait_until_present(T).await.unwrap();
                expect_one_node(&server, MEMBER, &what).await;
                member.leave().await.unwrap();
                done
            } else {
                let node = PersistentNode::start(&sessions, PATH, "old").unwrap();
                let done = polled_with_yields(polls, node.wait_until_present(T)).await;
                node.wait_until_present(T).await.unwrap();
                expect_one_node(&server, PATH, &what).await;
                node.close().await.unwrap();
                done
            };
            assert!(done.as_ref().is_none_or(Result::is_ok), "{what}, {polls} polls: {done:?}");
            settle_watches().await;
            assert_eq!(watches(&server), 0, "{what}, {polls} polls");
            done.is_some()
        })
        .await;
    }
}

/// Asserts that the node exists with the first data, and with one watch.
async fn expect_one_node(server: &TestServer, path: &str, what: &str) {
    settle_watches().await;
    assert_eq!(found(server, path).unwrap().data, b"old", "{what}");
    assert_eq!(watches(server), 1, "{what}");
}

fn join(sessions: &SessionManager) -> GroupMember {
    GroupMember::join(sessions, GROUP, "a", "old").unwrap()
}

/// The call stores the data, before the first poll.
#[tokio::test(start_paused = true)]
async fn dropped_set_data_of_a_member_is_applied() {
    drop_after_every_poll("GroupMember::set_data", async |polls| {
        let server = TestServer::in_memory();
        let group = Group::open(&sessions(&server, 2).await, GROUP).await.unwrap();
        let sessions = sessions(&server, 1).await;
        let member = join(&sessions);
        member.wait_until_present(T).await.unwrap();
        settle().await;
        let watches_before = watches(&server);
        let done = polled_with_yields(polls, member.set_data("new")).await;
        assert!(done.as_ref().is_none_or(Result::is_ok), "{polls} polls: {done:?}");
        settle_watches().await;
        assert_eq!(&group.members().get("a").unwrap().data()[..], b"new", "{polls} polls");
        assert_eq!(watches(&server), watches_before, "{polls} polls");
        member.set_data("newer").await.unwrap();
        settle().await;
        assert_eq!(&group.members().get("a").unwrap().data()[..], b"newer", "{polls} polls");
        done.is_some()
    })
    .await;
}

/// The member leaves in the background, and can join again.
#[tokio::test(start_paused = true)]
async fn dropped_leave_deletes_the_node() {
    for lost in [None, Some(Op::Delete)] {
        let what = format!("leave, lost reply: {lost:?}");
        drop_after_every_poll(&what, async |polls| {
            let server = TestServer::in_memory();
            let sessions = sessions(&server, 1).await;
            let member = join(&sessions);
            member.wait_until_present(T).await.unwrap();
            settle().await;
            let done = match lost {
                None => polled_with_yields(polls, member.leave()).await,
                Some(op) => {
                    server.on(op).apply_then_drop_reply();
                    polled(polls, member.leave()).await // time passes until the reconnect
                }
            };
            assert!(done.as_ref().is_none_or(Result::is_ok), "{what}, {polls} polls: {done:?}");
            assert!(done.is_none() || found(&server, MEMBER).is_none(), "{what}, {polls} polls");
            settle_watches().await;
            assert!(found(&server, MEMBER).is_none(), "{what}, {polls} polls");
            assert_eq!(watches(&server), 0, "{what}, {polls} polls");
            let again = join(&sessions);
            again.wait_until_present(T).await.unwrap();
            again.leave().await.unwrap();
            done.is_some()
        })
        .await;
    }
}
