//! Futures that operations return: replies and watches.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use proto::{Decode, MultiReply, Zxid};
use zk_session_core::{
    Error, ErrorKind, Failure, Operation, Outcome, Reply, RequestId, SessionEnd, WatchEvent,
};

use super::budget::Budget;
use super::chroot::strip;
use crate::driver::{ReplyReceiver, Shared, WatchReceiver};
use crate::trace;

/// How a reply becomes a result, with the operation and the path for errors.
pub(crate) struct Ask<T> {
    pub(crate) operation: Operation,
    /// The path as the client names it.
    pub(crate) path: String,
    /// Length in bytes of the chroot, which prefixes every path that the server sends.
    pub(crate) chroot_len: usize,
    pub(crate) finish: Finish<T>,
}

/// Decodes a reply.
pub(crate) enum Finish<T> {
    Plain(fn(Result<Reply, Failure>) -> Result<T, Failure>),
    /// Needs the path, as the client names it, and the length of the chroot.
    OfPath(PathDecoder<T>),
    /// Needs data of the request.
    Asked(Box<Decoder<T>>),
}

type PathDecoder<T> = fn(Result<Reply, Failure>, &str, usize) -> Result<T, Failure>;
type Decoder<T> = dyn Fn(Result<Reply, Failure>) -> Result<T, Failure> + Send + Sync;

impl<T> Ask<T> {
    fn finish(&self, result: Result<Reply, Failure>) -> Result<T, Error> {
        let finished = match &self.finish {
            Finish::Plain(finish) => finish(result),
            Finish::OfPath(finish) => finish(result, &self.path, self.chroot_len),
            Finish::Asked(finish) => finish(result),
        };
        finished.map_err(|(kind, outcome)| {
            Error::new(kind, outcome).on(self.operation, self.path.as_str())
        })
    }
}

/// Future of the reply to a request that **was sent when the method was called**.
///
/// Calling two methods and then awaiting both futures sends both requests at once, in that order.
///
/// # Cancel safety
/// Dropping the future does not cancel a request that was already sent. A request that is still
/// waiting for a connection is withdrawn.
#[must_use = "the request is sent; await this for its result"]
pub struct Pending<T> {
    ask: Ask<T>,
    shared: Arc<Shared>,
    state: State,
    trace: trace::RequestSpan,
}

pub(crate) enum State {
    /// The session has the request. A request with an id can be withdrawn.
    Sent(ReplyReceiver, Option<RequestId>),
    /// The failure costs a unit of the budget. A caller that tries again and again would otherwise keep the
    /// driver from running.
    Refused(Failure, Budget),
    Done,
}

impl<T> Pending<T> {
    pub(crate) fn new(ask: Ask<T>, shared: &Arc<Shared>, state: State) -> Self {
        let trace = trace::RequestSpan::begin(ask.operation, &ask.path);
        Self { ask, shared: shared.clone(), state, trace }
    }

    /// Waits for the reply like the future itself, and also returns its zxid: that of the last transaction
    /// which the server had applied. The result shows the effect of all transactions up to it.
    ///
    /// It is `None` if the result comes from a rejection, as that of [`exists`](super::Client::exists) for a
    /// missing node.
    ///
    /// ```no_run
    /// # async fn example(client: zk_session::Client) -> Result<(), zk_session::Error> {
    /// let (node, zxid) = client.get_data("/config").with_zxid().await?;
    /// # drop((node, zxid)); Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of the future itself.
    ///
    /// # Cancel safety
    /// As that of the future itself.
    pub async fn with_zxid(mut self) -> Result<(T, Option<Zxid>), Error> {
        let reply = poll_fn(|cx| self.poll_reply(cx)).await;
        let zxid = reply.as_ref().ok().map(|reply| reply.zxid);
        self.finish(reply).map(|value| (value, zxid))
    }

    /// Withdraws the request if it is still waiting for a connection, as dropping the future does.
    ///
    /// Returns true if the request will never be sent. The future must not be polled again.
    pub fn cancel(&mut self) -> bool {
        match std::mem::replace(&mut self.state, State::Done) {
            State::Sent(mut receiver, Some(id)) => {
                receiver.close();
                let handles = self.shared.lock().forget(id);
                handles.is_some() // dropped here and not under the lock: the drop may wake a task
            }
            State::Refused(..) => true,
            State::Sent(_, None) | State::Done => false,
        }
    }

    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<Reply, Failure>> {
        let result = match &mut self.state {
            State::Sent(receiver, _) => match ready!(Pin::new(receiver).poll(cx)) {
                Ok(result) => result,
                // The driver answers every request. Only a panic of the driver drops the channel.
                Err(_) => {
                    let end = self.shared.lock().end_reason();
                    let end = end.unwrap_or(SessionEnd::DriverPanicked);
                    Err((ErrorKind::SessionEnded(end), Outcome::Unknown))
                }
            },
            State::Refused(failure, budget) => {
                ready!(budget.poll_take(cx));
                Err(failure.clone())
            }
            State::Done => panic!("`Pending` polled after it was ready"),
        };
        self.state = State::Done;
        Poll::Ready(result)
    }

    fn finish(&self, reply: Result<Reply, Failure>) -> Result<T, Error> {
        let result = self.ask.finish(reply);
        self.trace.end(self.ask.operation, &self.ask.path, result.as_ref().err());
        result
    }
}

/// Withdraws the request: one without a caller must not count against the limits of a disconnected
/// session.
impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, Error>;

    /// # Panics
    /// When polled again after it has completed.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = ready!(self.poll_reply(cx));
        Poll::Ready(self.finish(reply))
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("operation", &self.ask.operation)
            .field("path", &self.ask.path)
            .finish_non_exhaustive()
    }
}

/// Decodes the record in a reply.
pub(crate) fn decode<R: for<'a> Decode<'a>>(result: Result<Reply, Failure>) -> Result<R, Failure> {
    let reply = result?;
    R::from_frame(&reply.body).map_err(|error| (ErrorKind::InvalidReply(error), Outcome::Applied))
}

/// As [`decode`], for a request that changes nothing, even if the reply cannot be decoded.
pub(crate) fn decode_read<R>(result: Result<Reply, Failure>) -> Result<R, Failure>
where
    R: for<'a> Decode<'a>,
{
    decode(result).map_err(|failure| as_outcome(failure, Outcome::NotApplied))
}

/// As [`decode`], for a transaction. The header of its reply does not say whether it was rolled
/// back, so the outcome is unknown if the reply cannot be decoded.
pub(crate) fn decode_multi(result: Result<Reply, Failure>) -> Result<MultiReply, Failure> {
    decode(result).map_err(|failure| as_outcome(failure, Outcome::Unknown))
}

fn as_outcome((kind, outcome): Failure, of_the_unreadable: Outcome) -> Failure {
    match kind {
        ErrorKind::InvalidReply(_) => (kind, of_the_unreadable),
        kind => (kind, outcome),
    }
}

/// Future of the reply to a request that also sets a watch. It completes with the result and the
/// [`Watch`].
#[must_use = "the request is sent; await this for its result"]
#[derive(Debug)]
pub struct PendingWatch<T> {
    pending: Pending<T>,
    watch: Option<Watch>,
}

impl<T> PendingWatch<T> {
    pub(crate) fn new(pending: Pending<T>, watch: Watch) -> Self {
        Self { pending, watch: Some(watch) }
    }
}

impl<T> Future for PendingWatch<T> {
    type Output = Result<(T, Watch), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.pending).poll(cx));
        let watch = self.watch.take();
        Poll::Ready(answer.map(|value| match watch {
            Some(watch) => (value, watch),
            None => unreachable!("`pending` panics when it is polled again"),
        }))
    }
}

/// One-shot watch: a future that completes when the node changes.
///
/// The watch survives reconnects. If the node changes while the client is disconnected, the watch
/// fires after the reconnect. Changes between the event and the next watch are not reported; read
/// the node again.
///
/// # Errors
/// [`ErrorKind::SessionEnded`] if the session ends before the watch fires.
///
/// # Cancel safety
/// Dropping the future removes the watch. If it was the last one on the node, the session also
/// removes it from the server a moment later ([`REMOVAL_DELAY`](crate::limits::REMOVAL_DELAY)),
/// unless the node is deleted before.
#[must_use = "a watch that is dropped is forgotten"]
pub struct Watch {
    receiver: WatchReceiver,
    shared: Arc<Shared>,
    /// The path as the server knows it.
    path: String,
    chroot_len: usize,
    over: bool,
}

impl Watch {
    pub(crate) fn new(
        receiver: WatchReceiver,
        shared: Arc<Shared>,
        path: String,
        chroot_len: usize,
    ) -> Self {
        Self { receiver, shared, path, chroot_len, over: false }
    }
}

impl Future for Watch {
    type Output = Result<WatchEvent, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.receiver).poll(cx));
        self.over = true;
        let chroot_len = self.chroot_len;
        Poll::Ready(match result.unwrap_or(Err(SessionEnd::Closed)) {
            Ok(event) => Ok(WatchEvent { path: strip(event.path, chroot_len), ..event }),
            Err(end) => Err(watch_ended(end, &self.path, chroot_len)),
        })
    }
}

/// Returns the error of a watch on this path of the server, whose session has ended.
pub(super) fn watch_ended(end: SessionEnd, path: &str, chroot_len: usize) -> Error {
    Error::from(end).on(Operation::Watch, strip(path.to_owned(), chroot_len))
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.over {
            self.receiver.close();
            self.shared.prune_watches(&self.path);
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("path", &self.path).finish_non_exhaustive()
    }
}
