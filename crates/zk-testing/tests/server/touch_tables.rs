//! Tests of touch tables, and of the packets that reset the leader's clock of a session.

use std::time::{Duration, Instant};

use proto::{CreateMode, Ping, Sync};
use zk_testing::Settings;

use crate::world::{Client, World, create};

/// Ensemble with a tick of 200 ms, pings every 100 ms and session timeouts of 4 s.
struct Ensemble {
    world: World,
    start: Instant,
}

impl Ensemble {
    fn new() -> Self {
        Self::with(settings())
    }

    fn with(settings: Settings) -> Self {
        let world = World::with(settings);
        let start = world.now;
        Self { world, start }
    }

    fn until_ms(&mut self, ms: u64) {
        let time = self.start + Duration::from_millis(ms) - self.world.now;
        self.world.pass(time);
    }

    /// Returns the time at which a session expires, in milliseconds from the start.
    fn expires_ms(&self, client: &Client) -> u128 {
        let id = client.session.session_id;
        let info = self.world.zk.sessions().find(|info| info.id == id).unwrap();
        (info.expires - self.start).as_millis()
    }

    fn ping(&mut self, client: &Client) {
        self.world.call(client, &Ping).unwrap();
    }
}

fn settings() -> Settings {
    Settings::new().servers(3).tick_time(Duration::from_millis(200))
}

#[test]
fn request_to_the_leader_touches_at_once() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.world.connect_to(0);
    assert_eq!(ensemble.expires_ms(&client), 4_200);
    ensemble.until_ms(399);
    ensemble.ping(&client);
    assert_eq!(ensemble.expires_ms(&client), 4_400);
    ensemble.until_ms(400);
    ensemble.world.create(&client, "/a").unwrap();
    assert_eq!(ensemble.expires_ms(&client), 4_600);
}

#[test]
fn ping_to_a_follower_touches_only_with_its_flush() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.world.connect_to(1);
    ensemble.until_ms(310);
    assert_eq!(ensemble.expires_ms(&client), 4_200);
    ensemble.ping(&client);
    ensemble.until_ms(399);
    assert_eq!(ensemble.expires_ms(&client), 4_200);
    ensemble.until_ms(400);
    assert_eq!(ensemble.expires_ms(&client), 4_600);
    ensemble.until_ms(1_000);
    assert_eq!(ensemble.expires_ms(&client), 4_600, "a flush empties the table");
}

/// Every lease depends on this behaviour; it is the reason for this file.
#[test]
fn forwarded_write_and_sync_do_not_touch() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.world.connect_to(1);
    ensemble.until_ms(310);
    ensemble.world.create(&client, "/a").unwrap();
    ensemble.world.call(&client, &Sync { path: "/".into() }).unwrap();
    assert_eq!(ensemble.expires_ms(&client), 4_200);
    ensemble.world.zk.kill(ensemble.world.now, 1);
    ensemble.until_ms(4_199);
    assert!(ensemble.world.zk.is_alive(client.session.session_id));
    ensemble.until_ms(4_200);
    assert!(!ensemble.world.zk.is_alive(client.session.session_id));
}

#[test]
fn new_session_is_in_the_touch_table_of_every_follower() {
    let mut ensemble = Ensemble::new();
    ensemble.until_ms(390);
    let client = ensemble.world.connect_to(0);
    assert_eq!(ensemble.expires_ms(&client), 4_400);
    ensemble.until_ms(400);
    assert_eq!(ensemble.expires_ms(&client), 4_600, "the followers have applied its creation");
}

#[test]
fn reconnect_through_a_follower_touches_at_once() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.world.connect_to(1);
    ensemble.until_ms(410);
    let client = ensemble.world.reconnect(2, &client);
    assert_eq!(ensemble.expires_ms(&client), 4_600);
}

#[test]
fn reconnect_moves_expiry_earlier_with_a_shorter_timeout() {
    let short = Duration::from_millis(1_500);
    let mut ensemble = Ensemble::with(settings().max_session_timeout_of(2, short));
    let client = ensemble.world.connect_to(1);
    assert_eq!((client.session.timeout_ms, ensemble.expires_ms(&client)), (4_000, 4_200));
    ensemble.until_ms(110);
    let client = ensemble.world.reconnect(2, &client);
    assert_eq!((client.session.timeout_ms, ensemble.expires_ms(&client)), (1_500, 1_800));
    ensemble.until_ms(210);
    ensemble.ping(&client);
    ensemble.until_ms(300);
    assert_eq!(ensemble.expires_ms(&client), 2_000, "its touches count with this timeout, too");
}

#[test]
fn flush_arrives_late_from_a_lagging_follower() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.world.connect_to(1);
    ensemble.until_ms(305);
    ensemble.world.zk.lag_flushes(ensemble.world.now, 1, Duration::from_millis(230));
    ensemble.until_ms(310);
    ensemble.ping(&client);
    ensemble.until_ms(529);
    assert_eq!(ensemble.expires_ms(&client), 4_200);
    ensemble.until_ms(630);
    assert_eq!(ensemble.expires_ms(&client), 4_800, "the ping of 400 ms is answered at 630 ms");
    ensemble.until_ms(650);
    ensemble.ping(&client);
    ensemble.world.zk.heal(ensemble.world.now, 1);
    assert_eq!(
        ensemble.expires_ms(&client),
        4_800,
        "the pings of 500 and 600 ms are answered at once"
    );
}

/// Both are packets of one stream, which one thread of the follower handles.
#[test]
fn lagging_follower_answers_a_ping_before_a_later_sync() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.world.connect_to(1);
    ensemble.until_ms(360);
    ensemble.world.zk.lag_flushes(ensemble.world.now, 1, Duration::from_millis(50));
    ensemble.ping(&client);
    ensemble.until_ms(410);
    ensemble.world.send(&client, &Sync { path: "/".into() });
    ensemble.world.send(&client, &create("/a", CreateMode::Persistent));
    ensemble.until_ms(459);
    assert!(ensemble.world.reply(&client).is_none());
    assert_eq!(ensemble.expires_ms(&client), 4_600);
    ensemble.until_ms(460);
    assert!(ensemble.world.reply(&client).is_some() && ensemble.world.reply(&client).is_some());
    ensemble.world.zk.lag_flushes(ensemble.world.now, 2, Duration::from_millis(50));
    let session = &client.session;
    let request = crate::world::request_for(session.session_id, session.password.clone());
    let (id, reply) = ensemble.world.try_connect(2, &request);
    assert_eq!(reply, None, "the answer of the leader is on its way");
    ensemble.until_ms(510);
    assert!(ensemble.world.frame(id).is_some());
}

#[test]
fn stopped_follower_flushes_earlier_touches_on_resume() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.world.connect_to(1);
    ensemble.until_ms(310);
    ensemble.ping(&client);
    ensemble.world.zk.stall(ensemble.world.now, 1);
    ensemble.until_ms(900);
    assert_eq!(ensemble.expires_ms(&client), 4_200);
    ensemble.world.zk.resume_server(ensemble.world.now, 1);
    assert_eq!(ensemble.expires_ms(&client), 5_000);
}

#[test]
fn follower_dropped_by_its_leader_rejoins() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.world.connect_to(1);
    ensemble.until_ms(310);
    ensemble.ping(&client);
    ensemble.world.zk.stall(ensemble.world.now, 1);
    ensemble.until_ms(310 + 5 * 200);
    ensemble.world.zk.resume_server(ensemble.world.now, 1);
    ensemble.world.drain();
    assert!(ensemble.world.closed(client.id).is_some());
    ensemble.until_ms(1_500);
    assert_eq!(ensemble.expires_ms(&client), 4_200, "its touch table is lost");
    ensemble.world.reconnect(1, &client);
}

#[test]
fn killed_follower_never_flushes() {
    for stop_first in [false, true] {
        let mut ensemble = Ensemble::new();
        let client = ensemble.world.connect_to(1);
        ensemble.until_ms(310);
        ensemble.ping(&client);
        if stop_first {
            ensemble.world.zk.stall(ensemble.world.now, 1);
            ensemble.world.send(&client, &Ping);
        }
        ensemble.until_ms(390);
        ensemble.world.zk.kill(ensemble.world.now, 1);
        ensemble.world.drain();
        assert!(
            ensemble.world.closed(client.id).is_some() && ensemble.world.reply(&client).is_none()
        );
        assert!(
            ensemble.world.zk.accept(ensemble.world.now, 1, ([127, 0, 0, 1], 1).into()).is_err()
        );
        ensemble.until_ms(600);
        ensemble.world.zk.restart(ensemble.world.now, 1);
        ensemble.until_ms(800);
        assert_eq!(ensemble.expires_ms(&client), 4_200);
        let client = ensemble.world.reconnect(1, &client);
        assert_eq!(ensemble.expires_ms(&client), 5_000);
        assert!(ensemble.world.create(&client, "/a").is_ok());
    }
}

#[test]
fn cut_follower_flushes_when_it_is_healed() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.world.connect_to(1);
    ensemble.until_ms(310);
    ensemble.world.zk.cut_from_leader(ensemble.world.now, 1);
    ensemble.ping(&client);
    ensemble.until_ms(900);
    assert_eq!(ensemble.expires_ms(&client), 4_200);
    ensemble.world.zk.heal(ensemble.world.now, 1);
    assert_eq!(ensemble.expires_ms(&client), 5_000);
}

#[test]
fn resumed_leader_pings_its_followers_at_once() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.world.connect_to(1);
    ensemble.until_ms(310);
    ensemble.world.zk.stall(ensemble.world.now, 0);
    ensemble.ping(&client);
    ensemble.until_ms(900);
    ensemble.world.zk.resume_server(ensemble.world.now, 0);
    assert_eq!(ensemble.expires_ms(&client), 5_000);
    ensemble.until_ms(950);
    ensemble.ping(&client);
    ensemble.until_ms(1_000);
    assert_eq!(ensemble.expires_ms(&client), 5_200, "and every half tick from then on");
}

/// Advancing the time in one step does not change the time of the events in between.
#[test]
fn flush_counts_from_its_own_time_after_clock_jump() {
    let mut ensemble = Ensemble::new();
    let client = ensemble.world.connect_to(1);
    ensemble.until_ms(310);
    ensemble.ping(&client);
    ensemble.until_ms(4_599);
    assert_eq!(ensemble.expires_ms(&client), 4_600);
    ensemble.until_ms(100_000);
    assert!(!ensemble.world.zk.is_alive(client.session.session_id));
}
