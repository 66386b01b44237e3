//! Check of guards whose nodes an operator has deleted (I15).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use zk_recipes::LockGuard;
use zk_session::Client;
use zk_testing::server::Target;
use zk_testing::{ConnectionId, Op, Rng, SessionId};

use crate::clock::now;
use crate::faults::outsider;
use crate::oracle::Orphan;
use crate::process::Process;
use crate::world::World;

/// Time within which a guard becomes invalid after its client has read the deletion event. Only
/// time in which its process runs counts.
const TOLD: Duration = Duration::from_millis(200);

/// Watches every such guard until it is invalid or has been valid for too long.
pub(crate) async fn judge_all(world: Arc<World>) {
    let wake = world.oracle().orphaned();
    loop {
        wake.notified().await;
        let orphans = world.oracle().take_orphans();
        for orphan in orphans {
            // A fault rule may drop the event, or the request that sets the watch. The client may
            // then have read the event only for another contender that watches the node.
            let sets_watch = |target: &Target| *target == Target::Op(Op::GetChildren2);
            let is_watched = !world.plan.rules.iter().any(|(target, ..)| sets_watch(target));
            if (orphan.is_told && is_watched) || world.plan.rules.is_empty() {
                tokio::spawn(judge(Arc::clone(&world), orphan));
            }
        }
    }
}

/// Reports a guard that stays valid for too long. The time counts only while the process runs and a
/// single connection works: the watch may not be set yet, and every new connection sets it again.
async fn judge(world: Arc<World>, orphan: Orphan) {
    let bound = if orphan.is_told { TOLD } else { reaction(&world) };
    let (mut since, mut before) = (now(), None);
    loop {
        sleep(bound / 20).await;
        let is_held = orphan.guard.upgrade().is_some_and(|guard| guard.is_held());
        if !is_held {
            return;
        }
        let Some((client, process)) = owner(&world, orphan.session) else { return };
        let connection = reaches(&world, &client, &orphan);
        let is_undisturbed = connection.is_some() && connection == before;
        before = connection;
        if !is_undisturbed || process.stood_still() {
            since = now();
        } else if now() - since > bound {
            let Orphan { attempt, node, is_told, .. } = orphan;
            let what = if is_told { "its client has read of the deletion" } else { "the deletion" };
            let text = format!("#{attempt} is held {bound:?} after {what} of {node}");
            return world.oracle().violated("I15", text);
        }
    }
}

/// Deletes the node of a guard without faults, and checks that the guard becomes invalid soon.
pub(crate) async fn examine(world: &Arc<World>, slot: usize, guard: &dyn LockGuard) {
    let nodes = guard.nodes();
    let mut rng = Rng::new(world.plan.seed ^ 0x6f72_7068_616e);
    let operator = outsider(world, usize::MAX - 2, &mut rng);
    let (Some(node), Some(operator)) = (nodes.first(), operator) else { return };
    world.oracle().operate_on(node);
    let deleted = operator.delete(node, None).await;
    world.oracle().log(format_args!("an operator deletes {node}: {deleted:?}"));
    sleep(reaction(world)).await;
    if deleted.is_ok() && guard.is_held() {
        let text = format!("client {slot} holds {node} with all well, an operator has deleted it");
        world.oracle().violated("I15", text);
    }
}

/// Returns the time that a guard may take to become invalid: the watch is set, and fires.
fn reaction(world: &World) -> Duration {
    let plan = &world.plan;
    let tail = if plan.latency.tail > 0.0 { plan.latency.longest } else { Duration::ZERO };
    let latency = plan.latency.typical.max(tail);
    latency * 4 + plan.flush_lag_max * 2 + Duration::from_millis(500)
}

/// Finds the client that owns a session, unless it is gone.
fn owner(world: &World, session: SessionId) -> Option<(Client, Arc<Process>)> {
    (0..world.slots()).find_map(|number| {
        let slot = world.slot(number);
        let client = slot.client.as_ref().filter(|client| client.session_id() == session)?;
        Some((client.clone(), Arc::clone(slot.process.as_ref()?)))
    })
}

/// Returns the client's connection, if it works and its server has applied the deletion.
fn reaches(world: &World, client: &Client, orphan: &Orphan) -> Option<ConnectionId> {
    if !client.is_connected() {
        return None;
    }
    world.server.with(|ensemble| {
        let at = ensemble.sessions().find(|session| session.id == orphan.session)?.server;
        let knows = !ensemble.tree_of(at)?.contains(&orphan.node);
        ensemble.connection_of(orphan.session).filter(|id| knows && ensemble.is_passable(*id))
    })
}
