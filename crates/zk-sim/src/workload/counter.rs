//! Additions to an [`AtomicLong`], sometimes with an id, and sometimes with a lock.

use zk_coordination::{AtomicError, AtomicLong};
use zk_recipes::LockError;
use zk_session::{Client, ErrorOrigin, Outcome, PathError, SessionId};

use super::contender::rest;
use super::{Seat, impatient};
use crate::oracle::{Added, Addition, COUNTER_PATH};
use crate::plan::Plan;
use crate::world::World;

/// Does one operation. Returns true if the session is over.
pub(super) async fn once(seat: &mut Seat) -> bool {
    let Ok(counter) = counter(&seat.client, &seat.world.plan) else { return true };
    let is_once = seat.rng.chance(seat.world.plan.coordination.once);
    let repeats = is_once && seat.rng.chance(0.5);
    let compares = seat.rng.chance(seat.world.plan.coordination.compares);
    let style = seat.rng.below(20);
    let done = match style {
        0 | 1 => read(&seat.world, &counter).await,
        2 | 3 => {
            let polls = seat.rng.below(12);
            impatient(polls, add(&seat.world, &seat.client, &counter, is_once, repeats))
                .await
                .unwrap_or(Ok(()))
        }
        _ if compares => compare_and_set(&seat.world, &seat.client, &counter).await,
        _ => add(&seat.world, &seat.client, &counter, is_once, repeats).await,
    };
    match done {
        Ok(()) => seat.world.oracle().had(),
        Err(error) => {
            // The error of a request may hide that the session ended while the call paused.
            let is_over =
                seat.client.end_reason().is_some() || judge(&seat.world, &seat.name, &error);
            if !is_over {
                rest(seat).await;
            }
            return is_over;
        }
    }
    false
}

async fn read(world: &World, counter: &AtomicLong) -> Result<(), AtomicError> {
    let number = counter.get().await?;
    world.oracle().number_read(number);
    Ok(())
}

/// An addition that runs. Its outcome is unknown if it is dropped.
struct Running<'a> {
    world: &'a World,
    addition: Addition,
    added: Added,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.world.oracle().addition_ends(&self.addition, self.added);
    }
}

/// Returns what an operation adds.
fn delta(world: &World, number: u64) -> i64 {
    if world.plan.coordination.adds_one {
        1
    } else {
        // No difference of two of these numbers is one of them by chance.
        i64::try_from(number).unwrap_or(1) * 1_000 + 7
    }
}

/// Adds to the number that a read shows, unless another client is faster.
async fn compare_and_set(
    world: &World,
    client: &Client,
    counter: &AtomicLong,
) -> Result<(), AtomicError> {
    let read = counter.get().await?;
    let delta = delta(world, world.next_number());
    let is_unique = !world.plan.coordination.adds_one;
    let addition = world.oracle().counters.begin(client.session_id(), delta, is_unique);
    let mut running = Running { world, addition, added: Added::Unknown };
    let set = counter.compare_and_set(read, read + delta).await;
    running.added = match &set {
        Ok(true) => Added::Applied(read + delta),
        Ok(false) => Added::NotApplied,
        Err(error) if error.outcome() == Outcome::NotApplied => Added::NotApplied,
        Err(_) => Added::Unknown,
    };
    if let Ok(false) = set {
        world.oracle().number_differed(read);
    }
    set.map(drop)
}

/// Adds a number. With `repeats`, it repeats an earlier operation with an unknown outcome.
async fn add(
    world: &World,
    client: &Client,
    counter: &AtomicLong,
    is_once: bool,
    repeats: bool,
) -> Result<(), AtomicError> {
    let (number, session) = (world.next_number(), client.session_id());
    let delta = delta(world, number);
    let earlier = if repeats { world.oracle().counters.unresolved() } else { None };
    let (id, delta) = earlier.unwrap_or_else(|| (format!("{number}"), delta));
    let is_unique = !world.plan.coordination.adds_one;
    let addition = if is_once {
        world.oracle().counters.begin_once(session, &id, delta)
    } else {
        world.oracle().counters.begin(session, delta, is_unique)
    };
    let mut running = Running { world, addition, added: Added::Unknown };
    let added = if is_once { counter.add_once(&id, delta).await } else { counter.add(delta).await };
    running.added = match &added {
        Ok(number) => Added::Applied(*number),
        Err(error) if error.outcome() == Outcome::NotApplied => Added::NotApplied,
        Err(_) => Added::Unknown,
    };
    added.map(drop)
}

/// Returns true if the session is over. Any other error is a violation, unless contention or a lost
/// reply explains it.
fn judge(world: &World, name: &str, error: &AtomicError) -> bool {
    let is_operated = world.oracle().any_operated();
    let is_fine = match error {
        AtomicError::Client(error) | AtomicError::Lock(LockError::Client(error)) => {
            (error.origin() == ErrorOrigin::Session, error.outcome() == Outcome::Unknown)
        }
        AtomicError::Contended { .. } => (false, true),
        AtomicError::Lock(LockError::NodeDeleted { .. }) => (false, is_operated),
        _ => (false, false),
    };
    super::judge(world, "I18", name, error, is_fine)
}

/// Adds a number without faults, and settles all operations with an unknown outcome.
pub(super) async fn exam(world: &World, client: &Client, label: &str) -> Result<(), LockError> {
    let counter = counter(client, &world.plan)?;
    // The oracle tells additions by their sessions, so there must be one.
    while client.session_id() == SessionId::NONE {
        client.exists("/").await.map(drop).or_else(|error| match error.origin() {
            ErrorOrigin::Network => Ok(()),
            _ => Err(error),
        })?;
    }
    let examine = async {
        add(world, client, &counter, false, false).await?;
        while world.oracle().counters.unresolved().is_some() {
            add(world, client, &counter, true, true).await?;
        }
        read(world, &counter).await
    };
    match examine.await {
        Ok(()) => Ok(()),
        Err(AtomicError::Client(error) | AtomicError::Lock(LockError::Client(error))) => {
            Err(LockError::Client(error))
        }
        Err(error) => {
            world.oracle().violated("I18", format!("{label}, all well: {error}"));
            Ok(())
        }
    }
}

fn counter(client: &Client, plan: &Plan) -> Result<AtomicLong, PathError> {
    let counter = AtomicLong::new(client, COUNTER_PATH)?;
    match plan.coordination.promoted_after {
        Some(after) => counter.promote_to_lock(plan.lock_path, after),
        None => Ok(counter),
    }
}
