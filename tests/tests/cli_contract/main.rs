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
mod json;
mod leftovers;
mod locks;
mod operations;
mod register;
mod rejections;
mod screen;
mod search;
mod security;
mod server;
mod shells;
mod signals;
mod top;
mod transfer;
mod transfer_lists;
mod watch;

use zk_tests::{
    LIMIT, Server, WHO_AM_I, Words, Zk, own_shared_zookeeper, release, shared_zookeeper, until,
};

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

/// Returns the path of the last node below a path.
fn own_node(zk: &Zk, path: &str) -> String {
    let nodes = zk.ok(&["ls", path]);
    format!("{path}/{}", nodes.lines().next_back().expect("a node"))
}

/// Deletes the last node below a path: its owner loses its lock.
fn delete_node(zk: &Zk, path: &str) {
    zk.ok(&format!("delete {}", own_node(zk, path)));
}

/// Expects that a command line is rejected before the command connects.
fn expect_refused(line: &(impl Words + ?Sized), says: &str) {
    Zk::new("127.0.0.2:1").fails(line, 64, says);
}

/// Expects that the server names this identity of the command, if it is new enough.
fn expect_identity(zk: &Zk, server: &Server, identity: &str) {
    if release(server) < WHO_AM_I {
        zk.fails("whoami", 1, "whoAmI /: Unimplemented (-6)");
        return;
    }
    let known = zk.ok("whoami");
    assert!(known.lines().any(|line| line == identity), "no {identity} in {known}");
}
