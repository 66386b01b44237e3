//! Tests that the fencing token grows from holder to holder, even if the lock's path is removed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::time::Duration;

use zk_recipes::Mutex;
use zk_tests::{Journal, Settings, Zk, eventually, open, zookeeper_with};

#[tokio::test(flavor = "multi_thread")]
async fn token_grows_after_server_removes_empty_lock() {
    let Some(zk) = zookeeper_with(&Settings::default().container_check_ms(50)) else { return };
    let journal = Journal::new();
    let command = Zk::new(zk.connect_string()).journal(&journal);
    let client = open(&zk.connect_string()).await;
    let lock = Mutex::new(&client, PATH).unwrap();

    // The guard holds the lock until the command has queued, so that the path stays.
    let mut tokens = Vec::new();
    for round in 0..ROUNDS {
        let guard = lock.acquire().await.unwrap();
        let running = command.lock(PATH, Journal::VISIT);
        zk_tests::contenders(&client, PATH, 2).await;
        let last_of_node = guard.node().rsplit('-').next().unwrap().to_owned();
        assert_eq!(last_of_node, "0000000000", "round {round}: the count starts again");
        tokens.push(guard.token().unwrap().czxid());
        guard.release().await.unwrap();
        assert_eq!(running.wait(LIMIT).code(), Some(0));
        let entry = journal.entered().pop().unwrap();
        assert_eq!((journal.entered().len(), entry.sequence()), (round + 1, 1));
        tokens.push(entry.token);

        // The lock is unused, so the server removes its node and the parent.
        for path in [PATH, PARENT] {
            eventually(LIMIT, async || client.exists(path).await.unwrap().is_none().then_some(()))
                .await
                .unwrap_or_else(|| panic!("{path} is still there"));
        }
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    assert_eq!(tokens.len(), 2 * ROUNDS);
}

const PARENT: &str = "/fencing";
const PATH: &str = "/fencing/lock";
const ROUNDS: usize = 4;
const LIMIT: Duration = Duration::from_secs(30);
