//! What a session is made with.

use std::time::Duration;

use crate::limits::{CLOSE_TIMEOUT, CLOSE_TIMEOUT_MIN, WATCHES_MAX};
use crate::{Host, LeaseAssumptions, SessionCredentials};

/// The longest session timeout that the protocol has room for, 24 days.
pub const TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX.unsigned_abs() as u64);

/// The settings of a [`Session`](super::Session), all decided before it exists.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The servers; must not be empty. Tried in an order drawn from the seed.
    pub hosts: Vec<Host>,
    /// The session timeout to ask for; the server clamps it.
    pub session_timeout: Duration,
    /// What the lease assumes about servers and clocks.
    pub lease_assumptions: LeaseAssumptions,
    /// How long a caller waits for an answer who does not say so; for ever, that is
    /// until the session ends, if `None`.
    pub request_timeout: Option<Duration>,
    /// How long a first connection is tried for while all servers refuse it; without bound if
    /// `None`.
    pub refused_timeout: Option<Duration>,
    /// The most watches, of all kinds together.
    pub watches_max: usize,
    /// Whether a server without a quorum is better than none.
    pub allow_read_only: bool,
    /// The session to take over, if not a new one.
    pub resume: Option<SessionCredentials>,
    /// The longest frame accepted from a server, in bytes.
    pub frame_len_max: usize,
    /// How long closing may take.
    pub close_timeout: Duration,
    /// Where the session's random numbers come from.
    pub seed: u128,
}

impl Settings {
    /// The defaults, and seed 0.
    #[must_use]
    pub fn new(hosts: Vec<Host>, session_timeout: Duration) -> Self {
        Self {
            hosts,
            session_timeout,
            lease_assumptions: LeaseAssumptions::new(),
            request_timeout: None,
            refused_timeout: None,
            watches_max: WATCHES_MAX,
            resume: None,
            allow_read_only: false,
            frame_len_max: proto::FRAME_LEN_MAX_CLIENT,
            close_timeout: CLOSE_TIMEOUT,
            seed: 0,
        }
    }

    /// Durations are added to instants: none may be longer than the protocol's
    /// longest timeout, which is 24 days. Closing takes as long as it takes to say so.
    pub(super) fn clamp(&mut self) {
        self.session_timeout = self.session_timeout.min(TIMEOUT_MAX);
        self.close_timeout = self.close_timeout.clamp(CLOSE_TIMEOUT_MIN, TIMEOUT_MAX);
        self.watches_max = self.watches_max.min(WATCHES_MAX);
        self.request_timeout = self.request_timeout.map(|timeout| timeout.min(TIMEOUT_MAX));
    }
}
