//! Tests of the server and the chroot that the command connects to.

use zk_tests::{Zk, shared_zookeeper, zookeeper};

use crate::zk;

#[test]
fn chroot_prefixes_every_path() {
    let (Some(server), Some(inside)) = (shared_zookeeper(), zk("chroot")) else { return };
    let outside = Zk::new(server.connect_string());
    inside.prints("create /a x", "/a\n");
    outside.prints("get /chroot/a", "x");
    assert_eq!(outside.ok("ls /chroot"), inside.ok("ls /"));
    let printed = inside.ok("lock /l -- sh -c 'echo $ZK_LOCK_NODE'");
    assert!(printed.starts_with("/l/_c_"), "{printed}");

    // A lock below a chroot that does not exist, for example after a typing error, would exclude no
    // other client.
    let nowhere = outside.chroot("/no-such-chroot");
    let says = "the chroot of --connect does not exist; --create-chroot creates it";
    for line in [
        "create /x",
        "create /x --parents",
        "lock /l -- true",
        "barrier /b",
        "counter /c",
        "sync /",
        "participants /l",
        "watch /x",
        "delete /x",
        "set /x 1",
        "discover s",
        "exists /x",
    ] {
        nowhere.fails(line, 1, says);
    }
    for command in ["get", "ls", "count", "getacl"] {
        nowhere.fails(&[command, "/"], 1, "the chroot of --connect does not exist");
    }
    nowhere.fails("stat /", 1, "/: the chroot of --connect does not exist");
    nowhere.prints("--create-chroot lock /l -- echo in", "in\n");
}

#[test]
fn connect_string_comes_from_environment_without_option() {
    let Some(server) = shared_zookeeper() else { return };
    let Some(inside) = zk("environment") else { return };
    inside.ok("create /marker");
    let from_environment =
        Zk::unconnected().env("ZK_CONNECT", server.connect_string() + "/environment");
    from_environment.prints("ls /", "marker\n");

    // The command line takes precedence.
    let both = Zk::new(server.connect_string()).env("ZK_CONNECT", "no such thing");
    assert!(both.ok("ls /").contains("environment"));
}

#[test]
fn connect_succeeds_with_one_reachable_server_of_list() {
    let Some(server) = zookeeper() else { return };
    // No process listens at this address. No other process can bind it, because the port belongs to
    // a server of the test, at another address.
    let nobody = format!("127.0.0.1:{}", server.address().port());
    let list = format!("{nobody},{},{nobody}", server.connect_string());
    assert!(Zk::new(list).ok("ls /").contains("zookeeper"));
}

/// No name ends in `invalid` (RFC 2606). Without a name server, the error is another one.
#[test]
fn name_of_srv_records_is_in_errors() {
    let srv = |name: &str| Zk::new(format!("srv://{name}/app"));
    for line in ["ls /", "doctor"] {
        srv("_zookeeper._tcp.zk.invalid").fails(line, 69, "_zookeeper._tcp.zk.invalid: ");
    }
    srv("zk1:2181").fails("ls /", 64, "\"zk1:2181\" is not a name of DNS records");
}
