//! A server that is killed and comes back within the session timeout: every waiter still gets its
//! turn, once, and no answer that was lost makes a node that nobody looks after.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex as Shared};
use std::time::Duration;

use tokio::task::JoinHandle;
use zk_recipes::Mutex;
use zk_recipes::session::Client;
use zk_tests::{
    Journal, Running, Standalone, Zk, append_grant, connect, contender_id, contenders, eventually,
    zookeeper,
};

#[tokio::test(flavor = "multi_thread")]
async fn waiters_in_the_queue_get_their_turns() {
    let Some(scene) = Scene::start().await else { return };
    let holder = connect(&scene.server.connect_string(), TIMEOUT).await;
    let guard = Mutex::new(&holder, PATH).unwrap().acquire().await.unwrap();
    append_grant(&scene.journal, &guard);
    let waiters = scene.waiters().await.queue();
    contenders(&scene.observer, PATH, 1 + WAITERS).await;

    scene.server.kill();
    // Asked for while there is no server: the node goes when there is one again.
    let released = tokio::spawn(guard.release());
    scene.server.restart().unwrap();
    released.await.unwrap().unwrap();
    scene.expect_all(waiters, 1 + WAITERS).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_that_are_just_queueing_get_their_turns() {
    restart_after_turns(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiters_get_their_turns_when_half_of_them_had_theirs() {
    restart_after_turns(WAITERS / 2).await;
}

/// Restarts the server in the midst of creates, lists, watches and deletes, of which some answers
/// are lost. Only once: a client that had no time to reconnect between two restarts would be without
/// a server for as long as both take, and its session might end.
async fn restart_after_turns(turns: usize) {
    let Some(scene) = Scene::start().await else { return };
    let holder = connect(&scene.server.connect_string(), TIMEOUT).await;
    let guard = Mutex::new(&holder, PATH).unwrap().acquire().await.unwrap();
    append_grant(&scene.journal, &guard);
    let waiters = scene.waiters().await;
    // A command waits 10 s for its first session, however long the server takes to come back.
    scene.sessions(2 + WAITERS).await;
    let waiters = waiters.queue();
    guard.release().await.unwrap();
    eventually(LIMIT, async || (scene.journal.entered().len() > turns).then_some(()))
        .await
        .expect("nobody gets in");
    scene.server.restart().unwrap();
    scene.expect_all(waiters, 1 + WAITERS).await;
}

/// A server, a lock, and somebody who looks at the lock all the time.
struct Scene {
    server: Standalone,
    journal: Arc<Journal>,
    observer: Client,
    seen: Arc<Shared<Seen>>,
    looking: JoinHandle<()>,
}

/// The names of nodes by contender.
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

    /// Commands that queue as soon as they have sessions, and clients with sessions that do not
    /// queue yet.
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

    /// Waits until the server has so many sessions.
    async fn sessions(&self, count: usize) {
        let listed = async || {
            let said = self.server.four_letter("cons").unwrap();
            (said.matches(",sid=").count() == count).then_some(())
        };
        eventually(LIMIT, listed).await.expect("sessions are missing");
    }

    /// Waits until all have had their turns, and looks at what is left.
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

        // What the server says is twice the number of children ever made, less those there are.
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

/// Collects what can be seen, at every change.
async fn look(observer: Client, seen: Arc<Shared<Seen>>) {
    loop {
        // An error is the server being away. A node that lasts is seen when it is back.
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
/// The longest that the server's tick allows: a client that is without a server for longer gives its
/// session up.
const TIMEOUT: Duration = Duration::from_secs(40);
const LIMIT: Duration = Duration::from_secs(60);
const CLIENTS: usize = 14;
const COMMANDS: usize = 6;
const WAITERS: usize = CLIENTS + COMMANDS;
