//! Tests of the exit status, and of the one line that explains it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use zk_tests::{HOLD, Journal, Scratch, Zk, now, poll};

use crate::{LIMIT, expect_failure, zk};

#[test]
fn lock_returns_exit_status_of_its_command() {
    let Some(zk) = zk("own-status") else { return };
    let status = |script: &str| {
        let ended = zk.run(&["lock", "/l", "--", "sh", "-c", script]);
        assert_eq!(ended.stderr, "", "{script}");
        ended.code()
    };
    assert_eq!(status("exit 0"), Some(0));
    assert_eq!(status("exit 7"), Some(7));
    assert_eq!(status("exit 255"), Some(255));
    assert_eq!(status("kill -KILL $$"), Some(128 + 9));
    assert_eq!(status("kill -TERM $$"), Some(128 + 15));
    assert_eq!(zk.ok(&["ls", "/l"]), "");
}

#[test]
fn command_that_cannot_start_has_the_status_of_a_shell() {
    let Some(zk) = zk("no-program") else { return };
    let text = Scratch::new();
    let not_executable = text.path("text");
    std::fs::write(&not_executable, "no program").unwrap();
    let not_executable = not_executable.to_str().unwrap();
    for (program, code) in [("/no/such/program", 127), ("nonesuch", 127), (not_executable, 126)] {
        for kind in [&["lock", "/l"][..], &["semaphore", "/s", "--permits", "1"], &["elect", "/e"]]
        {
            let ended = zk.run(&[kind, &["--", program]].concat());
            expect_failure(&ended, code, &format!("cannot start \"{program}\": "));
            assert_eq!(zk.ok(&["ls", kind[1]]).replace("leases\nlocks\n", ""), "");
        }
    }
}

#[test]
fn lock_with_timeout_fails_when_held_by_another() {
    let Some(zk) = zk("held") else { return };
    let journal = Journal::new();
    let zk = zk.journal(&journal);
    let mut holder = zk.start(&["lock", "/l", "--name", "nightly", "--", "sh", "-c", HOLD]);
    poll(LIMIT, || journal.entered().pop()).expect("nobody got in");

    for (timeout, least) in [("0", 0), ("1", 1), ("1.5", 1)] {
        let start = now();
        let ended = zk.run(&["lock", "/l", "--timeout", timeout, "--", "echo", "in"]);
        assert!(start.elapsed() >= Duration::from_secs(least), "{:?}", start.elapsed());
        expect_failure(&ended, 75, "/l: the lock was not acquired in time; held: nightly ");
        assert!(ended.stderr.contains(" (session 0x"), "{ended:?}");
        assert!(ended.stderr.ends_with("s ago)\n"), "{ended:?}");
        assert_eq!(zk.ok(&["ls", "/l"]).lines().count(), 1, "one node, the holder's");
    }

    holder.end_input();
    assert_eq!(holder.wait(LIMIT).code(), Some(0));
    for timeout in ["0", "1"] {
        assert_eq!(zk.ok(&["lock", "/l", "--timeout", timeout, "--", "echo", "in"]), "in\n");
    }
}

#[test]
fn lock_fails_when_ensemble_is_unreachable() {
    // At the first address no process listens. At the second one no process ever accepts.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_address = silent.local_addr().unwrap();
    let closed_address = format!("127.0.0.2:{}", silent_address.port());
    for address in [closed_address, silent_address.to_string()] {
        let zk = Zk::new(&address);
        let start = now();
        // The timeout of the lock also bounds the time to connect.
        let ended = zk.run(&["lock", "/l", "--timeout", "1", "--", "true"]);
        expect_failure(&ended, 69, &address);
        assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    }
}

#[test]
fn timeout_of_a_barrier_bounds_the_connection() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let zk = Zk::new(silent.local_addr().unwrap().to_string());
    let ended = zk.run(&["barrier", "/b", "--timeout", "0.4"]);
    expect_failure(&ended, 69, "no server answered in time");
}

#[test]
fn command_fails_within_seconds_when_connection_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("127.0.0.2:{}", taken.local_addr().unwrap().port());
    // The command fails after about a second, instead of the ten seconds for a server that does not
    // answer. The command is built before the first run.
    Zk::unconnected().ok(&["--version"]);
    for line in [&["ls", "/"][..], &["lock", "/l", "--timeout", "0", "--", "true"]] {
        let start = now();
        let ended = Zk::new(&closed).run(line);
        expect_failure(&ended, 69, &closed);
        assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    }
}

#[test]
fn port_of_another_protocol_is_named() {
    for (answer, says) in [
        (&[0x15, 3, 3, 0, 2, 2, 10][..], "the server speaks TLS on this port"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "the server speaks HTTP on this port"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let peer = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            client.read_exact(&mut [0; 4]).unwrap();
            client.write_all(answer).unwrap();
            client.read_to_end(&mut Vec::new()).unwrap(); // the command tries once
        });
        expect_failure(&Zk::new(&address).run(&["get", "/"]), 69, says);
        peer.join().unwrap();
    }
}

#[test]
fn bare_command_prints_its_help() {
    for zk in [Zk::unconnected(), Zk::unconnected().env("ZK_CONNECT", "127.0.0.2:1")] {
        let ended = zk.run(&[]);
        assert_eq!((ended.code(), &*ended.stdout), (Some(64), ""), "{ended:?}");
        assert!(ended.stderr.contains("\nUsage: zk "), "{ended:?}");
    }
}

#[test]
fn invalid_command_line_is_rejected() {
    let nowhere = Zk::new("127.0.0.2:1");
    for arguments in [
        &[][..],
        &["lock", "/l"],
        &["lock", "/l", "echo"],
        &["lock", "/l", "--"],
        &["lock", "/l", "--timeout", "-1", "--", "true"],
        &["lock", "/l", "--timeout", "soon", "--", "true"],
        &["lock", "--", "true"],
        &["frobnicate"],
        &["ls", "--frobnicate", "/"],
        &["ls"],
        &["get", "/a", "/b"],
        &["create", "/a", "--ttl", "0"],
        &["create", "/a", "--ephemeral", "--container"],
        &["set", "/a"],
        &["set", "/a", "x", "--version", "one"],
        &["--session-timeout", "x", "ls", "/"],
        &["--session-timeout", "0.001", "ls", "/"],
    ] {
        expect_failure(&nowhere.run(arguments), 64, "--help");
    }
}

#[test]
fn hint_for_a_value_with_a_hyphen_works() {
    let nowhere = Zk::new("127.0.0.2:1");
    for (arguments, says) in [
        (&["lock", "/l", "--timeout", "-1", "--", "true"][..], "'-1' for '--timeout <S>'"),
        (&["lock", "/l", "-x", "--", "true"], "unexpected argument '-x' found; see --help"),
        (&["ls", "-l", "/"], "unexpected argument '-l' found; see --help"),
        (&["create", "/a", "-1"], "to pass it as a value, write -- before it: -- -1"),
        (&["find", "/", "--name", "-x"], "write --name=-x"),
        (&["create", "-e", "/a"], "for -e of zkCli.sh, write --ephemeral; see --help"),
        (&["delete", "-R", "/a"], "write --recursive; see --help"),
        (&["get", "-r", "/a"], "for -r of zkCli.sh, write --read-only; see --help"),
        (&["delete", "-r", "/a"], "write --recursive; see --help"),
        (&["ls", "-r", "/a"], "write --recursive; see --help"),
        (&["create", "-t", "5", "/a"], "write --ttl MS"),
        (&["get", "-s", "/a"], "write zk stat PATH, or zk get --json"),
        (&["get", "-w", "/a"], "write zk watch PATH"),
        (&["set", "/a", "x", "-v", "1"], "write --version N"),
        (&["reconfig", "-remove", "3"], "write --remove ID"),
        (&["version"], "it is zk --version"),
        (&["register", "/a", "./serve"], "the command goes after --, as in zk register /services/"),
        (&["lock", "/l", "--timout", "3", "--", "true"], "exists: '--timeout'; see --help"),
    ] {
        expect_failure(&nowhere.run(arguments), 64, says);
    }
    let Some(zk) = zk("hyphens") else { return };
    zk.ok(&["create", "/a", "--", "-1"]);
    assert_eq!(zk.ok(&["get", "/a"]), "-1");
    assert_eq!(zk.ok(&["find", "/", "--name=-x"]), "");
}

#[test]
fn invalid_path_is_rejected() {
    let Some(zk) = zk("bad-paths") else { return };
    for path in ["a", "", "/a/", "//", "/a//b", "/a/../b", "/./a"] {
        for command in ["get", "ls", "stat", "exists", "delete", "create", "participants"] {
            expect_failure(&zk.run(&[command, path]), 64, "path");
        }
        expect_failure(&zk.run(&["lock", path, "--", "true"]), 64, "path");
    }
}

#[test]
fn invalid_path_is_rejected_without_a_server() {
    let nowhere = Zk::new("127.0.0.2:1");
    expect_failure(&nowhere.run(&["lock", "l", "--timeout", "1", "--", "true"]), 64, "path");
}

#[test]
fn invalid_connect_string_is_rejected() {
    for connect in ["", ",", "host:0x1", "host:99999", "h:1/chroot/", "[::1"] {
        expect_failure(&Zk::new(connect).run(&["ls", "/"]), 64, "connect string");
    }
}
