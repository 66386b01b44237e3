//! Tests of the watches that each change fires.

use proto::{
    Acl, AddWatch, AddWatchMode, AuthPacket, CheckWatches, CreateMode, ErrorCode, EventType,
    Exists, GetChildren2, GetData, Multi, OpCode, Perms, RemoveWatches, WatcherType, Zxid,
};
use zk_testing::Version;

use crate::world::{Client, World, create, set};

const CREATED: EventType = EventType::NODE_CREATED;
const DELETED: EventType = EventType::NODE_DELETED;
const DATA: EventType = EventType::NODE_DATA_CHANGED;
const CHILDREN: EventType = EventType::NODE_CHILDREN_CHANGED;

fn exists(world: &mut World, client: &Client, path: &str) {
    let _ = world.call(client, &Exists { path: path.into(), watch: true });
}

fn get_data(world: &mut World, client: &Client, path: &str) {
    world.call(client, &GetData { path: path.into(), watch: true }).unwrap();
}

fn get_children(world: &mut World, client: &Client, path: &str) {
    world.call(client, &GetChildren2 { path: path.into(), watch: true }).unwrap();
}

fn add_watch(world: &mut World, client: &Client, path: &str, mode: AddWatchMode) {
    world.call(client, &AddWatch { path: path.into(), mode }).unwrap();
}

fn seen(world: &mut World, client: &Client) -> Vec<(EventType, String)> {
    world.events(client)
}

fn event(event: EventType, path: &str) -> (EventType, String) {
    (event, path.to_owned())
}

#[test]
fn create_fires_exists_watch_and_parent_child_watch() {
    let mut world = World::new();
    let (writer, watcher) = (world.connect(), world.connect());
    exists(&mut world, &watcher, "/a");
    get_children(&mut world, &watcher, "/");
    world.create(&writer, "/a").unwrap();
    assert_eq!(seen(&mut world, &watcher), [event(CREATED, "/a"), event(CHILDREN, "/")]);
    world.create(&writer, "/b").unwrap();
    world.set(&writer, "/a", -1).unwrap();
    assert_eq!(seen(&mut world, &watcher), [], "one-shot");
}

#[test]
fn delete_sends_one_event_to_connection_with_two_watches() {
    let mut world = World::new();
    let (writer, watcher) = (world.connect(), world.connect());
    world.create(&writer, "/a").unwrap();
    get_data(&mut world, &watcher, "/a");
    get_children(&mut world, &watcher, "/a");
    get_children(&mut world, &watcher, "/");
    world.delete(&writer, "/a").unwrap();
    assert_eq!(seen(&mut world, &watcher), [event(DELETED, "/a"), event(CHILDREN, "/")]);
    assert_eq!(world.zk.watches(0), 0);
}

#[test]
fn set_data_fires_only_the_data_watch() {
    let mut world = World::new();
    let (writer, watcher) = (world.connect(), world.connect());
    world.create(&writer, "/a").unwrap();
    get_data(&mut world, &watcher, "/a");
    get_children(&mut world, &watcher, "/a");
    world.set(&writer, "/a", -1).unwrap();
    assert_eq!(seen(&mut world, &watcher), [event(DATA, "/a")]);
    assert_eq!(world.zk.watches(0), 1);
}

#[test]
fn event_of_own_write_precedes_its_reply() {
    for (version, zxid) in [(Version::V3_8, Zxid(-1)), (Version::V3_9, Zxid(3))] {
        let mut world = World::of(version);
        let client = world.connect();
        world.create(&client, "/a").unwrap();
        get_data(&mut world, &client, "/a");
        world.send(&client, &set("/a", "new", -1));
        let frame = world.frame(client.id).unwrap();
        let (header, _) = proto::ReplyHeader::split(&frame).unwrap();
        assert_eq!((header.xid, header.zxid), (-1, zxid));
        assert!(world.reply(&client).is_some());
    }
}

#[test]
fn persistent_watch_stays_and_recursive_one_covers_subtree() {
    let mut world = World::of(Version::V3_9);
    let (writer, watcher) = (world.connect(), world.connect());
    add_watch(&mut world, &watcher, "/a", AddWatchMode::Persistent);
    let recursive = world.connect();
    add_watch(&mut world, &recursive, "/", AddWatchMode::PersistentRecursive);
    for _ in 0..2 {
        world.create(&writer, "/a").unwrap();
        world.create(&writer, "/a/b").unwrap();
        world.set(&writer, "/a/b", -1).unwrap();
        world.delete(&writer, "/a/b").unwrap();
        world.delete(&writer, "/a").unwrap();
        assert_eq!(
            seen(&mut world, &watcher),
            [
                event(CREATED, "/a"),
                event(CHILDREN, "/a"),
                event(CHILDREN, "/a"),
                event(DELETED, "/a"),
            ]
        );
        assert_eq!(
            seen(&mut world, &recursive),
            [
                event(CREATED, "/a"),
                event(CREATED, "/a/b"),
                event(DATA, "/a/b"),
                event(DELETED, "/a/b"),
                event(DELETED, "/a"),
            ]
        );
    }
}

#[test]
fn watches_of_all_modes_on_a_node_give_one_event() {
    let mut world = World::of(Version::V3_9);
    let (writer, watcher) = (world.connect(), world.connect());
    world.create(&writer, "/a").unwrap();
    get_data(&mut world, &watcher, "/a");
    exists(&mut world, &watcher, "/a");
    add_watch(&mut world, &watcher, "/a", AddWatchMode::Persistent);
    add_watch(&mut world, &watcher, "/", AddWatchMode::PersistentRecursive);
    world.set(&writer, "/a", -1).unwrap();
    assert_eq!(seen(&mut world, &watcher), [event(DATA, "/a")]);
    // The one-shot watches are removed; the others stay.
    world.set(&writer, "/a", -1).unwrap();
    assert_eq!(seen(&mut world, &watcher), [event(DATA, "/a")]);
}

#[test]
fn new_watch_replaces_earlier_mode_before_3_9() {
    let mut world = World::of(Version::V3_8);
    let (writer, watcher) = (world.connect(), world.connect());
    world.create(&writer, "/a").unwrap();
    add_watch(&mut world, &watcher, "/a", AddWatchMode::Persistent);
    get_data(&mut world, &watcher, "/a");
    world.set(&writer, "/a", -1).unwrap();
    assert_eq!(seen(&mut world, &watcher), [event(DATA, "/a")]);
    world.set(&writer, "/a", -1).unwrap();
    assert_eq!(seen(&mut world, &watcher), []);
}

#[test]
fn multi_fires_one_event_per_operation_in_order() {
    let mut world = World::of(Version::V3_9);
    let (writer, watcher) = (world.connect(), world.connect());
    add_watch(&mut world, &watcher, "/", AddWatchMode::PersistentRecursive);
    let ops = [
        create("/a", CreateMode::Persistent).into(),
        set("/a", "1", 0).into(),
        proto::Delete { path: "/a".into(), version: 1 }.into(),
    ];
    world.call(&writer, &Multi::new(&ops)).unwrap();
    let frames = world.event_frames(&watcher);
    let zxids: Vec<Zxid> = frames.iter().map(|(header, _)| header.zxid).collect();
    let types: Vec<EventType> = frames.iter().map(|(_, event)| event.event_type).collect();
    assert_eq!((zxids, types), (vec![world.zk.zxid(); 3], vec![CREATED, DATA, DELETED]));
}

#[test]
fn watch_without_read_permission_is_removed_without_event() {
    let mut world = World::new();
    let (writer, watcher) = (world.connect(), world.connect());
    let auth = AuthPacket { auth_type: 0, scheme: "digest".into(), auth: Some(b"o:p"[..].into()) };
    world.call(&writer, &auth).unwrap();
    exists(&mut world, &watcher, "/a");
    world.create_with(&writer, "/a", &[Acl::digest(Perms::ALL, "o", "p")]).unwrap();
    assert_eq!(seen(&mut world, &watcher), []);
    assert_eq!(world.zk.watches(0), 0);
}

#[test]
fn closed_session_fires_watches_on_its_ephemerals() {
    let mut world = World::new();
    let (owner, watcher) = (world.connect(), world.connect());
    world.create_as(&owner, "/e", CreateMode::Ephemeral).unwrap();
    get_data(&mut world, &watcher, "/e");
    world.call(&owner, &proto::CloseSession).unwrap();
    assert_eq!(seen(&mut world, &watcher), [event(DELETED, "/e")]);
    assert!(world.closed(owner.id).is_some(), "the server closes behind the reply");
}

#[test]
fn watches_are_removed_with_their_connection() {
    let mut world = World::new();
    let client = world.connect();
    exists(&mut world, &client, "/a");
    add_watch(&mut world, &client, "/", AddWatchMode::PersistentRecursive);
    world.zk.disconnected(world.now, client.id);
    assert_eq!(world.zk.watches(0), 0);
}

#[test]
fn check_and_remove_watches_match_type_and_release() {
    let check = |world: &mut World, client: &Client, watcher_type| {
        world.call(client, &CheckWatches { path: "/a".into(), watcher_type })
    };
    let mut world = World::of(Version::V3_9);
    let client = world.connect();
    exists(&mut world, &client, "/a");
    add_watch(&mut world, &client, "/a", AddWatchMode::Persistent);
    assert_eq!(check(&mut world, &client, WatcherType::Data), Ok(()));
    assert_eq!(check(&mut world, &client, WatcherType::Children), Err(ErrorCode::NO_WATCHER));
    let remove = RemoveWatches { path: "/a".into(), watcher_type: WatcherType::Data };
    assert_eq!(world.call(&client, &remove), Ok(()));
    assert_eq!(world.call(&client, &remove), Err(ErrorCode::NO_WATCHER));
    assert_eq!(check(&mut world, &client, WatcherType::Persistent), Ok(()));
    let remove = RemoveWatches { path: "/a".into(), watcher_type: WatcherType::Any };
    assert_eq!(world.call(&client, &remove), Ok(()));
    assert_eq!(world.zk.watches(0), 0);

    let mut world = World::of(Version::V3_8);
    let client = world.connect();
    add_watch(&mut world, &client, "/a", AddWatchMode::Persistent);
    assert_eq!(check(&mut world, &client, WatcherType::Children), Ok(()), "any mode");
    let unknown = check(&mut world, &client, WatcherType::Persistent);
    assert_eq!(unknown, Err(ErrorCode::MARSHALLING_ERROR));
}

#[test]
fn watch_requests_reject_null_path() {
    // A null path and the type of a data watch.
    let body = [&(-1_i32).to_be_bytes()[..], &2_i32.to_be_bytes()].concat();
    let none = Some(ErrorCode::NO_WATCHER);
    for (version, to_check) in
        [(Version::V3_8, Some(ErrorCode::MARSHALLING_ERROR)), (Version::V3_9, none)]
    {
        let mut world = World::of(version);
        let client = world.connect();
        assert_eq!(world.call_raw(&client, OpCode::CheckWatches.code(), &body), to_check);
        assert_eq!(world.call_raw(&client, OpCode::RemoveWatches.code(), &body), none);
    }
}

#[test]
fn check_watches_finds_no_empty_path_before_3_9() {
    for (version, expected) in
        [(Version::V3_8, Err(ErrorCode::NO_WATCHER)), (Version::V3_9, Ok(()))]
    {
        let mut world = World::of(version);
        let client = world.connect();
        add_watch(&mut world, &client, "", AddWatchMode::Persistent);
        let check = CheckWatches { path: "".into(), watcher_type: WatcherType::Any };
        assert_eq!(world.call(&client, &check), expected, "{version:?}");
    }
}
