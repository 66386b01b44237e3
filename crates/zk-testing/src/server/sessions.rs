//! Session tracker of the leader: the live sessions and their expiry.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use proto::{ErrorCode, SessionId};

use super::ConnectionId;
use super::clock::Clock;
use super::hash::FastMap;

/// Session, as the leader tracks it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Session id.
    pub id: SessionId,
    /// Timeout negotiated at the last connect.
    pub timeout: Duration,
    /// Timeout negotiated when the session was created. A new leader restarts the clock with it.
    pub create_timeout: Duration,
    /// Time at which the session expires unless a packet resets its clock.
    pub expires: Instant,
    /// Server of the session's current or last connection.
    pub server: usize,
}

/// All live sessions.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    tick: Duration,
    by_id: FastMap<SessionId, Session>,
    /// Sessions by the tick at which they expire.
    buckets: BTreeMap<Instant, BTreeSet<SessionId>>,
    /// Sessions of buckets that were taken, by the time at which they are closed.
    doomed: BTreeMap<Instant, BTreeSet<SessionId>>,
    next_id: SessionId,
}

#[derive(Clone, Debug)]
struct Session {
    timeout_ms: i32,
    create_timeout_ms: i32,
    expires: Instant,
    /// When the session is closed, once its bucket was taken.
    closes: Option<Instant>,
    owner: Owner,
}

/// Server and connection of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) server: usize,
    pub(crate) connection: ConnectionId,
}

impl Sessions {
    /// Creates an empty tracker.
    pub(crate) fn new(tick: Duration, next_id: SessionId) -> Self {
        let (buckets, doomed) = (BTreeMap::new(), BTreeMap::new());
        Self { tick, by_id: FastMap::default(), buckets, doomed, next_id }
    }

    pub(crate) fn create(
        &mut self,
        now: Instant,
        clock: &Clock,
        timeout_ms: i32,
        owner: Owner,
    ) -> SessionId {
        let id = self.next_id;
        self.next_id.0 = self.next_id.0.wrapping_add(1);
        let create_timeout_ms = timeout_ms;
        let closes = None;
        let session = Session { timeout_ms, create_timeout_ms, expires: now, closes, owner };
        self.by_id.insert(id, session);
        self.buckets.entry(now).or_default().insert(id);
        self.touch(now, clock, id, timeout_ms);
        id
    }

    /// Moves a session to another connection with another timeout. Returns whether it is alive.
    pub(crate) fn renew(
        &mut self,
        now: Instant,
        clock: &Clock,
        id: SessionId,
        timeout_ms: i32,
        owner: Owner,
    ) -> bool {
        let Some(session) = self.by_id.get_mut(&id) else { return false };
        session.timeout_ms = timeout_ms;
        session.owner = owner;
        self.touch(now, clock, id, timeout_ms)
    }

    /// Resets the clock of a session: it expires at the first tick after the timeout. This can be
    /// earlier than before. Returns false if the session is not alive.
    ///
    /// A session whose bucket was taken is alive until its turn comes, and is closed all the same
    /// (`SessionTrackerImpl.run`).
    pub(crate) fn touch(
        &mut self,
        now: Instant,
        clock: &Clock,
        id: SessionId,
        timeout_ms: i32,
    ) -> bool {
        let Some(session) = self.by_id.get_mut(&id) else { return false };
        if session.closes.is_some() {
            return true;
        }
        let expires = clock.round_up(now + duration(timeout_ms), self.tick);
        if expires != session.expires {
            let old = std::mem::replace(&mut session.expires, expires);
            unlist(&mut self.buckets, old, id);
            self.buckets.entry(expires).or_default().insert(id);
        }
        true
    }

    /// Like [`touch`](Self::touch), for a server that has lost its followers and cannot expire
    /// sessions. It drops the packets of overdue sessions (`SessionTrackerImpl.isClosing`).
    pub(crate) fn touch_unexpired(
        &mut self,
        now: Instant,
        clock: &Clock,
        id: SessionId,
        timeout_ms: i32,
    ) -> bool {
        let is_alive = self.by_id.get(&id).is_some_and(|session| session.expires > now);
        is_alive && self.touch(now, clock, id, timeout_ms)
    }

    /// Restarts the clocks of all sessions for a new leader, with the timeouts granted at creation.
    /// The timeouts of later connects appear in no transaction.
    pub(crate) fn restart(&mut self, now: Instant, clock: &Clock, tick: Duration) {
        self.tick = tick;
        for (at, ids) in std::mem::take(&mut self.doomed) {
            for id in ids {
                if let Some(session) = self.by_id.get_mut(&id) {
                    (session.closes, session.expires) = (None, at);
                    self.buckets.entry(at).or_default().insert(id);
                }
            }
        }
        let all = self.by_id.iter().map(|(id, session)| (*id, session.create_timeout_ms));
        for (id, timeout_ms) in all.collect::<Vec<_>>() {
            self.touch(now, clock, id, timeout_ms);
        }
    }

    pub(crate) fn contains(&self, id: SessionId) -> bool {
        self.by_id.contains_key(&id)
    }

    /// Checks that a session is alive and has not moved to another connection.
    pub(crate) fn check(&self, id: SessionId, owner: Owner) -> Result<(), ErrorCode> {
        match self.by_id.get(&id) {
            Some(session) if session.owner == owner => Ok(()),
            Some(_) => Err(ErrorCode::SESSION_MOVED),
            None => Err(ErrorCode::SESSION_EXPIRED),
        }
    }

    /// Moves a session to another connection.
    pub(crate) fn set_owner(&mut self, id: SessionId, owner: Owner) {
        if let Some(session) = self.by_id.get_mut(&id) {
            session.owner = owner;
        }
    }

    pub(crate) fn remove(&mut self, id: SessionId) -> bool {
        let Some(session) = self.by_id.remove(&id) else { return false };
        match session.closes {
            Some(closes) => unlist(&mut self.doomed, closes, id),
            None => unlist(&mut self.buckets, session.expires, id),
        }
        true
    }

    /// Returns the time of the next bucket, or of the next close of a session of a taken one.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        let first = [&self.buckets, &self.doomed].map(|buckets| buckets.keys().next().copied());
        first.into_iter().flatten().min()
    }

    /// Takes the due buckets, and returns their sessions. A pass over a bucket takes the time `pass`, and
    /// closes the last session at its end.
    pub(crate) fn take_buckets(&mut self, now: Instant, pass: Duration) -> Vec<SessionId> {
        let mut taken = Vec::new();
        while let Some(bucket) = self.buckets.first_entry().filter(|bucket| *bucket.key() <= now) {
            let ids = bucket.remove();
            let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            for (turn, id) in (1..).zip(ids) {
                let closes = now + pass * turn / count;
                if let Some(session) = self.by_id.get_mut(&id) {
                    session.closes = Some(closes);
                }
                self.doomed.entry(closes).or_default().insert(id);
                taken.push(id);
            }
        }
        taken
    }

    /// Returns the sessions to close now.
    pub(crate) fn expired(&self, now: Instant) -> Vec<SessionId> {
        self.doomed.range(..=now).flat_map(|(_, ids)| ids.iter().copied()).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Returns all sessions, by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SessionInfo> {
        let mut all: Vec<_> = self.by_id.iter().map(|(id, session)| session.info(*id)).collect();
        all.sort_unstable_by_key(|session| session.id);
        all.into_iter()
    }
}

/// Returns the first id of ZooKeeper: one byte of the server's number, five of its clock.
pub(crate) fn first_id(wall_ms: i64) -> SessionId {
    let clock = (wall_ms << 16) & ((1 << 56) - 1);
    SessionId((1 << 56) | clock)
}

impl Session {
    fn info(&self, id: SessionId) -> SessionInfo {
        SessionInfo {
            id,
            timeout: duration(self.timeout_ms),
            create_timeout: duration(self.create_timeout_ms),
            expires: self.expires,
            server: self.owner.server,
        }
    }
}

pub(crate) fn duration(timeout_ms: i32) -> Duration {
    Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0))
}

fn unlist(buckets: &mut BTreeMap<Instant, BTreeSet<SessionId>>, at: Instant, id: SessionId) {
    if let Some(bucket) = buckets.get_mut(&at) {
        bucket.remove(&id);
        if bucket.is_empty() {
            buckets.remove(&at);
        }
    }
}

/// Returns the password of a session. A real server computes the same one: `java.util.Random`,
/// seeded with the id and a constant of `ZooKeeperServer`.
pub(crate) fn password(id: SessionId) -> Bytes {
    const SECRET: u64 = 0xb341_5c00;
    const MASK: u64 = (1 << 48) - 1;
    const FACTOR: u64 = 0x5_deec_e66d;
    let mut state = (u64::from_ne_bytes(id.0.to_ne_bytes()) ^ SECRET ^ FACTOR) & MASK;
    let mut password = Vec::with_capacity(proto::PASSWORD_LEN);
    while password.len() < proto::PASSWORD_LEN {
        state = state.wrapping_mul(FACTOR).wrapping_add(0xb) & MASK;
        // Bits 16 to 47 of the state, as a little-endian int.
        password.extend_from_slice(&(state >> 16).to_le_bytes()[..4]);
    }
    password.into()
}
