//! Tests of elections that an `Election` or `zk elect` shares with Java services that use Curator's
//! `LeaderLatch` and `LeaderSelector`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use zk_recipes::session::{Config, PathError, SessionManager};
use zk_recipes::{Candidacy, Election};
use zk_tests::{Curator, HOLD, Journal, Running, Zk, eventually, now, poll, shared_zookeeper};

const LIMIT: Duration = Duration::from_secs(60);

/// After this time, the candidate of a killed process is gone.
const SESSION_TIMEOUT: Duration = Duration::from_secs(5);

struct Mixed {
    zk: Zk,
    curator: Curator,
    path: &'static str,
    journal: Journal,
}

impl Mixed {
    fn new(path: &'static str) -> Option<Self> {
        let address = shared_zookeeper()?.connect_string();
        let curator = Curator::with_timeout(&address, SESSION_TIMEOUT)?;
        let journal = Journal::new();
        let zk = Zk::new(address).journal(&journal).session_timeout(SESSION_TIMEOUT);
        Some(Self { zk, curator, path, journal })
    }

    /// Adds a candidate of ours, and waits until there are `count`.
    fn ours(&self, name: &str, count: usize) -> Running {
        let stands = self.zk.start(&["elect", self.path, "--name", name, "--", "sh", "-c", HOLD]);
        self.expect(count);
        stands
    }

    /// Adds a candidate of Curator's, and waits until there are `count`.
    fn theirs(&mut self, name: &str, count: usize) {
        self.curator.tell(name, &format!("acquire latch {} 0 0 -1", self.path));
        self.expect(count);
    }

    fn expect(&self, count: usize) {
        poll(LIMIT, || (self.candidates().len() == count).then_some(())).expect("a candidate");
    }

    /// Returns the ids of the candidates, the leader's first.
    fn candidates(&self) -> Vec<String> {
        let listed = self.zk.run(&["participants", self.path]).stdout;
        listed.lines().filter_map(|line| Some(line.split_once('\t')?.1.to_owned())).collect()
    }
}

/// Waits until our candidates have led so many times.
fn expect_leaders(journal: &Journal, count: usize) {
    poll(LIMIT, || (journal.entered().len() == count).then_some(())).expect("no leader");
}

#[test]
fn mixed_candidates_lead_in_turn_and_list_alike() {
    let Some(mut election) = Mixed::new("/interop/election-order") else { return };
    let mut first = election.ours("first", 1);
    expect_leaders(&election.journal, 1);
    election.theirs("second", 2);
    let mut third = election.ours("third", 3);
    election.theirs("fourth", 4);
    let candidates = election.candidates();
    // Our nodes also have the address, the host and the process.
    let names = candidates.iter().map(|id| id.rsplit(' ').next().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["first", "second", "third", "fourth"]);
    let listed = format!("participants latch {}", election.path);
    assert_eq!(election.curator.ok("observer", &listed).join(" "), candidates.join(" "));

    first.end_input();
    assert_eq!(first.wait(LIMIT).code(), Some(0));
    assert_eq!(election.curator.answer("second"), ["ok"]);
    assert_eq!(election.journal.entered().len(), 1, "the third leads beside the second");
    election.curator.ok("second", "release");
    expect_leaders(&election.journal, 2);
    third.end_input();
    assert_eq!(third.wait(LIMIT).code(), Some(0));
    assert_eq!(election.curator.answer("fourth"), ["ok"]);
    election.curator.ok("fourth", "release"); // whose node Curator deletes in the background
    election.expect(0);
}

#[test]
fn candidates_lead_after_a_killed_leader_of_the_other_kind() {
    let Some(mut election) = Mixed::new("/interop/election-kills") else { return };
    let killed = election.ours("killed", 1);
    expect_leaders(&election.journal, 1);
    election.theirs("java", 2);
    killed.signal("KILL");
    assert_eq!(election.curator.answer("java"), ["ok"], "after the session has expired");

    let mut last = election.ours("last", 2);
    let Mixed { curator, journal, .. } = election;
    drop(curator); // which kills the process
    expect_leaders(&journal, 2);
    last.end_input();
    assert_eq!(last.wait(LIMIT).code(), Some(0));
}

/// The nodes of an election, as Curator's classes and our constructors choose them.
#[derive(Clone, Copy)]
struct Nodes {
    of_java: &'static str,
    ours: fn(&SessionManager, &str, String) -> Result<Election, PathError>,
}

const LATCH: Nodes = Nodes { of_java: "latch", ours: Election::new };
const SELECTOR: Nodes = Nodes { of_java: "selector", ours: Election::selector };

/// An [`Election`] beside Curator's candidates.
struct Shared {
    nodes: Nodes,
    path: &'static str,
    address: String,
    curator: Curator,
}

impl Shared {
    fn new(nodes: Nodes, path: &'static str) -> Option<Self> {
        let address = shared_zookeeper()?.connect_string();
        let curator = Curator::with_timeout(&address, SESSION_TIMEOUT)?;
        Some(Self { nodes, path, address, curator })
    }

    /// Returns the handle of a candidate with a session of its own.
    async fn election(&self, id: &str) -> Election {
        let config = Config::new(&self.address).unwrap().session_timeout(SESSION_TIMEOUT);
        let sessions = SessionManager::connect(config).await.unwrap();
        (self.nodes.ours)(&sessions, self.path, id.to_owned()).unwrap()
    }

    /// Adds a candidate of ours, and waits until there are `count`.
    async fn ours(&self, id: &str, count: usize) -> Candidacy {
        let election = self.election(id).await;
        let candidacy = election.stand();
        expect(&election, count).await;
        candidacy
    }

    /// Adds a candidate of Curator's, and waits until there are `count`.
    async fn theirs(&mut self, id: &str, count: usize) {
        let (kind, path) = (self.nodes.of_java, self.path);
        self.curator.tell(id, &format!("acquire {kind} {path} 0 0 -1"));
        expect(&self.election("observer").await, count).await;
    }

    /// Returns the ids of the candidates. Both sides must list the same, the leader first.
    async fn listed(&mut self) -> Vec<String> {
        let observer = self.election("observer").await;
        let ids = ids(&observer).await;
        let leader = observer.leader().await.unwrap().map(|leader| leader.id);
        assert_eq!(leader.as_ref(), ids.first());
        let listed = format!("participants {} {}", self.nodes.of_java, self.path);
        assert_eq!(self.curator.ok("observer", &listed), ids);
        ids
    }
}

async fn ids(election: &Election) -> Vec<String> {
    election.candidates().await.unwrap().into_iter().map(|candidate| candidate.id).collect()
}

async fn expect(election: &Election, count: usize) {
    let stands = async || (ids(election).await.len() == count).then_some(());
    eventually(LIMIT, stands).await.expect("a candidate");
}

async fn candidates_of_both_libraries_lead_in_turn(nodes: Nodes, path: &'static str) {
    let Some(mut election) = Shared::new(nodes, path) else { return };
    let first = election.ours("first", 1).await;
    first.wait_to_lead().await.unwrap();
    election.theirs("second", 2).await;
    let third = election.ours("third", 3).await;
    election.theirs("fourth", 4).await;
    assert_eq!(election.listed().await, ["first", "second", "third", "fourth"]);

    first.resign().await.unwrap();
    assert_eq!(election.curator.answer("second"), ["ok"]);
    assert_eq!(election.listed().await, ["second", "third", "fourth"]);
    assert!(!third.is_leader());
    election.curator.ok("second", "release");
    third.wait_to_lead().await.unwrap();
    third.resign().await.unwrap();
    assert_eq!(election.curator.answer("fourth"), ["ok"]);
    election.curator.ok("fourth", "release"); // a latch deletes its node in the background
    expect(&election.election("observer").await, 0).await;
    assert!(election.listed().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn latch_candidates_of_both_libraries_lead_in_turn() {
    candidates_of_both_libraries_lead_in_turn(LATCH, "/interop/latch-order").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_of_both_libraries_lead_in_turn() {
    candidates_of_both_libraries_lead_in_turn(SELECTOR, "/interop/selector-order").await;
}

#[derive(Clone, Copy, Debug)]
enum JavasEnd {
    Resigns,
    Killed,
}

/// Our leader is paused for longer than its session lasts. Then Curator's leader ends as told.
fn leader_stops_before_the_next_one_leads(nodes: Nodes, path: &'static str, javas_end: JavasEnd) {
    let runtime = || -> Runtime { Builder::new_current_thread().enable_all().build().unwrap() };
    let Some(mut election) = Shared::new(nodes, path) else { return };
    let (paused, awake) = (runtime(), runtime());
    let candidacy = paused.block_on(election.ours("paused", 1));
    let held = paused.block_on(candidacy.wait_to_lead()).unwrap();
    let token = held.token().unwrap();
    awake.block_on(election.theirs("java", 2));
    // No task of the paused runtime runs from here on.
    let ends_at = now() + held.remaining();
    assert_eq!(election.curator.answer("java"), ["ok"], "after the session has expired");
    assert!(now() >= ends_at);
    assert!(!candidacy.is_leader() && !held.is_held() && held.token().is_err());

    let next = awake.block_on(election.ours("next", 2));
    let Shared { mut curator, .. } = election;
    match javas_end {
        JavasEnd::Resigns => drop(curator.ok("java", "release")),
        JavasEnd::Killed => drop(curator),
    }
    let next_token = awake.block_on(next.wait_to_lead()).unwrap().token().unwrap();
    assert!(next_token > token);
    awake.block_on(next.resign()).unwrap();
    let again = paused.block_on(candidacy.wait_to_lead()).unwrap();
    assert!(again.token().unwrap() > next_token, "it stands again on the next session");
    paused.block_on(candidacy.resign()).unwrap();
}

#[test]
fn paused_latch_leader_stops_before_java_leads() {
    leader_stops_before_the_next_one_leads(LATCH, "/interop/latch-kills", JavasEnd::Resigns);
}

#[test]
fn paused_selector_leader_stops_before_java_leads() {
    leader_stops_before_the_next_one_leads(SELECTOR, "/interop/selector-kills", JavasEnd::Killed);
}
