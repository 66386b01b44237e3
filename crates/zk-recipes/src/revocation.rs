//! Revocation: a request to a holder to release its lock. Compatible with Curator's `Revoker`.
//!
//! Any client with write permission on the holder's node can send the request. The holder decides
//! whether it waits for such requests, and when it releases the lock.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use zk_recipes::{Mutex, revoke};
//! use zk_recipes::session::Client;
//!
//! let client = Client::connect("127.0.0.1:2181").await?;
//! let lock = Mutex::new(&client, "/locks/report")?;
//! if let Some(holder) = lock.participants().await?.first() {
//!     revoke(&client, &holder.path).await?;
//! }
//! # Ok(())
//! # }
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use zk_session::path::file_name;
use zk_session::{Client, ErrorKind, EventType, Zxid};

use crate::error::LockError;
use crate::recipe::LATCH;
use crate::retry::{if_exists, retry};

/// The data of a revocation request on the wire.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// Sends a revocation request to the holder or waiter with this node. Returns false if the node
/// does not exist. Each call sends a new request.
///
/// # Errors
/// Fails with [`LockError::NotRevocable`], and sends nothing, if the node is that of a candidate of
/// Curator's `LeaderLatch`. Also fails if a request fails in a way that a retry does not help, for
/// example with `NoAuth`, or if a request has no reply within the time that
/// [`Client::with_timeout`] sets. In that case the request may have been applied, and repeating it
/// does no harm.
///
/// # Cancel safety
/// The request may or may not be sent when the future is dropped.
pub async fn revoke(client: &Client, node: &str) -> Result<bool, LockError> {
    // Java's LeaderLatch watches the data of the candidate ahead once. After a change of the data it
    // would wait forever behind that candidate.
    if file_name(node).contains(LATCH) {
        return Err(LockError::NotRevocable { node: node.to_owned() });
    }
    loop {
        match if_exists(retry(client, || client.set_data(node, REVOKE, None)).await) {
            // Repeating the request does no harm.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionLost(_)) => {}
            answer => return Ok(answer?.is_some()),
        }
    }
}

/// Waits until another client requests the revocation of this node, which belongs to a guard or a
/// permit. Requests from before the call count too. See
/// [`Guard::revocation_requested`](crate::Guard::revocation_requested).
///
/// # Errors
/// Fails with [`LockError::NodeDeleted`] if the node is gone. Also fails if the session has ended, or
/// if a request fails.
///
/// # Cancel safety
/// Dropping the future loses nothing.
pub fn revocation_requested(
    client: &Client,
    node: &str,
) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
    let asked = request_after(client.clone(), node.to_owned(), Zxid::ZERO);
    async { asked.await.map(drop) }
}

/// As [`revocation_requested`], without reporting a request twice: `reported` holds the number of the
/// transaction of the last reported request.
pub(crate) fn next_revocation(
    client: &Client,
    node: &str,
    reported: &Arc<AtomicI64>,
) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
    let asked =
        request_after(client.clone(), node.to_owned(), Zxid(reported.load(Ordering::Acquire)));
    let reported = reported.clone();
    async move {
        reported.fetch_max(asked.await?.0, Ordering::AcqRel);
        Ok(())
    }
}

/// Waits for a request later than the transaction `reported`, and returns the number of its
/// transaction.
async fn request_after(client: Client, node: String, reported: Zxid) -> Result<Zxid, LockError> {
    loop {
        let set = retry(&client, || client.get_data_and_watch(&node)).await;
        let Some((seen, watch)) = if_exists(set)? else { break };
        if seen.data == REVOKE && seen.stat.mzxid > reported {
            return Ok(seen.stat.mzxid);
        }
        if watch.await?.event_type == EventType::NODE_DELETED {
            break;
        }
    }
    Err(LockError::NodeDeleted { path: node })
}
