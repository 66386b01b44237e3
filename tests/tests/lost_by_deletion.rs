//! Another client deletes the holder's node: the guard reports the loss, and the command ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::time::Duration;

use zk_recipes::{LockError, LossReason, Mutex};
use zk_tests::{HOLD, Journal, Zk, contenders, open, poll, shared_zookeeper};

#[test]
fn command_ends_when_its_node_is_deleted() {
    let Some(zk) = shared_zookeeper() else { return };
    let journal = Journal::new();
    let command = Zk::new(zk.connect_string()).journal(&journal);
    let holder = command.lock("/deletion/command", HOLD);
    let entry = poll(LIMIT, || journal.entered().pop()).expect("nobody got in");

    command.ok(&["delete", &entry.node]);
    let ended = holder.wait(LIMIT);
    assert_eq!(ended.code(), Some(74), "{}", ended.stderr);
    assert_eq!(
        ended.stderr,
        "zk: /deletion/command: the lock was lost: the lock's node was deleted, by another client or \
         because the session expired\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn guard_reports_deletion_of_its_node() {
    let Some(zk) = shared_zookeeper() else { return };
    let (client, other) = (open(&zk.connect_string()).await, open(&zk.connect_string()).await);
    let lock = Mutex::new(&client, "/deletion/guard").unwrap();
    let guard = lock.acquire().await.unwrap();
    let told = tokio::spawn(guard.lost());
    // Another client deletes the node and creates it again, under the same name.
    contenders(&other, "/deletion/guard", 1).await;
    other.delete(guard.node(), None).await.unwrap();
    let told = tokio::time::timeout(LIMIT, told).await.expect("not told").unwrap();
    assert_eq!(told, LossReason::NodeDeleted);

    other.create(guard.node(), b"", zk_recipes::session::CreateMode::Ephemeral).await.unwrap();
    let lost = Err(LockError::Lost(LossReason::NodeDeleted));
    assert_eq!(guard.check().await, lost);
    assert_eq!(guard.lost().await, LossReason::NodeDeleted);
    assert!(!guard.is_held());
    assert_eq!(guard.token(), Err(LockError::Lost(LossReason::NodeDeleted)));
    assert_eq!(guard.release().await, Err(LockError::Lost(LossReason::NodeDeleted)));
}

const LIMIT: Duration = Duration::from_secs(30);
