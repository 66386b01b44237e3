//! Faults of a script that strike the world around a frame.

use std::sync::Arc;

use tokio::time::sleep;
use zk_session::{Client, CreateMode, Error, ErrorOrigin};
use zk_testing::server::{Action, Rule, Target};
use zk_testing::{Cut, SessionId};

use crate::clock::now;
use crate::faults::{expire, outsider};
use crate::script::{Due, Fault, Script};
use crate::world::World;

/// Lets the faults of the script strike, if the run has one.
pub(crate) async fn strike_all(world: Arc<World>) {
    while let Some(due) = world.script.as_ref().map(Script::next_due) {
        let due = due.await;
        tokio::spawn(strike(Arc::clone(&world), due));
    }
}

async fn strike(world: Arc<World>, due: Due) {
    let world = &world;
    let Due { fault, slot, server: at, connection } = due;
    let (server, timeout) = (&world.server, world.plan.longest_timeout());
    let session = world.slot(slot).client.as_ref().map_or(SessionId::NONE, Client::session_id);
    match fault {
        Fault::HalfOpen => server.with(|servers| servers.stall_connection(connection)),
        Fault::Delay => {
            server.with(|servers| servers.stall_connection(connection));
            world.later(timeout.mul_f64(DELAY), move |world| {
                let now = now().into_std();
                world.server.with(|servers| servers.resume_connection(now, connection));
            });
        }
        Fault::Reconnect => {
            let action = Action::ApplyThenDrop(Cut::Fin);
            let session = (session != SessionId::NONE).then_some(session);
            let rule = Rule { session, ..Rule::new(Target::Connect, action) };
            let now = now().into_std();
            server.with(|servers| {
                servers.add_rule(rule);
                servers.cut_connection(now, connection, Cut::Fin);
            });
        }
        Fault::Expire if session != SessionId::NONE => expire(world, session),
        Fault::Pause => {
            if let Some(process) = &world.slot(slot).process {
                process.freeze(now() + timeout.mul_f64(PAUSE));
            }
        }
        Fault::Drop => {
            let drops = Arc::clone(&world.slot(slot).drops);
            drops.notify_waiters();
        }
        Fault::Crash => {
            server.kill(at);
            if at == server.leader() {
                elect_next(world);
            }
            world.later(timeout.mul_f64(DELAY), move |world| world.server.restart(at));
        }
        Fault::Elect => elect_next(world),
        Fault::Recreate => recreate(world, slot).await,
        Fault::CutAfter => {
            let now = now().into_std();
            server.with(|servers| servers.cut_connection(now, connection, Cut::Fin));
        }
        Fault::CutBefore | Fault::Late | Fault::Expire => {}
    }
}

/// Elects the next server that can lead.
fn elect_next(world: &World) {
    let (count, leader) = (world.plan.servers.len(), world.server.leader());
    let _is_elected = (1..count).any(|step| world.server.elect((leader + step) % count));
}

/// Deletes the node of a client, creates one of the same name, and deletes that one after a while.
async fn recreate(world: &Arc<World>, slot: usize) {
    let Some(node) = world.oracle().operate(slot) else { return };
    let Some(operator) = outsider(world, usize::MAX, &mut world.rng(6)) else { return };
    // A client may have deleted its node by now.
    if operator.delete(&node, None).await.is_err() {
        return;
    }
    let created = operator.create(&node, b"", CreateMode::Persistent).await;
    world.oracle().log(format_args!("an operator recreates {node}: {created:?}"));
    sleep(world.plan.longest_timeout() / 4).await;
    let is_over = |error: Error| error.origin() != ErrorOrigin::Network;
    while !operator.delete(&node, None).await.map_or_else(is_over, |()| true) {
        sleep(world.plan.tick).await;
    }
}

/// Parts of a session timeout. A delay ends a lease, and not the connection or the session. A pause ends
/// the session.
const DELAY: f64 = 0.6;
const PAUSE: f64 = 1.6;
