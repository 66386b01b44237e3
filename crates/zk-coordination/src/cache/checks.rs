//! Reads of nodes whose changes the server does not report.
//!
//! No event reports a changed access control list. A server with the fix of CVE-2024-23944 also drops
//! each event of a node that the client may not read. It does so for every kind of watch, and a
//! one-shot watch is then gone. Since 3.8.4 and 3.9.2 `exists` needs the permission to read, too
//! (ZOOKEEPER-2590). So no watch tells when such a node is deleted or becomes readable, and the cache
//! reads it again.

use std::fmt;
use std::future::pending;
use std::pin::{Pin, pin};
use std::sync::Arc;

use futures::future::{Either, select};
use zk_recipes::session::{Attempts, Client};

use super::request::{Cause, Read, What};
use super::snapshot::Snapshot;
use super::sorted_nodes::Slot;
use crate::background::TASK_POLICY;
use crate::limits::{CHECK_PAUSE, CHECKED_ALONE, READS_PER_REQUEST, RECHECKED_DATA_MAX};

/// When nodes are checked, and which ones.
#[derive(Default)]
pub(super) struct Checks {
    readable: Round,
    unreadable: Round,
    readable_pause: Option<Pause<()>>,
    unreadable_pause: Option<Pause<Attempts<'static>>>,
}

/// Nodes of which a check is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Readable,
    Unreadable,
}

type Pause<T> = Pin<Box<dyn Future<Output = T> + Send + Sync>>;

impl Checks {
    /// Begins again with short pauses between the reads of unreadable nodes, because one is new.
    pub(super) fn restart_growth(&mut self) {
        self.unreadable_pause = None;
    }

    /// Waits until the next check is due. The cache has so many unreadable nodes.
    ///
    /// Dropping the future loses nothing.
    pub(super) async fn due(&mut self, client: &Client, unreadable: usize) -> Due {
        let growing = |attempts| Some(Box::pin(pause(client.clone(), attempts)) as Pause<_>);
        if unreadable == 0 {
            self.unreadable_pause = None;
        } else if self.unreadable_pause.is_none() {
            self.unreadable_pause = growing(TASK_POLICY.begin());
        }
        let steady = || Box::pin(client.runtime().sleep(CHECK_PAUSE)) as Pause<()>;
        let readable = self.readable_pause.get_or_insert_with(steady);
        let first = {
            let unreadable = pin!(over(&mut self.unreadable_pause));
            match select(unreadable, readable).await {
                Either::Left((attempts, _)) => Some(attempts),
                Either::Right(_) => None,
            }
        };
        if let Some(attempts) = first {
            self.unreadable_pause = growing(attempts);
            return Due::Unreadable;
        }
        self.readable_pause = None;
        Due::Readable
    }

    /// Returns the reads of the next check.
    pub(super) fn take(&mut self, due: Due, nodes: &Snapshot) -> Vec<Read> {
        let paths = match due {
            Due::Readable => self.readable.take(nodes, |slot| slot.node().is_some()),
            Due::Unreadable => self.unreadable.take(nodes, |slot| slot.node().is_none()),
        };
        let read =
            |path: Arc<str>| Read { what: What::again(nodes, &path), path, cause: Cause::Check };
        paths.into_iter().map(read).collect()
    }
}

impl fmt::Debug for Checks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Checks")
            .field("readable", &self.readable)
            .field("unreadable", &self.unreadable)
            .finish_non_exhaustive()
    }
}

/// Nodes that are checked one after the other, from the first path to the last.
#[derive(Debug, Default)]
struct Round {
    /// The node that was checked last; `None` at the beginning of a round.
    last: Option<Arc<str>>,
}

impl Round {
    fn take(&mut self, nodes: &Snapshot, is_meant: impl Fn(&Slot) -> bool) -> Vec<Arc<str>> {
        let last = self.last.take();
        let after = last.as_deref().unwrap_or_default();
        let mut slots = nodes.nodes.after(after).filter(|slot| is_meant(slot));
        let (mut paths, mut weight) = (Vec::new(), 0);
        while weight < READS_PER_REQUEST {
            let Some(slot) = slots.next() else { return paths };
            weight += weight_of(slot);
            paths.push(Arc::clone(slot.path()));
        }
        self.last = paths.last().cloned();
        paths
    }
}

/// Returns how much a node counts against [`READS_PER_REQUEST`]. One with much data takes a request of its
/// own.
fn weight_of(slot: &Slot) -> usize {
    match slot.node() {
        Some(node) if node.data().len() > RECHECKED_DATA_MAX => READS_PER_REQUEST / CHECKED_ALONE,
        _ => 1,
    }
}

async fn pause(client: Client, mut attempts: Attempts<'static>) -> Attempts<'static> {
    attempts.pause(&client).await;
    attempts
}

async fn over<T>(pause: &mut Option<Pause<T>>) -> T {
    match pause {
        Some(pause) => pause.await,
        None => pending().await,
    }
}
