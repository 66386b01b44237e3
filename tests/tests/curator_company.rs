//! Tests of Curator's recipes and ours on the same path.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::sync::Arc;

use zk_recipes::session::Client;
use zk_recipes::{Lock, LockError, Mutex, Recipe, RwLock, Semaphore, SemaphoreMutex};
use zk_tests::{Curator, open, shared_zookeeper};

/// Curator's recipes: the name in the `acquire` command, its numbers, and the recipe of the nodes.
const CURATORS: [(&str, &str, Recipe); 5] = [
    ("mutex", "0 0", Recipe::Mutex),
    ("read", "0 0", Recipe::ReadWriteLock),
    ("write", "0 0", Recipe::ReadWriteLock),
    ("semaphore", "2 2", Recipe::Semaphore),
    ("semaphore-mutex", "0 0", Recipe::Semaphore),
];

fn ours(client: &Client, path: &str) -> [(Recipe, Arc<dyn Lock>); 5] {
    let rw = RwLock::new(client, path).unwrap();
    [
        (Recipe::Mutex, Arc::new(Mutex::new(client, path).unwrap())),
        (Recipe::ReadWriteLock, Arc::new(rw.read().clone())),
        (Recipe::ReadWriteLock, Arc::new(rw.write().clone())),
        (Recipe::Semaphore, Arc::new(Semaphore::new(client, path, 2).unwrap())),
        (Recipe::Semaphore, Arc::new(SemaphoreMutex::new(client, path).unwrap())),
    ]
}

/// A recipe of the same kind waits, or acquires beside the other one, as usual.
#[tokio::test(flavor = "multi_thread")]
async fn curators_nodes_are_rejected_only_by_other_recipes() {
    let Some(address) = shared_zookeeper().map(|server| server.connect_string()) else { return };
    let Some(mut curator) = Curator::start(&address) else { return };
    let client = open(&address).await;
    for (name, numbers, theirs) in CURATORS {
        let path = format!("/company/{name}");
        curator.ok("a", &format!("acquire {name} {path} {numbers} -1"));
        for (recipe, lock) in ours(&client, &path) {
            let tried = lock.try_acquire_boxed().await;
            match tried {
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
