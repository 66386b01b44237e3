//! Reports of Curator's `LeaderLatch` and `LeaderSelector`, as tests of our elections.
//!
//! Each test checks every 5 ms that at most one candidate leads, that a leader has a node of its own
//! session, and that tokens grow.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use zk_recipes::session::{Config, SessionManager};
use zk_recipes::{Candidacy, Election, Leadership, LockError};
use zk_testing::{Cut, Op, TestServer};

use crate::election::sessions;
use crate::stepped::{Steps, stepped};
use crate::{T, children, config, now, settle};

/// Candidates of one election, and the tokens of their leaders.
struct Watched {
    server: TestServer,
    elections: Vec<(Election, SessionManager)>,
    candidacies: Vec<Candidacy>,
    /// The tokens of the leaders, in order.
    tokens: Vec<i64>,
}

impl Watched {
    /// Lets a candidate stand at each of these servers, one after the other.
    async fn stand(server: &TestServer, hosts: &[&str]) -> Self {
        let server = server.clone();
        let mut this =
            Self { server, elections: Vec::new(), candidacies: Vec::new(), tokens: Vec::new() };
        for hosts in hosts {
            this.add(hosts).await;
        }
        this
    }

    async fn add(&mut self, hosts: &str) {
        let number = self.elections.len();
        let config = Config::new(hosts).unwrap().session_timeout(T).seed(1 + number as u128);
        let config = config.connector(self.server.clone());
        let sessions = SessionManager::connect(config).await.unwrap();
        let election = Election::new(&sessions, "/e", format!("c{number}")).unwrap();
        self.candidacies.push(election.stand());
        self.elections.push((election, sessions));
        self.run(Duration::from_millis(50)).await;
    }

    /// Lets virtual time pass and checks the candidates.
    async fn run(&mut self, time: Duration) {
        let step = Duration::from_millis(5);
        for _ in 0..time.as_millis() / step.as_millis() {
            // reason: virtual time; the checks must be frequent
            tokio::time::sleep(step).await;
            self.check();
        }
    }

    fn check(&mut self) {
        let states = self.candidacies.iter().map(Candidacy::leadership);
        let leaders: Vec<Leadership> = states.filter(Leadership::is_leader).collect();
        assert!(leaders.len() <= 1, "{leaders:?}");
        let [Leadership::Leading { token, held }] = &leaders[..] else { return };
        let (node, session_id) = (held.nodes().remove(0), held.client().session_id());
        let owner = self.server.with(|ensemble| {
            let stat = ensemble.tree().node(&node).expect("a leader without a node").stat();
            (stat.czxid.0, stat.ephemeral_owner)
        });
        assert_eq!(owner, (token.czxid(), session_id));
        if self.tokens.last() != Some(&token.czxid()) {
            assert!(self.tokens.last() < Some(&token.czxid()), "{:?}, {token}", self.tokens);
            self.tokens.push(token.czxid());
        }
    }

    /// Lets a leader resign, after which the other candidate leads.
    async fn resign(&mut self, leader: usize) {
        self.candidacies.remove(leader).resign().await.unwrap();
        self.leader_within(T).await;
        self.run(T).await;
        assert_eq!(children(&self.server, "/e").len(), 1);
    }

    /// Returns the number of the leader. Runs until there is one, for at most `time`.
    async fn leader_within(&mut self, time: Duration) -> usize {
        let mut left = time.as_millis() / 5;
        loop {
            self.run(Duration::from_millis(5)).await;
            if let Some(leader) = self.candidacies.iter().position(Candidacy::is_leader) {
                return leader;
            }
            left = left.checked_sub(1).expect("nobody leads");
        }
    }
}

const ONE_SERVER: &str = "server:1";

const ALL_SERVERS: &str = "server-0:1,server-1:1,server-2:1";

/// `CURATOR-444`: the servers cannot reach each other for a session timeout, and then two lead.
#[tokio::test(start_paused = true)]
async fn curator_444_cut_servers_make_no_two_leaders() {
    for seconds in [3, 10, 25] {
        let server = TestServer::ensemble(3);
        let hosts = ["server-1:1", "server-2:1", "server-0:1"];
        let mut watched = Watched::stand(&server, &hosts).await;
        assert_eq!(watched.leader_within(T).await, 0);
        [1, 2].into_iter().for_each(|cut| server.cut_from_leader(cut));
        watched.run(Duration::from_secs(seconds)).await;
        [1, 2].into_iter().for_each(|cut| server.heal(cut));
        watched.run(2 * T).await;
        watched.leader_within(T).await;
        assert_eq!(children(&server, "/e").len(), 3);
    }
}

/// `CURATOR-504`, `CURATOR-644`: each reconnect creates nodes, millions in the end.
#[tokio::test(start_paused = true)]
async fn curator_504_644_reconnects_create_no_further_nodes() {
    let server = TestServer::in_memory();
    let mut watched = Watched::stand(&server, &[ONE_SERVER; 4]).await;
    let nodes = children(&server, "/e");
    for pause in [1, 7, 20, 100, 500].repeat(4) {
        server.connections().cut(Cut::Rst);
        watched.run(Duration::from_millis(5 * pause)).await;
    }
    watched.run(T).await;
    assert_eq!(children(&server, "/e"), nodes);
    assert_eq!((watched.leader_within(T).await, watched.tokens.len()), (0, 1));
}

/// `CURATOR-620`: two reconnects in quick succession, and the candidate deletes its node after it has
/// begun to lead.
#[tokio::test(start_paused = true)]
async fn curator_620_quick_reconnects_keep_the_leaders_node() {
    for reply in [Op::Create2, Op::GetChildren2, Op::Delete, Op::SetWatches] {
        for pause_ms in [0, 1, 5, 30] {
            let server = TestServer::in_memory();
            let mut watched = Watched::stand(&server, &[ONE_SERVER]).await;
            let _lost = server.on(reply).apply_then_drop_reply();
            watched.add(ONE_SERVER).await;
            for _ in 0..2 {
                server.connections().cut(Cut::Rst);
                watched.run(Duration::from_millis(5 * pause_ms)).await;
            }
            let leader = watched.leader_within(T).await;
            watched.run(2 * T).await;
            assert_eq!(watched.leader_within(T).await, leader);
            watched.resign(leader).await;
        }
    }
}

/// `CURATOR-645`: two candidates that wait for a leader which resigns reset each other for ever.
#[tokio::test(start_paused = true)]
async fn curator_645_waiting_candidates_settle_after_a_resignation() {
    for is_cut in [false, true] {
        let server = TestServer::in_memory();
        let mut watched = Watched::stand(&server, &[ONE_SERVER; 3]).await;
        let created = server.on(Op::Create2).always().delay(Duration::ZERO);
        let resigned = watched.candidacies.remove(0).resign();
        if is_cut {
            server.connections().cut(Cut::Rst);
        }
        resigned.await.unwrap();
        assert_eq!(watched.leader_within(T / 2).await, 0);
        watched.run(T).await;
        assert_eq!((created.count(), children(&server, "/e").len()), (0, 2));
    }
}

/// `CURATOR-653`, `CURATOR-652`: the ensemble elects a new leader, all clients reconnect, and a
/// candidate leads on with a node that it has deleted. `CURATOR-188`: the server that leads the ensemble
/// fails, and nodes of candidates stay behind.
#[tokio::test(start_paused = true)]
async fn curator_188_652_653_ensembles_election_leaves_one_leader() {
    let server = TestServer::ensemble(3);
    let mut watched = Watched::stand(&server, &[ALL_SERVERS; 3]).await;
    for round in 0..9 {
        let before = server.leader();
        let next = (before + 1) % 3;
        match round % 3 {
            0 => assert!(server.elect(next)),
            1 => {
                assert!(server.isolate_leader(next));
                watched.run(T).await;
                server.heal(before);
            }
            _ => {
                server.kill(before);
                watched.run(T / 20).await;
                assert!(server.elect(next));
                watched.run(T / 2).await;
                server.restart(before);
            }
        }
        watched.run(T / 2).await;
        let leader = watched.leader_within(2 * T).await;
        watched.run(2 * T).await;
        let (election, _) = &watched.elections[0];
        let listed = election.candidates().await.unwrap();
        assert_eq!((children(&server, "/e").len(), listed.len()), (3, 3));
        let first = election.leader().await.unwrap().unwrap();
        assert_eq!(first.id, watched.elections[leader].0.id());
        for it in listed {
            assert!(server.with(|ensemble| ensemble.is_alive(it.participant.session_id)), "{it:?}");
        }
    }
}

/// `CURATOR-696`: the client has given its session up and has a new one, and leads with the node of
/// the old session until the server deletes it.
#[tokio::test(start_paused = true)]
async fn curator_696_node_of_the_previous_session_does_not_lead() {
    let server = TestServer::in_memory();
    let mut watched = Watched::stand(&server, &[ONE_SERVER]).await;
    watched.leader_within(T).await;
    let old = children(&server, "/e");
    server.kill(0);
    watched.run(2 * T).await;
    server.restart(0);
    // The server has restarted the clocks of its sessions. The next session deletes the node.
    let old_is_there = || children(&server, "/e").contains(&old[0]);
    assert!(old_is_there());
    let begin = now();
    while old_is_there() {
        watched.run(Duration::from_millis(5)).await;
        assert!(!old_is_there() || !watched.candidacies[0].is_leader());
    }
    watched.leader_within(T / 10).await;
    assert!(now() - begin < T);
    assert_eq!((watched.tokens.len(), children(&server, "/e").len()), (2, 1));
}

/// A waiting `LeaderLatch` whose session ends may have no node until the leader resigns.
#[tokio::test(start_paused = true)]
async fn waiting_candidate_has_a_node_on_its_next_session() {
    let server = TestServer::in_memory();
    let mut watched = Watched::stand(&server, &[ONE_SERVER; 2]).await;
    for _ in 0..3 {
        let old = children(&server, "/e");
        assert!(server.expire(watched.elections[1].1.client().session_id()));
        watched.run(T).await;
        let nodes = children(&server, "/e");
        assert!(nodes.len() == 2 && nodes != old, "{nodes:?}");
    }
    assert_eq!((watched.leader_within(T).await, watched.tokens.len()), (0, 1));
}

/// `CURATOR-498`: the late reply of an old creation replaces the path of the leader's node. The
/// leader's node is deleted, and the leader leads on.
#[tokio::test(start_paused = true)]
async fn curator_498_late_creation_keeps_the_leaders_node() {
    for is_expired in [false, true] {
        let server = TestServer::in_memory();
        let mut watched = Watched::stand(&server, &[ONE_SERVER]).await;
        let late = match is_expired {
            true => server.on(Op::Create2).apply_then_expire_session(),
            false => server.on(Op::Create2).times(3).apply_then_drop_reply(),
        };
        watched.add(ONE_SERVER).await;
        watched.run(2 * T).await;
        assert!(late.count() > 0);
        assert_eq!(watched.leader_within(T).await, 0);
        watched.resign(0).await;
    }
}

/// `CURATOR-62`: an interrupted `LeaderSelector` leaves its node, and nobody leads any more.
///
/// The candidate is cancelled after each part of each answer.
#[tokio::test(start_paused = true)]
async fn curator_62_cancelled_candidate_blocks_nobody() {
    for is_background in [false, true] {
        let mut steps = 0;
        while !is_cancelled_after(steps, is_background).await {
            steps += 1;
            assert!(steps < 200, "it never leads");
        }
        assert!(steps >= 2, "a first answer has two parts");
    }
}

/// Returns true if the candidate leads after so many steps.
async fn is_cancelled_after(steps: usize, is_background: bool) -> bool {
    let server = TestServer::in_memory();
    let gate = Steps::default();
    let sessions =
        SessionManager::connect(config(1).connector(stepped(&server, &gate))).await.unwrap();
    let election = Election::selector(&sessions, "/e", "cancelled").unwrap();
    gate.allow(steps);
    let leads = Arc::new(AtomicBool::new(false));
    if is_background {
        let candidacy = election.stand();
        settle().await;
        leads.store(candidacy.is_leader(), Ordering::Relaxed);
    } else {
        let work = |_| {
            leads.store(true, Ordering::Relaxed);
            std::future::pending::<Result<ControlFlow<()>, LockError>>()
        };
        let leading = tokio::time::timeout(Duration::from_millis(50), election.lead(work, drop));
        assert!(leading.await.is_err());
    }
    gate.allow_all();
    let other =
        Election::selector(&self::sessions(&server, 2).await, "/e", "other").unwrap().stand();
    tokio::time::timeout(T / 10, other.wait_to_lead()).await.unwrap().unwrap();
    settle().await;
    assert_eq!(children(&server, "/e").len(), 1, "{steps} steps");
    assert!(sessions.client().end_reason().is_none(), "by the session, and not by its end");
    leads.load(Ordering::Relaxed)
}
