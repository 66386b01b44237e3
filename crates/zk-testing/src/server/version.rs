//! Differences between the releases of ZooKeeper.

/// Release of ZooKeeper whose behaviour the servers reproduce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Version {
    /// 3.8.0, as Debian packages it (with the fix of CVE-2024-23944).
    #[default]
    V3_8,
    /// 3.9.5.
    V3_9,
}

impl Version {
    /// Returns the version text of the `srvr` word.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::V3_8 => "3.8.0-zk-testing, built on 2022-02-25 08:49 UTC",
            Self::V3_9 => "3.9.5-zk-testing, built on 2026-01-01 00:00 UTC",
        }
    }

    /// Returns whether a notification carries the zxid of its transaction (ZOOKEEPER-4655).
    /// Otherwise it carries -1.
    pub(crate) fn events_carry_zxid(self) -> bool {
        self == Self::V3_9
    }

    /// Returns whether a create2 or createContainer in a multi stays that operation
    /// (ZOOKEEPER-4026). Otherwise its flags decide.
    pub(crate) fn multi_keeps_create_ops(self) -> bool {
        self == Self::V3_9
    }

    /// Returns whether bad create flags in a multi fail only that operation. Otherwise they fail
    /// the parsing of the whole multi. The flags of a TTL node are bad in an operation without a
    /// time to live.
    pub(crate) fn bad_flags_fail_their_op(self) -> bool {
        self == Self::V3_8
    }

    /// Returns whether exists requires READ.
    pub(crate) fn exists_checks_read(self) -> bool {
        self == Self::V3_9
    }

    /// Returns whether a connection can have watches of several modes on a path. Otherwise only the
    /// last mode requested stays (ZOOKEEPER-4466).
    pub(crate) fn watch_modes_are_independent(self) -> bool {
        self == Self::V3_9
    }

    /// Returns whether a recursive watch is also in the table of child watches (ZOOKEEPER-4475).
    pub(crate) fn recursive_watches_are_child_watches(self) -> bool {
        self == Self::V3_8
    }

    /// Returns whether an ip ACL may have an IPv6 address, as since 3.9.4 (ZOOKEEPER-4240).
    pub(crate) fn knows_ipv6_acls(self) -> bool {
        self == Self::V3_9
    }

    /// Returns whether a write that cannot be parsed takes a zxid. A multi takes one in every
    /// version.
    pub(crate) fn unparsable_write_takes_zxid(self) -> bool {
        self == Self::V3_8
    }

    /// Returns whether a server logs no transaction when it fails between taking a zxid and
    /// creating one. Otherwise it logs an error transaction (ZOOKEEPER-4575).
    pub(crate) fn failed_write_loses_its_zxid(self) -> bool {
        self == Self::V3_8
    }

    /// Returns whether a check outside a multi is refused. Otherwise it is never answered.
    pub(crate) fn refuses_lone_check(self) -> bool {
        self == Self::V3_9
    }
}
