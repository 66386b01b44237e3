//! Tests of the less common operations of the client.

use zk_session::{
    Acl, ClientInfo, Config, CreateMode, ErrorCode, ErrorKind, ErrorOrigin, Outcome, Perms, RetryOn,
};
use zk_testing::{Op, TestServer, Zxid};

use crate::in_memory::connected;

#[tokio::test(start_paused = true)]
async fn acl_is_read_and_replaced_by_its_own_version() {
    let (_server, [client]) = connected().await;
    client.create("/n", b"", CreateMode::Persistent).await.unwrap();
    let before = client.get_acl("/n").await.unwrap();
    assert_eq!((before.acl.as_slice(), before.stat.aversion), (&[Acl::open()][..], 0));

    let reads = [Acl::world(Perms::READ | Perms::ADMIN)];
    let stat = client.set_acl("/n", &reads, Some(0)).await.unwrap();
    assert_eq!((stat.aversion, stat.version), (1, 0));
    assert_eq!(client.get_acl("/n").await.unwrap().acl, reads);
    let refused = client.set_acl("/n", &reads, Some(0)).await.unwrap_err();
    assert_eq!(refused.to_string(), "setACL /n: BadVersion (-103)");
    let refused = client.set_acl("/n", &[], None).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::INVALID_ACL));
    let refused = client.set_data("/n", b"", None).await.unwrap_err();
    assert_eq!(refused.code(), Some(ErrorCode::NO_AUTH));
    let refused = client.get_acl("/none").await.unwrap_err();
    assert_eq!(refused.to_string(), "getACL /none: NoNode (-101)");
}

#[tokio::test(start_paused = true)]
async fn identities_contain_digest_after_add_auth() {
    let (_server, [client]) = connected().await;
    let schemes = |me: &[ClientInfo]| me.iter().map(|info| info.scheme.clone()).collect::<Vec<_>>();
    assert_eq!(schemes(&client.who_am_i().await.unwrap()), ["ip"]);
    client.add_auth("digest", "alice:secret").await.unwrap();
    let me = client.who_am_i().await.unwrap();
    let alice = ClientInfo { scheme: "digest".into(), user: "alice".into() };
    assert!(me.len() == 2 && me.contains(&alice), "{me:?}");
}

#[tokio::test(start_paused = true)]
async fn all_children_number_counts_descendants() {
    let (_server, [client]) = connected().await;
    for path in ["/a", "/a/b", "/a/b/c", "/a/d", "/ab"] {
        client.create(path, b"", CreateMode::Persistent).await.unwrap();
    }
    assert_eq!(client.all_children_number("/a").await.unwrap(), 3);
    assert_eq!(client.chroot("/a").unwrap().all_children_number("/b").await.unwrap(), 1);
    let refused = client.all_children_number("/none").await.unwrap_err();
    assert_eq!(refused.to_string(), "getAllChildrenNumber /none: NoNode (-101)");
}

#[tokio::test(start_paused = true)]
async fn config_node_is_independent_of_chroot() {
    let (_server, [client]) = connected().await;
    // The chroot has the length of `/zookeeper`, the parent of the configuration node.
    client.create("/abcdefghi", b"", CreateMode::Persistent).await.unwrap();
    let inside = client.chroot("/abcdefghi").unwrap();
    let (config, changed) = inside.get_config_and_watch().await.unwrap();
    assert_eq!((config.zxid, config.members.len()), (Zxid::ZERO, 0), "it runs alone");
    assert_eq!(client.get_config().await.unwrap(), config);
    assert!(format!("{changed:?}").contains("\"/zookeeper/config\""), "{changed:?}");
    let error = inside.reconfig(&[], &[3], None).await.unwrap_err();
    assert_eq!(error.to_string(), "reconfig /zookeeper/config: ReconfigDisabled (-123)");
    assert_eq!(error.operation(), Some(Op::Reconfig.into()));
    assert_eq!(error.path(), Some("/zookeeper/config"));
    let error = inside.reconfig_members(&["server.1=a:1:2;3"], Some(Zxid(7))).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::RECONFIG_DISABLED));
}

/// On the wire, -1 stands for any configuration.
#[tokio::test(start_paused = true)]
async fn reconfig_from_a_negative_zxid_is_not_sent() {
    let (_server, [client]) = connected().await;
    let error = client.reconfig(&[], &[3], Some(Zxid(-1))).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
    let error = client.reconfig_members(&["server.1=a:1:2;3"], Some(Zxid(-2))).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::BAD_VERSION));
    let error = client.reconfig(&[], &[3], Some(Zxid::ZERO)).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::RECONFIG_DISABLED), "zero is a configuration");
}

#[tokio::test(start_paused = true)]
async fn unimplemented_operation_keeps_session_open() {
    let (server, [client]) = connected().await;
    server.on(Op::WhoAmI).answer(ErrorCode::UNIMPLEMENTED);
    let error = client.who_am_i().await.unwrap_err();
    assert_eq!(error.to_string(), "whoAmI /: Unimplemented (-6)");
    assert!(client.exists("/").await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn reply_over_frame_limit_fails_and_closes_the_connection() {
    let server = TestServer::in_memory();
    let config = Config::new("server-0:1").unwrap().seed(1).max_frame_len(10_000);
    let client = config.connector(server.clone()).connect().await.unwrap();
    client.create("/n", [7; 20_000], CreateMode::Persistent).await.unwrap();
    let error = client.get_data("/n").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::ReplyTooLarge { len: 20_000.., max: 10_000 }));
    assert_eq!((error.origin(), error.outcome()), (ErrorOrigin::Caller, Outcome::NotApplied));
    assert!(error.retry_on() != RetryOn::SameSession, "{error}");
    assert_eq!(client.connections_lost(), 1);
    assert!(client.exists("/n").await.unwrap().is_some(), "on another connection");
}
