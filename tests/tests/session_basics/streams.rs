//! Tests of persistent watches, and of watches that no caller needs any longer.

use std::net::SocketAddr;

use zk_recipes::session::{Client, CreateMode, EventType, WatchStream, WatchStreamItem};
use zk_testing::{Cut, FaultProxy};
use zk_tests::{Standalone, open, poll, shared_zookeeper, zookeeper};

use crate::{LIMIT, client};

const CREATED: EventType = EventType::NODE_CREATED;
const DELETED: EventType = EventType::NODE_DELETED;
const CHANGED: EventType = EventType::NODE_DATA_CHANGED;
const CHILDREN: EventType = EventType::NODE_CHILDREN_CHANGED;

#[tokio::test(flavor = "multi_thread")]
async fn persistent_watch_sees_node_and_children_across_deletion() {
    let Some(client) = client("stream-of-one").await else { return };
    let other = beside("stream-of-one").await;
    let mut stream = client.watch("/a").await.unwrap();
    change_a(&other).await;
    for event_type in [CREATED, CHANGED, CHILDREN, CHILDREN, DELETED, CREATED] {
        told(&mut stream, event_type, "/a").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn recursive_watch_sees_every_change_below_chroot() {
    let Some(client) = client("stream-of-all").await else { return };
    let other = beside("stream-of-all").await;
    let mut all = client.watch_recursive("/").await.unwrap();
    let mut below = client.watch_recursive("/a").await.unwrap();
    // With this child watch the server also reports changes of the list of children.
    client.create("/ab", b"", CreateMode::Persistent).await.unwrap();
    let (_, children) = client.get_children_and_watch("/ab").await.unwrap();
    other.create("/ab/c", b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(children.await.unwrap().event_type, CHILDREN);
    change_a(&other).await;
    told(&mut all, CREATED, "/ab").await;
    told(&mut all, CREATED, "/ab/c").await;
    for stream in [&mut all, &mut below] {
        for (event_type, path) in [
            (CREATED, "/a"),
            (CHANGED, "/a"),
            (CREATED, "/a/b"),
            (DELETED, "/a/b"),
            (DELETED, "/a"),
            (CREATED, "/a"),
        ] {
            told(stream, event_type, path).await;
        }
    }
}

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

#[tokio::test(flavor = "multi_thread")]
async fn dropped_watches_are_removed_from_server() {
    let Some(server) = zookeeper() else { return };
    let client = open(&server.connect_string()).await;
    client.create("/a", b"", CreateMode::Persistent).await.unwrap();
    let (_, data) = client.get_data_and_watch("/a").await.unwrap();
    let (_, child) = client.get_children_and_watch("/a").await.unwrap();
    let (one, all) =
        (client.watch("/b").await.unwrap(), client.watch_recursive("/c").await.unwrap());
    let count = watches(&server);
    assert!(count >= 3, "{count}");
    drop((data, child, one, all));
    poll(LIMIT, || (watches(&server) == 0).then_some(())).expect("they stay");
    // A removal that arrives too late has no effect.
    let (_, watch) = client.get_data_and_watch("/a").await.unwrap();
    drop(watch);
    client.delete("/a", None).await.unwrap();
    assert!(client.is_connected());
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_watches_survive_reconnect() {
    let Some(server) = zookeeper() else { return };
    let (proxy, client) = through_proxy(&server).await;
    let other = open(&server.connect_string()).await;
    let path = |n: usize| format!("/a-node-that-is-watched-and-has-a-long-name-{n:08}");
    let mut one_shots = Vec::new();
    let asked: Vec<_> = (0..9_000).map(|n| client.exists_and_watch(&path(n))).collect();
    for asked in asked {
        one_shots.push(asked.await.unwrap().1);
    }
    let mut streams = Vec::new();
    let asked: Vec<_> = (9_000..10_000).map(|n| client.watch(&path(n))).collect();
    for asked in asked {
        streams.push(asked.await.unwrap());
    }
    proxy.cut_all(Cut::Rst);
    for stream in &mut streams {
        assert_eq!(stream.next().await.unwrap().unwrap(), WatchStreamItem::Gap);
    }
    client.exists("/").await.unwrap();
    for n in [0, 4_500, 8_999, 9_000, 9_999] {
        other.create(&path(n), b"", CreateMode::Persistent).await.unwrap();
    }
    for n in [0, 4_500, 8_999] {
        assert_eq!((&mut one_shots[n]).await.unwrap().path, path(n));
    }
    told(&mut streams[0], CREATED, &path(9_000)).await;
    told(&mut streams[999], CREATED, &path(9_999)).await;
}

async fn change_a(other: &Client) {
    other.create("/a", b"", CreateMode::Persistent).await.unwrap();
    other.set_data("/a", b"", None).await.unwrap();
    other.create("/a/b", b"", CreateMode::Persistent).await.unwrap();
    other.delete("/a/b", None).await.unwrap();
    other.delete("/a", None).await.unwrap();
    other.create("/a", b"", CreateMode::Persistent).await.unwrap();
}

async fn told(stream: &mut WatchStream, event_type: EventType, path: &str) {
    let WatchStreamItem::Changed(news) = stream.next().await.unwrap().unwrap() else {
        panic!("a gap instead of a change of {path}");
    };
    assert_eq!((news.event_type, &*news.path), (event_type, path));
}

/// Opens another client below the chroot of a test.
async fn beside(chroot: &str) -> Client {
    open(&format!("{}/{chroot}", shared_zookeeper().unwrap().connect_string())).await
}

async fn through_proxy(server: &Standalone) -> (FaultProxy, Client) {
    let address: SocketAddr = server.connect_string().parse().unwrap();
    let proxy = FaultProxy::in_front_of(address).await.unwrap();
    let client = open(&proxy.address().to_string()).await;
    (proxy, client)
}

/// Returns the number of watches of all clients in the server's table of data watches.
fn watches(server: &Standalone) -> usize {
    server.four_letter("wchp").unwrap().matches("0x").count()
}
