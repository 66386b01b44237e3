//! Log of the requests that the servers receive from one session.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use proto::{OpCode, SessionId};

use super::Ensemble;
use crate::limits::REQUESTS_LOGGED_MAX;

/// Requests of one session, in the order in which the servers receive them.
///
/// [`TestServer::log_requests`](crate::TestServer::log_requests) starts the log. It ends with this value.
#[derive(Debug)]
pub struct RequestLog(Arc<Mutex<Vec<OpCode>>>);

impl RequestLog {
    /// Returns the operations since the last call, also those of requests that a fault has dropped.
    ///
    /// The requests that keep the session and its lease alive are left out: pings, `sync`s of `/`,
    /// transactions without an operation, and deletions of a node below `/zookeeper/no-such-parent`.
    /// After [`REQUESTS_LOGGED_MAX`] requests without a call, further ones are not logged.
    pub fn take(&self) -> Vec<OpCode> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The part of a [`RequestLog`] that the servers keep.
#[derive(Debug)]
pub(super) struct Logged {
    session_id: SessionId,
    ops: Weak<Mutex<Vec<OpCode>>>,
}

impl Ensemble {
    /// Logs the requests of a session from now on. See [`RequestLog`].
    #[must_use]
    pub fn log_requests(&mut self, session_id: SessionId) -> RequestLog {
        let log = RequestLog(Arc::default());
        self.logged.retain(|log| log.ops.strong_count() > 0);
        self.logged.push(Logged { session_id, ops: Arc::downgrade(&log.0) });
        log
    }

    pub(super) fn log_request(&self, session_id: SessionId, op: OpCode, body: &[u8]) {
        let logs = self.logged.iter().filter(|log| log.session_id == session_id);
        for ops in logs.filter_map(|log| log.ops.upgrade()) {
            let mut ops = ops.lock().unwrap_or_else(PoisonError::into_inner);
            if !keeps_alive(op, body) && ops.len() < REQUESTS_LOGGED_MAX {
                ops.push(op);
            }
        }
    }
}

/// Returns true for the requests with which a client keeps its session and its lease alive.
fn keeps_alive(op: OpCode, body: &[u8]) -> bool {
    match op {
        OpCode::Ping => true,
        // The path follows its length.
        OpCode::Sync => body.get(4..) == Some(b"/"),
        // Only the header that ends the operations.
        OpCode::Multi => body.len() == 9,
        OpCode::Delete => {
            body.get(4..).is_some_and(|path| path.starts_with(b"/zookeeper/no-such-parent/"))
        }
        _ => false,
    }
}
