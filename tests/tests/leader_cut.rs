//! The leader is cut off from all its followers, which elect another leader before it notices. A
//! holder at the old leader must report the loss before the new leader grants the lock.

use std::time::Duration;

use zk_recipes::{LossReason, Mutex};
use zk_tests::{connect, contenders, ensemble_in_namespaces, now};

#[tokio::test(flavor = "multi_thread")]
async fn guard_at_replaced_leader_reports_loss_in_time() {
    let Some(ensemble) = ensemble_in_namespaces(TICK_MS) else { return };
    let leader = ensemble.leader().unwrap();
    let followers: Vec<usize> = (0..3).filter(|server| *server != leader).collect();
    let at = |server: usize| ensemble.server(server).connect_string();

    let holder = connect(&at(leader), TIMEOUT).await;
    let guard = Mutex::new(&holder, PATH).unwrap().acquire().await.unwrap();
    let token = guard.token().unwrap();
    // The session timeout is long enough for the election.
    let others = followers.iter().map(|server| at(*server)).collect::<Vec<_>>().join(",");
    let next = connect(&others, 4 * TIMEOUT).await;
    let next_lock = Mutex::new(&next, PATH).unwrap();
    let acquired = tokio::spawn(async move { (next_lock.acquire().await.unwrap(), now()) });
    contenders(&next, PATH, 2).await;

    let lost = guard.lost();
    let lost = tokio::spawn(async move { (lost.await, now()) });
    for follower in &followers {
        ensemble.cut(*follower, leader).unwrap();
    }
    let cut_at = now();
    // The old leader takes up to syncLimit ticks to notice. Restarted followers do not wait for it:
    // they elect one of themselves at once.
    for follower in &followers {
        ensemble.server(*follower).kill();
    }
    for follower in &followers {
        ensemble.server(*follower).launch().unwrap();
    }

    let (reason, lost_at) = lost.await.unwrap();
    assert!(!guard.is_held());
    let (next_guard, acquired_at) = acquired.await.unwrap();
    assert_eq!(reason, LossReason::LeaseDeadlinePassed);
    println!(
        "lost {} ms after the cut, {} ms before the next holder got in at {} ms",
        (lost_at - cut_at).as_millis(),
        acquired_at.saturating_duration_since(lost_at).as_millis(),
        (acquired_at - cut_at).as_millis()
    );
    assert!(lost_at < acquired_at, "late by {:?}", lost_at - acquired_at);
    assert!(next_guard.token().unwrap() > token);
}

const PATH: &str = "/locks/deposed";
const TICK_MS: u32 = 2000;
const TIMEOUT: Duration = Duration::from_secs(4);
