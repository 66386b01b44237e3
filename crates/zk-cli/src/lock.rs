//! `zk lock`, `zk semaphore`, `zk multilock`: a command runs while the lock is held, and
//! not a moment longer.

use std::ffi::OsString;
use std::future::pending;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use zk_recipes::session::Client;
use zk_recipes::{LockError, LossReason};

use crate::child::Child;
use crate::failure::{Failure, is_end};
use crate::grip::{Approach, Grip, Refused, Wanted};
use crate::sessions::{CONNECT_TIMEOUT, Sessions, clock};
use crate::signals::{Signals, number};

/// A command, and what it runs under.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) wanted: Wanted,
    pub(crate) timeout: Option<Duration>,
    /// It ends when somebody asks for the lock.
    pub(crate) revocable: bool,
    pub(crate) command: Vec<OsString>,
}

pub(crate) async fn run(mut sessions: Sessions, task: Task) -> Result<u8, Failure> {
    if task.timeout != Some(Duration::ZERO) {
        sessions.wait_for_servers();
    }
    let mut signals = Signals::new()?;
    let (client, grip) = match acquire(&mut sessions, &task, &mut signals).await {
        Ok(acquired) => acquired,
        Err(failure) => {
            // Nobody waits behind the node of a contender that has given up.
            sessions.close().await;
            return Err(failure);
        }
    };
    let held = hold(&client, &grip, &task, &mut signals).await;
    let code = match held {
        Ok(code) => code,
        Err(failure) => {
            // The news of a loss must not wait for servers that do not answer.
            drop(grip);
            sessions.close().await;
            return Err(failure);
        }
    };
    let lost = tokio::select! {
        // A silent ensemble is not told; it finds out by the end of the session.
        lost = sessions.attend(grip.release()) => lost.ok().flatten(),
        // Nobody is made to wait for servers that do not answer: the lock was held
        // until the command had ended, and the node goes with the session.
        _ = signals.next() => return Ok(code),
    };
    tokio::select! {
        () = client.close() => {}
        _ = signals.next() => {}
    }
    match lost {
        // It was lost before its release, so perhaps while the command still ran.
        Some(reason) => Err(Failure::lost(reason)),
        None => Ok(code),
    }
}

/// Acquires the lock, starting over with a new session when one ends while it
/// waits: nothing is lost but the place in the queue.
async fn acquire(
    sessions: &mut Sessions,
    task: &Task,
    signals: &mut Signals,
) -> Result<(Client, Grip), Failure> {
    // One look takes time, too: as much as a connection may take.
    let limit = task.timeout.map(|it| if it.is_zero() { CONNECT_TIMEOUT } else { it });
    let deadline = limit.map(|limit| clock() + limit);
    let how = match task.timeout {
        Some(Duration::ZERO) => Approach::Look,
        _ => Approach::Wait,
    };
    loop {
        let opened = tokio::select! {
            opened = sessions.open(deadline) => opened,
            signal = signals.next() => return Err(Failure::interrupted(number(signal))),
        };
        let client = match opened {
            Ok(client) => client,
            Err(_) if is_over(deadline) && sessions.were_there() => {
                return Err(too_late(sessions, task));
            }
            Err(error) => return Err(error.into()),
        };
        tokio::select! {
            biased;
            acquired = sessions.attend(task.wanted.acquire(&client, how)) => match acquired? {
                Ok(Some(grip)) => return Ok((client, grip)),
                Ok(None) => return Err(Failure::not_in_time(&task.wanted)),
                Err(refused) if !starts_over(&refused) => return Err(refused.into()),
                Err(_) if !sessions.may_go_on() => return Err(sessions.silent()),
                Err(_) => {}
            },
            () = until(deadline) => {}
            signal = signals.next() => return Err(Failure::interrupted(number(signal))),
        }
        if is_over(deadline) {
            return Err(too_late(sessions, task));
        }
    }
}

/// Somebody else has the lock, or nobody can be asked for it.
fn too_late(sessions: &mut Sessions, task: &Task) -> Failure {
    match sessions.were_of_use() {
        true => Failure::not_in_time(&task.wanted),
        false => sessions.silent(),
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

fn is_over(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= clock())
}

/// The session has ended, or one of several locks was lost while the next was waited for.
fn starts_over(refused: &Refused) -> bool {
    refused.errors.first().is_some_and(|error| match error {
        LockError::Client(error) => is_end(error),
        LockError::Lost(_) => true,
        _ => false,
    })
}

/// Runs the command. It has ended when this returns, whatever happens.
async fn hold(
    client: &Client,
    grip: &Grip,
    task: &Task,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let nodes = grip.nodes();
    let mut child = Child::spawn(&task.command, &nodes, &grip.tokens()?)?;
    let mut lost = grip.lost();
    let mut asked_for = std::pin::pin!(async {
        // Why nobody can ask any more, the loss tells better.
        let asked = task.revocable && zk_recipes::revocation(client, &nodes).await.is_ok();
        if !asked {
            pending().await
        }
    });
    loop {
        tokio::select! {
            // After a pause of this process both may be true; the loss says more.
            biased;
            reason = &mut lost => {
                child.end().await;
                return Err(Failure::lost(reason));
            }
            () = &mut asked_for => {
                child.end().await;
                return Err(Failure::lost(LossReason::Revoked));
            }
            code = child.wait() => return code,
            signal = signals.next() => child.signal(signal),
        }
    }
}
