//! Where the command connects to.

use zk_tests::{Zk, shared_zookeeper};

use crate::{expect_failure, zk};

#[test]
fn a_chroot_is_in_front_of_every_path() {
    let (Some(server), Some(inside)) = (shared_zookeeper(), zk("chroot")) else { return };
    let outside = Zk::new(server.connect_string());
    assert_eq!(inside.ok(&["create", "/a", "x"]), "/a\n");
    assert_eq!(outside.ok(&["get", "/chroot/a"]), "x");
    assert_eq!(outside.ok(&["ls", "/chroot"]), inside.ok(&["ls", "/"]));
    let printed = inside.ok(&["lock", "/l", "--", "sh", "-c", "echo $ZK_LOCK_NODE"]);
    assert!(printed.starts_with("/l/_c_"), "{printed}");

    let nowhere = Zk::new(server.connect_string() + "/no-such-chroot");
    expect_failure(&nowhere.run(&["create", "/a"]), 1, "NoNode");
    // A lock in a place made up by a typing error would lock nobody out.
    expect_failure(&nowhere.run(&["lock", "/l", "--", "true"]), 1, "NoNode");
}

#[test]
fn the_environment_says_where_if_the_command_line_does_not() {
    let Some(server) = shared_zookeeper() else { return };
    let Some(inside) = zk("environment") else { return };
    inside.ok(&["create", "/marker"]);
    let from_environment =
        Zk::unconnected().env("ZK_CONNECT", server.connect_string() + "/environment");
    assert_eq!(from_environment.ok(&["ls", "/"]), "marker\n");

    // The command line wins.
    let both = Zk::new(server.connect_string()).env("ZK_CONNECT", "no such thing");
    assert!(both.ok(&["ls", "/"]).contains("environment"));
}

#[test]
fn one_server_of_a_list_is_enough() {
    let Some(server) = shared_zookeeper() else { return };
    // Nothing listens there, and nobody else can: the port of a server of ours, at an address
    // that it does not listen at.
    let nobody = format!("127.0.0.1:{}", server.address().port());
    let list = format!("{nobody},{},{nobody}", server.connect_string());
    assert!(Zk::new(list).ok(&["ls", "/"]).contains("zookeeper"));
}
