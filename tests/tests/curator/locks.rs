//! Tests of mutexes, read-write locks and semaphores: queues, deaths, revocation, and crowds.

use zk_recipes::{LockError, Recipe, revoke};
use zk_tests::contenders;
use zk_tests::lock_spec::LockSpec;

use crate::both;
use crate::script::{acquire, command, play, play_both};

#[tokio::test(flavor = "multi_thread")]
async fn mixed_mutex_waiters_acquire_in_queue_order_and_list_alike() {
    play_both(
        "/interop/mutex-order",
        "java.a acquires mutex; rust.b queues mutex; rust.c queues mutex; java.d queues mutex
         rust.e queues mutex
         mutex lists 5
         java.a releases; rust.b gets
         rust.b releases; rust.c gets; mutex lists 3; java.d waits
         rust.c releases; java.d gets; rust.e waits; mutex lists 2
         java.d releases; rust.e gets; java.x misses mutex; rust.x misses mutex
         rust.e releases; nodes 0",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_waiter_in_queue_grants_no_lock_to_those_behind() {
    play(
        "/interop/mutex-given-up",
        "java.a acquires mutex; rust.b queues mutex; java.c queues mutex
         rust1.d queues mutex; java1.e queues mutex; rust.f queues mutex
         rust.b gives-up; nodes 5
         rust1 closes; nodes 4; rust.f waits
         java.a releases; java.c gets; mutex lists 3; rust.f waits
         java.c releases; java1.e gets; rust.f waits
         java1.e releases; rust.f gets
         rust.f releases",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_share_and_writer_excludes_across_clients() {
    play_both(
        "/interop/rw-sides",
        "rust.a acquires read; java.b acquires read
         java.x misses write; rust.x misses write; nodes 2
         rust.c queues write
         read lists 2; write lists 1; java.x misses read
         rust.a releases; rust.c waits
         java.b releases; rust.c gets; java.x misses read; java.x misses write
         rust.x misses read
         rust.c releases
         java.d acquires write
         java.d releases; nodes 0",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_readers_and_writers_acquire_in_queue_order() {
    play_both(
        "/interop/rw-order",
        "java.a acquires write; rust.b queues read; java.c queues read; rust.d queues write
         java.e queues write; rust.f queues read; java.g queues read
         read lists 4; write lists 3
         java.a releases; rust.b gets; java.c gets
         rust.b releases; rust.d waits
         java.c releases; rust.d gets; java.e waits
         rust.d releases; java.e gets; rust.f waits
         java.e releases; rust.f gets; java.g gets
         rust.f releases; java.g releases; nodes 0",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mixed_permit_waiters_acquire_in_queue_order() {
    let script = "java.a acquires K; rust.b queues K; java.c queues K; rust.d queues K
         java.e queues K
         java.a releases; rust.b gets; java.x misses K; java.c waits
         rust.b releases; java.c gets; rust.d waits
         java.c releases; rust.d gets
         rust.d releases; java.e gets; rust.x misses K
         java.e releases; nodes 0";
    play_both("/interop/fifo-mutex", &script.replace('K', "semaphore-mutex")).await;
    play_both("/interop/fifo-permits", &script.replace('K', "semaphore:1/1")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mutex_of_dead_process_is_granted_after_expiry() {
    play_both(
        "/deaths/mutex",
        "java1.a acquires mutex; java2.b queues mutex; rust.c queues mutex
         java.d queues mutex
         java2 dies; nodes 3; rust.c waits
         java1 dies; rust.c gets; mutex lists 2
         rust.c releases; java.d gets",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rw_lock_of_dead_process_is_free_after_expiry() {
    play_both(
        "/deaths/rw",
        "java1.a acquires write; rust.b queues read; java2.c queues write; rust.d queues read
         java.e queues read; rust.f queues write
         java2 dies; nodes 5; rust.b waits; rust.d waits
         java1 dies; rust.b gets; rust.d gets; java.e gets; rust.f waits
         rust.b releases; rust.d releases; rust.f waits
         java.e releases; rust.f gets
         rust.f releases; nodes 0",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn permits_of_dead_process_are_free_after_expiry() {
    play(
        "/deaths/permits-theirs",
        "java1.a acquires semaphore:2/3; java.b acquires semaphore:1/3
         java2.c queues semaphore:1/3; rust.d queues semaphore:2/3
         java.e queues semaphore:1/3
         java2 dies; rust.d waits
         java1 dies; rust.d gets; java.e waits
         java.b releases; java.e gets
         rust.d releases; java.e releases; nodes 0",
    )
    .await;
    play(
        "/deaths/permits-ours",
        "rust1.a acquires semaphore:2/3; rust.b acquires semaphore:1/3
         rust2.c queues semaphore:2/3; java.d queues semaphore:1/3
         rust.e queues semaphore:2/3
         rust2 dies; java.d waits
         rust1 dies; java.d gets; rust.e waits
         rust.b releases; rust.e gets
         rust.e releases; java.d releases; nodes 0",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn semaphore_mutex_of_dead_process_is_free_after_expiry() {
    play_both(
        "/deaths/semaphore-mutex",
        "java1.a acquires semaphore-mutex
         java.x misses semaphore-mutex; rust.x misses semaphore-mutex; semaphore:1/1 lists 1
         rust.b queues semaphore-mutex
         java1 dies; rust.b gets; java.x misses semaphore-mutex; semaphore:1/1 lists 1
         rust.b releases; nodes 0",
    )
    .await;
}

/// Curator's kinds of locks, and the recipe of their nodes.
const KINDS: [(&str, Recipe); 5] = [
    ("mutex", Recipe::Mutex),
    ("read", Recipe::ReadWriteLock),
    ("write", Recipe::ReadWriteLock),
    ("semaphore:2/2", Recipe::Semaphore),
    ("semaphore-mutex", Recipe::Semaphore),
];

/// A recipe of the same kind waits, or acquires beside the other one, as usual.
#[tokio::test(flavor = "multi_thread")]
async fn curators_nodes_are_rejected_only_by_other_recipes() {
    let Some((client, mut curator)) = both().await else { return };
    for (name, theirs) in KINDS {
        let path = format!("/company/{}", command(name).0);
        curator.ok("a", &acquire(name, &path, -1));
        for (kind, recipe) in KINDS {
            let lock = LockSpec::new(kind, &path).lock(&client).unwrap();
            match lock.try_acquire_boxed().await {
                Err(LockError::ForeignNode { node, recipe: found, .. }) if recipe != theirs => {
                    assert!(node.starts_with(&path) && found == theirs, "{node} {found}");
                }
                tried => {
                    assert_eq!(recipe, theirs, "{tried:?} beside {name}");
                    assert!(tried.is_ok(), "{tried:?} beside {name}");
                }
            }
        }
        curator.ok("a", "release");
    }
}

/// Holders and waiters can be asked to release, each time anew.
#[tokio::test(flavor = "multi_thread")]
async fn revocation_reaches_holders_and_waiters_across_clients() {
    let Some((client, mut curator)) = both().await else { return };
    for kind in ["mutex", "read", "write"] {
        let path = format!("/interop/revoked-{kind}");
        let lock = LockSpec::new(kind, &path);
        let guard = lock.acquire(&client).await.unwrap();
        curator.tell("holder", &format!("acquire-revocable {kind} {path}"));
        contenders(&client, &path, 2).await;
        curator.ok("revoker", &format!("revoke {}", guard.nodes()[0]));
        guard.revocation_requested_boxed().await.unwrap();
        assert!(guard.is_held(), "to be asked is not to lose");
        let queue = lock.participants(&client).await.unwrap();
        if kind == "read" {
            assert_eq!(curator.answer("holder"), ["ok"]);
        }
        assert!(revoke(&client, &queue[1]).await.unwrap());
        assert_eq!(curator.answer("holder"), ["revoked"], "a waiter hears of it, too");
        guard.release_boxed().await.unwrap();
        if kind != "read" {
            assert_eq!(curator.answer("holder"), ["ok"]);
        }
        assert!(revoke(&client, &queue[1]).await.unwrap());
        assert_eq!(curator.answer("holder"), ["revoked"], "asked again, it is told again");
        curator.ok("holder", "release");
        assert!(!revoke(&client, &queue[1]).await.unwrap(), "nobody is there to be asked");
    }
}
