//! Tests of the numbers of sequential nodes.

use proto::{CreateMode, ErrorCode, Multi, MultiOp, MultiResult};

use crate::world::{Client, World, create};

fn next(world: &mut World, client: &Client, path: &str) -> Result<String, ErrorCode> {
    world.create_as(client, path, CreateMode::PersistentSequential).map(|reply| reply.path)
}

#[test]
fn sequence_number_counts_all_created_children() {
    let mut world = World::new();
    let client = world.connect();
    world.create(&client, "/p").unwrap();
    assert_eq!(next(&mut world, &client, "/p/a-").unwrap(), "/p/a-0000000000");
    world.create(&client, "/p/plain").unwrap();
    world.delete(&client, "/p/plain").unwrap();
    world.create(&client, "/p/a-0000000000").unwrap_err();
    world.set(&client, "/p/a-0000000000", -1).unwrap();
    // All prefixes share the counter. A delete, a failed create and a data change leave it
    // unchanged.
    assert_eq!(next(&mut world, &client, "/p/b-").unwrap(), "/p/b-0000000002");
    assert_eq!(next(&mut world, &client, "/p/").unwrap(), "/p/0000000003");
}

#[test]
fn failed_multi_uses_no_sequence_number() {
    let mut world = World::new();
    let client = world.connect();
    world.create(&client, "/p").unwrap();
    let sequential = || -> MultiOp<'_> { create("/p/a-", CreateMode::PersistentSequential).into() };
    let failing = [sequential(), create("/p", CreateMode::Persistent).into()];
    assert!(world.call(&client, &Multi::new(&failing)).unwrap().failure().is_some());
    let fine = [sequential(), sequential()];
    let reply = world.call(&client, &Multi::new(&fine)).unwrap();
    let paths: Vec<_> = reply
        .results
        .iter()
        .map(|result| match result {
            MultiResult::Created { path, .. } => path.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(paths, ["/p/a-0000000000", "/p/a-0000000001"]);
}

#[test]
fn sequence_counter_stops_at_maximum_but_wraps_in_multi() {
    let mut world = World::new();
    let client = world.connect();
    world.create(&client, "/p").unwrap();
    assert!(world.zk.set_sequence("/p", i32::MAX));
    let ops = [
        create("/p/a-", CreateMode::PersistentSequential).into(),
        create("/p/a-", CreateMode::PersistentSequential).into(),
    ];
    let reply = world.call(&client, &Multi::new(&ops)).unwrap();
    let MultiResult::Created { path, .. } = &reply.results[1] else { panic!("{reply:?}") };
    assert_eq!(path, "/p/a--2147483648");
    assert_eq!(next(&mut world, &client, "/p/a-"), Err(ErrorCode::NODE_EXISTS));
    let before = world.stat(&client, "/p").unwrap().pzxid;
    assert_eq!(next(&mut world, &client, "/p/b-").unwrap(), "/p/b-2147483647");
    assert_eq!(world.stat(&client, "/p").unwrap().pzxid, before, "pzxid stays too");
}

#[test]
fn negative_sequence_number_is_formatted_with_sign() {
    let mut world = World::new();
    let client = world.connect();
    world.create(&client, "/p").unwrap();
    assert!(world.zk.set_sequence("/p", -5));
    assert_eq!(next(&mut world, &client, "/p/a-").unwrap(), "/p/a--000000005");
    assert_eq!(next(&mut world, &client, "/p/a-").unwrap(), "/p/a--000000004");
    assert!(!world.zk.set_sequence("/missing", 1));
}
