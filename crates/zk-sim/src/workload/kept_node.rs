//! Processes that keep a persistent node, a node with a time to live, or a sequential node.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_coordination::{NodeMode, NodeState, PersistentNode};

use super::impatient;
use super::managed::{self, Managed};
use crate::faults::expire;
use crate::oracle::KEPT_PATH;
use crate::world::World;

/// Runs processes in a slot, one after the other, until the run drains.
pub(crate) async fn run(world: Arc<World>, slot: usize) {
    managed::run(world, slot, keep).await;
}

async fn keep(managed: Managed) {
    let mut keeper = Keeper { managed, node: None };
    while !keeper.managed.world.is_draining() {
        keeper.step().await;
    }
    keeper.examine().await;
}

/// A process that keeps its node.
struct Keeper {
    managed: Managed,
    node: Option<PersistentNode>,
}

impl Keeper {
    fn start(&mut self) -> Option<&PersistentNode> {
        if self.node.is_none() {
            let Managed { world, sessions, slot, .. } = &self.managed;
            let plan = &world.plan.coordination;
            let path = format!("{KEPT_PATH}/{}", name(*slot));
            let node = PersistentNode::builder(sessions, &path).data(self.fresh()).mode(plan.mode);
            let node = if plan.restores_data { node.keep_data() } else { node };
            self.node = node.start().ok();
        }
        self.node.as_ref()
    }

    /// Returns unique data.
    fn fresh(&self) -> Vec<u8> {
        format!("{}#{}", self.managed.slot, self.managed.world.next_number()).into_bytes()
    }

    async fn step(&mut self) {
        let world = Arc::clone(&self.managed.world);
        let time = world.plan.clients[self.managed.slot].timeout;
        let time = self.managed.rng.around(time) + Duration::from_millis(1);
        let (choice, data) = (self.managed.rng.below(8), self.fresh());
        let Some(node) = self.start() else { return };
        match choice {
            0..=2 => {
                if let Ok(Ok(())) = timeout(time, node.set_data(data.clone())).await {
                    world.oracle().kept_data_written(&data);
                    world.oracle().had();
                }
            }
            3 | 4 => drop(node.wait_until_present(time).await),
            5 => self.close().await,
            _ => sleep(time).await,
        }
        self.check_state();
    }

    /// Checks the node that the handle reports.
    fn check_state(&self) {
        let Some(node) = &self.node else { return };
        if let NodeState::Present { path, stat } = &node.state() {
            self.managed.world.oracle().kept_node_reported(path, stat.czxid);
        }
    }

    /// Closes the node in one of several ways.
    async fn close(&mut self) {
        let Some(node) = self.node.take() else { return };
        let closed = match self.managed.rng.below(3) {
            0 => return drop(node),
            1 => impatient(2, node.close()).await,
            _ => Some(node.close().await),
        };
        if let Some(Err(error)) = closed {
            self.managed.world.oracle().violated("I19", format!("{error}"));
        }
    }

    /// Checks without faults that the node is there, also after the end of its session, and that
    /// nothing is left of it after it is closed.
    async fn examine(mut self) {
        self.comes_back().await;
        let Some(first) = self.settle().await else { return };
        if self.managed.rng.chance(0.5) {
            let (world, client) = (&self.managed.world, self.managed.sessions.client());
            expire(world, client.session_id());
            drop(timeout(world.plan.time_limit(), client.wait_for_end()).await);
            let Some(second) = self.settle().await else { return };
            if first != second {
                let text = format!("{first} became {second}");
                self.managed.world.oracle().violated("I19", text);
            }
        }
        let Some(node) = self.node.take() else { return };
        let Managed { world, slot, .. } = &self.managed;
        match timeout(world.plan.time_limit(), node.close()).await {
            Ok(Ok(())) if !paths(world, *slot).contains(&first) => {}
            other => {
                let text = format!("{first} is not closed: {other:?}");
                return world.oracle().violated("I19", text);
            }
        }
        // The nodes of killed processes go with their sessions.
        let are_gone = || paths(world, *slot).is_empty().then_some(());
        let left = || format!("{:?} are left behind", paths(world, *slot));
        if world.comes_true("I5", are_gone, left).await.is_none() {
            return;
        }
        world.oracle().log(format_args!("the node of client {slot} is closed"));
    }

    /// Checks that the handle creates its node again without a call, if faults have left it without one.
    async fn comes_back(&self) {
        let (Some(node), world) = (&self.node, &self.managed.world) else { return };
        let exists = |path: &str| world.server.with(|ensemble| ensemble.tree().contains(path));
        let is_back = || {
            let is_back = matches!(&node.state(), NodeState::Present { path, .. } if exists(path));
            is_back.then_some(())
        };
        let missing = || format!("{node:?} does not come back, all well");
        world.comes_true("I19", is_back, missing).await;
    }

    /// Waits until the node has new data, and returns its path.
    async fn settle(&mut self) -> Option<String> {
        let (data, world) = (self.fresh(), Arc::clone(&self.managed.world));
        drop(self.start()?.set_data(data.clone()));
        let node = self.node.as_ref()?;
        let kept = || match node.state() {
            NodeState::Present { path, .. } if self.is_kept(&path, &data) => Some(path),
            _ => None,
        };
        let missing = || format!("{node:?} has not {data:?}, all well");
        world.comes_true("I19", kept, missing).await
    }

    /// Returns true if the node at the leader has this data, and belongs to the current session if
    /// it is ephemeral.
    fn is_kept(&self, path: &str, data: &[u8]) -> bool {
        let Managed { world, sessions, .. } = &self.managed;
        let session = sessions.client().session_id();
        let is_sequential = world.plan.coordination.mode == NodeMode::EphemeralSequential;
        world.server.with(|ensemble| {
            ensemble.tree().node(path).is_some_and(|node| {
                let is_ours = !is_sequential || node.stat().ephemeral_owner == session;
                is_ours && node.data() == Some(data)
            })
        })
    }
}

fn name(slot: usize) -> String {
    format!("{slot}n")
}

/// Length of the protection in the name of a sequential node.
const PROTECTION_LEN: usize = "_c_00000000-0000-0000-0000-000000000000-".len();

/// Returns the paths of all nodes of a slot at the leader.
fn paths(world: &World, slot: usize) -> Vec<String> {
    let name = name(slot);
    world.server.with(|ensemble| {
        let Some(parent) = ensemble.tree().node(KEPT_PATH) else { return Vec::new() };
        let children = parent.children().map(|child| child.to_string());
        let is_ours = |child: &String| {
            let unprotected = child.get(PROTECTION_LEN..).unwrap_or_default();
            child.starts_with(&name) || unprotected.starts_with(&name)
        };
        children.filter(is_ours).map(|child| format!("{KEPT_PATH}/{child}")).collect()
    })
}
