//! Locks that pass from a holder to the next waiter: over TCP, after an expired session, and behind
//! a follower that is cut off.

use std::time::Duration;

use zk_recipes::Mutex;
use zk_testing::{Op, TestServer};

use crate::client;

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
