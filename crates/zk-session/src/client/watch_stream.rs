//! Persistent watches, as streams of events.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::{Stream, StreamExt};
use proto::{AddWatchMode, AddWatchReply, OpCode};
use zk_session_core::{Error, WatchEvent, WatchStreamItem};

use super::Client;
use super::chroot::strip;
use super::pending::{Finish, Pending, decode_read, watch_ended};
use crate::clock::now;
use crate::driver::{Shared, StreamReceiver, stream_queue};

/// Persistent watch: a stream of the events of one node, or of a node and everything below it.
///
/// [`Client::watch`] and [`Client::watch_recursive`] create it. It lasts until it is dropped or the
/// session ends. It also implements [`futures::Stream`].
///
/// For an owner that does not read, the client keeps up to
/// [`STREAM_EVENTS_KEPT`](crate::limits::STREAM_EVENTS_KEPT) events. If there are more, one
/// [`WatchStreamItem::Overflow`] replaces all of them.
///
/// # Ordering
/// Events arrive in the order of the changes. An event arrives before any reply to this client that
/// could show its effect.
///
/// If this session has both a persistent and a recursive watch that cover a node, the persistent
/// one may deliver `NodeChildrenChanged` twice for one change.
///
/// # Errors
/// The last item is the end of the session, once.
///
/// ```no_run
/// # async fn example() -> Result<(), zk_session::Error> {
/// use zk_session::{Client, WatchStreamItem};
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let mut config = client.watch("/config").await?;
/// loop {
///     println!("{:?}", client.get_data("/config").await?.data);
///     match config.next().await {
///         Some(Ok(WatchStreamItem::Changed(event))) => println!("{:?}", event.event_type),
///         Some(Ok(_)) => println!("something may have been missed"),
///         Some(Err(error)) => return Err(error),
///         None => return Ok(()),
///     }
/// }
/// # }
/// ```
///
/// The stream does not keep the session open. When the last [`Client`] is dropped, the stream ends
/// with [`SessionEnd::Closed`](crate::SessionEnd::Closed).
#[must_use = "a watch that is dropped is forgotten"]
pub struct WatchStream {
    receiver: StreamReceiver,
    shared: Arc<Shared>,
    /// The path as the server knows it.
    path: String,
    chroot_len: usize,
}

impl WatchStream {
    /// Waits for the next item. Returns `None` after the end of the session was returned.
    ///
    /// # Errors
    /// [`ErrorKind::SessionEnded`](crate::ErrorKind::SessionEnded), once.
    ///
    /// # Cancel safety
    /// This method is cancel safe. No item is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<WatchStreamItem, Error>> {
        StreamExt::next(self).await
    }
}

impl Stream for WatchStream {
    type Item = Result<WatchStreamItem, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let item = ready!(self.receiver.poll(cx));
        Poll::Ready(item.map(|item| match item {
            Ok(WatchStreamItem::Changed(event)) => {
                let path = strip(event.path, self.chroot_len);
                Ok(WatchStreamItem::Changed(WatchEvent { path, ..event }))
            }
            Ok(item) => Ok(item),
            Err(end) => Err(watch_ended(end, &self.path, self.chroot_len)),
        }))
    }
}

impl Drop for WatchStream {
    fn drop(&mut self) {
        self.receiver.close();
        self.shared.prune_watches(&self.path);
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Future of a [`WatchStream`] whose request was sent when the method was called.
///
/// # Cancel safety
/// Dropping the future removes the watch, on the server too.
#[must_use = "a watch that is dropped is forgotten"]
#[derive(Debug)]
pub struct PendingStream {
    pending: Pending<()>,
    stream: Option<WatchStream>,
}

impl Future for PendingStream {
    type Output = Result<WatchStream, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(Pin::new(&mut self.pending).poll(cx));
        let stream = self.stream.take();
        Poll::Ready(answer.map(|()| match stream {
            Some(stream) => stream,
            None => unreachable!("`pending` panics when it is polled again"),
        }))
    }
}

/// # Persistent watches
///
/// Servers support persistent watches since 3.6.0. An older server rejects the request with
/// `Unimplemented` and closes the connection, but not the session. Persistent watches survive
/// reconnects, with a [gap](WatchStreamItem::Gap). Dropping one removes it from the server, unless
/// another watch of this session needs it.
impl Client {
    /// Watches a node: its creation, changes and deletion, and the creation and deletion of its
    /// children.
    ///
    /// The node need not exist.
    ///
    /// # Errors
    /// The server can reject the request with `Unimplemented` if it is older than 3.6.0, and with
    /// `MarshallingError` if persistent watches are disabled.
    pub fn watch(&self, path: &str) -> PendingStream {
        self.watch_with_mode(path, AddWatchMode::Persistent)
    }

    /// Watches a node and everything below it: each creation, change and deletion.
    ///
    /// The node need not exist. There is no `NodeChildrenChanged`, because each child has events
    /// itself.
    ///
    /// # Errors
    /// Returns the errors of [`watch`](Self::watch).
    pub fn watch_recursive(&self, path: &str) -> PendingStream {
        self.watch_with_mode(path, AddWatchMode::PersistentRecursive)
    }

    fn watch_with_mode(&self, path: &str, mode: AddWatchMode) -> PendingStream {
        let decode = |result| decode_read::<AddWatchReply>(result).map(drop);
        let ask = self.ask(OpCode::AddWatch, path, Finish::Plain(decode));
        let (sender, receiver) = stream_queue();
        let (shared, chroot_len) = (self.shared.clone(), ask.chroot_len);
        let full = self.full(path).into_owned();
        let stream = WatchStream { receiver, shared, path: full, chroot_len };
        let full = self.checked(path);
        let pending = self.submit(ask, |session, to| {
            session.add_watch(now(), &full?, mode, to, sender).map(Some)
        });
        PendingStream { pending, stream: Some(stream) }
    }
}
