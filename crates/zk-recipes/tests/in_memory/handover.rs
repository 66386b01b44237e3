//! Locks that pass from a holder to the next waiter: over TCP, after an expired session, and behind
//! a follower that is cut off.

use std::time::Duration;

use zk_recipes::Mutex;
use zk_recipes::session::Config;
use zk_testing::{Op, Settings, TestServer};

use crate::{T, client, now};

#[tokio::test(start_paused = true)]
async fn lock_on_cut_follower_is_lost_before_leader_deletes_node() {
    let settings = Settings::new().servers(3).sync_limit(20);
    let server = TestServer::in_memory_with(settings);
    let config = Config::new("server-1:1").unwrap().session_timeout(T);
    let client = config.connector(server.clone()).connect().await.unwrap();
    let guard = Mutex::new(&client, "/locks/a").unwrap().acquire().await.unwrap();
    let node = guard.node().to_owned();
    server.cut_from_leader(1);
    guard.lost().await;
    assert!(!guard.is_held());
    let lost_at = now();
    assert!(server.with(|ensemble| ensemble.tree().contains(&node)), "still there, at the leader");
    while server.with(|ensemble| ensemble.tree().contains(&node)) {
        // reason: virtual time must pass for the leader to expire the session
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(now() > lost_at);
}

#[tokio::test(start_paused = true)]
async fn lock_handover_sends_no_remove_watches() {
    let server = TestServer::in_memory();
    let removals = server.on(Op::RemoveWatches).always().delay(Duration::ZERO);
    let clients = [client(&server, 1).await, client(&server, 2).await];
    let [first, second] = clients.each_ref().map(|client| Mutex::new(client, "/lock").unwrap());
    let mut held = first.acquire().await.unwrap();
    for round in 0..10 {
        let next = if round % 2 == 0 { &second } else { &first };
        let acquired = tokio::spawn({
            let next = next.clone();
            async move { next.acquire().await.unwrap() }
        });
        wait().await; // queued, with a watch on its predecessor
        held.release().await.unwrap();
        held = acquired.await.unwrap();
        wait().await;
    }
    held.release().await.unwrap();
    wait().await;
    assert_eq!(removals.count(), 0);
}

async fn wait() {
    // reason: the delay of the removal must pass; the clock is paused
    tokio::time::sleep(Duration::from_secs(1)).await;
}
