//! Random sequences of watches that are set, fire, are dropped or lose the connection. The server
//! holds exactly the watches in use, and each watcher gets all its events.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use proto::{AddWatchMode, EventType, path};
use zk_session_core::{WatchEvent, WatchKind, WatchStreamItem};
use zk_testing::server::WatchMode::{self, Persistent, Recursive, Standard};
use zk_testing::server::WatchTable::{Child, Data};

use crate::harness::{Servers, ms};
use crate::server::{Server, World, served_by};

const PATHS: [&str; 4] = ["/", "/a", "/a/b", "/ab"];

const ANY: [WatchMode; 3] = [Standard, Persistent, Recursive];

#[derive(Clone, Copy, Debug)]
enum Kind {
    OneShot(WatchKind),
    One,
    All,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Watch(Kind, usize),
    Drop(usize),
    /// Another client creates the node, or sets its data.
    Touch(usize),
    Remove(usize),
    Cut,
    /// The server stops answering, until `Serve` or `Cut`.
    Hold,
    Serve,
    Advance(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        2 => Just(Kind::OneShot(WatchKind::Data)),
        1 => Just(Kind::OneShot(WatchKind::Exists)),
        2 => Just(Kind::OneShot(WatchKind::Children)),
        2 => Just(Kind::One),
        2 => Just(Kind::All),
    ];
    prop_oneof![
        6 => (kind, 0..PATHS.len()).prop_map(|(kind, at)| Step::Watch(kind, at)),
        4 => any::<usize>().prop_map(Step::Drop),
        3 => (1..PATHS.len()).prop_map(Step::Touch),
        2 => (1..PATHS.len()).prop_map(Step::Remove),
        1 => Just(Step::Cut),
        1 => Just(Step::Hold),
        2 => Just(Step::Serve),
        3 => prop_oneof![Just(20_u64), Just(101), Just(350)].prop_map(Step::Advance),
    ]
}

struct Watcher {
    n: u32,
    kind: Kind,
    path: &'static str,
    expected: Vec<WatchEvent>,
}

impl Watcher {
    /// Returns the events that this watcher gets when `event` happens to the node `at`.
    fn hears(&self, event: EventType, at: &str) -> Vec<WatchEvent> {
        let mut heard = Vec::new();
        let mut hear = |event_type, path: &str| {
            heard.push(WatchEvent { event_type, path: path.to_owned(), zxid: None });
        };
        let is_child = event != EventType::NODE_DATA_CHANGED && path::parent(at) == Some(self.path);
        let is_below = self.path == "/" || at.starts_with(&format!("{}/", self.path));
        match self.kind {
            Kind::OneShot(WatchKind::Children) if event != EventType::NODE_DELETED => {}
            Kind::All if is_below => hear(event, at),
            _ if at == self.path => hear(event, at),
            _ => {}
        }
        if is_child && matches!(self.kind, Kind::One | Kind::OneShot(WatchKind::Children)) {
            hear(EventType::NODE_CHILDREN_CHANGED, self.path);
        }
        heard
    }

    fn is_served(&self, server: &Server) -> bool {
        let has = |table, modes: &[WatchMode]| server.has_watch(table, self.path, modes);
        let is_recursive = has(Data, &[Recursive]);
        match self.kind {
            Kind::OneShot(WatchKind::Children) => {
                is_recursive || has(Child, &[Standard, Persistent])
            }
            Kind::OneShot(_) => has(Data, &ANY),
            Kind::One => is_recursive || (has(Data, &[Persistent]) && has(Child, &[Persistent])),
            Kind::All => is_recursive,
        }
    }
}

struct Run {
    world: World,
    watchers: Vec<Watcher>,
}

impl Run {
    fn act(&mut self, step: Step) {
        let world = &mut self.world;
        match step {
            Step::Watch(kind, at) => {
                let path = PATHS[at];
                let n = match kind {
                    Kind::OneShot(kind) => world.watch(kind, path),
                    Kind::One => world.stream(AddWatchMode::Persistent, path),
                    Kind::All => world.stream(AddWatchMode::PersistentRecursive, path),
                };
                self.watchers.push(Watcher { n, kind, path, expected: Vec::new() });
            }
            Step::Drop(which) if !self.watchers.is_empty() => {
                let watcher = self.watchers.swap_remove(which % self.watchers.len());
                world.drop_watch(watcher.n, watcher.path);
            }
            Step::Drop(_) => {}
            Step::Touch(at) => {
                let path = PATHS[at];
                let parent = path::parent(path).unwrap();
                if world.server.has_node(path) {
                    self.happen(EventType::NODE_DATA_CHANGED, path);
                } else if world.server.has_node(parent) {
                    self.happen(EventType::NODE_CREATED, path);
                }
            }
            Step::Remove(at) => {
                let path = PATHS[at];
                let nodes = world.server.nodes();
                let is_leaf = !nodes.iter().any(|node| path::parent(node) == Some(path));
                if is_leaf && nodes.contains(path) {
                    self.happen(EventType::NODE_DELETED, path);
                }
            }
            Step::Cut => {
                world.servers = Servers::Serve;
                world.cut_if_open();
                world.advance(ms(1100));
            }
            Step::Hold => world.servers = Servers::Silent,
            Step::Serve => {
                world.servers = Servers::Serve;
                world.settle();
            }
            Step::Advance(by) => world.advance(ms(by)),
        }
        self.forget_used_up();
    }

    /// Applies an event to a node and checks that the watchers of the node get it.
    fn happen(&mut self, event: EventType, path: &'static str) {
        let world = &mut self.world;
        let is_up = world.session.is_connected();
        let watched: Vec<_> = self.watchers.iter().map(|one| world.is_set(one.n)).collect();
        world.others(|server, out| match event {
            EventType::NODE_CREATED => server.make(path, out),
            EventType::NODE_DELETED => server.remove(path, out),
            _ => server.change(path, out),
        });
        for (watcher, is_set) in self.watchers.iter_mut().zip(watched) {
            let heard = watcher.hears(event, path);
            if !is_up || !is_set || heard.is_empty() {
                continue;
            }
            if matches!(watcher.kind, Kind::OneShot(_)) {
                let fired = world.fired(watcher.n);
                assert!(fired.is_some(), "{:?} on {} missed {heard:?}", watcher.kind, watcher.path);
            } else {
                watcher.expected.extend(heard);
            }
        }
        self.check_streams();
    }

    fn check_streams(&mut self) {
        for watcher in &mut self.watchers {
            let mut told = Vec::new();
            for item in self.world.told(watcher.n) {
                match item.unwrap() {
                    WatchStreamItem::Changed(event) => told.push(event),
                    WatchStreamItem::Gap => {
                        told.clear();
                        watcher.expected.clear();
                    }
                    WatchStreamItem::Overflow { .. } => unreachable!("the driver's"),
                }
            }
            let mut expected = std::mem::take(&mut watcher.expected);
            // Beside a recursive watch, a watcher may get child events twice.
            told.dedup();
            expected.dedup();
            assert_eq!(told, expected, "{:?} on {}", watcher.kind, watcher.path);
        }
    }

    /// Removes one-shot watches that fired, and requests that were lost or set no watch.
    fn forget_used_up(&mut self) {
        let world = &self.world;
        self.watchers.retain(|one| {
            let is_lost = world.reply(one.n).is_some() && !world.is_set(one.n);
            world.fired(one.n).is_none() && !is_lost
        });
    }

    /// Checks that a connected and serving server holds every watch in use.
    fn check_server(&self) {
        if self.world.servers != Servers::Serve || !self.world.session.is_connected() {
            return;
        }
        let server = &self.world.server;
        for one in &self.watchers {
            assert!(one.is_served(server), "{:?} on {} is not watched", one.kind, one.path);
        }
    }

    fn check_nothing_else(&mut self) {
        self.world.advance(ms(500));
        self.check_server();
        let server = &self.world.server;
        for path in PATHS {
            let is_wanted = self.watchers.iter().any(|one| one.path == path);
            let is_watched =
                server.has_watch(Data, path, &ANY) || server.has_watch(Child, path, &ANY);
            assert!(is_wanted || !is_watched, "{path} is watched for nobody");
        }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn server_holds_the_wanted_watches_and_delivers_all_events(
        steps in prop::collection::vec(step(), 1..60),
        is_old in any::<bool>(),
    ) {
        let paths = ["/a", "/a/b"];
        let server = if is_old { Server::old(&paths) } else { Server::new(&paths) };
        let mut run = Run { world: served_by(server), watchers: Vec::new() };
        for step in steps {
            run.act(step);
            run.check_streams();
            run.check_server();
        }
        run.act(Step::Cut);
        run.check_streams();
        run.check_nothing_else();
        while !run.watchers.is_empty() {
            run.act(Step::Drop(0));
        }
        run.check_nothing_else();
        prop_assert_eq!(run.world.server.watches(), 0);
        run.world.finish();
    }
}

fn config() -> Config {
    let mut config = Config { cases: 300, failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(0x3a7c);
    }
    config
}
