//! `Lease.tla`: the evidence of each client, the clock of the leader for each session, and the touch tables.
//!
//! The module leaves out sessions that a client or a test closes. Their close is allowed at any time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use zk_session::{LeaseAssumptions, LeaseTimes};
use zk_testing::server::{CloseCause, SessionStep};
use zk_testing::{ErrorCode, Op, SessionId, Zxid};

use super::refused;
use crate::ensure::ensure;

/// `None` is before every time, as in the module.
type Time = Option<Instant>;

/// The module's `LateBound`, in session timeouts.
const LATE_BOUND: u32 = 5;

/// The sessions of all clients.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    assumed: LeaseAssumptions,
    sessions: BTreeMap<SessionId, Session>,
    /// The touch tables of the followers: the timeout for each session.
    tables: BTreeMap<(usize, SessionId), Duration>,
}

#[derive(Debug)]
struct Session {
    /// The leader's clock.
    expires: Instant,
    taken: Time,
    closed: bool,
    /// The timeout that was granted when the session was created.
    creator: Duration,
    e: Option<Evidence>,
}

/// A packet that was answered, by what the answer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet {
    Ping,
    Sync,
    Multi,
    Create,
}

#[derive(Clone, Copy, Debug)]
struct Touch {
    sent: Instant,
    answered: Instant,
}

#[derive(Clone, Debug)]
struct Evidence {
    times: LeaseTimes,
    shortest: Duration,
    longest: Duration,
    touches: Vec<Touch>,
    touched: Time,
    unproven: Time,
    checked: Time,
    agreed: Time,
    bound: Time,
    no_gap_until: Time,
    pending: Time,
    abandoned: Time,
}

impl Packet {
    /// Returns what an answer to a request shows, if it shows anything.
    pub(crate) fn of(op: Op, code: ErrorCode, zxid: Zxid) -> Option<Self> {
        let by_leader = [
            ErrorCode::OK,
            ErrorCode::NO_NODE,
            ErrorCode::NODE_EXISTS,
            ErrorCode::BAD_VERSION,
            ErrorCode::NOT_EMPTY,
            ErrorCode::NO_CHILDREN_FOR_EPHEMERALS,
        ];
        if op == Op::Auth || !by_leader.contains(&code) {
            return None;
        }
        let is_agreed = op.is_write() && zxid > Zxid::ZERO;
        let has_no_owner = matches!(op, Op::Multi | Op::Reconfig | Op::CloseSession);
        Some(match (is_agreed, has_no_owner) {
            (true, true) => Self::Multi,
            (true, false) => Self::Create,
            _ if op == Op::Sync && code.is_ok() => Self::Sync,
            _ => Self::Ping,
        })
    }
}

/// Steps of the clients.
impl Lease {
    pub(crate) fn new(assumed: LeaseAssumptions) -> Self {
        Self { assumed, ..Self::default() }
    }

    /// `Reconnect`: a client sends a connect request.
    pub(crate) fn reconnects(&mut self, now: Instant, id: SessionId) -> Result<(), String> {
        self.client_steps(now, id, |e| {
            let before = e.pending.replace(now);
            if let Some(before) = before {
                e.shorten(before + e.least());
                e.abandoned = Some(before);
            }
        })
    }

    /// `Receive`: a client has read that its session is accepted. The connect request was sent at `sent`.
    pub(crate) fn accepted(
        &mut self,
        now: Instant,
        (id, timeout): (SessionId, Duration),
        sent: Instant,
    ) -> Result<(), String> {
        let Some(session) = self.sessions.get_mut(&id) else {
            return refused("Receive", format_args!("no server has session {id}"));
        };
        if session.e.is_none() {
            session.e = self.assumed.times(timeout).ok().map(|t| Evidence::new(t, timeout, sent));
            return Ok(());
        }
        let assumed = self.assumed;
        self.client_steps(now, id, |e| e.handshake_accepted(&assumed, timeout, now))
    }

    /// `Receive`: a client has read the answer to a packet that it sent at `sent`.
    pub(crate) fn receives(
        &mut self,
        now: Instant,
        id: SessionId,
        packet: Packet,
        sent: Instant,
    ) -> Result<(), String> {
        self.client_steps(now, id, |e| {
            e.touch_answered(sent, now);
            match packet {
                Packet::Ping => {}
                Packet::Sync => e.leader_answered(sent, now),
                Packet::Multi | Packet::Create => {
                    e.agreed = e.agreed.max(Some(sent));
                    if packet == Packet::Create {
                        e.checked = e.checked.max(Some(sent));
                    }
                    e.leader_answered(sent, now);
                }
            }
        })
    }

    /// Takes a step of a client, and checks `PromiseIsKept`.
    fn client_steps(
        &mut self,
        now: Instant,
        id: SessionId,
        step: impl FnOnce(&mut Evidence),
    ) -> Result<(), String> {
        let session = self.sessions.get_mut(&id);
        let Some(e) = session.and_then(|session| session.e.as_mut()) else { return Ok(()) };
        let promised = e.expires_after().min(Some(now + e.least()));
        step(e);
        ensure(e.expires_after() >= promised, || format!("PromiseIsKept: {id} {promised:?} {e:?}"))
    }

    /// Checks a guard that says that it is valid for `remaining`.
    pub(crate) fn is_used(
        &self,
        now: Instant,
        id: SessionId,
        remaining: Duration,
    ) -> Result<(), String> {
        let valid_until = self.valid_until(id);
        if valid_until > Some(now) && valid_until >= Some(now + remaining) {
            return Ok(());
        }
        let lease = valid_until.map(|until| until.saturating_duration_since(now));
        refused(
            "a valid guard",
            format_args!("{remaining:?} left of session {id}, lease {lease:?}"),
        )
    }

    /// Returns the end of a session's lease.
    pub(crate) fn valid_until(&self, id: SessionId) -> Time {
        self.sessions.get(&id)?.e.as_ref()?.valid_until()
    }
}

/// Steps of the servers.
impl Lease {
    pub(crate) fn serves(&mut self, now: Instant, step: SessionStep) -> Result<(), String> {
        match step {
            SessionStep::Connected(id, timeout) => {
                self.sessions.entry(id).or_insert(Session {
                    expires: now,
                    taken: None,
                    closed: false,
                    creator: timeout,
                    e: None,
                });
                self.open(id, "Serve")?.touch(now, timeout);
            }
            SessionStep::Touched(id, timeout) => self.open(id, "Serve")?.touch(now, timeout),
            SessionStep::Noted(id, timeout, server) => {
                self.tables.insert((server, id), timeout);
            }
            SessionStep::Flushed(id, timeout, server) => {
                if self.tables.remove(&(server, id)) != Some(timeout) {
                    let reason = format_args!("the table of server {server} has no {id}");
                    return refused("FlushTable", reason);
                }
                self.open(id, "FlushTable")?.touch(now, timeout);
            }
            SessionStep::TableLost(server) => self.tables.retain(|(at, _), _| *at != server),
            SessionStep::BucketTaken(id) => {
                let session = self.open(id, "TakeBucket")?;
                if session.taken.is_some() || session.expires > now {
                    let left = session.expires.saturating_duration_since(now);
                    let before = session.taken.is_some();
                    let reason = format_args!("{id} has {left:?} left, taken before: {before}");
                    return refused("TakeBucket", reason);
                }
                session.taken = Some(now);
            }
            SessionStep::Closed(id, cause) => self.closes(now, id, cause)?,
            SessionStep::Elected => {
                for session in self.sessions.values_mut().filter(|session| !session.closed) {
                    (session.expires, session.taken) = (now + session.creator, None);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// `CloseSession`, and `SessionOutlivesGuard`.
    fn closes(&mut self, now: Instant, id: SessionId, cause: CloseCause) -> Result<(), String> {
        let session = self.open(id, "CloseSession")?;
        session.closed = true;
        if cause != CloseCause::Expired {
            return Ok(());
        }
        if session.taken.is_none() {
            return refused("CloseSession", format_args!("the bucket of {id} was not taken"));
        }
        let last = session.e.as_ref().and_then(Evidence::last_use);
        ensure(last <= Some(now), || {
            let late = last.map(|last| last - now);
            format!("SessionOutlivesGuard: {id} is closed, a guard was in use for {late:?} more")
        })
    }

    /// Returns a session that is not closed.
    fn open(&mut self, id: SessionId, action: &str) -> Result<&mut Session, String> {
        match self.sessions.get_mut(&id) {
            Some(session) if !session.closed => Ok(session),
            _ => refused(action, format_args!("session {id} is not open")),
        }
    }
}

impl Session {
    /// Changes nothing for a session whose bucket was taken.
    fn touch(&mut self, now: Instant, timeout: Duration) {
        if self.taken.is_none() {
            self.expires = now + timeout;
        }
    }
}

/// The client's rule.
impl Evidence {
    /// The evidence of a new session, as in `Init`.
    fn new(times: LeaseTimes, timeout: Duration, sent: Instant) -> Self {
        let (first, bound) = (Some(sent), Some(sent + timeout));
        Self {
            times,
            shortest: timeout,
            longest: timeout,
            touches: Vec::new(),
            touched: first,
            unproven: None,
            checked: first,
            agreed: first,
            bound,
            no_gap_until: bound,
            pending: None,
            abandoned: None,
        }
    }

    fn least(&self) -> Duration {
        (self.longest / 2).min(self.shortest)
    }

    fn expires_after(&self) -> Time {
        let shortened = self.pending.map(|pending| pending + self.least());
        self.bound.map(|bound| shortened.map_or(bound, |shortened| shortened.min(bound)))
    }

    fn valid_until(&self) -> Time {
        self.expires_after()?.checked_sub(self.times.ends_early)
    }

    /// The end of the lease, and the longest pause of its holder: the margin.
    fn last_use(&self) -> Time {
        self.expires_after()?.checked_sub(self.times.clock_drift)
    }

    fn shorten(&mut self, to: Instant) {
        self.bound = self.bound.min(Some(to));
        self.no_gap_until = self.no_gap_until.min(Some(to));
    }

    fn handshake_accepted(&mut self, assumed: &LeaseAssumptions, timeout: Duration, now: Instant) {
        let Some(sent) = self.pending.take() else { return };
        let is_continuous = Some(now + self.times.clock_drift) < self.no_gap_until;
        self.shorten(sent + timeout);
        (self.shortest, self.longest) = (self.shortest.min(timeout), self.longest.max(timeout));
        self.times = assumed.times(self.shortest).unwrap_or(self.times);
        self.touches.clear();
        (self.touched, self.checked, self.agreed) = (Some(sent), Some(sent), None);
        self.unproven = (!is_continuous).then_some(now);
    }

    fn touch_answered(&mut self, sent: Instant, now: Instant) {
        if self.touches.last().is_some_and(|last| sent <= last.sent) {
            return;
        }
        let shortest = self.shortest;
        self.touches.retain(|touch| touch.sent + shortest > now);
        self.touches.push(Touch { sent, answered: now });
    }

    fn leader_answered(&mut self, sent: Instant, now: Instant) {
        let flush_bound = self.times.flush_bound;
        let count = self.touches.partition_point(|touch| touch.answered + flush_bound <= sent);
        let proven = self.touches.drain(..count).next_back().map(|touch| touch.sent);
        let end = self.touched.map(|touched| touched + self.shortest);
        if Some(now + self.times.clock_drift) < end {
            self.touched = self.touched.max(proven);
            let is_second = |since: &Instant| sent >= *since + self.times.expiry_pass;
            self.unproven = self.unproven.filter(|since| !is_second(since));
        } else if proven.is_some() {
            (self.touched, self.unproven) = (proven, Some(now));
        }
        self.prolong();
    }

    fn prolong(&mut self) {
        let late = self.longest * LATE_BOUND;
        self.abandoned = self.abandoned.filter(|sent| self.checked < Some(*sent + late));
        if self.unproven.is_some() || self.agreed.is_none() {
            return;
        }
        let mut proven = self.touched.min(self.agreed).map(|at| at + self.shortest);
        if self.abandoned.is_some() {
            let checked = self.checked.min(self.agreed).map(|at| at + self.least());
            proven = proven.min(checked);
        }
        self.bound = self.bound.max(proven);
        self.no_gap_until = self.no_gap_until.max(proven);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: SessionId = SessionId(7);
    const TIMEOUT: Duration = Duration::from_secs(12);

    /// A session that was created at second 0 at server 1, which follows server 0.
    struct Run {
        start: Instant,
        lease: Lease,
    }

    impl Run {
        fn new() -> Self {
            let start = crate::clock::now().into_std();
            let assumed = LeaseAssumptions::new().expiry_pass(Duration::from_secs(1));
            let mut run = Self { start, lease: Lease::new(assumed) };
            run.serves(0, SessionStep::Connected(ID, TIMEOUT)).unwrap();
            run.lease.accepted(start, (ID, TIMEOUT), start).unwrap();
            run
        }

        fn at(&self, second: u64) -> Instant {
            self.start + Duration::from_secs(second)
        }

        fn serves(&mut self, second: u64, step: SessionStep) -> Result<(), String> {
            self.lease.serves(self.at(second), step)
        }

        fn receives(&mut self, packet: Packet, sent: u64, now: u64) {
            self.lease.receives(self.at(now), ID, packet, self.at(sent)).unwrap();
        }

        /// Returns the second at which the lease ends, rounded down.
        fn valid_until(&self) -> u64 {
            (self.lease.valid_until(ID).unwrap() - self.start).as_secs()
        }
    }

    #[test]
    fn guard_is_valid_for_as_long_as_the_evidence_allows() {
        let mut run = Run::new();
        assert_eq!(run.valid_until(), 10, "a margin of one before the timeout, and the drift");
        run.receives(Packet::Ping, 3, 3);
        run.receives(Packet::Multi, 6, 6);
        assert_eq!(run.valid_until(), 10, "no flush need lie between");
        run.receives(Packet::Sync, 7, 7);
        assert_eq!(run.valid_until(), 13, "the quorum of 6, the touch of 3");
        let is_used = |remaining| {
            let remaining = Duration::from_secs(remaining);
            run.lease.is_used(run.at(8), ID, remaining).is_ok()
        };
        assert!(is_used(5) && !is_used(6));
        assert!(run.lease.is_used(run.at(14), ID, Duration::ZERO).is_err());
    }

    #[test]
    fn reconnect_after_a_gap_needs_a_second_proof() {
        let mut run = Run::new();
        run.lease.reconnects(run.at(11), ID).unwrap();
        run.lease.accepted(run.at(13), (ID, TIMEOUT), run.at(11)).unwrap();
        run.receives(Packet::Create, 13, 13);
        assert_eq!(run.valid_until(), 10);
        run.receives(Packet::Create, 14, 14);
        assert_eq!(run.valid_until(), 21);
    }

    #[test]
    fn leader_closes_a_session_after_its_clock_has_run_out() {
        let close = SessionStep::Closed(ID, CloseCause::Expired);
        assert!(Run::new().serves(12, close).unwrap_err().starts_with("CloseSession"));
        assert!(Run::new().serves(11, SessionStep::BucketTaken(ID)).is_err());
        let mut run = Run::new();
        run.serves(12, SessionStep::BucketTaken(ID)).unwrap();
        run.serves(12, SessionStep::Touched(ID, TIMEOUT)).unwrap();
        run.serves(13, close).unwrap();
        assert!(run.serves(13, SessionStep::Touched(ID, TIMEOUT)).is_err());
        let mut run = Run::new();
        run.receives(Packet::Multi, 6, 6);
        run.receives(Packet::Sync, 11, 11);
        run.serves(12, SessionStep::BucketTaken(ID)).unwrap();
        // No server has noted the packet of 6.
        assert!(run.serves(13, close).unwrap_err().starts_with("SessionOutlivesGuard"));
        let requested = SessionStep::Closed(ID, CloseCause::Requested);
        Run::new().serves(1, requested).unwrap();
    }

    #[test]
    fn follower_flushes_what_is_in_its_table() {
        let flush = SessionStep::Flushed(ID, TIMEOUT, 1);
        assert!(Run::new().serves(1, flush).unwrap_err().starts_with("FlushTable"));
        let mut run = Run::new();
        run.serves(1, SessionStep::Noted(ID, TIMEOUT, 1)).unwrap();
        run.serves(2, flush).unwrap();
        assert!(run.serves(13, SessionStep::BucketTaken(ID)).is_err());
        run.serves(14, SessionStep::BucketTaken(ID)).unwrap();
        let mut run = Run::new();
        run.serves(1, SessionStep::Noted(ID, TIMEOUT, 1)).unwrap();
        run.serves(2, SessionStep::TableLost(1)).unwrap();
        assert!(run.serves(3, flush).is_err());
        run.serves(5, SessionStep::Elected).unwrap();
        assert!(run.serves(16, SessionStep::BucketTaken(ID)).is_err());
    }
}
