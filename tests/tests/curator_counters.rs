//! Counters and barriers of ours beside Curator's, on a real server.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_coordination::session::{Client, ParentMode, path};
use zk_coordination::{
    AtomicInteger, AtomicLong, AtomicValue, Barrier, BarrierError, DoubleBarrier, Entered,
};
use zk_tests::{Curator, connect, eventually, shared_zookeeper};

/// After this time, the nodes of a killed process are gone.
const SESSION_TIMEOUT: Duration = Duration::from_secs(4);

const LIMIT: Duration = Duration::from_secs(30);

async fn peers() -> Option<(Client, Curator)> {
    let address = shared_zookeeper()?.connect_string();
    let curator = Curator::with_program("CuratorCounters.java", &address, SESSION_TIMEOUT)?;
    Some((connect(&address, SESSION_TIMEOUT).await, curator))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_clients_count_the_same() {
    let Some((client, mut curator)) = peers().await else { return };
    let path = "/interop/counters/long";
    let long = AtomicLong::new(&client, path).unwrap();
    assert_eq!(curator.ok("java", &format!("get {path}")), ["0"]);
    assert_eq!(long.add(7).await.unwrap(), 7);
    assert_eq!(curator.ok("java", &format!("add {path} -9")), ["-2"]);
    assert_eq!(long.get().await.unwrap(), -2);
    assert_eq!(curator.ok("java", &format!("compare-and-set {path} -2 5")), ["true"]);
    assert!(long.compare_and_set(5, i64::MAX).await.unwrap());
    assert_eq!(curator.ok("java", &format!("get {path}")), [i64::MAX.to_string()]);
    assert!(long.increment().await.is_err());
    assert_eq!(curator.ok("java", &format!("add {path} 1")), [i64::MIN.to_string()], "it wraps");
    assert_eq!(long.add_once("a", 3).await.unwrap(), i64::MIN + 3);
    assert_eq!(curator.ok("java", &format!("add {path} -3")), [i64::MIN.to_string()]);

    assert_eq!(curator.ok("java", "initialize /interop/counters/first 4"), ["true"]);
    let first = AtomicLong::new(&client, "/interop/counters/first").unwrap();
    assert!(!first.initialize(5).await.unwrap());
    assert!(
        AtomicLong::new(&client, "/interop/counters/second").unwrap().initialize(6).await.unwrap()
    );
    assert_eq!(curator.ok("java", "initialize /interop/counters/second 7"), ["false"]);
    assert_eq!(curator.ok("java", "get /interop/counters/second"), ["6"]);
    let integer = AtomicInteger::new(&client, "/interop/counters/integer").unwrap();
    assert_eq!(integer.decrement().await.unwrap(), -1);
    assert_eq!(curator.ok("java", "get-integer /interop/counters/integer"), ["-1"]);

    let short = AtomicValue::new(&client, "/interop/counters/short").unwrap();
    short.set(b"abc".as_slice()).await.unwrap();
    let said = curator.ask("java", "get /interop/counters/short").join(" ");
    assert!(said.starts_with("error ") && said.contains("Corrupted"), "{said}");
    short.set(b"abcdefgh and more".as_slice()).await.unwrap();
    let begin = i64::from_be_bytes(*b"abcdefgh").to_string();
    assert_eq!(curator.ok("java", "get /interop/counters/short"), [begin]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_clients_with_a_lock_lose_no_addition() {
    let Some((client, mut curator)) = peers().await else { return };
    let (path, lock) = ("/interop/contended/counter", "/interop/contended/lock");
    for actor in ["one", "two"] {
        curator.tell(actor, &format!("count {path} {lock} 40"));
    }
    let mut counting = Vec::new();
    for _ in 0..2 {
        let counter = AtomicLong::new(&client, path).unwrap().promote_to_lock(lock, 1).unwrap();
        counting.push(tokio::spawn(async move {
            for _ in 0..40 {
                counter.increment().await.unwrap();
            }
        }));
    }
    for counting in counting {
        counting.await.unwrap();
    }
    for actor in ["one", "two"] {
        assert_eq!(curator.answer(actor), ["ok"]);
    }
    assert_eq!(AtomicLong::new(&client, path).unwrap().get().await.unwrap(), 160);
    let left = client.get_children(lock).await;
    // The server deletes containers that are empty.
    assert!(left.map_or_else(|error| error.is_no_node(), |children| children.names.is_empty()));
}

/// The killed process may hold the lock, or wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn additions_go_on_after_a_java_process_was_killed() {
    let Some((client, mut curator)) = peers().await else { return };
    let (path, lock) = ("/interop/killed/counter", "/interop/killed/lock");
    let counter = AtomicLong::new(&client, path).unwrap().promote_to_lock(lock, 0).unwrap();
    curator.tell("one", &format!("count {path} {lock} 1000000"));
    for _ in 0..20 {
        counter.increment().await.unwrap();
    }
    drop(curator); // which kills the process
    let is_free = eventually(LIMIT, async || match client.get_children(lock).await {
        // The server deletes containers that are empty.
        Err(error) if error.is_no_node() => Some(()),
        listed => listed.unwrap().names.is_empty().then_some(()),
    });
    assert!(is_free.await.is_some(), "the lock of the killed process is free after its expiry");
    let before = counter.get().await.unwrap();
    assert!(before >= 20);
    for _ in 0..20 {
        counter.increment().await.unwrap();
    }
    assert_eq!(counter.get().await.unwrap(), before + 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_kind_sets_and_removes_a_barrier() {
    let Some((client, mut curator)) = peers().await else { return };
    let path = "/interop/barriers/single";
    let barrier = Barrier::new(&client, path).unwrap();
    barrier.set().await.unwrap();
    curator.tell("java", &format!("wait {path}"));
    curator.ok("other", &format!("set {path}"));
    assert!(!barrier.wait_timeout(Duration::from_millis(300)).await.unwrap());
    barrier.remove().await.unwrap();
    assert_eq!(curator.answer("java"), ["ok"]);
    curator.ok("other", &format!("set {path}"));
    let waiting = {
        let barrier = barrier.clone();
        tokio::spawn(async move { barrier.wait().await })
    };
    assert!(barrier.is_set().await.unwrap());
    drop(curator); // which kills the process
    assert!(barrier.is_set().await.unwrap(), "it outlives the process that set it");
    assert!(!waiting.is_finished());
    barrier.remove().await.unwrap();
    waiting.await.unwrap().unwrap();
}

fn entering(
    client: &Client,
    path: &str,
    members: u32,
) -> JoinHandle<Result<Entered, BarrierError>> {
    let barrier = DoubleBarrier::new(client, path, members).unwrap();
    tokio::spawn(async move { barrier.enter().await })
}

/// Waits until the barrier has so many children.
async fn expect_children(client: &Client, path: &str, count: usize) {
    let listed = eventually(LIMIT, async || {
        let children = client.get_children(path).await.ok()?;
        (children.names.len() == count).then_some(())
    });
    assert!(listed.await.is_some(), "{:?}", client.get_children(path).await);
}

/// A member of Curator's that has deleted its node leaves when one node is left, and takes it for the first
/// one by name. So that one must keep its node until it is alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_members_do_not_leave_while_one_is_inside() {
    let Some((client, mut curator)) = peers().await else { return };
    let (mut places, mut round) = (BTreeSet::new(), 0);
    // The names are random. Ours was first, second and third by name, each with one of Curator's inside.
    while places.len() < 3 {
        round += 1;
        let path = &format!("/interop/barriers/inside-{round}");
        let ours = entering(&client, path, 3);
        expect_children(&client, path, 1).await;
        let enter = format!("enter {path} 3 -1");
        curator.tell("one", &enter);
        curator.tell("two", &enter);
        let mut ours = ours.await.unwrap().unwrap();
        assert_eq!([curator.answer("one"), curator.answer("two")], [["ok"], ["ok"]]);
        let children = client.get_children(path).await.unwrap();
        let mut members: Vec<_> = children.names.names().filter(|name| name != "ready").collect();
        members.sort();
        let own = path::file_name(ours.node()).to_owned();
        let place = members.iter().position(|name| *name == own).unwrap();
        places.insert(place);

        // Curator looks at the members again after any event. One that is late makes it leave too early:
        // the event of `ready`, with which it entered.
        curator.ok("three", "events");
        curator.tell("one", "leave -1");
        if place == 0 {
            expect_children(&client, path, 3).await; // it has deleted its node, and watches ours
        }
        let left = tokio::spawn(async move { ours.leave().await });
        // Meanwhile whatever could wake it arrives.
        for _ in 0..50 {
            curator.ok("three", "events");
        }
        let has_left = (curator.has_answered("one"), left.is_finished());
        assert_eq!(has_left, (false, false), "two is inside: {members:?}, {own}");
        assert_eq!(curator.ask("two", "leave -1"), ["ok"]);
        assert_eq!(curator.answer("one"), ["ok"]);
        left.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_members_enter_and_leave_together() {
    let Some((client, mut curator)) = peers().await else { return };
    for ours_is_last in [true, false] {
        let path = &format!("/interop/barriers/ours-is-last-{ours_is_last}");
        client.ensure_path(path, ParentMode::Containers).await.unwrap();
        let enter = format!("enter {path} 4 -1");
        let first = entering(&client, path, 4);
        expect_children(&client, path, 1).await;
        curator.tell("one", &enter);
        expect_children(&client, path, 2).await;
        if ours_is_last {
            curator.tell("two", &enter);
            expect_children(&client, path, 3).await;
        }
        let second = entering(&client, path, 4);
        if !ours_is_last {
            expect_children(&client, path, 3).await;
            assert!(!first.is_finished() && !second.is_finished());
            curator.tell("two", &enter);
        }
        let mut members = [first.await.unwrap().unwrap(), second.await.unwrap().unwrap()];
        assert_eq!([curator.answer("one"), curator.answer("two")], [["ok"], ["ok"]]);

        curator.tell("one", "leave -1");
        let some = Duration::from_millis(100);
        assert!(!members[0].leave_timeout(some).await.unwrap(), "others have not left");
        curator.tell("two", "leave -1");
        members[1].leave().await.unwrap();
        members[0].leave().await.unwrap();
        assert_eq!([curator.answer("one"), curator.answer("two")], [["ok"], ["ok"]]);
        expect_children(&client, path, 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_leave_after_a_java_member_was_killed() {
    let Some((client, mut curator)) = peers().await else { return };
    let path = "/interop/barriers/kill";
    curator.tell("one", &format!("enter {path} 2 -1"));
    let mut member = entering(&client, path, 2).await.unwrap().unwrap();
    assert_eq!(curator.answer("one"), ["ok"]);
    drop(curator); // which kills the process
    tokio::time::timeout(LIMIT, member.leave()).await.unwrap().unwrap();
    expect_children(&client, path, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn java_member_leaves_after_our_member_died() {
    let Some((client, mut curator)) = peers().await else { return };
    let Some(server) = shared_zookeeper() else { return };
    let dying = connect(&server.connect_string(), SESSION_TIMEOUT).await;
    let path = "/interop/barriers/our-death";
    curator.tell("one", &format!("enter {path} 2 -1"));
    let _member = entering(&dying, path, 2).await.unwrap().unwrap();
    assert_eq!(curator.answer("one"), ["ok"]);
    dying.detach(); // the session goes on without its process
    assert_eq!(curator.ask("one", "leave -1"), ["ok"]);
    expect_children(&client, path, 0).await;
}

/// In Curator, the node of the member that has timed out lets the next one pass (CURATOR-318).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timed_out_member_of_ours_is_not_counted_by_java() {
    let Some((client, mut curator)) = peers().await else { return };
    let path = "/interop/barriers/timeout";
    let some = Duration::from_millis(200);
    let barrier = DoubleBarrier::new(&client, path, 2).unwrap();
    assert!(barrier.enter_timeout(some).await.unwrap().is_none());
    assert_eq!(curator.ask("one", &format!("enter {path} 2 300")), ["timeout"]);
}
