//! Deletions that outlive their connection.

use std::collections::BTreeSet;

use proto::ErrorCode;
use zk_session_core::limits::CLEAN_UPS_MAX;
use zk_session_core::{ErrorKind, SessionEvent};

use crate::harness::{Servers, T, ms};
use crate::server::{Server, World, served};

#[test]
fn clean_up_is_sent_after_earlier_creates() {
    let mut world = World::of(Server::new(&["/n"]), |_| {});
    let before = world.delete_guaranteed("/n/lock-1");
    let create = world.create("/n/lock-1");
    world.sweep("/n", "lock-");
    world.servers = Servers::Serve;
    world.tick();
    assert!(world.is_ok(create));
    assert_eq!(world.failure(before).0, ErrorKind::Server(ErrorCode::NO_NODE));
    assert!(!world.server.has_node("/n/lock-1"), "swept after it was made");
    world.finish();
}

#[test]
fn sweep_queued_while_disconnected_deletes_matching_nodes() {
    let mut world = served(&["/l", "/l/me-1", "/l/me-2", "/l/you-3"]);
    world.servers = Servers::Refuse;
    world.cut();
    world.sweep("/l", "me-");
    world.advance(ms(500));
    world.servers = Servers::Serve;
    world.advance(ms(2000));
    assert_eq!(world.server.nodes(), BTreeSet::from(["/", "/l", "/l/you-3"]));
    world.finish();
}

#[test]
fn deletes_beyond_the_task_limit_run_from_the_backlog() {
    let extra = 500;
    let nodes: Vec<String> = (0..CLEAN_UPS_MAX + extra).map(|n| format!("/n{n}")).collect();
    let paths: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut world = served(&paths);
    world.servers = Servers::Refuse;
    world.cut();
    for path in &nodes {
        world.session.delete_guaranteed(world.instant(), path, None).unwrap();
    }
    world.settle();
    assert_eq!(world.session.stats(world.instant()).clean_up_pending, CLEAN_UPS_MAX + extra);
    world.servers = Servers::Serve;
    world.advance(T / 3);
    assert_eq!(world.server.nodes(), BTreeSet::from(["/"]));
    assert_eq!(world.session.stats(world.instant()).clean_up_pending, 0);
    let told = |event: &SessionEvent| match event {
        SessionEvent::CleanUpBacklog { nodes } => Some(*nodes),
        _ => None,
    };
    let told: Vec<usize> = world.events().iter().filter_map(told).collect();
    assert_eq!(told, [1, extra], "when it began, and with the connection");
    world.finish();
}
