//! Settings of a server or an ensemble.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::version::Version;

/// Settings of a server or an ensemble. The defaults are those of ZooKeeper's `zoo.cfg` unless a
/// method says otherwise.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) servers: usize,
    pub(crate) version: Version,
    pub(crate) tick_time: Option<Duration>,
    pub(crate) sync_limit: u32,
    pub(crate) min_session_timeout: Option<Duration>,
    pub(crate) max_session_timeout: Option<Duration>,
    /// Settings of single servers that differ from the others.
    pub(crate) own: BTreeMap<usize, OwnSettings>,
    pub(crate) extended_types: bool,
    pub(crate) enforce_quota: bool,
    pub(crate) super_digest: Option<String>,
    /// Passwords of the users of SASL.
    pub(crate) sasl_users: BTreeMap<String, Password>,
    pub(crate) sasl_fault: Option<SaslFault>,
    /// Whether the scheme `x509` exists: if a port asks clients for certificates.
    pub(crate) has_x509: bool,
    /// Schemes of which a connection must have an identity. Empty if none is required.
    pub(crate) required_schemes: Vec<String>,
    pub(crate) container_check_interval: Duration,
    pub(crate) container_max_never_used: Option<Duration>,
    pub(crate) four_letter_words: Option<Vec<String>>,
    pub(crate) max_client_connections: usize,
    pub(crate) wall_clock_ms: i64,
    pub(crate) seed: u64,
    pub(crate) local_sessions: bool,
    pub(crate) ipv6_acls: bool,
}

/// Password of a user of SASL, which `Debug` does not print.
#[derive(Clone)]
pub(crate) struct Password(pub(crate) String);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hidden")
    }
}

/// Settings that one server of an ensemble can override.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnSettings {
    pub(crate) tick_time: Option<Duration>,
    pub(crate) min_session_timeout: Option<Duration>,
    pub(crate) max_session_timeout: Option<Duration>,
}

/// Fault of a server in SASL exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SaslFault {
    /// It sends a proof that does not fit the password.
    WrongProof,
    /// It accepts the client's proof and sends no token.
    NoProof,
    /// It sends a challenge that is not one.
    Garbage,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            servers: 1,
            version: Version::default(),
            tick_time: None,
            sync_limit: 5,
            min_session_timeout: None,
            max_session_timeout: None,
            own: BTreeMap::new(),
            extended_types: true,
            enforce_quota: false,
            super_digest: None,
            sasl_users: BTreeMap::new(),
            sasl_fault: None,
            has_x509: false,
            required_schemes: Vec::new(),
            container_check_interval: Duration::from_secs(60),
            container_max_never_used: None,
            four_letter_words: None,
            max_client_connections: 0,
            wall_clock_ms: 1_700_000_000_000,
            seed: 0,
            local_sessions: true,
            ipv6_acls: true,
        }
    }
}

impl Settings {
    /// Settings of one server with the defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the number of servers, at most [`SERVERS_MAX`](crate::limits::SERVERS_MAX). Server 0
    /// leads until another one is elected. With 1, the server is standalone.
    #[must_use]
    pub fn servers(mut self, count: usize) -> Self {
        self.servers = count.clamp(1, crate::limits::SERVERS_MAX);
        self
    }

    /// Sets the release whose behaviour the servers reproduce.
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// Sets the tick, the unit of all timeouts. Sessions expire at multiples of it. The default is
    /// 2 s, the minimum 1 ms. For Keeper and RaftKeeper this is the period of the search for dead
    /// sessions, 500 ms by default.
    #[must_use]
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.tick_time = Some(tick.max(Duration::from_millis(1)));
        self
    }

    /// Sets the number of ticks without its leader after which a follower closes its client
    /// connections. The default is 5.
    #[must_use]
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.sync_limit = ticks;
        self
    }

    /// Sets the shortest session timeout granted. The default is two ticks.
    #[must_use]
    pub fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.min_session_timeout = Some(timeout);
        self
    }

    /// Sets the longest session timeout granted. The default is twenty ticks.
    #[must_use]
    pub fn max_session_timeout(mut self, timeout: Duration) -> Self {
        self.max_session_timeout = Some(timeout);
        self
    }

    /// Sets the tick of one server. While that server leads, sessions expire at multiples of this
    /// tick, and the server pings its followers every half of it.
    #[must_use]
    pub fn tick_time_of(mut self, server: usize, tick: Duration) -> Self {
        self.own.entry(server).or_default().tick_time = Some(tick.max(Duration::from_millis(1)));
        self
    }

    /// Sets the shortest session timeout that one server grants to its clients.
    #[must_use]
    pub fn min_session_timeout_of(mut self, server: usize, timeout: Duration) -> Self {
        self.own.entry(server).or_default().min_session_timeout = Some(timeout);
        self
    }

    /// Sets the longest session timeout that one server grants to its clients.
    #[must_use]
    pub fn max_session_timeout_of(mut self, server: usize, timeout: Duration) -> Self {
        self.own.entry(server).or_default().max_session_timeout = Some(timeout);
        self
    }

    /// Refuses nodes with a time to live, as a real server does unless it runs with
    /// `zookeeper.extendedTypesEnabled=true`. By default the test server allows them.
    #[must_use]
    pub fn without_extended_types(mut self) -> Self {
        self.extended_types = false;
        self
    }

    /// Enforces hard quotas, as `zookeeper.enforceQuota=true` does. Off by default.
    #[must_use]
    pub fn enforce_quota(mut self) -> Self {
        self.enforce_quota = true;
        self
    }

    /// Sets the digest of the super user: `user:hash`, as [`digest_id`](proto::digest_id) computes
    /// it. The super user passes every ACL check. By default there is none.
    #[must_use]
    pub fn super_digest(mut self, id: impl Into<String>) -> Self {
        self.super_digest = Some(id.into());
        self
    }

    /// Adds a user for the SASL mechanism DIGEST-MD5, as a line of the server's JAAS file does. The
    /// user's identity is `sasl:<user>`. Without a user, the servers offer no SASL.
    #[must_use]
    pub fn sasl_user(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.sasl_users.insert(user.into(), Password(password.into()));
        self
    }

    /// Makes the servers do something wrong in SASL exchanges. The faults of single requests, such
    /// as [`drop_before_applying`](crate::FaultBuilder::drop_before_applying) on `Op::Sasl`, work
    /// as well.
    #[must_use]
    pub fn sasl_fault(mut self, fault: SaslFault) -> Self {
        self.sasl_fault = Some(fault);
        self
    }

    /// Requires each connection to be authenticated by one of these schemes, as
    /// `enforce.auth.enabled=true` with `enforce.auth.schemes` does. By default none is required.
    #[must_use]
    pub fn require_auth<'a>(mut self, schemes: impl IntoIterator<Item = &'a str>) -> Self {
        self.required_schemes = schemes.into_iter().map(str::to_owned).collect();
        self
    }

    /// Sets the interval at which empty containers and expired TTL nodes are deleted. The default
    /// is one minute.
    #[must_use]
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.container_check_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// Sets the age at which a container that never had a child is deleted. By default it is never
    /// deleted.
    #[must_use]
    pub fn container_max_never_used(mut self, interval: Duration) -> Self {
        self.container_max_never_used = Some(interval);
        self
    }

    /// Limits the four-letter words that are answered to `words`. By default all are answered; a
    /// real server answers only `srvr`.
    #[must_use]
    pub fn four_letter_words<'a>(mut self, words: impl IntoIterator<Item = &'a str>) -> Self {
        self.four_letter_words = Some(words.into_iter().map(str::to_owned).collect());
        self
    }

    /// Limits the connections of one address. The default is 0, which means no limit; a real server
    /// allows 60.
    #[must_use]
    pub fn max_client_connections(mut self, count: usize) -> Self {
        self.max_client_connections = count;
        self
    }

    /// Sets the time of day at the start, in milliseconds since 1970. The default is a fixed day in
    /// 2023, so every run of a test sees the same times.
    #[must_use]
    pub fn wall_clock_ms(mut self, ms: i64) -> Self {
        self.wall_clock_ms = ms;
        self
    }

    /// Sets the seed of the random numbers for faults with a probability. The default is 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Makes a read-only server refuse new sessions with a bare reply header, as a real server does
    /// unless it runs with `localSessionsEnabled=true`.
    #[must_use]
    pub fn without_local_sessions(mut self) -> Self {
        self.local_sessions = false;
        self
    }

    /// Refuses ACLs with IPv6 addresses in every version, as the 3.9 releases before 3.9.4 do.
    #[must_use]
    pub fn without_ipv6_acls(mut self) -> Self {
        self.ipv6_acls = false;
        self
    }

    pub(crate) fn enforces_quota(&self) -> bool {
        self.enforce_quota && self.version.can_enforce_quotas()
    }

    pub(crate) fn knows_ipv6_acls(&self) -> bool {
        self.ipv6_acls && self.version.knows_ipv6_acls()
    }

    pub(crate) fn tick(&self, server: usize) -> Duration {
        let own = self.own.get(&server).and_then(|own| own.tick_time);
        own.or(self.tick_time).unwrap_or_else(|| self.version.default_tick())
    }

    /// Returns the timeout that a server grants for a requested number of milliseconds.
    pub(crate) fn negotiate_ms(&self, server: usize, asked_ms: i32) -> i32 {
        let own = self.own.get(&server).copied().unwrap_or_default();
        let tick = self.tick(server);
        let (shortest, longest) = self.version.session_timeouts(tick);
        let shortest = own.min_session_timeout.or(self.min_session_timeout).unwrap_or(shortest);
        let longest = own.max_session_timeout.or(self.max_session_timeout).unwrap_or(longest);
        // As in the real server, the upper bound is applied last.
        asked_ms.max(millis(shortest)).min(millis(longest))
    }
}

/// Returns a duration in the milliseconds of the protocol.
pub(crate) fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
