//! `zk lock`, `zk semaphore`, `zk multilock`: a command runs while the lock is held, and
//! not a moment longer.

use std::ffi::OsString;
use std::time::Duration;

use tokio::time::Instant;
use zk_recipes::session::{Client, Config, ErrorKind, SessionEnd};
use zk_recipes::{LockError, LossReason};

use crate::child::Child;
use crate::failure::Failure;
use crate::grip::{Grip, Refused, Wanted};
use crate::signals::{Signals, number};

/// How long a session may take to come about when the lock may take longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the end of the session may take when the lock is lost, or given up.
const GOODBYE: Duration = Duration::from_millis(500);

/// A command, and what it runs under.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) wanted: Wanted,
    pub(crate) timeout: Option<Duration>,
    /// It ends when somebody asks for the lock.
    pub(crate) revocable: bool,
    pub(crate) command: Vec<OsString>,
}

pub(crate) async fn run(config: Config, task: Task) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let (client, grip) = acquire(&config, &task, &mut signals).await?;
    let held = hold(&client, &grip, &task, &mut signals).await;
    let code = match held {
        Ok(code) => code,
        Err(failure) => {
            // The news of a loss must not wait for servers that do not answer.
            drop(grip);
            drop(tokio::time::timeout(GOODBYE, client.close()).await);
            return Err(failure);
        }
    };
    let released = tokio::select! {
        released = grip.release() => released,
        // Nobody is made to wait for servers that do not answer: the lock was held
        // until the command had ended, and the node goes with the session.
        _ = signals.next() => return Ok(code),
    };
    tokio::select! {
        () = client.close() => {}
        _ = signals.next() => {}
    }
    match released.err().and_then(|refused| refused.loss()) {
        // It was lost before its release, so perhaps while the command still ran.
        Some(reason) => Err(Failure::lost(reason)),
        // Whatever else failed, the node goes with the session.
        None => Ok(code),
    }
}

/// Acquires the lock, starting over with a new session when one ends while it
/// waits: nothing is lost but the place in the queue.
async fn acquire(
    config: &Config,
    task: &Task,
    signals: &mut Signals,
) -> Result<(Client, Grip), Failure> {
    let deadline = task.timeout.map(|timeout| clock() + timeout);
    loop {
        let left = deadline.map(|deadline| deadline - clock());
        // One look at a lock needs a connection all the same.
        let connect_timeout = match left {
            Some(left) if !left.is_zero() => left.min(CONNECT_TIMEOUT),
            _ => CONNECT_TIMEOUT,
        };
        let client = tokio::select! {
            client = config.clone().connect_timeout(connect_timeout).connect() => client?,
            signal = signals.next() => return Err(Failure::interrupted(number(signal))),
        };
        let timeout = match (task.timeout, deadline) {
            (Some(Duration::ZERO), _) => task.timeout,
            // Waiting was asked for, be it so little that the connection has taken it all.
            (_, deadline) => deadline.map(|end| (end - clock()).max(Duration::from_nanos(1))),
        };
        let failure = tokio::select! {
            acquired = task.wanted.acquire(&client, timeout) => match acquired {
                Ok(Some(grip)) => return Ok((client, grip)),
                Ok(None) => Failure::not_in_time(&task.wanted),
                Err(refused) if !starts_over(&refused) => refused.into(),
                Err(_) if deadline.is_none_or(|end| clock() < end) => continue,
                Err(_) => Failure::not_in_time(&task.wanted),
            },
            signal = signals.next() => Failure::interrupted(number(signal)),
        };
        // Nobody waits behind the node of a contender that has given up; nor does this
        // process for servers that do not answer.
        drop(tokio::time::timeout(GOODBYE, client.close()).await);
        return Err(failure);
    }
}

/// The session has ended, or one of several locks was lost while the next was waited for.
fn starts_over(refused: &Refused) -> bool {
    refused.errors.first().is_some_and(|error| match error {
        LockError::Client(error) => matches!(
            error.kind(),
            ErrorKind::SessionEnded(SessionEnd::Expired | SessionEnd::ExpiredLocally)
        ),
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
            std::future::pending().await
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

#[allow(clippy::disallowed_methods, reason = "a deadline over several sessions")]
fn clock() -> Instant {
    Instant::now()
}
