//! Differences between the servers that the model reproduces.

use std::time::Duration;

use proto::OpCode;

/// Server whose behaviour the model reproduces.
///
/// Those of Apache ZooKeeper were compared with real servers, except 3.5. ClickHouse Keeper and
/// RaftKeeper are modelled from their sources and were never run here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Version {
    /// ZooKeeper 3.4.14.
    V3_4,
    /// ZooKeeper 3.5, modelled from its source.
    V3_5,
    /// ZooKeeper 3.6.3.
    V3_6,
    /// ZooKeeper 3.8.0, as Debian packages it (with the fix of CVE-2024-23944).
    #[default]
    V3_8,
    /// ZooKeeper 3.9.5.
    V3_9,
    /// ClickHouse Keeper 25.8 with its default settings, modelled from its source.
    Keeper25_8,
    /// ClickHouse Keeper 26.6 with its default settings, modelled from its source.
    Keeper26_6,
    /// RaftKeeper of 2025, modelled from its source.
    RaftKeeper,
}

impl Version {
    /// All servers.
    pub const ALL: [Self; 8] = [
        Self::V3_4,
        Self::V3_5,
        Self::V3_6,
        Self::V3_8,
        Self::V3_9,
        Self::Keeper25_8,
        Self::Keeper26_6,
        Self::RaftKeeper,
    ];

    /// Returns a short name, such as `3.9` or `keeper-26.6`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V3_4 => "3.4",
            Self::V3_5 => "3.5",
            Self::V3_6 => "3.6",
            Self::V3_8 => "3.8",
            Self::V3_9 => "3.9",
            Self::Keeper25_8 => "keeper-25.8",
            Self::Keeper26_6 => "keeper-26.6",
            Self::RaftKeeper => "raftkeeper",
        }
    }

    /// Returns the name before the version in the answer to the `srvr` word.
    pub(crate) const fn product(self) -> &'static str {
        match self {
            Self::Keeper25_8 | Self::Keeper26_6 => "ClickHouse Keeper",
            Self::RaftKeeper => "RaftKeeper",
            _ => "Zookeeper",
        }
    }

    /// Returns the version text of the `srvr` word.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::V3_4 => "3.4.14-zk-testing, built on 03/06/2019 16:18 GMT",
            Self::V3_5 => "3.5.10-zk-testing, built on 05/28/2022 18:57 GMT",
            Self::V3_6 => "3.6.3-zk-testing, built on 04/08/2021 16:35 GMT",
            Self::V3_8 => "3.8.0-zk-testing, built on 2022-02-25 08:49 UTC",
            Self::V3_9 => "3.9.5-zk-testing, built on 2026-01-01 00:00 UTC",
            Self::Keeper25_8 => "v25.8-zk-testing",
            Self::Keeper26_6 => "v26.6-zk-testing",
            Self::RaftKeeper => "RaftKeeper-zk-testing",
        }
    }

    /// Returns whether this is an Apache release from `first` on.
    fn is_since(self, first: Self) -> bool {
        self.is_apache() && self >= first
    }

    fn is_apache(self) -> bool {
        self <= Self::V3_9
    }

    /// Returns whether this is ClickHouse Keeper.
    pub(crate) fn is_keeper(self) -> bool {
        matches!(self, Self::Keeper25_8 | Self::Keeper26_6)
    }

    /// Returns whether this is ClickHouse Keeper or its descendant RaftKeeper.
    pub(crate) fn is_keeper_like(self) -> bool {
        !self.is_apache()
    }

    /// Returns whether the server has an operation, and has it enabled.
    // ClickHouse Keeper: `OpNum` of ZooKeeperConstants.h and `KeeperContext::isOperationSupported`.
    // RaftKeeper: the factory of ZooKeeperCommon.cpp.
    #[must_use]
    pub fn has_op(self, op: OpCode) -> bool {
        match op {
            OpCode::Create2 => self.is_since(Self::V3_5) || self == Self::Keeper26_6,
            OpCode::Reconfig | OpCode::CreateContainer | OpCode::CreateTtl => {
                self.is_since(Self::V3_5)
            }
            OpCode::CheckWatches | OpCode::RemoveWatches => {
                self.is_since(Self::V3_5) || self == Self::Keeper26_6
            }
            OpCode::MultiRead => self.is_since(Self::V3_6) || self.is_keeper_like(),
            OpCode::GetEphemerals | OpCode::GetAllChildrenNumber => self.is_since(Self::V3_6),
            OpCode::SetWatches2 | OpCode::AddWatch => {
                self.is_since(Self::V3_6) || self == Self::Keeper26_6
            }
            OpCode::WhoAmI => self.is_since(Self::V3_8),
            OpCode::SetWatches => self != Self::Keeper25_8,
            OpCode::Sasl => self.is_apache(),
            _ => true,
        }
    }

    /// Returns the shortest and the longest session timeout of the default settings.
    pub(crate) fn session_timeouts(self, tick: Duration) -> (Duration, Duration) {
        // `DEFAULT_MIN_SESSION_TIMEOUT_MS` and `DEFAULT_MAX_SESSION_TIMEOUT_MS` of either source.
        match self {
            Self::Keeper25_8 | Self::Keeper26_6 => {
                (Duration::from_secs(10), Duration::from_secs(100))
            }
            Self::RaftKeeper => (Duration::from_secs(1), Duration::from_secs(3_600)),
            _ => (tick * 2, tick * 20),
        }
    }

    /// Returns whether a client can resume its session on another connection.
    pub(crate) fn resumes_sessions(self) -> bool {
        !self.is_keeper()
    }

    /// Returns the period at which expired sessions are looked for, by default.
    pub(crate) fn default_tick(self) -> Duration {
        if self.is_apache() {
            return Duration::from_secs(2);
        }
        // `dead_session_check_period_ms`.
        Duration::from_millis(500)
    }

    /// Returns whether zxids have the leader's epoch in their high half. Otherwise they count the
    /// entries of the log.
    pub(crate) fn zxids_have_epochs(self) -> bool {
        self.is_apache()
    }

    /// Returns the number of the next sequential child after this one. Only the latest Keeper counts
    /// in 64 bits.
    pub(crate) fn next_sequence(self, sequence: i64) -> i64 {
        match i32::try_from(sequence) {
            Ok(sequence) if self != Self::Keeper26_6 => sequence.wrapping_add(1).into(),
            _ => sequence + 1,
        }
    }

    /// Returns whether the deletion of a child moves the parent's pzxid. At Keeper it does not
    /// (ClickHouse issue 115457).
    pub(crate) fn deletes_move_pzxid(self) -> bool {
        !self.is_keeper()
    }

    /// Returns whether setData of a child counts in the parent's cversion (ClickHouse issue 115457).
    pub(crate) fn counts_child_sets(self) -> bool {
        self.is_keeper()
    }

    /// Returns whether only a connection that may read a node receives its events (CVE-2024-23944).
    pub(crate) fn events_need_read(self) -> bool {
        self.is_since(Self::V3_8)
    }

    /// Returns whether password hashes are masked for those without ADMIN.
    pub(crate) fn masks_digests(self) -> bool {
        self.is_apache()
    }

    /// Returns whether a notification carries the zxid of its transaction (ZOOKEEPER-4655).
    /// Otherwise it carries -1.
    pub(crate) fn events_carry_zxid(self) -> bool {
        self.is_since(Self::V3_9)
    }

    /// Returns whether a create2 or createContainer in a multi stays that operation
    /// (ZOOKEEPER-4026). Otherwise its flags decide.
    pub(crate) fn multi_keeps_create_ops(self) -> bool {
        self.is_since(Self::V3_9) || self.is_keeper_like()
    }

    /// Returns whether bad create flags in a multi fail only that operation. Otherwise they fail
    /// the parsing of the whole multi. The flags of a TTL node are bad in an operation without a
    /// time to live.
    pub(crate) fn bad_flags_fail_their_op(self) -> bool {
        !self.is_since(Self::V3_9)
    }

    /// Returns whether hard quotas can be enforced (ZOOKEEPER-3301).
    pub(crate) fn can_enforce_quotas(self) -> bool {
        self.is_since(Self::V3_8)
    }

    /// Returns whether a delete finds a missing node before a missing permission.
    pub(crate) fn finds_node_before_permission(self) -> bool {
        self == Self::V3_4
    }

    /// Returns whether a path may contain the first and last characters of the illegal ranges.
    pub(crate) fn allows_edge_characters(self) -> bool {
        self == Self::V3_4
    }

    /// Returns whether the server fails on a null ACL or scheme. Otherwise the ACL is empty, and the
    /// scheme unknown.
    pub(crate) fn fails_on_null_acl(self) -> bool {
        self == Self::V3_4
    }

    /// Returns whether exists requires READ.
    pub(crate) fn exists_checks_read(self) -> bool {
        self.is_since(Self::V3_9)
    }

    /// Returns whether a connection can have watches of several modes on a path. Otherwise only the
    /// last mode requested stays (ZOOKEEPER-4466).
    pub(crate) fn watch_modes_are_independent(self) -> bool {
        self.is_since(Self::V3_9) || self.is_keeper_like()
    }

    /// Returns whether a recursive watch is also in the table of child watches (ZOOKEEPER-4475).
    pub(crate) fn recursive_watches_are_child_watches(self) -> bool {
        !self.watch_modes_are_independent()
    }

    /// Returns whether an ip ACL may have an IPv6 address, as since 3.9.4 (ZOOKEEPER-4240).
    pub(crate) fn knows_ipv6_acls(self) -> bool {
        self.is_since(Self::V3_9)
    }

    /// Returns whether an ip ACL may have a mask. 3.4 takes it for a part of the address.
    pub(crate) fn knows_network_acls(self) -> bool {
        self != Self::V3_4
    }

    /// Returns whether the entries for `auth` go to the end of an ACL.
    pub(crate) fn appends_auth_entries(self) -> bool {
        self == Self::V3_4
    }

    /// Returns whether a write that cannot be parsed takes a zxid. A multi takes one in every
    /// version.
    pub(crate) fn unparsable_write_takes_zxid(self) -> bool {
        !self.is_since(Self::V3_9)
    }

    /// Returns whether a server logs no transaction when it fails between taking a zxid and
    /// creating one. Otherwise it logs an error transaction (ZOOKEEPER-4575).
    pub(crate) fn failed_write_loses_its_zxid(self) -> bool {
        !self.is_since(Self::V3_9)
    }

    /// Returns whether a check outside a multi is refused. Otherwise it is never answered.
    pub(crate) fn refuses_lone_check(self) -> bool {
        self.is_since(Self::V3_9)
    }
}
