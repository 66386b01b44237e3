//! Requests that are repeated, as far as repeating them cannot do them twice.

use std::future::Future;
use std::pin::pin;
use std::time::Instant;

use futures::future::select;
use proto::{CreateMode, ErrorCode, Stat};

use super::retry_policy::RetryPolicy;
use super::{Children, Client, Created, NodeData};
use crate::driver::now;
use zk_session_core::{Error, Fault, Outcome, RetryOn};

/// A handle whose requests are repeated when they fail; see [`Client::retry`].
#[derive(Clone, Debug)]
pub struct Retry {
    client: Client,
    policy: RetryPolicy,
}

/// # Repeating requests
impl Client {
    /// A handle whose requests are repeated, as the policy says, when they fail in a way
    /// that may pass.
    ///
    /// What was certainly not applied is repeated: reads of which the answer was lost,
    /// requests that were never sent or that timed out before, that a throttling or
    /// read-only server has turned away, or that found a limit reached. A write whose
    /// outcome is unknown is repeated by [`Retry::create`], [`Retry::set_data`] and
    /// [`Retry::delete`] alone, each of which says how it knows that this does no harm.
    /// The end of the session is the end of repeating: nothing can pass then.
    ///
    /// Without it a request is made once. It waits for a connection if there is none, so a
    /// policy is for losses in mid-request, and for bounding the wait.
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// use std::time::Duration;
    /// use zk_session::RetryPolicy;
    ///
    /// let (first, cap) = (Duration::from_millis(20), Duration::from_secs(1));
    /// let retry = client.retry(RetryPolicy::exponential(first, cap).within(10 * cap));
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
/// Dropping a future stops the repeating. The attempt that was being waited for may be
/// applied or not; of reads nothing is left.
///
/// # Errors
/// The error of the last attempt. If the outcome of one is unknown, so is that of the
/// whole: [`Error::outcome`] says [`Outcome::Unknown`] then, even if the server has declined
/// the last one.
impl Retry {
    /// Repeats one request until it succeeds, or fails in a way that repeating does not
    /// help. A closure that makes several writes is repeated as a whole, and must stand
    /// that.
    ///
    /// # Errors
    /// Those of the request.
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

    /// [`Client::get_data`].
    ///
    /// # Errors
    /// Those of the request.
    pub async fn get_data(&self, path: &str) -> Result<NodeData, Error> {
        self.run(|client| client.get_data(path)).await
    }

    /// [`Client::exists`].
    ///
    /// # Errors
    /// Those of the request.
    pub async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        self.run(|client| client.exists(path)).await
    }

    /// [`Client::get_children`].
    ///
    /// # Errors
    /// Those of the request.
    pub async fn get_children(&self, path: &str) -> Result<Children, Error> {
        self.run(|client| client.get_children(path)).await
    }

    /// Creates a node, as [`Client::create`], and repeats it after a lost answer, too.
    ///
    /// A repetition that finds the node there takes it for the one of a lost attempt only if
    /// that is proved, by all of these: it is an ephemeral of this very session; its `czxid` is
    /// newer than all that this session had been told before the first attempt; its data are
    /// those given, at version 0. What one session made is one owner's to the server: of two
    /// calls that make the same node with the same data at the same time, on one session, both
    /// may be told that it is theirs. Who must be alone takes a lock. A node that is not
    /// ephemeral bears no mark of who made it: it is never taken for one's own, and the error
    /// is `NodeExists` with the outcome unknown. To find it again all the same, make it with
    /// [`NewNode::protected`](super::NewNode::protected). A sequential node is not repeated
    /// after a lost answer, for that would make two.
    ///
    /// # Errors
    /// Those of the request.
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
                    // One that has gone meanwhile can be made again.
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

    /// Replaces a node's data if its version is the given one, as [`Client::set_data`],
    /// and repeats it after a lost answer, too.
    ///
    /// A repetition that finds another version takes the change for that of a lost attempt
    /// if the node has the very next version, these data, and an `mzxid` that is newer than
    /// all that this session had been told before the first attempt. Somebody else who has
    /// put the same data in place of the same version cannot be told from it.
    ///
    /// Version -1 stands for any to a server. Repeating that could undo what others have
    /// set meanwhile, so it is not repeated after a lost answer.
    ///
    /// # Errors
    /// Those of the request.
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

    /// Deletes a node, if its version is the given one, `None` for any, as
    /// [`Client::delete`], and repeats it after a lost answer, too.
    ///
    /// A repetition that finds no node has succeeded: whoever deleted it, it is gone. One
    /// that finds a node that somebody has made meanwhile, under the same name, deletes
    /// that, if the version allows it. For names that may be used again, by others, give
    /// the version, or delete once.
    ///
    /// # Errors
    /// Those of the request; `NoNode` only if no answer was lost before.
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
    /// Set for requests whose caller knows what a lost answer was, when it looks.
    repeats_unknown: bool,
    /// One of the attempts may have been applied.
    is_unknown: bool,
}

impl<'a> Attempts<'a> {
    fn new(retry: &'a Retry) -> Self {
        Self { retry, began: now(), made: 0, repeats_unknown: false, is_unknown: false }
    }

    /// The handle for the next attempt, which waits no longer than there is time.
    fn client(&self) -> Client {
        let client = &self.retry.client;
        let Some(bound) = self.retry.policy.bound() else {
            return client.clone();
        };
        let left = bound.saturating_sub(now().saturating_duration_since(self.began));
        let own = client.within.or_else(|| client.shared().lock().request_timeout());
        client.within(own.map_or(left, |own| own.min(left)))
    }

    /// An attempt has failed: pauses before the next one, or gives up.
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
        let draw = |bound| client.shared().lock().draw_below(bound);
        match policy.pause(self.made, elapsed, draw).filter(|_| may_pass) {
            Some(pause) => {
                // Whatever comes first; after the end the next attempt says so.
                let mut standing = client.shared().standing();
                let over = standing.wait_for(|it| it.closing.or(it.ended).is_some());
                select(pin!(over), pin!(client.sleep(pause))).await;
                Ok(())
            }
            None if self.is_unknown => Err(error.with_outcome(Outcome::Unknown)),
            None => Err(error),
        }
    }
}
