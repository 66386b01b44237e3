//! Random sequences of actions of callers, servers and the clock. The contract holds after every
//! step, and every answer is true.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed};
use zk_session_core::Outcome;
use zk_session_core::WatchKind;

use crate::harness::{Servers, ms};
use crate::server::{Server, World};

/// One action in a sequence.
#[derive(Clone, Debug)]
enum Step {
    Create(u8),
    Delete(u8),
    Set(u8),
    Get(u8),
    Watch(WatchKind, u8),
    Sync,
    DeleteGuaranteed(u8),
    Sweep,
    Auth,
    Abandon(u8),
    Claim,
    Unclaim,
    Advance(u64),
    Freeze(u64),
    Servers(Servers),
    Unanswered(i32, bool),
    Cut,
    /// Cuts the connection after so many bytes to the server, or so many to the client.
    CutAfter(usize, usize),
    Room(usize),
    Expire,
    Remove(u8),
    Close,
}

fn step() -> impl Strategy<Value = Step> {
    let node = 0_u8..6;
    let kind =
        prop_oneof![Just(WatchKind::Data), Just(WatchKind::Exists), Just(WatchKind::Children)];
    let servers = prop_oneof![
        4 => Just(Servers::Serve),
        1 => Just(Servers::Refuse),
        1 => Just(Servers::Close),
        1 => Just(Servers::Greet),
        1 => Just(Servers::Silent),
    ];
    let op = prop_oneof![Just(11), Just(9), Just(15), Just(2), Just(101)];
    prop_oneof![
        3 => node.clone().prop_map(Step::Create),
        2 => node.clone().prop_map(Step::Delete),
        2 => node.clone().prop_map(Step::Set),
        2 => node.clone().prop_map(Step::Get),
        3 => (kind, node.clone()).prop_map(|(kind, node)| Step::Watch(kind, node)),
        1 => Just(Step::Sync),
        2 => node.clone().prop_map(Step::DeleteGuaranteed),
        1 => Just(Step::Sweep),
        1 => Just(Step::Auth),
        1 => any::<u8>().prop_map(Step::Abandon),
        2 => Just(Step::Claim),
        1 => Just(Step::Unclaim),
        6 => (0_u64..3000).prop_map(Step::Advance),
        1 => (0_u64..20_000).prop_map(Step::Freeze),
        3 => servers.prop_map(Step::Servers),
        1 => (op, any::<bool>()).prop_map(|(op, on)| Step::Unanswered(op, on)),
        2 => Just(Step::Cut),
        2 => (1_usize..200, 1_usize..200).prop_map(|(to, from)| Step::CutAfter(to, from)),
        1 => prop_oneof![0_usize..300, Just(usize::MAX)].prop_map(Step::Room),
        1 => Just(Step::Expire),
        1 => node.prop_map(Step::Remove),
        1 => Just(Step::Close),
    ]
}

fn path(node: u8) -> String {
    format!("/n/{node}")
}

/// Number of a request, and the change that it makes at the server.
type Change = (u32, String);

struct Run {
    world: World,
    changes: Vec<Change>,
    claims: usize,
}

impl Run {
    fn act(&mut self, step: &Step) {
        let world = &mut self.world;
        let open = world.session.end_reason().is_none();
        match step.clone() {
            Step::Advance(by) => world.advance(ms(by)),
            Step::Freeze(by) => world.freeze(ms(by)),
            Step::Servers(servers) => {
                world.servers = servers;
                world.settle();
            }
            Step::Unanswered(op, true) => drop(world.unanswered.insert(op)),
            Step::Unanswered(op, false) => {
                world.unanswered.remove(&op);
                world.settle();
            }
            Step::Cut => world.cut_if_open(),
            Step::CutAfter(to, from) => (world.to_server, world.to_client) = (to, from),
            Step::Room(room) => {
                world.room = room;
                world.settle();
            }
            Step::Expire => world.server.expire(),
            Step::Remove(node) => world.remove_node(&path(node)),
            Step::Close => world.close(),
            Step::Claim => {
                self.claims += 1;
                world.claim();
            }
            Step::Unclaim if self.claims > 0 => {
                self.claims -= 1;
                world.session.unclaim_lease();
            }
            Step::Unclaim => {}
            Step::Abandon(n) => world.abandon_if_asked(u32::from(n)),
            _ if !open || world.closing => {}
            Step::Create(node) => {
                let path = path(node);
                let n = world.create(&path);
                self.changes.push((n, format!("create {path}")));
            }
            Step::Delete(node) => {
                let path = path(node);
                let n = world.delete(&path);
                self.changes.push((n, format!("delete {path}")));
            }
            Step::Set(node) => {
                let path = path(node);
                let n = world.set(&path);
                self.changes.push((n, format!("set {path}")));
            }
            Step::Get(node) => drop(world.get(&path(node))),
            Step::Watch(kind, node) => drop(world.watch(kind, &path(node))),
            Step::Sync => drop(world.sync()),
            Step::DeleteGuaranteed(node) => drop(world.delete_guaranteed(&path(node))),
            Step::Sweep => world.sweep("/n", "1"),
            Step::Auth => drop(world.auth("digest")),
        }
    }

    /// Checks the session after a step. `applied` is a set, so only the absence of a change proves
    /// something about requests for the same node.
    fn check(&mut self) {
        let world = &mut self.world;
        world.check_contract();
        for (n, change) in &self.changes {
            let applied = world.server.has_applied(change);
            match world.reply(*n) {
                Some(Ok(_)) => assert!(applied, "{change} was answered and not done"),
                Some(Err((_, Outcome::Applied))) => panic!("only a decoder says so"),
                _ => {}
            }
        }
        // A lease never ends later than the leader can have promised.
        if let Some(until) = world.lease() {
            assert!(until <= world.now() + ms(6000 - 506));
        }
        // Handling the due timeouts leaves no timeout due. Otherwise the driver would loop.
        world.tick();
        assert!(world.deadline().is_none_or(|at| at > world.now()));
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn contract_holds_after_every_step(
        steps in prop::collection::vec(step(), 1..60),
        seed in any::<u128>(),
    ) {
        let server = Server::new(&["/n", "/n/0", "/n/10", "/n/11"]);
        let mut world = World::of(server, |settings| settings.seed = seed);
        world.servers = Servers::Serve;
        let mut run = Run { world, changes: Vec::new(), claims: 0 };
        for step in &steps {
            run.act(step);
            run.check();
        }
        // Once the servers serve again, every request is answered and clean-up completes.
        let world = &mut run.world;
        (world.to_server, world.to_client, world.room) = (usize::MAX, usize::MAX, usize::MAX);
        world.servers = Servers::Serve;
        world.unanswered.clear();
        world.cut_if_open();
        world.advance(ms(20_000));
        world.check_all_answered();
        let attempts = u128::try_from(world.attempts().len()).unwrap();
        prop_assert!(
            attempts < 40 + world.now().as_millis() / 150,
            "{attempts} attempts in {:?}", world.now()
        );
        run.world.finish();
    }
}

fn config() -> Config {
    let mut config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(0x5e55);
    }
    config
}
