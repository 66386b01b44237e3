//! Which release of ZooKeeper the server behaves like, where releases differ.

/// A release of ZooKeeper to behave like.
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
    /// What `srvr` calls the server.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::V3_8 => "3.8.0-zk-testing, built on 2022-02-25 08:49 UTC",
            Self::V3_9 => "3.9.5-zk-testing, built on 2026-01-01 00:00 UTC",
        }
    }

    /// Whether a notification carries the zxid of its transaction (ZOOKEEPER-4655), or -1.
    pub(crate) fn events_carry_zxid(self) -> bool {
        self == Self::V3_9
    }

    /// Whether a create2 or createContainer in a multi is one (ZOOKEEPER-4026), or its flags say
    /// what it is.
    pub(crate) fn multi_keeps_create_ops(self) -> bool {
        self == Self::V3_9
    }

    /// Whether bad create flags in a multi fail that operation, or the parsing of the whole; those
    /// of a node with a time to live are bad where no such time is given.
    pub(crate) fn bad_flags_fail_their_op(self) -> bool {
        self == Self::V3_8
    }

    /// Whether exists asks for READ.
    pub(crate) fn exists_checks_read(self) -> bool {
        self == Self::V3_9
    }

    /// Whether a connection has any number of modes of watches on a path, or the last one asked
    /// for (ZOOKEEPER-4466).
    pub(crate) fn watch_modes_are_independent(self) -> bool {
        self == Self::V3_9
    }

    /// Whether a recursive watch is in the table of child watches, too (ZOOKEEPER-4475).
    pub(crate) fn recursive_watches_are_child_watches(self) -> bool {
        self == Self::V3_8
    }

    /// Whether an ip ACL may have an IPv6 address, since 3.9.4 (ZOOKEEPER-4240).
    pub(crate) fn knows_ipv6_acls(self) -> bool {
        self == Self::V3_9
    }

    /// Whether a write that cannot be parsed takes a zxid. (A multi does on all.)
    pub(crate) fn unparsable_write_takes_zxid(self) -> bool {
        self == Self::V3_8
    }

    /// Whether there is no transaction, where a server fails between taking a zxid and making one;
    /// or one that says so (ZOOKEEPER-4575).
    pub(crate) fn failed_write_loses_its_zxid(self) -> bool {
        self == Self::V3_8
    }

    /// Whether a check outside of a multi is refused, or never answered.
    pub(crate) fn refuses_lone_check(self) -> bool {
        self == Self::V3_9
    }
}
