//! The measurements.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use zk_recipes::Mutex;
use zk_recipes::session::limits::INFLIGHT_BYTES_MAX;
use zk_recipes::session::{Acl, Client, CreateMode, Error, Pending, path};

use crate::failure::Failure;
use crate::sessions::clock;

/// A kind of work.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    Sync,
    Read,
    Write,
    Reads,
    Writes,
    Lock,
    HandOff,
}

pub(super) const ALL: [Work; 7] =
    [Work::Sync, Work::Read, Work::Write, Work::Reads, Work::Writes, Work::Lock, Work::HandOff];

impl Work {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Read => "read",
            Self::Write => "write",
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Lock => "lock",
            Self::HandOff => "hand-off",
        }
    }
}

/// The times of one kind of work.
pub(super) struct Times {
    /// How long each one took, sorted.
    pub(super) each: Vec<Duration>,
    /// How long all of them took.
    pub(super) all: Duration,
}

/// A session with the nodes to work on.
pub(super) struct Bench<'a> {
    client: &'a Client,
    node: String,
    data: Vec<u8>,
    lock: Mutex,
    time: Duration,
}

impl<'a> Bench<'a> {
    /// Creates the node to read and write, below `root`.
    pub(super) async fn new(
        client: &'a Client,
        root: &str,
        acl: &[Acl],
        size: usize,
        time: Duration,
    ) -> Result<Self, Failure> {
        let (node, data) = (path::child(root, "data"), vec![b'x'; size]);
        client.create_with_acl(&node, &data, CreateMode::Ephemeral, acl).await?;
        let lock = Mutex::new(client, &path::child(root, "lock"))?.with_acl(acl);
        Ok(Self { client, node, data, lock, time })
    }

    /// Works for the time that is set.
    pub(super) async fn measure(&self, work: Work) -> Result<Times, Failure> {
        let begun = clock();
        let mut each = match work {
            Work::Sync => self.requests(1, || self.client.sync("/")).await?,
            Work::Read => self.requests(1, || self.client.get_data(&self.node)).await?,
            Work::Reads => self.requests(AT_ONCE, || self.client.get_data(&self.node)).await?,
            Work::Write => self.requests(1, || self.write()).await?,
            Work::Writes => self.requests(writes_at_once(self.data.len()), || self.write()).await?,
            Work::Lock => self.holds().await?,
            Work::HandOff => self.hand_offs().await?,
        };
        let all = clock() - begun;
        each.sort_unstable();
        Ok(Times { each, all })
    }

    fn write(&self) -> Pending<zk_recipes::session::Stat> {
        self.client.set_data(&self.node, &self.data, None)
    }

    /// Keeps so many requests under way.
    async fn requests<T>(
        &self,
        at_once: usize,
        send: impl Fn() -> Pending<T>,
    ) -> Result<Vec<Duration>, Error> {
        let (end, mut times) = (clock() + self.time, Vec::new());
        let mut sent: VecDeque<(Instant, Pending<T>)> = VecDeque::new();
        loop {
            while sent.len() < at_once && clock() < end {
                sent.push_back((clock(), send()));
            }
            // Answers arrive in the order of the requests.
            let Some((begun, request)) = sent.pop_front() else { return Ok(times) };
            request.await?;
            times.push(clock() - begun);
        }
    }

    async fn holds(&self) -> Result<Vec<Duration>, Failure> {
        let (end, mut times) = (clock() + self.time, Vec::new());
        while clock() < end {
            let begun = clock();
            self.lock.acquire().await?.release().await?;
            times.push(clock() - begun);
        }
        Ok(times)
    }

    async fn hand_offs(&self) -> Result<Vec<Duration>, Failure> {
        let end = clock() + self.time;
        let released: Arc<StdMutex<Option<Instant>>> = Arc::default();
        let mut waiters = JoinSet::new();
        // One of them holds the lock.
        for _ in 0..=WAITERS {
            let (lock, released) = (self.lock.clone(), Arc::clone(&released));
            waiters.spawn(async move {
                let mut times = Vec::new();
                while clock() < end {
                    let guard = lock.acquire().await?;
                    let mut last = released.lock().unwrap_or_else(PoisonError::into_inner).take();
                    times.extend(last.take().map(|last| clock() - last));
                    *released.lock().unwrap_or_else(PoisonError::into_inner) = Some(clock());
                    guard.release().await?;
                }
                Ok::<_, Failure>(times)
            });
        }
        let mut times = Vec::new();
        while let Some(ended) = waiters.join_next().await {
            let ended = ended.map_err(|error| Failure::other(format!("a waiter: {error}")))?;
            times.extend(ended?);
        }
        Ok(times)
    }
}

/// Requests that are under way at once.
const AT_ONCE: usize = 100;

/// Returns the number of writes that are under way at once. More bytes than a session sends before an
/// answer would wait in this process, and their times would count that wait.
fn writes_at_once(size: usize) -> usize {
    (INFLIGHT_BYTES_MAX / size.max(1)).clamp(1, AT_ONCE)
}

/// Waiters in the queue of the lock.
const WAITERS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_writes_fit_into_what_a_session_sends_at_once() {
        assert_eq!([0, 100, 2_621].map(writes_at_once), [100; 3]);
        assert_eq!([2_622, 100_000, 1_000_000].map(writes_at_once), [99, 2, 1]);
    }
}
