//! The server of a holder is cut off from the leader, and still answers the holder's pings. The
//! holder must report the loss before the leader grants the lock to another client.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::thread;
use std::time::Duration;

use zk_recipes::session::{Client, Config, SessionEvent};
use zk_recipes::{LossReason, Mutex};
use zk_tests::{
    Ensemble, Journal, Mode, Running, Zk, connect, contenders, ensemble_in_namespaces, eventually,
    is_listed, now, poll,
};

#[tokio::test(flavor = "multi_thread")]
async fn guard_reports_loss_before_next_grant() {
    let Some(scene) = Scene::start() else { return };
    let holder = connect(&scene.follower_address(), TIMEOUT).await;
    let guard = Mutex::new(&holder, PATH).unwrap().acquire().await.unwrap();
    let token = guard.token().unwrap();
    let next = connect(&scene.leader_address(), TIMEOUT).await;
    let next_lock = Mutex::new(&next, PATH).unwrap();
    let acquired = tokio::spawn(async move { (next_lock.acquire().await.unwrap(), now()) });
    contenders(&next, PATH, 2).await;

    let lost = guard.lost();
    let lost = tokio::spawn(async move { (lost.await, now()) });
    scene.cut();
    let cut_at = now();

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

    // A client that relies on its connection alone has noticed nothing: the follower serves on.
    let status = scene.ensemble.server(scene.follower).status().unwrap();
    assert_eq!(status.map(|status| status.mode), Some(Mode::Follower));
}

#[tokio::test(flavor = "multi_thread")]
async fn command_ends_before_next_grant() {
    let Some(scene) = Scene::start() else { return };
    let journal = Journal::new();
    let command = Zk::new(scene.follower_address()).session_timeout(TIMEOUT).journal(&journal);
    let script = format!("echo $$ >&2; {}", zk_tests::HOLD);
    let holder = command.lock(PATH, &script);
    poll(LIMIT, || (journal.entered().len() == 1).then_some(())).expect("nobody got in");
    let child: u32 = holder.stderr().trim().parse().unwrap();

    let next = connect(&scene.leader_address(), TIMEOUT).await;
    let next_lock = Mutex::new(&next, PATH).unwrap();
    let acquired = tokio::spawn(async move { (next_lock.acquire().await.unwrap(), now()) });
    contenders(&next, PATH, 2).await;

    let child_gone = thread::spawn(move || {
        poll(LIMIT, || (!exists(child)).then(now)).expect("the command runs on")
    });
    let ended = thread::spawn(move || {
        let ended = Running::wait(holder, LIMIT);
        (ended, now())
    });
    scene.cut();
    let cut_at = now();
    let (_next_guard, acquired_at) = acquired.await.unwrap();
    let child_gone_at = child_gone.join().unwrap();
    let (ended, ended_at) = ended.join().unwrap();
    println!(
        "the command was gone {} ms after the cut, zk at {} ms, the next holder got in at {} ms",
        (child_gone_at - cut_at).as_millis(),
        (ended_at - cut_at).as_millis(),
        (acquired_at - cut_at).as_millis()
    );
    assert_eq!(ended.code(), Some(74), "{}", ended.stderr);
    assert!(ended.stderr.contains("the lock was lost"), "{:?}", ended.stderr);
    // `zk` itself waits for a leader that deletes its node, until its session has ended.
    assert!(child_gone_at < acquired_at, "late by {:?}", child_gone_at - acquired_at);
}

#[tokio::test(flavor = "multi_thread")]
async fn holder_that_may_move_never_holds_beside_another() {
    let Some(scene) = Scene::start() else { return };
    let holder = scene.connect_to_any_but_at_the_follower().await;
    let guard = Mutex::new(&holder, PATH).unwrap().acquire().await.unwrap();
    let token = guard.token().unwrap();

    let next = connect(&scene.leader_address(), TIMEOUT).await;
    let next_lock = Mutex::new(&next, PATH).unwrap();
    let acquired = tokio::spawn(async move { (next_lock.acquire().await.unwrap(), now()) });
    contenders(&next, PATH, 2).await;

    let mut events = holder.events();
    let lost = guard.lost();
    let lost = tokio::spawn(async move { (lost.await, now()) });
    scene.cut();
    let moved = async {
        while !matches!(events.next().await, None | Some(SessionEvent::Reconnected { .. })) {}
    };
    tokio::time::timeout(LIMIT, moved).await.expect("neither moved nor ended");

    match guard.check().await {
        Ok(still) => {
            assert_eq!(still, token);
            // The lock is kept, so no other client may acquire it while it is held. The test waits
            // longer than the leader needs to expire a session that has not been touched since the
            // cut.
            let intruder = tokio::time::timeout(2 * TIMEOUT, async {
                eventually(LIMIT, async || acquired.is_finished().then_some(())).await
            });
            assert!(intruder.await.is_err(), "two hold the lock");
            guard.check().await.unwrap();
            println!("kept by moving to another server");
            guard.release().await.unwrap();
            assert!(acquired.await.unwrap().0.token().unwrap() > token);
        }
        Err(error) => {
            let (reason, lost_at) = lost.await.unwrap();
            println!("lost: {reason} ({error})");
            // The guard is lost, but its node may still exist. The node is deleted with the guard.
            let early = acquired.is_finished();
            drop(guard);
            let (next_guard, acquired_at) = acquired.await.unwrap();
            assert!(lost_at < acquired_at, "late by {:?}, {early}", lost_at - acquired_at);
            assert!(next_guard.token().unwrap() > token);
        }
    }
}

/// An ensemble of three servers whose links can be cut.
struct Scene {
    ensemble: Ensemble,
    leader: usize,
    follower: usize,
}

impl Scene {
    fn start() -> Option<Self> {
        let ensemble = ensemble_in_namespaces(TICK_MS)?;
        let (leader, follower) = (ensemble.leader().unwrap(), ensemble.follower().unwrap());
        Some(Self { ensemble, leader, follower })
    }

    fn leader_address(&self) -> String {
        self.ensemble.server(self.leader).connect_string()
    }

    fn follower_address(&self) -> String {
        self.ensemble.server(self.follower).connect_string()
    }

    fn cut(&self) {
        self.ensemble.cut(self.follower, self.leader).unwrap();
    }

    /// Opens sessions until one begins at the server that will be cut off.
    async fn connect_to_any_but_at_the_follower(&self) -> Client {
        for _ in 0..DRAWS {
            let config = Config::new(&self.ensemble.connect_string()).unwrap();
            let client = config.session_timeout(TIMEOUT).connect().await.unwrap();
            let connections = self.ensemble.server(self.follower).four_letter("cons").unwrap();
            if connections.contains(&format!("sid={},", client.session_id())) {
                assert!(is_listed(self.ensemble.server(self.leader), client.session_id()));
                return client;
            }
            client.close().await;
        }
        panic!("{DRAWS} sessions, and none at the follower");
    }
}

fn exists(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

const PATH: &str = "/locks/cut";
const TICK_MS: u32 = 2000;
const TIMEOUT: Duration = Duration::from_secs(4);
/// The leader expires a session at most a tick after `TIMEOUT`. The rest is for a loaded machine.
const LIMIT: Duration = Duration::from_secs(20);
/// All of these sessions miss one of three servers once in 10^11 runs.
const DRAWS: usize = 64;
