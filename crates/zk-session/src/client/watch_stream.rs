//! Persistent watches: streams of events.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::Stream;
use proto::{AddWatchMode, AddWatchReply};

use super::Client;
use super::pending::{Ask, Pending, WatchedEvent, decode_read, strip};
use crate::driver::{News, NoticeReceiver, Shared, notices, now};
use zk_session_core::{Error, ErrorKind};

/// What a [`WatchStream`] tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchNews {
    /// Something happened to a node.
    Changed(WatchedEvent),
    /// The connection was lost and is there again; what happened meanwhile is not
    /// told, because a server keeps no events for who is away (ZOOKEEPER-4698).
    /// Read again whatever matters: what is read after this, together with the
    /// events after this, leaves nothing out. Where the server that one is connected to
    /// now is behind the one before, events that came before this may come again.
    Gap,
    /// The stream was not read for so long that events were dropped. Read again, as
    /// after a gap.
    Overflow {
        /// How many events were dropped.
        lost: u64,
    },
}

/// A persistent watch: the events of a node, or of a node and all below it, until
/// it is dropped or the session ends. Made by [`Client::watch`] and
/// [`Client::watch_recursive`].
///
/// It also implements [`futures::Stream`]. For an owner that does not read, up to
/// [`STREAM_EVENTS_KEPT`](crate::limits::STREAM_EVENTS_KEPT) events are kept; when
/// there are more, all of them give way to one [`WatchNews::Overflow`].
///
/// # Ordering
/// Events come in the order in which the changes were made, and before the answers
/// to requests of this client that could see their effect.
///
/// Where a node has a recursive watch of this session besides this one,
/// `NodeChildrenChanged` may come twice for one change.
///
/// # Errors
/// The last thing a stream tells is the end of the session, once.
///
/// ```no_run
/// # async fn example() -> Result<(), zk_session::Error> {
/// use zk_session::{Client, WatchNews};
///
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let mut config = client.watch("/config").await?;
/// loop {
///     println!("{:?}", client.get_data("/config").await?.data);
///     match config.next().await {
///         Some(Ok(WatchNews::Changed(event))) => println!("{:?}", event.event_type),
///         Some(Ok(_)) => println!("something may have been missed"),
///         Some(Err(error)) => return Err(error),
///         None => return Ok(()),
///     }
/// }
/// # }
/// ```
///
/// It does not keep the session: when the last [`Client`] is gone it ends with
/// [`SessionEnd::Closed`](crate::SessionEnd::Closed).
#[must_use = "a watch that is dropped is forgotten"]
pub struct WatchStream {
    receiver: NoticeReceiver,
    shared: Arc<Shared>,
    /// The path as the server knows it.
    path: String,
    chroot_len: usize,
}

impl WatchStream {
    /// The next news; `None` once the end of the session was told.
    ///
    /// # Errors
    /// [`ErrorKind::SessionEnded`], once.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<Result<WatchNews, Error>> {
        std::future::poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Option<Result<WatchNews, Error>>> {
        let news = ready!(self.receiver.poll(cx));
        Poll::Ready(news.map(|news| match news {
            News::Event(event) => Ok(WatchNews::Changed(WatchedEvent {
                event_type: event.event_type,
                path: strip(event.path, self.chroot_len),
            })),
            News::Gap => Ok(WatchNews::Gap),
            News::Lost(lost) => Ok(WatchNews::Overflow { lost }),
            News::End(end) => {
                let path = strip(self.path.clone(), self.chroot_len);
                Err(Error::not_applied(ErrorKind::SessionEnded(end)).on("watch", path))
            }
        }))
    }
}

impl Stream for WatchStream {
    type Item = Result<WatchNews, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(cx)
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

/// A [`WatchStream`] that the server is being asked for. The request was made when
/// the method was called.
///
/// # Cancel safety
/// Dropping it forgets the watch; the server is made to forget it, too.
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
/// Servers have them since 3.6.0; an older one declines with `Unimplemented` and
/// closes the connection, but not the session. They survive reconnects, with a
/// [gap](WatchNews::Gap). Dropping one makes the server forget it, unless another
/// watch of this session needs it.
impl Client {
    /// Watches a node that need not exist: its creation, changes, deletion, and
    /// the coming and going of its children.
    ///
    /// # Errors
    /// The server declines with `Unimplemented` when it is older than 3.6.0, and with
    /// `MarshallingError` when it was set up without persistent watches.
    pub fn watch(&self, path: &str) -> PendingStream {
        self.watch_with_mode("watch", path, AddWatchMode::Persistent)
    }

    /// Watches a node that need not exist, and all below it: each creation, change
    /// and deletion. There is no `NodeChildrenChanged`: the children tell themselves.
    ///
    /// # Errors
    /// As [`watch`](Self::watch).
    pub fn watch_recursive(&self, path: &str) -> PendingStream {
        self.watch_with_mode("watchRecursive", path, AddWatchMode::PersistentRecursive)
    }

    fn watch_with_mode(
        &self,
        operation: &'static str,
        path: &str,
        mode: AddWatchMode,
    ) -> PendingStream {
        let full = self.full(path);
        let ask: Ask<()> =
            self.ask(operation, path, |result, _| decode_read::<AddWatchReply>(result).map(|_| ()));
        let (sender, receiver) = notices();
        let (shared, chroot_len) = (self.shared().clone(), ask.chroot_len);
        let stream = WatchStream { receiver, shared, path: full.to_string(), chroot_len };
        let pending = match super::operations::check(path) {
            Ok(()) => self.submit(ask, |session, to| {
                session.add_watch(now(), &full, mode, to, sender).map(Some)
            }),
            Err(failure) => Pending::new(ask, Err(failure)),
        };
        PendingStream { pending, stream: Some(stream) }
    }
}
