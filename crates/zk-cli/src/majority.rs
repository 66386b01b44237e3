//! The wait for a majority, before a command waits for others.

use std::time::Duration;

use tokio::time::{Instant, timeout};
use zk_recipes::session::SessionId;

use crate::failure::Failure;
use crate::sessions::{Session, clock, idle_limit, until};

/// Waits until the client has a session, which only a server with a majority grants (`--read-only`).
///
/// A command that waits for others, for a lock or at a barrier, has no time limit of its own for that: the
/// limit of silence is one of the connection. It fails when no server answers reads for so long, and after
/// `deadline`.
pub(crate) async fn wait_for_session(
    session: &Session,
    deadline: Option<Instant>,
) -> Result<(), Failure> {
    tokio::select! {
        served = wait(session) => served,
        () = until(deadline) => Err(Failure::no_majority(&session.context.servers)),
    }
}

async fn wait(session: &Session) -> Result<(), Failure> {
    let client = &session.client;
    let mut events = client.events();
    if client.is_read_only() {
        let lost = "the server is read-only, for it has lost the majority";
        session.output.note(&format!("{lost}; waiting for a server with one"));
    }
    let mut heard = clock();
    // Any other end of the session fails the requests of the command.
    while client.session_id() == SessionId::NONE && client.end_reason().is_none() {
        drop(timeout(PROBE_INTERVAL, events.next()).await);
        match client.with_timeout(PROBE_INTERVAL).exists("/").await {
            Ok(_) => heard = clock(),
            Err(error) if error.code().is_some() => heard = clock(), // it may not read the root
            Err(_) if clock() - heard < idle_limit(client) => {}
            Err(_) => return Err(Failure::silent(&session.context.servers)),
        }
    }
    Ok(())
}

/// Interval of the reads that show whether the server answers.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
