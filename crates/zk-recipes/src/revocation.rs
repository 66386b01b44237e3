//! Asking a holder to give a lock up: Curator's `Revoker`, on the same bytes.
//!
//! Whoever may write to the holder's node may ask; it is up to the holder whether it
//! listens, and when it lets go.
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

use zk_session::{Client, ErrorCode, ErrorKind, EventType};

use crate::error::LockError;
use crate::planted::Planted;
use crate::queue::attempts::Attempts;

/// What a request to let go looks like on the wire.
pub(crate) const REVOKE: &[u8] = b"__REVOKE__";

/// Asks the holder, or the waiter, whose node this is to give up; false if there is no
/// such node any more. Asked again, it is told again.
///
/// # Errors
/// A request fails in a way that trying again does not help, for example `NoAuth`; or it had
/// no answer in the time that [`Client::within`] gives each: the holder may have been asked, and
/// asking once more does no harm.
///
/// # Cancel safety
/// The holder may or may not have been asked when the future is dropped.
pub async fn revoke(client: &Client, node: &str) -> Result<bool, LockError> {
    let mut attempts = Attempts::default();
    loop {
        match client.set_data(node, REVOKE, None).await {
            Ok(_) => return Ok(true),
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => return Ok(false),
            // To ask twice is to ask.
            Err(error) if matches!(error.kind(), ErrorKind::ConnectionLost(_)) => {}
            Err(error) => attempts.again(client, error).await?,
        }
    }
}

/// Waits until somebody asks for this node, of a guard or of a permit, to be given up;
/// also if that was before the call. See [`Guard::revocation`](crate::Guard::revocation).
///
/// # Errors
/// [`LockError::Vanished`] when the node has gone; the session has; a request fails.
///
/// # Cancel safety
/// Nothing is lost when the future is dropped.
pub fn revocation(
    client: &Client,
    node: &str,
) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
    let asked = asked(client.clone(), node.to_owned(), 0);
    async { asked.await.map(drop) }
}

/// As [`revocation`], but what was `heard` before is not told again: it holds the number of the
/// transaction that asked last.
pub(crate) fn asked_again(
    client: &Client,
    node: &str,
    heard: &Arc<AtomicI64>,
) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
    let asked = asked(client.clone(), node.to_owned(), heard.load(Ordering::Acquire));
    let heard = heard.clone();
    async move {
        heard.fetch_max(asked.await?, Ordering::AcqRel);
        Ok(())
    }
}

/// Waits for a request later than the transaction with that number; which one it was.
async fn asked(client: Client, node: String, heard: i64) -> Result<i64, LockError> {
    let mut looks = !Planted::MarkBeforeWatchUnseen.is_on();
    let mut attempts = Attempts::default();
    loop {
        match client.get_data_and_watch(&node).await {
            Ok((seen, _))
                if looks && seen.data.as_deref() == Some(REVOKE) && seen.stat.mzxid > heard =>
            {
                return Ok(seen.stat.mzxid);
            }
            Ok((_, watch)) => {
                (looks, attempts) = (true, Attempts::default());
                if watch.await?.event_type == EventType::NODE_DELETED {
                    return Err(LockError::Vanished { path: node });
                }
            }
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {
                return Err(LockError::Vanished { path: node });
            }
            Err(error) => attempts.again(&client, error).await?,
        }
    }
}
