//! Servers that refuse connections, and peers that are not ZooKeeper servers.

use std::io;

use zk_session_core::{PeerProtocol, TlsProbeAnswer};

use crate::harness::prelude::*;

const REFUSED: DisconnectReason = DisconnectReason::Unreachable(io::ErrorKind::ConnectionRefused);
const CLOSED: DisconnectReason = DisconnectReason::ClosedByServer;
const TLS: DisconnectReason = DisconnectReason::NotZooKeeper(PeerProtocol::Tls);
const HTTP: DisconnectReason = DisconnectReason::NotZooKeeper(PeerProtocol::Http);
const CERTIFICATE: DisconnectReason = DisconnectReason::Tls(TlsFailure::CertificateRequired);
/// TLS alert `unexpected_message`.
const TLS_ALERT: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 10];

fn world(servers: u16, refused_timeout: Option<Duration>) -> World {
    World::with(|settings| {
        settings.hosts = hosts(servers);
        settings.refused_timeout = refused_timeout;
    })
}

/// Returns the reported refusals, which stop a first `connect`.
fn refused(world: &World) -> Vec<DisconnectReason> {
    let refusal = |(_, seen): &(Duration, Seen)| match seen {
        Seen::Refused(cause) => Some(cause.clone()),
        _ => None,
    };
    world.log.iter().filter_map(refusal).collect()
}

/// Advances to the next connection attempt and lets it fail.
fn fail(world: &mut World, cause: DisconnectReason) {
    world.advance_to_attempt();
    world.cut_for(cause);
}

/// Lets the next server accept the connection and close it.
fn close(world: &mut World) {
    world.open();
    world.cut();
}

/// Returns how many servers were probed for TLS.
fn tls_probes(world: &World) -> usize {
    world.log.iter().filter(|(_, seen)| matches!(seen, Seen::ProbeTls(_))).count()
}

fn tls_probed(world: &mut World, host: &Host, answer: TlsProbeAnswer) {
    world.session.handle_tls_probed(world.instant(), host, answer);
    world.settle();
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
        assert_eq!(refused(&world), if is_foreign { vec![cause] } else { vec![] });
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
    assert_eq!(refused(&world), [TLS]);
}

#[test]
fn refusing_server_is_retried_without_timeout_or_beside_others() {
    for foreign in [0, 1] {
        let mut world = world(2, None);
        for _ in 0..foreign {
            world.open();
            world.deliver(&TLS_ALERT);
        }
        while world.now() < T {
            fail(&mut world, REFUSED);
        }
        assert_eq!(refused(&world), []);
        world.bring_up();
    }
}

#[test]
fn refusing_servers_are_reported_within_the_timeout() {
    for (bound, attempts) in [(ms(1000), 4..100), (Duration::ZERO, 3..4)] {
        let mut world = world(3, Some(bound));
        while refused(&world).is_empty() {
            let is_second = world.advance_to_attempt() == hosts(2)[1];
            world.cut_for(if is_second { CERTIFICATE } else { REFUSED });
        }
        assert_eq!(refused(&world), [CERTIFICATE], "the most telling cause");
        assert!(world.now() <= bound.max(ms(100)), "the next attempt would be too late");
        assert!(
            attempts.contains(&world.attempts().len()),
            "each was tried, more than once in time"
        );
    }
}

#[test]
fn server_that_fails_without_refusing_is_retried() {
    for cause in [
        DisconnectReason::IdleTimeout,
        CLOSED,
        DisconnectReason::Unreachable(io::ErrorKind::TimedOut),
    ] {
        let mut world = world(2, Some(ms(100)));
        for n in 0..20 {
            fail(&mut world, if n % 2 == 0 { cause.clone() } else { REFUSED });
        }
        assert_eq!(refused(&world), [], "{cause}");
    }
}

#[test]
fn refusal_after_the_first_connection_is_not_reported() {
    let mut world = world(1, Some(ms(100)));
    world.bring_up();
    world.cut();
    for _ in 0..5 {
        fail(&mut world, REFUSED);
    }
    assert_eq!(refused(&world), []);
}

#[test]
fn server_that_closes_at_once_is_probed_for_tls_once() {
    let mut world = world(2, None);
    for attempt in 1..=6 {
        close(&mut world);
        assert_eq!((tls_probes(&world), world.cause()), (attempt.min(2), CLOSED));
    }
    for host in hosts(2) {
        assert_eq!(refused(&world), []);
        tls_probed(&mut world, &host, TlsProbeAnswer::TlsOnly);
    }
    assert_eq!(refused(&world), [TLS]);
    close(&mut world);
    assert_eq!((world.cause(), tls_probes(&world)), (TLS, 2));
}

#[test]
fn server_that_closes_at_once_without_tls_is_retried() {
    let mut world = world(1, Some(ms(100)));
    close(&mut world);
    tls_probed(&mut world, &hosts(1)[0], TlsProbeAnswer::Other);
    for _ in 0..10 {
        close(&mut world);
    }
    assert_eq!((refused(&world), world.cause()), (vec![], CLOSED));

    let mut world = World::up();
    world.reopen();
    world.cut(); // as a server does that is behind the session's zxid
    assert_eq!(tls_probes(&world), 0);
}

#[test]
fn most_telling_cause_of_all_servers_is_reported() {
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
        (vec![CLOSED, REFUSED], not_serving(1, 2)),
        (vec![CLOSED, REFUSED, REFUSED], not_serving(1, 3)),
        (vec![CLOSED, CLOSED], CLOSED),
    ] {
        let mut world = world(u16::try_from(causes.len()).unwrap(), None);
        assert_eq!(world.session.connect_failure(), None);
        for cause in causes {
            fail(&mut world, cause);
        }
        assert_eq!(world.session.connect_failure(), Some(expected));
    }
}
