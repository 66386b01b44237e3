//! Building blocks of recipes: the methods of a client that locks need beside ZooKeeper's operations.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use futures::future::{Either, FutureExt, select};
use proto::{CheckWatches, ErrorCode, OpCode, WatcherType, Zxid};
use zk_session_core::{Error, Failure, ServerKind, Session, WatchKind};

use super::Client;
use super::budget::Budget;
use super::pending::{Finish, Pending, Watch, decode};
use crate::clock::now;
use crate::driver::OneShot;

/// # Building blocks of recipes
///
/// The locks of `zk-recipes` are built on these methods. Applications do not need them, unless they
/// write a recipe of their own.
impl Client {
    /// Waits for a future for as long as the client is connected. Returns `None` if the connection is
    /// lost before, and at once if there is none and the future is not ready.
    ///
    /// Without a connection the call takes from tokio's cooperative budget of the task. A caller that tries
    /// again and again thus lets the driver run, which opens the next connection.
    ///
    /// # Cancel safety
    /// As cancel safe as the future, which is dropped with the call.
    pub async fn while_connected<F: Future>(&self, future: F) -> Option<F::Output> {
        let output = self.until_disconnected(future).await;
        if output.is_none() {
            self.take_from_budget().await;
        }
        output
    }

    /// Takes one unit of the task's cooperative budget. Without any, it lets other tasks run once, among
    /// them the driver.
    ///
    /// A call that may fail without waiting takes one when it does so. Otherwise a caller that tries again
    /// and again would keep the driver from running.
    pub async fn take_from_budget(&self) {
        let mut budget = Budget::default();
        poll_fn(|cx| budget.poll_take(cx)).await;
    }

    async fn until_disconnected<F: Future>(&self, future: F) -> Option<F::Output> {
        let (mut future, mut events) = (pin!(future), self.events());
        loop {
            // The future may also wait without a request, for example for the time to renew the lease.
            let event = pin!(events.next());
            let mut step = select(future.as_mut(), event);
            let step = poll_fn(|cx| match step.poll_unpin(cx) {
                Poll::Pending if !self.is_connected() => Poll::Ready(None),
                polled => polled.map(Some),
            });
            match step.await? {
                Either::Left((output, _)) => return Some(output),
                Either::Right((Some(_), _)) => {}
                // There are no events after the end of the session.
                Either::Right((None, _)) => return None,
            }
        }
    }

    /// Returns the value of this type that all handles of the session share. The first call creates it.
    ///
    /// A recipe keeps here what it knows about the nodes of the session. Use a type of your own.
    #[must_use]
    pub fn session_value<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.shared.value()
    }

    /// Returns the newest transaction that a reply of a server has shown to this session. The
    /// [`czxid`](crate::Stat::czxid) of a node that is created later is greater.
    #[must_use]
    pub fn last_zxid(&self) -> Zxid {
        self.shared.lock().last_zxid()
    }

    /// As [`delete_guaranteed`](Self::delete_guaranteed), in one transaction with a change of the
    /// node's data, which makes this delete distinguishable from others.
    ///
    /// A client with a data watch and a child watch on the node receives `NODE_DATA_CHANGED` and
    /// `NODE_DELETED` with the same [`zxid`](crate::WatchEvent::zxid), if its server is of 3.9.0 or
    /// newer. After any other delete it receives `NODE_DELETED` alone, or a change with another zxid
    /// before it.
    ///
    /// If a server rejects the transaction, the node is deleted without the change. For example,
    /// its access control list may permit no change of the data. A delete that is sent again after its
    /// reply was lost has no change either: the node of that path may be another one by now.
    ///
    /// # Errors
    /// As [`delete_guaranteed`](Self::delete_guaranteed).
    pub fn delete_marked_guaranteed(&self, path: &str) -> Pending<bool> {
        self.delete_by(path, Session::delete_marked_guaranteed)
    }

    /// Sets watches on several nodes that should exist, in one request, and returns them in the same
    /// order. They are set when the reply has arrived.
    ///
    /// A watch fires with `NODE_DELETED` if its node does not exist when the server executes the
    /// request. It fires too if the node was created or changed after the transaction `since`. These
    /// events have no [`zxid`](crate::WatchEvent::zxid), and precede the reply.
    ///
    /// The server does not check the permission to read the nodes. A watch on a node that the client
    /// may not read never fires.
    ///
    /// # Errors
    /// As all operations. The watches must not be used then.
    pub fn watch_nodes(
        &self,
        nodes: &[(&str, WatchKind)],
        since: Zxid,
    ) -> (Vec<Watch>, Pending<()>) {
        let checked = nodes.iter().map(|(path, kind)| Ok((self.checked(path)?, *kind)));
        let checked = checked.collect::<Result<Vec<_>, Failure>>();
        let (mut asked, mut watches) = (Vec::new(), Vec::new());
        for (path, kind) in checked.iter().flatten() {
            let (fire, receiver) = OneShot::channel();
            asked.push((&**path, *kind, fire));
            let (shared, chroot_len) = (self.shared.clone(), self.chroot.len());
            watches.push(Watch::new(receiver, shared, path.to_string(), chroot_len));
        }
        let first = nodes.first().map_or("/", |(path, _)| path);
        let ask = self.ask(OpCode::SetWatches, first, Finish::Plain(decode));
        let refused = checked.as_ref().err().cloned();
        let set = self.submit(ask, |session, to| match refused {
            Some(failure) => Err(failure),
            None => session.watch_nodes(now(), since, asked, to).map(Some),
        });
        (watches, set)
    }

    /// Returns true if events of watches have a [`zxid`](crate::WatchEvent::zxid), as from servers
    /// since 3.9.0.
    ///
    /// The first call sends one request, and the server's answer is kept for the session. It may be
    /// wrong for a server that the session reaches later, while an ensemble is being upgraded.
    /// Without an answer the result is false, and the next call asks again.
    ///
    /// # Cancel safety
    /// The next call repeats a request without a reply.
    pub async fn events_have_zxids(&self) -> bool {
        if self.server_kind() != ServerKind::ZooKeeper {
            return false; // a Keeper sends -1
        }
        let cell = &self.shared.event_zxids;
        match cell.get() {
            Some(known) => *known,
            // On the heap: it happens once in a session.
            None => Box::pin(cell.get_or_try_init(|| self.probe_zxids()))
                .await
                .is_ok_and(|known| *known),
        }
    }
}

/// Probe of the servers, for [`events_have_zxids`](Client::events_have_zxids).
impl Client {
    async fn probe_zxids(&self) -> Result<bool, Error> {
        match self.check_recursive_watch().await {
            Ok(()) => Ok(true),
            Err(error) => match error.code() {
                Some(ErrorCode::NO_WATCHER) => Ok(true),
                Some(ErrorCode::MARSHALLING_ERROR | ErrorCode::UNIMPLEMENTED) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Asks whether the session has a recursive watch on the root.
    ///
    /// 3.9.0 is the first release that knows this type of watch in the request (ZOOKEEPER-4471), and
    /// the first with a zxid in events (ZOOKEEPER-4655). It answers `NoWatcher`, and an older server
    /// `MarshallingError`.
    fn check_recursive_watch(&self) -> Pending<()> {
        let watcher_type = WatcherType::PersistentRecursive;
        let request = CheckWatches { path: "/".into(), watcher_type };
        self.request(self.ask(OpCode::CheckWatches, "/", Finish::Plain(decode)), Ok(request))
    }
}
