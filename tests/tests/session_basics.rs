//! Tests of the client against a real server: limits and settings of a server, and watches.
//!
//! The server of `zk-testing` answers like a real one (`conformance.rs`). So all else is tested on that one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "helpers of tests, which clippy does not take for tests"
)]

use std::net::SocketAddr;
use std::time::Duration;

use zk_recipes::session::{
    Client, Config, CreateMode, Error, ErrorCode, ErrorKind, EventType, Outcome, RetryOn,
    WatchStream, WatchStreamItem, Zxid,
};
use zk_testing::{Cut, FaultProxy};
use zk_tests::{
    Settings, Standalone, connect, open, release, shared_zookeeper, zookeeper, zookeeper_with,
};

fn refusal<T>(result: Result<T, Error>) -> Option<ErrorCode> {
    result.err().and_then(|error| error.code())
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

const CREATED: EventType = EventType::NODE_CREATED;
const DELETED: EventType = EventType::NODE_DELETED;
const CHANGED: EventType = EventType::NODE_DATA_CHANGED;
const CHILDREN: EventType = EventType::NODE_CHILDREN_CHANGED;

/// A server of 3.8 cannot do this alone: it keeps one kind of watch per path (ZOOKEEPER-4466).
#[tokio::test(flavor = "multi_thread")]
async fn watches_of_all_kinds_on_one_node_survive_reconnect() {
    let Some(server) = zookeeper() else { return };
    let (proxy, client) = through_proxy(&server).await;
    let other = open(&server.connect_string()).await;
    other.create("/a", b"", CreateMode::Persistent).await.unwrap();
    for is_cut in [false, true] {
        let mut one = client.watch("/a").await.unwrap();
        let mut all = client.watch_recursive("/a").await.unwrap();
        let (_, data) = client.get_data_and_watch("/a").await.unwrap();
        let (_, children) = client.get_children_and_watch("/a").await.unwrap();
        if is_cut {
            proxy.cut_all(Cut::Rst);
            for stream in [&mut one, &mut all] {
                assert_eq!(stream.next().await.unwrap().unwrap(), WatchStreamItem::Gap);
            }
            client.get_data("/a").await.unwrap(); // answered after all watches are set
        }
        other.set_data("/a", b"", None).await.unwrap();
        other.create("/a/b", b"", CreateMode::Persistent).await.unwrap();
        assert_eq!(data.await.unwrap().event_type, CHANGED);
        assert_eq!(children.await.unwrap().event_type, CHILDREN);
        told(&mut one, CHANGED, "/a").await;
        told(&mut one, CHILDREN, "/a").await;
        told(&mut all, CHANGED, "/a").await;
        told(&mut all, CREATED, "/a/b").await;
        other.delete("/a/b", None).await.unwrap();
        told(&mut all, DELETED, "/a/b").await;
    }
}

async fn told(stream: &mut WatchStream, event_type: EventType, path: &str) {
    let WatchStreamItem::Changed(news) = stream.next().await.unwrap().unwrap() else {
        panic!("a gap instead of a change of {path}");
    };
    assert_eq!((news.event_type, &*news.path), (event_type, path));
}

async fn through_proxy(server: &Standalone) -> (FaultProxy, Client) {
    let address: SocketAddr = server.connect_string().parse().unwrap();
    let proxy = FaultProxy::in_front_of(address).await.unwrap();
    let client = open(&proxy.address().to_string()).await;
    (proxy, client)
}

/// Opens a session on the shared server, below a chroot of the calling test.
async fn client(chroot: &str) -> Option<Client> {
    let server = shared_zookeeper()?;
    let chroot = format!("/{chroot}");
    let outside = open(&server.connect_string()).await;
    outside.create(&chroot, b"", CreateMode::Persistent).await.unwrap();
    outside.close().await;
    Some(open(&(server.connect_string() + &chroot)).await)
}
