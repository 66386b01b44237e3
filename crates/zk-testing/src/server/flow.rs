//! Back-pressure against clients that do not read their answers.
//!
//! A real server stops reading from a connection (`ServerCnxn.disableRecv`) while more than
//! `zookeeper.globalOutstandingLimit` requests have no answer. An answer that waits in
//! `NIOServerCnxn.outgoingBuffers` no longer counts, and nothing bounds that queue: 2,000 answers of
//! 1 MB from 600 nodes cost a 3.8.0 more than 2 GiB. Answers from one node cost it little, as its
//! `ResponseCache` serializes them once. Here, answers count until the client has read them.

use std::time::Instant;

use super::Ensemble;
use super::connection::ConnectionId;

impl Ensemble {
    /// The client has read `len` further bytes of what [`Output::Send`](super::Output::Send) handed
    /// out. The server goes on with requests that it did not take before.
    pub fn have_read(&mut self, now: Instant, id: ConnectionId, len: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let was_throttled = connection.is_throttled();
        connection.unread = connection.unread.saturating_sub(len);
        // A client that reads must not change what the server does, nor when.
        if was_throttled {
            self.advance(now);
            self.resume(id);
            self.process(id);
            self.settle();
        }
    }

    /// Whether a connection takes further bytes, or already holds
    /// [`RECEIVED_BYTES_MAX`](crate::limits::RECEIVED_BYTES_MAX) that no request was made of. True
    /// for a connection that does not exist.
    #[must_use]
    pub fn has_room(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_none_or(|connection| connection.has_room())
    }

    /// Bytes for the client of a connection that it has not read; 0 if there is no such connection.
    /// Transports report what was read in steps of
    /// [`READ_REPORT_LEN`](crate::limits::READ_REPORT_LEN).
    #[must_use]
    pub fn unread_bytes(&self, id: ConnectionId) -> usize {
        self.connections.get(&id).map_or(0, |connection| connection.unread_bytes())
    }
}
