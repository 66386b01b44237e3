//! Session: it owns the parts, and routes between them.
//!
//! * [`connecting`]: connections and handshakes.
//! * [`authenticating`], [`features`]: what precedes everything else on a connection: the SASL exchange, and
//!   the features of a Keeper.
//! * [`sending`]: requests, and the order of requests on a new connection.
//! * [`receiving`]: bytes, replies and notifications.
//! * [`stand_in`]: replies to what stands in for another request.
//! * [`timers`]: the table of deadlines.
//! * [`watching`], [`clean_up`], [`lease`]: calls that concern these parts.
//! * [`ending`]: closing, detaching, and the end.
//! * [`invariants`]: a check of the state, for tests.
//!
//! A part never calls the session. It sends through [`Requests`], which is passed in. It returns
//! what it has to report, or puts it into [`Outputs`].

mod authenticating;
mod clean_up;
mod connecting;
mod ending;
mod features;
mod invariants;
mod lease;
mod receiving;
mod sending;
mod stand_in;
mod timers;
mod watching;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use proto::{SessionId, Zxid, xid};

pub use self::clean_up::LeftBehind;
use self::ending::Closing;
use crate::clean_up::{CleanUp, CleanUpTask};
use crate::connection::{Connection, Identity};
use crate::credentials::Credentials;
use crate::lease::Lease;
use crate::output::Outputs;
use crate::pauses::Pauses;
use crate::requests::Requests;
use crate::rng::Rng;
use crate::sasl::SaslExchange;
use crate::vocabulary::Vocabulary;
use crate::watches::Watches;
use crate::{
    DisconnectReason, Handles, Host, LeaseStats, Output, SessionCredentials, SessionEnd, Settings,
    Stats,
};

/// ZooKeeper session. See the [crate documentation](crate) for the contract with its driver.
#[derive(Debug)]
pub struct Session<H: Handles> {
    settings: Settings,
    rng: Rng,
    identity: Identity,
    connection: Connection,
    requests: Requests<H>,
    sasl: SaslExchange,
    vocabulary: Vocabulary,
    credentials: Credentials<H>,
    watches: Watches<H::Watch, H::Stream>,
    clean_up: CleanUp<H>,
    lease: Lease,
    pauses: Pauses,
    closing: Option<Closing>,
    /// Nodes that were to be deleted when the session ended, or since.
    left_behind: Vec<CleanUpTask>,
    /// Statistics that are updated when something happens. The others stay at their defaults.
    counters: Stats,
    outputs: Outputs<H>,
}

impl<H: Handles> Session<H> {
    /// Creates a session that is not connected. Its first connection attempt is due at once.
    #[must_use]
    pub fn new(mut settings: Settings, now: Instant) -> Self {
        settings.clamp();
        let mut rng = Rng::new(settings.seed);
        let first_xid = first_xid(&settings, &mut rng);
        Self {
            identity: Identity::new(&settings),
            connection: Connection::new(std::mem::take(&mut settings.hosts), now, &mut rng),
            rng,
            requests: Requests::new(settings.request_timeout.take(), first_xid, now),
            sasl: SaslExchange::default(),
            vocabulary: Vocabulary::default(),
            credentials: Credentials::new(),
            watches: Watches::new(settings.rearm_chunk_bytes),
            clean_up: CleanUp::new(),
            lease: Lease::new(&settings),
            pauses: Pauses::new(now),
            closing: None,
            left_behind: Vec::new(),
            counters: Stats::default(),
            outputs: Outputs::new(),
            settings,
        }
    }

    /// Returns the next output for the driver, in the order in which outputs were produced.
    #[must_use = "the driver must execute every output"]
    pub fn poll_output(&mut self) -> Option<Output<H>> {
        self.outputs.pop()
    }

    /// Moves all outputs behind those in `into`, for a driver that delivers them in bulk.
    pub fn poll_outputs(&mut self, into: &mut VecDeque<Output<H>>) {
        self.outputs.take(into);
    }

    /// Returns the session's id, or [`SessionId::NONE`] if there is no session yet.
    #[must_use]
    pub fn session_id(&self) -> SessionId {
        self.identity.session_id()
    }

    /// Returns the credentials to take the session over. Returns `None` if there is no session yet,
    /// or if it is over. The credentials are a secret.
    #[must_use]
    pub fn credentials(&self) -> Option<SessionCredentials> {
        if self.end_begun().is_some_and(|end| end != SessionEnd::Detached) {
            return None;
        }
        Some(self.identity.credentials()?.with_granted(self.lease.granted()))
    }

    /// Returns true once a server has accepted a handshake.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.requests.liveness().is_acked()
    }

    /// Returns the negotiated session timeout, or the requested one before the first handshake.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.identity.timeout()
    }

    /// Returns how the session ended, if it did.
    #[must_use]
    pub fn end_reason(&self) -> Option<SessionEnd> {
        self.connection.ended()
    }

    /// Returns true while the connection is up and requests are sent.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.connection.is_up()
    }

    /// Returns true if the server has something to answer.
    #[must_use]
    pub fn awaits_reply(&self) -> bool {
        self.requests.liveness().has_unanswered()
    }

    /// Returns true while the connection is to a read-only server.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.connection.is_read_only()
    }

    /// Returns the servers of this session.
    pub fn servers(&self) -> Vec<Host> {
        self.connection.hosts()
    }

    /// Returns why the last connection or attempt failed. Returns `None` while connected, and
    /// before the first failure.
    #[must_use]
    pub fn last_disconnect(&self) -> Option<DisconnectReason> {
        self.connection.last_disconnect()
    }

    /// Returns why no server has given a first session. It is the last cause, unless that of another
    /// server tells more: a rejected certificate tells more than a server that is down.
    #[must_use]
    pub fn connect_failure(&self) -> Option<DisconnectReason> {
        self.connection.connect_failure()
    }

    /// Generates a random id for a protected node, in Curator's format.
    pub fn random_uuid(&mut self) -> String {
        self.rng.uuid()
    }

    /// Generates a random id of 64 bits, as 16 hexadecimal digits.
    pub fn random_short_id(&mut self) -> String {
        self.rng.short_id()
    }

    /// Returns a random number below `bound`, or 0 if `bound` is 0. Callers use it to stay out of
    /// step with other clients.
    pub fn random_below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    /// Returns the highest zxid that this session has received in a reply. Those of a read-only server do not
    /// count.
    #[must_use]
    pub fn last_zxid(&self) -> Zxid {
        self.identity.session_zxid()
    }

    /// Returns the length of the longest frame of a request.
    #[must_use]
    pub fn max_request_len(&self) -> usize {
        self.settings.max_request_len
    }

    /// Returns the time limit of requests whose caller sets no deadline.
    #[must_use]
    pub fn request_timeout(&self) -> Option<Duration> {
        self.requests.timeout()
    }
}

/// Statistics.
impl<H: Handles> Session<H> {
    /// Returns the number of established connections that were lost.
    #[must_use]
    pub fn connections_lost(&self) -> u64 {
        self.connection.lost_count()
    }

    /// Returns a snapshot of the session's statistics at `now`.
    #[must_use]
    pub fn stats(&self, now: Instant) -> Stats {
        let [one_shot_watches, recursive_watches, persistent_watches] = self.watches.counts();
        let mut stats = Stats {
            session_id: self.identity.session_id(),
            connected_to: self.connection.host().cloned(),
            clean_up_pending: self.clean_up.pending(),
            connections_lost: self.connection.lost_count(),
            one_shot_watches,
            recursive_watches,
            persistent_watches,
            lease_left: self
                .lease_promised_until(now)
                .map(|until| until.saturating_duration_since(now)),
            lease: self.lease_stats(now),
            ..self.counters.clone()
        };
        self.requests.describe(&mut stats);
        stats
    }

    fn lease_stats(&self, now: Instant) -> LeaseStats {
        let age = |at: Option<Instant>| at.map(|at| now.saturating_duration_since(at));
        LeaseStats {
            proven: age(self.lease.proven_at()),
            leader_answered: age(self.lease.answered_leader()),
            quorum_answered: age(self.lease.answered_quorum()),
            oldest_unanswered: age(self.requests.oldest().map(|sent| sent.at)),
        }
    }
}

/// Returns the number of the session's first request.
///
/// A server takes the next commit of the same session and number for the answer to its own client's write,
/// whichever server the committed write came from (`CommitProcessor.run`). Another client of a resumed
/// session may have writes under way, so that the two must not count alike.
fn first_xid(settings: &Settings, rng: &mut Rng) -> i32 {
    let is_shared = settings.resume.is_some();
    let skipped = if is_shared { rng.below(1 << 30) } else { 0 };
    xid::FIRST + i32::try_from(skipped).unwrap_or_default()
}
