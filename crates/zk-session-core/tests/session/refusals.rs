//! Servers that refuse connections, and peers that are not ZooKeeper servers.

use std::io;
use std::time::Duration;

use zk_session_core::{
    DisconnectReason, Host, PeerProtocol, SaslFailure, TlsFailure, TlsProbeAnswer,
};

use crate::harness::{Seen, T, World, ms};

const REFUSED: DisconnectReason = DisconnectReason::Unreachable(io::ErrorKind::ConnectionRefused);
const TLS: DisconnectReason = DisconnectReason::NotZooKeeper(PeerProtocol::Tls);
const HTTP: DisconnectReason = DisconnectReason::NotZooKeeper(PeerProtocol::Http);
/// TLS alert `unexpected_message`.
const TLS_ALERT: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 10];

fn world(servers: u16, refused_timeout: Option<Duration>) -> World {
    World::with(|settings| {
        settings.hosts = (0..servers).map(|port| Host::new("a", port)).collect();
        settings.refused_timeout = refused_timeout;
    })
}

fn refused(world: &World) -> Vec<(Duration, DisconnectReason)> {
    let refusal = |(at, seen): &(Duration, Seen)| match seen {
        Seen::Refused(cause) => Some((*at, cause.clone())),
        _ => None,
    };
    world.log.iter().filter_map(refusal).collect()
}

/// Advances to the next connection attempt and lets it fail.
fn fail(world: &mut World, cause: DisconnectReason) {
    world.advance_to_deadline();
    world.cut_for(cause);
}

#[test]
fn foreign_protocol_is_detected_by_its_first_bytes() {
    for (bytes, cause) in [
        (&TLS_ALERT[..], TLS),
        (b"HTTP/1.1 400 Bad Request\r\n", HTTP),
        (b"SSH-2.0-OpenSSH_9.2\r\n", DisconnectReason::NotZooKeeper(PeerProtocol::Ssh)),
        (b"-ERR unknown", DisconnectReason::NotZooKeeper(PeerProtocol::Text(*b"-ERR"))),
        (&[0x7f, 0, 0, 0], DisconnectReason::FrameTooLarge),
    ] {
        let mut world = world(1, None);
        world.open();
        world.deliver(bytes);
        assert_eq!(world.cause(), cause);
        let is_foreign = matches!(cause, DisconnectReason::NotZooKeeper(_));
        assert_eq!(
            refused(&world),
            is_foreign.then_some((ms(0), cause)).into_iter().collect::<Vec<_>>()
        );
    }
}

#[test]
fn tls_bytes_after_the_handshake_are_a_frame_too_large() {
    let mut world = World::up();
    world.deliver(&TLS_ALERT);
    assert_eq!(world.cause(), DisconnectReason::FrameTooLarge);
    assert_eq!(refused(&world), []);
}

#[test]
fn foreign_peers_are_reported_when_no_other_server_is_left() {
    let mut world = world(3, None);
    for nth in 0..3 {
        assert_eq!(refused(&world), []);
        world.open();
        world.deliver(if nth == 1 { b"HTTP/1.1 400 " } else { &TLS_ALERT });
    }
    assert_eq!(refused(&world), [(world.now(), TLS)]);
}

#[test]
fn refusing_server_is_retried_beside_foreign_peers() {
    let mut world = world(2, None);
    world.open();
    world.deliver(&TLS_ALERT);
    for _ in 0..20 {
        fail(&mut world, REFUSED);
    }
    assert_eq!(refused(&world), []);
    world.bring_up();
}

#[test]
fn refusing_servers_are_retried_without_a_refused_timeout() {
    let mut world = world(2, None);
    for _ in 0..100 {
        fail(&mut world, REFUSED);
    }
    assert!(world.now() > T);
    assert_eq!(refused(&world), []);
}

#[test]
fn refusing_servers_are_reported_within_the_timeout() {
    let bound = ms(1000);
    let mut world = world(3, Some(bound));
    while refused(&world).is_empty() {
        fail(&mut world, REFUSED);
    }
    assert!(world.now() <= bound, "the next attempt would be too late");
    assert!(world.attempts().len() > 3, "each was tried more than once");
}

#[test]
fn refusal_is_reported_after_one_round_with_zero_timeout() {
    let mut world = world(3, Some(Duration::ZERO));
    for attempts in 1..=3 {
        assert_eq!(refused(&world), [], "{attempts}");
        fail(&mut world, REFUSED);
    }
    assert_eq!(refused(&world).len(), 1);
}

#[test]
fn server_that_fails_without_refusing_is_retried() {
    for cause in [
        DisconnectReason::IdleTimeout,
        DisconnectReason::ClosedByServer,
        DisconnectReason::Unreachable(io::ErrorKind::TimedOut),
    ] {
        let mut world = world(2, Some(ms(100)));
        for _ in 0..20 {
            let current = world.attempts().len();
            let is_odd = current.is_multiple_of(2);
            fail(&mut world, if is_odd { cause.clone() } else { REFUSED });
        }
        assert_eq!(refused(&world), [], "{cause}");
    }
}

#[test]
fn refusal_after_the_first_connection_is_not_reported() {
    let mut world = world(1, Some(ms(100)));
    world.bring_up();
    for _ in 0..5 {
        fail(&mut world, REFUSED);
    }
    assert_eq!(refused(&world), []);
}

#[test]
fn server_that_closes_at_once_is_probed_for_tls_once() {
    let mut world = world(2, None);
    let probes = |world: &World| {
        let is_probe = |(_, seen): &&(Duration, Seen)| matches!(seen, Seen::ProbeTls(_));
        world.log.iter().filter(is_probe).count()
    };
    for attempt in 1..=6 {
        world.open();
        world.cut();
        assert_eq!(probes(&world), attempt.min(2));
        assert_eq!(world.cause(), DisconnectReason::ClosedByServer);
    }
    for port in 0..2 {
        assert_eq!(refused(&world), []);
        world.session.handle_tls_probed(
            world.instant(),
            &Host::new("a", port),
            TlsProbeAnswer::TlsOnly,
        );
        world.settle();
    }
    assert_eq!(refused(&world), [(world.now(), TLS)]);
    world.open();
    world.cut();
    assert_eq!((world.cause(), probes(&world)), (TLS, 2));
}

#[test]
fn server_that_closes_at_once_without_tls_is_retried() {
    let mut world = world(1, Some(ms(100)));
    world.open();
    world.cut();
    world.session.handle_tls_probed(world.instant(), &Host::new("a", 0), TlsProbeAnswer::Other);
    for _ in 0..10 {
        world.open();
        world.cut();
    }
    assert_eq!(refused(&world), []);
    assert_eq!(world.cause(), DisconnectReason::ClosedByServer);
}

#[test]
fn server_that_rejects_a_session_is_not_probed_for_tls() {
    let mut world = World::up();
    world.reopen();
    world.cut(); // as a server does that is behind the session's zxid
    assert!(!world.log.iter().any(|(_, seen)| matches!(seen, Seen::ProbeTls(_))));
}

const CERTIFICATE: DisconnectReason = DisconnectReason::Tls(TlsFailure::CertificateRequired);

#[test]
fn most_telling_cause_of_all_servers_is_reported() {
    let closed = DisconnectReason::ClosedByServer;
    let sasl = DisconnectReason::Sasl(SaslFailure::ClosedByServer);
    let passing = DisconnectReason::Tls(TlsFailure::ClosedByServer);
    let rejected = DisconnectReason::Sasl(SaslFailure::Rejected);
    let not_serving = |closing, servers| DisconnectReason::NotServing { closing, servers };
    for (causes, expected) in [
        (vec![CERTIFICATE, REFUSED], CERTIFICATE),
        (vec![CERTIFICATE, DisconnectReason::IdleTimeout], CERTIFICATE),
        (vec![CERTIFICATE, passing.clone()], CERTIFICATE),
        (vec![sasl.clone(), REFUSED], sasl),
        (vec![passing.clone(), REFUSED], passing),
        (vec![HTTP, CERTIFICATE], CERTIFICATE),
        (vec![rejected.clone(), CERTIFICATE], rejected),
        (vec![REFUSED, DisconnectReason::IdleTimeout], DisconnectReason::IdleTimeout),
        (vec![closed.clone(), REFUSED], not_serving(1, 2)),
        (vec![closed.clone(), REFUSED, REFUSED], not_serving(1, 3)),
        (vec![closed.clone(), closed.clone()], closed),
    ] {
        let mut world = world(u16::try_from(causes.len()).unwrap(), None);
        assert_eq!(world.session.connect_failure(), None);
        for cause in causes {
            fail(&mut world, cause);
        }
        assert_eq!(world.session.connect_failure(), Some(expected));
    }
}

#[test]
fn refusal_is_reported_with_the_most_telling_cause() {
    let mut world = world(3, Some(Duration::ZERO));
    for cause in [REFUSED, CERTIFICATE, REFUSED] {
        fail(&mut world, cause);
    }
    assert_eq!(refused(&world), [(world.now(), CERTIFICATE)]);
}
