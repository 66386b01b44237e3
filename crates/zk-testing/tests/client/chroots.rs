//! Tests of handles with a chroot.

use zk_session::{
    Acl, Client, Config, CreateMode, ErrorCode, ErrorKind, EventType, ParentMode, PathError, Perms,
    SessionManager, WatchStreamItem,
};
use zk_testing::TestServer;

use crate::in_memory::{connected, cut_and_reconnect};

async fn with_nodes(paths: &[&str]) -> (TestServer, Client) {
    let (server, [client]) = connected().await;
    for path in paths {
        client.create(path, b"", CreateMode::Persistent).await.unwrap();
    }
    (server, client)
}

#[tokio::test(start_paused = true)]
async fn chroot_is_added_to_paths_and_removed_from_answers() {
    for is_in_connect_string in [false, true] {
        let (server, outside) = with_nodes(&["/a", "/a/b", "/apple"]).await;
        let inside = if is_in_connect_string {
            let config = Config::new("server-0:1,server-0:2/a/b").unwrap().seed(2);
            config.connector(server.clone()).connect().await.unwrap()
        } else {
            outside.chroot("/a").unwrap().chroot("/b").unwrap()
        };
        let (_, root) = inside.get_children_and_watch("/").await.unwrap();
        let created = inside.create("/n", b"x", CreateMode::Ephemeral).await.unwrap();
        assert_eq!((created.path.as_str(), root.await.unwrap().path.as_str()), ("/n", "/"));
        assert!(outside.exists("/a/b/n").await.unwrap().is_some());
        let numbered = inside.create("/", b"", CreateMode::EphemeralSequential).await.unwrap();
        assert_eq!(numbered.path, "/0000000001", "below the chroot, and not beside it");
        assert_eq!(inside.get_children("/").await.unwrap().names.len(), 2);
        assert_eq!(outside.chroot("/").unwrap().get_children("/a").await.unwrap().names.len(), 1);
        inside.set_data("/", b"of b", None).await.unwrap();
        assert_eq!(&outside.get_data("/a/b").await.unwrap().data[..], b"of b");
        inside.check("/n", Some(0)).await.unwrap();
        inside.sync("/").await.unwrap();
        assert!(inside.delete_guaranteed("/0000000001").await.unwrap());
        inside.delete_protected_guaranteed("/", "n");
        inside.sync("/").await.unwrap();
        while inside.exists("/n").await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn chroot_is_created_when_a_session_opens() {
    let (server, outside) = with_nodes(&["/app"]).await;
    let config = || Config::new("server-0:1/app/of/mine").unwrap().connector(server.clone());
    let client = config().seed(2).connect().await.unwrap();
    let error = client.create("/n", b"", CreateMode::Persistent).await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NO_NODE));
    let client = config().seed(3).create_chroot().connect().await.unwrap();
    client.create("/n", b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(outside.exists("/app/of/mine/n").await.unwrap().unwrap().ephemeral_owner.0, 0);

    let sessions = SessionManager::start(config().seed(4).create_chroot()).unwrap();
    sessions.open_client().await.unwrap().get_data("/n").await.unwrap();
    // The next session creates it again.
    outside.delete("/app/of/mine/n", None).await.unwrap();
    outside.delete("/app/of/mine", None).await.unwrap();
    let last = sessions.client();
    server.expire(last.session_id());
    last.wait_for_end().await;
    sessions.open_client().await.unwrap().create("/n", b"", CreateMode::Ephemeral).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn existing_chroot_needs_no_permission_to_create_it() {
    let (server, outside) = with_nodes(&["/app", "/app/mine"]).await;
    outside.set_acl("/app", &[Acl::world(Perms::READ)], None).await.unwrap();
    let config = |chroot: &str| {
        let config = Config::new(&format!("server-0:1{chroot}")).unwrap().create_chroot();
        config.connector(server.clone()).connect()
    };
    let client = config("/app/mine").await.unwrap();
    client.create("/n", b"", CreateMode::Persistent).await.unwrap();
    // A new server does not tell whether a node exists that the client may not read.
    let create = [Acl::world(Perms::CREATE)];
    outside.set_acl("/app/mine", &create, None).await.unwrap();
    config("/app/mine").await.unwrap();
    let error = config("/app/other").await.unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::NO_AUTH), "{error}");
    assert!(error.to_string().contains("/app/other"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn event_paths_are_relative_to_chroot() {
    let (server, outside) = with_nodes(&["/a", "/a/b"]).await;
    let inside = outside.chroot("/a").unwrap();
    let (_, changed) = inside.get_data_and_watch("/b").await.unwrap();
    let (_, listed) = inside.get_children_and_watch("/").await.unwrap();
    let mut all = inside.watch_recursive("/").await.unwrap();

    cut_and_reconnect(&server, &outside).await; // re-registered watches have the chroot (ZOOKEEPER-961)
    assert_eq!(all.next().await.unwrap().unwrap(), WatchStreamItem::Gap);
    outside.set_data("/a/b", b"x", None).await.unwrap();
    assert_eq!(changed.await.unwrap().path, "/b");
    let Some(Ok(WatchStreamItem::Changed(event))) = all.next().await else { panic!() };
    assert_eq!((event.event_type, event.path.as_str()), (EventType::NODE_DATA_CHANGED, "/b"));
    outside.create("/a/c", b"", CreateMode::Persistent).await.unwrap();
    assert_eq!(listed.await.unwrap().path, "/");
}

#[tokio::test(start_paused = true)]
async fn error_messages_contain_path_relative_to_chroot() {
    let (_server, outside) = with_nodes(&["/a"]).await;
    let inside = outside.chroot("/a").unwrap();
    let error = inside.get_data("/none").await.unwrap_err();
    assert_eq!(error.to_string(), "getData /none: NoNode (-101)");
    let error = inside.get_data("/x//y").await.unwrap_err();
    assert_eq!(error.to_string(), r#"getData: path "/x//y" has an empty component (at byte 3)"#);
    for path in ["", "a", "/a/", "/a/../b"] {
        let error = inside.chroot(path).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::InvalidPath(PathError { .. })), "{error}");
        assert!(error.to_string().starts_with(&format!("chroot: path \"{path}\" ")), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn root_of_chroot_cannot_be_deleted() {
    let (_server, outside) = with_nodes(&["/a"]).await;
    let inside = outside.chroot("/a").unwrap();
    let bad = Some(ErrorCode::BAD_ARGUMENTS);
    assert_eq!(inside.delete("/", None).await.unwrap_err().code(), bad);
    assert_eq!(inside.delete_guaranteed("/").await.unwrap_err().code(), bad);
    assert!(outside.exists("/a").await.unwrap().is_some());
}

/// A chroot ends with a whole path component: `/apple` is not below `/a`.
#[tokio::test(start_paused = true)]
async fn ephemerals_lists_only_nodes_below_chroot() {
    let (_server, outside) = with_nodes(&["/a"]).await;
    for path in ["/a/e", "/a/eel", "/a/f", "/apple"] {
        outside.create(path, b"", CreateMode::Ephemeral).await.unwrap();
    }
    let inside = outside.chroot("/a").unwrap();
    let listed = async |prefix| {
        let mut paths = inside.ephemerals(prefix).await.unwrap();
        paths.sort();
        paths
    };
    assert_eq!(listed("/").await, ["/e", "/eel", "/f"]);
    assert_eq!(listed("/e").await, ["/e", "/eel"]);
    assert_eq!(listed("/e/").await, [""; 0]);
    assert_eq!(outside.ephemerals("/").await.unwrap().len(), 4);
    assert_eq!(outside.ephemerals("/ ").await.unwrap(), [""; 0], "not as the server reads it");
    let error = inside.ephemerals("e").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::InvalidPath(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn ensure_path_does_not_create_missing_chroot() {
    let (_server, [outside]) = connected().await;
    let inside = outside.chroot("/nowhere").unwrap();
    for path in ["/", "/a/b"] {
        let error = inside.ensure_path(path, ParentMode::Persistent).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NO_NODE), "{error}");
    }
    assert_eq!(outside.exists("/nowhere").await.unwrap(), None);
    outside.create("/nowhere", b"", CreateMode::Persistent).await.unwrap();
    inside.ensure_path("/", ParentMode::Persistent).await.unwrap();
    inside.ensure_path("/a/b", ParentMode::Persistent).await.unwrap();
}
