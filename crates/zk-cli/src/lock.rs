//! `zk lock`, `zk elect`, `zk semaphore` and `zk multilock`, which run a command only while the lock
//! is held.

use std::future::pending;
use std::process::Stdio;

use tokio::time::timeout;
use zk_recipes::LockError;
use zk_recipes::session::Client;

use crate::acquired_lock::{AcquiredLock, Refused};
use crate::child::{Child, GRACE};
use crate::failure::is_end;
use crate::lock_args::{Contend, Task};
use crate::participants::{holders, print_waiting};
use crate::prelude::{Duration, Failure, Instant, Result, Session, Sessions, clock};
use crate::sessions::until;
use crate::signals::{Signals, number};

/// Acquires the lock. A single try waits for a new connection if its connection is lost.
async fn acquire_connected(task: &Task, client: &Client) -> Result<Option<AcquiredLock>, Refused> {
    loop {
        match task.acquire(client).await {
            Err(Refused { error: LockError::NotConnected { .. }, .. }) => connected(client).await,
            asked => return asked,
        }
    }
}

/// Waits until the client is connected or its session has ended.
async fn connected(client: &Client) {
    let mut events = client.events();
    while !client.is_connected() && client.end_reason().is_none() && events.next().await.is_some() {
    }
}

pub(crate) async fn run(sessions: Sessions, options: &impl Contend) -> Result<u8> {
    run_task(sessions, options.task()?).await
}

/// A task, and what it needs while it runs.
struct Holder {
    sessions: Sessions,
    task: Task,
    signals: Signals,
}

async fn run_task(mut sessions: Sessions, task: Task) -> Result<u8> {
    sessions.name = task.contender.client_name();
    if !task.is_single_try() {
        sessions.wait_for_servers();
    }
    if task.stands_again {
        sessions.keep_trying();
    }
    let mut holder = Holder { sessions, task, signals: Signals::new()? };
    loop {
        let (session, lock) = match holder.acquire().await {
            Ok(acquired) => acquired,
            Err(failure) => {
                // The close deletes the contender's node, so that no other client waits behind it.
                holder.sessions.close().await;
                return Err(failure);
            }
        };
        let failure = match holder.hold(&session, &lock).await {
            Ok(code) => return holder.release(&session, lock, code).await,
            Err(failure) => failure,
        };
        // A session that lives on deletes the node when a server answers again. Without it, nobody could
        // have the lock until the servers expire the session.
        drop(lock);
        // A signal was meant to end the command.
        let may_wait = failure.is_loss() && !holder.signals.end_requested;
        if may_wait && holder.task.stands_again {
            session.output.note(&format!("{failure}; standing again"));
            continue;
        }
        if may_wait {
            wait_for_leader(&session, &mut holder.signals).await;
        }
        holder.sessions.close().await;
        return Err(failure);
    }
}

/// Waits after a loss until the leader answers, as long as the session may still be there, or until a
/// signal.
async fn wait_for_leader(session: &Session, signals: &mut Signals) {
    let answered = async {
        // An error is the end of the session.
        drop(session.endless().retry.run(|client| client.sync("/")).await);
    };
    let mut answered = std::pin::pin!(answered);
    if timeout(ANSWER_TIME, &mut answered).await.is_ok() {
        return;
    }
    session.output.note("the lock was lost; waiting for a server that deletes its node");
    tokio::select! {
        () = answered => {}
        () = signals.next_ending() => {}
    }
}

/// Time for the answer of a leader that is there.
const ANSWER_TIME: Duration = Duration::from_millis(200);

impl Holder {
    /// Releases the lock after the command has ended with the exit status `code`.
    async fn release(&mut self, session: &Session, lock: AcquiredLock, code: u8) -> Result<u8> {
        let signals = &mut self.signals;
        let lost = tokio::select! {
            // A silent ensemble does not receive the release. It deletes the node when the session
            // ends.
            lost = session.run_connected(lock.release()) => lost.ok().flatten(),
            // A signal ends the wait for servers that do not answer. The lock was held until the
            // command had ended, and the node is deleted with the session.
            () = signals.next_ending() => return Ok(code),
        };
        let cause = session.client.last_disconnect();
        tokio::select! {
            () = session.client.close() => {}
            () = signals.next_ending() => {}
        }
        match lost {
            // The lock was lost before its release, possibly while the command was running.
            Some((path, reason)) => Err(Failure::lost(&path, reason, cause)),
            None => Ok(code),
        }
    }

    /// Acquires the lock. If the session ends during the wait, it starts over with a new session. Only
    /// the position in the queue is lost.
    async fn acquire(&mut self) -> Result<(Session, AcquiredLock)> {
        let Self { sessions, task, signals } = self;
        // A single try takes time too: as long as a connection may take.
        let limit =
            if task.is_single_try() { Some(sessions.connect_timeout) } else { task.timeout };
        let deadline = limit.map(|limit| clock() + limit);
        let mut last: Option<Session> = None;
        loop {
            let opened = signals.unless_interrupted(sessions.open(deadline)).await?;
            let session = match (opened, last) {
                (Err(_), Some(last)) if is_over(deadline) => {
                    return Err(too_late(&last, task).await);
                }
                (opened, _) => opened?,
            };
            signals.unless_interrupted(session.wait_for_majority()).await??;
            let acquiring = acquire_connected(task, &session.client);
            tokio::select! {
                biased;
                acquired = session.run_connected(acquiring) => match acquired? {
                    Ok(Some(lock)) => return Ok((session, lock)),
                    Ok(None) => return Err(not_in_time(&session.client, task).await),
                    Err(refused) if !starts_over(&refused) => return Err(refused.into()),
                    Err(_) if !session.may_go_on() => return Err(session.silent()),
                    Err(_) => {}
                },
                () = until(deadline) => {}
                () = print_waiting(&session, task) => {}
                signal = signals.next() => return Err(Failure::interrupted(number(signal))),
            }
            if is_over(deadline) {
                return Err(too_late(&session, task).await);
            }
            last = Some(session);
        }
    }

    /// Runs the command. The command has always ended when this returns.
    async fn hold(&mut self, session: &Session, lock: &AcquiredLock) -> Result<u8> {
        let Self { task, signals, .. } = self;
        let (client, contender) = (&session.client, &task.contender);
        let nodes = lock.nodes();
        let tokens = lock.tokens().map_err(|error| match error {
            LockError::Lost(reason) => {
                Failure::lost(&lock.lost_path(), reason, client.last_disconnect())
            }
            error => error.into(),
        })?;
        if let Some(log) = &session.context.log {
            log.print(format!("acquired {nodes}, token {tokens}"));
        }
        let environment = [("ZK_LOCK_NODE", nodes.as_str()), ("ZK_FENCING_TOKEN", tokens.as_str())];
        let end = contender.leftovers.end(session.output);
        let mut child = Child::spawn(&contender.command, environment, Stdio::inherit(), end)?;
        let mut lost = lock.lost();
        let mut asked_for = std::pin::pin!(async {
            // If the wait for a revocation request fails, the loss gives a better reason.
            let asked =
                task.revocable && zk_recipes::revocation_requested(client, &nodes).await.is_ok();
            if !asked {
                pending().await
            }
        });
        let failure = loop {
            tokio::select! {
                // After a pause of this process, both may be ready. The loss gives more information, so
                // it is polled first.
                biased;
                reason = &mut lost => {
                    break Failure::lost(&lock.lost_path(), reason, client.last_disconnect());
                }
                () = &mut asked_for => break Failure::revoked(task.only_path().unwrap_or(&nodes)),
                // Before the end of the command: a terminal sends Ctrl-C to both, and a signal that is read
                // later would end the wait for the release.
                signal = signals.next() => child.signal(signal),
                code = child.wait() => return code,
            }
        };
        child.end(contender.kill_after.unwrap_or(GRACE)).await;
        Err(failure)
    }
}

/// Returns the failure of a wait, with those who hold the lock as far as they can be read.
async fn not_in_time(client: &Client, task: &Task) -> Failure {
    let holders = holders(client, task).await;
    Failure::not_in_time(format!("{}{holders}", task.not_in_time()))
}

/// Returns the failure after the deadline: the lock is held by others, or no server answers.
async fn too_late(session: &Session, task: &Task) -> Failure {
    if session.was_of_use() { not_in_time(&session.client, task).await } else { session.silent() }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= clock())
}

/// Returns true if the session has ended, or if one of several locks was lost during the wait for
/// the next.
fn starts_over(refused: &Refused) -> bool {
    match &refused.error {
        LockError::Client(error) => is_end(error),
        LockError::Lost(_) => true,
        _ => false,
    }
}
