//! Processes that are members of a group, under random faults, against the state of the servers.
//!
//! Each process has its own sessions, one member and one reader of the group. Two processes share
//! an id. The observer of the servers checks every transaction; the rest is checked after the last
//! fault, once every process has been connected for a while.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use zk_coordination::limits::BACKOFF_MAX;
use zk_coordination::session::{
    Client, Config, SessionChange, SessionChanges, SessionId, SessionManager,
};
use zk_coordination::{Group, GroupMember, NodeState};
use zk_testing::server::Effect;
use zk_testing::{Cut, ErrorCode, Op, Rng, Settings, TestServer};

use crate::{MS, T, settle};

const GROUP: &str = "/g";
const SERVERS: usize = 3;
const PROCESSES: usize = 5;
const STEPS: u32 = 60;

struct Process {
    id: String,
    sessions: SessionManager,
    member: GroupMember,
    group: Group,
    payload: String,
    changes: SessionChanges,
    /// All sessions so far.
    session_ids: BTreeSet<SessionId>,
}

impl Process {
    async fn start(server: &TestServer, number: usize, run: u64) -> Self {
        let seed = (u128::from(run) << 32) + number as u128;
        let sessions =
            SessionManager::connect(config(seed).connector(server.clone())).await.unwrap();
        let id = format!("m{}", number.min(PROCESSES - 2)); // the last two share an id
        let payload = format!("{number} at the start");
        let member = GroupMember::join(&sessions, GROUP, &id, payload.clone()).unwrap();
        let group = Group::open(&sessions, GROUP).await.unwrap();
        let (changes, session_ids) = (sessions.changes(), [sessions.client().session_id()].into());
        Self { id, sessions, member, group, payload, changes, session_ids }
    }

    fn note_sessions(&mut self) {
        while let Some(Some(change)) = self.changes.next().now_or_never() {
            if let SessionChange::Opened { session_id, .. } = change {
                self.session_ids.insert(session_id);
            }
        }
    }

    fn path(&self) -> String {
        format!("{GROUP}/{}", self.id)
    }

    fn session_id(&self) -> SessionId {
        self.sessions.client().session_id()
    }
}

fn config(seed: u128) -> Config {
    let hosts: Vec<String> = (0..SERVERS).map(|index| format!("server-{index}:1")).collect();
    Config::new(&hosts.join(",")).unwrap().session_timeout(T).seed(seed)
}

/// Transactions that the observer has seen.
#[derive(Default)]
struct Seen {
    /// Owners of the nodes after the last transaction.
    owners: BTreeMap<String, SessionId>,
    /// The old and the new owner of each node that one transaction has replaced.
    replaced: Vec<(SessionId, SessionId)>,
    /// Nodes that a process has deleted without replacing them.
    gaps: Vec<String>,
}

/// Observes every transaction. Only the operator may delete a node without replacing it.
fn observe(server: &TestServer, operator: &Client) -> Arc<Mutex<Seen>> {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (shared, operator) = (Arc::clone(&seen), operator.session_id());
    server.with(|ensemble| {
        ensemble.observe(move |tree, commit| {
            let mut seen = shared.lock().unwrap();
            let node = |path: &str| tree.node(path).map(|node| node.stat().ephemeral_owner);
            match commit.effect {
                Effect::Created(path) if path.starts_with("/g/") => {
                    let owner = node(path).unwrap();
                    let before = seen.owners.insert(path.to_owned(), owner);
                    seen.replaced.extend(before.map(|before| (before, owner)));
                }
                Effect::Deleted(path) if path.starts_with("/g/") && node(path).is_none() => {
                    seen.owners.remove(path);
                    if commit.session_id != operator {
                        seen.gaps.push(path.to_owned());
                    }
                }
                Effect::SessionClosed => seen.owners.retain(|_, owner| *owner != commit.session_id),
                _ => {}
            }
        });
    });
    seen
}

/// One random fault, which lasts a random time.
async fn fault(server: &TestServer, processes: &mut [Process], operator: &Client, rng: &mut Rng) {
    let number = rng.index(processes.len());
    let id = processes[number].session_id();
    match rng.below(12) {
        0 | 1 => server.connection_of(id).cut(rng.pick(&[Cut::Rst, Cut::Fin, Cut::Silence])),
        2 => drop(server.expire(id)),
        3 | 4 => drop(operator.delete(&processes[number].path(), None).await),
        5 => drop(operator.set_data(&processes[number].path(), b"overwritten", None).await),
        6 => {
            let op = rng.pick(&[Op::Create2, Op::Exists, Op::Multi, Op::SetData, Op::GetData]);
            drop(server.on(op).session(id).apply_then_drop_reply());
        }
        7 => {
            let op = rng.pick(&[Op::Create2, Op::Exists, Op::GetChildren2, Op::SetWatches]);
            drop(server.on(op).session(id).drop_before_applying());
        }
        8 => drop(server.on(Op::Create2).times(2).answer(ErrorCode::NO_AUTH)),
        9 => drop(server.elect(rng.index(SERVERS))),
        10 => {
            // An outage, at whose end some sessions have expired, at the clients or at the servers.
            (0..SERVERS).for_each(|index| server.refuse_connects(index));
            server.connections().cut(Cut::Rst);
            let length = rng.millis(T * 3 / 2);
            tokio::time::sleep(length).await; // reason: virtual time, the length of the outage
            let _ = server.elect((server.leader() + 1) % SERVERS);
            let length = rng.millis(T * 3 / 2);
            tokio::time::sleep(length).await; // reason: virtual time, the length of the outage
            (0..SERVERS).for_each(|index| server.accept_connects(index));
        }
        _ => {
            let process = &mut processes[number];
            process.payload = format!("{number} as {}", rng.below(1_000));
            drop(process.member.set_data(process.payload.clone()));
        }
    }
    tokio::time::sleep(rng.millis(3_000 * MS)).await; // reason: virtual time between two faults
}

/// Waits until every process has had a connection for a while.
async fn calm_down(server: &TestServer, processes: &[Process]) {
    server.clear_faults();
    for process in processes {
        process.sessions.open_client().await.unwrap().sync("/").await.ok();
    }
    // reason: virtual time, in which sessions reconnect, and refused attempts are repeated
    tokio::time::sleep(3 * T + 2 * BACKOFF_MAX).await;
    settle().await;
}

fn check_state(server: &TestServer, processes: &[Process], what: &str) {
    let ids: BTreeSet<String> = processes.iter().map(|process| process.id.clone()).collect();
    server.with(|ensemble| {
        let listed = ensemble.tree().node(GROUP).unwrap().children().map(str::to_owned).collect();
        assert_eq!(ids, listed, "{what}: every id is a member");
    });
    for process in processes {
        let shown = process.member.state();
        let (owner, data, is_alive) = server.with(|ensemble| {
            let node = ensemble.tree().node(&process.path()).unwrap();
            let owner = node.stat().ephemeral_owner;
            (owner, node.data().unwrap().to_vec(), ensemble.is_alive(owner))
        });
        assert!(is_alive, "{what}: {} is the id of a dead session", process.id);
        let listed = process.group.members();
        assert_eq!(
            ids.iter().map(|id| &**id).collect::<Vec<_>>(),
            listed.ids().collect::<Vec<_>>()
        );
        let member = listed.get(&process.id).unwrap();
        assert_eq!((member.session_id(), &member.data()[..]), (owner, &data[..]), "{what}");
        match &shown {
            NodeState::Present { stat, .. } => {
                assert_eq!(stat.ephemeral_owner, owner, "{what}: {shown}");
                assert_eq!(owner, process.session_id(), "{what}: of the current session");
                let text = String::from_utf8(data).unwrap();
                assert_eq!(text, process.payload, "{what}");
            }
            NodeState::Conflict { stat, .. } => {
                assert_eq!(stat.ephemeral_owner, owner, "{what}: {shown}");
                assert_ne!(owner, process.session_id(), "{what}: a conflict with itself");
            }
            state => panic!("{what}: {} is {state}", process.id),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn members_equal_live_processes_after_random_faults() {
    let mut replacements = 0;
    for seed in 0..seeds() {
        let server = TestServer::in_memory_with(Settings::new().servers(SERVERS).seed(seed));
        let operator = config(999).connector(server.clone()).connect().await.unwrap();
        let seen = observe(&server, &operator);
        let mut processes = Vec::new();
        for number in 0..PROCESSES {
            processes.push(Process::start(&server, number, seed).await);
        }
        let mut rng = Rng::new(seed);
        for step in 0..STEPS {
            fault(&server, &mut processes, &operator, &mut rng).await;
            processes.iter_mut().for_each(Process::note_sessions);
            if step % 20 == 19 {
                calm_down(&server, &processes).await;
                check_state(&server, &processes, &format!("seed {seed}, step {step}"));
            }
        }
        processes.iter_mut().for_each(Process::note_sessions);
        let Seen { replaced, gaps, .. } = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(gaps, [""; 0], "seed {seed}");
        for (old, new) in &replaced {
            let of_one = |process: &Process| {
                process.session_ids.contains(old) && process.session_ids.contains(new)
            };
            assert!(processes.iter().any(of_one), "seed {seed}: {new} replaced {old}");
        }
        replacements += replaced.len();
        for process in processes {
            process.member.leave().await.unwrap();
        }
        let left = server
            .with(|ensemble| ensemble.tree().node(GROUP).map_or(0, |node| node.children().count()));
        assert_eq!(left, 0, "seed {seed}");
    }
    assert!(replacements > 0, "no session has outlived its client");
}

/// Returns the number of runs: few by default, more with `MEMBER_SEEDS`.
fn seeds() -> u64 {
    std::env::var("MEMBER_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(8)
}
