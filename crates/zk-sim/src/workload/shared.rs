//! A [`SharedCount`] that clients increment, and a [`SharedValue`] that they set and watch.

use tokio::time::timeout;
use zk_recipes::{LockError, SharedCount, SharedValue, VersionedValue};
use zk_session::{Client, ErrorOrigin, Outcome};

use super::Seat;
use super::contender::rest;
use crate::oracle::{COUNT_PATH, VALUE_PATH};
use crate::world::World;

/// Does one operation on one of them. Returns true if the session is over.
pub(super) async fn once(seat: &mut Seat) -> bool {
    let Ok(value) = SharedValue::new(&seat.client, VALUE_PATH, "seed") else { return true };
    let done = match seat.rng.below(6) {
        0..=2 => count_up(&seat.world, &seat.client).await,
        3 => swap(seat, &value).await,
        4 => set(seat, &value).await,
        _ => follow(seat, &value).await,
    };
    match done {
        Ok(true) => seat.world.oracle().had(),
        Ok(false) => rest(seat).await,
        Err(LockError::Client(error)) => return error.origin() == ErrorOrigin::Session,
        Err(error) => seat.world.oracle().violated("I7", format!("{}: {error}", seat.name)),
    }
    false
}

/// Adds one to the count. Returns true if no other client was faster. The oracle checks the new
/// count.
async fn count_up(world: &World, client: &Client) -> Result<bool, LockError> {
    let count = SharedCount::new(client, COUNT_PATH, 0)?;
    let before = count.get().await?;
    let set = may_be_unknown(world, count.try_set(&before, before.count() + 1).await)?.flatten();
    Ok(set.is_some())
}

async fn swap(seat: &Seat, value: &SharedValue) -> Result<bool, LockError> {
    let (world, new) = (&seat.world, fresh(seat));
    let before = read(world, value).await?;
    let swapped = value.try_set(&before, new.clone()).await;
    judge_outcome(world, &swapped, &new);
    let swapped = may_be_unknown(world, swapped)?;
    let mut oracle = world.oracle();
    match &swapped {
        Some(Some(now)) => oracle.value_swapped(before.zxid(), now.zxid(), now.value()),
        Some(None) => oracle.value_not_set(Some(before.zxid()), &new),
        None => {}
    }
    Ok(swapped.flatten().is_some())
}

async fn set(seat: &Seat, value: &SharedValue) -> Result<bool, LockError> {
    let (world, new) = (&seat.world, fresh(seat));
    let set = value.set(new.clone()).await;
    judge_outcome(world, &set, &new);
    let set = may_be_unknown(world, set)?;
    if let Some(now) = &set {
        world.oracle().value_read(now.zxid(), now.value());
    }
    Ok(set.is_some())
}

/// Waits for a while for a value that is newer than the one that was read.
async fn follow(seat: &mut Seat, value: &SharedValue) -> Result<bool, LockError> {
    let time_limit = seat.rng.millis(seat.world.plan.hold.longest);
    let before = read(&seat.world, value).await?;
    let Ok(newer) = timeout(time_limit, value.changed(&before)).await else { return Ok(false) };
    must_be_newer(&seat.world, &before, &newer?);
    Ok(true)
}

async fn read(world: &World, value: &SharedValue) -> Result<VersionedValue, LockError> {
    let read = value.get().await?;
    world.oracle().value_read(read.zxid(), read.value());
    Ok(read)
}

fn must_be_newer(world: &World, before: &VersionedValue, now: &VersionedValue) {
    let mut oracle = world.oracle();
    oracle.value_read(now.zxid(), now.value());
    if now.zxid() <= before.zxid() {
        oracle.violated("I12", format!("{now:?} is not news after {before:?}"));
    }
}

/// Returns a unique value.
fn fresh(seat: &Seat) -> Vec<u8> {
    format!("{}#{}", seat.name, seat.world.next_number()).into_bytes()
}

/// Checks the outcome that an error reports.
fn judge_outcome<T>(world: &World, result: &Result<T, LockError>, new: &[u8]) {
    if let Err(LockError::Client(error)) = result
        && error.outcome() == Outcome::NotApplied
    {
        world.oracle().value_not_set(None, new);
    }
}

/// Returns `None` for a set with an unknown outcome. The recipe retries every other failure, except
/// the end of the session.
fn may_be_unknown<T>(world: &World, set: Result<T, LockError>) -> Result<Option<T>, LockError> {
    match set {
        Ok(set) => Ok(Some(set)),
        Err(LockError::Client(error)) if error.origin() == ErrorOrigin::Session => {
            Err(LockError::Client(error))
        }
        Err(LockError::Client(error)) if error.outcome() == Outcome::Unknown => {
            world.oracle().log(format_args!("a set: {error}"));
            Ok(None)
        }
        Err(error) => {
            world.oracle().violated("I7", format!("a set, all trouble waited out: {error}"));
            Err(error)
        }
    }
}

/// Checks that the count grows without faults. A value that is set before `changed` is called must
/// be returned as well.
pub(super) async fn exam(world: &World, client: &Client, label: &str) -> Result<(), LockError> {
    while !count_up(world, client).await? {}
    let value = SharedValue::new(client, VALUE_PATH, "seed")?;
    let before = read(world, &value).await?;
    value.set(label.to_owned()).await?;
    let newer = value.changed(&before).await?;
    must_be_newer(world, &before, &newer);
    Ok(())
}
