//! Retries of requests, as far as a retry cannot apply a request twice.

use std::future::{Future, ready};
use std::pin::Pin;

use proto::{Acl, CreateMode, ErrorCode, OPEN_ACL_UNSAFE, Stat};
use zk_session_core::{Error, Outcome};

use super::operations::ANY_VERSION;
use super::repeat::Repeat;
use super::retry_policy::{Attempts, RetryPolicy};
use super::{Children, Client, Created, NodeData};

/// A handle that retries failed requests; see [`Client::retry`].
#[derive(Clone, Debug)]
#[must_use]
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
    /// * A request is retried if it reached a limit of the client, except that of credentials, and
    ///   unless the policy is [`RetryPolicy::until_session_end`].
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
    /// let retry = client.retry(RetryPolicy::exponential(first, cap).timeout(10 * cap));
    /// let node = retry.get_data("/config").await?;
    /// retry.set_data("/config", b"new", Some(node.stat.version)).await?;
    /// // Anything else, as long as the closure makes one request.
    /// let me = retry.run(|client| client.who_am_i()).await?;
    /// # drop(me); Ok(())
    /// # }
    /// ```
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
        let mut attempts = self.policy.begin();
        loop {
            let sent = request(&self.bounded(&attempts));
            match sent.await {
                Ok(done) => return Ok(done),
                Err(error) => self.again(&mut attempts, error, Repeat::NotApplied).await?,
            }
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
        data: impl AsRef<[u8]>,
        mode: CreateMode,
    ) -> Result<Created, Error> {
        self.create_with_acl(path, data, mode, OPEN_ACL_UNSAFE).await
    }

    /// Creates a node with an access control list; otherwise like [`create`](Self::create).
    ///
    /// # Errors
    /// Returns the errors of the request.
    pub async fn create_with_acl(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        mode: CreateMode,
        acl: &[Acl],
    ) -> Result<Created, Error> {
        let data = data.as_ref();
        let before = self.client.shared.lock().last_zxid();
        let repeats = if mode.is_sequential() { Repeat::NotApplied } else { Repeat::Unanswered };
        let create = |client: &Client| client.create_with_acl(path, data, mode, acl);
        let find = |client: Client, code| async move {
            if code != ErrorCode::NODE_EXISTS || !mode.is_ephemeral() {
                return Ok(Found::Nothing);
            }
            let NodeData { data: there, stat, .. } = match client.get_data(path).await {
                Err(error) if error.is_no_node() => return Ok(Found::Gone),
                node => node?,
            };
            let is_mine = stat.ephemeral_owner == self.client.session_id();
            let is_as_made = stat.version == 0 && there == data;
            Ok(if is_mine && is_as_made && stat.czxid > before {
                Found::Done(Created { path: path.to_owned(), stat })
            } else {
                Found::Nothing
            })
        };
        self.repeat(repeats, create, find).await
    }

    /// Replaces a node's data like [`Client::set_data`], if the node has the given version; `None`
    /// for any. With a version it also retries after a lost reply.
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
    /// Without a version, a retry could undo a change of another client.
    ///
    /// # Errors
    /// Returns the errors of the request.
    pub async fn set_data(
        &self,
        path: &str,
        data: impl AsRef<[u8]>,
        version: Option<i32>,
    ) -> Result<Stat, Error> {
        let data = data.as_ref();
        let before = self.client.shared.lock().last_zxid();
        let repeats = match version {
            None | Some(ANY_VERSION) => Repeat::NotApplied,
            Some(_) => Repeat::Unanswered,
        };
        let set = |client: &Client| client.set_data(path, data, version);
        let find = |client: Client, code| async move {
            if code != ErrorCode::BAD_VERSION {
                return Ok(Found::Nothing);
            }
            let NodeData { data: there, stat, .. } = client.get_data(path).await?;
            let next = version.map(|version| version.wrapping_add(1));
            let is_next = Some(stat.version) == next && stat.mzxid > before;
            Ok(if is_next && there == data { Found::Done(stat) } else { Found::Nothing })
        };
        self.repeat(repeats, set, find).await
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
        let delete = |client: &Client| client.delete(path, version);
        let find = |_, code| match code {
            ErrorCode::NO_NODE => ready(Ok(Found::Done(()))),
            _ => ready(Ok(Found::Nothing)),
        };
        self.repeat(Repeat::Unanswered, delete, find).await
    }

    /// Repeats a request. Once an attempt may have been applied, and the server rejects a later
    /// one, `find` looks for the effect of the earlier one.
    async fn repeat<T, F, G>(
        &self,
        repeats: Repeat,
        mut request: impl FnMut(&Client) -> F,
        find: impl Fn(Client, ErrorCode) -> G,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
        G: Future<Output = Result<Found<T>, Error>>,
    {
        let (mut attempts, mut is_unknown) = (self.policy.begin(), false);
        loop {
            let sent = request(&self.bounded(&attempts));
            let mut error = match sent.await {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            if let (Some(code), true) = (error.code(), is_unknown) {
                match find(self.bounded(&attempts), code).await {
                    Ok(Found::Done(done)) => return Ok(done),
                    Ok(Found::Nothing) => {}
                    Ok(Found::Gone) if attempts.pause(&self.client).await => continue,
                    Ok(Found::Gone) => return Err(error.with_outcome(Outcome::Unknown)),
                    Err(failed) => error = failed,
                }
            }
            is_unknown |= error.outcome() == Outcome::Unknown;
            if let Err(error) = self.again(&mut attempts, error, repeats).await {
                return Err(if is_unknown { error.with_outcome(Outcome::Unknown) } else { error });
            }
        }
    }

    /// Waits before the next attempt; see [`Attempts::again`]. On the heap and the same for all
    /// requests, because it is rare; this keeps the futures of callers small.
    #[inline(never)]
    fn again<'a>(
        &'a self,
        attempts: &'a mut Attempts<'_>,
        error: Error,
        repeats: Repeat,
    ) -> Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>> {
        Box::pin(attempts.again(&self.client, error, repeats))
    }

    /// Returns the handle for an attempt, which waits no longer than the policy's remaining time.
    #[inline(never)]
    fn bounded(&self, attempts: &Attempts<'_>) -> Client {
        let client = &self.client;
        let Some(left) = attempts.time_left() else { return client.clone() };
        let own = client.timeout.or_else(|| client.shared.lock().request_timeout());
        client.with_timeout(own.map_or(left, |own| own.min(left)))
    }
}

/// Effect of an earlier attempt.
enum Found<T> {
    Done(T),
    Nothing,
    /// The node that stood in the way was deleted meanwhile.
    Gone,
}
