//! A kill of the leader while many sessions hold locks: the locks that are lost, and the time until the
//! sessions are back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::runtime::Runtime;
use zk_recipes::session::{Client, SessionEvent};
use zk_recipes::{Guard, Mutex};

use super::Error;
use super::history::{History, micros};
use super::round::repair;
use crate::{Ensemble, Server, connect, monotonic_us, poll};

/// Outcome of one kill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kill {
    /// Time from the kill until the first server serves again.
    pub outage: Duration,
    /// Number of locks that were held.
    pub held: usize,
    /// Number of locks that were lost.
    pub lost: usize,
    /// Time from the first serving server until each session is back, in microseconds. A session that is
    /// not back after a session timeout counts with the timeout.
    pub returns_us: Vec<i64>,
}

/// Repairs the ensemble, acquires [`HOLDERS`] locks with a session each, and kills the leader.
///
/// # Errors
/// The ensemble does not recover, or a lock is not acquired.
pub fn kill_leader(
    ensemble: &Ensemble,
    runtime: &Runtime,
    timeout: Duration,
) -> Result<Kill, Error> {
    repair(ensemble)?;
    let holders = runtime.block_on(hold(&ensemble.connect_string(), timeout))?;
    let leader = ensemble.leader()?;
    let killed_us = monotonic_us();
    ensemble.server(leader).kill();
    let serving_us = first_serving(ensemble, leader)?;
    let end_us = serving_us + micros(timeout);
    // reason: a lock that a server's return does not save is lost within the session timeout.
    History::default().wait_until(end_us);
    let returns_us = holders
        .iter()
        .map(|holder| match holder.back_us.load(Ordering::Relaxed) {
            0 => end_us - serving_us,
            back_us => back_us.saturating_sub(serving_us),
        })
        .map(i64::try_from)
        .collect::<Result<_, _>>()?;
    let kill = Kill {
        outage: Duration::from_micros(serving_us - killed_us),
        held: holders.len(),
        lost: holders.iter().filter(|holder| !holder.guard.is_held()).count(),
        returns_us,
    };
    runtime.block_on(async {
        for holder in holders {
            holder.client.close().await;
        }
    });
    Ok(kill)
}

/// A session that holds a lock.
struct Holder {
    client: Client,
    guard: Guard,
    /// When the session was last reconnected; 0 if it never was.
    back_us: Arc<AtomicU64>,
}

async fn hold(servers: &str, timeout: Duration) -> Result<Vec<Holder>, Error> {
    let root = format!("/leader-kill-{}", monotonic_us());
    let mut holders = Vec::new();
    for number in 0..HOLDERS {
        let client = connect(servers, timeout).await;
        let back_us = Arc::new(AtomicU64::new(0));
        let (mut events, back) = (client.events(), Arc::clone(&back_us));
        tokio::spawn(async move {
            while let Some(event) = events.next().await {
                if matches!(event, SessionEvent::Reconnected { .. }) {
                    back.store(monotonic_us(), Ordering::Relaxed);
                }
            }
        });
        let guard = Mutex::new(&client, &format!("{root}/{number}"))?.acquire().await?;
        holders.push(Holder { client, guard, back_us });
    }
    Ok(holders)
}

/// Waits until the servers without a leader have stopped serving, and then for the first that serves.
/// Returns when it did.
fn first_serving(ensemble: &Ensemble, killed: usize) -> Result<u64, Error> {
    let serves = |server: &Server| matches!(server.status(), Ok(Some(_)));
    let back = |server: &Server| {
        poll(LIMIT, || (!serves(server)).then_some(()))?;
        poll(LIMIT, || serves(server).then(monotonic_us))
    };
    let back: Vec<Option<u64>> = thread::scope(|scope| {
        let others = (0..ensemble.servers().len()).filter(|other| *other != killed);
        let waits: Vec<_> =
            others.map(|other| scope.spawn(move || back(ensemble.server(other)))).collect();
        waits.into_iter().map(|wait| wait.join().unwrap_or(None)).collect()
    });
    back.into_iter().flatten().min().ok_or_else(|| "no server serves after the kill".into())
}

/// Number of sessions that hold a lock each.
pub const HOLDERS: usize = 40;
/// Far longer than an election takes.
const LIMIT: Duration = Duration::from_secs(60);
