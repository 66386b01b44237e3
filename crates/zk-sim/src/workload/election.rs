//! Candidates of an [`Election`]. Each client has a manager of sessions, and one candidate.

use std::ops::ControlFlow::{Break, Continue};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex as Shared, PoisonError};

use tokio::time::{sleep, timeout};
use zk_recipes::{Candidacy, Election, HeldLock, Interruption, Leadership, LockError, Mutex};
use zk_session::{Client, SessionId, SessionManager};
use zk_testing::Rng;

use super::contender::{Attempt, enter, judge, keep};
use super::managed::{self, Managed};
use super::{Seat, impatient, unless_dropped};
use crate::holding::Led;
use crate::oracle::{Claim, Share};
use crate::plan::Plan;
use crate::process::Process;
use crate::world::World;

/// Runs candidates in a slot, one after the other, until the run drains. The last one leads once
/// without faults.
pub(crate) async fn run(world: Arc<World>, slot: usize) {
    managed::run(world, slot, |managed| {
        let candidate = Candidate::new(managed);
        async move {
            if let Some(candidate) = candidate {
                candidate.run().await;
            }
        }
    })
    .await;
}

struct Candidate {
    world: Arc<World>,
    process: Arc<Process>,
    slot: usize,
    name: String,
    sessions: SessionManager,
    election: Election,
    rng: Shared<Rng>,
}

impl Candidate {
    fn new(managed: Managed) -> Option<Self> {
        let Managed { world, process, slot, generation, sessions, rng, .. } = managed;
        let (path, name) = (world.plan.lock_path, format!("{slot}.c{generation}"));
        // The id names no attempt, because it is that of all terms.
        let election = if world.plan.is_selector {
            Election::selector(&sessions, path, name.as_str())
        } else {
            Election::new(&sessions, path, name.as_str())
        };
        let rng = Shared::new(rng);
        Some(Self { world, process, slot, name, sessions, election: election.ok()?, rng })
    }

    fn draw<T>(&self, draw: impl FnOnce(&mut Rng) -> T) -> T {
        draw(&mut self.rng.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the state of a contender in the session of `client`.
    fn seat(&self, client: Client) -> Seat {
        Seat {
            world: Arc::clone(&self.world),
            client,
            process: Arc::clone(&self.process),
            slot: self.slot,
            shared_lock: None,
            semaphore: None,
            timeout: self.world.plan.clients[self.slot].timeout,
            name: self.name.clone(),
            rng: self.draw(Rng::fork),
            // The election itself waits for the loss.
            lost_is_watched: Arc::new(AtomicBool::new(true)),
        }
    }

    async fn run(self) {
        let drops = Arc::clone(&self.world.slot(self.slot).drops);
        while !self.world.is_draining() {
            sleep(self.draw(|rng| rng.around(self.world.plan.think))).await;
            let operation = async {
                if self.draw(|rng| rng.chance(0.5)) {
                    self.lead().await
                } else {
                    self.stand().await
                }
            };
            unless_dropped(&drops, operation).await;
        }
        self.terms(1).await;
    }

    /// Leads for some terms. Sometimes the future is dropped before.
    async fn lead(&self) {
        let (terms, is_dropped, polls) =
            self.draw(|rng| (rng.between(1, 4), rng.chance(0.2), rng.below(60)));
        if is_dropped {
            impatient(polls, self.terms(terms)).await.unwrap_or_default();
        } else {
            self.terms(terms).await
        }
    }

    async fn terms(&self, mut terms: u64) {
        let work = |held: HeldLock| {
            terms = terms.saturating_sub(1);
            let is_last = terms == 0;
            async move {
                self.hold(held).await;
                Ok::<_, LockError>(if is_last { Break(()) } else { Continue(()) })
            }
        };
        let interrupted = |interruption| {
            self.world.oracle().log(format_args!("{}: {interruption}", self.name));
            if let Interruption::NotAcquired(error) = interruption {
                self.judge("acquire", error);
            }
        };
        if let Err(error) = self.election.lead(work, interrupted).await {
            self.judge("acquire", error);
        }
    }

    /// Stands in the background, and leads for some terms. A candidate that is not elected in time
    /// resigns, except after the faults have ended: each candidate is elected then.
    async fn stand(&self) {
        let candidacy = self.election.stand();
        for _ in 0..self.draw(|rng| rng.between(1, 3)) {
            let longest = self.world.plan.hold.longest;
            let time_limit = self.world.plan.clients[self.slot].timeout;
            let time_limit = time_limit + self.draw(|rng| rng.millis(longest));
            let elected = match timeout(time_limit, candidacy.wait_to_lead()).await {
                Err(_) if self.world.is_draining() => candidacy.wait_to_lead().await,
                Err(_) => break,
                Ok(elected) => elected,
            };
            match elected {
                Ok(held) => self.hold(held).await,
                Err(error) => return self.judge("acquire", error),
            }
            if candidacy.is_leader() {
                break; // another term begins only after a loss
            }
        }
        self.resign(candidacy).await;
    }

    /// Resigns in one of several ways.
    async fn resign(&self, candidacy: Candidacy) {
        let (style, polls) = self.draw(|rng| (rng.below(4), rng.below(4)));
        // The node of a lost leadership is deleted in the background.
        let nodes = match candidacy.leadership() {
            Leadership::Leading { held, .. } => held.nodes(),
            _ => Vec::new(),
        };
        match style {
            0 => drop(candidacy),
            1 => {
                drop(impatient(polls, candidacy.resign()).await);
            }
            _ => match candidacy.resign().await {
                Ok(()) => {
                    let is_there = |node: &String| {
                        // An operator may have created a node of the same name.
                        self.world.server.with(|ensemble| ensemble.tree().contains(node))
                            && !self.world.oracle().was_operated(node, SessionId::NONE)
                    };
                    if let Some(node) = nodes.into_iter().find(is_there) {
                        let text = format!("{} has resigned, {node} is there", self.name);
                        self.world.oracle().violated("I7", text);
                    }
                }
                Err(error) => self.judge("release", error),
            },
        }
    }

    /// Works for one term.
    async fn hold(&self, held: HeldLock) {
        let mut seat = self.seat(held.client().clone());
        let attempt = Attempt::begin(&seat);
        // A leadership that is lost by now has no node.
        let Some(node) = held.nodes().pop() else { return };
        let claim = Claim::new(self.world.plan.lock_path, &node, Share::Alone);
        let guard = enter(&seat, Led(held), vec![claim], &attempt);
        keep(&mut seat, &guard, attempt.number).await;
    }

    fn judge(&self, what: &str, error: LockError) {
        judge(&self.seat(self.sessions.client()), what, error);
    }
}

/// Returns the lock of the election.
pub(super) fn lock(client: &Client, plan: &Plan) -> Result<Mutex, LockError> {
    let lock = Mutex::new(client, plan.lock_path)?;
    if plan.is_selector { Ok(lock) } else { lock.with_lock_name(Mutex::LEADER_LATCH) }
}
