//! Tests of groups: members that join, change, leave and die.

use std::time::Duration;

use zk_coordination::limits::{CHECK_PAUSE, CHECKED_ALONE, READS_IN_FLIGHT};
use zk_coordination::session::{
    Acl, CreateMode, OPEN_ACL_UNSAFE, ParentMode, Perms, RetryOn, SessionManager,
};
use zk_coordination::{Group, GroupError, GroupMember, NodeMode, NodeState};
use zk_testing::{Cut, ErrorCode, Op, Settings, TestServer, Version};

use crate::persistent_node::{found, record_gaps};
use crate::{T, client, config, sessions, settle};

const GROUP: &str = "/groups/web";

async fn joined(sessions: &SessionManager, id: &str) -> GroupMember {
    let member = GroupMember::join(sessions, GROUP, id, format!("payload of {id}")).unwrap();
    member.wait_until_present(3 * T).await.unwrap();
    member
}

fn ids(group: &Group) -> Vec<String> {
    group.members().ids().map(str::to_owned).collect()
}

/// Waits until the group has these members.
async fn expect(group: &mut Group, expected: &[&str]) {
    while ids(group) != expected {
        let changed = tokio::time::timeout(10 * T, group.changed()).await;
        assert!(changed.is_ok(), "{:?} instead of {expected:?}", ids(group));
        changed.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn members_join_change_and_leave() {
    let server = TestServer::in_memory();
    let (first, second) = (sessions(&server, 1).await, sessions(&server, 2).await);
    let mut group = Group::open(&sessions(&server, 3).await, GROUP).await.unwrap();
    assert!(group.members().is_empty() && group.members().error().is_none());
    let a = joined(&first, "a").await;
    expect(&mut group, &["a"]).await;
    let b = joined(&second, "b").await;
    expect(&mut group, &["a", "b"]).await;
    let members = group.members();
    let (one, other) = (members.get("a").unwrap(), members.get("b").unwrap());
    assert_eq!(one.session_id(), first.client().session_id());
    assert_eq!(&one.data()[..], b"payload of a");
    assert!(one.czxid() < other.czxid());
    b.set_data("new").await.unwrap();
    let members = group.changed().await.unwrap();
    assert_eq!(&members.get("b").unwrap().data()[..], b"new");
    assert_eq!(a.id(), "a");
    a.leave().await.unwrap();
    expect(&mut group, &["b"]).await;
    server.expire(second.client().session_id());
    settle().await;
    expect(&mut group, &["b"]).await;
    assert_eq!(group.members().get("b").unwrap().session_id(), second.client().session_id());
    drop(b);
    expect(&mut group, &[]).await;
}

/// Curator's `getCurrentMembers` contains the own id even if the process is not registered.
#[tokio::test(start_paused = true)]
async fn own_id_is_listed_only_while_the_node_exists() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let refusal = server.on(Op::Create2).always().answer(ErrorCode::NO_AUTH);
    sessions.client().create(GROUP.split_at(7).0, b"", CreateMode::Persistent).await.unwrap_err();
    let member = GroupMember::join(&sessions, GROUP, "me", "").unwrap();
    let mut group = Group::open(&sessions, GROUP).await.unwrap();
    // reason: virtual time, in which the process could join
    tokio::time::sleep(T).await;
    assert!(group.members().is_empty());
    refusal.cancel();
    expect(&mut group, &["me"]).await;
    member.leave().await.unwrap();
    expect(&mut group, &[]).await;
}

/// With Curator, each process overwrites the payload of the other one.
#[tokio::test(start_paused = true)]
async fn second_process_with_an_id_gets_a_conflict() {
    let server = TestServer::in_memory();
    let (first, second) = (sessions(&server, 1).await, sessions(&server, 2).await);
    let a = joined(&first, "a").await;
    let twin = GroupMember::join(&second, GROUP, "a", "twin").unwrap();
    let error = twin.wait_until_present(T).await.unwrap_err();
    assert!(matches!(error.state(), NodeState::Conflict { .. }), "{error}");
    let mut group = Group::open(&second, GROUP).await.unwrap();
    assert_eq!(&group.members().get("a").unwrap().data()[..], b"payload of a");
    drop(a);
    let members = group.changed().await.unwrap();
    let members = if members.is_empty() { group.changed().await.unwrap() } else { members };
    assert_eq!(&members.get("a").unwrap().data()[..], b"twin");
}

#[tokio::test(start_paused = true)]
async fn overwritten_payload_is_restored() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let mut group = Group::open(&sessions, GROUP).await.unwrap();
    let _a = joined(&sessions, "a").await;
    expect(&mut group, &["a"]).await;
    operator.set_data("/groups/web/a", b"overwritten", None).await.unwrap();
    assert_eq!(&group.changed().await.unwrap().get("a").unwrap().data()[..], b"overwritten");
    assert_eq!(&group.changed().await.unwrap().get("a").unwrap().data()[..], b"payload of a");
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_no_names_are_rejected() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    for id in ["", "a/b", "/a", "a/"] {
        let error = GroupMember::join(&sessions, GROUP, id, "").unwrap_err();
        assert_eq!(error, GroupError::InvalidId { id: id.to_owned() });
        assert_eq!(error.retry_on(), RetryOn::Never);
    }
    for id in ["..", ".", "a\0b"] {
        let error = GroupMember::join(&sessions, GROUP, id, "").unwrap_err();
        assert!(matches!(error, GroupError::Client(_)), "{error}");
    }
    assert!(GroupMember::join(&sessions, "groups", "a", "").is_err());
    assert!(Group::open(&sessions, "groups").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn children_that_are_not_ephemeral_are_no_members() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let _a = joined(&sessions, "a").await;
    operator.create("/groups/web/config", b"", CreateMode::Persistent).await.unwrap();
    let mut group = Group::open(&sessions, GROUP).await.unwrap();
    expect(&mut group, &["a"]).await;
    operator.create("/groups/web/z", b"", CreateMode::Ephemeral).await.unwrap();
    expect(&mut group, &["a", "z"]).await;
}

/// Access control list with which nobody can read the node.
fn hidden() -> Vec<Acl> {
    vec![Acl { perms: Perms::WRITE | Perms::ADMIN, ..OPEN_ACL_UNSAFE[0].clone() }]
}

fn unreadable(group: &Group) -> Vec<String> {
    group.members().unreadable().map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn unreadable_child_does_not_disturb_the_group() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let _a = joined(&sessions, "a").await;
    let secret = "/groups/web/secret";
    operator.create_with_acl(secret, b"", CreateMode::Ephemeral, &hidden()).await.unwrap();
    let mut group = Group::open(&sessions, GROUP).await.unwrap();
    assert_eq!(
        (ids(&group), unreadable(&group)),
        (vec!["a".to_owned()], vec!["secret".to_owned()])
    );
    assert!(group.members().error().is_none(), "the list is complete");
    let _b = joined(&sessions, "b").await;
    expect(&mut group, &["a", "b"]).await;
    operator.delete(secret, None).await.unwrap();
    group.changed().await.unwrap();
    assert!(unreadable(&group).is_empty());
    operator.create_with_acl(secret, b"", CreateMode::Ephemeral, &hidden()).await.unwrap();
    group.changed().await.unwrap();
    assert_eq!(unreadable(&group), ["secret"]);
    assert_eq!(ids(&group), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn unreadable_member_is_listed_after_its_acl_is_opened() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let _a = joined(&sessions, "a").await;
    let path = "/groups/web/b";
    operator.create_with_acl(path, b"", CreateMode::Ephemeral, &hidden()).await.unwrap();
    let mut group = Group::open(&sessions, GROUP).await.unwrap();
    let reads = server.on(Op::GetData).always().delay(Duration::from_millis(1));
    // reason: virtual time, in which both children are checked
    tokio::time::sleep(10 * CHECK_PAUSE).await;
    assert!((18..=22).contains(&reads.count()), "{} reads", reads.count());
    operator.set_acl(path, OPEN_ACL_UNSAFE, None).await.unwrap();
    let in_time = CHECK_PAUSE + Duration::from_secs(1);
    tokio::time::timeout(in_time, expect(&mut group, &["a", "b"])).await.unwrap();
    assert!(unreadable(&group).is_empty());
}

#[tokio::test(start_paused = true)]
async fn check_finds_a_member_that_was_hidden_while_it_changed() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let _a = joined(&sessions, "a").await;
    let path = "/groups/web/b";
    operator.create(path, b"old", CreateMode::Ephemeral).await.unwrap();
    let mut group = Group::open(&sessions, GROUP).await.unwrap();
    operator.set_acl(path, &hidden(), None).await.unwrap();
    // The server drops the event, and with it the watch.
    operator.set_data(path, b"new", None).await.unwrap();
    settle().await;
    assert_eq!(ids(&group), ["a", "b"], "nothing was reported");
    let in_time = CHECK_PAUSE + Duration::from_secs(1);
    tokio::time::timeout(in_time, expect(&mut group, &["a"])).await.unwrap();
    assert_eq!(unreadable(&group), ["b"]);
    operator.set_acl(path, OPEN_ACL_UNSAFE, None).await.unwrap();
    tokio::time::timeout(in_time, expect(&mut group, &["a", "b"])).await.unwrap();
    operator.set_data(path, b"newer", None).await.unwrap();
    settle().await;
    assert_eq!(&group.members().get("b").unwrap().data()[..], b"newer", "it is watched again");
}

#[tokio::test(start_paused = true)]
async fn check_reports_a_group_that_is_hidden_for_a_time() {
    for version in [Version::V3_8, Version::V3_9] {
        let server = TestServer::in_memory_with(Settings::new().version(version));
        let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
        let a = joined(&sessions, "a").await;
        let mut group = Group::open(&sessions, GROUP).await.unwrap();
        let hidden = [Acl::world(Perms(Perms::ALL.0 & !Perms::READ.0))];
        operator.set_acl(GROUP, &hidden, None).await.unwrap();
        let _b = joined(&sessions, "b").await;
        settle().await;
        assert_eq!(ids(&group), ["a"], "nothing was reported");
        let in_time = CHECK_PAUSE + Duration::from_secs(1);
        let members = tokio::time::timeout(in_time, group.changed()).await.unwrap().unwrap();
        let code = members.error().and_then(|error| error.code());
        assert_eq!(code, Some(ErrorCode::NO_AUTH), "{version:?}");
        a.leave().await.unwrap();
        operator.set_acl(GROUP, OPEN_ACL_UNSAFE, None).await.unwrap();
        expect(&mut group, &["b"]).await;
        assert!(group.members().error().is_none());
    }
}

/// A program that was killed starts again before its session has expired.
#[tokio::test(start_paused = true)]
async fn restarted_member_replaces_its_last_node() {
    let server = TestServer::in_memory();
    let last = client(&server, 1).await;
    last.create("/g", b"", CreateMode::Persistent).await.unwrap();
    last.create("/g/a", b"old", CreateMode::Ephemeral).await.unwrap();
    let gaps = record_gaps(&server, "/g/a");
    let sessions = sessions(&server, 2).await;
    let me = GroupMember::join_with(&sessions, "/g", "a", "new", |node| {
        node.previous_session(last.session_id())
    });
    let me = me.unwrap();
    me.wait_until_present(T / 10).await.unwrap();
    server.expire(last.session_id());
    settle().await;
    assert!(me.state().is_present());
    assert_eq!(*gaps.lock().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn member_has_the_options_of_its_node() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    // A missing group would get the list of the member, which lets nobody create below it.
    operator.create("/g", b"", CreateMode::Persistent).await.unwrap();
    let acl = hidden();
    let me = GroupMember::join_with(&sessions, "/g", "a", "payload", |node| {
        node.acl(acl).mode(NodeMode::Persistent).data("of another kind")
    });
    let me = me.unwrap();
    let stat = me.wait_until_present(T).await.unwrap();
    assert!(stat.is_ephemeral(), "the mode and the data of a member are fixed");
    assert_eq!(found(&server, "/g/a").unwrap().data, b"payload");
    assert_eq!(operator.get_data("/g/a").await.unwrap_err().code(), Some(ErrorCode::NO_AUTH));
}

/// The server reports no change of an access control list, so each list leads to another read.
#[tokio::test(start_paused = true)]
async fn member_that_was_unreadable_for_a_time_is_listed_again() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let mut group = Group::open(&sessions, GROUP).await.unwrap();
    let _a = joined(&sessions, "a").await;
    expect(&mut group, &["a"]).await;
    let path = "/groups/web/b";
    operator.create(path, b"", CreateMode::Ephemeral).await.unwrap();
    expect(&mut group, &["a", "b"]).await;
    // The event of the change leads to a read, which finds the new list.
    let changed = operator.set_data(path, b"new", None);
    operator.set_acl(path, &hidden(), None).await.unwrap();
    changed.await.unwrap();
    expect(&mut group, &["a"]).await;
    operator.set_acl(path, OPEN_ACL_UNSAFE, None).await.unwrap();
    let _c = joined(&sessions, "c").await;
    expect(&mut group, &["a", "b", "c"]).await;
    assert!(unreadable(&group).is_empty());
}

#[tokio::test(start_paused = true)]
async fn group_follows_its_path_through_deletion_and_creation() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let mut group = Group::open(&sessions, GROUP).await.unwrap();
    for _ in 0..3 {
        let a = joined(&sessions, "a").await;
        expect(&mut group, &["a"]).await;
        a.leave().await.unwrap();
        expect(&mut group, &[]).await;
        operator.delete(GROUP, None).await.unwrap();
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn replaced_member_is_seen_even_if_it_was_missing_briefly() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let mut group = Group::open(&sessions, GROUP).await.unwrap();
    let _a = joined(&sessions, "z").await;
    let path = "/groups/web/a";
    for round in 0..20 {
        let data = round.to_string();
        operator.create(path, data.as_bytes(), CreateMode::Ephemeral).await.unwrap();
        let deleted = operator.delete(path, None);
        let created = operator.create(path, b"again", CreateMode::Ephemeral);
        let changed = operator.set_data(path, data.as_bytes(), None);
        deleted.await.unwrap();
        let czxid = created.await.unwrap().stat.czxid;
        changed.await.unwrap();
        settle().await;
        let members = group.members();
        let member = members.get("a").unwrap();
        assert_eq!((&member.data()[..], member.czxid()), (data.as_bytes(), czxid));
        operator.delete(path, None).await.unwrap();
        expect(&mut group, &["z"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn watcher_reads_the_members_again_after_losses() {
    for op in [Op::GetChildren2, Op::GetData, Op::Exists, Op::SetWatches] {
        for nth in 1..=3 {
            let server = TestServer::in_memory();
            let (members, watcher) = (sessions(&server, 1).await, sessions(&server, 2).await);
            let _a = joined(&members, "a").await;
            let id = watcher.client().session_id();
            server.on(op).session(id).nth(nth).drop_before_applying();
            let mut group = Group::open(&watcher, GROUP).await.unwrap();
            let b = joined(&members, "b").await;
            expect(&mut group, &["a", "b"]).await;
            server.connection_of(id).cut(Cut::Rst);
            b.leave().await.unwrap();
            expect(&mut group, &["a"]).await;
            let _c = joined(&members, "c").await;
            expect(&mut group, &["a", "c"]).await;
            assert_eq!(watcher.client().session_id(), id, "{op:?} {nth}");
            server.expire(id);
            let d = joined(&members, "d").await;
            expect(&mut group, &["a", "c", "d"]).await;
            d.leave().await.unwrap();
            expect(&mut group, &["a", "c"]).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn thousand_members_cost_one_list_and_one_read_each() {
    let server = TestServer::in_memory();
    let (sessions, others) = (sessions(&server, 1).await, client(&server, 2).await);
    others.create("/groups", b"", CreateMode::Persistent).await.unwrap();
    others.create(GROUP, b"", CreateMode::Persistent).await.unwrap();
    for n in 0..1_000 {
        let path = format!("{GROUP}/{n:04}");
        others.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    }
    let before = sessions.client().stats().frames_sent;
    let mut group = Group::open(&sessions, GROUP).await.unwrap();
    assert_eq!(group.members().len(), 1_000);
    assert_eq!(sessions.client().stats().frames_sent - before, 1_001);
    others.set_data("/groups/web/0007", b"x", None).await.unwrap();
    assert_eq!(&group.changed().await.unwrap().get("0007").unwrap().data()[..], b"x");
    assert_eq!(sessions.client().stats().frames_sent - before, 1_002);
    others.delete("/groups/web/0007", None).await.unwrap();
    assert_eq!(group.changed().await.unwrap().len(), 999);
    assert_eq!(sessions.client().stats().frames_sent - before, 1_003);
}

#[tokio::test(start_paused = true)]
async fn too_many_members_to_watch_are_an_error() {
    let server = TestServer::in_memory();
    let others = client(&server, 2).await;
    others.create("/g", b"", CreateMode::Persistent).await.unwrap();
    for n in 0..2 * READS_IN_FLIGHT {
        others.create(&format!("/g/{n}"), b"", CreateMode::Ephemeral).await.unwrap();
    }
    let config = config(1).max_watches(5);
    let sessions = SessionManager::connect(config.connector(server.clone())).await.unwrap();
    let error = Group::open(&sessions, "/g").await.unwrap_err();
    assert!(error.to_string().contains("watches"), "{error}");
    // reason: virtual time, in which the session removes the watches
    tokio::time::sleep(T).await;
    let reads = server.on(Op::GetData).always().never_answer();
    // reason: virtual time, in which a dropped group could send requests
    tokio::time::sleep(10 * T).await;
    assert_eq!(reads.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn stopped_session_manager_ends_the_group() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let mut group = Group::open(&sessions, GROUP).await.unwrap();
    sessions.close().await;
    while group.changed().await.is_ok() {}
    assert!(group.members().error().is_some());
    assert!(Group::open(&sessions, GROUP).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn dropped_group_leaves_no_watch_and_no_session() {
    let server = TestServer::in_memory();
    let sessions = sessions(&server, 1).await;
    let _a = joined(&sessions, "a").await;
    let before = server.with(|ensemble| ensemble.watches(0));
    let group = Group::open(&sessions, GROUP).await.unwrap();
    drop(group);
    drop(Group::open(&sessions, GROUP)); // before it has sent anything
    let ms = Duration::from_millis(1);
    server.on_any_request().session(sessions.client().session_id()).always().delay(10 * ms);
    for steps in 0..10 {
        drop(tokio::time::timeout(steps * 5 * ms, Group::open(&sessions, GROUP)).await);
    }
    // reason: virtual time, in which the session removes the watches
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(server.with(|ensemble| ensemble.watches(0)), before);
}

/// A check reads the first children, and the next one those behind them.
#[tokio::test(start_paused = true)]
async fn checks_of_a_large_group_reach_its_last_member() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    operator.ensure_path(GROUP, ParentMode::Persistent).await.unwrap();
    for n in 0..=2 * CHECKED_ALONE {
        let path = format!("{GROUP}/{n:03}");
        operator.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    }
    let mut group = Group::open(&sessions, GROUP).await.unwrap();
    let last = format!("{:03}", 2 * CHECKED_ALONE);
    operator.set_acl(&format!("{GROUP}/{last}"), &hidden(), None).await.unwrap();
    let reads = server.on(Op::GetData).always().delay(Duration::from_millis(1));
    let in_time = CHECK_PAUSE * 3 + Duration::from_secs(1);
    tokio::time::timeout(in_time, group.changed()).await.unwrap().unwrap();
    assert_eq!(unreadable(&group), [last]);
    assert_eq!(reads.count(), 2 * CHECKED_ALONE as u64 + 2, "and one after the check");
}

#[tokio::test(start_paused = true)]
async fn busy_group_reads_a_reopened_member() {
    let server = TestServer::in_memory();
    let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
    let busy = GroupMember::join(&sessions, "/g", "a", "0").unwrap();
    busy.wait_until_present(T).await.unwrap();
    let hidden = [Acl { perms: Perms::WRITE | Perms::ADMIN, ..OPEN_ACL_UNSAFE[0].clone() }];
    operator.create_with_acl("/g/b", b"", CreateMode::Ephemeral, &hidden).await.unwrap();
    let group = Group::open(&sessions, "/g").await.unwrap();
    assert_eq!(group.members().unreadable().count(), 1);
    operator.set_acl("/g/b", OPEN_ACL_UNSAFE, None).await.unwrap();
    for n in 0..4 {
        // reason: virtual time, in which the other member changes
        tokio::time::sleep(CHECK_PAUSE / 2).await;
        busy.set_data(format!("{n}")).await.unwrap();
    }
    settle().await;
    let ids: Vec<_> = group.members().ids().map(str::to_owned).collect();
    assert_eq!(ids, ["a", "b"]);
}
