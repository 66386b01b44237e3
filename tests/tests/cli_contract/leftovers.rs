//! Tests of processes that the command of `zk lock` leaves in the background when it ends.

use std::process::{Command, Stdio};

use zk_tests::{Scratch, Zk, poll};

use crate::screen::Screen;
use crate::signals::expect_end_by;
use crate::{LIMIT, zk};

/// Leaves a process that runs until the file `$GO` exists. It writes to no pipe.
const LEAVES_JOB: &str =
    "(while [ ! -e $GO ]; do sleep 0.02; done; echo done >$GO.done) >/dev/null 2>&1 & echo ready";

/// The same, as a daemon: in a session of its own, and without a parent that lives.
const LEAVES_DAEMON: &str = "(setsid sh -c 'while [ ! -e $GO ]; do sleep 0.02; done; \
    echo done >$GO.done' >/dev/null 2>&1 &) ; echo ready";

fn is_free(zk: &Zk) -> bool {
    zk.run(&["lock", "/l", "--timeout", "0", "--", "true"]).code() == Some(0)
}

#[test]
fn lock_is_held_until_leftovers_have_ended() {
    let Some(zk) = zk("leftovers") else { return };
    for script in [LEAVES_JOB, LEAVES_DAEMON] {
        let scratch = Scratch::new();
        let zk = zk.clone().env("GO", scratch.path("go").to_str().unwrap());
        let mut holder = zk.lock("/l", &format!("{script}; exit 7"));
        poll(LIMIT, || holder.stderr().contains("see --no-wait").then_some(())).expect("no note");
        let note = holder.stderr();
        assert!(note.starts_with("zk: waiting for ") && note.contains(" (sh) that"), "{note}");
        assert!(!holder.has_ended());
        assert!(!is_free(&zk));
        std::fs::write(scratch.path("go"), "").unwrap();
        let ended = holder.wait(LIMIT);
        assert_eq!((ended.code(), &*ended.stdout), (Some(7), "ready\n"), "{ended:?}");
        assert_eq!(scratch.read("go.done"), "done\n");
        assert!(is_free(&zk));
    }
}

#[test]
fn lock_is_released_before_leftovers_end_with_no_wait() {
    let Some(zk) = zk("no-wait") else { return };
    let kinds: [&[&str]; 3] =
        [&["lock", "/l"], &["semaphore", "/s", "--permits", "1"], &["multilock", "/l", "/m"]];
    for kind in kinds {
        let script = "sleep 1000 >/dev/null 2>&1 & echo $!";
        let pid = zk.ok(&[kind, &["--no-wait", "--", "sh", "-c", script]].concat());
        assert!(is_free(&zk));
        let killed = Command::new("kill").arg(pid.trim()).status().unwrap();
        assert!(killed.success(), "the process has ended");
    }
}

#[test]
fn loss_ends_leftovers() {
    let Some(zk) = zk("lost-leftovers") else { return };
    let zk = zk.env("GO", "/nonexistent");
    for script in [LEAVES_JOB, LEAVES_DAEMON] {
        let mut holder = zk.lock("/l", &format!("{script}; exit 0"));
        poll(LIMIT, || holder.stderr().contains("see --no-wait").then_some(())).expect("no note");
        let pid: u32 = holder.stderr().split(' ').nth(3).unwrap().parse().unwrap();
        assert!(!holder.has_ended());
        zk.ok(&["delete", &format!("/l/{}", zk.ok(&["ls", "/l"]).trim())]);
        assert_eq!(holder.wait(LIMIT).code(), Some(74));
        let is_alive = Command::new("kill").args(["-0", &pid.to_string()]).output().unwrap();
        assert!(!is_alive.status.success(), "{pid} runs on");
    }
}

/// A daemon has another process group and another session than the command.
#[test]
fn loss_ends_daemons_of_a_running_command() {
    let Some(zk) = zk("lost-daemons") else { return };
    let zk = zk.env("GO", "/nonexistent");
    // The daemon ignores SIGTERM, and leaves its own child to zk when SIGKILL ends it.
    let script = "setsid sh -c 'trap \"\" TERM; echo $$; sleep 1000 & wait' & sleep 1000; exit 1";
    let holder = zk.start(&["lock", "/l", "--kill-after", "0.2", "--", "sh", "-c", script]);
    let pid = poll(LIMIT, || holder.stdout().trim().parse::<u32>().ok()).expect("no daemon");
    zk.ok(&["delete", &format!("/l/{}", zk.ok(&["ls", "/l"]).trim())]);
    assert_eq!(holder.wait(LIMIT).code(), Some(74));
    let is_alive = Command::new("kill").args(["-0", &pid.to_string()]).output().unwrap();
    assert!(!is_alive.status.success(), "{pid} runs on");
}

/// A shell makes processes in the background ignore SIGINT.
#[test]
fn sigint_ends_leftovers() {
    let Some(zk) = zk("interrupted-leftovers") else { return };
    let zk = zk.env("GO", "/nonexistent");
    let holder = zk.lock("/l", &format!("{LEAVES_JOB}; exit 3"));
    poll(LIMIT, || holder.stderr().contains("see --no-wait").then_some(())).expect("no note");
    holder.signal("INT");
    expect_end_by(&holder.wait(LIMIT), 2);
    assert!(is_free(&zk));
}

/// `timeout` and supervisors send one signal, and then SIGKILL, after which the rest would run on.
#[test]
fn signal_ends_command_and_leftovers() {
    let Some(zk) = zk("one-signal") else { return };
    let zk = zk.env("GO", "/nonexistent");
    for signal in ["TERM", "INT"] {
        for leaves in [LEAVES_JOB, LEAVES_DAEMON] {
            let holder = zk.lock("/l", &format!("{leaves}; trap - INT; sleep 1000"));
            poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
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
    let holder = zk.lock("/l", &format!("({app}) & sleep 1000"));
    poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
    holder.signal("TERM");
    poll(LIMIT, || holder.stderr().contains("see --no-wait").then_some(())).expect("no note");
    std::fs::write(scratch.path("go"), "").unwrap();
    assert_eq!(holder.wait(LIMIT).stdout, "ready\nTERM 1\n");
}

#[test]
fn loss_is_one_sigterm_for_each_process() {
    let Some(zk) = zk("loss-once") else { return };
    let app = "trap 'n=$((n+1)); echo $1 $n' TERM; echo ready; while :; do sleep 0.02; done";
    let zk = zk.env("APP", app);
    let apps = r#"sh -c "$APP" sh in & setsid sh -c "$APP" sh out & trap : TERM; wait; wait"#;
    let holder = zk.start(&["lock", "/l", "--kill-after", "1", "--", "sh", "-c", apps]);
    poll(LIMIT, || (holder.stdout() == "ready\nready\n").then_some(())).expect("nobody got in");
    zk.ok(&["delete", &format!("/l/{}", zk.ok(&["ls", "/l"]).trim())]);
    let ended = holder.wait(LIMIT);
    let mut told: Vec<&str> = ended.stdout.lines().skip(2).collect();
    told.sort_unstable();
    assert_eq!((ended.code(), told), (Some(74), vec!["in 1", "out 1"]));
}

/// On a terminal, the command has no process group of its own.
#[test]
fn ctrl_c_on_a_terminal_ends_leftovers() {
    let Some(zk) = zk("terminal-leftovers") else { return };
    let command = "zk lock /l -- sh -c \"sleep 1000 & exit 3\"";
    let mut screen = Screen::start(&zk, command);
    screen.shows("see --no-wait", 1);
    assert!(!is_free(&zk));
    screen.press("\u{3}");
    poll(LIMIT, || is_free(&zk).then_some(())).expect("it is held");
}

/// A script may have children of its own when it becomes `zk`.
#[test]
fn earlier_children_of_the_process_are_not_waited_for() {
    let Some(zk) = zk("earlier-children") else { return };
    let script =
        "sleep 1000 >/dev/null 2>&1 & echo $!; exec zk lock /l -- sh -c 'sleep 0.1 & exit 4'";
    let ended = zk.shell(script).output().unwrap();
    assert_eq!(ended.status.code(), Some(4), "{ended:?}");
    let pid = String::from_utf8(ended.stdout).unwrap();
    let killed = Command::new("kill").arg(pid.trim()).status().unwrap();
    assert!(killed.success(), "the process has ended");
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
    let mut holder = zk.lock("/l", "echo ready; cat");
    poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("it is not held");
    let script = format!("{LEAVES_DAEMON}; exec zk lock /l -- echo end");
    let mut waiter =
        zk.shell(&format!("exec {unshare} bash -c '{}'", script.replace('\'', "'\\''")));
    let mut waiter = waiter.env("GO", &go).stdin(Stdio::null()).spawn().unwrap();
    let count = || zk.ok(&["participants", "/l"]).lines().count();
    poll(LIMIT, || (count() == 2).then_some(())).expect("it does not queue");
    let [first] = children(waiter.id())[..] else { panic!("not one child of unshare") };
    assert_eq!(children(first).len(), 1, "the daemon");
    std::fs::write(&go, "").unwrap();
    poll(LIMIT, || children(first).is_empty().then_some(())).expect("a zombie is left");
    holder.end_input();
    assert!(waiter.wait().unwrap().success());
    assert_eq!(holder.wait(LIMIT).code(), Some(0));
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
