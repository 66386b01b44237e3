//! `zk lock`: a command runs while the lock is held, and not a moment longer.

use std::time::Duration;

use tokio::time::Instant;
use zk_recipes::session::{Client, Config, ErrorKind, SessionEnd};
use zk_recipes::{Guard, LockError, Mutex};

use crate::args::Lock;
use crate::child::Child;
use crate::failure::Failure;
use crate::signals::{Signals, number};

/// How long a session may take to come about when the lock may take longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the end of the session may take when the lock is lost, or given up.
const GOODBYE: Duration = Duration::from_millis(500);

pub(crate) async fn run(config: Config, lock: Lock) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let (client, guard) = acquire(&config, &lock, &mut signals).await?;
    let held = hold(&guard, &lock, &mut signals).await;
    let code = match held {
        Ok(code) => code,
        Err(failure) => {
            // The news of a loss must not wait for servers that do not answer.
            drop(guard);
            drop(tokio::time::timeout(GOODBYE, client.close()).await);
            return Err(failure);
        }
    };
    let released = tokio::select! {
        released = guard.release() => released,
        // Nobody is made to wait for servers that do not answer: the lock was held
        // until the command had ended, and the node goes with the session.
        _ = signals.next() => return Ok(code),
    };
    tokio::select! {
        () = client.close() => {}
        _ = signals.next() => {}
    }
    match released {
        // It was lost before its release, so perhaps while the command still ran.
        Err(LockError::Lost(reason)) => Err(Failure::lost(reason)),
        // Whatever else failed, the node goes with the session.
        Ok(()) | Err(_) => Ok(code),
    }
}

/// Acquires the lock, starting over with a new session when one ends while it
/// waits: nothing is lost but the place in the queue.
async fn acquire(
    config: &Config,
    lock: &Lock,
    signals: &mut Signals,
) -> Result<(Client, Guard), Failure> {
    let deadline = lock.timeout.map(|timeout| clock() + timeout);
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
        let acquired = tokio::select! {
            acquired = acquire_once(&client, lock, deadline) => acquired,
            signal = signals.next() => Err(Acquire::Failed(Failure::interrupted(number(signal)))),
        };
        let failure = match acquired {
            Ok(Some(guard)) => return Ok((client, guard)),
            Err(Acquire::SessionEnded) if deadline.is_none_or(|end| clock() < end) => continue,
            Ok(None) | Err(Acquire::SessionEnded) => Failure::not_in_time(&lock.path),
            Err(Acquire::Failed(failure)) => failure,
        };
        // Nobody waits behind the node of a contender that has given up; nor does this
        // process for servers that do not answer.
        drop(tokio::time::timeout(GOODBYE, client.close()).await);
        return Err(failure);
    }
}

enum Acquire {
    SessionEnded,
    Failed(Failure),
}

async fn acquire_once(
    client: &Client,
    lock: &Lock,
    deadline: Option<Instant>,
) -> Result<Option<Guard>, Acquire> {
    let failed = |failure: Failure| Acquire::Failed(failure);
    let mutex = Mutex::new(client, &lock.path).map_err(|error| failed(error.into()))?;
    let acquired = match (lock.timeout, deadline) {
        (Some(Duration::ZERO), _) => mutex.try_acquire().await,
        (_, Some(deadline)) => mutex.acquire_timeout(deadline - clock()).await,
        (_, None) => mutex.acquire().await.map(Some),
    };
    acquired.map_err(|error| match &error {
        LockError::Client(client) => match client.kind() {
            ErrorKind::SessionEnded(SessionEnd::Expired | SessionEnd::ExpiredLocally) => {
                Acquire::SessionEnded
            }
            _ => failed(error.into()),
        },
        _ => failed(error.into()),
    })
}

/// Runs the command. It has ended when this returns, whatever happens.
async fn hold(guard: &Guard, lock: &Lock, signals: &mut Signals) -> Result<u8, Failure> {
    let token = guard.token()?;
    let mut child = Child::spawn(&lock.command, guard, token)?;
    let mut lost = std::pin::pin!(guard.lost());
    loop {
        tokio::select! {
            // After a pause of this process both may be true; the loss says more.
            biased;
            reason = &mut lost => {
                child.end().await;
                return Err(Failure::lost(reason));
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
