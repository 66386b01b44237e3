//! Tests of the contract of the `zk` command, which scripts rely on.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

mod bench;
mod connect;
mod counters;
mod digest;
mod discover;
mod doctor;
mod elect;
mod ensemble;
mod examples;
mod exit_status;
mod faults;
mod foreign_nodes;
mod json;
mod leftovers;
mod locks;
mod multilocks;
mod operations;
mod read_write_locks;
mod register;
mod rejections;
mod screen;
mod search;
mod security;
mod semaphores;
mod server;
mod shells;
mod signals;
mod top;
mod transactions;
mod transfer;
mod transfer_at_once;
mod transfer_options;
mod watch;

use std::time::Duration;

use zk_tests::{Ended, Server, WHO_AM_I, Zk, own_shared_zookeeper, release, shared_zookeeper};

/// Returns the command, connected to a chroot of the calling test on the shared server.
fn zk(chroot: &str) -> Option<Zk> {
    let server = shared_zookeeper()?;
    let chroot = format!("/{chroot}");
    Zk::new(server.connect_string()).ok(&["create", &chroot]);
    Some(Zk::new(server.connect_string() + &chroot))
}

/// Returns the command like [`zk`], if the server was started by the tests.
fn own_zk(chroot: &str) -> Option<Zk> {
    own_shared_zookeeper()?;
    zk(chroot)
}

/// Expects this exit status, nothing on standard output and one line on standard error.
fn expect_failure(ended: &Ended, code: i32, says: &str) {
    assert_eq!(ended.code(), Some(code), "{ended:?}");
    assert_eq!(ended.stdout, "", "{ended:?}");
    let [line] = ended.stderr.lines().collect::<Vec<_>>()[..] else {
        panic!("not one line: {:?}", ended.stderr);
    };
    assert!(line.starts_with("zk: ") && line.contains(says), "{line}");
}

/// Expects that a command line is rejected before the command connects.
fn expect_refused(arguments: &[&str], says: &str) {
    expect_failure(&Zk::new("127.0.0.2:1").run(arguments), 64, says);
}

/// Expects that the server names this identity of the command, if it is new enough.
fn expect_identity(zk: &Zk, server: &Server, identity: &str) {
    if release(server) < WHO_AM_I {
        return expect_failure(&zk.run(&["whoami"]), 1, "whoAmI /: Unimplemented (-6)");
    }
    let known = zk.ok(&["whoami"]);
    assert!(known.lines().any(|line| line == identity), "no {identity} in {known}");
}

/// Limit for steps that take milliseconds on an idle machine.
const LIMIT: Duration = Duration::from_secs(30);
