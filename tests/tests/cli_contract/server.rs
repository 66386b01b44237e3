//! Tests of `zk server`, the in-memory server for development.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use serde_json::Value;
use zk_tests::{HOLD, Journal, Running, Zk, poll};

use crate::LIMIT;

/// Starts a server on a free port, and returns its address.
fn start(arguments: &[&str]) -> (Running, SocketAddr) {
    let all = [&["server", "--listen", "127.0.0.1:0"], arguments].concat();
    let server = Zk::unconnected().start(&all);
    let line = poll(LIMIT, || server.stdout().strip_suffix('\n').map(str::to_owned));
    let line = line.unwrap_or_else(|| panic!("no address: {}", server.stderr()));
    (server, line.parse().unwrap_or_else(|_| panic!("not an address alone: {line:?}")))
}

#[test]
fn server_prints_address_and_serves_other_commands() {
    let (_server, address) = start(&[]);
    assert!(address.ip().is_loopback() && address.port() != 0, "{address}");
    let zk = Zk::new(address.to_string());
    zk.prints("create /app/config x --parents", "/app/config\n");
    zk.prints("get /app/config", "x");
    let locked = zk.run(&["lock", "/l", "--", "sh", "-c", "test -n \"$ZK_FENCING_TOKEN\"; exit 7"]);
    assert_eq!(locked.code(), Some(7), "{locked:?}");
}

#[test]
fn server_excludes_a_second_holder() {
    let (_server, address) = start(&[]);
    let journal = Journal::new();
    let zk = Zk::new(address.to_string()).journal(&journal);
    let _holder = zk.lock("/l", HOLD);
    poll(LIMIT, || journal.entered().pop()).expect("nobody got in");
    let refused = zk.run("lock /l --timeout 0 -- true");
    assert_eq!(refused.code(), Some(75), "{refused:?}");
}

#[test]
fn server_warns_that_it_is_not_for_production() {
    let (server, _) = start(&[]);
    let help = Zk::unconnected().ok("server --help");
    // The server prints its warning before its address.
    for text in [server.stderr(), help].map(|text| text.to_lowercase()) {
        for words in ["memory", "development only", "nothing on disk", "not for production"] {
            assert!(text.contains(words), "no {words:?} in {text}");
        }
    }
}

#[test]
fn signals_end_server_with_status_zero() {
    for signal in ["INT", "TERM"] {
        let (server, address) = start(&[]);
        let mut client = TcpStream::connect(address).unwrap();
        server.signal(signal);
        let ended = server.wait(LIMIT);
        assert_eq!(ended.code(), Some(0), "{signal}: {ended:?}");
        // The server closes the connections of its clients.
        assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)), "{signal}");
    }
}

#[test]
fn server_fails_when_port_is_taken() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = Zk::unconnected().run(&["server", "--listen", &address]);
    ended.expect_failure(1, &format!("cannot listen at {address}: Address already in use"));
}

#[test]
fn server_rejects_invalid_listen_address() {
    for text in ["2181", "127.0.0.1", "127.0.0.1:99999", "[::1:2181", ""] {
        let ended = Zk::unconnected().run(&["server", "--listen", text]);
        assert_eq!(ended.code(), Some(64), "{text:?}: {ended:?}");
        assert!(ended.stderr.contains("--listen"), "{text:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{text:?}");
    }
}

#[test]
fn server_ignores_connect_string() {
    let zk = Zk::new("no such thing");
    let server = zk.start("server --listen localhost:0 --json");
    let said = poll(LIMIT, || server.stdout().strip_suffix('\n').map(str::to_owned));
    let said: Value = serde_json::from_str(&said.expect("no address")).unwrap();
    let address: SocketAddr = said["address"].as_str().unwrap().parse().unwrap();
    assert!(TcpStream::connect(address).is_ok());
}

#[test]
fn tick_time_bounds_session_timeouts() {
    let (_server, address) = start(&["--tick-time", "100"]);
    let conf = four_letters(address, "conf");
    for line in ["tickTime=100", "minSessionTimeout=200", "maxSessionTimeout=2000"] {
        assert!(conf.lines().any(|said| said == line), "{conf}");
    }
}

#[test]
fn server_reports_requested_version() {
    for (arguments, version) in
        [(&[][..], "3.8.0"), (&["--version", "3.8"], "3.8.0"), (&["--version", "3.9"], "3.9.5")]
    {
        let (_server, address) = start(arguments);
        let said = four_letters(address, "srvr");
        assert!(said.starts_with(&format!("Zookeeper version: {version}-")), "{said}");
    }
}

#[test]
fn server_deletes_containers_and_ttl_nodes_at_set_interval() {
    let (_server, address) = start(&["--container-check", "0.05"]);
    let zk = Zk::new(address.to_string());
    zk.ok("create /container --container");
    zk.ok("create /ttl --ttl 1");
    zk.ok("create /container/child");
    zk.ok("delete /container/child");
    // The default interval is twice as long as this limit.
    let left = || zk.ok("ls /");
    poll(LIMIT, || (left() == "zookeeper\n").then_some(())).unwrap_or_else(|| panic!("{}", left()));
}

#[test]
fn server_rejects_invalid_settings() {
    let version = "[possible values: 3.8, 3.9]";
    let number = "write a number of seconds";
    for (option, text, says) in [
        ("--version", "3.7", version),
        ("--version", "3", version),
        ("--version", "", version),
        ("--container-check", "0", "at least 0.001 seconds"),
        ("--container-check", "0.0001", "at least 0.001 seconds"),
        ("--container-check", "nan", number),
        ("--container-check", "1m", number),
        ("--container-check", "", number),
    ] {
        let ended = Zk::unconnected().run(&["server", "--listen", "127.0.0.1:0", option, text]);
        ended.expect_failure(64, option);
        assert!(ended.stderr.contains(says), "{option} {text:?}: {ended:?}");
    }
}

#[test]
fn server_help_names_its_settings() {
    let help = Zk::unconnected().ok("server --help");
    for words in ["--version <X.Y>", "[possible values: 3.8, 3.9]", "--container-check <SECONDS>"] {
        assert!(help.contains(words), "no {words:?} in {help}");
    }
}

fn four_letters(address: SocketAddr, word: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(word.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
