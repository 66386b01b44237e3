//! Retries of requests, as far as a retry cannot apply a request twice.

use std::future::Future;
use std::pin::pin;
use std::time::Instant;

use futures::future::select;
use proto::{CreateMode, ErrorCode, Stat};

use super::retry_policy::RetryPolicy;
use super::{Children, Client, Created, NodeData};
use crate::driver::now;
use zk_session_core::{Error, Fault, Outcome, RetryOn};

/// A handle that retries failed requests; see [`Client::retry`].
#[derive(Clone, Debug)]
pub struct Retry {
    client: Client,
    policy: RetryPolicy,
}

/// # Retries
impl Client {
    /// Returns a handle that retries requests as the policy says.
    ///
    /// It retries a request that was certainly not applied:
    ///
    /// * A read is retried if its reply was lost.
    /// * A request is retried if it was never sent, for example because it timed out first.
    /// * A request is retried if the server rejects it for a temporary reason, for example
    ///   throttling.
    /// * A request is retried if it reached a limit of the client, except that of credentials.
    ///
    /// It retries a write with an unknown outcome only in [`Retry::create`], [`Retry::set_data`]
    /// and [`Retry::delete`]. Each of them documents why the retry does no harm. The retries stop
    /// when the session ends, because no further attempt can succeed.
    ///
    /// Without a retry handle, a request is sent once. It waits for a connection if there is none.
    /// A policy is useful for connections that are lost during a request, and to limit the wait.
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// use std::time::Duration;
    /// use zk_session::RetryPolicy;
    ///
    /// let (first, cap) = (Duration::from_millis(20), Duration::from_secs(1));
    /// let retry = client.retry(RetryPolicy::exponential(first, cap).with_timeout(10 * cap));
    /// let node = retry.get_data("/config").await?;
    /// retry.set_data("/config", b"new", node.stat.version).await?;
    /// // Anything else, as long as the closure makes one request.
    /// let me = retry.run(|client| client.who_am_i()).await?;
    /// # drop(me); Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn retry(&self, policy: RetryPolicy) -> Retry {
        Retry { client: self.clone(), policy }
    }
}

/// # Cancel safety
/// Dropping a future stops the retries. The current attempt may or may not be applied; a read has
/// no effect.
///
/// # Errors
/// Returns the error of the last attempt. If the outcome of one attempt is unknown,
/// [`Error::outcome`] is [`Outcome::Unknown`], even if the server rejected the last attempt.
impl Retry {
    /// Retries one request until it succeeds, or fails with an error that a retry does not help.
    ///
    /// A closure that sends several writes is retried as a whole, and must be safe to repeat.
    ///
    /// # Errors
    /// Returns the errors of the request.
    pub async fn run<T, F>(&self, mut request: impl FnMut(&Client) -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut attempts = Attempts::new(self);
        loop {
            let error = match request(&attempts.client()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            attempts.after(error).await?;
        }
    }

    /// Reads a node's data like [`Client::get_data`], with retries.
    ///
    /// # Errors
    /// Returns the errors of the request.
    pub async fn get_data(&self, path: &str) -> Result<NodeData, Error> {
        self.run(|client| client.get_data(path)).await
    }

    /// Returns the Stat of a node like [`Client::exists`], with retries.
    ///
    /// # Errors
    /// Returns the errors of the request.
    pub async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.run(|client| client.exists(path)).await
    }

    /// Lists a node's children like [`Client::get_children`], with retries.
    ///
    /// # Errors
    /// Returns the errors of the request.
    pub async fn get_children(&self, path: &str) -> Result<Children, Error> {
        self.run(|client| client.get_children(path)).await
    }

    /// Creates a node like [`Client::create`], with retries, also after a lost reply.
    ///
    /// A retry may find that the node exists. It takes the node for that of a lost attempt only if
    /// all of these hold:
    ///
    /// * The node is an ephemeral node of this session.
    /// * Its `czxid` is newer than every zxid that this session had received before the first
    ///   attempt.
    /// * Its data is the given data, at version 0.
    ///
    /// The server cannot tell the callers of one session apart. If two calls create the same node
    /// with the same data at the same time, on one session, both may succeed. Use a lock if only
    /// one may succeed.
    ///
    /// A node that is not ephemeral does not record its creator, so it is never taken for that of a
    /// lost attempt. The error is then `NodeExists` with an unknown outcome. To find such a node
    /// again, create it with [`CreateBuilder::protected`](super::CreateBuilder::protected).
    ///
    /// A sequential node is not retried after a lost reply, because that could create two nodes.
    ///
    /// # Errors
    /// Returns the errors of the request.
    pub async fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> Result<Created, Error> {
        let mut attempts = Attempts::new(self);
        attempts.repeats_unknown = !mode.is_sequential();
        let before = self.client.shared().lock().last_zxid();
        loop {
            let error = match attempts.client().create(path, data, mode).await {
                Ok(created) => return Ok(created),
                Err(error) => error,
            };
            let exists = error.code() == Some(ErrorCode::NODE_EXISTS);
            if attempts.is_unknown && exists && mode.is_ephemeral() {
                let NodeData { data: there, stat } = match attempts.client().get_data(path).await {
                    Ok(node) => node,
                    // The node was deleted meanwhile, so it can be created again.
                    Err(look) if look.code() == Some(ErrorCode::NO_NODE) => {
                        attempts.pause(error, true).await?;
                        continue;
                    }
                    Err(look) => {
                        attempts.after(look).await?;
                        continue;
                    }
                };
                let is_mine = stat.ephemeral_owner == self.client.session_id();
                let is_as_made = stat.version == 0 && there.unwrap_or_default() == data;
                if is_mine && is_as_made && stat.czxid > before {
                    return Ok(Created { path: path.to_owned(), stat });
                }
            }
            attempts.after(error).await?;
        }
    }

    /// Replaces a node's data like [`Client::set_data`], if the node has the given version, with
    /// retries, also after a lost reply.
    ///
    /// A retry may find another version. It takes the change for that of a lost attempt if all of
    /// these hold:
    ///
    /// * The node has the next version.
    /// * The node has the given data.
    /// * Its `mzxid` is newer than every zxid that this session had received before the first
    ///   attempt.
    ///
    /// A change by another client, from the same version to the same data, looks the same.
    ///
    /// Version -1 stands for any version. Retrying such a request could undo a change of another
    /// client, so it is not retried after a lost reply.
    ///
    /// # Errors
    /// Returns the errors of the request.
    pub async fn set_data(&self, path: &str, data: &[u8], version: i32) -> Result<Stat, Error> {
        let mut attempts = Attempts::new(self);
        attempts.repeats_unknown = version != -1;
        let before = self.client.shared().lock().last_zxid();
        loop {
            let error = match attempts.client().set_data(path, data, Some(version)).await {
                Ok(stat) => return Ok(stat),
                Err(error) => error,
            };
            if attempts.is_unknown && error.code() == Some(ErrorCode::BAD_VERSION) {
                let NodeData { data: there, stat } = match attempts.client().get_data(path).await {
                    Ok(node) => node,
                    Err(error) => {
                        attempts.after(error).await?;
                        continue;
                    }
                };
                let is_next = stat.version == version.wrapping_add(1) && stat.mzxid > before;
                if is_next && there.unwrap_or_default() == data {
                    return Ok(stat);
                }
            }
            attempts.after(error).await?;
        }
    }

    /// Deletes a node like [`Client::delete`], if the node has the given version (`None` for any),
    /// with retries, also after a lost reply.
    ///
    /// A retry that finds no node succeeds, whether this client or another one deleted the node. If
    /// another client created a node with the same name meanwhile, a retry deletes that node, if
    /// the version allows it. For names that other clients may reuse, give the version, or delete
    /// without retries.
    ///
    /// # Errors
    /// Returns the errors of the request; `NoNode` only if no reply was lost before.
    pub async fn delete(&self, path: &str, version: Option<i32>) -> Result<(), Error> {
        let mut attempts = Attempts::new(self);
        attempts.repeats_unknown = true;
        loop {
            let error = match attempts.client().delete(path, version).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            if attempts.is_unknown && error.code() == Some(ErrorCode::NO_NODE) {
                return Ok(());
            }
            attempts.after(error).await?;
        }
    }
}

/// The attempts at one request.
struct Attempts<'a> {
    retry: &'a Retry,
    began: Instant,
    made: u32,
    /// The caller can recognise the effect of an attempt whose reply was lost, so it is safe to
    /// retry.
    repeats_unknown: bool,
    /// One of the attempts may have been applied.
    is_unknown: bool,
}

impl<'a> Attempts<'a> {
    fn new(retry: &'a Retry) -> Self {
        Self { retry, began: now(), made: 0, repeats_unknown: false, is_unknown: false }
    }

    /// Returns the handle for the next attempt, which waits no longer than the policy's remaining
    /// time.
    fn client(&self) -> Client {
        let client = &self.retry.client;
        let Some(bound) = self.retry.policy.bound() else {
            return client.clone();
        };
        let left = bound.saturating_sub(now().saturating_duration_since(self.began));
        let own = client.within.or_else(|| client.shared().lock().request_timeout());
        client.with_timeout(own.map_or(left, |own| own.min(left)))
    }

    /// Handles a failed attempt: waits before the next one, or returns the final error.
    async fn after(&mut self, error: Error) -> Result<(), Error> {
        let is_unknown = error.outcome() == Outcome::Unknown;
        let may_pass = match is_unknown {
            true => self.repeats_unknown && error.fault() != Fault::Session,
            false => error.retry_on() == RetryOn::SameSession,
        };
        self.is_unknown |= is_unknown;
        self.pause(error, may_pass).await
    }

    async fn pause(&mut self, error: Error, may_pass: bool) -> Result<(), Error> {
        self.made = self.made.saturating_add(1);
        let Self { retry: Retry { client, policy }, .. } = self;
        let elapsed = now().saturating_duration_since(self.began);
        let draw = |bound| client.shared().lock().random_below(bound);
        match policy.pause(self.made, elapsed, draw).filter(|_| may_pass) {
            Some(pause) => {
                // Wait for the pause or for the end of the session. After the end, the next attempt
                // fails.
                let mut lease_state = client.shared().lease_state();
                let over = lease_state.wait_for(|it| it.closing.or(it.ended).is_some());
                select(pin!(over), pin!(client.sleep(pause))).await;
                Ok(())
            }
            None if self.is_unknown => Err(error.with_outcome(Outcome::Unknown)),
            None => Err(error),
        }
    }
}
