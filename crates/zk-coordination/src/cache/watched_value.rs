//! The value of one node, as a tokio `watch` channel.

use std::pin::pin;

use bytes::Bytes;
use futures::future::{Either, select};
use tokio::sync::watch;
use zk_recipes::session::SessionManager;

use super::{Cache, CacheError};
use crate::limits::VALUE_CHANGES_KEPT;

/// Follows the value of one node, for example of a setting, over any number of sessions.
///
/// The receiver has `None` while the node does not exist or may not be read. `parse` turns data into
/// a value. If it returns `None`, the receiver keeps the last value that was accepted. `parse` runs
/// first in this call, and then on the runtime that drives the sessions, and must not block. If it panics
/// there, the channel is closed.
///
/// # What it promises
/// The receiver gets the newest value, and may skip values in between. While the connection is lost,
/// it keeps the last value. It gets a value again when the node is deleted and created again, even
/// if the data is the same.
///
/// # On the wire
/// It is a [`Cache::node`]: a persistent watch on the node, which need not exist.
///
/// # What it costs
/// Two requests at the start, one for each change, one after each reconnect, beside that of the
/// session, which sets the watches again, and the [checks of a
/// cache](Cache#what-the-server-does-not-report).
///
/// # What happens on loss
/// It waits for a connection, or for the next session. If the session manager stops, the channel is
/// closed: [`watch::Receiver::changed`] returns an error. When the last receiver is dropped, the
/// watch is removed from the server.
///
/// # Errors
/// Returns the errors of [`CacheBuilder::open`](super::CacheBuilder::open).
///
/// # Cancel safety
/// Dropping the future leaves nothing behind.
///
/// # Example
/// ```no_run
/// use zk_coordination::session::{Config, SessionManager};
/// use zk_coordination::watch_value;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sessions = SessionManager::connect(Config::new("zk1:2181,zk2:2181,zk3:2181")?).await?;
/// let number = |data: &bytes::Bytes| std::str::from_utf8(data).ok()?.parse::<u32>().ok();
/// let mut workers = watch_value(&sessions, "/config/workers", number).await?;
/// loop {
///     println!("{} workers", workers.borrow_and_update().unwrap_or(1));
///     workers.changed().await?;
/// }
/// # }
/// ```
pub async fn watch_value<T, P>(
    sessions: &SessionManager,
    path: &str,
    mut parse: P,
) -> Result<watch::Receiver<Option<T>>, CacheError>
where
    T: Send + Sync + 'static,
    P: FnMut(&Bytes) -> Option<T> + Send + 'static,
{
    let cache = Cache::node(sessions, path).changes_kept(VALUE_CHANGES_KEPT).open().await?;
    let mut changes = cache.changes();
    let mut seen = changes.snapshot().and_then(|snapshot| snapshot.get(path).cloned());
    let (sender, receiver) = watch::channel(seen.as_ref().and_then(|node| parse(node.data())));
    let follow = async move {
        let path = cache.snapshot().root().to_owned();
        loop {
            match select(pin!(changes.next()), pin!(sender.closed())).await {
                Either::Left((Some(_), _)) => {}
                Either::Left((None, _)) | Either::Right(_) => return,
            }
            let node = cache.snapshot().get(&path).cloned();
            if node == seen {
                continue;
            }
            match &node {
                None => drop(sender.send_replace(None)),
                Some(node) => {
                    if let Some(value) = parse(node.data()) {
                        sender.send_replace(Some(value));
                    }
                }
            }
            seen = node;
        }
    };
    drop(sessions.client().runtime().spawn(follow));
    Ok(receiver)
}
