//! Additions that are applied exactly once, by the id of an operation.

use std::time::Duration;

use bytes::Bytes;
use zk_recipes::session::{
    Client, CreateMode, Error, ErrorCode, MultiOutcome, Outcome, path, validate_path,
};

use super::error::AtomicError;
use super::node::{Read, Written};
use super::number::{AtomicNumber, Number};
use crate::limits::READS_IN_FLIGHT;
use crate::requests::{is_transient, repeat, retry, unless};

/// # Additions by the id of an operation
///
/// [`add_once`](Self::add_once) adds a number exactly once for each id: over lost replies, restarts
/// of the process, and clients that run the same operation at the same time. For each operation it
/// leaves a marker behind.
///
/// **On the wire**: the marker of an operation is a persistent child of the number's node, with the
/// name `operation-<id>`. Its data is the added number and the new number, with 8 or 4 bytes each.
/// One transaction creates the marker and writes the number. Curator ignores these children, but
/// cannot delete the number's node while it has some.
///
/// **Cost**: an addition sends three requests in two round trips, and as many again after each
/// conflict. A repeated one sends two. The servers keep all markers in memory. A client must be able
/// to list them: with ids of 36 characters, a Java client lists some 20,000 by default, and this one
/// 16 times as many. Call [`forget_operations`](Self::forget_operations) now and then.
impl<N: Number> AtomicNumber<N> {
    /// Adds to the number, unless an operation with this id already has. Returns the number right
    /// after the operation was applied, whether now or by an earlier call.
    ///
    /// The id is any text that a node's name may have, for example a UUID or the number of an order.
    /// After an error with an unknown outcome, call again with the same id, on any session.
    ///
    /// ```no_run
    /// # use zk_coordination::{AtomicError, session::Client};
    /// # async fn example(client: Client) -> Result<(), AtomicError> {
    /// use zk_coordination::AtomicLong;
    ///
    /// let revenue = AtomicLong::new(&client, "/counters/revenue")?;
    /// let order = "order-4711"; // a restarted process handles it again
    /// println!("{} cents", revenue.add_once(order, 1_999).await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`AtomicError::OperationIdReused`] if an operation with this id has added another number,
    /// [`AtomicError::InvalidOperationId`]; otherwise as [`add`](Self::add).
    ///
    /// # Cancel safety
    /// The addition may or may not be applied when the future is dropped. Call again with the same
    /// id.
    pub async fn add_once(&self, id: &str, delta: N) -> Result<N, AtomicError> {
        let node = self.node();
        let marker = self.marker(id)?;
        let mut contention = node.contention();
        let mut view = View::Any;
        loop {
            let read =
                |client: &Client| read_number_and_marker(client.clone(), &node.path, &marker, view);
            let reply = retry(&node.client).run(read).await;
            let (value, earlier) = match reply {
                Err(error) if view == View::SyncedAfterLoss => {
                    return Err(error.with_outcome(Outcome::Unknown).into());
                }
                reply => reply?,
            };
            if let Some(earlier) = earlier {
                return self.result_of(&marker, delta, &earlier);
            }
            // The marker does not exist after a `sync`, so no earlier attempt was applied.
            let has_caught_up = view != View::Any;
            view = View::Any;
            let Some(read) = value else {
                node.create_zero().await?;
                continue;
            };
            let next = match self.sum(&read, delta) {
                // The server may lag.
                Err(_) if !has_caught_up => {
                    view = View::Synced;
                    continue;
                }
                next => next?,
            };
            match self.write_once(&read, &marker, delta, next).await {
                Ok(Written::Done) => return Ok(next),
                Ok(Written::Conflict) => contention.conflict().await?,
                Err(AtomicError::Client(error)) if is_transient(&error) => {
                    view = match error.outcome() {
                        Outcome::Unknown => View::SyncedAfterLoss,
                        _ => View::Any,
                    };
                    contention.conflict().await.map_err(|_| error)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Deletes the markers of operations that were applied at least `age` before the last change of
    /// the number, by the clock of the servers. Returns how many it has deleted.
    ///
    /// Choose an age after which no operation is repeated: without its marker, an operation counts
    /// again. One client is enough. It reads the number, lists the markers, and sends one request for
    /// each marker that it keeps, and two for each that it deletes.
    ///
    /// # Errors
    /// Returns the error of a request that a retry does not help. The call can be repeated.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the remaining markers.
    pub async fn forget_operations(&self, age: Duration) -> Result<usize, AtomicError> {
        let node = self.node();
        let retry = retry(&node.client);
        let Some(value) = node.read().await? else { return Ok(0) };
        let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let newest = value.stat.mtime_ms.saturating_sub(age_ms);
        let Some(listed) = unless(ErrorCode::NO_NODE, retry.get_children(&node.path).await)? else {
            return Ok(0);
        };
        let names = listed.names.names().filter(|name| name.starts_with(PREFIX));
        let markers: Vec<String> = names.map(|name| path::child(&node.path, &name)).collect();
        let mut deleted = 0;
        for markers in markers.chunks(READS_IN_FLIGHT) {
            let stats: Vec<_> = markers.iter().map(|marker| node.client.exists(marker)).collect();
            for (marker, stat) in markers.iter().zip(stats) {
                let is_old = |ctime| ctime <= newest;
                match stat.await {
                    Ok(Some(stat)) if is_old(stat.ctime_ms) => {}
                    // A read that failed leaves its marker to the next call.
                    Ok(_) => continue,
                    Err(error) if is_transient(&error) => continue,
                    Err(error) => return Err(error.into()),
                }
                // Markers are never written again, so a repeated delete does no harm.
                let delete = || node.client.delete(marker, None);
                let reply = repeat(&node.client, delete).await.reply;
                deleted += usize::from(unless(ErrorCode::NO_NODE, reply)?.is_some());
            }
        }
        Ok(deleted)
    }

    fn marker(&self, id: &str) -> Result<String, AtomicError> {
        let marker = path::child(self.path(), &[PREFIX, id].concat());
        if id.contains('/') || id.is_empty() || validate_path(&marker).is_err() {
            return Err(AtomicError::InvalidOperationId { id: id.to_owned() });
        }
        Ok(marker)
    }

    fn sum(&self, read: &Read, delta: N) -> Result<N, AtomicError> {
        let sum = self.decode(&read.data)?.checked_add(delta);
        sum.ok_or_else(|| AtomicError::Overflow { path: self.path().to_owned() })
    }

    /// Returns the number of an operation that was applied before.
    fn result_of(&self, marker: &str, delta: N, earlier: &[u8]) -> Result<N, AtomicError> {
        let path = || marker.to_owned();
        let (added, result) = earlier.split_at_checked(size_of::<N>()).unwrap_or_default();
        match (N::decode(added), N::decode(result)) {
            (Some(added), Some(result)) if earlier.len() == 2 * size_of::<N>() => {
                if added == delta {
                    Ok(result)
                } else {
                    Err(AtomicError::OperationIdReused { path: path() })
                }
            }
            _ => Err(AtomicError::Corrupted {
                path: path(),
                len: earlier.len(),
                expected: 2 * size_of::<N>(),
            }),
        }
    }

    /// Creates the marker and writes the number, both or neither.
    async fn write_once(
        &self,
        read: &Read,
        marker: &str,
        delta: N,
        next: N,
    ) -> Result<Written, AtomicError> {
        let node = self.node();
        let version = node.version(&read.stat)?;
        let (data, next) = ([delta.encode(), next.encode()].concat(), next.encode());
        let (mode, acl) = (CreateMode::Persistent, node.acl.entries());
        let create = node.client.multi().create_with_acl(marker, &data, mode, acl);
        match create.set_data(&node.path, &next, Some(version)).send().await {
            Ok(outcomes) => match outcomes.last() {
                Some(MultiOutcome::Set(stat)) => node.done(read, stat),
                _ => Ok(Written::Done),
            },
            Err(error) => match error.code() {
                Some(ErrorCode::NODE_EXISTS | ErrorCode::BAD_VERSION | ErrorCode::NO_NODE) => {
                    Ok(Written::Conflict)
                }
                _ => Err(error.into()),
            },
        }
    }
}

/// State that [`read_number_and_marker`] reads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum View {
    /// Any state that the server has had.
    Any,
    /// The state after a `sync`: the server has caught up.
    Synced,
    /// The state after a `sync` that follows a lost reply. It shows what became of all requests of
    /// earlier connections: the leader rejects requests from a connection that the session has left.
    SyncedAfterLoss,
}

async fn read_number_and_marker(
    client: Client,
    path: &str,
    marker: &str,
    view: View,
) -> Result<(Option<Read>, Option<Bytes>), Error> {
    let (synced, marker, value) = {
        let _one_write = client.batch();
        let synced = (view != View::Any).then(|| client.sync(path));
        (synced, client.get_data(marker), client.get_data(path))
    };
    if let Some(synced) = synced {
        synced.await?;
    }
    let marker = unless(ErrorCode::NO_NODE, marker.await)?;
    let value = unless(ErrorCode::NO_NODE, value.await)?;
    Ok((value.map(Read::from), marker.map(|marker| marker.data)))
}

/// Beginning of the names of markers.
const PREFIX: &str = "operation-";
