//! Faults of whole servers: the servers of new holders, which rely on them most, and any server.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_testing::server::{Action, Rule, Target};
use zk_testing::{Cut, Rng, SessionId};

use crate::world::World;

/// Makes the server of a session unavailable for `time`, while the others continue without it. The
/// server is cut off, stopped or killed; if it led, another one is usually elected. In one of five
/// cases the session is stranded instead. Returns false if the server of the session is unknown, or
/// the run drains.
pub(crate) fn isolate(
    world: &Arc<World>,
    session: SessionId,
    time: Duration,
    rng: &mut Rng,
) -> bool {
    // A draining run gets no more faults, even if the caller decided earlier.
    if world.is_draining() {
        return false;
    }
    let found = world.server.with(|ensemble| ensemble.sessions().find(|open| open.id == session));
    let Some(at) = found.map(|session| session.server) else { return false };
    let (server, leader) = (&world.server, world.server.leader());
    let log = |kind, what: std::fmt::Arguments<'_>| world.oracle().fault(kind, what);
    if rng.chance(0.2) {
        strand(world, session, time);
        return true;
    }
    if world.plan.servers.len() == 1 {
        kill(world, at, time, rng);
        return true;
    }
    match (rng.below(4), at == leader) {
        (0 | 3, true) => {
            let successor = another(world, at, rng);
            log("isolate leader", format_args!("{at} for {time:?}, {successor} leads"));
            let _ = server.isolate_leader(successor);
            world.later(time, move |world| world.server.heal(at));
        }
        (0, false) => {
            log("isolate follower", format_args!("{at} for {time:?}"));
            server.cut_from_leader(at);
            world.later(time, move |world| world.server.heal(at));
        }
        (3, false) => {
            // No server has told the new leader of the session's touches.
            log("isolate follower", format_args!("{at} for {time:?}, and another server leads"));
            server.cut_from_leader(at);
            elect_any(world, rng);
            world.later(time, move |world| world.server.heal(at));
        }
        (1, _) => {
            log("stop server", format_args!("{at} for {time:?}"));
            let time = time.min(world.plan.shortest_of_all() * 4);
            server.stall(at);
            if at == leader {
                elect_any(world, rng);
            }
            world.later(time, move |world| world.server.resume(at));
        }
        _ => kill(world, at, time, rng),
    }
    true
}

/// Kills a server and restarts it after `time`. If it led, another server is usually elected
/// after a while. Otherwise there is no leader until the restart.
pub(crate) fn kill(world: &Arc<World>, at: usize, time: Duration, rng: &mut Rng) {
    world.oracle().fault("kill server", format_args!("{at} for {time:?}"));
    world.server.kill(at);
    world.later(time, move |world| world.server.restart(at));
    if at == world.server.leader() && rng.chance(0.8) {
        let (world, mut rng) = (Arc::clone(world), rng.fork());
        tokio::spawn(async move {
            sleep(rng.around(world.plan.tick)).await;
            if !world.is_draining() && world.server.leader() == at {
                elect_any(&world, &mut rng);
            }
        });
    }
}

/// Elects any server that can lead, other than the present leader.
pub(crate) fn elect_any(world: &World, rng: &mut Rng) {
    let (count, first) = (world.plan.servers.len(), rng.index(world.plan.servers.len()));
    let leader = world.server.leader();
    let all = (0..count).map(|step| (first + step) % count).filter(|at| *at != leader);
    if let Some(elected) = all.into_iter().find(|at| world.server.elect(*at)) {
        world.oracle().fault("elect", format_args!("{elected}"));
    }
}

/// Picks another server. There must be several.
pub(crate) fn another(world: &World, at: usize, rng: &mut Rng) -> usize {
    let count = world.plan.servers.len();
    (at + 1 + rng.index(count - 1)) % count
}

/// Makes a session reconnect without the knowledge of its client. It cuts the connection, and drops
/// the reply to the next connect request, which the server applies. All servers then refuse
/// connections for `time`. The session may expire by a timeout that the client does not know.
fn strand(world: &Arc<World>, session: SessionId, time: Duration) {
    world.oracle().fault("strand", format_args!("{session} for {time:?}"));
    let action = Action::ApplyThenDrop(Cut::Fin);
    let rule = Rule { session: Some(session), ..Rule::new(Target::Connect, action) };
    let rule = world.server.with(|servers| servers.add_rule(rule));
    world.server.connection_of(session).cut(Cut::Fin);
    let world = Arc::clone(world);
    tokio::spawn(async move {
        let step = Duration::from_millis(1);
        let mut left = time / 4;
        while !left.is_zero() && world.server.with(|servers| servers.rule_count(rule)) == 0 {
            sleep(step).await;
            left = left.saturating_sub(step);
        }
        world.server.with(|servers| servers.remove_rule(rule));
        if world.is_draining() {
            return;
        }
        world.oracle().log(format_args!("{session} has reconnected and does not know it"));
        let all = 0..world.plan.servers.len();
        all.clone().for_each(|server| world.server.refuse_connects(server));
        world.later(time, move |world| all.for_each(|at| world.server.accept_connects(at)));
    });
}
