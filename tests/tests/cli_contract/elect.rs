//! Tests of `zk elect`.

use zk_tests::{HOLD, Journal};

use crate::{expect_refused, until, zk};

#[test]
fn candidate_leads_after_the_one_before_it() {
    let Some(zk) = zk("elect") else { return };
    let first = zk.hold("elect /e --name one");
    let second = zk.start("elect /e --name two -- sh -c 'echo leads; exec cat'");
    until("the second does not stand", || zk.ok("ls /e").lines().count() == 2);
    // The nodes of Java's LeaderLatch. `LeaderLatch.getLeader()` takes their data for the ids.
    let listed = zk.ok("participants /e");
    for (line, (number, name)) in listed.lines().zip([(0, "one"), (1, "two")]) {
        let (node, data) = line.split_once('\t').unwrap();
        assert!(node.ends_with(&format!("-latch-000000000{number}")) && data == name, "{listed}");
        zk.prints(&["get", node], name);
    }
    let json = zk.json("participants /e --json");
    assert_eq!((&json[0]["data"], &json[0]["state"]), (&"one".into(), &"holds".into()), "{json}");
    assert!(json[1]["data"] == "two" && json[1]["state"] == "waits", "{json}");

    assert_eq!(second.stdout(), "");
    first.finish();
    second.says("leads\n");
    second.finish();
    assert_eq!(zk.run("elect /e -- sh -c 'exit 7'").code(), Some(7));
    zk.prints("participants /e", "");
    expect_refused("elect /e", "the command goes after --");
    expect_refused("elect e -- true", "path");
}

#[test]
fn candidate_stands_again_when_leadership_is_lost() {
    let Some(zk) = zk("elect-again") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let candidate = zk.start(&["elect", "/e", "--", "sh", "-c", HOLD]);
    until("nobody leads", || journal.entered().len() == 1);
    let node = zk.ok("ls /e");
    zk.ok(&format!("delete /e/{node}"));
    until("it does not lead again", || journal.entered().len() == 2);
    assert_ne!(zk.ok("ls /e"), node);
    assert!(candidate.stderr().starts_with("zk: /e: the lock was lost: "), "{candidate}");
    candidate.notes("standing again");
    candidate.finish();
}

#[test]
fn election_and_lock_refuse_the_path_of_the_other() {
    let Some(zk) = zk("elect-beside") else { return };
    for (holder, other, kind) in [("lock", "elect", "a mutex"), ("elect", "lock", "an election")] {
        let holds = zk.hold(&format!("{holder} /{holder}"));
        let says = format!("is the node of {kind}");
        zk.fails(&format!("{other} /{holder} -- true"), 78, &says);
        holds.finish();
    }
}

#[test]
fn candidate_does_not_stand_again_after_a_signal() {
    let Some(zk) = zk("elect-signal") else { return };
    let script = "trap 'echo asked; sleep 20 & wait; exit 0' TERM; echo leads; \
                  while :; do sleep 0.05; done";
    let candidate = zk.script("elect /e", script, "leads");
    candidate.signal("TERM");
    candidate.says("asked");
    zk.ok(&format!("delete /e/{}", zk.ok("ls /e")));
    let ended = candidate.ends(74);
    assert_eq!(ended.stdout.matches("leads").count(), 1, "{ended:?}");
    zk.prints("ls /e", "");
}

/// Services take SIGHUP as the request to read their configuration again.
#[test]
fn candidate_stands_again_after_a_hang_up() {
    let Some(zk) = zk("elect-hang-up") else { return };
    let script = "trap 'echo reloads' HUP; echo leads; while :; do sleep 0.05; done";
    let candidate = zk.script("elect /e", script, "leads");
    candidate.signal("HUP");
    candidate.says("reloads");
    zk.ok(&format!("delete /e/{}", zk.ok("ls /e")));
    until("it does not lead again", || candidate.stdout().matches("leads").count() == 2);
    candidate.signal("TERM");
    candidate.ends(128 + 15);
}
