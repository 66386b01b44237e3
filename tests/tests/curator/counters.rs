//! Counters and barriers of ours beside Curator's, on a real server.

use std::time::Duration;

use zk_coordination::{AtomicInteger, AtomicLong, AtomicValue, Barrier, DoubleBarrier};
use zk_tests::{LIMIT, eventually};

use crate::both_with;

const COUNTERS: &str = "CuratorCounters.java";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_clients_count_the_same() {
    let Some((client, mut curator)) = both_with(COUNTERS).await else { return };
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
    let Some((client, mut curator)) = both_with(COUNTERS).await else { return };
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
    let Some((client, mut curator)) = both_with(COUNTERS).await else { return };
    let (path, lock) = ("/interop/killed/counter", "/interop/killed/lock");
    let counter = AtomicLong::new(&client, path).unwrap().promote_to_lock(lock, 0).unwrap();
    curator.tell("one", &format!("count {path} {lock} 1000000"));
    for _ in 0..20 {
        counter.increment().await.unwrap();
    }
    curator.kill();
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
    let Some((client, mut curator)) = both_with(COUNTERS).await else { return };
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
    curator.kill();
    assert!(barrier.is_set().await.unwrap(), "it outlives the process that set it");
    assert!(!waiting.is_finished());
    barrier.remove().await.unwrap();
    waiting.await.unwrap().unwrap();
}

/// In Curator, the node of the member that has timed out lets the next one pass (CURATOR-318).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timed_out_member_of_ours_is_not_counted_by_java() {
    let Some((client, mut curator)) = both_with(COUNTERS).await else { return };
    let path = "/interop/barriers/timeout";
    let some = Duration::from_millis(200);
    let barrier = DoubleBarrier::new(&client, path, 2).unwrap();
    assert!(barrier.enter_timeout(some).await.unwrap().is_none());
    assert_eq!(curator.ask("one", &format!("enter {path} 2 300")), ["timeout"]);
}
