//! Settings of a session.

use std::time::Duration;

use crate::limits::{
    CLOSE_TIMEOUT, CLOSE_TIMEOUT_MIN, REARM_CHUNK_BYTES, TIMEOUT_MAX, WATCHES_MAX,
};
use crate::{Host, LeaseAssumptions, SessionCredentials};

/// Settings of a [`Session`](super::Session), fixed before it is created.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct Settings {
    /// The servers; must not be empty. The session tries them in an order drawn from the seed.
    pub hosts: Vec<Host>,
    /// Session timeout to request. The server clamps it.
    pub session_timeout: Duration,
    /// Assumptions of the lease about servers and clocks.
    pub lease_assumptions: LeaseAssumptions,
    /// Time limit of a reply whose caller sets no deadline. With `None` the caller waits until the
    /// session ends.
    pub request_timeout: Option<Duration>,
    /// Time for which a request without a limit waits for the first connection. The servers may not exist.
    pub unopened_timeout: Option<Duration>,
    /// Time after which [`Output::Refused`](super::Output::Refused) reports that all servers refuse
    /// a first connection. With `None`, it is reported only if no server is a ZooKeeper server.
    pub refused_timeout: Option<Duration>,
    /// Maximum number of watches, of all kinds together.
    pub max_watches: usize,
    /// Whether the session may connect to a server without a quorum.
    pub allow_read_only: bool,
    /// Session to resume, instead of a new one.
    pub resume: Option<SessionCredentials>,
    /// Longest frame accepted from a server, in bytes.
    pub max_frame_len: usize,
    /// Longest frame of a request, in bytes. Servers close the connection if a request exceeds their
    /// `jute.maxbuffer`.
    pub max_request_len: usize,
    /// Bytes of paths in one request that sets many watches, unless it is for a single longer path. At
    /// least one path is in each.
    pub rearm_chunk_bytes: usize,
    /// Time limit of closing the session.
    pub close_timeout: Duration,
    /// Seed of the session's random numbers.
    pub seed: u128,
}

impl Settings {
    /// Creates the default settings, with seed 0.
    pub fn new(hosts: Vec<Host>, session_timeout: Duration) -> Self {
        Self {
            hosts,
            session_timeout,
            lease_assumptions: LeaseAssumptions::new(),
            request_timeout: None,
            unopened_timeout: None,
            refused_timeout: None,
            max_watches: WATCHES_MAX,
            resume: None,
            allow_read_only: false,
            max_frame_len: proto::FRAME_LEN_MAX_CLIENT,
            max_request_len: proto::FRAME_LEN_MAX_SERVER,
            rearm_chunk_bytes: REARM_CHUNK_BYTES,
            close_timeout: CLOSE_TIMEOUT,
            seed: 0,
        }
    }

    /// Limits the durations. They are added to instants, so none may exceed the protocol's longest
    /// timeout of 24 days. Closing gets at least the time that the request to close needs.
    pub(super) fn clamp(&mut self) {
        self.session_timeout = self.session_timeout.min(TIMEOUT_MAX);
        self.close_timeout = self.close_timeout.clamp(CLOSE_TIMEOUT_MIN, TIMEOUT_MAX);
        // Half of it is for headers, and for lists of which each path has its length.
        let largest_chunk = REARM_CHUNK_BYTES.min(self.max_request_len / 2);
        self.rearm_chunk_bytes = self.rearm_chunk_bytes.min(largest_chunk);
        self.max_watches = self.max_watches.min(WATCHES_MAX);
        self.unopened_timeout = self.unopened_timeout.map(|timeout| timeout.min(TIMEOUT_MAX));
        self.request_timeout = self.request_timeout.map(|timeout| timeout.min(TIMEOUT_MAX));
    }
}
