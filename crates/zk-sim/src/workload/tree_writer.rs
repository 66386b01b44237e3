//! Changes of the tree that caches follow.

use zk_session::{Acl, Client, CreateMode, Error, ErrorOrigin, OPEN_ACL_UNSAFE, Perms};

use super::Seat;
use super::contender::rest;
use crate::oracle::{HIDDEN, TREE_ROOT};

/// Changes the tree once. Returns true if the session is over.
pub(super) async fn once(seat: &mut Seat) -> bool {
    let path = (0..seat.rng.below(4)).fold(TREE_ROOT.to_owned(), |path, _| {
        let name = seat.rng.pick(&["a", "b", "b c"]);
        format!("{path}/{name}")
    });
    if seat.world.plan.coordination.hides && seat.rng.chance(0.2) {
        return hide(seat, &path).await;
    }
    let data = format!("{}#{}", seat.name, seat.world.next_number());
    let client = seat.client.clone();
    let done = match seat.rng.below(10) {
        0..=3 => client.create(&path, data.as_bytes(), CreateMode::Persistent).await.map(drop),
        4 => client.create(&path, data.as_bytes(), CreateMode::Ephemeral).await.map(drop),
        5 | 6 => client.set_data(&path, data.as_bytes(), None).await.map(drop),
        7 | 8 => client.delete(&path, None).await,
        _ => recreate(&client, &path).await,
    };
    settle(seat, done).await
}

/// Creates, changes or deletes a node that nobody may read. Returns true if the session is over.
async fn hide(seat: &mut Seat, parent: &str) -> bool {
    let (path, data) =
        (format!("{parent}/{HIDDEN}"), format!("hidden#{}", seat.world.next_number()));
    let acl = [Acl { perms: Perms::WRITE | Perms::ADMIN, ..OPEN_ACL_UNSAFE[0].clone() }];
    let client = seat.client.clone();
    let done = match seat.rng.below(3) {
        0 => {
            let created =
                client.create_with_acl(&path, data.as_bytes(), CreateMode::Persistent, &acl);
            created.await.map(drop)
        }
        1 => client.set_data(&path, data.as_bytes(), None).await.map(drop),
        _ => client.delete(&path, None).await,
    };
    settle(seat, done).await
}

/// Rests after a change if that is due. Returns true if the session is over.
async fn settle(seat: &mut Seat, done: Result<(), Error>) -> bool {
    match done {
        Ok(()) => seat.world.oracle().had(),
        Err(error) if error.origin() == ErrorOrigin::Session => return true,
        Err(error) if error.origin() == ErrorOrigin::Server => {}
        Err(_) => rest(seat).await,
    }
    if seat.world.plan.think.is_zero() {
        rest(seat).await;
    }
    false
}

/// Deletes a node and creates it again with the same data, in one transaction or in two.
async fn recreate(client: &Client, path: &str) -> Result<(), Error> {
    let node = client.get_data(path).await?;
    let data = node.data;
    let multi = client.multi().delete(path, None).create(path, &data, CreateMode::Persistent);
    match multi.send().await {
        Err(error) if error.is_not_empty() => Err(error),
        replaced => replaced.map(drop),
    }
}
