//! Tests of touch tables, and of the packets that reset the leader's clock of a session.

use std::time::Duration;

use proto::{CreateMode, Ping, Sync};
use zk_testing::Settings;

use crate::world::{World, create};

/// Starts an ensemble with a tick of 200 ms, pings every 100 ms and session timeouts of 4 s.
fn ensemble() -> World {
    World::with(settings())
}

fn settings() -> Settings {
    Settings::new().servers(3).tick_time(Duration::from_millis(200))
}

#[test]
fn request_to_the_leader_touches_at_once() {
    let mut world = ensemble();
    let client = world.connect_to(0);
    assert_eq!(world.expires_ms(&client), 4_200);
    world.until_ms(399);
    world.ping(&client);
    assert_eq!(world.expires_ms(&client), 4_400);
    world.until_ms(400);
    world.create(&client, "/a").unwrap();
    assert_eq!(world.expires_ms(&client), 4_600);
}

#[test]
fn ping_to_a_follower_touches_only_with_its_flush() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    assert_eq!(world.expiry_at(&client, 310), 4_200);
    world.ping(&client);
    assert_eq!(world.expiry_at(&client, 399), 4_200);
    assert_eq!(world.expiry_at(&client, 400), 4_600);
    assert_eq!(world.expiry_at(&client, 1_000), 4_600, "a flush empties the table");
}

/// Every lease depends on this behaviour; it is the reason for this file.
#[test]
fn forwarded_write_and_sync_do_not_touch() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.until_ms(310);
    world.create(&client, "/a").unwrap();
    world.call(&client, &Sync { path: "/".into() }).unwrap();
    assert_eq!(world.expires_ms(&client), 4_200);
    world.zk.kill(world.now, 1);
    world.until_ms(4_199);
    assert!(world.zk.is_alive(client.session.session_id));
    world.until_ms(4_200);
    assert!(!world.zk.is_alive(client.session.session_id));
}

#[test]
fn new_session_is_in_the_touch_table_of_every_follower() {
    let mut world = ensemble();
    world.until_ms(390);
    let client = world.connect_to(0);
    assert_eq!(world.expires_ms(&client), 4_400);
    assert_eq!(world.expiry_at(&client, 400), 4_600, "the followers have applied its creation");
}

#[test]
fn reconnect_through_a_follower_touches_at_once() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.until_ms(410);
    let client = world.reconnect(2, &client);
    assert_eq!(world.expires_ms(&client), 4_600);
}

#[test]
fn reconnect_moves_expiry_earlier_with_a_shorter_timeout() {
    let short = Duration::from_millis(1_500);
    let mut world = World::with(settings().max_session_timeout_of(2, short));
    let client = world.connect_to(1);
    assert_eq!((client.session.timeout_ms, world.expires_ms(&client)), (4_000, 4_200));
    world.until_ms(110);
    let client = world.reconnect(2, &client);
    assert_eq!((client.session.timeout_ms, world.expires_ms(&client)), (1_500, 1_800));
    world.until_ms(210);
    world.ping(&client);
    assert_eq!(world.expiry_at(&client, 300), 2_000, "its touches count with this timeout, too");
}

#[test]
fn flush_arrives_late_from_a_lagging_follower() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.until_ms(305);
    world.zk.lag_flushes(world.now, 1, Duration::from_millis(230));
    world.until_ms(310);
    world.ping(&client);
    assert_eq!(world.expiry_at(&client, 529), 4_200);
    assert_eq!(world.expiry_at(&client, 630), 4_800, "the ping of 400 ms is answered at 630 ms");
    world.until_ms(650);
    world.ping(&client);
    world.zk.heal(world.now, 1);
    assert_eq!(
        world.expires_ms(&client),
        4_800,
        "the pings of 500 and 600 ms are answered at once"
    );
}

/// Both are packets of one stream, which one thread of the follower handles.
#[test]
fn lagging_follower_answers_a_ping_before_a_later_sync() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.until_ms(360);
    world.zk.lag_flushes(world.now, 1, Duration::from_millis(50));
    world.ping(&client);
    world.until_ms(410);
    world.send(&client, &Sync { path: "/".into() });
    world.send(&client, &create("/a", CreateMode::Persistent));
    world.until_ms(459);
    assert!(world.reply(&client).is_none());
    assert_eq!(world.expires_ms(&client), 4_600);
    world.until_ms(460);
    assert!(world.reply(&client).is_some() && world.reply(&client).is_some());
    world.zk.lag_flushes(world.now, 2, Duration::from_millis(50));
    let session = &client.session;
    let request = crate::world::request_for(session.session_id, session.password.clone());
    let (id, reply) = world.try_connect(2, &request);
    assert_eq!(reply, None, "the answer of the leader is on its way");
    world.until_ms(510);
    assert!(world.frame(id).is_some());
}

#[test]
fn stopped_follower_flushes_earlier_touches_on_resume() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.until_ms(310);
    world.ping(&client);
    world.zk.stall(world.now, 1);
    assert_eq!(world.expiry_at(&client, 900), 4_200);
    world.zk.resume_server(world.now, 1);
    assert_eq!(world.expires_ms(&client), 5_000);
}

#[test]
fn follower_dropped_by_its_leader_rejoins() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.until_ms(310);
    world.ping(&client);
    world.zk.stall(world.now, 1);
    world.until_ms(310 + 5 * 200);
    world.zk.resume_server(world.now, 1);
    assert!(world.closed(client.id).is_some());
    assert_eq!(world.expiry_at(&client, 1_500), 4_200, "its touch table is lost");
    world.reconnect(1, &client);
}

#[test]
fn killed_follower_never_flushes() {
    for stop_first in [false, true] {
        let mut world = ensemble();
        let client = world.connect_to(1);
        world.until_ms(310);
        world.ping(&client);
        if stop_first {
            world.zk.stall(world.now, 1);
            world.send(&client, &Ping);
        }
        world.until_ms(390);
        world.zk.kill(world.now, 1);
        assert!(world.closed(client.id).is_some() && world.reply(&client).is_none());
        assert!(world.zk.accept(world.now, 1, ([127, 0, 0, 1], 1).into()).is_err());
        world.until_ms(600);
        world.zk.restart(world.now, 1);
        assert_eq!(world.expiry_at(&client, 800), 4_200);
        let client = world.reconnect(1, &client);
        assert_eq!(world.expires_ms(&client), 5_000);
        assert!(world.create(&client, "/a").is_ok());
    }
}

#[test]
fn cut_follower_flushes_when_it_is_healed() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.until_ms(310);
    world.zk.cut_from_leader(world.now, 1);
    world.ping(&client);
    assert_eq!(world.expiry_at(&client, 900), 4_200);
    world.zk.heal(world.now, 1);
    assert_eq!(world.expires_ms(&client), 5_000);
}

#[test]
fn resumed_leader_pings_its_followers_at_once() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.until_ms(310);
    world.zk.stall(world.now, 0);
    world.ping(&client);
    world.until_ms(900);
    world.zk.resume_server(world.now, 0);
    assert_eq!(world.expires_ms(&client), 5_000);
    world.until_ms(950);
    world.ping(&client);
    assert_eq!(world.expiry_at(&client, 1_000), 5_200, "and every half tick from then on");
}

/// Advancing the time in one step does not change the time of the events in between.
#[test]
fn flush_counts_from_its_own_time_after_clock_jump() {
    let mut world = ensemble();
    let client = world.connect_to(1);
    world.until_ms(310);
    world.ping(&client);
    assert_eq!(world.expiry_at(&client, 4_599), 4_600);
    world.until_ms(100_000);
    assert!(!world.zk.is_alive(client.session.session_id));
}
