//! Tests of processes that the command of `zk lock` leaves in the background when it ends.

use std::process::{Command, Stdio};

use zk_tests::{Scratch, Zk, poll};

use crate::screen::Screen;
use crate::signals::expect_end_by;
use crate::{LIMIT, delete_node, until, zk};

/// Leaves a process that runs until the file `$GO` exists. It writes to no pipe.
const LEAVES_JOB: &str =
    "(while [ ! -e $GO ]; do sleep 0.02; done; echo done >$GO.done) >/dev/null 2>&1 & echo ready";

/// The same, as a daemon: in a session of its own, and without a parent that lives.
const LEAVES_DAEMON: &str = "(setsid sh -c 'while [ ! -e $GO ]; do sleep 0.02; done; \
    echo done >$GO.done' >/dev/null 2>&1 &) ; echo ready";

fn is_free(zk: &Zk) -> bool {
    zk.run("lock /l --timeout 0 -- true").code() == Some(0)
}

fn is_alive(pid: &str) -> bool {
    Command::new("kill").args(["-0", pid]).output().unwrap().status.success()
}

/// Ends a process that must be there.
fn end(pid: &str) {
    assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success(), "{pid} has ended");
}

#[test]
fn lock_is_held_until_leftovers_have_ended() {
    let Some(zk) = zk("leftovers") else { return };
    for script in [LEAVES_JOB, LEAVES_DAEMON] {
        let scratch = Scratch::new();
        let zk = zk.clone().env("GO", scratch.path("go").to_str().unwrap());
        let mut holder = zk.lock("/l", &format!("{script}; exit 7"));
        holder.notes("see --no-wait");
        let note = holder.stderr();
        assert!(note.starts_with("zk: waiting for ") && note.contains(" (sh) that"), "{note}");
        assert!(!holder.has_ended() && !is_free(&zk));
        std::fs::write(scratch.path("go"), "").unwrap();
        holder.ends(7).expect(7, "ready\n", &note);
        assert_eq!(scratch.read("go.done"), "done\n");
        assert!(is_free(&zk));
    }
}

#[test]
fn lock_is_released_before_leftovers_end_with_no_wait() {
    let Some(zk) = zk("no-wait") else { return };
    for kind in ["lock /l", "semaphore /s --permits 1", "multilock /l /m"] {
        let leaves = "'sleep 1000 >/dev/null 2>&1 & echo $!'";
        let pid = zk.ok(&format!("{kind} --no-wait -- sh -c {leaves}"));
        assert!(is_free(&zk));
        end(&pid);
    }
}

#[test]
fn loss_ends_leftovers() {
    let Some(zk) = zk("lost-leftovers") else { return };
    let zk = zk.env("GO", "/nonexistent");
    for script in [LEAVES_JOB, LEAVES_DAEMON] {
        let mut holder = zk.lock("/l", &format!("{script}; exit 0"));
        holder.notes("see --no-wait");
        let note = holder.stderr();
        let pid = note.split(' ').nth(3).unwrap();
        assert!(!holder.has_ended());
        delete_node(&zk, "/l");
        holder.ends(74);
        assert!(!is_alive(pid), "{pid} runs on");
    }
    // A daemon has another process group and another session than the command. It ignores SIGTERM, and
    // leaves its own child to zk when SIGKILL ends it.
    let script = "setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000 & wait' & sleep 1000; exit 1";
    let holder = zk.start(&["lock", "/l", "--kill-after", "0.2", "--", "sh", "-c", script]);
    let pid = poll(LIMIT, || holder.stdout().trim().parse::<u32>().ok()).expect("no daemon");
    delete_node(&zk, "/l");
    holder.ends(74);
    assert!(!is_alive(&pid.to_string()), "{pid} runs on");
}

/// A shell makes processes in the background ignore SIGINT.
#[test]
fn sigint_ends_leftovers() {
    let Some(zk) = zk("interrupted-leftovers") else { return };
    let zk = zk.env("GO", "/nonexistent");
    let holder = zk.lock("/l", &format!("{LEAVES_JOB}; exit 3"));
    holder.notes("see --no-wait");
    holder.signal("INT");
    expect_end_by(&holder.wait(LIMIT), 2);
    assert!(is_free(&zk));
    // On a terminal, the command has no process group of its own.
    let mut screen = Screen::start(&zk, "zk lock /l -- sh -c \"sleep 1000 & exit 3\"");
    screen.shows("see --no-wait", 1);
    assert!(!is_free(&zk));
    screen.press("\u{3}");
    until("it is held", || is_free(&zk));
}

/// `timeout` and supervisors send one signal, and then SIGKILL, after which the rest would run on.
#[test]
fn signal_ends_command_and_leftovers() {
    let Some(zk) = zk("one-signal") else { return };
    let zk = zk.env("GO", "/nonexistent");
    for signal in ["TERM", "INT"] {
        for leaves in [LEAVES_JOB, LEAVES_DAEMON] {
            let script = format!("{leaves}; trap - INT; exec sleep 1000");
            let holder = zk.script("lock /l", &script, "ready\n");
            holder.signal(signal);
            let ended = holder.wait(LIMIT);
            assert_eq!(ended.stderr, "", "{signal}");
            assert!(is_free(&zk), "{signal}");
        }
    }
}

/// A process that handles SIGTERM gets it once.
#[test]
fn leftover_of_the_process_group_gets_sigterm_once() {
    let Some(zk) = zk("one-sigterm") else { return };
    let app =
        "trap 'n=$((n+1)); echo TERM $n' TERM; echo ready; while [ ! -e $GO ]; do sleep 0.02; done";
    let scratch = Scratch::new();
    let zk = zk.env("GO", scratch.path("go").to_str().unwrap());
    let holder = zk.script("lock /l", &format!("({app}) & sleep 1000"), "ready\n");
    holder.signal("TERM");
    holder.notes("see --no-wait");
    std::fs::write(scratch.path("go"), "").unwrap();
    assert_eq!(holder.wait(LIMIT).stdout, "ready\nTERM 1\n");
}

#[test]
fn loss_is_one_sigterm_for_each_process() {
    let Some(zk) = zk("loss-once") else { return };
    let app = "trap 'n=$((n+1)); echo $1 $n' TERM; echo ready; while :; do sleep 0.02; done";
    let zk = zk.env("APP", app);
    let apps = r#"sh -c "$APP" sh in & setsid sh -c "$APP" sh out & trap : TERM; wait; wait"#;
    let holder = zk.script("lock /l --kill-after 1", apps, "ready\nready\n");
    delete_node(&zk, "/l");
    let ended = holder.ends(74);
    let mut told: Vec<&str> = ended.stdout.lines().skip(2).collect();
    told.sort_unstable();
    assert_eq!(told, ["in 1", "out 1"]);
}

/// A script may have children of its own when it becomes `zk`.
#[test]
fn earlier_children_of_the_process_are_not_waited_for() {
    let Some(zk) = zk("earlier-children") else { return };
    let script =
        "sleep 1000 >/dev/null 2>&1 & echo $!; exec zk lock /l -- sh -c 'sleep 0.1 & exit 4'";
    let ended = zk.shell(script).output().unwrap();
    assert_eq!(ended.status.code(), Some(4), "{ended:?}");
    end(&String::from_utf8(ended.stdout).unwrap());
}

/// Orphans of other processes in a container become children of its first process.
#[test]
fn first_process_of_a_container_collects_orphans() {
    let Some(zk) = zk("first-process") else { return };
    // A namespace of process ids needs rights that a machine may deny.
    let unshare = "unshare --user --map-root-user --pid --mount-proc --fork";
    if !zk.shell(&format!("{unshare} true")).status().unwrap().success() {
        return;
    }
    let scratch = Scratch::new();
    let go = scratch.path("go");
    let zk = zk.env("GO", go.to_str().unwrap());
    let holder = zk.hold("lock /l");
    let script = format!("{LEAVES_DAEMON}; exec zk lock /l -- echo end");
    let mut waiter =
        zk.shell(&format!("exec {unshare} bash -c '{}'", script.replace('\'', "'\\''")));
    let mut waiter = waiter.env("GO", &go).stdin(Stdio::null()).spawn().unwrap();
    until("it does not queue", || zk.ok("participants /l").lines().count() == 2);
    let [first] = children(waiter.id())[..] else { panic!("not one child of unshare") };
    assert_eq!(children(first).len(), 1, "the daemon");
    std::fs::write(&go, "").unwrap();
    until("a zombie is left", || children(first).is_empty());
    holder.finish();
    assert!(waiter.wait().unwrap().success());
}

/// Returns the children of a process, zombies included.
fn children(parent: u32) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has_parent = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').unwrap_or_default().1;
        fields.split_whitespace().nth(1) == Some(&parent.to_string())
    };
    pids.filter(has_parent).collect()
}
