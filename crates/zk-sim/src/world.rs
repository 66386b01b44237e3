//! State that the parts of one simulation share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use zk_session::{Client, SessionManager};
use zk_testing::{Rng, Settings, TestServer};

use crate::clock::now;
use crate::model::{Lease, Lock};
use crate::oracle::Oracle;
use crate::plan::Plan;
use crate::process::Process;
use crate::recipe::Recipe;
use crate::script::Script;
use crate::steps::Steps;

pub(crate) struct World {
    pub(crate) plan: Plan,
    /// The faults of a run that draws none.
    pub(crate) script: Option<Script>,
    pub(crate) steps: Arc<Steps>,
    pub(crate) server: TestServer,
    oracle: Arc<Mutex<Oracle>>,
    slots: Vec<Mutex<Slot>>,
    draining: AtomicBool,
    target: Notify,
    next_number: AtomicU64,
}

/// The place of a client. When a client is gone, the next one takes its place.
#[derive(Default)]
pub(crate) struct Slot {
    pub(crate) process: Option<Arc<Process>>,
    pub(crate) client: Option<Client>,
    /// The manager of the client's session, if it has one.
    pub(crate) sessions: Option<SessionManager>,
    /// Drivers of this client and of earlier ones.
    pub(crate) drivers: Vec<JoinHandle<()>>,
    /// Wakes the contender whose operation is to be dropped.
    pub(crate) drops: Arc<Notify>,
}

impl World {
    pub(crate) fn new(plan: Plan, script: Option<Script>) -> Arc<Self> {
        let settings = Settings::new()
            .servers(plan.servers.len())
            .tick_time(plan.tick)
            .sync_limit(plan.sync_limit)
            .container_check_interval(plan.reap_interval)
            .version(plan.version)
            // The faults of the servers draw other numbers than the plan.
            .seed(plan.seed ^ 0x5851_f42d_4c95_7f2d);
        let own = plan.servers.iter().enumerate();
        let settings = own.fold(settings, |all, (number, server)| server.set_up(number, all));
        let server = TestServer::in_memory_with(settings);
        let asked = (!plan.locks).then_some(plan.session.requests);
        let mut oracle = Oracle::new(plan.lock_path, plan.handoffs, asked);
        oracle.has_slow_expiry = !plan.expiry_pass.is_zero();
        oracle.local_queues.limit(plan.local_queue.passes, plan.local_queue.time);
        oracle.barriers.size = plan.coordination.members;
        if !plan.permits.shared {
            oracle.limits.fix(plan.permits.most);
        }
        oracle.lease = Lease::new(plan.lease_assumptions());
        let has_mutex = matches!(plan.recipe, Recipe::Mutex | Recipe::Revocation);
        oracle.lock = (has_mutex && plan.locks).then(Lock::default);
        let steps = Steps::new(Arc::clone(&oracle.news));
        let oracle = Arc::new(Mutex::new(oracle));
        let (told, followed) = (Arc::clone(&oracle), Arc::clone(&oracle));
        server.with(|servers| {
            servers.observe(move |tree, commit| lock(&told).committed(tree, commit));
            servers.observe_sessions(move |now, step| lock(&followed).serves(now, step));
        });
        let slots = plan.clients.iter().map(|_| Mutex::default()).collect();
        let (draining, next_number) = (AtomicBool::new(false), AtomicU64::new(1));
        let target = Notify::new();
        Arc::new(Self { plan, script, steps, server, oracle, slots, draining, target, next_number })
    }

    /// Locks the oracle. The guard must not be held across an await, or across a call of the
    /// server, which calls the oracle.
    pub(crate) fn oracle(&self) -> MutexGuard<'_, Oracle> {
        lock(&self.oracle)
    }

    pub(crate) fn slot(&self, number: usize) -> MutexGuard<'_, Slot> {
        lock(&self.slots[number])
    }

    pub(crate) fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Waits, once the faults have ended, until `found` returns something. Otherwise the invariant is
    /// broken, with the text of `missing`.
    pub(crate) async fn comes_true<T>(
        &self,
        invariant: &'static str,
        mut found: impl FnMut() -> Option<T>,
        missing: impl FnOnce() -> String,
    ) -> Option<T> {
        let until = now() + self.plan.time_limit();
        loop {
            if let Some(found) = found() {
                return Some(found);
            }
            if now() > until {
                self.oracle().violated(invariant, missing());
                return None;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Returns true if no new work may begin.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Returns the notification of new ephemeral nodes, lock nodes among them.
    pub(crate) fn fresh(&self) -> Arc<Notify> {
        Arc::clone(&self.oracle().fresh)
    }

    /// Returns the notification that the target of the run is reached.
    pub(crate) fn target(&self) -> &Notify {
        &self.target
    }

    pub(crate) fn reached_target(&self) {
        self.target.notify_one();
    }

    /// Ends a fault after `time`, unless the run drains before.
    pub(crate) fn later(
        self: &Arc<Self>,
        time: Duration,
        undo: impl FnOnce(&Self) + Send + 'static,
    ) {
        let world = Arc::clone(self);
        tokio::spawn(async move {
            sleep(time).await;
            // `heal` ends all faults when the run drains. Undoing a fault again would break
            // connections.
            if !world.is_draining() {
                undo(&world);
            }
        });
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns random numbers for one part, independent of the draws of other parts.
    pub(crate) fn rng(&self, part: u64) -> Rng {
        let mut rng = Rng::new(self.plan.seed ^ part.wrapping_mul(0x9e6c_63d0_876a_3f6b));
        rng.fork()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
