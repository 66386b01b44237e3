//! Tests of `zk elect`.

use serde_json::Value;
use zk_tests::{HOLD, Journal, poll};

use crate::{LIMIT, expect_failure, expect_refused, zk};

#[test]
fn candidate_leads_after_the_one_before_it() {
    let Some(zk) = zk("elect") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let stand = |name| zk.start(&["elect", "/e", "--name", name, "--", "sh", "-c", HOLD]);
    let mut first = stand("one");
    poll(LIMIT, || journal.entered().pop()).expect("nobody leads");
    let mut second = stand("two");
    poll(LIMIT, || (zk.ok(&["ls", "/e"]).lines().count() == 2).then_some(()))
        .expect("the second does not stand");
    // The nodes of Java's LeaderLatch, with the ids as data.
    let listed = zk.ok(&["participants", "/e"]);
    let lines: Vec<&str> = listed.lines().collect();
    for (line, (number, name)) in lines.iter().zip([(0, "one"), (1, "two")]) {
        assert!(line.ends_with(&format!("-latch-000000000{number}\t{name}")), "{listed}");
    }
    let json: Value = serde_json::from_str(&zk.ok(&["participants", "/e", "--json"])).unwrap();
    assert_eq!((&json[0]["data"], &json[0]["state"]), (&"one".into(), &"holds".into()), "{json}");
    assert!(json[1]["data"] == "two" && json[1]["state"] == "waits", "{json}");

    first.end_input();
    assert_eq!(first.wait(LIMIT).code(), Some(0));
    poll(LIMIT, || (journal.entered().len() == 2).then_some(())).expect("the second does not lead");
    second.end_input();
    assert_eq!(second.wait(LIMIT).code(), Some(0));
    assert_eq!(zk.run(&["elect", "/e", "--", "sh", "-c", "exit 7"]).code(), Some(7));
    assert_eq!(zk.ok(&["participants", "/e"]), "");
}

#[test]
fn candidate_stands_again_when_leadership_is_lost() {
    let Some(zk) = zk("elect-again") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut candidate = zk.start(&["elect", "/e", "--", "sh", "-c", HOLD]);
    poll(LIMIT, || journal.entered().pop()).expect("nobody leads");
    let node = zk.ok(&["ls", "/e"]);
    zk.ok(&["delete", &format!("/e/{}", node.trim())]);
    poll(LIMIT, || (journal.entered().len() == 2).then_some(())).expect("it does not lead again");
    assert_ne!(zk.ok(&["ls", "/e"]), node);
    assert!(
        candidate.stderr().starts_with("zk: /e: the lock was lost: "),
        "{}",
        candidate.stderr()
    );
    assert!(candidate.stderr().contains("standing again"), "{}", candidate.stderr());
    candidate.end_input();
    assert_eq!(candidate.wait(LIMIT).code(), Some(0));
}

/// Curator's `LeaderLatch.getLeader()` takes the data of the node for the id.
#[test]
fn name_of_a_candidate_is_its_id() {
    let Some(zk) = zk("elect-name") else { return };
    let candidate =
        zk.start(&["elect", "/e", "--name", "web1", "--", "sh", "-c", "echo leads; cat"]);
    poll(LIMIT, || candidate.stdout().contains("leads").then_some(())).expect("nobody leads");
    let node = zk.ok(&["ls", "/e"]);
    assert_eq!(zk.ok(&["get", &format!("/e/{}", node.trim())]), "web1");
    assert!(zk.ok(&["participants", "/e"]).contains("web1"));
    candidate.signal("TERM");
    candidate.wait(LIMIT);
}

#[test]
fn election_and_lock_refuse_the_path_of_the_other() {
    let Some(zk) = zk("elect-beside") else { return };
    let journal = Journal::new();
    let held = zk.clone().journal(&journal);
    for (number, holder, other) in [(0, "lock", "elect"), (1, "elect", "lock")] {
        let path = format!("/l{number}");
        let mut holds = held.start(&[holder, &path, "--", "sh", "-c", HOLD]);
        poll(LIMIT, || (journal.entered().len() == number + 1).then_some(())).expect("no holder");
        let refused = zk.run(&[other, &path, "--", "true"]);
        let kind = if holder == "lock" { "a mutex" } else { "an election" };
        expect_failure(&refused, 78, &format!("is the node of {kind}"));
        holds.end_input();
        assert_eq!(holds.wait(LIMIT).code(), Some(0));
    }
}

#[test]
fn candidate_does_not_stand_again_after_a_signal() {
    let Some(zk) = zk("elect-signal") else { return };
    let script = "trap 'echo asked; sleep 20 & wait; exit 0' TERM; echo leads; \
                  while :; do sleep 0.05; done";
    let candidate = zk.start(&["elect", "/e", "--", "sh", "-c", script]);
    poll(LIMIT, || candidate.stdout().contains("leads").then_some(())).expect("nobody leads");
    candidate.signal("TERM");
    poll(LIMIT, || candidate.stdout().contains("asked").then_some(())).expect("no signal");
    zk.ok(&["delete", &format!("/e/{}", zk.ok(&["ls", "/e"]).trim())]);
    let ended = candidate.wait(LIMIT);
    assert_eq!(ended.code(), Some(74), "{ended:?}");
    assert_eq!(ended.stdout.matches("leads").count(), 1, "{ended:?}");
    assert_eq!(zk.ok(&["ls", "/e"]), "");
}

/// Services take SIGHUP as the request to read their configuration again.
#[test]
fn candidate_stands_again_after_a_hang_up() {
    let Some(zk) = zk("elect-hang-up") else { return };
    let script = "trap 'echo reloads' HUP; echo leads; while :; do sleep 0.05; done";
    let candidate = zk.start(&["elect", "/e", "--", "sh", "-c", script]);
    poll(LIMIT, || candidate.stdout().contains("leads").then_some(())).expect("nobody leads");
    candidate.signal("HUP");
    poll(LIMIT, || candidate.stdout().contains("reloads").then_some(())).expect("no signal");
    zk.ok(&["delete", &format!("/e/{}", zk.ok(&["ls", "/e"]).trim())]);
    let again = || (candidate.stdout().matches("leads").count() == 2).then_some(());
    poll(LIMIT, again).expect("it does not lead again");
    candidate.signal("TERM");
    assert_eq!(candidate.wait(LIMIT).code(), Some(128 + 15));
}

#[test]
fn elect_needs_a_command() {
    expect_refused(&["elect", "/e"], "the command goes after --");
    expect_refused(&["elect", "e", "--", "true"], "path");
}
