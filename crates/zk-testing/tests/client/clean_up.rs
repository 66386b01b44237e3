//! Tests of nodes whose removal is pending while there is no connection.

use zk_session::limits::CLEAN_UPS_MAX;
use zk_session::{Client, CreateMode, ErrorCode, ErrorKind, Limit, Outcome, SessionEvent};
use zk_testing::{Cut, Op, TestServer};

use crate::in_memory::{client_of, connected, until_suspended};

/// Models 66,000 guards that are dropped during an outage.
#[tokio::test(start_paused = true)]
async fn nodes_beyond_the_limit_are_removed_after_the_outage() {
    let (server, [client]) = connected().await;
    let nodes: Vec<String> = (0..66_000).map(|n| format!("/lock-{n}")).collect();
    for chunk in nodes.chunks(10_000) {
        let made = chunk.iter().map(|path| client.create(path, b"", CreateMode::Ephemeral));
        for created in made.collect::<Vec<_>>() {
            created.await.unwrap();
        }
    }
    let left = || {
        server.with(|ensemble| {
            let names = ensemble.tree().node("/").unwrap().children();
            names.filter(|name| name.starts_with("lock-")).count()
        })
    };
    assert_eq!(left(), 66_000);

    let mut events = client.events();
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    until_suspended(&mut events).await;
    let (first, last) = nodes.split_at(65_999);
    first.iter().for_each(|path| drop(client.delete_guaranteed(path)));
    let refused = client.delete_guaranteed(&last[0]).await.unwrap_err();
    assert_eq!(*refused.kind(), ErrorKind::LimitReached(Limit::CleanUps));
    assert_eq!(refused.outcome(), Outcome::Unknown, "it is deleted, and nobody is told");
    assert!(client.is_deleting(&last[0]), "in the backlog");
    assert_eq!(client.stats().clean_up_pending, 66_000);
    assert_eq!(events.next().await, Some(SessionEvent::CleanUpBacklog { nodes: 1 }));

    server.accept_connects(0);
    assert!(matches!(events.next().await, Some(SessionEvent::Reconnected { .. })));
    let waiting = 66_000 - CLEAN_UPS_MAX;
    assert_eq!(events.next().await, Some(SessionEvent::CleanUpBacklog { nodes: waiting }));
    while client.stats().clean_up_pending > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(left(), 0);
    assert!(client.is_connected());
}

#[tokio::test(start_paused = true)]
async fn protected_node_is_not_found_below_a_missing_parent() {
    let (_server, [client]) = connected().await;
    assert_eq!(client.find_protected("/none", "_c_").await, Ok(None));
    let created = client.create_builder("/n").protected().create().await.unwrap();
    let prefix = &created.path[1..created.path.len() - 1];
    assert_eq!(client.find_protected("/", prefix).await, Ok(Some(created.clone())));
}

#[tokio::test(start_paused = true)]
async fn node_is_deleting_until_the_delete_is_confirmed() {
    let (server, [client]) = connected().await;
    create(&client, &["/a"], CreateMode::Persistent).await;
    let nodes = ["/a/plain", "/a/marked", "/a/other"];
    create(&client, &nodes, CreateMode::Ephemeral).await;
    let inside = client.chroot("/a").unwrap();
    let are =
        |client: &Client| ["/plain", "/marked", "/other", "/"].map(|path| client.is_deleting(path));

    let mut events = client.events();
    server.refuse_connects(0);
    server.connections().cut(Cut::Rst);
    until_suspended(&mut events).await;
    assert_eq!(are(&inside), [false; 4]);
    drop(client.delete_guaranteed("/a/plain"));
    drop(inside.delete_marked_guaranteed("/marked"));
    assert_eq!(are(&inside), [true, true, false, false]);
    assert_eq!(are(&client), [false; 4], "other nodes, without the chroot");
    assert!(client.is_deleting("/a/marked") && !client.is_deleting("/a"));
    assert!(!client.is_deleting("a/marked") && !inside.is_deleting(""));

    server.accept_connects(0);
    assert!(matches!(events.next().await, Some(SessionEvent::Reconnected { .. })));
    while are(&inside) != [false; 4] {
        tokio::task::yield_now().await;
    }
    for path in ["/plain", "/marked"] {
        assert_eq!(inside.exists(path).await.unwrap(), None);
    }
    assert!(inside.delete_guaranteed("/other").await.unwrap());
    assert_eq!(are(&inside), [false; 4]);
}

#[tokio::test(start_paused = true)]
async fn own_children_are_found_by_prefix() {
    let (_server, [client, other]) = connected().await;
    create(&client, &["/a", "/a/p", "/a/p/deep", "/a/px", "/a/p/n-6"], CreateMode::Persistent)
        .await;
    let own = ["/n-0", "/a/p/n-1", "/a/p/n-2", "/a/p/m", "/a/p/deep/n-3", "/a/px/n-4", "/a/n-8"];
    create(&client, &own, CreateMode::Ephemeral).await;
    create(&other, &["/a/p/n-5", "/n-7"], CreateMode::Ephemeral).await;
    let found = async |client: &Client, parent: &str, prefix: &str| {
        let mut names = client.find_own(parent, prefix).await.unwrap();
        names.sort();
        names
    };
    let inside = client.chroot("/a").unwrap();
    let below = inside.chroot("/p").unwrap();
    for (client, parent) in [(&client, "/a/p"), (&inside, "/p"), (&below, "/")] {
        assert_eq!(found(client, parent, "n-").await, ["n-1", "n-2"]);
        assert_eq!(found(client, parent, "").await, ["m", "n-1", "n-2"]);
        assert_eq!(found(client, parent, "deep").await, [""; 0]);
        assert_eq!(found(client, parent, "deep/n").await, [""; 0], "no name of a child");
    }
    assert_eq!(found(&client, "/", "n-").await, ["n-0"]);
    assert_eq!(found(&client, "/", " ").await, [""; 0]);
    assert_eq!(found(&inside, "/", "n-").await, ["n-8"]);
    assert_eq!(found(&client, "/none", "").await, [""; 0]);
    let listed = below.ephemerals("/").await.unwrap();
    let names: Vec<_> =
        listed.iter().map(|path| &path[1..]).filter(|name| !name.contains('/')).collect();
    assert_eq!(below.find_own("/", "").await.unwrap(), names, "in the order of the server");
    let error = client.find_own("/a/p/", "n-").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidPath(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn own_node_is_found_after_a_lost_reply() {
    let server = TestServer::ensemble(3);
    let client = client_of(&server, 1).await;
    create(&client, &["/p"], CreateMode::Persistent).await;
    server.next_reply_to(Op::Create2).cut_after(5, Cut::Rst);
    let create = client.create("/p/n-", b"", CreateMode::EphemeralSequential).await;
    assert_eq!(create.unwrap_err().outcome(), Outcome::Unknown);
    assert_eq!(client.find_own("/p", "n-").await.unwrap(), ["n-0000000000"]);

    // An answer from a server that may lag behind proves nothing.
    server.on(Op::Sync).answer(ErrorCode::THROTTLED_OP);
    let error = client.find_own("/p", "n-").await.unwrap_err();
    assert_eq!(error.to_string(), "sync /p: ThrottledOp (-127)");
    server.on(Op::GetEphemerals).answer(ErrorCode::UNIMPLEMENTED);
    let error = client.find_own("/p", "n-").await.unwrap_err();
    assert_eq!(error.to_string(), "getEphemerals /p/n-: Unimplemented (-6)");
}

async fn create(client: &Client, paths: &[&str], mode: CreateMode) {
    for path in paths {
        client.create(path, b"", mode).await.unwrap();
    }
}
