//! Tests of one-shot watches.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use zk_recipes::session::{Client, CreateMode, Error, ErrorCode, EventType, RetryOn, Watch};
use zk_testing::{Cut, Direction, FaultProxy};
use zk_tests::{open, poll, shared_zookeeper, zookeeper};

use crate::{LIMIT, client};

#[tokio::test(flavor = "multi_thread")]
async fn watches_fire_for_their_kinds_of_change() {
    let Some(client) = client("kinds").await else { return };
    let other = open(&(shared_zookeeper().unwrap().connect_string() + "/kinds")).await;
    let (absent, created) = client.exists_and_watch("/a").await.unwrap();
    assert_eq!(absent, None);
    other.create("/a", b"", CreateMode::Persistent).await.unwrap();
    told(created, EventType::NODE_CREATED, "/a").await;

    let (_, by_exists) = client.exists_and_watch("/a").await.unwrap();
    let (_, by_data) = client.get_data_and_watch("/a").await.unwrap();
    other.set_data("/a", b"x", None).await.unwrap();
    told(by_exists, EventType::NODE_DATA_CHANGED, "/a").await;
    told(by_data, EventType::NODE_DATA_CHANGED, "/a").await;

    let (_, children) = client.get_children_and_watch("/a").await.unwrap();
    other.create("/a/b", b"", CreateMode::Persistent).await.unwrap();
    told(children, EventType::NODE_CHILDREN_CHANGED, "/a").await;
    let (_, children) = client.get_children_and_watch("/a").await.unwrap();
    other.delete("/a/b", None).await.unwrap();
    told(children, EventType::NODE_CHILDREN_CHANGED, "/a").await;

    let (_, by_exists) = client.exists_and_watch("/a").await.unwrap();
    let (_, by_data) = client.get_data_and_watch("/a").await.unwrap();
    let (_, children) = client.get_children_and_watch("/a").await.unwrap();
    other.delete("/a", None).await.unwrap();
    for watch in [by_exists, by_data, children] {
        told(watch, EventType::NODE_DELETED, "/a").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watch_fires_once_and_is_removed_at_server() {
    let Some(server) = zookeeper() else { return };
    let client = open(&server.connect_string()).await;
    let watches = || server.four_letter("wchp").unwrap().matches("0x").count();
    client.create("/a", b"", CreateMode::Persistent).await.unwrap();
    let (_, watch) = client.get_data_and_watch("/a").await.unwrap();
    let (_, again) = client.get_data_and_watch("/a").await.unwrap();
    assert_eq!(watches(), 1);
    client.set_data("/a", b"1", None).await.unwrap();
    told(watch, EventType::NODE_DATA_CHANGED, "/a").await;
    told(again, EventType::NODE_DATA_CHANGED, "/a").await;
    assert_eq!(watches(), 0);

    // A failed request sets no watch.
    let error = client.get_data_and_watch("/none").await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NO_NODE));
    assert_eq!(watches(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn event_is_delivered_before_answer_that_shows_its_effect() {
    let Some(client) = client("event-order").await else { return };
    let other = open(&(shared_zookeeper().unwrap().connect_string() + "/event-order")).await;
    client.create("/a", b"0", CreateMode::Persistent).await.unwrap();
    for round in 1..=100_u8 {
        let (_, mut watch) = client.get_data_and_watch("/a").await.unwrap();
        let changed = other.set_data("/a", [round], None);
        // Once the new data is visible, the event must have been delivered.
        while client.get_data("/a").await.unwrap().data != [round][..] {}
        let event = tokio::select! {
            biased;
            event = &mut watch => Some(event.unwrap()),
            () = std::future::ready(()) => None,
        };
        assert_eq!(event.unwrap().event_type, EventType::NODE_DATA_CHANGED, "round {round}");
        changed.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_during_server_restart_fire_watches_afterwards() {
    let Some(ensemble) = zk_tests::ensemble(1000) else { return };
    let away = ensemble.server(ensemble.follower().unwrap());
    let client = open(&away.connect_string()).await;
    let others: Vec<String> = ensemble
        .servers()
        .iter()
        .map(zk_tests::Server::connect_string)
        .filter(|address| *address != away.connect_string())
        .collect();
    let other = open(&others.join(",")).await;
    for path in ["/changed", "/deleted", "/parent", "/same"] {
        other.create(path, b"", CreateMode::Persistent).await.unwrap();
    }
    client.sync("/").await.unwrap();
    let data = async |path: &str| client.get_data_and_watch(path).await.unwrap().1;
    let (changed, deleted, same) =
        (data("/changed").await, data("/deleted").await, data("/same").await);
    let (_, created) = client.exists_and_watch("/created").await.unwrap();
    let (_, children) = client.get_children_and_watch("/parent").await.unwrap();

    away.kill();
    other.set_data("/changed", b"x", None).await.unwrap();
    other.delete("/deleted", None).await.unwrap();
    other.create("/created", b"", CreateMode::Persistent).await.unwrap();
    other.create("/parent/child", b"", CreateMode::Persistent).await.unwrap();
    away.restart().unwrap();

    told(changed, EventType::NODE_DATA_CHANGED, "/changed").await;
    told(deleted, EventType::NODE_DELETED, "/deleted").await;
    told(created, EventType::NODE_CREATED, "/created").await;
    told(children, EventType::NODE_CHILDREN_CHANGED, "/parent").await;
    // The reconnect causes no event, and this watch is still set.
    other.set_data("/same", b"now", None).await.unwrap();
    told(same, EventType::NODE_DATA_CHANGED, "/same").await;
    client.sync("/").await.unwrap();
    assert_eq!(client.get_data("/same").await.unwrap().data, &b"now"[..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_watches_survive_server_restart() {
    let Some(server) = zookeeper() else { return };
    let client = open(&server.connect_string()).await;
    let other = open(&server.connect_string()).await;
    // The names are long, so that the watches do not fit one frame when they are set again.
    let path = |number: usize| format!("/a-node-with-a-name-of-some-length-and-number-{number:06}");
    let created: Vec<_> = (0..WATCHES)
        .map(|number| client.create(&path(number), b"", CreateMode::Persistent))
        .collect();
    for created in created {
        created.await.unwrap();
    }
    let watched: Vec<_> =
        (0..WATCHES).map(|number| client.get_data_and_watch(&path(number))).collect();
    let mut watches = Vec::new();
    for watched in watched {
        watches.push(watched.await.unwrap().1);
    }

    server.restart().unwrap();
    client
        .sync("/")
        .await
        .unwrap_or_else(|error| assert!(error.retry_on() == RetryOn::SameSession, "{error}"));
    let count = || server.four_letter("wchs").unwrap().contains(&format!("watches:{WATCHES}"));
    poll(LIMIT, || count().then_some(())).expect("not all watches are set again");
    all_are_told(&other, watches, path).await;
}

/// The watches do not fit into one request, and the connection is lost again after the reply to the first
/// one. The Java client never hears of a change between the two zxids.
#[tokio::test(flavor = "multi_thread")]
async fn watches_are_told_if_their_registration_is_cut_in_the_middle() {
    let (Some(server), Some(other)) = (shared_zookeeper(), client("rearm-cut").await) else {
        return;
    };
    let path = |number: usize| format!("/{number:054}");
    let created: Vec<_> = (0..WATCHES)
        .map(|number| other.create(&path(number), b"", CreateMode::Persistent))
        .collect();
    for created in created {
        created.await.unwrap();
    }
    let proxy = FaultProxy::in_front_of(server.address()).await.unwrap();
    let watcher = open(&format!("{}/rearm-cut", proxy.address())).await;
    let asked: Vec<_> = (0..WATCHES).map(|n| watcher.get_data_and_watch(&path(n))).collect();
    let mut watches = Vec::new();
    for asked in asked {
        watches.push(asked.await.unwrap().1);
    }
    proxy.refuse_connects();
    proxy.cut_all(Cut::Rst);
    poll(LIMIT, || (!watcher.is_connected()).then_some(())).expect("it is still connected");
    let changed = WATCHES - 1;
    other.set_data(&path(changed), b"x", None).await.unwrap();
    proxy.cut_after(Direction::ToClient, CONNECT_REPLY + EMPTY_REPLY, Cut::Rst);
    proxy.accept_connects();
    told(watches.pop().unwrap(), EventType::NODE_DATA_CHANGED, &path(changed)).await;
    assert_eq!(watcher.stats().connections_lost, 2, "it was cut in the middle");
    // No other watch fires: their nodes are unchanged.
    watcher.sync("/").await.unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    assert!(watches.iter_mut().all(|watch| Pin::new(watch).poll(&mut cx).is_pending()));
}

async fn all_are_told(other: &Client, watches: Vec<Watch>, path: impl Fn(usize) -> String) {
    // The first request may still use the connection from before the restart.
    while other.exists("/").await.is_err() {}
    let changes: Vec<_> =
        (0..watches.len()).map(|number| other.set_data(&path(number), b"x", None)).collect();
    for change in changes {
        change.await.unwrap();
    }
    for (number, watch) in watches.into_iter().enumerate() {
        told(watch, EventType::NODE_DATA_CHANGED, &path(number)).await;
    }
}

async fn told(watch: Watch, event_type: EventType, path: &str) {
    let told: Result<_, Error> = tokio::time::timeout(LIMIT, watch)
        .await
        .unwrap_or_else(|_| panic!("nothing is told of {path}"));
    let event = told.unwrap();
    assert_eq!((event.event_type, event.path.as_str()), (event_type, path));
}

const WATCHES: usize = 4000;

/// Bytes of the reply to a connect request, and of a reply without a body, with their lengths.
const CONNECT_REPLY: usize = 41;
const EMPTY_REPLY: usize = 20;
