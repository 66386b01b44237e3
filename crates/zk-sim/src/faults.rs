//! Injection of faults, and their end.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_session::{Client, Config};
use zk_testing::server::{Action, Rule, RuleId};
use zk_testing::{Cut, Rng, SessionId};

use crate::clock::now;
use crate::network::Network;
use crate::plan::Timed;
use crate::server_faults;
use crate::world::World;

/// Fault rules for requests that are in force.
pub(crate) struct Rules(Vec<(RuleId, &'static str)>);

impl Rules {
    pub(crate) fn put_in_force(world: &World) -> Self {
        if world.plan.servers.len() > 1 {
            world.server.lag(world.plan.servers.len() - 1, world.plan.lag);
        }
        world.server.slow_expiry(world.plan.expiry_pass);
        let ids = world.server.with(|servers| {
            let add = |&(target, action, probability): &(_, Action, f64)| {
                let rule = Rule { times: None, probability, ..Rule::new(target, action) };
                (servers.add_rule(rule), name_of(action))
            };
            world.plan.rules.iter().map(add).collect()
        });
        Self(ids)
    }

    /// Removes the rules, and counts how often each was applied.
    fn clear(self, world: &World) {
        let counts: Vec<(&'static str, u64)> = world.server.with(|servers| {
            let counts = self.0.iter().map(|(id, name)| (*name, servers.rule_count(*id))).collect();
            servers.clear_rules();
            counts
        });
        let mut oracle = world.oracle();
        for (name, count) in counts {
            *oracle.faults.entry(name).or_default() += count;
        }
    }
}

/// Maximum number of random faults in a run.
const STRIKES_MAX: u32 = 200;

/// Injects a random fault again and again.
pub(crate) async fn strike(world: Arc<World>, mut rng: Rng) {
    let Some(operator) = outsider(&world, usize::MAX, &mut rng) else { return };
    let total: u64 = world.plan.timed.iter().map(|(_, weight)| weight).sum();
    // After this many faults, the rest of the run shows their consequences.
    for _ in 0..if total > 0 { STRIKES_MAX } else { 0 } {
        sleep(rng.around(world.plan.timed_every) + Duration::from_millis(1)).await;
        let mut choice = rng.below(total);
        for &(timed, weight) in &world.plan.timed {
            if choice < weight {
                once(&world, timed, &mut rng, &operator).await;
                break;
            }
            choice -= weight;
        }
    }
}

/// Expires sessions as soon as they have created a lock node or another ephemeral node, before the
/// client can read the reply.
pub(crate) async fn expire_owners(world: Arc<World>, mut rng: Rng) {
    if world.plan.expire_after_create == 0.0 {
        return;
    }
    loop {
        world.fresh().notified().await;
        let fresh = std::mem::take(&mut world.oracle().fresh_owners);
        for session in fresh {
            if rng.chance(world.plan.expire_after_create) {
                expire(&world, session);
            }
        }
    }
}

/// Ends all faults.
pub(crate) fn heal(world: &World, rules: Rules) {
    rules.clear(world);
    let server = &world.server;
    server.slow_expiry(Duration::ZERO);
    for number in 0..world.plan.servers.len() {
        server.restart(number);
        server.heal(number);
        server.resume(number);
        server.accept_connects(number);
        server.refuse_as_ahead(number, 0);
        server.make_writable(number);
    }
    server.connections().resume();
    world.oracle().log(format_args!("all faults end"));
}

async fn once(world: &Arc<World>, timed: Timed, rng: &mut Rng, operator: &Client) {
    let server = &world.server;
    let number = rng.index(world.plan.servers.len());
    let leader = server.leader();
    let next = (number + 1) % world.plan.servers.len();
    // A server other than the leader, if there is one.
    let follower = if number == leader { next } else { number };
    let slot = rng.index(world.slots());
    // Mostly shorter than a session timeout, sometimes longer.
    let timeout = world.plan.clients[slot].timeout;
    let time = if rng.chance(0.3) { rng.millis(timeout * 3) } else { rng.around(timeout / 4) };
    let how = rng.pick(&[Cut::Fin, Cut::Rst, Cut::Silence]);
    let session = world.slot(slot).client.as_ref().map_or(SessionId::NONE, Client::session_id);
    let log = |kind, what: std::fmt::Arguments<'_>| world.oracle().fault(kind, what);
    match timed {
        Timed::CutOne => {
            log("cut", format_args!("client {slot}, {how:?}"));
            server.connection_of(session).cut(how);
        }
        Timed::CutAll => {
            log("cut all", format_args!("{how:?}"));
            server.connections().cut(how);
        }
        Timed::StallOne => {
            log("stall", format_args!("client {slot} for {time:?}"));
            let connection = server.connection_of(session);
            connection.stall();
            world.later(time, move |_| connection.resume());
        }
        Timed::StallServer => {
            // A server that resumes processes connect requests that clients have abandoned. A lease
            // assumes that this takes less than five of its timeouts.
            let time = time.min(world.plan.shortest_of_all() * 4);
            log("stall server", format_args!("{number} for {time:?}"));
            server.stall(number);
            world.later(time, move |world| world.server.resume(number));
        }
        Timed::Expire => expire(world, session),
        Timed::RefuseConnects => {
            log("refuse connects", format_args!("{number} for {time:?}"));
            server.refuse_connects(number);
            world.later(time, move |world| world.server.accept_connects(number));
        }
        Timed::CloseConnects => {
            log("close connects", format_args!("{number} for {time:?}"));
            server.close_on_connect(number);
            server.connections().cut(Cut::Fin);
            world.later(time, move |world| world.server.accept_connects(number));
        }
        Timed::RefuseAsAhead => {
            let times = rng.between(1, 20);
            log("refuse as ahead", format_args!("{number}, {times} times"));
            server.refuse_as_ahead(number, times);
            server.connection_of(session).cut(Cut::Fin);
        }
        Timed::CutFromLeader if follower != leader => {
            log("cut from leader", format_args!("{follower} for {time:?}"));
            server.cut_from_leader(follower);
            world.later(time, move |world| world.server.heal(follower));
        }
        Timed::IsolateLeader if follower != leader => {
            log("isolate leader", format_args!("{leader} for {time:?}, {follower} leads"));
            let _ = server.isolate_leader(follower);
            world.later(time, move |world| world.server.heal(leader));
        }
        Timed::Lag if follower != leader => {
            let lag = rng.around(timeout / 10);
            log("lag", format_args!("{follower} by {lag:?} for {time:?}"));
            server.lag(follower, lag);
            world.later(time, move |world| world.server.heal(follower));
        }
        Timed::FreezeView if follower != leader => {
            log("freeze view", format_args!("{follower} for {time:?}"));
            server.freeze_view(follower);
            world.later(time, move |world| world.server.heal(follower));
        }
        Timed::ReadOnly => {
            log("read-only", format_args!("{number} for {time:?}"));
            server.make_read_only(number);
            world.later(time, move |world| world.server.make_writable(number));
        }
        Timed::Reap => {
            let reaped = server.reap_containers();
            log("reap", format_args!("{reaped}"));
        }
        Timed::DeleteNode => {
            let node = world.oracle().operate(rng.index(10));
            if let Some(node) = node {
                log("delete node", format_args!("{node}"));
                drop(operator.delete(&node, None));
            }
        }
        Timed::FreezeClient => {
            log("freeze client", format_args!("{slot} for {time:?}"));
            if let Some(process) = &world.slot(slot).process {
                process.freeze(now() + time);
            }
        }
        Timed::CrashClient => {
            log("crash client", format_args!("{slot}"));
            let mut place = world.slot(slot);
            if let Some(process) = place.process.take() {
                process.kill();
            }
            (place.client, place.sessions) = (None, None);
        }
        Timed::Elect => server_faults::elect_any(world, rng),
        Timed::KillServer => server_faults::kill(world, number, time, rng),
        Timed::FlushLag if follower != leader => {
            let lag = rng.millis(world.plan.flush_lag_max);
            log("flush lag", format_args!("{follower} by {lag:?} for {time:?}"));
            server.lag_flushes(follower, lag);
            world.later(time, move |world| world.server.lag_flushes(follower, Duration::ZERO));
        }
        Timed::FlushLag
        | Timed::CutFromLeader
        | Timed::IsolateLeader
        | Timed::Lag
        | Timed::FreezeView => {}
    }
}

pub(crate) fn expire(world: &World, session: SessionId) {
    world.oracle().force(session);
    world.oracle().fault("expire", format_args!("{session}"));
    world.server.expire(session);
}

/// Creates a client outside the clients under test, for an operator that deletes nodes or changes
/// limits.
pub(crate) fn outsider(world: &Arc<World>, slot: usize, rng: &mut Rng) -> Option<Client> {
    outsider_config(world, slot, rng)?.open().ok()
}

/// Returns the settings of such a client.
pub(crate) fn outsider_config(
    world: &Arc<World>,
    slot: usize,
    rng: &mut Rng,
) -> Option<Config<Network>> {
    let network = Network::new(world, slot, rng);
    let hosts: Vec<_> =
        (0..world.plan.servers.len()).map(|number| format!("server-{number}:1")).collect();
    let config = Config::new(&hosts.join(",")).ok()?;
    Some(config.seed(u128::from(rng.draw())).connector(network))
}

fn name_of(action: Action) -> &'static str {
    match action {
        Action::ApplyThenDrop(_) => "apply, drop reply",
        Action::DropBefore(_) => "drop request",
        Action::CutReply { .. } => "cut reply",
        Action::CutRequest { .. } => "cut request",
        Action::Delay(_) => "delay",
        Action::Split { .. } => "split",
        Action::Coalesce => "coalesce",
        Action::NeverAnswer => "swallow",
        Action::Answer(_) => "answer with an error",
        _ => "other",
    }
}
