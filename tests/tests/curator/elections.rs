//! Tests of elections that an `Election` shares with Java services that use Curator's
//! `LeaderLatch` and `LeaderSelector`.

use tokio::runtime::{Builder, Runtime};
use zk_recipes::session::{PathError, SessionManager};
use zk_recipes::{Candidacy, Election};
use zk_tests::{Curator, LIMIT, eventually, now};

use crate::{SHORT, address, sessions};

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
        let address = address()?;
        let curator = Curator::start(&address, SHORT, &[])?;
        Some(Self { nodes, path, address, curator })
    }

    /// Returns the handle of a candidate with a session of its own.
    async fn election(&self, id: &str) -> Election {
        (self.nodes.ours)(&sessions(&self.address).await, self.path, id.to_owned()).unwrap()
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
        JavasEnd::Killed => curator.kill(),
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
