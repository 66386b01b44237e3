//! Processes that keep a node with their address, as the members of a group, and readers of the group.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_coordination::{Group, NodeState, PersistentNode};
use zk_session::SessionId;
use zk_testing::Rng;

use super::impatient;
use super::managed::{self, Managed, open};
use crate::clock::now;
use crate::faults::{expire, outsider};
use crate::oracle::GROUP_PATH;
use crate::world::World;

/// Runs members or readers in a slot, one after the other, until the run drains.
pub(crate) async fn run(world: Arc<World>, slot: usize) {
    if slot % 3 == 2 {
        managed::run(world, slot, read).await
    } else {
        managed::run(world, slot, keep).await
    }
}

/// A process that keeps its node.
struct Keeper {
    managed: Managed,
    path: String,
    node: Option<PersistentNode>,
    /// A second handle with the same path. It waits until the first one is closed.
    twin: Option<PersistentNode>,
    data: Vec<u8>,
}

async fn keep(managed: Managed) {
    let mut keeper = Keeper::new(managed);
    while !keeper.managed.world.is_draining() {
        if keeper.node.is_none() {
            keeper.start(None);
        }
        keeper.step().await;
    }
    keeper.examine().await;
}

impl Keeper {
    fn new(managed: Managed) -> Self {
        let plan = managed.world.plan.coordination;
        let path = format!("{GROUP_PATH}/{}", managed.slot % plan.ids);
        let previous = managed.previous_session;
        let mut this = Self { managed, path, node: None, twin: None, data: Vec::new() };
        let knows = this.managed.rng.chance(plan.knows_previous);
        this.start(if knows { previous } else { None });
        this
    }

    fn start(&mut self, previous: Option<SessionId>) {
        self.data = self.fresh();
        self.node = self.handle(self.data.clone(), previous);
    }

    fn handle(&self, data: Vec<u8>, previous: Option<SessionId>) -> Option<PersistentNode> {
        let Managed { world, sessions, .. } = &self.managed;
        world.oracle().handle_begins(self.managed.number, &self.path, previous);
        let builder = PersistentNode::builder(sessions, &self.path).data(data);
        let builder =
            if world.plan.coordination.restores_data { builder.keep_data() } else { builder };
        let builder =
            previous.into_iter().fold(builder, |builder, id| builder.previous_session(id));
        builder.start().ok()
    }

    /// Returns unique data.
    fn fresh(&self) -> Vec<u8> {
        let Managed { world, slot, generation, .. } = &self.managed;
        format!("{slot}.{generation}#{}", world.next_number()).into_bytes()
    }

    async fn step(&mut self) {
        let Some(node) = &self.node else { return };
        let plan = &self.managed.world.plan;
        let time = plan.clients[self.managed.slot].timeout;
        let time = self.managed.rng.around(time) + Duration::from_millis(1);
        match self.managed.rng.below(10) {
            0..=2 => {
                let data = self.fresh();
                self.data.clone_from(&data);
                if let Ok(Ok(())) = timeout(time, node.set_data(data.clone())).await {
                    self.managed.world.oracle().handle_written(self.managed.number, &data);
                    self.managed.world.oracle().had();
                }
            }
            3 | 4 => {
                if let Ok(stat) = node.wait_until_present(time).await {
                    let mut oracle = self.managed.world.oracle();
                    oracle.handle_present(self.managed.number, stat.czxid, stat.ephemeral_owner);
                    oracle.had();
                }
            }
            5 => self.close().await,
            6 if plan.coordination.has_twins && self.twin.is_none() => {
                self.twin = self.handle(self.fresh(), None);
            }
            7 => self.twin = None,
            _ => sleep(time).await,
        }
        self.check_twin();
    }

    /// Checks that at most one of two handles of the process claims the node.
    fn check_twin(&self) {
        let (Some(node), Some(twin)) = (&self.node, &self.twin) else { return };
        if node.state().is_present() && twin.state().is_present() {
            let text = format!("two handles of one process are present: {node:?}, {twin:?}");
            self.managed.world.oracle().violated("I19", text);
        }
    }

    /// Closes the node in one of several ways.
    async fn close(&mut self) {
        let Some(node) = self.node.take() else { return };
        let (style, polls) = self.managed.rng.pick(&[(0, 0), (1, 2), (2, 0), (2, 0)]);
        // The other handle takes over, so the process may create the node again.
        self.node = self.twin.take();
        let has_twin = self.node.is_some();
        if !has_twin {
            self.managed.world.oracle().handle_closes(self.managed.number);
        }
        let closed = match style {
            0 => return drop(node),
            1 => impatient(polls, node.close()).await,
            _ => Some(node.close().await),
        };
        match closed {
            Some(Ok(())) if has_twin => {}
            Some(Ok(())) => self.managed.world.oracle().handle_closed(self.managed.number),
            Some(Err(error)) => self.managed.world.oracle().violated("I19", format!("{error}")),
            None => {}
        }
    }

    /// Checks without faults that the node is there, also after the end of its session and after a
    /// restart of the process, and that nothing is left of it after it is closed.
    async fn examine(mut self) {
        self.twin = None;
        if self.node.is_none() {
            self.start(None);
        }
        self.settle().await;
        match self.managed.rng.below(3) {
            0 => {
                let session = self.managed.sessions.client().session_id();
                expire(&self.managed.world, session);
                // The client notices after its session timeout, at the latest.
                let client = self.managed.sessions.client();
                drop(timeout(self.managed.world.plan.time_limit(), client.wait_for_end()).await);
                self.settle().await;
            }
            1 => self.restart().await,
            _ => {}
        }
        let Some(node) = self.node.take() else { return };
        self.managed.world.oracle().handle_closes(self.managed.number);
        match timeout(self.managed.world.plan.time_limit(), node.close()).await {
            Ok(Ok(())) => self.managed.world.oracle().handle_closed(self.managed.number),
            other => {
                let text = format!("{} is not closed: {other:?}", self.path);
                self.managed.world.oracle().violated("I19", text);
            }
        }
    }

    /// Waits until the node has new data, and belongs to the current session.
    async fn settle(&mut self) {
        let Some(node) = &self.node else { return };
        let world = &self.managed.world;
        self.data = self.fresh();
        drop(node.set_data(self.data.clone()));
        let sessions = &self.managed.sessions;
        let is_settled = || {
            let session = sessions.client().session_id();
            let is_there = world.oracle().is_registered(&self.path, session, &self.data);
            let state = node.state();
            let is_present =
                matches!(state, NodeState::Present { stat, .. } if stat.ephemeral_owner == session);
            (is_there && is_present).then_some(())
        };
        let missing = || format!("{} is not there, all well: {node:?}", self.path);
        if world.comes_true("I19", is_settled, missing).await.is_none() {
            return;
        }
        world.oracle().log(format_args!("process {} is settled", self.managed.number));
    }

    /// Ends the process without a close, and starts it again with the session of its last run. The
    /// node must not become missing, unless the start takes longer than that session lasts.
    async fn restart(&mut self) {
        let (world, slot) = (Arc::clone(&self.managed.world), self.managed.slot);
        let previous = self.managed.sessions.client().session_id();
        let (since, gaps) = (now(), world.oracle().registrations.gaps(&self.path));
        world.oracle().log(format_args!("process {} is killed", self.managed.number));
        self.managed.process.cut_off();
        self.node = None;
        let Some(managed) = open(&world, slot, self.managed.generation + RESTARTED).await else {
            return;
        };
        self.managed = managed;
        self.start(Some(previous));
        self.settle().await;
        let shortest = world.plan.shortest_timeout(slot).unwrap_or_default();
        if now() - since < shortest / 2 && world.oracle().registrations.gaps(&self.path) != gaps {
            let text = format!("{} became missing while its process started again", self.path);
            world.oracle().violated("I19", text);
        }
    }
}

/// Added to the generation of a process that is started again without faults.
const RESTARTED: u64 = 1 << 20;

/// Reads the group, and checks each list.
async fn read(managed: Managed) {
    let Managed { world, sessions, mut rng, slot, .. } = managed;
    let Ok(mut group) = Group::open(&sessions, GROUP_PATH).await else { return };
    world.oracle().members_read(&group.members());
    while !world.is_draining() {
        let time = rng.around(world.plan.clients[slot].timeout) + Duration::from_millis(1);
        if let Ok(Ok(members)) = timeout(time, group.changed()).await {
            world.oracle().members_read(&members);
            world.oracle().had();
        }
    }
    // The members leave one after the other. The list must be current whenever that takes long.
    let time_limit = world.plan.time_limit();
    let since = now();
    loop {
        let changed_at = world.oracle().registrations.changed_at.unwrap_or(since).max(since);
        let members = group.members();
        let is_current = members.error().is_none() && world.oracle().is_group(&members);
        if is_current && now() - changed_at > world.plan.longest_timeout() * 2 {
            return;
        }
        if now() - changed_at > time_limit {
            let text = format!("the group of client {slot} does not become current: {group:?}");
            return world.oracle().violated("I19", text);
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Overwrites the data of members, as an operator.
pub(crate) async fn overwrite(world: Arc<World>, mut rng: Rng) {
    let Some(operator) = outsider(&world, usize::MAX - 3, &mut rng) else { return };
    loop {
        sleep(rng.around(world.plan.coordination.operated_every) + Duration::from_millis(1)).await;
        let path = format!("{GROUP_PATH}/{}", rng.index(world.plan.coordination.ids));
        let data = format!("overwritten#{}", world.next_number());
        drop(operator.set_data(&path, data.as_bytes(), None).await);
    }
}
