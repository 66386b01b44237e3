//! Locks through a change of leader, in which the other servers accept connections and close them at
//! once.

use std::time::Duration;

use zk_recipes::session::limits::LEASE_BACKOFF_MIN;
use zk_recipes::session::{Client, Config};
use zk_recipes::{Guard, Mutex};
use zk_testing::{Settings, TestServer};

const HOLDERS: u64 = 40;

/// Three servers that grant short session timeouts.
fn ensemble() -> TestServer {
    TestServer::in_memory_with(Settings::new().servers(3).tick_time(Duration::from_millis(500)))
}

fn config(timeout: Duration, seed: u64) -> Config {
    let config = Config::new("server-0:1,server-1:1,server-2:1").unwrap();
    config.session_timeout(timeout).seed(seed.into())
}

async fn pass(time: Duration) {
    tokio::time::sleep(time).await; // reason: virtual time
}

/// Opens sessions that hold a lock each, for as long as a renewed lease takes to settle.
async fn hold(server: &TestServer, timeout: Duration, seed: u64) -> Vec<(Client, Guard)> {
    let mut holders = Vec::new();
    for number in 0..HOLDERS {
        let config = config(timeout, seed * HOLDERS + number).connector(server.clone());
        let client = config.connect().await.unwrap();
        let lock = Mutex::new(&client, &format!("/{number}")).unwrap();
        let guard = lock.acquire().await.unwrap();
        holders.push((client, guard));
    }
    pass(2 * timeout + Duration::from_millis(seed * 397 % 1_000)).await;
    holders
}

/// The election takes up to a quarter of T.
#[tokio::test(start_paused = true)]
async fn locks_survive_a_change_of_leader() {
    for (timeout_ms, outage_ms) in
        [(4_000, 400), (4_000, 600), (4_000, 1_000), (2_000, 400), (2_000, 500)]
    {
        for seed in 0..5 {
            let case = format!("T {timeout_ms} ms, {outage_ms} ms, seed {seed}");
            let [timeout, outage] = [timeout_ms, outage_ms].map(Duration::from_millis);
            let server = ensemble();
            let holders = hold(&server, timeout, seed).await;
            server.kill(server.leader());
            pass(outage).await;
            assert!(holders.iter().all(|(client, _)| !client.is_connected()), "{case}");
            assert!(server.elect(1), "{case}");
            // A pause that was under way, and another one after an attempt at the dead server.
            pass(2 * LEASE_BACKOFF_MIN).await;
            assert!(holders.iter().all(|(client, _)| client.is_connected()), "{case}");
            pass(timeout).await;
            let lost = holders.iter().filter(|(_, guard)| !guard.is_held()).count();
            assert_eq!(lost, 0, "{case}");
        }
    }
}
