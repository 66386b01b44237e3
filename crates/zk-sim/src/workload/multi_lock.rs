//! Several locks of different kinds at once, by a [`MultiLock`].

use std::sync::Arc;

use zk_recipes::{Lock, LockError, LockGuard, MultiLock, Mutex, RwLock, SemaphoreMutex};
use zk_session::{Client, PathError};

use super::Seat;
use super::contender::{Attempt, ask, settle, take};
use crate::holding::Failures;
use crate::oracle::{Claim, Share};
use crate::plan::Plan;

/// The number of locks.
pub(super) const LOCKS: usize = 4;

/// Contends once for two or more of the locks, listed in random order. Returns true if the session
/// is over.
pub(super) async fn once(seat: &mut Seat) -> bool {
    let path = seat.world.plan.lock_path;
    let mut wanted: Vec<usize> = (0..LOCKS).collect();
    for index in (1..LOCKS).rev() {
        wanted.swap(index, seat.rng.index(index + 1));
    }
    wanted.truncate(2 + seat.rng.index(LOCKS - 1));
    let reads = seat.rng.chance(seat.world.plan.readers);
    let attempt = Attempt::begin_with(seat, wanted.len());
    let locks =
        wanted.iter().map(|number| lock(&seat.client, path, *number, reads, &attempt.label));
    let Ok(locks) = locks.collect::<Result<Vec<_>, _>>() else { return true };
    let lock = MultiLock::in_canonical_order(locks);
    let asked = take(seat, &attempt, ask!(lock)).await;
    settle(seat, attempt, asked, |guard| {
        guard.nodes().iter().map(|node| claim(path, node)).collect()
    })
    .await
}

/// Creates lock `number`. Its kind depends on the number.
fn lock(
    client: &Client,
    path: &str,
    number: usize,
    reads: bool,
    label: &str,
) -> Result<Arc<dyn Lock>, PathError> {
    let path = format!("{path}/{number}");
    Ok(match (number % 3, reads) {
        (0, _) => Arc::new(Mutex::new(client, &path)?.with_data(label)),
        (1, _) => Arc::new(SemaphoreMutex::new(client, &path)?.with_data(label)),
        (_, true) => Arc::new(RwLock::new(client, &path)?.with_data(label).read().clone()),
        (_, false) => Arc::new(RwLock::new(client, &path)?.with_data(label).write().clone()),
    })
}

fn claim(path: &str, node: &str) -> Claim {
    let below = node.strip_prefix(path).unwrap_or(node);
    let number = below.split('/').nth(1).unwrap_or_default();
    let share = if node.contains("__READ__") { Share::Read } else { Share::Alone };
    Claim::new(&format!("{path}/{number}"), node, share)
}

pub(super) async fn exam(
    client: &Client,
    plan: &Plan,
    label: String,
) -> Result<Box<dyn LockGuard>, LockError> {
    let locks = (0..LOCKS).rev().map(|number| lock(client, plan.lock_path, number, false, &label));
    let locks = locks.collect::<Result<Vec<_>, _>>()?;
    let guard = MultiLock::in_canonical_order(locks).acquire().await;
    let first = |failures: Failures| failures.0.into_iter().next();
    match guard {
        Ok(guard) => Ok(Box::new(guard)),
        Err(error) => Err(first(error.into())
            .unwrap_or_else(|| LockError::NodeDeleted { path: plan.lock_path.to_owned() })),
    }
}
