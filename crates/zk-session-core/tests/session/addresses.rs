//! One host name of several servers: what is known of a server belongs to its address.

use std::net::{IpAddr, SocketAddr};

use proto::{ConnectResponse, OpCode, SessionId};
use zk_session_core::limits::ADDRESSES_MAX;
use zk_session_core::{DisconnectReason, Host, ProbeAnswer, SessionEnd, TlsFailure};

use crate::harness::{Seen, T, Wire, World, ms};
use crate::script::acceptance;

pub(crate) fn address(n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, n], 2181))
}

fn ip(n: u8) -> IpAddr {
    address(n).ip()
}

/// Returns a session whose only host has the name `zk`.
fn world(seed: u128) -> World {
    let mut world = World::with(|settings| {
        settings.hosts = vec![Host::new("zk", 2181)];
        settings.allow_read_only = true;
        settings.seed = seed;
    });
    world.answered.insert(OpCode::Ping.code());
    world
}

/// Advances to the next attempt, and resolves the name. Returns the addresses that are to be tried.
fn resolve(world: &mut World, found: &[SocketAddr]) -> Vec<SocketAddr> {
    wait_for_attempt(world);
    world.session.handle_resolved(found.to_vec());
    world.settle();
    let is_attempt = |seen: &Seen| match seen {
        Seen::Connect(host) => Some(host.addresses().to_vec()),
        _ => None,
    };
    world.log.iter().rev().find_map(|(_, seen)| is_attempt(seen)).unwrap()
}

fn wait_for_attempt(world: &mut World) {
    world.tick();
    while world.wire != Wire::Asked {
        world.advance_to_deadline();
    }
}

/// Lets the first of the addresses accept the next attempt. Returns it.
pub(crate) fn reach(world: &mut World, found: &[SocketAddr]) -> SocketAddr {
    let first = resolve(world, found)[0];
    world.session.handle_accepted(Some(first.ip()));
    world.open();
    first
}

/// No address accepts a connection.
fn refuse(world: &mut World) {
    world.cut_for(DisconnectReason::Unreachable(std::io::ErrorKind::ConnectionRefused));
}

/// Returns the first server that was probed for writes.
fn probed(world: &World) -> Host {
    let probe = |seen: &Seen| match seen {
        Seen::Probe(host) => Some(host.clone()),
        _ => None,
    };
    world.log.iter().find_map(|(_, seen)| probe(seen)).expect("the name has another server")
}

fn read_only() -> ConnectResponse {
    let session_id = SessionId(0x2_0000_0009);
    ConnectResponse { session_id, read_only: Some(true), ..acceptance(6000) }
}

#[test]
fn read_only_session_probes_the_other_address_of_its_name() {
    for seed in 0..8 {
        let mut world = world(seed);
        let first = reach(&mut world, &[address(1), address(2)]);
        world.respond(&read_only());
        assert!(world.session.is_read_only());
        world.advance(T);
        let probed = probed(&world);
        let [other] = *probed.addresses() else { panic!("{:?}", probed.addresses()) };
        assert_ne!(other, first);
        world.session.handle_probed(world.instant(), &probed, ProbeAnswer::ReadWrite);
        world.settle();
        assert_eq!(reach(&mut world, &[address(1), address(2)]), other);
        world.respond(&acceptance(6000));
        assert!(!world.session.is_read_only());
    }
}

#[test]
fn address_of_a_server_that_closes_or_hangs_waits_for_others() {
    for hangs in [false, true] {
        for seed in 0..8 {
            let mut world = world(seed);
            let all = [address(1), address(2), address(3)];
            let first = reach(&mut world, &all);
            if hangs {
                world.advance(T / 2);
            } else {
                world.cut();
            }
            let order = resolve(&mut world, &all);
            assert!(order.len() == 2 && !order.contains(&first), "{order:?}, {first}");
        }
    }
}

#[test]
fn address_that_serves_is_preferred_to_one_that_closes() {
    let found = [address(1), address(2)];
    let serve = |world: &mut World| {
        world.respond(&acceptance(6000));
        world.advance(ms(2000));
        world.cut();
    };
    let mut world = world(1);
    let serves = reach(&mut world, &found);
    serve(&mut world);
    assert_ne!(reach(&mut world, &found), serves, "it was not tried yet");
    world.cut();
    for _ in 0..4 {
        assert_eq!(reach(&mut world, &found), serves);
        serve(&mut world);
    }
}

fn of_two_names(seed: u128) -> World {
    World::with(|settings| {
        settings.hosts = vec![Host::new("a", 1), Host::new("b", 1)];
        settings.seed = seed;
    })
}

fn name_tried(world: &World) -> String {
    world.attempts().last().unwrap().1.name().to_owned()
}

/// All of them were tried at once.
#[test]
fn name_without_an_open_port_gives_its_turn_to_another_name() {
    for seed in 0..8 {
        let mut world = of_two_names(seed);
        resolve(&mut world, &[address(1), address(2), address(3)]);
        let first = name_tried(&world);
        refuse(&mut world);
        resolve(&mut world, &[address(4)]);
        assert_ne!(name_tried(&world), first);
    }
}

#[test]
fn memory_of_an_address_survives_another_lookup() {
    let mut world = world(1);
    let slow = reach(&mut world, &[address(1), address(2)]);
    world.cut();
    // The answer has another order, and a new server.
    let order = resolve(&mut world, &[address(3), address(2), address(1)]);
    assert!(order.len() == 2 && !order.contains(&slow), "{order:?}");
    // A server that left the name is not tried.
    refuse(&mut world);
    let order = resolve(&mut world, &[address(3)]);
    assert_eq!(order, [address(3)]);
}

/// The address that never accepts a connection is no reason to try its name again and again.
#[test]
fn name_whose_working_server_closes_gives_its_turn_to_others() {
    for seed in 0..8 {
        let mut world = of_two_names(seed);
        let mut names = Vec::new();
        for _ in 0..12 {
            wait_for_attempt(&mut world);
            let found = match &*name_tried(&world) {
                "a" => vec![address(1), address(2)],
                _ => vec![address(3)],
            };
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
    let found = [address(1), address(2)];
    let mut world = world(1);
    let order = resolve(&mut world, &found);
    world.session.handle_accepted(Some(order[1].ip()));
    world.bring_up();
    world.advance(ms(2000));
    world.cut();
    assert_eq!(resolve(&mut world, &found), [order[1]]);
}

/// For example `localhost`, of which a server listens on one address.
#[test]
fn address_that_was_passed_over_hides_no_refusal() {
    let mut world = crate::sasl::world_of(1);
    let order = resolve(&mut world, &[address(1), address(2)]);
    world.session.handle_accepted(Some(order[1].ip()));
    world.open();
    world.respond(&acceptance(30_000));
    crate::sasl::reject(&mut world);
    assert_eq!(world.end(), Some(SessionEnd::AuthFailed));
}

/// Its answers and its TLS handshake are of one server.
#[test]
fn failure_behind_a_connection_is_that_of_one_address() {
    let mut world = world(1);
    let first = resolve(&mut world, &[address(1), address(2)]);
    world.cut_for(DisconnectReason::Tls(TlsFailure::UnknownIssuer));
    let next = resolve(&mut world, &[address(1), address(2)]);
    assert_eq!(next, [first[1]]);
    assert!(!world.log.iter().any(|(_, seen)| matches!(seen, Seen::Refused(_))));
}

#[test]
fn server_left_for_a_writable_one_is_not_tried_beside_it() {
    let mut world = world(1);
    let found = [address(1), address(2)];
    reach(&mut world, &found);
    world.respond(&read_only());
    world.advance(T);
    let probed = probed(&world);
    world.session.handle_probed(world.instant(), &probed, ProbeAnswer::ReadWrite);
    world.settle();
    assert_eq!(resolve(&mut world, &found), probed.addresses());
}

/// As behind a translation of addresses.
#[test]
fn servers_of_one_address_are_told_by_their_order() {
    let ports = [1, 2].map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
    let mut world = world(1);
    let first = reach(&mut world, &ports);
    world.cut();
    let second = reach(&mut world, &ports);
    assert_ne!(first, second);
}

#[test]
fn two_server_lists_in_a_row_keep_the_connection_known() {
    let mut world = world(1);
    reach(&mut world, &[address(1), address(2)]);
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
    assert_eq!(first.len(), ADDRESSES_MAX);
    refuse(&mut world);
    let second = resolve(&mut world, &many);
    assert_eq!(second.len(), ADDRESSES_MAX);
    assert!(second[1..].iter().all(|it| !first.contains(it)), "{second:?}, {first:?}");
}

#[test]
fn server_list_keeps_what_is_known_of_addresses() {
    let mut world = world(1);
    let found = [address(1), address(2)];
    let first = reach(&mut world, &found);
    world.cut();
    let other = reach(&mut world, &found);
    world.respond(&acceptance(6000));
    assert_eq!(world.session.servers(), [Host::new("zk", 2181)], "named once");
    world.session.update_servers(world.instant(), vec![Host::new("zk", 2181)]);
    world.settle();
    assert!(world.session.is_connected());
    assert_eq!(world.stats().connected_to, Some(Host::new("zk", 2181)));
    world.advance(ms(2000));
    world.cut();
    assert_eq!(resolve(&mut world, &found)[0], other, "a close after a while is no fault");
    assert_ne!(first, other);
}

#[test]
fn late_answer_of_the_resolver_changes_nothing() {
    let mut world = world(1);
    reach(&mut world, &[address(1)]);
    let attempts = world.attempts().len();
    world.session.handle_resolved(vec![address(2)]);
    world.settle();
    world.session.handle_accepted(Some(ip(2)));
    assert_eq!(world.attempts().len(), attempts);
    world.respond(&acceptance(6000));
    assert!(world.session.is_connected());
    world.cut();
    world.session.handle_resolved(vec![address(2)]);
    world.settle();
    assert_eq!(world.cause(), DisconnectReason::ClosedByServer);
}
