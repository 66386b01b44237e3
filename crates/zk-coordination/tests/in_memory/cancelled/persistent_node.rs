//! Persistent nodes and members of groups whose operations are dropped.

use zk_coordination::{Group, GroupMember, NodeMode, NodeState, PersistentNode};
use zk_testing::{Op, TestServer};

use super::{drop_after_every_poll, polled_with_yields};
use crate::persistent_node::PATH;
use crate::{T, data, polled, sessions, settle, settle_watches, watches};

const GROUP: &str = "/services/web";

/// The call stores the data, before the first poll.
#[tokio::test(start_paused = true)]
async fn dropped_set_data_of_a_node_is_applied() {
    for mode in [NodeMode::Ephemeral, NodeMode::EphemeralSequential, NodeMode::Persistent] {
        for lost in [None, Some(Op::SetData)] {
            let what = format!("set_data, {mode:?}, lost reply: {lost:?}");
            drop_after_every_poll(&what, async |polls, what| {
                set_data_completes(mode, lost, polls, what).await
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
    let done = polled_with_loss(&server, lost, polls, node.set_data("new")).await;
    assert!(done.as_ref().is_none_or(Result::is_ok), "{what}: {done:?}");
    settle_watches().await;
    assert_eq!(data(&server, &path).unwrap(), b"new", "{what}");
    assert_eq!((present_path(&node), watches(&server)), (path.clone(), watches_before), "{what}");
    node.set_data("newer").await.unwrap();
    assert_eq!(data(&server, &path).unwrap(), b"newer", "{what}");
    node.close().await.unwrap();
    settle_watches().await;
    assert_eq!((data(&server, &path), watches(&server)), (None, 0), "{what}");
    done.is_some()
}

/// Polls a call up to `polls` times. If a reply is lost, time passes until the reconnect.
async fn polled_with_loss<F: Future>(
    server: &TestServer,
    lost: Option<Op>,
    polls: usize,
    call: F,
) -> Option<F::Output> {
    let Some(op) = lost else { return polled_with_yields(polls, call).await };
    server.on(op).apply_then_drop_reply();
    polled(polls, call).await
}

fn present_path(node: &PersistentNode) -> String {
    let NodeState::Present { path, .. } = node.state() else { panic!("{node:?}") };
    path
}

#[tokio::test(start_paused = true)]
async fn dropped_wait_until_present_has_no_effect() {
    drop_after_every_poll("wait_until_present", async |polls, what| {
        let server = TestServer::in_memory();
        let sessions = sessions(&server, 1).await;
        let node = PersistentNode::start(&sessions, PATH, "old").unwrap();
        let done = polled_with_yields(polls, node.wait_until_present(T)).await;
        assert!(done.as_ref().is_none_or(Result::is_ok), "{what}: {done:?}");
        node.wait_until_present(T).await.unwrap();
        settle_watches().await;
        assert_eq!(data(&server, PATH).unwrap(), b"old", "{what}");
        assert_eq!(watches(&server), 1, "{what}");
        node.close().await.unwrap();
        settle_watches().await;
        assert_eq!(watches(&server), 0, "{what}");
        done.is_some()
    })
    .await;
}

/// The calls wait for the member, store the data before the first poll, and leave in the background.
#[tokio::test(start_paused = true)]
async fn dropped_call_of_a_member_is_applied() {
    for lost in [None, Some(Op::Delete)] {
        let what = format!("calls of a member, lost reply: {lost:?}");
        drop_after_every_poll(&what, async |polls, what| {
            let server = TestServer::in_memory();
            let group = Group::open(&sessions(&server, 2).await, GROUP).await.unwrap();
            let watches_before = watches(&server);
            let sessions = sessions(&server, 1).await;
            let join = || GroupMember::join(&sessions, GROUP, "a", "old").unwrap();
            let member = join();
            let waited = polled_with_yields(polls, member.wait_until_present(T)).await;
            assert!(waited.as_ref().is_none_or(Result::is_ok), "{what}: {waited:?}");
            member.wait_until_present(T).await.unwrap();
            settle_watches().await;
            assert_eq!(data(&server, PATH).unwrap(), b"old", "{what}");
            let set = polled_with_yields(polls, member.set_data("new")).await;
            assert!(set.as_ref().is_none_or(Result::is_ok), "{what}: {set:?}");
            settle_watches().await;
            assert_eq!(&group.members().get("a").unwrap().data()[..], b"new", "{what}");
            member.set_data("newer").await.unwrap();
            settle().await;
            assert_eq!(&group.members().get("a").unwrap().data()[..], b"newer", "{what}");
            let left = polled_with_loss(&server, lost, polls, member.leave()).await;
            assert!(left.as_ref().is_none_or(Result::is_ok), "{what}: {left:?}");
            assert!(left.is_none() || data(&server, PATH).is_none(), "{what}");
            settle_watches().await;
            assert_eq!((data(&server, PATH), watches(&server)), (None, watches_before), "{what}");
            let again = join();
            again.wait_until_present(T).await.unwrap();
            again.leave().await.unwrap();
            left.is_some() && set.is_some() && waited.is_some()
        })
        .await;
    }
}
