//! `--verbose`: what happens meanwhile, on standard error.

use std::collections::HashSet;
use std::future::pending;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use zk_recipes::session::{Client, SessionChange, SessionChanges, SessionEvent};

use crate::acquired_lock::LockSpec;
use crate::failure::for_users;
use crate::participants;
use crate::sessions::clock;
use crate::verbose_log::VerboseLog;

/// Prints the session that was opened, and its events and failed reconnects until it ends.
pub(crate) fn tell_session(log: &VerboseLog, client: &Client) {
    let stats = client.stats();
    let server = stats.connected_to.map(|host| format!(" at {host}")).unwrap_or_default();
    let granted = client.session_timeout();
    log.print(format!("session {}{server}, session timeout {granted:?}", stats.session_id));
    // A strong handle would keep the session open.
    let (log, client, mut events) = (log.clone(), client.weak(), client.events());
    tokio::spawn(async move {
        let mut told = None;
        loop {
            match timeout(LOOK, events.next()).await {
                Ok(Some(event)) => {
                    if let SessionEvent::Suspended { cause, .. } = &event {
                        told = Some(cause.clone());
                    }
                    log.print(for_users(&event.to_string()));
                }
                Ok(None) => return,
                Err(_) => {
                    let cause = client.last_disconnect();
                    if let Some(cause) = cause.as_ref().filter(|_| cause != told) {
                        log.print(for_users(&format!("not connected: {cause}")));
                    }
                    told = cause;
                }
            }
        }
    });
}

/// Prints each failed attempt to open the next session.
pub(crate) fn tell_changes(log: &VerboseLog, mut changes: SessionChanges) {
    let log = log.clone();
    tokio::spawn(async move {
        while let Some(change) = changes.next().await {
            if let SessionChange::AttemptFailed { .. } = change {
                log.print(for_users(&change.to_string()));
            }
        }
    });
}

/// Prints from time to time who has the lock, for as long as it is waited for.
pub(crate) async fn tell_waiting(log: Option<&VerboseLog>, client: &Client, wanted: &LockSpec) {
    let begun = clock();
    let (mut pause, is_semaphore) = (FIRST_PAUSE, wanted.is_semaphore());
    // Several locks are acquired one after the other. Which one is waited for is not known here.
    let (Some(log), Some(path)) = (log, wanted.only_path()) else { return pending().await };
    loop {
        sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
        let Ok(listed) = participants::list(client, path, is_semaphore).await else { continue };
        let Some(first) = listed.first() else { continue };
        let who = participants::who(&first.participant.data);
        // A contender of a semaphore has a node for each of its permits.
        let sessions: HashSet<_> = listed.iter().map(|it| it.participant.session_id).collect();
        let count = if is_semaphore { sessions.len() } else { listed.len() };
        let waited = participants::span(clock() - begun);
        log.print(format!("waiting for {path} since {waited}: {who} is first of {count}"));
    }
}

/// A wait that is shorter is no news.
const FIRST_PAUSE: Duration = Duration::from_secs(3);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Pause between two looks at the cause of the last failed attempt to connect. Attempts that follow
/// each other faster usually fail for the same cause.
const LOOK: Duration = Duration::from_millis(100);
