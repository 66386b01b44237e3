//! Tests of the exit status, and of the one line that explains it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use zk_tests::{Scratch, Zk, now};

use crate::{LIMIT, expect_refused, zk};

#[test]
fn lock_returns_exit_status_of_its_command() {
    let Some(zk) = zk("own-status") else { return };
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -KILL $$", 128 + 9),
        ("kill -TERM $$", 128 + 15),
    ] {
        zk.gives(&["lock", "/l", "--", "sh", "-c", script], code, "", "");
    }
    zk.prints("ls /l", "");
}

#[test]
fn command_that_cannot_start_has_the_status_of_a_shell() {
    let Some(zk) = zk("no-program") else { return };
    let text = Scratch::new();
    let not_executable = text.path("text");
    std::fs::write(&not_executable, "no program").unwrap();
    let not_executable = not_executable.to_str().unwrap();
    for (program, code) in [("/no/such/program", 127), ("nonesuch", 127), (not_executable, 126)] {
        for (kind, path) in
            [("lock /l", "/l"), ("semaphore /s --permits 1", "/s/leases"), ("elect /e", "/e")]
        {
            let says = format!("cannot start \"{program}\": ");
            zk.fails(&format!("{kind} -- {program}"), code, &says);
            zk.prints(&["ls", path], "");
        }
    }
}

#[test]
fn command_fails_in_time_when_ensemble_is_unreachable() {
    // At the first address no process listens. At the second one no process ever accepts.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_address = silent.local_addr().unwrap();
    let closed = format!("127.0.0.2:{}", silent_address.port());
    let silent = silent_address.to_string();
    // The command is built before the first run.
    Zk::unconnected().ok("--version");
    let refused = Duration::from_secs(8); // and not the ten seconds for a server that does not answer
    for (address, line, says, limit) in [
        (&closed, "ls /", &*closed, refused),
        (&closed, "lock /l --timeout 0 -- true", &closed, refused),
        // The timeout of the lock also bounds the time to connect.
        (&closed, "lock /l --timeout 1 -- true", &closed, LIMIT),
        (&silent, "lock /l --timeout 1 -- true", &silent, LIMIT),
        (&silent, "barrier /b --timeout 0.4", "no server answered in time", LIMIT),
    ] {
        let start = now();
        Zk::new(address).fails(line, 69, says);
        assert!(start.elapsed() < limit, "{line}: {:?}", start.elapsed());
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
        Zk::new(&address).fails("get /", 69, says);
        peer.join().unwrap();
    }
}

#[test]
fn bare_command_prints_its_help() {
    for zk in [Zk::unconnected(), Zk::unconnected().env("ZK_CONNECT", "127.0.0.2:1")] {
        let ended = zk.run("");
        assert_eq!((ended.code(), &*ended.stdout), (Some(64), ""), "{ended:?}");
        assert!(ended.stderr.contains("\nUsage: zk "), "{ended:?}");
    }
}

#[test]
fn invalid_command_line_is_rejected() {
    let nowhere = Zk::new("127.0.0.2:1");
    for line in [
        "",
        "lock /l",
        "lock /l echo",
        "lock /l --",
        "lock /l --timeout -1 -- true",
        "lock /l --timeout soon -- true",
        "lock -- true",
        "frobnicate",
        "ls --frobnicate /",
        "ls",
        "get /a /b",
        "create /a --ttl 0",
        "create /a --ephemeral --container",
        "set /a",
        "set /a x --version one",
        "--session-timeout x ls /",
        "--session-timeout 0.001 ls /",
    ] {
        nowhere.fails(line, 64, "--help");
    }
}

#[test]
fn hint_for_a_value_with_a_hyphen_works() {
    let nowhere = Zk::new("127.0.0.2:1");
    for (line, says) in [
        ("lock /l --timeout -1 -- true", "'-1' for '--timeout <S>'"),
        ("lock /l -x -- true", "unexpected argument '-x' found; see --help"),
        ("ls -l /", "unexpected argument '-l' found; see --help"),
        ("create /a -1", "to pass it as a value, write -- before it: -- -1"),
        ("find / --name -x", "write --name=-x"),
        ("create -e /a", "for -e of zkCli.sh, write --ephemeral; see --help"),
        ("delete -R /a", "write --recursive; see --help"),
        ("get -r /a", "for -r of zkCli.sh, write --read-only; see --help"),
        ("delete -r /a", "write --recursive; see --help"),
        ("ls -r /a", "write --recursive; see --help"),
        ("create -t 5 /a", "write --ttl MS"),
        ("get -s /a", "write zk stat PATH, or zk get --json"),
        ("get -w /a", "write zk watch PATH"),
        ("set /a x -v 1", "write --version N"),
        ("reconfig -remove 3", "write --remove ID"),
        ("version", "it is zk --version"),
        ("register /a ./serve", "the command goes after --, as in zk register /services/"),
        ("lock /l --timout 3 -- true", "exists: '--timeout'; see --help"),
    ] {
        nowhere.fails(line, 64, says);
    }
    let Some(zk) = zk("hyphens") else { return };
    zk.ok("create /a -- -1");
    zk.prints("get /a", "-1");
    zk.prints("find / --name=-x", "");
}

#[test]
fn invalid_path_is_rejected() {
    let Some(zk) = zk("bad-paths") else { return };
    for path in ["a", "", "/a/", "//", "/a//b", "/a/../b", "/./a"] {
        for command in ["get", "ls", "stat", "exists", "delete", "create", "participants"] {
            zk.fails(&[command, path], 64, "path");
        }
        zk.fails(&["lock", path, "--", "true"], 64, "path");
    }
    expect_refused("lock l --timeout 1 -- true", "path");
}

#[test]
fn invalid_connect_string_is_rejected() {
    for connect in ["", ",", "host:0x1", "host:99999", "h:1/chroot/", "[::1"] {
        Zk::new(connect).fails("ls /", 64, "connect string");
    }
}
