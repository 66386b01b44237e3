//! After a pause of the process, errors name the pause and do not blame the servers.

use zk_session_core::limits::PAUSE_NOTICED;

use crate::harness::prelude::*;

/// Loses the connection for good, and returns why the session ends.
fn lose(world: &mut World) -> Option<SessionEnd> {
    world.servers = Servers::Refuse;
    world.cut_if_open();
    world.advance_to_end();
    world.end()
}

const NO_PAUSE: Option<SessionEnd> = Some(SessionEnd::ExpiredLocally { paused: None });

#[test]
fn expiry_during_a_pause_reports_the_pause() {
    let mut world = World::served();
    let paused = world.pause(T * 3);
    world.tick();
    let end = SessionEnd::ExpiredLocally { paused: Some(paused) };
    assert_eq!(world.end(), Some(end));
    let text = format!("this process did not run for {:.1} s ", paused.as_secs_f64());
    assert!(end.to_string().starts_with(&text), "{end}");
}

#[test]
fn expiry_reports_an_earlier_pause_until_the_server_answers() {
    let mut world = World::served();
    let paused = Some(world.pause(T));
    assert_eq!(lose(&mut world), Some(SessionEnd::ExpiredLocally { paused }));

    let mut world = World::served();
    world.freeze(T);
    world.tick();
    assert!(world.session.is_connected(), "the server is asked first");
    world.advance(ms(10));
    assert_eq!(lose(&mut world), NO_PAUSE);
}

#[test]
fn expiry_long_after_a_short_pause_reports_no_pause() {
    let mut world = World::served();
    world.servers = Servers::Refuse;
    world.cut();
    let due = world.deadline().unwrap();
    world.freeze(due - world.now() + PAUSE_NOTICED);
    assert_eq!(lose(&mut world), NO_PAUSE);
}

#[test]
fn attempt_cut_short_by_a_pause_reports_the_pause() {
    for (late, cause) in [
        (PAUSE_NOTICED - ms(1), DisconnectReason::IdleTimeout),
        (PAUSE_NOTICED, DisconnectReason::ProcessPaused(PAUSE_NOTICED)),
    ] {
        let mut world = World::with(|settings| settings.hosts = hosts(2));
        world.open();
        let due = world.deadline().unwrap();
        world.freeze(due - world.now() + late);
        world.tick();
        assert_eq!(world.cause(), cause);
    }
    let text = DisconnectReason::ProcessPaused(ms(3_250)).to_string();
    assert!(text.starts_with("this process did not run for 3.2 s "), "{text}");
}

#[test]
fn lease_lost_in_a_pause_reports_it_at_once() {
    let mut world = World::served();
    world.session.claim_lease();
    world.advance(T);
    assert!(world.lease().is_some());
    let before = world.session.lease_state();
    assert_eq!(before.paused, None);
    let paused = Some(world.pause(T));
    let now = world.session.lease_state_at(world.instant());
    assert_eq!((now.term, now.paused), (before.term, paused), "before the driver has a turn");
    world.tick();
    assert_eq!(world.lease(), None);
    let after = world.session.lease_state();
    assert_eq!((after.term, after.paused), (before.term + 1, paused));
}

#[test]
fn lease_lost_to_silent_servers_reports_no_pause() {
    let mut world = World::served();
    world.session.claim_lease();
    world.advance(T);
    world.servers = Servers::Silent;
    world.advance(T);
    assert_eq!((world.lease(), world.session.lease_state().paused), (None, None));
    world.advance_to_end();
    let expired = world.events().pop();
    assert!(
        matches!(expired, Some(SessionEvent::Expired { cause, .. }) if Some(cause) == NO_PAUSE)
    );
}

#[test]
fn late_lease_claim_is_not_reported_as_a_pause() {
    let mut world = World::served();
    let due = world.deadline().unwrap();
    world.advance_to(due - ms(1));
    // The claim makes a ping due that was not due before.
    world.session.claim_lease();
    world.tick();
    assert_eq!(lose(&mut world), NO_PAUSE);
}

#[test]
fn close_reports_a_pause_only_for_the_lease_lost_in_it() {
    for renews in [false, true] {
        let mut world = World::served();
        world.prove();
        world.freeze(T);
        world.tick();
        let lost = world.session.lease_state();
        assert!(lost.paused.is_some() && world.lease().is_none());
        if renews {
            world.advance(T); // with a few pings
            world.prove();
            assert!(world.lease().is_some());
        }
        world.session.close(world.instant());
        let closing = world.session.lease_state();
        assert_eq!(closing.paused, lost.paused.filter(|_| !renews));
        assert_eq!(closing.term, lost.term + u64::from(renews));
    }
}
