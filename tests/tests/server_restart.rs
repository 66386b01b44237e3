//! Tests of a server that is killed and restarted within the session timeout. Every waiter still
//! acquires the lock once, and no lost answer leaves an unused node behind.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex as Shared};
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::session::Client;
use zk_recipes::{Guard, Mutex};
use zk_tests::{Journal, Running, Standalone, Zk, connect, contenders, eventually, zookeeper};

#[tokio::test(flavor = "multi_thread")]
async fn queued_waiters_acquire_after_restart() {
    let Some(scene) = Scene::start().await else { return };
    let holder = connect(&scene.server.connect_string(), TIMEOUT).await;
    let guard = Mutex::new(&holder, PATH).unwrap().acquire().await.unwrap();
    append_grant(&scene.journal, &guard);
    let waiters = scene.waiters().await.queue();
    contenders(&scene.observer, PATH, 1 + WAITERS).await;

    scene.server.kill();
    // The guard is released while the server is down. The node is deleted once the server is back.
    let released = tokio::spawn(guard.release());
    scene.server.restart().unwrap();
    released.await.unwrap().unwrap();
    scene.expect_all(waiters, 1 + WAITERS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_acquire_when_restart_interrupts_queueing() {
    restart_after_turns(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_acquire_after_restart_when_half_of_them_are_done() {
    restart_after_turns(WAITERS / 2).await;
}

/// Restarts the server during creates, lists, watches and deletes, so that some answers are lost.
/// It restarts only once: a client without time to reconnect between two restarts would lose its
/// session if both together take too long.
async fn restart_after_turns(turns: usize) {
    let Some(scene) = Scene::start().await else { return };
    let holder = connect(&scene.server.connect_string(), TIMEOUT).await;
    let guard = Mutex::new(&holder, PATH).unwrap().acquire().await.unwrap();
    append_grant(&scene.journal, &guard);
    let waiters = scene.waiters().await;
    // A command waits at most 10 s for its first session, even if the restart takes longer.
    scene.sessions(2 + WAITERS).await;
    let waiters = waiters.queue();
    guard.release().await.unwrap();
    eventually(LIMIT, async || (scene.journal.entered().len() > turns).then_some(()))
        .await
        .expect("nobody gets in");
    scene.server.restart().unwrap();
    scene.expect_all(waiters, 1 + WAITERS).await;
}

/// A server, a lock, and an observer that keeps listing the lock's nodes.
struct Scene {
    server: Standalone,
    journal: Arc<Journal>,
    observer: Client,
    seen: Arc<Shared<Seen>>,
    looking: JoinHandle<()>,
}

/// The names of nodes, by contender.
type Seen = BTreeMap<String, BTreeSet<String>>;

impl Scene {
    async fn start() -> Option<Self> {
        let server = zookeeper()?;
        Zk::new(server.connect_string()).ok(&["create", PATH, "--parents"]);
        let observer = connect(&server.connect_string(), TIMEOUT).await;
        let seen = Arc::default();
        let looking = tokio::spawn(look(observer.clone(), Arc::clone(&seen)));
        Some(Self { server, journal: Arc::new(Journal::new()), observer, seen, looking })
    }

    /// Starts commands that queue as soon as they have sessions, and opens sessions for clients
    /// that do not queue yet.
    async fn waiters(&self) -> Connected {
        let address = self.server.connect_string();
        let command = Zk::new(&address).session_timeout(TIMEOUT).journal(&self.journal);
        let commands = (0..COMMANDS).map(|_| command.lock(PATH, Journal::VISIT)).collect();
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(connect(&address, TIMEOUT).await);
        }
        Connected { commands, clients, journal: Arc::clone(&self.journal) }
    }

    /// Waits until the server has `count` sessions.
    async fn sessions(&self, count: usize) {
        let listed = async || {
            let said = self.server.four_letter("cons").unwrap();
            (said.matches(",sid=").count() == count).then_some(())
        };
        eventually(LIMIT, listed).await.expect("sessions are missing");
    }

    /// Waits until every waiter has acquired and released the lock, and checks the remaining nodes.
    async fn expect_all(self, waiters: Waiters, grants: usize) {
        for task in waiters.tasks {
            tokio::time::timeout(LIMIT, task).await.expect("no turn for a client").unwrap();
        }
        for command in waiters.commands {
            let ended = command.wait(LIMIT);
            assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
        }
        let visits = self.journal.visits();
        assert_eq!(visits.len(), grants, "turns");
        contenders(&self.observer, PATH, 0).await;

        // `cversion` is twice the number of children ever created, minus the number of current
        // children.
        let made = self.observer.exists(PATH).await.unwrap().unwrap().cversion / 2;
        assert_eq!(usize::try_from(made).unwrap(), grants, "nodes made");

        self.looking.abort();
        let seen = self.seen.lock().unwrap();
        let twice: Vec<_> = seen.values().filter(|names| names.len() > 1).collect();
        assert!(twice.is_empty(), "one contender, two nodes: {twice:?}");
        println!("{grants} turns, {} nodes were seen, none twice", seen.len());
    }
}

struct Connected {
    commands: Vec<Running>,
    clients: Vec<Client>,
    journal: Arc<Journal>,
}

impl Connected {
    fn queue(self) -> Waiters {
        let turn = |client| tokio::spawn(take_a_turn(client, Arc::clone(&self.journal)));
        Waiters { commands: self.commands, tasks: self.clients.into_iter().map(turn).collect() }
    }
}

struct Waiters {
    commands: Vec<Running>,
    tasks: Vec<JoinHandle<()>>,
}

async fn take_a_turn(client: Client, journal: Arc<Journal>) {
    let guard = Mutex::new(&client, PATH).unwrap().acquire().await.unwrap();
    append_grant(&journal, &guard);
    guard.release().await.unwrap();
}

/// Records the names of all nodes at every change.
async fn look(observer: Client, seen: Arc<Shared<Seen>>) {
    loop {
        // An error means that the server is down. A node that still exists is seen after the
        // restart.
        let Ok((children, changed)) = observer.get_children_and_watch(PATH).await else {
            continue;
        };
        for name in children.names.names() {
            let contender = contender_id(&name).to_owned();
            seen.lock().unwrap().entry(contender).or_default().insert(name.into_owned());
        }
        drop(changed.await);
    }
}

const PATH: &str = "/locks/restart";
/// The longest timeout that the server's tick allows. A client that has no server for longer loses
/// its session.
const TIMEOUT: Duration = Duration::from_secs(40);
const LIMIT: Duration = Duration::from_secs(60);
const CLIENTS: usize = 14;
const COMMANDS: usize = 6;
const WAITERS: usize = CLIENTS + COMMANDS;

/// Records in the journal that the holder of `guard` has acquired and released the lock.
fn append_grant(journal: &Journal, guard: &Guard) {
    let token = guard.token().expect("whoever has just acquired a lock has it").czxid();
    journal.append("enter", token, guard.node());
    std::thread::yield_now();
    journal.append("exit", token, guard.node());
}

/// Returns the part of a protected node's name by which a contender finds its node again.
fn contender_id(name: &str) -> &str {
    let id = name.strip_prefix("_c_").and_then(|rest| rest.rsplit_once("-lock-"));
    id.expect("a protected name of a mutex").0
}
