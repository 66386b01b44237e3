//! ZooKeeper session as a state machine without IO, clock or source of randomness.
//!
//! The driver passes in the time, received bytes and requests. The session returns bytes to send,
//! replies, events and the next deadline. The driver owns the socket and the clock.
//!
//! **The contract**: after every call that changes the session, drain
//! [`poll_output`](Session::poll_output) until it is empty, send the bytes from
//! [`poll_transmit`](Session::poll_transmit), and sleep no longer than
//! [`poll_timeout`](Session::poll_timeout). `now` never goes back.
//!
//! 0. A turn of the driver begins: call [`handle_turn`](Session::handle_turn). It detects that this
//!    process did not run for a while.
//! 1. [`Output::Connect`]: open a connection, then call
//!    [`handle_connected`](Session::handle_connected), or
//!    [`handle_disconnected`](Session::handle_disconnected) if it failed.
//! 2. Bytes arrive: call [`handle_received`](Session::handle_received).
//! 3. Bytes from [`poll_transmit`](Session::poll_transmit) were written: call
//!    [`handle_written`](Session::handle_written). If there are more bytes, call `poll_transmit`
//!    again.
//! 4. The connection ends: call [`handle_disconnected`](Session::handle_disconnected).
//! 5. [`Output::Probe`]: test on a separate connection whether the server accepts writes, then call
//!    [`handle_probed`](Session::handle_probed).
//! 6. [`Output::ProbeTls`]: test on a separate connection whether the server's port is for TLS
//!    only, then call [`handle_tls_probed`](Session::handle_tls_probed).
//! 7. The deadline passes: call [`handle_timeout`](Session::handle_timeout).
//!
//! ```
//! use std::time::{Duration, Instant};
//! use zk_session_core::{Handle, Handles, Host, Output, Session, Settings};
//!
//! #[derive(Clone, Debug)]
//! struct RequestId(u32);
//! impl Handle for RequestId {}
//! struct Tickets;
//! impl Handles for Tickets {
//!     type Reply = RequestId;
//!     type Watch = RequestId;
//!     type Stream = RequestId;
//! }
//!
//! let now = Instant::now();
//! let settings = Settings::new(vec![Host::new("127.0.0.1", 2181)], Duration::from_secs(10));
//! let mut session = Session::<Tickets>::new(settings, now);
//! session.handle_timeout(now); // nothing is due but the first attempt
//! assert!(matches!(session.poll_output(), Some(Output::Connect(_))));
//! session.handle_connected(now);
//! let mut bytes = bytes::BytesMut::new();
//! session.poll_transmit(&mut bytes);
//! assert_eq!(bytes.len(), 4 + 45, "the connect request");
//! assert!(session.poll_timeout().is_some());
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod limits;

mod clean_up;
mod cleanup_tasks;
mod closing;
mod connect_string;
mod credentials;
mod deadlines;
mod disconnect_reason;
mod end;
mod error;
mod event;
mod handles;
mod hosts;
mod inbound;
mod inflight;
mod invariants;
mod lease;
mod lease_assumptions;
mod link;
mod outbound;
mod pauses;
mod planted;
mod read_only;
mod requests;
mod rng;
mod session_credentials;
mod settings;
mod stats;
mod timing;
mod watches;
mod watching;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

pub use self::connect_string::{ConnectString, Host};
pub use self::deadlines::{Forgotten, RequestId};
pub use self::disconnect_reason::{DisconnectReason, PeerProtocol};
pub use self::error::{
    Error, ErrorKind, Fault, NotRunning, Outcome, RetryOn, SessionEnd, TRANSIENT_CODES,
};
pub use self::event::SessionEvent;
pub use self::handles::{
    Handle, Handles, LeaseState, Output, Reply, Waiter, WatchEvent, WatchKind, WatchStreamItem,
};
pub use self::lease_assumptions::{LeaseAssumptions, LeaseImpossible, LeaseTimes};
#[cfg(zk_planted)]
pub use self::planted::Planted;
pub use self::session_credentials::SessionCredentials;
pub use self::settings::{Settings, TIMEOUT_MAX};
pub use self::stats::{LeaseStats, Stats};

use self::cleanup_tasks::CleanupTasks;
use self::closing::Closing;
use self::credentials::Credential;
use self::deadlines::Deadlines;
use self::handles::Sent;
use self::hosts::Hosts;
use self::inflight::Inflight;
use self::lease::Lease;
use self::link::Link;
use self::outbound::{Outbound, Queue};
use self::pauses::Pauses;
#[cfg(not(zk_planted))]
use self::planted::Planted;
use self::read_only::Search;
use self::rng::Rng;
use self::stats::Counters;
use self::timing::Liveness;
use self::watches::Watches;

/// Cause of a failed request, and whether the request was applied.
pub type Failure = (ErrorKind, Outcome);

/// ZooKeeper session. See the [module documentation](self) for the contract with its driver.
#[derive(Debug)]
pub struct Session<H: Handles> {
    settings: Settings,
    rng: Rng,
    hosts: Hosts,
    link: Link,
    identity: Identity,
    liveness: Liveness,
    lease: Lease,
    outbound: Outbound,
    inflight: Inflight<Sent<H>>,
    queue: Queue<H>,
    deadlines: Deadlines,
    credentials: Vec<Credential<H::Reply>>,
    watches: Watches<H::Watch, H::Stream>,
    /// Time at which watches that no caller uses are removed from the server.
    unwatch_at: Option<Instant>,
    cleanup_tasks: CleanupTasks<H::Reply>,
    closing: Option<Closing>,
    pauses: Pauses,
    /// Length of the process pause in which the lease last ended, if it ended in one.
    lapsed_in: Option<Duration>,
    /// Time at which the connection is dropped to move to another server.
    move_at: Option<Instant>,
    last_disconnect: Option<DisconnectReason>,
    /// Search for a read-write server, set while the connection is to a read-only server.
    search: Option<Search>,
    counters: Counters,
    outputs: VecDeque<Output<H>>,
}

/// Identity of this session at the servers.
#[derive(Debug)]
struct Identity {
    /// 0 until the first handshake succeeds.
    session_id: i64,
    password: Password,
    /// The negotiated timeout, or the requested one before the first handshake.
    timeout: Duration,
    /// Highest zxid of an ordinary reply. Watches are re-registered relative to it, so a reply that
    /// overtakes a re-registration does not count.
    last_zxid: i64,
    /// Highest zxid of a reply to this session, presented in each connect request. A server that is
    /// behind it refuses the session, so the session never reads an older state.
    ///
    /// Replies of a read-only server do not count. They may contain changes that no quorum agreed
    /// to, and all other servers would refuse a session that presents their zxid.
    session_zxid: i64,
}

/// Password of a session. It must never be printed: anyone who has it can take the session over.
struct Password(Bytes);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(hidden)")
    }
}

impl<H: Handles> Session<H> {
    /// Creates a session that is not connected. Its first connection attempt is due at once.
    #[must_use]
    pub fn new(mut settings: Settings, now: Instant) -> Self {
        settings.clamp();
        let mut rng = Rng::new(settings.seed);
        let resumed = settings.resume.as_ref();
        let no_password = || Bytes::from_static(&[0; 16]);
        Self {
            hosts: Hosts::new(settings.hosts.clone(), &mut rng),
            rng,
            link: Link::Waiting { until: now },
            identity: Identity {
                session_id: resumed.map_or(0, SessionCredentials::session_id),
                password: Password(resumed.map_or_else(no_password, |it| it.shared_password())),
                timeout: settings.session_timeout,
                last_zxid: resumed.map_or(0, SessionCredentials::last_zxid),
                session_zxid: resumed.map_or(0, SessionCredentials::last_zxid),
            },
            liveness: Liveness::new(now),
            lease: Lease::new(&settings),
            outbound: Outbound::new(),
            inflight: Inflight::new(),
            queue: Queue::new(),
            deadlines: Deadlines::new(),
            credentials: Vec::new(),
            watches: Watches::new(),
            unwatch_at: None,
            cleanup_tasks: CleanupTasks::new(),
            closing: None,
            pauses: Pauses::new(now),
            lapsed_in: None,
            move_at: None,
            last_disconnect: None,
            search: None,
            counters: Counters::default(),
            outputs: VecDeque::new(),
            settings,
        }
    }

    /// Returns the next output for the driver, in the order in which outputs were produced.
    pub fn poll_output(&mut self) -> Option<Output<H>> {
        self.outputs.pop_front()
    }

    /// Moves all outputs behind those in `into`, for a driver that delivers them in bulk.
    pub fn poll_outputs(&mut self, into: &mut VecDeque<Output<H>>) {
        if into.is_empty() {
            std::mem::swap(&mut self.outputs, into);
        } else {
            into.append(&mut self.outputs);
        }
    }

    /// Returns the session's id, or 0 if there is no session yet.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.identity.session_id
    }

    /// Returns the credentials to take the session over. Returns `None` if there is no session yet,
    /// or if it is over. The credentials are a secret.
    #[must_use]
    pub fn credentials(&self) -> Option<SessionCredentials> {
        let Identity { session_id, password, session_zxid, .. } = &self.identity;
        let shortest = self.lease.shortest_timeout();
        let end = self.end_begun();
        let is_over = end.is_some_and(|end| end != SessionEnd::Detached);
        let lives = *session_id != 0 && !is_over;
        lives.then(|| {
            SessionCredentials::of(*session_id, password.0.clone(), *session_zxid)
                .with_shortest_timeout(shortest.unwrap_or_default())
        })
    }

    /// Returns true once a server has accepted a handshake.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.liveness.is_acked()
    }

    /// Returns the negotiated session timeout, or the requested one before the first handshake.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.identity.timeout
    }

    /// Returns how the session ended, if it did.
    #[must_use]
    pub fn end_reason(&self) -> Option<SessionEnd> {
        match self.link {
            Link::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Returns true while the connection is up and requests are sent.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(self.link, Link::Up)
    }

    /// Returns the servers of this session.
    pub fn servers(&self) -> Vec<Host> {
        self.hosts.all().cloned().collect()
    }

    /// Returns why the last connection or attempt failed. Returns `None` while connected, and
    /// before the first failure.
    #[must_use]
    pub fn last_disconnect(&self) -> Option<DisconnectReason> {
        self.last_disconnect
    }

    /// Generates a random id for a protected node, in Curator's format.
    pub fn random_uuid(&mut self) -> String {
        self.rng.uuid()
    }

    /// Returns a random number below `bound`, or 0 if `bound` is 0. Callers use it to stay out of
    /// step with other clients.
    pub fn random_below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    /// Returns the highest zxid that this session has received in an ordinary reply.
    #[must_use]
    pub fn last_zxid(&self) -> i64 {
        self.identity.last_zxid
    }

    /// Returns the time limit of requests whose caller sets no deadline.
    #[must_use]
    pub fn request_timeout(&self) -> Option<Duration> {
        self.settings.request_timeout
    }

    /// Claims the lease. Requests keep it renewed until [`unclaim_lease`](Self::unclaim_lease) was
    /// called as often.
    pub fn claim_lease(&mut self) {
        self.lease.claim();
    }

    /// Releases one claim.
    pub fn unclaim_lease(&mut self) {
        self.lease.unclaim();
    }

    /// Returns the term and the end of the lease, if the lease is valid at `now`. Until that end no
    /// leader can have removed the ephemeral nodes of this session. A guard is bound to the term.
    #[must_use]
    pub fn lease(&self, now: Instant) -> Option<(u64, Instant)> {
        // Once closeSession is sent, the server may delete the nodes at any moment, however late
        // its reply arrives.
        let is_over = self.end_reason().is_some() || self.closing.is_some();
        if is_over || !self.lease.is_valid(now) {
            return None;
        }
        self.lease.valid_until().map(|until| (self.lease.term(), until))
    }

    /// Returns the term to which a new guard can be bound. The lease must be valid, and renewable
    /// before it ends.
    #[must_use]
    pub fn term_to_bind(&self, now: Instant) -> Option<u64> {
        let round_trip = self.liveness.round_trip();
        self.lease(now).filter(|_| self.lease.is_renewable(round_trip)).map(|(term, _)| term)
    }

    /// Returns the earliest time from which the session timeout counts, whichever server leads, by
    /// the evidence so far.
    #[must_use]
    pub fn lease_proven_at(&self) -> Option<Instant> {
        self.lease.proven_at()
    }

    /// Returns the earliest time at which a request can renew a lease that has ended.
    #[must_use]
    pub fn lease_proof_due(&self) -> Option<Instant> {
        self.lease.next_proof()
    }

    /// Returns why the session timeout in force makes a lease impossible, if it does.
    #[must_use]
    pub fn lease_impossible(&self) -> Option<LeaseImpossible> {
        self.lease.impossible()
    }

    /// Returns the state on which the validity of a guard depends.
    #[must_use]
    pub fn lease_state(&self) -> LeaseState {
        let (closing, ended) = (self.closing_as(), self.end_reason());
        LeaseState { term: self.lease.term(), closing, ended, paused: self.lapsed_in }
    }

    /// Returns the same as [`lease_state`](Self::lease_state), and also covers a lease that ended after
    /// the driver's last turn.
    #[must_use]
    pub fn lease_state_at(&self, now: Instant) -> LeaseState {
        let is_over = self.lease.deadline().is_some_and(|until| until <= now);
        match is_over {
            true => LeaseState { paused: self.paused_since_proof(now), ..self.lease_state() },
            false => self.lease_state(),
        }
    }

    fn paused_since_proof(&self, now: Instant) -> Option<Duration> {
        self.pauses.since(self.lease.proven_at()?, now)
    }

    fn event(&mut self, event: SessionEvent) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Ends the term of the lease if the lease is over. Methods that receive the time call this
    /// first, so that no late input can prolong the lease.
    fn check_lease(&mut self, now: Instant) {
        if !self.lease.lapse_if_due(now) {
            return;
        }
        self.lapsed_in = self.paused_since_proof(now);
        if !Planted::LossNotTold.is_on() {
            let lease_state = self.lease_state();
            self.outputs.push_back(Output::LeaseState(lease_state));
        }
    }
}
