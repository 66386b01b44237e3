//! Limits of this crate, in one place, each with its reason.

use std::time::Duration;

/// Fraction of a duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    numerator: u32,
    denominator: u32,
}

impl Fraction {
    /// Creates the fraction `numerator / denominator`. The denominator must not be 0.
    #[must_use]
    pub const fn new(numerator: u32, denominator: u32) -> Self {
        Self { numerator, denominator }
    }

    /// Returns this fraction of a duration.
    #[inline]
    #[must_use]
    pub fn of(self, duration: Duration) -> Duration {
        duration * self.numerator / self.denominator
    }
}

/// Longest session timeout that the protocol can express, 24 days.
pub const TIMEOUT_MAX: Duration = Duration::from_millis(i32::MAX.unsigned_abs() as u64);

/// Maximum number of requests that wait or are in flight in one session. A request beyond it is
/// rejected at once, so that an unavailable ensemble cannot fill the memory of a service.
pub const REQUESTS_MAX: usize = 65_536;

/// Maximum bytes of requests that wait for a connection, or for the connection to accept them. The
/// reason is the same as for [`REQUESTS_MAX`].
pub const QUEUED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of watches of one session, of all kinds together.
pub const WATCHES_MAX: usize = 1 << 20;

/// Delay before a watch that no caller uses is removed from the server. Most watches are dropped
/// because their node is about to be deleted, as in the hand-off of a lock. The deletion removes
/// the watch too, and no request is needed.
pub const REMOVAL_DELAY: Duration = Duration::from_millis(100);

/// Number of watches on one path up to which each dropped watch is searched for at once. With more
/// watches on a path, one search [a moment later](REMOVAL_DELAY) finds all that were dropped.
/// Separate searches would take time that grows with the square of their number.
pub const PRUNED_AT_ONCE: usize = 64;

/// Upper bounds of the buckets of every [histogram](crate::Histogram), from 100 µs to 5 minutes. A round
/// trip to a nearby server takes some hundred microseconds, and a lock may be held for minutes.
pub const HISTOGRAM_BOUNDS: [Duration; HISTOGRAM_BOUNDS_NS.len()] = {
    let mut bounds = [Duration::ZERO; HISTOGRAM_BOUNDS_NS.len()];
    let mut at = 0;
    while at < bounds.len() {
        bounds[at] = Duration::from_nanos(HISTOGRAM_BOUNDS_NS[at]);
        at += 1;
    }
    bounds
};

/// [`HISTOGRAM_BOUNDS`], in the unit that is compared fastest.
#[rustfmt::skip]
pub(crate) const HISTOGRAM_BOUNDS_NS: [u64; 19] = [
    100 * US, 200 * US, 500 * US,
    MS, 2 * MS, 5 * MS, 10 * MS, 20 * MS, 50 * MS, 100 * MS, 200 * MS, 500 * MS,
    S, 2 * S, 5 * S, 10 * S, 30 * S, 60 * S, 300 * S,
];
const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const S: u64 = 1_000 * MS;

/// Number of watched paths that are removed from the server in one batch. The limit keeps the
/// removal of very many watches from delaying requests.
pub const REMOVALS_AT_ONCE: usize = 1_000;

/// Maximum number of pending clean-up tasks: one for every possible request. Further tasks wait in
/// a backlog, and no caller receives their replies; see
/// [`SessionEvent::CleanUpBacklog`](crate::SessionEvent::CleanUpBacklog).
pub const CLEAN_UPS_MAX: usize = REQUESTS_MAX;

/// Maximum size of the backlog of clean-up tasks in bytes of memory: about 500,000 lock nodes. A
/// session that exceeds it is closed, which deletes its ephemeral nodes. If the session stayed
/// alive, its nodes would block locks that no client holds.
pub const BACKLOG_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of credentials of one session. Each is sent on every connection.
pub const CREDENTIALS_MAX: usize = 64;

/// Maximum bytes of paths in one `setWatches` frame, unless it is for a single longer path. This is
/// Java's value, well below the server's frame limit (ZOOKEEPER-706).
pub const REARM_CHUNK_BYTES: usize = 128 * 1024;

/// Bytes of requests that are handed to the connection at a time, plus one request. Pings and
/// heartbeats overtake all requests behind them. On a line so slow that these bytes take a second,
/// a ping is sent a second late.
pub const WRITE_CHUNK_BYTES: usize = 128 * 1024;

/// Bytes of unanswered requests that are on their way to the server or wait there, plus one
/// request. More are sent when the oldest are answered. Requests that begin a connection do not
/// count. Pings and heartbeats overtake the rest.
///
/// A socket buffers megabytes. On a line, or at a server, that accepts 200 kB/s, a lease of 4.5 s
/// was lost behind them although the ensemble was healthy.
pub const INFLIGHT_BYTES_MAX: usize = 256 * 1024;

/// Minimum time that one server gets to accept a connection, and again to answer the handshake.
/// Java divides the session timeout by the number of hosts. With nine hosts that leaves no time for
/// a slow name lookup.
pub const CONNECT_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Maximum time that one server gets for each of the two, however long the session timeout is. A
/// resolver whose first name server is dead takes five seconds. A caller that waits for a first
/// connection, ten seconds by default, must reach a second server within that time.
pub const CONNECT_TIMEOUT_MAX: Duration = Duration::from_secs(6);

/// Maximum time that one server gets for each of the two while the lease is claimed, as a part of what
/// the lease has left. The machine of a dead leader answers nothing, and the rest of the lease is for
/// another server.
pub(crate) const LEASE_ATTEMPT_PART: Fraction = Fraction::new(1, 2);

/// Least maximum while the lease is claimed. A server that serves is often slow after an election, and the
/// attempt tries several addresses of a name.
pub const LEASE_ATTEMPT_MIN: Duration = Duration::from_millis(300);

/// Maximum length of the server's answer to a handshake in bytes. It has 37 bytes, and a later
/// release may append more. The client presents the password in it to servers again, so the
/// password must not be longer than a server accepts.
pub const HANDSHAKE_LEN_MAX: usize = 1024;

/// Maximum length of a SASL token in bytes. Tokens of DIGEST-MD5 have some hundred bytes, and those
/// of Kerberos with the groups of a large directory some ten thousand.
pub const SASL_TOKEN_LEN_MAX: usize = 64 * 1024;

/// Connections in a row that each server must have closed after the client's SASL proof until the
/// credentials count as rejected, which ends the session. Servers before 3.5.9 and 3.6.0 reject
/// wrong credentials like that, so each attempt is another failed login. A server that restarts
/// between proof and answer looks the same once, and is unreachable or serves at the next attempts.
/// A server that is unreachable may accept the credentials later, so the session waits for it.
pub const SASL_CLOSES_MAX: u32 = 3;

/// Minimum time from the first of these closes at each server to the last one. Behind a load
/// balancer, one name stands for several servers, and the pauses alone allow three closes in a
/// fifth of a second. In this time a balancer usually finds a server that accepts the credentials.
/// It is half of the usual time limit of a first connection, which then reports the rejection.
pub const SASL_REJECTION_TIME: Duration = Duration::from_secs(5);

/// The longest time to live of a node that servers take (`EphemeralType.TTL.maxValue`). The shortest is a
/// millisecond.
pub const TTL_MAX: Duration = Duration::from_millis((1 << 40) - 1);

/// Addresses of one host name that a session uses, each as a server of its own. If there are more, the
/// choice is random, and an address at which an attempt failed gives its place to another one. No ensemble
/// has so many servers.
pub const ADDRESSES_MAX: usize = 64;

/// First step of the reconnect back-off. The step doubles at each failure in a row. The pause is
/// drawn from the upper half of the step, so that clients do not stay in step with each other and no
/// pause is wasted on a server that had no time to change. The first attempt after a connection that
/// was up has no pause.
pub const BACKOFF_STEP: Duration = Duration::from_millis(20);

/// Maximum step of the reconnect back-off, for a session that is not opened yet. A thousand clients
/// make 1,300 attempts a second with it, however long an outage takes. With a session, it is an
/// eighth of the session timeout, if that is less. With a claimed lease, it is a fortieth of what the
/// lease has left, but see [`LEASE_BACKOFF_MIN`].
pub const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// Maximum step of the reconnect back-off while the lease is claimed, as a part of what the lease has
/// left. An election takes some tenths of a second. Afterwards a holder must find a server that serves
/// among those that do not, in a small part of its lease.
pub(crate) const LEASE_BACKOFF_PART: Fraction = Fraction::new(1, 40);

/// Least maximum while the lease is claimed. Two pauses lead past a dead server to one that serves, in
/// less than 0.2 s. A thousand holders make 22,000 attempts a second with it, for as long as a lease
/// lasts.
pub const LEASE_BACKOFF_MIN: Duration = Duration::from_millis(60);

/// The most that one pause may take of what the lease has left, however short that is.
pub(crate) const LEASE_BACKOFF_MIN_PART: Fraction = Fraction::new(1, 4);

/// Maximum step of the reconnect back-off of a session without a claimed lease, as a part of the session
/// timeout. The session, and its place in queues, must survive laps over several servers.
pub(crate) const SESSION_BACKOFF_PART: Fraction = Fraction::new(1, 8);

/// First pause of the search for a read-write server, while connected to a read-only one. The pause
/// doubles, as in the Java client.
pub const PROBE_PAUSE_MIN: Duration = Duration::from_millis(100);

/// Maximum pause of the search for a read-write server. Reads work meanwhile, and each probe is a
/// connection.
pub const PROBE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// Time that a server gets to answer whether it accepts writes.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum time for which the client sends nothing on a connection, however long the session
/// timeout is. It lets the client detect dead connections, and keeps middleboxes from closing idle
/// ones.
pub const PING_INTERVAL_MAX: Duration = Duration::from_secs(10);

/// Maximum session timeout that counts when the session decides whether a server is alive. A server
/// may grant a timeout of weeks, and pings are sent every [ten seconds](PING_INTERVAL_MAX).
pub const IDLE_LIMIT_MAX: Duration = Duration::from_secs(60);

/// Delay from which a late turn of the driver counts as a pause of the process. A runtime under
/// load is late by hundredths of a second, and no lease outlives many times this delay.
pub const PAUSE_NOTICED: Duration = Duration::from_millis(500);

/// Maximum number of unanswered pings whose send times are kept. There is more than one only while
/// a reply arrives that takes longer than a third of the session timeout.
pub const PINGS_MAX: usize = 64;

/// Number of answered packets in a session timeout whose times the lease keeps as evidence. Packets
/// closer to each other prove next to nothing more.
pub const TOUCHES_PER_TIMEOUT: u32 = 64;

/// Time for which `Client::close` tries to close the session at the server.
pub const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Minimum time for `Client::close`, however short a time the caller sets. The driver needs a turn,
/// and the request to close must reach the server. Otherwise the server keeps the session, and its
/// locks, for the whole session timeout.
pub const CLOSE_TIMEOUT_MIN: Duration = Duration::from_millis(50);

// Parts of the session timeout.

/// Longest time without a packet to the server: one lost ping must not endanger the session.
pub(crate) const PING_PART: Fraction = Fraction::new(1, 3);

/// Time without a byte from the server after which the connection is dropped. A third is left to
/// find another server, as in the Java client.
pub(crate) const SILENCE_PART: Fraction = Fraction::new(2, 3);

/// Time that a server gets to answer the first packet after a silence. If this process did not run,
/// the server had nothing to answer.
pub(crate) const ANSWER_AFTER_SILENCE_PART: Fraction = Fraction::new(1, 3);

/// Time without an acknowledgement after which the connection is dropped, even if events arrive.
/// The rest is for another server, as with [`SILENCE_PART`].
pub(crate) const ACK_PART: Fraction = Fraction::new(2, 3);

/// Time without an acknowledgement after which the session counts as expired. A leader expires
/// sessions up to a tick late. The margin of a third lets a server report the expiry in most cases.
pub(crate) const EXPIRY_PART: Fraction = Fraction::new(4, 3);

/// Longest usual round trip with which a silent server is left early to save the lease. A slower
/// one leaves no time to renew the lease elsewhere.
pub(crate) const FAST_ROUND_TRIP_PART: Fraction = Fraction::new(1, 16);

/// Divisor of the part by which the usual round-trip time falls with each faster reply. A slow reply
/// counts for some time, and not forever.
pub(crate) const ROUND_TRIP_DECAY: u32 = 8;

/// Time before the end of the lease at which a silent server is left: time for a handshake, and for
/// the requests that renew the lease.
pub(crate) const LEASE_RESERVE_PART: Fraction = Fraction::new(1, 8);

/// Time that a server gets in any case, before it is left early to save the lease.
pub(crate) const ANSWER_MIN_PART: Fraction = Fraction::new(1, 4);

/// Pause before a clean-up task is sent again that the server was too busy for. The server has time
/// to recover, and the node is gone soon enough for the next holder.
pub(crate) const CLEAN_UP_RETRY_PART: Fraction = Fraction::new(1, 10);

/// Default [flush bound](crate::LeaseAssumptions::flush_bound) of a lease. A follower flushes its
/// touches every half tick, which is at most a quarter of a session timeout. The rest is for a server
/// or a network that lags.
pub(crate) const FLUSH_BOUND_PART: Fraction = Fraction::new(1, 3);

/// Default [margin](crate::LeaseAssumptions::margin) of a lease: time for late timers, and for the
/// holder to react.
pub(crate) const MARGIN_PART: Fraction = Fraction::new(1, 12);

/// Longest time without a packet to the server while the lease is claimed. Each answer is a touch, and
/// the time between two touches shortens the lease.
pub(crate) const TOUCH_PART: Fraction = Fraction::new(1, 16);

/// Time between two requests to the leader while the lease is claimed. They prove the touches before
/// them, and cost no transaction.
pub(crate) const LEADER_PART: Fraction = Fraction::new(1, 8);

/// Time between two requests to a quorum while the lease is claimed. They cost a transaction in the
/// log of every server, so there are less than three in a session timeout.
pub const QUORUM_PART: Fraction = Fraction::new(3, 8);

/// Shortest validity of a lease after each renewal. A shorter one leaves a holder no time to work.
pub(crate) const VALIDITY_MIN_PART: Fraction = Fraction::new(1, 8);

/// The shortest timeout that any server may grant, as a part of the longest one so far: assumption 4 of
/// [`LeaseAssumptions`](crate::LeaseAssumptions).
pub(crate) const LEAST_GRANTED_PART: Fraction = Fraction::new(1, 2);

/// Number of session timeouts after which a connect request whose reply was lost can no longer take
/// effect. A server that is stopped for longer than `syncLimit` ticks has lost its followers, or its
/// leader has dropped it. Five timeouts are ten ticks at least: twice the `syncLimit` of ZooKeeper's
/// sample configuration, for a server and its leader that are stopped one after the other.
pub(crate) const ABANDONED_TIMEOUTS: u32 = 5;

/// Default [longest pass](crate::LeaseAssumptions::expiry_pass) of a leader over the sessions that
/// expire at the same tick. docs/lease.md of the repository has the measurements.
pub(crate) const EXPIRY_PASS: Duration = Duration::from_secs(2);

/// Time for a round trip, as a part of the session timeout, in the schedule of a session that is idle. A
/// slower one breaks the chain of its evidence.
pub(crate) const ROUND_TRIP_PART: Fraction = Fraction::new(1, 16);

/// The part of the time limit of `close` for clean-up that needs more than one request. The rest is
/// for the request that closes the session.
pub(crate) const CLOSE_CLEAN_UP_PART: Fraction = Fraction::new(1, 2);

/// Minimum number of waits for a server that fit into a session timeout: one for a connection, one
/// for the answer to the handshake. The session must have time to reconnect before the lease ends.
pub(crate) const ATTEMPTS_PER_TIMEOUT: u32 = 3;
