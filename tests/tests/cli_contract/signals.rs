//! Tests of signals to `zk lock`, which passes them on to the command and releases the lock.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use zk_tests::{Ended, HOLD, Journal, Scratch, poll};

use crate::{LIMIT, zk};

/// Expects death by SIGINT, and for other signals the exit status that a shell shows.
pub(crate) fn expect_end_by(ended: &Ended, signal: i32) {
    let expected = if signal == 2 { (None, Some(2)) } else { (Some(128 + signal), None) };
    assert_eq!((ended.code(), ended.signal()), expected, "{ended:?}");
}

#[test]
fn signal_is_passed_on_and_lock_is_released() {
    let Some(zk) = zk("passed-on") else { return };
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        let journal = Journal::new();
        let zk = zk.clone().journal(&journal);
        // Without a trap the signal ends the command, and the exit status shows it.
        let holder = zk.lock("/l", &HOLD.replace("exec cat", "trap - INT TERM; exec cat"));
        poll(LIMIT, || journal.entered().pop()).expect("nobody got in");
        holder.signal(signal);
        let ended = holder.wait(LIMIT);
        expect_end_by(&ended, number);
        // The session was closed. The node did not wait for its timeout.
        assert_eq!(zk.ok(&["ls", "/l"]), "", "{signal}");
    }
}

#[test]
fn command_may_trap_signal_and_choose_exit_status() {
    let Some(zk) = zk("own-way") else { return };
    for signal in ["INT", "TERM"] {
        let scratch = Scratch::new();
        let told = scratch.path("told");
        let script = format!(
            r#"trap 'echo {signal} >"{}"; exit 5' {signal}
               echo ready; while :; do sleep 0.05; done"#,
            told.display()
        );
        let holder = zk.lock("/l", &script);
        poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
        holder.signal(signal);
        let ended = holder.wait(LIMIT);
        assert_eq!(ended.code(), Some(5), "{signal}: {ended:?}");
        assert_eq!(scratch.read("told"), format!("{signal}\n"));
        assert_eq!(zk.ok(&["ls", "/l"]), "", "{signal}");
    }
}

#[test]
fn command_that_survives_signal_keeps_the_lock() {
    let Some(zk) = zk("stays") else { return };
    let script = r#"exec 3<&0; trap 'echo told' TERM
        (trap '' TERM; echo ready; exec cat <&3 >/dev/null) & wait; wait; echo done"#;
    let mut holder = zk.lock("/l", script);
    poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
    holder.signal("TERM");
    poll(LIMIT, || holder.stdout().ends_with("told\n").then_some(())).expect("not told");
    assert!(!holder.has_ended());
    assert_eq!(zk.ok(&["ls", "/l"]).lines().count(), 1);
    holder.end_input();
    let ended = holder.wait(LIMIT);
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(0), "ready\ntold\ndone\n"));
    assert_eq!(zk.ok(&["ls", "/l"]), "");
}

#[test]
fn zero_grace_kills_the_command_when_the_lock_is_lost() {
    let Some(zk) = zk("no-grace") else { return };
    let script = "trap 'echo told' TERM; echo ready; while :; do sleep 0.05; done";
    let holder = zk.start(&["lock", "/l", "--kill-after", "0", "--", "sh", "-c", script]);
    poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
    zk.ok(&["delete", &format!("/l/{}", zk.ok(&["ls", "/l"]).trim())]);
    let ended = holder.wait(LIMIT);
    assert_eq!((ended.code(), ended.stdout.as_str()), (Some(74), "ready\n"), "{ended:?}");
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
    assert_eq!(zk.ok(&["ls", "/l"]), "");
}

/// `timeout`, `docker stop` and similar tools signal only `zk`.
#[test]
fn signal_reaches_child_processes_of_command() {
    let Some(zk) = zk("offspring") else { return };
    // The pipe to this test stays open until all of these processes have ended.
    let holder = zk.lock("/l", "sleep 1000 & sleep 1000 & echo ready; wait");
    poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
    holder.signal("TERM");
    let ended = holder.wait(LIMIT);
    assert_eq!(ended.code(), Some(128 + 15), "{ended:?}");
    assert_eq!(zk.ok(&["ls", "/l"]), "");
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
    for (kind, held) in [("lock", "/l"), ("register", "/r")] {
        let holder = zk.start(&[kind, held, "--", "sh", "-c", SLOW_APP]);
        poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
        holder.signal("USR1");
        let next = zk.run(&[kind, held, "--timeout", "1", "--", "true"]);
        assert_eq!(next.code(), Some(75), "{next:?}");
        holder.signal("TERM");
        let told = || holder.stdout().ends_with("TERM\n").then_some(());
        poll(LIMIT, told).expect("the second signal is not passed on");
        std::fs::write(&go, "").unwrap();
        let ended = holder.wait(LIMIT);
        assert_eq!(ended.code(), Some(128 + 15), "{ended:?}");
        assert_eq!(ended.stdout, "ready\nTERM\ndone\n", "{ended:?}");
        std::fs::remove_file(&go).unwrap();
        zk.ok(&[kind, held, "--timeout", "5", "--", "true"]);
    }
}

#[test]
fn loss_ends_processes_that_outlast_a_signal() {
    let Some(zk) = zk("lost-slow-app") else { return };
    let zk = zk.env("GO", "/nonexistent");
    let holder = zk.lock("/l", SLOW_APP);
    poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
    holder.signal("USR1");
    assert_eq!(zk.run(&["lock", "/l", "--timeout", "1", "--", "true"]).code(), Some(75));
    zk.ok(&["delete", &format!("/l/{}", zk.ok(&["ls", "/l"]).trim())]);
    let ended = holder.wait(LIMIT);
    assert_eq!((ended.code(), &*ended.stdout), (Some(74), "ready\nTERM\n"), "{ended:?}");
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
        let signal = |name: &str| {
            let kill = Command::new("kill").args(["-s", name, &shell.id().to_string()]).status();
            assert!(kill.unwrap().success());
        };
        ["HUP", "QUIT", "USR1"].into_iter().for_each(signal);
        // Of several signals, SIGUSR1 is passed on last.
        assert_eq!(lines.next().unwrap().unwrap(), "USR1");
        if ends_by_int {
            signal("INT");
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

#[test]
fn loss_ends_child_processes_of_command() {
    let Some(zk) = zk("lost-offspring") else { return };
    let script = "(trap '' TERM; echo ready; exec sleep 1000) & exec sleep 1000";
    let holder = zk.lock("/l", script);
    poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
    let node = zk.ok(&["participants", "/l"]);
    let node = node.split_whitespace().next().unwrap();
    zk.ok(&["delete", node]);
    // `zk` ends together with the process that ignores SIGTERM, five seconds later. The pipe to
    // this test closes then.
    let ended = holder.wait(LIMIT);
    assert_eq!(ended.code(), Some(74), "{ended:?}");
}

/// Services take SIGUSR1 and SIGUSR2 as requests, for example to open their logs again.
#[test]
fn user_signals_are_passed_on_and_lock_is_kept() {
    let Some(zk) = zk("user-signals") else { return };
    let script = r#"trap 'echo USR1' USR1; trap 'echo USR2' USR2; exec 3<&0
        (trap '' USR1 USR2; echo ready; exec cat <&3 >/dev/null) & while ! wait; do :; done
        echo done"#;
    for kind in [&["lock", "/l"][..], &["semaphore", "/s", "--permits", "1"], &["register", "/r"]] {
        let mut holder = zk.start(&[kind, &["--", "sh", "-c", script]].concat());
        let mut expected = "ready\n".to_owned();
        poll(LIMIT, || (holder.stdout() == expected).then_some(())).expect("nobody got in");
        for signal in ["USR1", "USR2"] {
            holder.signal(signal);
            expected += &format!("{signal}\n");
            poll(LIMIT, || (holder.stdout() == expected).then_some(()))
                .unwrap_or_else(|| panic!("{kind:?} {signal}: {holder:?} {}", holder.stdout()));
        }
        assert!(!holder.has_ended(), "{kind:?}");
        holder.end_input();
        let ended = holder.wait(LIMIT);
        assert_eq!((ended.code(), ended.stdout), (Some(0), expected + "done\n"), "{kind:?}");
    }
}

/// A command must not run on without its lock. SIGRTMAX is 64.
#[test]
fn other_deadly_signals_end_the_command_as_sigterm_does() {
    let Some(zk) = zk("deadly-signals") else { return };
    let deadly = "ABRT ALRM IO PROF PWR SYS TRAP VTALRM XCPU XFSZ 40 64";
    for signal in deadly.split(' ') {
        let holder = zk.lock("/l", "trap 'echo TERM; exit 5' TERM; echo ready; read line");
        poll(LIMIT, || (holder.stdout() == "ready\n").then_some(())).expect("nobody got in");
        holder.signal(signal);
        let ended = holder.wait(LIMIT);
        let told = (ended.code(), ended.stdout.as_str());
        assert_eq!(told, (Some(5), "ready\nTERM\n"), "{signal}: {ended:?}");
        assert_eq!(zk.ok(&["ls", "/l"]), "", "{signal}");
    }
}

#[test]
fn interrupted_waiter_leaves_the_queue() {
    let Some(zk) = zk("interrupted") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let _holder = zk.lock("/l", HOLD);
    poll(LIMIT, || journal.entered().pop()).expect("nobody got in");
    for (signal, number) in [("INT", 2), ("TERM", 15), ("USR1", 10), ("ALRM", 15)] {
        let waiter = zk.lock("/l", HOLD);
        let count = || zk.ok(&["participants", "/l"]).lines().count();
        poll(LIMIT, || (count() == 2).then_some(())).expect("it does not queue");
        waiter.signal(signal);
        let ended = waiter.wait(LIMIT);
        expect_end_by(&ended, number);
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert_eq!(count(), 1, "{signal}");
    }
    assert_eq!(journal.entered().len(), 1, "the command of a waiter was run");
}
