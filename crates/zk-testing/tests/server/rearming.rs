//! Tests of setWatches on a new connection: missed events and re-registered watches.

use proto::{EventType, SetWatches, SetWatches2, Zxid};

use crate::world::World;

const DELETED: EventType = EventType::NODE_DELETED;

#[test]
fn set_watches_sends_missed_events_and_sets_the_rest() {
    let mut world = World::new();
    let (client, watcher) = (world.connect(), world.connect());
    for path in ["/same", "/set", "/gone", "/grown"] {
        world.create(&client, path).unwrap();
    }
    let since = world.zk.zxid();
    world.set(&client, "/set", -1).unwrap();
    world.create(&client, "/grown/child").unwrap();
    world.create(&client, "/came").unwrap();
    world.delete(&client, "/gone").unwrap();

    let request = SetWatches {
        relative_zxid: since,
        data: vec!["/same".into(), "/set".into(), "/gone".into()],
        exist: vec!["/came".into(), "/absent".into()],
        child: vec!["/same".into(), "/grown".into(), "/gone".into()],
    };
    // All events precede the reply, and their zxid is -1.
    world.send(&watcher, &request);
    let (header, _) = world.reply(&watcher).unwrap();
    assert!(header.err.is_ok());
    let frames = world.event_frames(&watcher);
    assert!(frames.iter().all(|(header, _)| header.zxid == Zxid(-1)));
    let events: Vec<_> =
        frames.iter().map(|(_, event)| (event.event_type, event.path.as_str())).collect();
    assert_eq!(
        events,
        [
            (EventType::NODE_DATA_CHANGED, "/set"),
            (DELETED, "/gone"),
            (EventType::NODE_CREATED, "/came"),
            (EventType::NODE_CHILDREN_CHANGED, "/grown"),
            (DELETED, "/gone"),
        ]
    );

    assert_eq!(world.zk.watches(0), 3, "data and children of /same, existence of /absent");
    world.create(&client, "/absent").unwrap();
    world.create(&client, "/same/child").unwrap();
    world.set(&client, "/same", -1).unwrap();
    assert_eq!(world.events(&watcher).len(), 3);
}

#[test]
fn set_watches_reports_absent_node_as_deleted_from_any_zxid() {
    let mut world = World::new();
    let client = world.connect();
    for relative_zxid in [Zxid::ZERO, world.zk.zxid(), Zxid(i64::MAX)] {
        let absent = || vec!["/never".into()];
        for request in [
            SetWatches { relative_zxid, data: absent(), ..SetWatches::default() },
            SetWatches { relative_zxid, child: absent(), ..SetWatches::default() },
        ] {
            world.call(&client, &request).unwrap();
            let frames = world.event_frames(&client);
            let [(header, event)] = &frames[..] else { panic!("{frames:?}") };
            assert_eq!((header.zxid, event.event_type), (Zxid(-1), DELETED));
        }
    }
    assert_eq!(world.zk.watches(0), 0);
}

#[test]
fn set_watches2_sends_no_missed_events_of_persistent_watches() {
    let mut world = World::new();
    let (client, watcher) = (world.connect(), world.connect());
    world.create(&client, "/a").unwrap();
    let request = SetWatches2 {
        persistent: vec!["/a".into(), "/missing".into()],
        persistent_recursive: vec!["/".into()],
        ..SetWatches2::default()
    };
    world.call(&watcher, &request).unwrap();
    assert_eq!(world.events(&watcher), []);
    world.create(&client, "/missing").unwrap();
    let event = (EventType::NODE_CREATED, "/missing".to_owned());
    assert_eq!(world.events(&watcher), [event]);
}

#[test]
fn set_watches_reports_recreated_node_as_data_change() {
    let mut world = World::new();
    let (client, watcher) = (world.connect(), world.connect());
    world.create(&client, "/a").unwrap();
    let relative_zxid = world.zk.zxid();
    world.delete(&client, "/a").unwrap();
    world.create(&client, "/a").unwrap();
    let request = SetWatches { relative_zxid, data: vec!["/a".into()], ..SetWatches::default() };
    world.call(&watcher, &request).unwrap();
    let event = (EventType::NODE_DATA_CHANGED, "/a".to_owned());
    assert_eq!(world.events(&watcher), [event]);
}
