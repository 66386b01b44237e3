//! Processes that register an instance of a service, and caches of the service.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_discovery::{Discovery, Instances, Registration, ServiceInstance};
use zk_session::SessionId;

use super::managed::{self, Managed};
use crate::faults::expire;
use crate::oracle::SERVICE_PATH;
use crate::world::World;

const BASE: &str = "/discovery";
const SERVICE: &str = "web";

/// Runs members or caches in a slot, one after the other, until the run drains.
pub(crate) async fn run(world: Arc<World>, slot: usize) {
    if slot % 3 == 2 {
        managed::run(world, slot, follow).await
    } else {
        managed::run(world, slot, serve).await
    }
}

/// A process that registers its instance.
struct Member {
    managed: Managed,
    discovery: Discovery,
    registration: Option<Registration>,
}

async fn serve(managed: Managed) {
    let Ok(discovery) = Discovery::new(&managed.sessions, BASE) else { return };
    let mut member = Member { managed, discovery, registration: None };
    while !member.managed.world.is_draining() {
        member.step().await;
    }
    member.examine().await;
}

impl Member {
    /// Returns the instance of the slot with unique data.
    fn fresh(&self) -> ServiceInstance {
        let Managed { world, slot, .. } = &self.managed;
        ServiceInstance::new(SERVICE)
            .with_id(slot.to_string())
            .with_registration_time_utc(0)
            .with_address(format!("host-{}", world.next_number()))
    }

    fn register(&mut self) -> Option<&Registration> {
        if self.registration.is_none() {
            self.registration = self.discovery.register(self.fresh()).ok();
        }
        self.registration.as_ref()
    }

    async fn step(&mut self) {
        let world = Arc::clone(&self.managed.world);
        let time = world.plan.clients[self.managed.slot].timeout;
        let time = self.managed.rng.around(time) + Duration::from_millis(1);
        let (choice, instance) = (self.managed.rng.below(8), self.fresh());
        let Some(registration) = self.register() else { return };
        match choice {
            0..=2 => {
                if let Ok(Ok(())) = timeout(time, registration.update(instance.clone())).await {
                    world.oracle().kept_data_written(instance.to_json().as_bytes());
                    world.oracle().had();
                }
            }
            3 | 4 => drop(registration.wait_until_registered(time).await),
            5 => self.registration = None,
            6 => {
                if let Err(error) = registration.unregister().await {
                    world.oracle().violated("I19", format!("{error}"));
                }
                self.registration = None;
            }
            _ => sleep(time).await,
        }
    }

    /// Checks without faults that the instance is registered, also after the end of its session, and
    /// that it is gone after it is unregistered.
    async fn examine(mut self) {
        self.comes_back().await;
        if !self.settle().await {
            return;
        }
        let (world, client) = (Arc::clone(&self.managed.world), self.managed.sessions.client());
        if self.managed.rng.chance(0.5) {
            expire(&world, client.session_id());
            drop(timeout(world.plan.time_limit(), client.wait_for_end()).await);
            if !self.settle().await {
                return;
            }
        }
        let Some(registration) = self.registration.take() else { return };
        let unregistered = timeout(world.plan.time_limit(), registration.unregister()).await;
        let is_left = registered(&world).contains_key(&self.managed.slot.to_string());
        if is_left || !matches!(unregistered, Ok(Ok(()))) {
            let text = format!("client {} is registered: {unregistered:?}", self.managed.slot);
            return world.oracle().violated("I19", text);
        }
        world.oracle().log(format_args!("client {} is unregistered", self.managed.slot));
    }

    /// Checks that the instance is registered again without a call, if faults have left it unregistered.
    async fn comes_back(&self) {
        let (Some(registration), world) = (&self.registration, &self.managed.world) else { return };
        let id = self.managed.slot.to_string();
        let is_back = || registered(world).contains_key(&id).then_some(());
        let missing = || format!("{registration:?} does not come back, all well");
        world.comes_true("I19", is_back, missing).await;
    }

    /// Waits until the current session has registered a new instance. Returns false if it does not.
    async fn settle(&mut self) -> bool {
        let (world, instance) = (Arc::clone(&self.managed.world), self.fresh());
        let (id, json) = (instance.id().to_owned(), instance.to_json().into_bytes());
        let Some(registration) = self.register() else { return false };
        // An update that fails is kept, and written as soon as possible.
        drop(timeout(world.plan.time_limit(), registration.update(instance)).await);
        let is_registered = || {
            let session = self.managed.sessions.client().session_id();
            (registered(&world).get(&id) == Some(&(session, json.clone()))).then_some(())
        };
        let missing = || format!("client {id} is not registered, all well");
        world.comes_true("I19", is_registered, missing).await.is_some()
    }
}

/// Follows the instances, and checks each list.
async fn follow(managed: Managed) {
    let Managed { world, sessions, mut rng, slot, .. } = managed;
    let Ok(discovery) = Discovery::new(&sessions, BASE) else { return };
    let Ok(cache) = discovery.cache(SERVICE).await else { return };
    let mut seen = cache.instances();
    check(&world, &seen);
    while !world.is_draining() {
        let time = rng.around(world.plan.clients[slot].timeout) + Duration::from_millis(1);
        match timeout(time, cache.changed(&seen)).await {
            Ok(Ok(instances)) => {
                check(&world, &instances);
                world.oracle().had();
                seen = instances;
            }
            Ok(Err(error)) => return world.oracle().violated("I20", format!("{error}")),
            Err(_) => {}
        }
    }
    // The members leave one after the other.
    let is_current = || is_current(&world, &cache.instances()).then_some(());
    let listed = || format!("client {slot} lists {:?}", cache.instances());
    if world.comes_true("I20", is_current, listed).await.is_none() {
        return;
    }
    world.oracle().log(format_args!("the instances of client {slot} are current"));
}

/// Checks that each instance was registered at some time.
fn check(world: &World, instances: &Instances) {
    for instance in instances.iter() {
        world.oracle().kept_data_written(instance.to_json().as_bytes());
    }
    if let Some(rejected) = instances.rejected().first() {
        world.oracle().violated("I20", format!("{rejected:?}"));
    }
}

fn is_current(world: &World, instances: &Instances) -> bool {
    let listed = instances
        .iter()
        .map(|instance| (instance.id().to_owned(), instance.to_json().into_bytes()));
    let registered = registered(world);
    listed.eq(registered.into_iter().map(|(id, (_, json))| (id, json)))
}

/// Returns the owner and the JSON of each registered instance at the leader, by id.
fn registered(world: &World) -> BTreeMap<String, (SessionId, Vec<u8>)> {
    world.server.with(|ensemble| {
        let nodes = ensemble.tree().iter().filter_map(|(path, node)| {
            let id = path.strip_prefix(SERVICE_PATH)?.strip_prefix('/')?;
            let json = node.data().unwrap_or_default().to_vec();
            Some((id.to_owned(), (node.stat().ephemeral_owner, json)))
        });
        nodes.collect()
    })
}
