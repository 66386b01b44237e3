//! Back-pressure against clients that do not read their answers.
//!
//! A real server stops reading from a connection (`ServerCnxn.disableRecv`) while more than
//! `zookeeper.globalOutstandingLimit` requests are unanswered. An answer that waits in
//! `NIOServerCnxn.outgoingBuffers` no longer counts, and nothing limits that queue. 2,000 answers
//! of 1 MB from 600 nodes cost a 3.8.0 server more than 2 GiB. Answers from one node cost it
//! little, because its `ResponseCache` serializes them once. The test server counts an answer until
//! the client has read it.

use std::time::Instant;

use super::Ensemble;
use super::connection_id::ConnectionId;

impl Ensemble {
    /// Reports that the client has read `len` further bytes of
    /// [`Output::Send`](super::Output::Send). The server then processes the requests that it has
    /// held back.
    pub fn have_read(&mut self, now: Instant, id: ConnectionId, len: usize) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let was_throttled = connection.is_throttled();
        connection.unread = connection.unread.saturating_sub(len);
        // Reading must not change what an unthrottled server does, or when it does it.
        if was_throttled {
            self.advance(now);
            self.resume(id);
            self.process(id);
            self.settle();
        }
    }

    /// Returns whether a connection accepts further bytes. It does not while it holds
    /// [`RECEIVED_BYTES_MAX`](crate::limits::RECEIVED_BYTES_MAX) unparsed bytes. Returns true for a
    /// connection that does not exist.
    #[must_use]
    pub fn has_room(&self, id: ConnectionId) -> bool {
        self.connections.get(&id).is_none_or(|connection| connection.has_room())
    }

    /// Returns the number of bytes that the client of a connection has not read; 0 if there is no
    /// such connection. Transports report read bytes in steps of
    /// [`READ_REPORT_LEN`](crate::limits::READ_REPORT_LEN).
    #[must_use]
    pub fn unread_bytes(&self, id: ConnectionId) -> usize {
        self.connections.get(&id).map_or(0, |connection| connection.unread_bytes())
    }
}
