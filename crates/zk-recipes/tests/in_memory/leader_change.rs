//! Locks through a change of leader, in which the other servers accept connections and close them at
//! once; and what a long outage costs the servers.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use zk_recipes::session::limits::LEASE_BACKOFF_MIN;
use zk_recipes::session::{Client, Config, Connector, Host, SessionManager};
use zk_recipes::{Guard, Mutex};
use zk_testing::{MemoryStream, Settings, TestServer};

use crate::Random;

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
    pass(2 * timeout + Random::new(seed).ms(1_000)).await;
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

/// A leader whose machine has died answers nothing. Each attempt at it takes half of the lease at most.
#[tokio::test(start_paused = true)]
async fn locks_survive_a_leader_that_answers_nothing() {
    let timeout = Duration::from_secs(2);
    for seed in 0..5 {
        let server = ensemble();
        let holders = hold(&server, timeout, seed).await;
        server.stall(0);
        for other in 1..3 {
            server.close_on_connect(other);
        }
        server.connections().cut(zk_testing::Cut::Rst);
        pass(timeout / 10).await;
        assert!(server.elect(1));
        (1..3).for_each(|other| server.accept_connects(other));
        pass(timeout).await;
        let lost = holders.iter().filter(|(_, guard)| !guard.is_held()).count();
        assert_eq!(lost, 0, "seed {seed}");
    }
}

/// Counts the attempts to connect.
#[derive(Clone)]
struct Counted {
    server: TestServer,
    attempts: Arc<AtomicU64>,
}

impl Connector for Counted {
    type Stream = MemoryStream;

    fn connect(
        &self,
        host: &Host,
    ) -> impl Future<Output = io::Result<MemoryStream>> + Send + 'static {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        self.server.connect(host)
    }
}

/// Clients that hold a lock each lose all servers for ten minutes. The pauses grow once the lease, and then
/// the session, is over.
#[tokio::test(start_paused = true)]
async fn long_outage_costs_few_attempts() {
    let clients = 20;
    let timeout = Duration::from_secs(4);
    let server = ensemble();
    let attempts = Arc::new(AtomicU64::new(0));
    let mut sessions = Vec::new();
    for number in 0..clients {
        let connector = Counted { server: server.clone(), attempts: attempts.clone() };
        let manager = SessionManager::connect(config(timeout, number).connector(connector));
        let manager = manager.await.unwrap();
        let client = manager.client();
        let lock = Mutex::new(&client, &format!("/{number}")).unwrap();
        let guard = lock.acquire().await.unwrap();
        sessions.push((manager, guard));
    }
    pass(2 * timeout).await;
    (0..3).for_each(|server_id| server.close_on_connect(server_id));
    server.connections().cut(zk_testing::Cut::Rst);
    let mut rates = Vec::new();
    for seconds in [1, 4, 55, 540] {
        let before = attempts.load(Ordering::Relaxed);
        pass(Duration::from_secs(seconds)).await;
        let made = attempts.load(Ordering::Relaxed) - before;
        rates.push(made * 1_000 / seconds / clients);
    }
    println!("attempts of 1,000 clients a second: {rates:?}");
    let [lease, session, minute, rest] = rates[..] else { panic!("{rates:?}") };
    assert!(lease < 25_000 && session < 12_000, "{rates:?}");
    assert!(minute < 2_000 && rest < 1_500, "{rates:?}");
    assert!(sessions.iter().all(|(_, guard)| !guard.is_held()));
}
