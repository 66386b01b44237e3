//! Tests of the operations beyond the plain ones, and of the errors of a real server.

use std::time::Duration;

use zk_recipes::session::limits::TTL_MAX;
use zk_recipes::session::{
    Acl, Client, ClientInfo, Config, CreateMode, Error, ErrorCode, ErrorKind, MultiOutcome, OpCode,
    Outcome, ParentMode, Perms, ReadOutcome, RetryOn, Zxid,
};
use zk_tests::{
    Settings, connect, eventually, identities, or_skip, release, shared_zookeeper, zookeeper_with,
};

use crate::{LIMIT, client, own_client};

fn refusal<T>(result: Result<T, Error>) -> Option<ErrorCode> {
    result.err().and_then(|error| error.code())
}

/// Tries each operation with each single permission.
#[tokio::test(flavor = "multi_thread")]
async fn each_operation_needs_its_permission() {
    let Some(client) = own_client("acl-matrix").await else { return };
    let perms = [Perms::READ, Perms::WRITE, Perms::CREATE, Perms::DELETE, Perms::ADMIN];
    let no_auth = |allowed| if allowed { None } else { Some(ErrorCode::NO_AUTH) };
    for (nth, perm) in perms.into_iter().enumerate() {
        let path = format!("/n{nth}");
        let child = format!("{path}/child");
        client.create(&path, b"", CreateMode::Persistent).await.unwrap();
        client.create(&child, b"", CreateMode::Persistent).await.unwrap();
        let acl = [Acl::world(perm)];
        client.set_acl(&path, &acl, Some(0)).await.unwrap();
        let has = |needed| no_auth(perm == needed);
        assert_eq!(refusal(client.get_data(&path).await), has(Perms::READ), "{perm:?}");
        assert_eq!(refusal(client.get_children(&path).await), has(Perms::READ), "{perm:?}");
        assert_eq!(refusal(client.check(&path, None).await), has(Perms::READ), "{perm:?}");
        let set = client.set_data(&path, b"x", None).await;
        assert_eq!(refusal(set), has(Perms::WRITE), "{perm:?}");
        let created = client.create(&format!("{path}/b"), b"", CreateMode::Persistent).await;
        assert_eq!(refusal(created), has(Perms::CREATE), "{perm:?}");
        assert_eq!(refusal(client.delete(&child, None).await), has(Perms::DELETE), "{perm:?}");
        let either = no_auth([Perms::READ, Perms::ADMIN].contains(&perm));
        assert_eq!(refusal(client.get_acl(&path).await), either, "{perm:?}");
        let changed = client.set_acl(&path, &acl, Some(1)).await;
        assert_eq!(refusal(changed), has(Perms::ADMIN), "{perm:?}");
    }
    let acl = [Acl::auth(Perms::ALL)];
    assert_eq!(refusal(client.set_acl("/", &acl, None).await), Some(ErrorCode::INVALID_ACL));
    assert_eq!(refusal(client.set_acl("/", &[], None).await), Some(ErrorCode::INVALID_ACL));
    client.add_auth("digest", "alice:secret").await.unwrap();
    if let Some(known) = identities(&client, shared_zookeeper().unwrap()).await {
        assert!(known.contains(&ClientInfo { scheme: "digest".into(), user: "alice".into() }));
    }
    let stat = client.set_acl("/", &acl, Some(0)).await.unwrap();
    assert_eq!(stat.aversion, 1);
    let told = client.get_acl("/").await.unwrap();
    assert_eq!(told.acl, [Acl::digest(Perms::ALL, "alice", "secret")]);
    assert_eq!(refusal(client.set_acl("/", &acl, Some(0)).await), Some(ErrorCode::BAD_VERSION));
}

#[tokio::test(flavor = "multi_thread")]
async fn transaction_is_applied_completely_or_not_at_all() {
    let Some(client) = own_client("multi").await else { return };
    let inside = {
        client.create("/a", b"", CreateMode::Persistent).await.unwrap();
        client.chroot("/a").unwrap()
    };
    let outcomes = inside
        .multi()
        .create("/n", b"", CreateMode::Persistent)
        .create("/", b"", CreateMode::EphemeralSequential)
        .create("/c", b"", CreateMode::Container)
        .create_with_ttl("/t", b"", Duration::from_secs(60))
        .set_data("/n", b"x", Some(0))
        .check("/n", Some(1))
        .delete("/n", Some(1))
        .send()
        .await
        .unwrap();
    let paths: Vec<&str> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            MultiOutcome::Created { path, .. } => Some(path.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(paths, ["/n", "/0000000001", "/c", "/t"]);
    assert!(matches!(outcomes[4], MultiOutcome::Set(stat) if stat.version == 1));
    assert_eq!(outcomes[5..], [MultiOutcome::Checked, MultiOutcome::Deleted]);

    let multi = inside.multi().delete("/c", None).check("/t", Some(0)).delete("/none", None);
    let error = multi.create("/d", b"", CreateMode::Persistent).send().await.unwrap_err();
    let ErrorKind::RolledBack { index: 2, operation: OpCode::Delete, path, code } = error.kind()
    else {
        panic!("{error}")
    };
    assert_eq!((path.as_str(), *code), ("/none", ErrorCode::NO_NODE));
    assert_eq!(error.outcome(), Outcome::NotApplied);
    assert!(
        inside.exists("/c").await.unwrap().is_some()
            && inside.exists("/d").await.unwrap().is_none()
    );

    assert_eq!(inside.multi().send().await.unwrap(), []);
    assert_eq!(inside.multi_read().send().await.unwrap(), []);
    let reads = inside.multi_read().get_data("/c").get_children("/none").get_children("/");
    let outcomes = reads.send().await.unwrap();
    assert!(matches!(&outcomes[0], Ok(ReadOutcome::Data(node)) if node.stat.version == 0));
    assert_eq!(outcomes[1], Err(ErrorCode::NO_NODE));
    assert!(matches!(&outcomes[2], Ok(ReadOutcome::Children(names)) if names.len() == 3));
    assert_eq!(inside.ephemerals("/").await.unwrap(), ["/0000000001"]);
    assert_eq!(inside.find_own("/", "0").await.unwrap(), ["0000000001"]);
    assert_eq!(client.all_children_number("/").await.unwrap(), 4);
    assert_eq!(refusal(inside.delete("/", None).await), Some(ErrorCode::BAD_ARGUMENTS));
    assert!(client.exists("/a").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn server_removes_expired_ttl_nodes_and_empty_containers() {
    let Some(server) = zookeeper_with(&Settings::default().container_check_ms(100)) else { return };
    let client = connect(&server.connect_string(), Duration::from_secs(20)).await;
    let container =
        client.create_builder("/c-").container().sequential().create().await.unwrap().path;
    let child = format!("{container}/a/b");
    let new = client
        .create_builder(&child)
        .ttl(Duration::from_millis(50))
        .parents(ParentMode::Containers);
    let protected = new.sequential().protected().create().await.unwrap();
    assert!(protected.path.starts_with(&format!("{container}/a/_c_")), "{}", protected.path);
    // The TTL node expires, and then the containers are removed because they have no child.
    let is_gone = async || client.exists(&container).await.unwrap().is_none().then_some(());
    eventually(LIMIT, is_gone).await.expect("the container stays");
    // The client refuses what a server would.
    for ttl in [Duration::ZERO, TTL_MAX + Duration::from_millis(1)] {
        let refused = client.create_builder("/t").ttl(ttl).create().await.unwrap_err();
        assert_eq!(*refused.kind(), ErrorKind::InvalidTtl(ttl));
    }
    client.create_builder("/t").ttl(TTL_MAX).create().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn server_rejects_disabled_operations_and_exceeded_quota() {
    let settings = Settings::default()
        .config("extendedTypesEnabled", "false")
        .config("reconfigEnabled", "true")
        .config("enforceQuota", "true");
    let Some(server) = zookeeper_with(&settings) else { return };
    let client = connect(&server.connect_string(), Duration::from_secs(20)).await;
    let ttl = client.create_builder("/t").ttl(Duration::from_secs(9)).create().await;
    assert_eq!(refusal(ttl), Some(ErrorCode::UNIMPLEMENTED));
    let error = client.reconfig(&[], &[1], None).await;
    assert_eq!(refusal(error), Some(ErrorCode::UNIMPLEMENTED), "it runs alone");
    let config = client.get_config().await.unwrap();
    assert_eq!((config.text.as_str(), config.zxid, config.members.len()), ("", Zxid::ZERO, 0));

    client.create("/q", b"", CreateMode::Persistent).await.unwrap();
    let limits = b"count=-1,bytes=-1=;byteHardLimit=10;countHardLimit=2";
    let quota = "/zookeeper/quota/q";
    client.create(quota, b"", CreateMode::Persistent).await.unwrap();
    let multi = client.multi();
    let limits_node = format!("{quota}/zookeeper_limits");
    let stats_node = format!("{quota}/zookeeper_stats");
    let multi = multi.create(&limits_node, limits, CreateMode::Persistent);
    let multi = multi.create(&stats_node, b"count=1,bytes=0", CreateMode::Persistent);
    multi.send().await.unwrap();
    client.create("/q/a", b"", CreateMode::Persistent).await.unwrap();
    if release(&server) < ENFORCED_QUOTAS {
        client.create("/q/b", b"", CreateMode::Persistent).await.unwrap();
        client.set_data("/q/a", [0; 11], None).await.unwrap();
        return;
    }
    let one_more = client.create("/q/b", b"", CreateMode::Persistent).await;
    assert_eq!(refusal(one_more), Some(ErrorCode::QUOTA_EXCEEDED));
    let too_long = client.set_data("/q/a", [0; 11], None).await.unwrap_err();
    assert_eq!(too_long.to_string(), "setData /q/a: QuotaExceeded (-125)");
    let multi = client.multi().check("/q", None).set_data("/q/a", &[0; 11], None);
    let error = multi.send().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::RolledBack { index: 1, .. }), "{error}");
    client.set_data("/q/a", [0; 10], None).await.unwrap();
}

/// First release that rejects what exceeds a quota. Older ones log it.
const ENFORCED_QUOTAS: (u32, u32) = (3, 7);

#[tokio::test(flavor = "multi_thread")]
async fn reconfig_removes_and_adds_members() {
    let settings = Settings::default()
        .tick_ms(500)
        .config("reconfigEnabled", "true")
        .jvm_flag("-Dzookeeper.skipACL=yes");
    let Some(ensemble) = or_skip(settings.start_ensemble(3)) else { return };
    let leader = ensemble.leader().unwrap();
    let leaving = ensemble.follower().unwrap();
    let address = ensemble.server(leader).address().to_string();
    let client = connect(&address, Duration::from_secs(5)).await;
    client.create("/abcdefghi", b"", CreateMode::Persistent).await.unwrap();
    let inside = client.chroot("/abcdefghi").unwrap();
    let (config, changed) = inside.get_config_and_watch().await.unwrap();
    assert_eq!(config.members.len(), 3, "{}", config.text);
    for server in ensemble.servers() {
        let servers = config.connect_string().unwrap();
        assert!(servers.contains(&server.address().to_string()), "{servers}");
    }
    let old = inside.reconfig(&[], &[1], Some(Zxid(config.zxid.0 + 1))).await;
    assert_eq!(refusal(old), Some(ErrorCode::BAD_VERSION));
    let bad = inside.reconfig(&["server.9=nonsense"], &[], None).await;
    assert_eq!(refusal(bad), Some(ErrorCode::BAD_ARGUMENTS));

    let gone = config.members.iter().find(|member| {
        member.client_address == Some(ensemble.server(leaving).address().to_string())
    });
    let id = gone.unwrap().id;
    let now = inside.reconfig(&[], &[id], Some(config.zxid)).await.unwrap();
    assert!(now.zxid > config.zxid && now.members.len() == 2, "{}", now.text);
    assert_eq!(changed.await.unwrap().path, "/zookeeper/config");
    let members: Vec<&str> =
        config.text.lines().filter(|line| line.starts_with("server.")).collect();
    let back = client.reconfig_members(&members, None).await;
    // The third server may or may not have caught up yet.
    match back {
        Ok(config) => assert_eq!(config.members.len(), 3),
        Err(error) => assert_eq!(error.code(), Some(ErrorCode::NEW_CONFIG_NO_QUORUM), "{error}"),
    }
    let config = client.get_config().await.unwrap();
    client.update_servers(&config.connect_string().unwrap()).unwrap();
}

/// A server with a raised `jute.maxbuffer`, and null as data.
#[tokio::test(flavor = "multi_thread")]
async fn larger_requests_are_sent_if_the_client_is_told() {
    let settings = Settings::default().jvm_flag("-Djute.maxbuffer=3000000");
    let Some(server) = zookeeper_with(&settings) else { return };
    let config = Config::new(&server.connect_string()).unwrap().max_request_len(3_000_000);
    let client = config.connect().await.unwrap();
    let large = vec![7; 2_900_000];
    client.create("/big", &large, CreateMode::Persistent).await.unwrap();
    assert_eq!(client.get_data("/big").await.unwrap().data, large);
    let error = client.set_data("/big", vec![7; 3_000_000], None).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { max: 3_000_000, .. }), "{error}");

    client.set_null_data("/big", None).await.unwrap();
    client.create_builder("/null").null_data().create().await.unwrap();
    client.create("/empty", b"", CreateMode::Persistent).await.unwrap();
    for (path, is_null) in [("/big", true), ("/null", true), ("/empty", false)] {
        assert_eq!(client.get_data(path).await.unwrap().is_null, is_null, "{path}");
    }
}

/// A request of exactly `jute.maxbuffer` is accepted, and a request with one byte more is not sent.
/// An answer may be larger, up to the client's own limit.
#[tokio::test(flavor = "multi_thread")]
async fn frame_limits_apply_to_requests_and_answers() {
    let (Some(server), Some(client)) = (shared_zookeeper(), client("mebibyte").await) else {
        return;
    };
    let mode = CreateMode::Persistent;
    let error = client.create("/big", vec![7; 1 << 20], mode).await.unwrap_err();
    let ErrorKind::TooLarge { len, max } = *error.kind() else { panic!("{error}") };
    let largest = vec![7; (1 << 20) - (len - max)];
    let error = client.create("/big", [&largest[..], &[7]].concat(), mode).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::TooLarge { len, max } if *len == max + 1), "{error}");
    assert_eq!(error.outcome(), Outcome::NotApplied);
    client.create("/big", &largest, mode).await.unwrap();
    assert_eq!(client.get_data("/big").await.unwrap().data, largest);

    client.create("/many", b"", mode).await.unwrap();
    let name = "n".repeat(10_000);
    let create = |nth| client.create(&format!("/many/{name}{nth:03}"), b"", mode);
    let created: Vec<_> = (0..120).map(create).collect();
    for created in created {
        created.await.unwrap();
    }
    let children = client.get_children("/many").await.unwrap();
    assert_eq!(children.names.len(), 120, "in an answer of 1.2 MB");
    let config = Config::new(&(server.connect_string() + "/mebibyte")).unwrap();
    let narrow: Client = config.max_frame_len(1 << 20).connect().await.unwrap();
    let error = narrow.get_children("/many").await.unwrap_err();
    let ErrorKind::ReplyTooLarge { len, max } = *error.kind() else { panic!("{error}") };
    assert!(
        len > 1_200_000 && max == 1 << 20 && error.retry_on() != RetryOn::SameSession,
        "{error}"
    );
    assert!(narrow.exists("/many").await.unwrap().is_some());
}
