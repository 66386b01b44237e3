//! Tests of the client's watches with servers of both releases, and of the requests they cause.

use zk_session::{
    Config, CreateMode, Error, ErrorKind, EventType, Limit, Outcome, SessionEnd, WatchKind,
    WatchStream, WatchStreamItem,
};
use zk_testing::{Cut, Settings, TestServer, Version};

use crate::in_memory::{client_of, connected, cut_and_reconnect};

#[tokio::test(start_paused = true)]
async fn watches_of_all_kinds_fire_before_and_after_reconnect() {
    for version in [Version::V3_8, Version::V3_9] {
        let server = TestServer::in_memory_with(Settings::new().version(version));
        let (client, other) = (client_of(&server, 0).await, client_of(&server, 0).await);
        other.create("/a", b"", CreateMode::Persistent).await.unwrap();
        for is_cut in [false, true] {
            let (_, data) = client.get_data_and_watch("/a").await.unwrap();
            let (_, children) = client.get_children_and_watch("/a").await.unwrap();
            let mut one = client.watch("/a").await.unwrap();
            let mut all = client.watch_recursive("/a").await.unwrap();
            let (_, exists) = client.exists_and_watch("/a").await.unwrap();
            let (_, absent) = client.exists_and_watch("/none").await.unwrap();
            if is_cut {
                cut_and_reconnect(&server, &client).await;
                client.exists("/").await.unwrap(); // all watches are set again before this
                assert_eq!(one.next().await.unwrap().unwrap(), WatchStreamItem::Gap);
                assert_eq!(all.next().await.unwrap().unwrap(), WatchStreamItem::Gap);
            }
            other.set_data("/a", b"", None).await.unwrap();
            other.create("/a/b", b"", CreateMode::Persistent).await.unwrap();
            other.delete("/a/b", None).await.unwrap();
            assert_eq!(data.await.unwrap().event_type, EventType::NODE_DATA_CHANGED);
            assert_eq!(exists.await.unwrap().event_type, EventType::NODE_DATA_CHANGED);
            assert_eq!(children.await.unwrap().event_type, EventType::NODE_CHILDREN_CHANGED);
            assert_eq!(next(&mut one).await, EventType::NODE_DATA_CHANGED);
            assert_eq!(next(&mut one).await, EventType::NODE_CHILDREN_CHANGED);
            assert_eq!(next(&mut all).await, EventType::NODE_DATA_CHANGED);
            assert_eq!(next(&mut all).await, EventType::NODE_CREATED);
            assert_eq!(next(&mut all).await, EventType::NODE_DELETED);
            other.create("/none", b"", CreateMode::Persistent).await.unwrap();
            assert_eq!(absent.await.unwrap().event_type, EventType::NODE_CREATED);
            other.delete("/none", None).await.unwrap();
        }
        let (_, last) = client.get_data_and_watch("/a").await.unwrap();
        client.close().await;
        let error = last.await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::Closed));
    }
}

#[tokio::test(start_paused = true)]
async fn watches_on_several_nodes_fire_for_their_own_kind() {
    let (_server, [client, other]) = connected().await;
    other.create("/a", b"", CreateMode::Persistent).await.unwrap();
    let since = other.create("/b", b"", CreateMode::Persistent).await.unwrap().stat.czxid;
    let nodes = [("/gone", WatchKind::Data), ("/a", WatchKind::Data), ("/b", WatchKind::Children)];
    let (watches, set) = client.watch_nodes(&nodes, since);
    set.await.unwrap();
    other.set_data("/b", b"", None).await.unwrap();
    other.create("/b/c", b"", CreateMode::Persistent).await.unwrap();
    other.set_data("/a", b"", None).await.unwrap();
    let mut fired = Vec::new();
    for watch in watches {
        let event = watch.await.unwrap();
        fired.push((event.path, event.event_type));
    }
    let types =
        [EventType::NODE_DELETED, EventType::NODE_DATA_CHANGED, EventType::NODE_CHILDREN_CHANGED];
    let expected: Vec<_> = nodes.map(|(path, _)| path.to_owned()).into_iter().zip(types).collect();
    assert_eq!(fired, expected);
}

#[tokio::test(start_paused = true)]
async fn unread_watch_stream_reports_overflow_and_continues() {
    let (_server, [client]) = connected().await;
    client.create("/a", b"", CreateMode::Persistent).await.unwrap();
    let mut stream = client.watch("/a").await.unwrap();
    let kept = zk_session::limits::STREAM_EVENTS_KEPT;
    for _ in 0..=kept {
        client.set_data("/a", b"", None).await.unwrap();
    }
    let lost = u64::try_from(kept).unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), WatchStreamItem::Overflow { lost });
    assert_eq!(next(&mut stream).await, EventType::NODE_DATA_CHANGED);
    client.close().await;
    assert!(stream.next().await.unwrap().is_err(), "the end, once");
    assert!(stream.next().await.is_none());
}

async fn next(stream: &mut WatchStream) -> EventType {
    match stream.next().await.unwrap().unwrap() {
        WatchStreamItem::Changed(event) => event.event_type,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn watches_beyond_limit_are_refused_at_once() {
    let server = TestServer::in_memory();
    let config = Config::new("server-0:1").unwrap().max_watches(2);
    let client = config.connector(server.clone()).connect().await.unwrap();
    let refused = |error: Option<Error>| {
        let error = error.expect("it is refused");
        assert_eq!(*error.kind(), ErrorKind::LimitReached(Limit::Watches));
        assert_eq!(error.outcome(), Outcome::NotApplied);
        assert!(error.to_string().contains(" /: too many watches"), "{error}");
    };
    let (_, _one) = client.get_data_and_watch("/").await.unwrap();
    let other = client.watch("/").await.unwrap();
    // The client refuses without waiting for the disconnected server.
    let mut events = client.events();
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    events.next().await.unwrap();
    refused(client.get_data_and_watch("/").await.err());
    refused(client.exists_and_watch("/").await.err());
    refused(client.get_children_and_watch("/").await.err());
    refused(client.watch("/").await.err());
    refused(client.watch_recursive("/").await.err());
    server.accept_connects(0);
    drop(other);
    drop(client.watch("/").await.unwrap()); // the limit has room again
}
