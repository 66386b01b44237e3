//! Tests of groups: members that join, change, leave and die.

use std::time::Duration;

use zk_coordination::limits::{CHECK_PAUSE, CHECKED_ALONE, READS_IN_FLIGHT};
use zk_coordination::session::{
    Acl, Client, CreateMode, OPEN_ACL_UNSAFE, ParentMode, Perms, RetryOn, SessionManager,
};
use zk_coordination::{Group, GroupError, GroupMember, NodeMode, NodeState};
use zk_testing::{Cut, ErrorCode, Op, Settings, TestServer, Version};

use crate::{
    MS, SECOND, T, client, config, data, manager, pass, sessions, sessions_and_client, settle,
    settle_watches, watches,
};

const GROUP: &str = "/groups/web";
/// A node in the group that the operator creates.
const B: &str = "/groups/web/b";

/// Time in which a check finds a change that no event reports.
const CHECKED: Duration = CHECK_PAUSE.saturating_add(SECOND);

async fn joined(sessions: &SessionManager, id: &str) -> GroupMember {
    let member = GroupMember::join(sessions, GROUP, id, format!("payload of {id}")).unwrap();
    member.wait_until_present(3 * T).await.unwrap();
    member
}

async fn open(sessions: &SessionManager) -> Group {
    Group::open(sessions, GROUP).await.unwrap()
}

/// Opens a group with the member `a`.
async fn group_of_a() -> (TestServer, SessionManager, Client, Group, GroupMember) {
    let (server, sessions, operator) = sessions_and_client().await;
    let a = joined(&sessions, "a").await;
    let group = open(&sessions).await;
    (server, sessions, operator, group, a)
}

fn ids(group: &Group) -> Vec<String> {
    group.members().ids().map(str::to_owned).collect()
}

fn payload(group: &Group, id: &str) -> String {
    String::from_utf8(group.members().get(id).unwrap().data().to_vec()).unwrap()
}

/// Waits until the group has these members.
async fn expect(group: &mut Group, expected: &[&str]) {
    while ids(group) != expected {
        let changed = tokio::time::timeout(10 * T, group.changed()).await;
        assert!(changed.is_ok(), "{:?} instead of {expected:?}", ids(group));
        changed.unwrap().unwrap();
    }
}

/// Expects that a check finds these members in time.
async fn expect_checked(group: &mut Group, expected: &[&str]) {
    tokio::time::timeout(CHECKED, expect(group, expected)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn members_join_change_and_leave() {
    let server = TestServer::in_memory();
    let (first, second) = (sessions(&server, 1).await, sessions(&server, 2).await);
    let mut group = open(&sessions(&server, 3).await).await;
    assert!(group.members().is_empty() && group.members().error().is_none());
    let a = joined(&first, "a").await;
    expect(&mut group, &["a"]).await;
    let b = joined(&second, "b").await;
    expect(&mut group, &["a", "b"]).await;
    let members = group.members();
    let (one, other) = (members.get("a").unwrap(), members.get("b").unwrap());
    assert_eq!(one.session_id(), first.client().session_id());
    assert_eq!(payload(&group, "a"), "payload of a");
    assert!(one.czxid() < other.czxid());
    b.set_data("new").await.unwrap();
    group.changed().await.unwrap();
    assert_eq!(payload(&group, "b"), "new");
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
    let (server, sessions, _) = sessions_and_client().await;
    let refusal = server.on(Op::Create2).always().answer(ErrorCode::NO_AUTH);
    let member = GroupMember::join(&sessions, GROUP, "me", "").unwrap();
    let mut group = open(&sessions).await;
    pass(T).await; // in which the process could join
    assert!(group.members().is_empty());
    refusal.cancel();
    expect(&mut group, &["me"]).await;
    member.leave().await.unwrap();
    expect(&mut group, &[]).await;
}

/// With Curator, each process overwrites the payload of the other one.
#[tokio::test(start_paused = true)]
async fn second_process_with_an_id_gets_a_conflict() {
    let (server, _first, _, _, a) = group_of_a().await;
    let second = sessions(&server, 3).await;
    let twin = GroupMember::join(&second, GROUP, "a", "twin").unwrap();
    let error = twin.wait_until_present(T).await.unwrap_err();
    assert!(matches!(error.state(), NodeState::Conflict { .. }), "{error}");
    let mut group = open(&second).await;
    assert_eq!(payload(&group, "a"), "payload of a");
    drop(a);
    if group.changed().await.unwrap().is_empty() {
        group.changed().await.unwrap();
    }
    assert_eq!(payload(&group, "a"), "twin");
}

#[tokio::test(start_paused = true)]
async fn overwritten_payload_is_restored() {
    let (_server, _sessions, operator, mut group, _a) = group_of_a().await;
    operator.set_data("/groups/web/a", b"overwritten", None).await.unwrap();
    for expected in ["overwritten", "payload of a"] {
        group.changed().await.unwrap();
        assert_eq!(payload(&group, "a"), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn ids_that_are_no_names_are_rejected() {
    let (_server, sessions, _) = sessions_and_client().await;
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
    let (_server, _sessions, operator, mut group, _a) = group_of_a().await;
    operator.create("/groups/web/config", b"", CreateMode::Persistent).await.unwrap();
    expect(&mut group, &["a"]).await;
    operator.create("/groups/web/z", b"", CreateMode::Ephemeral).await.unwrap();
    expect(&mut group, &["a", "z"]).await;
}

/// Access control list with which nobody can read the node.
fn hidden() -> Vec<Acl> {
    vec![Acl { perms: Perms::WRITE | Perms::ADMIN, ..OPEN_ACL_UNSAFE[0].clone() }]
}

async fn create_hidden(operator: &Client, path: &str) {
    operator.create_with_acl(path, b"", CreateMode::Ephemeral, &hidden()).await.unwrap();
}

async fn set_acl(operator: &Client, path: &str, acl: &[Acl]) {
    operator.set_acl(path, acl, None).await.unwrap();
}

fn unreadable(group: &Group) -> Vec<String> {
    group.members().unreadable().map(str::to_owned).collect()
}

#[tokio::test(start_paused = true)]
async fn unreadable_child_does_not_disturb_the_group() {
    let (_server, sessions, operator, mut group, _a) = group_of_a().await;
    for _ in 0..2 {
        create_hidden(&operator, B).await;
        group.changed().await.unwrap();
        assert_eq!((ids(&group), unreadable(&group)), (vec!["a".to_owned()], vec!["b".to_owned()]));
        let opened = open(&sessions).await;
        assert_eq!((ids(&opened), unreadable(&opened)), (ids(&group), unreadable(&group)));
        assert!(opened.members().error().is_none(), "the list is complete");
        let c = joined(&sessions, "c").await;
        expect(&mut group, &["a", "c"]).await;
        c.leave().await.unwrap();
        expect(&mut group, &["a"]).await;
        operator.delete(B, None).await.unwrap();
        group.changed().await.unwrap();
        assert!(unreadable(&group).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn unreadable_member_is_listed_after_its_acl_is_opened() {
    let (server, sessions, operator, _, _a) = group_of_a().await;
    create_hidden(&operator, B).await;
    let mut group = open(&sessions).await;
    let reads = server.on(Op::GetData).always().delay(MS);
    pass(10 * CHECK_PAUSE).await; // in which both children are checked
    assert!((18..=22).contains(&reads.count()), "{} reads", reads.count());
    set_acl(&operator, B, OPEN_ACL_UNSAFE).await;
    expect_checked(&mut group, &["a", "b"]).await;
    assert!(unreadable(&group).is_empty());
}

#[tokio::test(start_paused = true)]
async fn check_finds_a_member_that_was_hidden_while_it_changed() {
    let (_server, _sessions, operator, mut group, _a) = group_of_a().await;
    operator.create(B, b"old", CreateMode::Ephemeral).await.unwrap();
    expect(&mut group, &["a", "b"]).await;
    set_acl(&operator, B, &hidden()).await;
    // The server drops the event, and with it the watch.
    operator.set_data(B, b"new", None).await.unwrap();
    settle().await;
    assert_eq!(ids(&group), ["a", "b"], "nothing was reported");
    expect_checked(&mut group, &["a"]).await;
    assert_eq!(unreadable(&group), ["b"]);
    set_acl(&operator, B, OPEN_ACL_UNSAFE).await;
    expect_checked(&mut group, &["a", "b"]).await;
    operator.set_data(B, b"newer", None).await.unwrap();
    settle().await;
    assert_eq!(payload(&group, "b"), "newer", "it is watched again");
}

#[tokio::test(start_paused = true)]
async fn check_reports_a_group_that_is_hidden_for_a_time() {
    for version in [Version::V3_8, Version::V3_9] {
        let server = TestServer::in_memory_with(Settings::new().version(version));
        let (sessions, operator) = (sessions(&server, 1).await, client(&server, 2).await);
        let a = joined(&sessions, "a").await;
        let mut group = open(&sessions).await;
        set_acl(&operator, GROUP, &[Acl::world(Perms(Perms::ALL.0 & !Perms::READ.0))]).await;
        let _b = joined(&sessions, "b").await;
        settle().await;
        assert_eq!(ids(&group), ["a"], "nothing was reported");
        let members = tokio::time::timeout(CHECKED, group.changed()).await.unwrap().unwrap();
        let code = members.error().and_then(|error| error.code());
        assert_eq!(code, Some(ErrorCode::NO_AUTH), "{version:?}");
        a.leave().await.unwrap();
        set_acl(&operator, GROUP, OPEN_ACL_UNSAFE).await;
        expect(&mut group, &["b"]).await;
        assert!(group.members().error().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn member_has_the_options_of_its_node() {
    let (server, sessions, operator) = sessions_and_client().await;
    // A missing group would get the list of the member, which lets nobody create below it.
    operator.create("/g", b"", CreateMode::Persistent).await.unwrap();
    let me = GroupMember::join_with(&sessions, "/g", "a", "payload", |node| {
        node.acl(hidden()).mode(NodeMode::Persistent).data("of another kind")
    });
    let stat = me.unwrap().wait_until_present(T).await.unwrap();
    assert!(stat.is_ephemeral(), "the mode and the data of a member are fixed");
    assert_eq!(data(&server, "/g/a").unwrap(), b"payload");
    assert_eq!(operator.get_data("/g/a").await.unwrap_err().code(), Some(ErrorCode::NO_AUTH));
}

/// The server reports no change of an access control list, so each list leads to another read.
#[tokio::test(start_paused = true)]
async fn member_that_was_unreadable_for_a_time_is_listed_again() {
    let (_server, sessions, operator, mut group, _a) = group_of_a().await;
    operator.create(B, b"", CreateMode::Ephemeral).await.unwrap();
    expect(&mut group, &["a", "b"]).await;
    // The event of the change leads to a read, which finds the new list.
    let changed = operator.set_data(B, b"new", None);
    set_acl(&operator, B, &hidden()).await;
    changed.await.unwrap();
    expect(&mut group, &["a"]).await;
    set_acl(&operator, B, OPEN_ACL_UNSAFE).await;
    let _c = joined(&sessions, "c").await;
    expect(&mut group, &["a", "b", "c"]).await;
    assert!(unreadable(&group).is_empty());
}

#[tokio::test(start_paused = true)]
async fn group_follows_its_path_through_deletion_and_creation() {
    let (_server, sessions, operator) = sessions_and_client().await;
    let mut group = open(&sessions).await;
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
    let (_server, _sessions, operator, mut group, _a) = group_of_a().await;
    for round in 0..20 {
        let data = round.to_string();
        operator.create(B, data.as_bytes(), CreateMode::Ephemeral).await.unwrap();
        let deleted = operator.delete(B, None);
        let created = operator.create(B, b"again", CreateMode::Ephemeral);
        let changed = operator.set_data(B, data.as_bytes(), None);
        deleted.await.unwrap();
        let czxid = created.await.unwrap().stat.czxid;
        changed.await.unwrap();
        settle().await;
        assert_eq!(group.members().get("b").unwrap().czxid(), czxid);
        assert_eq!(payload(&group, "b"), data);
        operator.delete(B, None).await.unwrap();
        expect(&mut group, &["a"]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn watcher_reads_the_members_again_after_losses() {
    for op in [Op::GetChildren2, Op::GetData, Op::Exists, Op::SetWatches] {
        for nth in 1..=3 {
            let (server, members, _, _, _a) = group_of_a().await;
            let watcher = sessions(&server, 3).await;
            let id = watcher.client().session_id();
            server.on(op).session(id).nth(nth).drop_before_applying();
            let mut group = open(&watcher).await;
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

/// Creates members with the numbers as ids.
async fn create_members(operator: &Client, count: usize) {
    operator.ensure_path(GROUP, ParentMode::Persistent).await.unwrap();
    for n in 0..count {
        let path = format!("{GROUP}/{n:04}");
        operator.create(&path, b"", CreateMode::Ephemeral).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn thousand_members_cost_one_list_and_one_read_each() {
    let (_server, sessions, others) = sessions_and_client().await;
    create_members(&others, 1_000).await;
    let before = sessions.client().stats().frames_sent;
    let requests = || sessions.client().stats().frames_sent - before;
    let mut group = open(&sessions).await;
    assert_eq!((group.members().len(), requests()), (1_000, 1_001));
    others.set_data("/groups/web/0007", b"x", None).await.unwrap();
    group.changed().await.unwrap();
    assert_eq!((&*payload(&group, "0007"), requests()), ("x", 1_002));
    others.delete("/groups/web/0007", None).await.unwrap();
    assert_eq!((group.changed().await.unwrap().len(), requests()), (999, 1_003));
}

#[tokio::test(start_paused = true)]
async fn too_many_members_to_watch_are_an_error() {
    let server = TestServer::in_memory();
    let others = client(&server, 2).await;
    create_members(&others, 2 * READS_IN_FLIGHT).await;
    let sessions = manager(&server, config(1).max_watches(5)).await;
    let error = Group::open(&sessions, GROUP).await.unwrap_err();
    assert!(error.to_string().contains("watches"), "{error}");
    pass(T).await; // in which the session removes the watches
    let reads = server.on(Op::GetData).always().never_answer();
    pass(10 * T).await; // in which a dropped group could send requests
    assert_eq!(reads.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn stopped_session_manager_ends_the_group() {
    let (_server, sessions, _, mut group, _a) = group_of_a().await;
    sessions.close().await;
    while group.changed().await.is_ok() {}
    assert!(group.members().error().is_some());
    assert!(Group::open(&sessions, GROUP).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn dropped_group_leaves_no_watch() {
    let (server, sessions, _, group, _a) = group_of_a().await;
    let opened = watches(&server);
    drop(group);
    drop(Group::open(&sessions, GROUP)); // before it has sent anything
    server.on_any_request().session(sessions.client().session_id()).always().delay(10 * MS);
    for steps in 0..10 {
        drop(tokio::time::timeout(steps * 5 * MS, Group::open(&sessions, GROUP)).await);
    }
    settle_watches().await;
    assert_eq!((watches(&server), opened), (1, 2), "only the watch of the member");
}

/// A check reads the first children, and the next one those behind them.
#[tokio::test(start_paused = true)]
async fn checks_of_a_large_group_reach_its_last_member() {
    let (server, sessions, operator) = sessions_and_client().await;
    create_members(&operator, 2 * CHECKED_ALONE + 1).await;
    let mut group = open(&sessions).await;
    let last = format!("{:04}", 2 * CHECKED_ALONE);
    set_acl(&operator, &format!("{GROUP}/{last}"), &hidden()).await;
    let reads = server.on(Op::GetData).always().delay(MS);
    let in_time = CHECK_PAUSE * 3 + SECOND;
    tokio::time::timeout(in_time, group.changed()).await.unwrap().unwrap();
    assert_eq!(unreadable(&group), [last]);
    assert_eq!(reads.count(), 2 * CHECKED_ALONE as u64 + 2, "and one after the check");
}

#[tokio::test(start_paused = true)]
async fn busy_group_reads_a_reopened_member() {
    let (_server, sessions, operator, _, busy) = group_of_a().await;
    create_hidden(&operator, B).await;
    let group = open(&sessions).await;
    assert_eq!(unreadable(&group), ["b"]);
    set_acl(&operator, B, OPEN_ACL_UNSAFE).await;
    for n in 0..4 {
        pass(CHECK_PAUSE / 2).await; // in which the other member changes
        busy.set_data(n.to_string()).await.unwrap();
    }
    settle().await;
    assert_eq!(ids(&group), ["a", "b"]);
}
