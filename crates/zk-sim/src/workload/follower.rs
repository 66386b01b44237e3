//! Processes with a [`Cache`] of a tree that other clients change.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::unconstrained;
use tokio::time::{sleep, timeout};
use zk_coordination::{Cache, CacheStatus, Change, Changes};
use zk_testing::Rng;

use super::managed::{self, Managed};
use crate::clock::now;
use crate::oracle::{LEFT_OUT, Part, Replay, TREE_ROOT};
use crate::world::World;

/// Runs processes with a cache in a slot, one after the other, until the run drains.
pub(crate) async fn run(world: Arc<World>, slot: usize) {
    managed::run(world, slot, follow).await;
}

async fn follow(managed: Managed) {
    let Managed { world, sessions, mut rng, slot, .. } = managed;
    let plan = world.plan.coordination;
    let builder = match plan.depth {
        None => Cache::tree(&sessions, TREE_ROOT),
        Some(0) => Cache::node(&sessions, TREE_ROOT),
        Some(_) => Cache::children(&sessions, TREE_ROOT),
    };
    let builder = builder.changes_kept(plan.changes_kept).reads_in_flight(plan.reads_in_flight);
    let builder = if plan.filters {
        builder.filter(|path| !path.ends_with(&format!("/{LEFT_OUT}")))
    } else {
        builder
    };
    let Ok(cache) = builder.start() else { return };
    let mut reader = Reader { changes: cache.changes(), replay: Replay::default() };
    reader.restart(&world);
    while !world.is_draining() {
        reader.read_for_a_while(&world, &mut rng).await;
        reader.drain(&world);
        let equals = reader.replay.equals(&cache.snapshot());
        world.oracle().must("I20", equals);
        if rng.chance(0.05) {
            // A second subscriber starts from the snapshot of that time.
            reader.changes = cache.changes();
            reader.restart(&world);
        }
    }
    let until = now() + world.plan.time_limit();
    while !reader.is_current(&world, &cache) {
        if now() > until {
            let text = format!("the cache of client {slot} does not become current: {cache:?}");
            return world.oracle().violated("I20", text);
        }
        sleep(Duration::from_millis(50)).await;
    }
    world.oracle().log(format_args!("the cache of client {slot} is current"));
}

/// Subscriber of a cache.
struct Reader {
    changes: Changes,
    replay: Replay,
}

impl Reader {
    /// Reads changes as they come, or sleeps while they wait.
    async fn read_for_a_while(&mut self, world: &World, rng: &mut Rng) {
        let time = rng.around(world.plan.clients[0].timeout / 4) + Duration::from_millis(1);
        if rng.chance(0.3) {
            return sleep(time).await;
        }
        for _ in 0..rng.between(1, 20) {
            match timeout(time, self.changes.next()).await {
                Ok(Some(change)) => self.apply(world, &change),
                _ => return,
            }
        }
    }

    /// Reads all changes that have arrived, also more than tokio lets a task read at once.
    fn drain(&mut self, world: &World) {
        while let Some(Some(change)) = unconstrained(self.changes.next()).now_or_never() {
            self.apply(world, &change);
        }
    }

    fn restart(&mut self, world: &World) {
        if let Some(snapshot) = self.changes.snapshot() {
            world.oracle().cache_restarts(&mut self.replay, snapshot);
        }
    }

    fn apply(&mut self, world: &World, change: &Change) {
        match change {
            Change::Missed(_) => self.restart(world),
            change => {
                if change.new_node().is_some() {
                    world.oracle().had();
                }
                world.oracle().cache_changed(&mut self.replay, change);
            }
        }
    }

    /// Returns true if the cache is synced, beside nodes that it may not read, and equals the leader's tree.
    fn is_current(&mut self, world: &World, cache: &Cache) -> bool {
        self.drain(world);
        let plan = &world.plan.coordination;
        let part = Part { depth: plan.depth, filters: plan.filters };
        let is_current =
            world.server.with(|ensemble| self.replay.is_current(ensemble.tree(), part));
        is_current && matches!(cache.status(), CacheStatus::Synced | CacheStatus::Partial { .. })
    }
}
