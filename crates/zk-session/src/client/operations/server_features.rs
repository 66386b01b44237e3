//! What the servers of a session support.

use proto::{CheckWatches, ErrorCode, WatcherType};

use zk_session_core::{Error, Operation};

use crate::client::Client;
use crate::client::pending::{Finish, Pending, decode};

/// # Features of the servers
impl Client {
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
        let cell = &self.shared.event_zxids;
        match cell.get() {
            Some(known) => *known,
            // On the heap: it happens once in a session.
            None => Box::pin(cell.get_or_try_init(|| self.probe_zxids())).await.is_ok_and(|it| *it),
        }
    }

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
        self.request(
            self.ask(Operation::Other("checkWatches on"), "/", Finish::Plain(decode)),
            Ok(request),
        )
    }
}
