//! The session as a state machine: no IO, no clock, no randomness of its own.
//!
//! Time, bytes and commands go in; bytes, answers, events and the next deadline
//! come out. Whoever drives it owns the socket and the clock.
//!
//! **The contract**: after every call that changes the session, drain
//! [`poll_output`](Session::poll_output) until it is empty, send what
//! [`poll_transmit`](Session::poll_transmit) gives, and sleep no longer than
//! [`poll_timeout`](Session::poll_timeout). `now` never goes back.
//!
//! 0. A turn of the driver begins: [`handle_turn`](Session::handle_turn), which notices if this
//!    process did not run for a while.
//! 1. [`Output::Connect`]: open a connection, then call
//!    [`handle_connected`](Session::handle_connected), or
//!    [`handle_disconnected`](Session::handle_disconnected) if it failed.
//! 2. Bytes arrive: [`handle_received`](Session::handle_received).
//! 3. Bytes of [`poll_transmit`](Session::poll_transmit) were written:
//!    [`handle_written`](Session::handle_written), and ask for more if there are.
//! 4. The connection ends: [`handle_disconnected`](Session::handle_disconnected).
//! 5. [`Output::Probe`]: find out, on a connection of its own, whether the server takes
//!    writes, then call [`handle_probed`](Session::handle_probed).
//! 6. [`Output::ProbeTls`]: find out likewise whether its port is for TLS only, then call
//!    [`handle_tls_probed`](Session::handle_tls_probed).
//! 7. The deadline passes: [`handle_timeout`](Session::handle_timeout).
//!
//! ```
//! use std::time::{Duration, Instant};
//! use zk_session_core::{Handle, Handles, Host, Output, Session, Settings};
//!
//! #[derive(Clone, Debug)]
//! struct Ticket(u32);
//! impl Handle for Ticket {}
//! struct Tickets;
//! impl Handles for Tickets {
//!     type Reply = Ticket;
//!     type Watch = Ticket;
//!     type Stream = Ticket;
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

mod chores;
mod clean_up;
mod closing;
mod connect_string;
mod credentials;
mod deadlines;
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
mod loss_cause;
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
pub use self::deadlines::{Forgotten, Ticket};
pub use self::error::{
    Error, ErrorKind, Fault, NotRunning, Outcome, PASSING_CODES, RetryOn, SessionEnd,
};
pub use self::event::SessionEvent;
pub use self::handles::{
    Handle, Handles, Notice, Output, Reply, Standing, Waiter, WatchKind, WatchedEvent,
};
pub use self::lease_assumptions::{LeaseAssumptions, LeaseImpossible, LeaseTimes};
pub use self::loss_cause::{LossCause, PeerProtocol};
#[cfg(zk_planted)]
pub use self::planted::Planted;
pub use self::session_credentials::SessionCredentials;
pub use self::settings::{Settings, TIMEOUT_MAX};
pub use self::stats::{LeaseStats, Stats};

use self::chores::Chores;
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
use self::timing::Pulse;
use self::watches::Watches;

/// Why a request failed, and whether it was applied.
pub type Failure = (ErrorKind, Outcome);

/// One ZooKeeper session. See the [module documentation](self) for the contract.
#[derive(Debug)]
pub struct Session<H: Handles> {
    settings: Settings,
    rng: Rng,
    hosts: Hosts,
    link: Link,
    identity: Identity,
    pulse: Pulse,
    lease: Lease,
    outbound: Outbound,
    inflight: Inflight<Sent<H>>,
    queue: Queue<H>,
    deadlines: Deadlines,
    credentials: Vec<Credential<H::Reply>>,
    watches: Watches<H::Watch, H::Stream>,
    /// When the server is to forget what nobody wants watched.
    unwatch_at: Option<Instant>,
    chores: Chores<H::Reply>,
    closing: Option<Closing>,
    pauses: Pauses,
    /// The pause in which the lease last ended, if it was in one.
    lapsed_in: Option<Duration>,
    /// The connection is to be given up for another server.
    move_at: Option<Instant>,
    last_loss: Option<LossCause>,
    /// Set while the connection is to a read-only server.
    search: Option<Search>,
    counters: Counters,
    outputs: VecDeque<Output<H>>,
}

/// What the server knows this session by.
#[derive(Debug)]
struct Identity {
    /// 0 until the first handshake succeeded.
    session_id: i64,
    password: Password,
    /// As negotiated; as requested before that.
    timeout: Duration,
    /// The highest zxid of an ordinary reply. A server that is behind it is
    /// refused, by the server itself, so this session never goes back in time.
    last_zxid: i64,
    /// The same, of replies to this very session. A server without a quorum, which gives
    /// none, may have told of what nobody has agreed to: presented as seen, that would keep a
    /// later session from all other servers.
    session_zxid: i64,
}

/// A session's password, which must never be printed: with it anyone can take
/// the session over.
struct Password(Bytes);

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(hidden)")
    }
}

impl<H: Handles> Session<H> {
    /// A session that is not connected yet; its first attempt is due at once.
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
            pulse: Pulse::new(now),
            lease: Lease::new(&settings),
            outbound: Outbound::new(),
            inflight: Inflight::new(),
            queue: Queue::new(),
            deadlines: Deadlines::new(),
            credentials: Vec::new(),
            watches: Watches::new(),
            unwatch_at: None,
            chores: Chores::new(),
            closing: None,
            pauses: Pauses::new(now),
            lapsed_in: None,
            move_at: None,
            last_loss: None,
            search: None,
            counters: Counters::default(),
            outputs: VecDeque::new(),
            settings,
        }
    }

    /// The next thing the driver has to do, in the order in which it happened.
    pub fn poll_output(&mut self) -> Option<Output<H>> {
        self.outputs.pop_front()
    }

    /// Moves all outputs behind those in `into`, for a driver that delivers them
    /// in bulk.
    pub fn poll_outputs(&mut self, into: &mut VecDeque<Output<H>>) {
        if into.is_empty() {
            std::mem::swap(&mut self.outputs, into);
        } else {
            into.append(&mut self.outputs);
        }
    }

    /// The session's id, 0 before the first handshake succeeded.
    #[must_use]
    pub fn session_id(&self) -> i64 {
        self.identity.session_id
    }

    /// What the session can be taken over with; `None` if there is none, or none any
    /// more. A secret.
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

    /// True once a server has answered a handshake.
    #[must_use]
    pub fn is_established(&self) -> bool {
        self.pulse.is_acked()
    }

    /// The session timeout: the one negotiated, or the one that will be asked for.
    #[must_use]
    pub fn session_timeout(&self) -> Duration {
        self.identity.timeout
    }

    /// How the session ended, if it did.
    #[must_use]
    pub fn ended(&self) -> Option<SessionEnd> {
        match self.link {
            Link::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// True while requests flow.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(self.link, Link::Up)
    }

    /// The servers of this session.
    pub fn servers(&self) -> Vec<Host> {
        self.hosts.all().cloned().collect()
    }

    /// Why there is no connection, when there is none and there was a reason.
    #[must_use]
    pub fn last_loss(&self) -> Option<LossCause> {
        self.last_loss
    }

    /// Draws an id for a protected node, as Curator forms them.
    pub fn draw_uuid(&mut self) -> String {
        self.rng.uuid()
    }

    /// Draws a number below `bound`, or 0 if that is 0, for whoever has to be out of step
    /// with others.
    pub fn draw_below(&mut self, bound: u64) -> u64 {
        self.rng.below(bound)
    }

    /// The highest transaction number that this session has been told.
    #[must_use]
    pub fn last_zxid(&self) -> i64 {
        self.identity.last_zxid
    }

    /// How long callers wait who do not say so.
    #[must_use]
    pub fn request_timeout(&self) -> Option<Duration> {
        self.settings.request_timeout
    }

    /// Something depends on the lease from now on: requests keep it renewed
    /// until [`unclaim_lease`](Self::unclaim_lease) was called as often.
    pub fn claim_lease(&mut self) {
        self.lease.claim();
    }

    /// Gives back one claim.
    pub fn unclaim_lease(&mut self) {
        self.lease.unclaim();
    }

    /// Until when no leader can have removed the ephemeral nodes of this session,
    /// if that is after `now`; with the term a belief is to be bound to.
    #[must_use]
    pub fn lease(&self, now: Instant) -> Option<(u64, Instant)> {
        // Once closeSession is on its way the nodes may be gone at any moment, however
        // late its answer comes.
        let is_over = self.ended().is_some() || self.closing.is_some();
        if is_over || !self.lease.is_valid(now) {
            return None;
        }
        self.lease.valid_until().map(|until| (self.lease.term(), until))
    }

    /// The term that a new belief may be bound to: that of a lease which is valid, and can be renewed
    /// before it ends.
    #[must_use]
    pub fn term_to_bind(&self, now: Instant) -> Option<u64> {
        let round_trip = self.pulse.round_trip();
        self.lease(now).filter(|_| self.lease.is_renewable(round_trip)).map(|(term, _)| term)
    }

    /// The time from which the session timeout counts at the earliest, at whatever server leads,
    /// by what has been proven so far.
    #[must_use]
    pub fn lease_proven_at(&self) -> Option<Instant> {
        self.lease.proven_at()
    }

    /// When the next request can renew a lease that has run out.
    #[must_use]
    pub fn lease_proof_due(&self) -> Option<Instant> {
        self.lease.next_proof()
    }

    /// Why there can be no lease with the session timeout in force, if there can be none.
    #[must_use]
    pub fn lease_impossible(&self) -> Option<LeaseImpossible> {
        self.lease.impossible()
    }

    /// What a guard's validity hangs on.
    #[must_use]
    pub fn standing(&self) -> Standing {
        let (closing, ended) = (self.closing_as(), self.ended());
        Standing { term: self.lease.term(), closing, ended, paused: self.lapsed_in }
    }

    /// As [`standing`](Self::standing), also for a lease that has ended since the driver had its
    /// last turn.
    #[must_use]
    pub fn standing_at(&self, now: Instant) -> Standing {
        let is_over = self.lease.deadline().is_some_and(|until| until <= now);
        match is_over {
            true => Standing { paused: self.paused_since_proof(now), ..self.standing() },
            false => self.standing(),
        }
    }

    fn paused_since_proof(&self, now: Instant) -> Option<Duration> {
        self.pauses.since(self.lease.proven_at()?, now)
    }

    fn event(&mut self, event: SessionEvent) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Ends the term of the lease if its time is over. Called first by whatever
    /// is told the time, so that nothing that comes late can prolong it.
    fn check_lease(&mut self, now: Instant) {
        if !self.lease.lapse_if_due(now) {
            return;
        }
        self.lapsed_in = self.paused_since_proof(now);
        if !Planted::LossNotTold.is_on() {
            let standing = self.standing();
            self.outputs.push_back(Output::Standing(standing));
        }
    }
}
