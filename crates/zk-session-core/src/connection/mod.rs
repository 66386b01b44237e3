//! Connection to a server: the attempts, and the order in which servers are tried.
//!
//! * [`hosts`]: the servers, and the back-off between attempts.
//! * [`identity`]: id, password and zxid of the session, which it presents in each handshake, and the
//!   timeouts granted.
//! * [`pace`]: the pauses between attempts, and the time of each.
//! * [`search`]: the search for a read-write server.

mod hosts;
mod identity;
mod pace;
mod search;

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

pub(crate) use self::identity::{Granted, GrantedTimeouts, Identity};
pub(crate) use self::pace::Pace;

use self::hosts::{Hosts, Reached};
use self::search::Search;
use crate::limits::BACKOFF_MAX;
use crate::rng::Rng;
use crate::{DisconnectReason, Host, IoFailure, PeerProtocol, ProbeAnswer, SessionEnd};

/// Connection to a server, or the attempts at one. See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Connection {
    state: State,
    hosts: Hosts,
    last_disconnect: Option<DisconnectReason>,
    /// Why the list of servers could not be renewed, since it was last set or a server was found.
    list_failure: Option<IoFailure>,
    /// Set while the connection is to a read-only server.
    search: Option<Search>,
    /// Number of established connections that were lost.
    lost_count: u64,
}

/// State of the connection. The diagram is in the documentation of the crate.
#[derive(Debug)]
enum State {
    /// The next attempt is due at this time.
    Waiting { until: Instant },
    /// The driver has until the deadline to open a connection.
    Connecting {
        deadline: Instant,
        /// A server has accepted the connection. The credentials for SASL are being prepared.
        is_open: bool,
    },
    /// The connect request was sent. Nothing else may be sent before its reply. A server that
    /// refuses closes at once, and bytes that it has not read would turn that into a reset. The
    /// reset can swallow the refusal (ZOOKEEPER-1702).
    Handshaking { deadline: Instant },
    /// The server has accepted the session, and the SASL exchange goes on. Nothing else may be sent
    /// before it is complete.
    Authenticating { deadline: Instant },
    /// A Keeper has accepted the session, and the request with this xid asks for its features. Nothing else
    /// may be sent before its answer.
    Asking { deadline: Instant, xid: i32 },
    /// The connection is established, and requests are sent.
    Up,
    /// The session has ended.
    Ended(SessionEnd),
}

/// Effect of a lost connection.
#[derive(Debug)]
pub(crate) struct Loss {
    /// Whether the connection was established.
    pub(crate) was_up: bool,
    /// When the next attempt is due.
    pub(crate) next_attempt: Instant,
}

/// State.
impl Connection {
    pub(crate) fn new(hosts: Vec<Host>, now: Instant, rng: &mut Rng) -> Self {
        Self {
            state: State::Waiting { until: now },
            hosts: Hosts::new(hosts, rng),
            last_disconnect: None,
            list_failure: None,
            search: None,
            lost_count: 0,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Up)
    }

    /// Returns true between two attempts.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self.state, State::Handshaking { .. })
    }

    pub(crate) fn is_authenticating(&self) -> bool {
        matches!(self.state, State::Authenticating { .. })
    }

    /// Returns the xid of the request that asks for the features of a Keeper, while it is unanswered.
    pub(crate) fn asked(&self) -> Option<i32> {
        match self.state {
            State::Asking { xid, .. } => Some(xid),
            _ => None,
        }
    }

    /// Returns how the session ended, if it did.
    pub(crate) fn ended(&self) -> Option<SessionEnd> {
        match self.state {
            State::Ended(end) => Some(end),
            _ => None,
        }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.search.is_some()
    }

    /// Returns why the last connection or attempt failed; `None` while connected.
    pub(crate) fn last_disconnect(&self) -> Option<DisconnectReason> {
        self.last_disconnect.clone().map(|cause| self.explained(cause))
    }

    /// Returns why no server gave a first session, as far as the attempts tell: the last cause,
    /// unless that of another server tells more.
    pub(crate) fn connect_failure(&self) -> Option<DisconnectReason> {
        let last = self.last_disconnect.as_ref()?;
        let telling = self.hosts.most_telling().filter(|cause| cause.weight() > last.weight());
        let cause = self.hosts.not_serving().unwrap_or_else(|| telling.unwrap_or(last).clone());
        Some(self.explained(cause))
    }

    /// Returns the cause for people: if a server was not reached, and a newer list of servers could not be
    /// had, the latter tells more.
    fn explained(&self, cause: DisconnectReason) -> DisconnectReason {
        match &self.list_failure {
            Some(failure) if cause.weight() == 0 => DisconnectReason::NoServerList(failure.clone()),
            _ => cause,
        }
    }

    pub(crate) fn is_sasl_rejected(&self, now: Instant) -> bool {
        self.hosts.have_all_rejected_sasl(now)
    }

    pub(crate) fn lost_count(&self) -> u64 {
        self.lost_count
    }

    pub(crate) fn hosts(&self) -> Vec<Host> {
        self.hosts.all()
    }

    /// Returns the server that the connection is to.
    pub(crate) fn host(&self) -> Option<&Host> {
        self.is_up().then(|| self.hosts.serving())
    }
}

/// Attempts.
impl Connection {
    /// Returns when the next attempt is due, between two attempts.
    pub(crate) fn next_attempt_due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { until } => Some(until),
            _ => None,
        }
    }

    /// Returns the deadline of the current attempt.
    pub(crate) fn attempt_deadline(&self) -> Option<Instant> {
        match self.state {
            State::Connecting { deadline, .. }
            | State::Handshaking { deadline }
            | State::Asking { deadline, .. }
            | State::Authenticating { deadline } => Some(deadline),
            _ => None,
        }
    }

    /// Begins an attempt at the current server.
    pub(crate) fn attempt(&mut self, now: Instant, pace: &Pace) -> Host {
        let deadline = now + pace.attempt_limit(self.hosts.names());
        self.state = State::Connecting { deadline, is_open: false };
        self.hosts.current().clone()
    }

    /// Notes the addresses of the current host. Returns it with those to connect to, unless no attempt
    /// is under way.
    pub(crate) fn resolved(&mut self, found: Vec<SocketAddr>, rng: &mut Rng) -> Option<Host> {
        let is_awaited = matches!(self.state, State::Connecting { is_open: false, .. });
        (is_awaited && !found.is_empty()).then(|| self.hosts.resolved(found, rng))
    }

    /// Notes that a server has accepted the connection, at this address if the driver knows it.
    pub(crate) fn accepted(&mut self, address: Option<IpAddr>) {
        if let State::Connecting { is_open, .. } = &mut self.state {
            *is_open = true;
            address.into_iter().for_each(|address| self.hosts.opened(address));
        }
    }

    /// Returns true while the credentials for SASL are being prepared.
    pub(crate) fn is_preparing(&self) -> bool {
        matches!(self.state, State::Connecting { is_open: true, .. })
    }

    /// Notes that the driver has opened the connection. Returns false if it was not asked to.
    pub(crate) fn opened(&mut self, now: Instant, pace: &Pace) -> bool {
        let is_asked = matches!(self.state, State::Connecting { .. });
        if is_asked {
            let deadline = now + pace.handshake_limit(self.hosts.names(), self.hosts.late_laps());
            self.state = State::Handshaking { deadline };
        }
        is_asked
    }

    /// Notes that the handshake has succeeded, and that the SASL exchange begins. Both together have
    /// the time of one handshake.
    pub(crate) fn authenticating(&mut self) {
        if let State::Handshaking { deadline } = self.state {
            self.state = State::Authenticating { deadline };
        }
    }

    /// Notes that the handshake has succeeded, and that this request asks for the server's features.
    pub(crate) fn asking(&mut self, xid: i32) {
        if let State::Handshaking { deadline } = self.state {
            self.state = State::Asking { deadline, xid };
        }
    }

    /// Notes that the connection can be used. Returns the server.
    pub(crate) fn established(&mut self, now: Instant, granted: Granted, rng: &mut Rng) -> Host {
        if matches!(granted, Granted::ReadOnly { .. }) {
            self.search = Some(Search::new(now));
        }
        (self.last_disconnect, self.list_failure) = (None, None);
        let host = self.hosts.current().clone();
        self.hosts.connected(rng);
        self.state = State::Up;
        host
    }

    /// Notes that the connection, or the attempt at one, has ended. `was_up_for` is the time since
    /// it was established.
    pub(crate) fn lost(
        &mut self,
        now: Instant,
        cause: &DisconnectReason,
        was_up_for: Duration,
        pace: &Pace,
        rng: &mut Rng,
    ) -> Loss {
        let was_up = self.is_up();
        let reached = if was_up {
            // Some servers accept the session and then close the connection, again and again. They
            // count like a server that closes it at once.
            if was_up_for < BACKOFF_MAX { Reached::Up } else { Reached::Served }
        } else if matches!(self.state, State::Connecting { is_open: false, .. }) {
            Reached::NoServer
        } else {
            Reached::Server
        };
        let is_answer_late =
            self.is_handshaking() || self.is_authenticating() || self.asked().is_some();
        self.hosts.lost(now, reached, cause);
        if is_answer_late && *cause == DisconnectReason::IdleTimeout {
            self.hosts.was_late();
        }
        self.search = None;
        self.last_disconnect = Some(cause.clone());
        self.lost_count += u64::from(was_up);
        let pause = match cause {
            DisconnectReason::Rebalanced => Hosts::pause_to_move(rng),
            // A read-write server was found. The refusal of a read-only server precedes `Up`.
            DisconnectReason::ReadOnly if was_up => Hosts::pause_to_move(rng),
            _ => self.hosts.failed(reached, pace.longest_step(), rng),
        };
        let next_attempt = now + pause;
        self.state = State::Waiting { until: next_attempt };
        Loss { was_up, next_attempt }
    }

    /// Notes that the session has ended.
    pub(crate) fn end(&mut self, end: SessionEnd) {
        self.search = None;
        self.state = State::Ended(end);
    }
}

/// Other servers.
impl Connection {
    /// Replaces the list of servers. Returns true if the attempt under way is to be dropped for one
    /// at another server.
    pub(crate) fn update_servers(&mut self, now: Instant, hosts: Vec<Host>, rng: &mut Rng) -> bool {
        self.list_failure = None;
        let serving = self.hosts.place();
        let moves = self.hosts.update(hosts, rng);
        match self.state {
            State::Waiting { .. } => false,
            // The move does not happen at once. The caller may not know which bytes the socket
            // has accepted, and these decide which requests may have been applied.
            State::Up => {
                if moves {
                    self.hosts.leave(serving, now);
                }
                false
            }
            // This server has received no request yet, and its answer is not one of the next
            // server.
            _ => moves,
        }
    }

    /// Replaces the list of servers, and keeps the current one.
    pub(crate) fn update_servers_and_stay(&mut self, hosts: Vec<Host>, rng: &mut Rng) {
        self.hosts.update_and_stay(hosts, rng);
    }

    /// Notes that the list of servers could not be renewed.
    pub(crate) fn list_failed(&mut self, failure: IoFailure) {
        if !self.is_up() {
            self.list_failure = Some(failure);
        }
    }

    pub(crate) fn move_due(&self) -> Option<Instant> {
        self.hosts.move_due()
    }

    pub(crate) fn probe_due(&self) -> Option<Instant> {
        self.search.as_ref().map(Search::due)
    }

    /// Returns the next server to probe for writes, if there is another one.
    pub(crate) fn next_to_probe(&mut self, now: Instant) -> Option<Host> {
        self.search.as_mut()?.next(now, &mut self.hosts)
    }

    /// Notes the answer of a probed server. Returns true if the connection is to be dropped for one
    /// to that server.
    pub(crate) fn probed(&mut self, now: Instant, host: &Host, answer: ProbeAnswer) -> bool {
        let was_asked = self.search.as_mut().is_some_and(|search| search.answered(now, host));
        was_asked && answer == ProbeAnswer::ReadWrite && self.hosts.prefer(host)
    }

    /// Returns why a server closes the connection during the handshake of a first session and sends
    /// nothing, and the server to probe for TLS. It may not serve yet, or its port may be for TLS:
    /// Netty closes a plaintext connection like that. So the server is probed for TLS, once.
    pub(crate) fn closed_in_first_handshake(&mut self) -> (DisconnectReason, Option<Host>) {
        if self.hosts.speaks_tls() {
            (DisconnectReason::NotZooKeeper(PeerProtocol::Tls), None)
        } else {
            (DisconnectReason::ClosedByServer, self.hosts.is_to_be_asked_for_tls())
        }
    }

    /// Notes that the port of this server is for TLS only. Returns false if the list does not
    /// contain the server.
    pub(crate) fn speaks_tls(&mut self, host: &Host) -> bool {
        let is_listed = self.hosts.set_speaks_tls(host);
        if is_listed {
            self.last_disconnect = Some(DisconnectReason::NotZooKeeper(PeerProtocol::Tls));
        }
        is_listed
    }

    pub(crate) fn are_refusals_lasting(&self) -> bool {
        self.hosts.are_refusals_lasting()
    }

    /// Returns true if the last attempt at each server ended at once, without a connection to a
    /// ZooKeeper server.
    pub(crate) fn have_all_refused(&self) -> bool {
        self.hosts.have_all_refused()
    }
}
