//! `--verbose`: progress of a wait, on standard error.

use std::collections::HashSet;
use std::future::pending;
use std::time::Duration;

use tokio::time::sleep;

use crate::acquired_lock::LockSpec;
use crate::participants;
use crate::sessions::{Session, clock};

/// Prints the holder of the lock from time to time, until the lock is acquired.
pub(crate) async fn print_waiting(session: &Session, wanted: &LockSpec) {
    let (client, log) = (&session.client, &session.context.log);
    let begun = clock();
    let (mut pause, is_semaphore) = (FIRST_PAUSE, wanted.is_semaphore());
    // Several locks are acquired one after the other. The one that blocks is not known here.
    let (Some(log), Some(path)) = (log, wanted.only_path()) else { return pending().await };
    loop {
        sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
        let Ok(listed) = participants::list(client, path, is_semaphore).await else { continue };
        let Some(first) = listed.first() else { continue };
        let who = participants::who(&first.participant.data);
        // A contender of a semaphore has a node for each of its permits.
        let sessions: HashSet<_> =
            listed.iter().map(|listed| listed.participant.session_id).collect();
        let count = if is_semaphore { sessions.len() } else { listed.len() };
        let waited = participants::span(clock() - begun);
        let own = first.participant.session_id == client.session_id();
        // After a gap of the connection, or an election, the session must be proven to be alive.
        let who = if own { "its own lease is not proven yet; it".to_owned() } else { who };
        log.print(format!("waiting for {path} since {waited}: {who} is first of {count}"));
    }
}

/// Shorter waits print nothing.
const FIRST_PAUSE: Duration = Duration::from_secs(3);
const PAUSE_MAX: Duration = Duration::from_secs(60);
