//! One host name of several servers: what is known of a server belongs to its address.

use std::net::SocketAddr;

use zk_session_core::limits::ADDRESSES_MAX;

use crate::harness::prelude::*;
use crate::read_only::{open as open_read_only, probed, probes};

pub(crate) fn address(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 2181))
}

fn both() -> [SocketAddr; 2] {
    [address(1), address(2)]
}

/// Returns a session whose only host has the name `zk`.
fn world(seed: u128) -> World {
    world_of(&["zk"], seed)
}

fn world_of(names: &[&str], seed: u128) -> World {
    let mut world = World::with(|settings| {
        settings.hosts = names.iter().map(|name| Host::new(*name, 2181)).collect();
        settings.allow_read_only = true;
        settings.seed = seed;
    });
    world.answered.insert(OpCode::Ping.code());
    world
}

/// Advances to the next attempt, and resolves the name. Returns the addresses that are to be tried.
fn resolve(world: &mut World, found: &[SocketAddr]) -> Vec<SocketAddr> {
    world.advance_to_attempt();
    world.session.handle_resolved(found.to_vec());
    world.settle();
    world.attempts().pop().unwrap().1.addresses().to_vec()
}

/// Lets one of the addresses accept the next attempt. Returns it.
fn reach_nth(world: &mut World, found: &[SocketAddr], n: usize) -> SocketAddr {
    let order = resolve(world, found);
    world.session.handle_accepted(Some(order[n].ip()));
    world.open();
    order[n]
}

/// Lets the first of the addresses accept the next attempt. Returns it.
pub(crate) fn reach(world: &mut World, found: &[SocketAddr]) -> SocketAddr {
    reach_nth(world, found, 0)
}

/// Serves the session for a while, and loses the connection.
fn serve(world: &mut World) {
    world.respond(&acceptance(6000));
    world.advance(ms(2000));
    world.cut();
}

#[test]
fn read_only_session_moves_to_the_writable_address_of_its_name() {
    for seed in 0..8 {
        let mut world = world(seed);
        let first = resolve(&mut world, &both())[0];
        world.session.handle_accepted(Some(first.ip()));
        open_read_only(&mut world);
        assert!(world.session.is_read_only());
        world.advance(T);
        let (_, other) = probes(&world).swap_remove(0);
        assert!(other.addresses().len() == 1 && other.addresses()[0] != first);
        probed(&mut world, &other, ProbeAnswer::ReadWrite);
        assert_eq!(resolve(&mut world, &both()), other.addresses(), "and no other beside it");
        world.bring_up();
        assert!(!world.session.is_read_only());
    }
}

#[test]
fn address_of_a_server_that_closes_or_hangs_waits_for_others() {
    for (hangs, seed) in (0..8).flat_map(|seed| [(false, seed), (true, seed)]) {
        let mut world = world(seed);
        let all = [address(1), address(2), address(3)];
        let first = reach(&mut world, &all);
        if hangs {
            world.advance(T / 2);
        } else {
            world.cut();
        }
        let order = resolve(&mut world, &[all[2], all[1], all[0]]); // in another order
        assert!(order.len() == 2 && !order.contains(&first), "{order:?}, {first}");
        world.cut_for(unreachable());
        assert_eq!(resolve(&mut world, &[address(4)]), [address(4)], "the others left the name");
    }
}

#[test]
fn address_that_serves_is_preferred_to_one_that_closes() {
    let mut world = world(1);
    let serves = reach(&mut world, &both());
    serve(&mut world);
    assert_ne!(reach(&mut world, &both()), serves, "it was not tried yet");
    world.cut();
    for _ in 0..4 {
        assert_eq!(reach(&mut world, &both()), serves);
        serve(&mut world);
    }
}

fn name_tried(world: &World) -> String {
    world.attempts().last().unwrap().1.name().to_owned()
}

/// All of them were tried at once.
#[test]
fn name_without_an_open_port_gives_its_turn_to_another_name() {
    for seed in 0..8 {
        let mut world = world_of(&["a", "b"], seed);
        resolve(&mut world, &[address(1), address(2), address(3)]);
        let first = name_tried(&world);
        world.cut_for(unreachable());
        resolve(&mut world, &[address(4)]);
        assert_ne!(name_tried(&world), first);
    }
}

/// The address that never accepts a connection is no reason to try its name again and again.
#[test]
fn name_whose_working_server_closes_gives_its_turn_to_others() {
    for seed in 0..8 {
        let mut world = world_of(&["a", "b"], seed);
        let mut names = Vec::new();
        for _ in 0..12 {
            world.advance_to_attempt();
            let found = if name_tried(&world) == "a" { both().to_vec() } else { vec![address(3)] };
            let order = resolve(&mut world, &found);
            world.session.handle_accepted(order.iter().max().map(SocketAddr::ip));
            world.open();
            world.cut();
            names.push(name_tried(&world));
        }
        for name in ["a", "b"] {
            let lasts = names[6..].iter().filter(|tried| *tried == name).count();
            assert!(lasts >= 2, "seed {seed}: {names:?}");
        }
    }
}

/// Otherwise each reconnect waits for an address that drops packets.
#[test]
fn address_that_was_passed_over_is_not_tried_first_again() {
    let mut world = world(1);
    let reached = reach_nth(&mut world, &both(), 1);
    serve(&mut world);
    assert_eq!(resolve(&mut world, &both()), [reached]);
}

/// For example `localhost`, of which a server listens on one address.
#[test]
fn address_that_was_passed_over_hides_no_refusal() {
    let mut world = crate::sasl::world_of(1);
    reach_nth(&mut world, &both(), 1);
    world.respond(&acceptance(30_000));
    crate::sasl::reject(&mut world);
    assert_eq!(world.end(), Some(SessionEnd::AuthFailed));
}

/// Its answers and its TLS handshake are of one server.
#[test]
fn failure_behind_a_connection_is_that_of_one_address() {
    let mut world = world(1);
    let first = resolve(&mut world, &both());
    world.cut_for(DisconnectReason::Tls(TlsFailure::UnknownIssuer));
    assert_eq!(resolve(&mut world, &both()), [first[1]]);
    assert!(!world.log.iter().any(|(_, seen)| matches!(seen, Seen::Refused(_))));
}

/// As behind a translation of addresses.
#[test]
fn servers_of_one_address_are_told_by_their_order() {
    let ports = [1, 2].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
    let mut world = world(1);
    let first = reach(&mut world, &ports);
    world.cut();
    assert_ne!(reach(&mut world, &ports), first);
}

#[test]
fn two_server_lists_in_a_row_keep_the_connection_known() {
    let mut world = world(1);
    reach(&mut world, &both());
    world.respond(&acceptance(6000));
    let here = Host::new("zk", 2181);
    world.session.update_servers(world.instant(), vec![Host::new("new", 1)]);
    let both = vec![Host::new("other", 1), here.clone(), Host::new("another", 1)];
    world.session.update_servers(world.instant(), both);
    world.settle();
    world.tick();
    if world.session.is_connected() {
        assert_eq!(world.stats().connected_to, Some(here));
    }
}

#[test]
fn addresses_of_a_name_are_limited_and_failed_ones_give_way() {
    let mut world = world(1);
    let many: Vec<SocketAddr> = (1..=200).map(address).collect();
    let first = resolve(&mut world, &many);
    world.cut_for(unreachable());
    let second = resolve(&mut world, &many);
    assert_eq!([first.len(), second.len()], [ADDRESSES_MAX; 2]);
    assert!(second[1..].iter().all(|it| !first.contains(it)), "{second:?}, {first:?}");
}

#[test]
fn server_list_keeps_what_is_known_of_addresses() {
    let mut world = world(1);
    let first = reach(&mut world, &both());
    world.cut();
    let other = reach(&mut world, &both());
    assert_ne!(first, other);
    world.respond(&acceptance(6000));
    let list = vec![Host::new("zk", 2181)];
    assert_eq!(world.session.servers(), list, "named once");
    world.session.update_servers(world.instant(), list.clone());
    world.settle();
    assert!(world.session.is_connected());
    assert_eq!(world.stats().connected_to, Some(list[0].clone()));
    world.advance(ms(2000));
    world.cut();
    assert_eq!(resolve(&mut world, &both())[0], other, "a close after a while is no fault");
}

#[test]
fn late_answer_of_the_resolver_changes_nothing() {
    let mut world = world(1);
    reach(&mut world, &[address(1)]);
    let attempts = world.attempts().len();
    world.session.handle_resolved(vec![address(2)]);
    world.settle();
    world.session.handle_accepted(Some(address(2).ip()));
    assert_eq!(world.attempts().len(), attempts);
    world.respond(&acceptance(6000));
    assert!(world.session.is_connected());
    world.cut();
    world.session.handle_resolved(vec![address(2)]);
    world.settle();
    assert_eq!(world.cause(), DisconnectReason::ClosedByServer);
}
