//! A session of which nobody has heard for too long is over, by our own clock.

use proto::OpCode;
use zk_session::{LossCause, Outcome, SessionEnd, SessionEvent};

use crate::harness::{Servers, T, World, acceptance, ended, ms};

const LIMIT: std::time::Duration = std::time::Duration::from_millis(8000);

#[test]
fn after_four_thirds_of_the_timeout_whatever_the_servers_do_meanwhile() {
    for servers in [Servers::Refuse, Servers::Close, Servers::Silent] {
        let mut world = World::up();
        let write = world.create("/a");
        world.servers = servers;
        world.advance(ms(100));
        world.cut();
        let queued = world.get("/b");
        world.advance_to(LIMIT - ms(1));
        assert_eq!(world.session.ended(), None, "{servers:?}");
        assert_eq!(world.reply(queued), None);
        world.advance(ms(1));
        assert_eq!(world.session.ended(), Some(SessionEnd::ExpiredLocally), "{servers:?}");
        assert_eq!(world.outcome(write), Outcome::Unknown);
        assert_eq!(world.failure(queued).0, ended(SessionEnd::ExpiredLocally));
        assert_eq!(world.outcome(queued), Outcome::NotApplied);
        let last = world.events().pop().unwrap();
        assert!(matches!(last, SessionEvent::Expired { cause: SessionEnd::ExpiredLocally, .. }));
        world.finish();
    }
}

#[test]
fn counts_from_the_sending_of_what_was_answered_last() {
    let mut world = World::up();
    world.advance(ms(1000));
    world.get("/a");
    world.advance(ms(900));
    let frame = world.take(OpCode::GetData);
    world.serve(&frame);
    world.servers = Servers::Refuse;
    world.cut();
    world.advance_to(ms(1000) + LIMIT - ms(1));
    assert_eq!(world.session.ended(), None);
    world.advance(ms(1));
    assert_eq!(world.session.ended(), Some(SessionEnd::ExpiredLocally));
    world.finish();
}

#[test]
fn counts_from_the_connect_request_and_not_from_its_answer() {
    let mut world = World::new();
    world.open();
    world.advance(ms(900));
    world.respond(&acceptance(6000));
    world.servers = Servers::Refuse;
    world.cut();
    world.advance_to(LIMIT - ms(1));
    assert_eq!(world.session.ended(), None);
    world.advance(ms(1));
    assert_eq!(world.session.ended(), Some(SessionEnd::ExpiredLocally));
    world.finish();
}

#[test]
fn a_connection_on_which_nothing_is_answered_is_given_up_while_there_is_time_for_another() {
    let mut world = World::up();
    for _ in 0..11 {
        world.advance(ms(500));
        world.notify(proto::EventType::NODE_CREATED, "/x");
    }
    world.advance(ms(499));
    assert!(world.session.is_connected());
    world.servers = Servers::Refuse;
    world.advance(ms(1)); // two thirds of the timeout after the ping
    assert_eq!(world.cause(), LossCause::Stalled);
    world.advance_to(LIMIT - ms(1));
    assert_eq!(world.session.ended(), None);
    world.advance(ms(1));
    assert_eq!(world.session.ended(), Some(SessionEnd::ExpiredLocally));
    world.finish();
}

#[test]
fn a_reconnect_in_time_starts_the_count_afresh() {
    let mut world = World::up();
    world.servers = Servers::Refuse;
    world.cut();
    world.advance(ms(6500));
    world.servers = Servers::Serve;
    world.advance(T * 10);
    assert!(world.session.is_connected());
    world.finish();
}

#[test]
fn a_session_that_never_was_does_not_expire() {
    for servers in [Servers::Refuse, Servers::Close, Servers::Silent] {
        let mut world = World::new();
        world.servers = servers;
        let waiting = world.get("/");
        world.advance(T * 100);
        assert_eq!(world.session.ended(), None);
        assert_eq!(world.reply(waiting), None);
        world.servers = Servers::Serve;
        world.advance(T * 2);
        assert!(world.is_ok(waiting), "{servers:?}");
        world.finish();
    }
}
