//! Locks that pass from a holder to the next waiter: over TCP, after an expired session, and behind
//! a follower that is cut off.

use std::time::Duration;

use zk_recipes::Mutex;
use zk_recipes::session::{Client, Config};
use zk_testing::{Op, Settings, TestServer};

use crate::{T, client, now, started};

#[tokio::test]
async fn mutex_passes_to_waiter_over_tcp() {
    let server = TestServer::start().await.unwrap();
    let (first, second) = (
        Client::connect(&server.connect_string()).await.unwrap(),
        Client::connect(&server.connect_string()).await.unwrap(),
    );
    let held = Mutex::new(&first, "/locks/a").unwrap().acquire().await.unwrap();
    let lock = Mutex::new(&second, "/locks/a").unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn(async move { lock.acquire().await.unwrap().token().unwrap() });
    let token = held.token().unwrap();
    held.release().await.unwrap();
    assert!(waiting.await.unwrap() > token);
}

#[tokio::test(start_paused = true)]
async fn mutex_passes_to_next_waiter_when_holder_session_expires() {
    let (server, [first, second]) = started().await;
    let held = Mutex::new(&first, "/locks/a").unwrap().acquire().await.unwrap();
    let token = held.token().unwrap();
    let waiting = tokio::spawn(async move {
        let lock = Mutex::new(&second, "/locks/a").unwrap();
        (lock.acquire().await.unwrap(), second)
    });
    while server.with(|ensemble| ensemble.tree().node("/locks/a").unwrap().stat().num_children) < 2
    {
        tokio::task::yield_now().await;
    }
    assert!(server.expire(first.session_id()));
    let (next, _second) = waiting.await.unwrap();
    assert!(next.token().unwrap() > token);
    held.lost().await;
    assert!(!held.is_held());
    next.release().await.unwrap();
}

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

#[tokio::test(start_paused = true)]
async fn cancelled_waiter_sends_one_remove_watches() {
    let server = TestServer::in_memory();
    let removals = server.on(Op::RemoveWatches).always().delay(Duration::ZERO);
    let clients = [client(&server, 1).await, client(&server, 2).await];
    let [first, second] = clients.each_ref().map(|client| Mutex::new(client, "/lock").unwrap());
    let held = first.acquire().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_secs(1), second.acquire()).await.is_err());
    wait().await;
    assert_eq!(removals.count(), 1);
    held.release().await.unwrap();
}

async fn wait() {
    // reason: the delay of the removal must pass; the clock is paused
    tokio::time::sleep(Duration::from_secs(1)).await;
}
