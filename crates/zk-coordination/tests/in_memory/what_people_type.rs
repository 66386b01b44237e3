//! The first guesses of people who know Curator, kazoo or tokio: each compiles, and does what it says.

use futures::{FutureExt, Stream, StreamExt};
use zk_coordination::{Cache, PersistentNode};
use zk_recipes::session::{Client, CreateMode, ErrorCode, NodeData, ParentMode, Zxid};
use zk_recipes::{Mutex, RwLock, SharedValue};
use zk_testing::Op;

use crate::{clients, sessions_and_client};

fn is_stream<S: Stream>(stream: S) -> S {
    stream
}

#[tokio::test(start_paused = true)]
async fn data_is_whatever_has_bytes() {
    let (_server, sessions, client) = sessions_and_client().await;
    let (owned, bytes) = (String::from("1"), vec![b'2']);
    client.create("/n", "0", CreateMode::Persistent).await.unwrap();
    client.set_data("/n", &owned, None).await.unwrap();
    client.set_data("/n", owned.clone(), None).await.unwrap();
    client.set_data("/n", &bytes, None).await.unwrap();
    client.set_data("/n", [b'3'], None).await.unwrap();
    client.multi().set_data("/n", "4", None).set_data("/n", &owned, None).send().await.unwrap();
    client.create_builder("/b").data(&owned).create().await.unwrap();
    SharedValue::new(&client, "/v", &owned).unwrap().set(&bytes).await.unwrap();
    let node = PersistentNode::builder(&sessions, "/p").data(&owned).start().unwrap();
    node.close().await.unwrap();

    let node: NodeData = client.get_data("/n").await.unwrap();
    let number: u32 = std::str::from_utf8(&node.data).unwrap().parse().unwrap();
    assert_eq!((number, node.is_null), (1, false));
    client.set_null_data("/n", None).await.unwrap();
    let null = client.get_data("/n").await.unwrap();
    assert_eq!((&null.data[..], null.is_null, null.nullable()), (&b""[..], true, None));
}

#[tokio::test(start_paused = true)]
async fn names_are_iterated_as_text() {
    let (_server, [client]) = clients().await;
    client.create("/n", "", CreateMode::Persistent).await.unwrap();
    client.create("/n/a", "", CreateMode::Persistent).await.unwrap();
    let children = client.get_children("/n").await.unwrap();
    for name in &children.names {
        assert_eq!(name, "a");
    }
    for name in children.names {
        assert_eq!(format!("/n/{name}"), "/n/a");
    }
}

#[tokio::test(start_paused = true)]
async fn builder_is_stored_and_spawned() {
    let (server, [client]) = clients().await;
    let path = String::from("/a/b");
    let create = client.create_builder(&path).data(&path).parents(ParentMode::Persistent);
    let (spawned, again) = (tokio::spawn(create.clone().create()), create.or_set_data());
    drop(path);
    let created = spawned.await.unwrap().unwrap();
    let written = again.data("new").create().await.unwrap();
    assert_eq!((created.path, written.stat.version), ("/a/b".to_owned(), 1));
    assert_eq!(client.get_data("/a/b").await.unwrap().data, "new");
    assert_eq!(server.tree("/a"), "/a\n/a/b \"new\"\n");
}

#[tokio::test(start_paused = true)]
async fn set_creates_a_node_that_was_deleted_meanwhile() {
    let (server, [client]) = clients().await;
    let set = || client.create_builder("/n").data("x").or_set_data().create();
    // As if another client deleted the node between the two requests.
    server.on(Op::Create2).answer(ErrorCode::NODE_EXISTS);
    assert_eq!(set().await.unwrap().stat.version, 0);
    assert_eq!(set().await.unwrap().stat.version, 1);
    server.on(Op::SetData).always().answer(ErrorCode::NO_NODE);
    assert!(set().await.unwrap_err().is_no_node(), "it does not go on for ever");
}

#[tokio::test(start_paused = true)]
async fn delete_recursive_deletes_everything_below() {
    let (server, [client]) = clients().await;
    for n in 0..250 {
        let node = client.create_builder(format!("/a/{}/{n}", n % 7));
        node.parents(ParentMode::Persistent).create().await.unwrap();
    }
    client.create("/b", "", CreateMode::Persistent).await.unwrap();
    client.delete_recursive("/a").await.unwrap();
    assert_eq!(server.tree("/"), "/\n/b\n");
    client.delete_recursive("/b").await.unwrap();
    assert!(client.delete_recursive("/b").await.unwrap_err().is_no_node());
}

#[tokio::test(start_paused = true)]
async fn delete_recursive_deletes_nodes_created_meanwhile() {
    let (server, [client, other]) = clients().await;
    client.create_builder("/a/b").parents(ParentMode::Persistent).create().await.unwrap();
    let busy = async {
        for n in 0..3 {
            other.create(&format!("/a/{n}"), "", CreateMode::Persistent).await.unwrap();
        }
    };
    let (deleted, ()) = tokio::join!(client.delete_recursive("/a"), busy);
    deleted.unwrap();
    assert_eq!(server.tree("/a"), "");
}

#[tokio::test(start_paused = true)]
async fn reply_has_a_zxid() {
    let (_server, [client]) = clients().await;
    let (created, zxid) =
        client.create("/n", "", CreateMode::Persistent).with_zxid().await.unwrap();
    assert_eq!(zxid, Some(created.stat.czxid));
    let (node, zxid) = client.get_data("/n").with_zxid().await.unwrap();
    assert_eq!((node.stat, zxid), (created.stat, Some(created.stat.czxid)));
    let (missing, zxid): (_, Option<Zxid>) = client.exists("/m").with_zxid().await.unwrap();
    assert_eq!((missing, zxid), (None, None));
    client.get_data("/m").with_zxid().await.unwrap_err();
}

#[tokio::test(start_paused = true)]
async fn subscriptions_are_streams() {
    let (_server, sessions, client) = sessions_and_client().await;
    client.create("/n", "", CreateMode::Persistent).await.unwrap();
    let mut watch = is_stream(client.watch("/n").await.unwrap());
    let (mut changes, mut events) = (is_stream(sessions.changes()), is_stream(client.events()));
    let cache = Cache::tree(&sessions, "/n").open().await.unwrap();
    let mut cached = is_stream(cache.changes());
    assert!(StreamExt::next(&mut events).now_or_never().is_none());
    assert!(StreamExt::next(&mut changes).now_or_never().is_none());

    client.set_data("/n", "1", None).await.unwrap();
    assert!(StreamExt::next(&mut watch).await.unwrap().is_ok());
    assert!(StreamExt::next(&mut cached).await.is_some());
    sessions.close().await;
    assert!(StreamExt::next(&mut changes).await.is_some());
    assert!(StreamExt::next(&mut changes).await.is_none());
    client.close().await;
    assert_eq!(events.by_ref().count().await, 1, "the end of the session");
}

#[tokio::test(start_paused = true)]
async fn locks_are_acquired_under_other_names() {
    let (_server, [client]): (_, [Client; 1]) = clients().await;
    let lock = RwLock::new(&client, "/rw").unwrap();
    let reading = lock.read().await.unwrap();
    reading.release().await.unwrap();
    let writing = lock.write().await.unwrap();
    let token: i128 = writing.token().unwrap().into();
    assert_eq!(token >> 64, i128::from(writing.token().unwrap().czxid()));
    #[allow(deprecated, reason = "the compiler tells the name")]
    let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
    guard.release().await.unwrap();
}
