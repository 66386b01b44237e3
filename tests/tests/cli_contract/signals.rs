//! Tests of signals to `zk lock`, which passes them on to the command and releases the lock.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use zk_tests::{Ended, HOLD, Journal, Scratch, signal};

use crate::{LIMIT, delete_node, until, zk};

/// Expects death by SIGINT, and for other signals the exit status that a shell shows.
pub(crate) fn expect_end_by(ended: &Ended, signal: i32) {
    let expected = if signal == 2 { (None, Some(2)) } else { (Some(128 + signal), None) };
    assert_eq!((ended.code(), ended.signal()), expected, "{ended:?}");
}

#[test]
fn signal_is_passed_on_and_lock_is_released() {
    let Some(zk) = zk("passed-on") else { return };
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        // Without a trap the signal ends the command, and the exit status shows it.
        let script = "echo in; trap - INT TERM; exec cat >/dev/null";
        let holder = zk.script("lock /l", script, "in\n");
        holder.signal(signal);
        expect_end_by(&holder.wait(LIMIT), number);
        // The session was closed. The node did not wait for its timeout.
        zk.prints("ls /l", "");
        // A command that handles it chooses its exit status.
        let script = format!(
            "trap 'echo {signal}; exit 5' {signal}; echo ready; while :; do sleep 0.05; done"
        );
        for line in ["lock /l", "multilock /l /m"] {
            let holder = zk.script(line, &script, "ready\n");
            holder.signal(signal);
            // The shell may report that its `sleep` ended by the signal.
            assert_eq!(holder.ends(5).stdout, format!("ready\n{signal}\n"));
            assert_eq!(zk.ok("ls /l") + &zk.run("ls /m").stdout, "", "{signal}");
        }
    }
}

#[test]
fn command_that_survives_signal_keeps_the_lock() {
    let Some(zk) = zk("stays") else { return };
    let script = r#"exec 3<&0; trap 'echo told' TERM
        (trap '' TERM; echo ready; exec cat <&3 >/dev/null) & wait; wait; echo done"#;
    let mut holder = zk.script("lock /l", script, "ready\n");
    holder.signal("TERM");
    holder.says("told\n");
    assert!(!holder.has_ended());
    assert_eq!(zk.ok("ls /l").lines().count(), 1);
    assert_eq!(holder.finish().stdout, "ready\ntold\ndone\n");
    zk.prints("ls /l", "");
}

#[test]
fn zero_grace_kills_the_command_when_the_lock_is_lost() {
    let Some(zk) = zk("no-grace") else { return };
    let script = "trap 'echo told' TERM; echo ready; while :; do sleep 0.05; done";
    let holder = zk.script("lock /l --kill-after 0", script, "ready\n");
    delete_node(&zk, "/l");
    assert_eq!(holder.ends(74).stdout, "ready\n");
}

/// A shell ends a loop only if the signal has killed the command.
#[test]
fn loop_in_a_shell_ends_when_sigint_ends_a_command() {
    let Some(zk) = zk("loop") else { return };
    // As a terminal does for Ctrl-C, the command signals the shell and zk.
    let held = "trap - INT; echo ready; kill -INT $SHELL_ID $PPID; exec sleep 1000";
    let looped = format!("for n in 1 2; do zk lock /l -- sh -c '{held}' || :; done");
    let shell = |script: &str| {
        let script = format!("set +e; export SHELL_ID=$$; {script}");
        zk.shell(&script).stdin(Stdio::null()).output().unwrap()
    };
    let ended = shell(&looped);
    assert_eq!((&ended.stdout[..], ended.status.signal()), (&b"ready\n"[..], Some(2)), "{ended:?}");
    let ended = shell("zk lock /l -- sh -c 'kill -INT $PPID; exec sleep 1000'; echo $?");
    assert_eq!(ended.stdout, b"130\n", "{ended:?}");
    zk.prints("ls /l", "");
}

/// `timeout`, `docker stop` and similar tools signal only `zk`.
#[test]
fn signal_or_loss_reaches_child_processes_of_command() {
    let Some(zk) = zk("offspring") else { return };
    // The pipe to this test stays open until all of these processes have ended.
    let holder = zk.script("lock /l", "sleep 1000 & sleep 1000 & echo ready; wait", "ready\n");
    holder.signal("TERM");
    holder.ends(128 + 15);
    zk.prints("ls /l", "");
    let script = "(trap '' TERM; echo ready; exec sleep 1000) & exec sleep 1000";
    let holder = zk.script("lock /l", script, "ready\n");
    delete_node(&zk, "/l");
    // `zk` ends together with the process that ignores SIGTERM, five seconds later.
    holder.ends(74);
}

/// Script of a shell that dies by SIGUSR1 at once, and leaves a program that runs until the file `$GO`
/// exists.
const SLOW_APP: &str = r#"(trap '' USR1; trap 'echo TERM' TERM; echo ready
    while [ ! -e "$GO" ]; do sleep 0.02; done; echo done) & wait"#;

/// A signal ends a shell at once, and the program that it runs later.
#[test]
fn lock_is_held_until_signalled_processes_have_ended() {
    let Some(zk) = zk("slow-app") else { return };
    let scratch = Scratch::new();
    let go = scratch.path("go");
    let zk = zk.env("GO", go.to_str().unwrap());
    for line in ["lock /l", "register /r"] {
        let holder = zk.script(line, SLOW_APP, "ready\n");
        holder.signal("USR1");
        assert_eq!(zk.run(&format!("{line} --timeout 1 -- true")).code(), Some(75));
        holder.signal("TERM");
        holder.says("TERM\n");
        std::fs::write(&go, "").unwrap();
        assert_eq!(holder.ends(128 + 15).stdout, "ready\nTERM\ndone\n");
        std::fs::remove_file(&go).unwrap();
        zk.ok(&format!("{line} --timeout 5 -- true"));
    }
    // A loss ends the program as well.
    let holder = zk.script("lock /l", SLOW_APP, "ready\n");
    holder.signal("USR1");
    assert_eq!(zk.run("lock /l --timeout 1 -- true").code(), Some(75));
    delete_node(&zk, "/l");
    assert_eq!(holder.ends(74).stdout, "ready\nTERM\n");
}

/// `nohup` ignores SIGHUP. A shell without job control ignores SIGINT and SIGQUIT for commands in the
/// background, and `zk` passes SIGINT on nevertheless.
#[test]
fn ignored_signals_do_not_reach_the_command() {
    let Some(zk) = zk("ignored-signals") else { return };
    let held =
        r#"trap "echo USR1" USR1; echo ready; while [ ! -e $GO ]; do sleep 0.02; done; echo done"#;
    let scratch = Scratch::new();
    let go = scratch.path("go");
    let script = format!("trap '' HUP INT QUIT; exec zk lock /l -- sh -c '{held}'");
    for ends_by_int in [false, true] {
        let mut shell = zk.shell(&script);
        shell.env("GO", &go).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "ready");
        ["HUP", "QUIT", "USR1"].into_iter().for_each(|name| signal(shell.id(), name));
        // Of several signals, SIGUSR1 is passed on last.
        assert_eq!(lines.next().unwrap().unwrap(), "USR1");
        if ends_by_int {
            signal(shell.id(), "INT");
        } else {
            std::fs::write(&go, "").unwrap();
        }
        let rest: Vec<String> = lines.map(|line| line.unwrap()).collect();
        let status = shell.wait().unwrap();
        if ends_by_int {
            assert_eq!((status.signal(), rest), (Some(2), Vec::new()));
        } else {
            assert_eq!((status.code(), rest), (Some(0), vec!["done".to_owned()]));
        }
        drop(std::fs::remove_file(&go));
    }
}

/// Services take SIGUSR1 and SIGUSR2 as requests, for example to open their logs again.
#[test]
fn user_signals_are_passed_on_and_lock_is_kept() {
    let Some(zk) = zk("user-signals") else { return };
    let script = r#"trap 'echo USR1' USR1; trap 'echo USR2' USR2; exec 3<&0
        (trap '' USR1 USR2; echo ready; exec cat <&3 >/dev/null) & while ! wait; do :; done
        echo done"#;
    for line in ["lock /l", "semaphore /s --permits 1", "register /r"] {
        let mut holder = zk.script(line, script, "ready\n");
        for signal in ["USR1", "USR2"] {
            holder.signal(signal);
            holder.says(&format!("\n{signal}\n"));
        }
        assert!(!holder.has_ended(), "{line}");
        assert_eq!(holder.finish().stdout, "ready\nUSR1\nUSR2\ndone\n", "{line}");
    }
}

/// A command must not run on without its lock. SIGRTMAX is 64.
#[test]
fn other_deadly_signals_end_the_command_as_sigterm_does() {
    let Some(zk) = zk("deadly-signals") else { return };
    for signal in "ABRT ALRM IO PROF PWR SYS TRAP VTALRM XCPU XFSZ 40 64".split(' ') {
        let script = "trap 'echo TERM; exit 5' TERM; echo ready; read line";
        let holder = zk.script("lock /l", script, "ready\n");
        holder.signal(signal);
        assert_eq!(holder.ends(5).stdout, "ready\nTERM\n", "{signal}");
        zk.prints("ls /l", "");
    }
}

#[test]
fn interrupted_waiter_leaves_the_queue() {
    let Some(zk) = zk("interrupted") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let _holder = zk.lock("/l", HOLD);
    until("nobody got in", || journal.entered().len() == 1);
    for (signal, number) in [("INT", 2), ("TERM", 15), ("USR1", 10), ("ALRM", 15)] {
        let waiter = zk.lock("/l", HOLD);
        let count = || zk.ok("participants /l").lines().count();
        until("it does not queue", || count() == 2);
        waiter.signal(signal);
        let ended = waiter.wait(LIMIT);
        expect_end_by(&ended, number);
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert_eq!(count(), 1, "{signal}");
    }
    assert_eq!(journal.entered().len(), 1, "the command of a waiter was run");
}
