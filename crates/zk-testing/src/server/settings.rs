//! How a server, or an ensemble of them, is set up.

use std::collections::BTreeMap;
use std::time::Duration;

use super::version::Version;

/// The settings of a server or an ensemble, with the defaults of ZooKeeper's own `zoo.cfg` where
/// nothing else is said.
#[derive(Clone, Debug)]
pub struct Settings {
    pub(crate) servers: usize,
    pub(crate) version: Version,
    pub(crate) tick_time: Duration,
    pub(crate) sync_limit: u32,
    pub(crate) min_session_timeout: Option<Duration>,
    pub(crate) max_session_timeout: Option<Duration>,
    /// Servers that differ from the others.
    pub(crate) own: BTreeMap<usize, OwnSettings>,
    pub(crate) extended_types: bool,
    pub(crate) enforce_quota: bool,
    pub(crate) super_digest: Option<String>,
    pub(crate) container_check_interval: Duration,
    pub(crate) container_max_never_used: Option<Duration>,
    pub(crate) four_letter_words: Option<Vec<String>>,
    pub(crate) max_client_connections: usize,
    pub(crate) wall_clock_ms: i64,
    pub(crate) seed: u64,
    pub(crate) local_sessions: bool,
    pub(crate) ipv6_acls: bool,
}

/// What one server of an ensemble may have otherwise than the others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OwnSettings {
    pub(crate) tick_time: Option<Duration>,
    pub(crate) min_session_timeout: Option<Duration>,
    pub(crate) max_session_timeout: Option<Duration>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            servers: 1,
            version: Version::default(),
            tick_time: Duration::from_secs(2),
            sync_limit: 5,
            min_session_timeout: None,
            max_session_timeout: None,
            own: BTreeMap::new(),
            extended_types: true,
            enforce_quota: false,
            super_digest: None,
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
    /// One server with the default settings.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many servers there are; the first leads until another one is elected. 1 is a standalone
    /// server. At most [`SERVERS_MAX`](crate::limits::SERVERS_MAX).
    #[must_use]
    pub fn servers(mut self, count: usize) -> Self {
        self.servers = count.clamp(1, crate::limits::SERVERS_MAX);
        self
    }

    /// Which release to behave like, where releases differ.
    #[must_use]
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// The unit of all timeouts; 2 s by default. Sessions expire at multiples of it. At least 1 ms.
    #[must_use]
    pub fn tick_time(mut self, tick: Duration) -> Self {
        self.tick_time = tick.max(Duration::from_millis(1));
        self
    }

    /// After how many ticks without its leader a follower drops its clients; 5 by default.
    #[must_use]
    pub fn sync_limit(mut self, ticks: u32) -> Self {
        self.sync_limit = ticks;
        self
    }

    /// The shortest session timeout granted; two ticks by default.
    #[must_use]
    pub fn min_session_timeout(mut self, timeout: Duration) -> Self {
        self.min_session_timeout = Some(timeout);
        self
    }

    /// The longest session timeout granted; twenty ticks by default.
    #[must_use]
    pub fn max_session_timeout(mut self, timeout: Duration) -> Self {
        self.max_session_timeout = Some(timeout);
        self
    }

    /// The tick of one server, where it differs: what its sessions expire at multiples of, and what
    /// it pings its followers by, while it leads.
    #[must_use]
    pub fn tick_time_of(mut self, server: usize, tick: Duration) -> Self {
        self.own.entry(server).or_default().tick_time = Some(tick.max(Duration::from_millis(1)));
        self
    }

    /// The shortest session timeout that one server grants to the clients that connect to it.
    #[must_use]
    pub fn min_session_timeout_of(mut self, server: usize, timeout: Duration) -> Self {
        self.own.entry(server).or_default().min_session_timeout = Some(timeout);
        self
    }

    /// The longest session timeout that one server grants to the clients that connect to it.
    #[must_use]
    pub fn max_session_timeout_of(mut self, server: usize, timeout: Duration) -> Self {
        self.own.entry(server).or_default().max_session_timeout = Some(timeout);
        self
    }

    /// Refuses nodes with a time to live, as a real server does unless it was started with
    /// `zookeeper.extendedTypesEnabled=true`. Here they are allowed by default.
    #[must_use]
    pub fn without_extended_types(mut self) -> Self {
        self.extended_types = false;
        self
    }

    /// Enforces hard quotas: `zookeeper.enforceQuota=true`. Off by default.
    #[must_use]
    pub fn enforce_quota(mut self) -> Self {
        self.enforce_quota = true;
        self
    }

    /// Whose digest is above all ACLs: `user:hash`, as
    /// [`digest_id`](proto::digest_id) makes it. Nobody's by default.
    #[must_use]
    pub fn super_digest(mut self, id: impl Into<String>) -> Self {
        self.super_digest = Some(id.into());
        self
    }

    /// How often empty containers and outlived TTL nodes are deleted; every minute by default.
    #[must_use]
    pub fn container_check_interval(mut self, interval: Duration) -> Self {
        self.container_check_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// After how long a container is deleted that never had a child; never by default.
    #[must_use]
    pub fn container_max_never_used(mut self, interval: Duration) -> Self {
        self.container_max_never_used = Some(interval);
        self
    }

    /// The only four-letter words to be answered. By default all are, unlike on a real server,
    /// which answers `srvr`.
    #[must_use]
    pub fn four_letter_words<'a>(mut self, words: impl IntoIterator<Item = &'a str>) -> Self {
        self.four_letter_words = Some(words.into_iter().map(str::to_owned).collect());
        self
    }

    /// How many connections one address may have; 0, the default, is any number. A real server
    /// has 60.
    #[must_use]
    pub fn max_client_connections(mut self, count: usize) -> Self {
        self.max_client_connections = count;
        self
    }

    /// The time of day at the start, in milliseconds since 1970. Some day in 2023 by default, so
    /// that a test sees the same times in every run.
    #[must_use]
    pub fn wall_clock_ms(mut self, ms: i64) -> Self {
        self.wall_clock_ms = ms;
        self
    }

    /// What faults with a probability draw their numbers from; 0 by default.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Makes a read-only server refuse new sessions, as a real one does unless it was started with
    /// `localSessionsEnabled=true`: with a bare reply header.
    #[must_use]
    pub fn without_local_sessions(mut self) -> Self {
        self.local_sessions = false;
        self
    }

    /// Refuses ACLs with IPv6 addresses in any version, as releases of 3.9 before 3.9.4 do.
    #[must_use]
    pub fn without_ipv6_acls(mut self) -> Self {
        self.ipv6_acls = false;
        self
    }

    pub(crate) fn knows_ipv6_acls(&self) -> bool {
        self.ipv6_acls && self.version.knows_ipv6_acls()
    }

    pub(crate) fn tick(&self, server: usize) -> Duration {
        self.own.get(&server).and_then(|own| own.tick_time).unwrap_or(self.tick_time)
    }

    /// The timeout that a server grants to a client that asks for this many milliseconds.
    pub(crate) fn negotiate_ms(&self, server: usize, asked_ms: i32) -> i32 {
        let own = self.own.get(&server).copied().unwrap_or_default();
        let tick = self.tick(server);
        let shortest = own.min_session_timeout.or(self.min_session_timeout).unwrap_or(tick * 2);
        let longest = own.max_session_timeout.or(self.max_session_timeout).unwrap_or(tick * 20);
        // Like the server: the upper bound has the last word.
        asked_ms.max(millis(shortest)).min(millis(longest))
    }
}

/// A duration as the protocol writes it.
pub(crate) fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
