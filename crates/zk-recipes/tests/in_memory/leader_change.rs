//! Locks and elections through a change of leader, in which the other servers accept connections and close
//! them at once, and through an outage that is longer than the lease and shorter than the session.

use std::time::Duration;

use zk_recipes::session::limits::{BACKOFF_MAX, LEASE_BACKOFF_MIN};
use zk_recipes::session::{Client, Config, LeaseAssumptions, SessionManager};
use zk_recipes::{Candidacy, Election, Guard, Mutex};
use zk_testing::{Cut, Settings, TestServer};

use crate::settle;

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

/// Timeout of the sessions.
const TIMEOUT: Duration = Duration::from_secs(12);

const OUTAGE: Duration = Duration::from_secs(10);

/// Time in which an answer arrives and is used.
const STEP: Duration = Duration::from_millis(5);

/// How a server fails: how that begins, and how it ends.
type Failure = (&'static str, fn(&TestServer, usize), fn(&TestServer, usize));

const FAILURES: [Failure; 3] = [
    ("refuses", TestServer::refuse_connects, TestServer::accept_connects),
    ("closes", TestServer::close_on_connect, TestServer::accept_connects),
    ("is silent", TestServer::stall, TestServer::resume),
];

/// Returns how long nobody leads after all of these servers have failed for a while.
async fn leaderless(servers: usize, failure: Failure, pass_time: Duration, seed: u64) -> Duration {
    let server = TestServer::in_memory_with(Settings::new().servers(servers).seed(seed));
    let hosts: Vec<String> = (0..servers).map(|number| format!("server-{number}:1")).collect();
    let mut candidacies: Vec<Candidacy> = Vec::new();
    for number in 0..3 {
        let assumptions = LeaseAssumptions::new().expiry_pass(pass_time);
        let config = Config::new(&hosts.join(",")).unwrap().session_timeout(TIMEOUT);
        let config = config.lease_assumptions(assumptions).seed((3 * seed + number).into());
        let sessions = SessionManager::connect(config.connector(server.clone())).await.unwrap();
        candidacies.push(Election::new(&sessions, "/e", format!("c{number}")).unwrap().stand());
        settle().await;
    }
    let has_leader = || candidacies.iter().any(Candidacy::is_leader);
    pass(TIMEOUT).await;
    assert!(has_leader());
    (0..servers).for_each(|number| failure.1(&server, number));
    server.connections().cut(Cut::Rst);
    pass(OUTAGE).await;
    assert!(!has_leader());
    (0..servers).for_each(|number| failure.2(&server, number));
    let mut waited = Duration::ZERO;
    while !has_leader() {
        pass(STEP).await;
        waited += STEP;
        assert!(waited < TIMEOUT, "nobody leads");
    }
    waited
}

/// The sessions are still there, so nobody waits until the servers expire them. A session that may be in
/// the pass that closes expired ones is used once that pass is over.
#[tokio::test(start_paused = true)]
async fn election_after_an_outage_takes_a_pause_and_the_expiry_pass() {
    for servers in [1, 3] {
        for failure in FAILURES {
            for pass_ms in [100, 2_000] {
                let pass_time = Duration::from_millis(pass_ms);
                let mut times = Vec::new();
                for seed in 0..15 {
                    times.push(leaderless(servers, failure, pass_time, seed).await);
                }
                times.sort_unstable();
                let case = format!("{servers} servers, {}, {pass_time:?}: {times:?}", failure.0);
                assert!(times[14] <= pass_time + BACKOFF_MAX + 2 * STEP, "{case}");
            }
        }
    }
}
