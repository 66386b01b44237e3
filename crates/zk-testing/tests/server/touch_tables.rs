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
    let mut it = Ensemble::new();
    let client = it.world.connect_to(0);
    assert_eq!(it.expires_ms(&client), 4_200);
    it.until_ms(399);
    it.ping(&client);
    assert_eq!(it.expires_ms(&client), 4_400);
    it.until_ms(400);
    it.world.create(&client, "/a").unwrap();
    assert_eq!(it.expires_ms(&client), 4_600);
}

#[test]
fn ping_to_a_follower_touches_only_with_its_flush() {
    let mut it = Ensemble::new();
    let client = it.world.connect_to(1);
    it.until_ms(310);
    assert_eq!(it.expires_ms(&client), 4_200);
    it.ping(&client);
    it.until_ms(399);
    assert_eq!(it.expires_ms(&client), 4_200);
    it.until_ms(400);
    assert_eq!(it.expires_ms(&client), 4_600);
    it.until_ms(1_000);
    assert_eq!(it.expires_ms(&client), 4_600, "a flush empties the table");
}

/// Every lease depends on this behaviour; it is the reason for this file.
#[test]
fn forwarded_write_and_sync_do_not_touch() {
    let mut it = Ensemble::new();
    let client = it.world.connect_to(1);
    it.until_ms(310);
    it.world.create(&client, "/a").unwrap();
    it.world.call(&client, &Sync { path: "/".into() }).unwrap();
    assert_eq!(it.expires_ms(&client), 4_200);
    it.world.zk.kill(it.world.now, 1);
    it.until_ms(4_199);
    assert!(it.world.zk.is_alive(client.session.session_id));
    it.until_ms(4_200);
    assert!(!it.world.zk.is_alive(client.session.session_id));
}

#[test]
fn new_session_is_in_the_touch_table_of_every_follower() {
    let mut it = Ensemble::new();
    it.until_ms(390);
    let client = it.world.connect_to(0);
    assert_eq!(it.expires_ms(&client), 4_400);
    it.until_ms(400);
    assert_eq!(it.expires_ms(&client), 4_600, "the followers have applied its creation");
}

#[test]
fn reconnect_through_a_follower_touches_at_once() {
    let mut it = Ensemble::new();
    let client = it.world.connect_to(1);
    it.until_ms(410);
    let client = it.world.reconnect(2, &client);
    assert_eq!(it.expires_ms(&client), 4_600);
}

#[test]
fn reconnect_moves_expiry_earlier_with_a_shorter_timeout() {
    let short = Duration::from_millis(1_500);
    let mut it = Ensemble::with(settings().max_session_timeout_of(2, short));
    let client = it.world.connect_to(1);
    assert_eq!((client.session.timeout_ms, it.expires_ms(&client)), (4_000, 4_200));
    it.until_ms(110);
    let client = it.world.reconnect(2, &client);
    assert_eq!((client.session.timeout_ms, it.expires_ms(&client)), (1_500, 1_800));
    it.until_ms(210);
    it.ping(&client);
    it.until_ms(300);
    assert_eq!(it.expires_ms(&client), 2_000, "its touches count with this timeout, too");
}

#[test]
fn flush_arrives_late_from_a_lagging_follower() {
    let mut it = Ensemble::new();
    let client = it.world.connect_to(1);
    it.until_ms(305);
    it.world.zk.lag_flushes(it.world.now, 1, Duration::from_millis(230));
    it.until_ms(310);
    it.ping(&client);
    it.until_ms(529);
    assert_eq!(it.expires_ms(&client), 4_200);
    it.until_ms(630);
    assert_eq!(it.expires_ms(&client), 4_800, "the ping of 400 ms is answered at 630 ms");
    it.until_ms(650);
    it.ping(&client);
    it.world.zk.heal(it.world.now, 1);
    assert_eq!(it.expires_ms(&client), 4_800, "the pings of 500 and 600 ms are answered at once");
}

/// Both are packets of one stream, which one thread of the follower handles.
#[test]
fn lagging_follower_answers_a_ping_before_a_later_sync() {
    let mut it = Ensemble::new();
    let client = it.world.connect_to(1);
    it.until_ms(360);
    it.world.zk.lag_flushes(it.world.now, 1, Duration::from_millis(50));
    it.ping(&client);
    it.until_ms(410);
    it.world.send(&client, &Sync { path: "/".into() });
    it.world.send(&client, &create("/a", CreateMode::Persistent));
    it.until_ms(459);
    assert!(it.world.reply(&client).is_none());
    assert_eq!(it.expires_ms(&client), 4_600);
    it.until_ms(460);
    assert!(it.world.reply(&client).is_some() && it.world.reply(&client).is_some());
    it.world.zk.lag_flushes(it.world.now, 2, Duration::from_millis(50));
    let session = &client.session;
    let request = crate::world::request_for(session.session_id, session.password.clone());
    let (id, reply) = it.world.try_connect(2, &request);
    assert_eq!(reply, None, "the answer of the leader is on its way");
    it.until_ms(510);
    assert!(it.world.frame(id).is_some());
}

#[test]
fn stopped_follower_flushes_earlier_touches_on_resume() {
    let mut it = Ensemble::new();
    let client = it.world.connect_to(1);
    it.until_ms(310);
    it.ping(&client);
    it.world.zk.stall(it.world.now, 1);
    it.until_ms(900);
    assert_eq!(it.expires_ms(&client), 4_200);
    it.world.zk.resume_server(it.world.now, 1);
    assert_eq!(it.expires_ms(&client), 5_000);
}

#[test]
fn follower_dropped_by_its_leader_rejoins() {
    let mut it = Ensemble::new();
    let client = it.world.connect_to(1);
    it.until_ms(310);
    it.ping(&client);
    it.world.zk.stall(it.world.now, 1);
    it.until_ms(310 + 5 * 200);
    it.world.zk.resume_server(it.world.now, 1);
    it.world.drain();
    assert!(it.world.closed(client.id).is_some());
    it.until_ms(1_500);
    assert_eq!(it.expires_ms(&client), 4_200, "its touch table is lost");
    it.world.reconnect(1, &client);
}

#[test]
fn killed_follower_never_flushes() {
    for stop_first in [false, true] {
        let mut it = Ensemble::new();
        let client = it.world.connect_to(1);
        it.until_ms(310);
        it.ping(&client);
        if stop_first {
            it.world.zk.stall(it.world.now, 1);
            it.world.send(&client, &Ping);
        }
        it.until_ms(390);
        it.world.zk.kill(it.world.now, 1);
        it.world.drain();
        assert!(it.world.closed(client.id).is_some() && it.world.reply(&client).is_none());
        assert!(it.world.zk.accept(it.world.now, 1, ([127, 0, 0, 1], 1).into()).is_err());
        it.until_ms(600);
        it.world.zk.restart(it.world.now, 1);
        it.until_ms(800);
        assert_eq!(it.expires_ms(&client), 4_200);
        let client = it.world.reconnect(1, &client);
        assert_eq!(it.expires_ms(&client), 5_000);
        assert!(it.world.create(&client, "/a").is_ok());
    }
}

#[test]
fn cut_follower_flushes_when_it_is_healed() {
    let mut it = Ensemble::new();
    let client = it.world.connect_to(1);
    it.until_ms(310);
    it.world.zk.cut_from_leader(it.world.now, 1);
    it.ping(&client);
    it.until_ms(900);
    assert_eq!(it.expires_ms(&client), 4_200);
    it.world.zk.heal(it.world.now, 1);
    assert_eq!(it.expires_ms(&client), 5_000);
}

#[test]
fn resumed_leader_pings_its_followers_at_once() {
    let mut it = Ensemble::new();
    let client = it.world.connect_to(1);
    it.until_ms(310);
    it.world.zk.stall(it.world.now, 0);
    it.ping(&client);
    it.until_ms(900);
    it.world.zk.resume_server(it.world.now, 0);
    assert_eq!(it.expires_ms(&client), 5_000);
    it.until_ms(950);
    it.ping(&client);
    it.until_ms(1_000);
    assert_eq!(it.expires_ms(&client), 5_200, "and every half tick from then on");
}

/// Advancing the time in one step does not change the time of the events in between.
#[test]
fn flush_counts_from_its_own_time_after_clock_jump() {
    let mut it = Ensemble::new();
    let client = it.world.connect_to(1);
    it.until_ms(310);
    it.ping(&client);
    it.until_ms(4_599);
    assert_eq!(it.expires_ms(&client), 4_600);
    it.until_ms(100_000);
    assert!(!it.world.zk.is_alive(client.session.session_id));
}
