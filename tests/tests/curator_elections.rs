//! Tests of elections that `zk elect` shares with Java services that use Curator's `LeaderLatch`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::time::Duration;

use zk_tests::{Curator, HOLD, Journal, Running, Zk, poll, shared_zookeeper};

const LIMIT: Duration = Duration::from_secs(60);

/// After this time, the candidate of a killed process is gone.
const SESSION_TIMEOUT: Duration = Duration::from_secs(5);

struct Election {
    zk: Zk,
    curator: Curator,
    path: &'static str,
    journal: Journal,
}

impl Election {
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
    let Some(mut election) = Election::new("/interop/election-order") else { return };
    let mut first = election.ours("first", 1);
    expect_leaders(&election.journal, 1);
    election.theirs("second", 2);
    let mut third = election.ours("third", 3);
    election.theirs("fourth", 4);
    let ids = ["first", "second", "third", "fourth"];
    assert_eq!(election.candidates(), ids);
    let listed = format!("participants latch {}", election.path);
    assert_eq!(election.curator.ok("observer", &listed), ids);

    first.end_input();
    assert_eq!(first.wait(LIMIT).code(), Some(0));
    assert_eq!(election.curator.answer("second"), ["ok"]);
    assert_eq!(election.journal.entered().len(), 1, "the third leads beside the second");
    election.curator.ok("second", "release");
    expect_leaders(&election.journal, 2);
    third.end_input();
    assert_eq!(third.wait(LIMIT).code(), Some(0));
    assert_eq!(election.curator.answer("fourth"), ["ok"]);
    election.curator.ok("fourth", "release");
    assert!(election.candidates().is_empty());
}

#[test]
fn candidates_lead_after_a_killed_leader_of_the_other_kind() {
    let Some(mut election) = Election::new("/interop/election-kills") else { return };
    let killed = election.ours("killed", 1);
    expect_leaders(&election.journal, 1);
    election.theirs("java", 2);
    killed.signal("KILL");
    assert_eq!(election.curator.answer("java"), ["ok"], "after the session has expired");

    let mut last = election.ours("last", 2);
    let Election { curator, journal, .. } = election;
    drop(curator); // which kills the process
    expect_leaders(&journal, 2);
    last.end_input();
    assert_eq!(last.wait(LIMIT).code(), Some(0));
}
