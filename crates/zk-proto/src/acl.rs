//! Who may do what with a node.
//!
//! ```text
//! ACL  perms: int, scheme: ustring, id: ustring      (in ZooKeeper's source: perms, Id)
//! ```
//!
//! ```
//! use zk_proto::{Acl, Perms};
//!
//! // Everybody reads, `alice` does everything.
//! let acl = [Acl::world(Perms::READ), Acl::digest(Perms::ALL, "alice", "secret")];
//! assert_eq!(acl[0].id, "anyone");
//! assert!(acl[1].id.starts_with("alice:"));
//! assert!(acl[1].perms.contains(Perms::READ | Perms::WRITE));
//! ```

use std::{
    borrow::Cow,
    fmt::{self, Write},
    ops::{BitOr, BitOrAssign},
};

use bytes::{BufMut, BytesMut};

use crate::{
    base64::push_base64,
    sha1::sha1,
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

/// The list that permits everything to everybody.
pub const OPEN_ACL: &[Acl] = &[Acl::open()];

/// One entry of a node's access control list.
///
/// An entry is valid only if the server knows its scheme and takes the id for one of it; else it
/// refuses the whole list with [`INVALID_ACL`](crate::ErrorCode::INVALID_ACL), like an empty one.
/// The constructors do not check the id: which ones are valid is up to the server's providers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Acl {
    /// What the entry permits.
    pub perms: Perms,
    /// How `id` is to be understood: `world`, `auth`, `digest`, `ip`, `x509` or `sasl`.
    pub scheme: Cow<'static, str>,
    /// Whom the entry permits it.
    pub id: Cow<'static, str>,
}

impl Acl {
    /// Length of the shortest entry on the wire, in bytes: both strings empty.
    pub const LEN_MIN: usize = 3 * INT_LEN;

    /// The entry that permits everything to everybody: `world:anyone`.
    #[must_use]
    pub const fn open() -> Self {
        Self::world(Perms::ALL)
    }

    /// The entry for everybody: `world:anyone`.
    #[must_use]
    pub const fn world(perms: Perms) -> Self {
        Self { perms, scheme: Cow::Borrowed("world"), id: Cow::Borrowed("anyone") }
    }

    /// The entry for whoever sends it. The server replaces it by one for each identity that the
    /// connection has proved (`digest`, `x509`, `sasl`), and refuses it if there is none.
    #[must_use]
    pub const fn auth(perms: Perms) -> Self {
        Self { perms, scheme: Cow::Borrowed("auth"), id: Cow::Borrowed("") }
    }

    /// The entry for who knows `password`: [`digest_id`] says how it is told.
    ///
    /// Such a connection proves itself with an [`AuthPacket`](crate::AuthPacket) of the scheme
    /// `digest` and the credential `user:password`.
    #[must_use]
    pub fn digest(perms: Perms, user: &str, password: &str) -> Self {
        Self { perms, scheme: Cow::Borrowed("digest"), id: digest_id(user, password).into() }
    }

    /// The entry for the connections from an address, or from a network such as `10.0.0.0/8`.
    /// Servers before 3.9 take no IPv6 here.
    #[must_use]
    pub fn ip(perms: Perms, network: impl Into<Cow<'static, str>>) -> Self {
        Self { perms, scheme: Cow::Borrowed("ip"), id: network.into() }
    }

    /// The entry for who holds the certificate of a subject, e.g. `CN=alice,O=Example`. The server
    /// must have TLS set up.
    #[must_use]
    pub fn x509(perms: Perms, subject: impl Into<Cow<'static, str>>) -> Self {
        Self { perms, scheme: Cow::Borrowed("x509"), id: subject.into() }
    }

    /// The entry for who has proved to be `user` with SASL, e.g. `alice` or `alice@EXAMPLE.ORG`.
    /// The server must have SASL set up.
    #[must_use]
    pub fn sasl(perms: Perms, user: impl Into<Cow<'static, str>>) -> Self {
        Self { perms, scheme: Cow::Borrowed("sasl"), id: user.into() }
    }
}

/// The id of a `digest` ACL entry: the user's name, a colon, and the base64 of the SHA-1 of
/// `user:password` (`DigestAuthenticationProvider.generateDigest` in ZooKeeper's source).
///
/// As for the server, the name ends at its first colon.
///
/// ```
/// use zk_proto::acl::digest_id;
///
/// assert_eq!(digest_id("super", "test"), "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
/// ```
#[must_use]
pub fn digest_id(user: &str, password: &str) -> String {
    let name = user.split(':').next().unwrap_or_default();
    let mut id = format!("{name}:");
    push_base64(&sha1(&[user.as_bytes(), b":", password.as_bytes()]), &mut id);
    id
}

/// The id that a server gives to who authenticates by the scheme `digest` with these credentials:
/// that of [`digest_id`], if there is a colon between user and password.
///
/// ```
/// assert_eq!(zk_proto::credential_id("u:p"), zk_proto::digest_id("u", "p"));
/// assert_eq!(zk_proto::credential_id("alone"), "alone:GwXWN/BAnMmbTdC1Aj5CHFLZt2Q=");
/// ```
#[must_use]
pub fn credential_id(credential: &str) -> String {
    let mut id = format!("{}:", credential.split(':').next().unwrap_or_default());
    push_base64(&sha1(&[credential.as_bytes()]), &mut id);
    id
}

impl Encode for Acl {
    fn encoded_len(&self) -> usize {
        INT_LEN + writer::text_len(&self.scheme) + writer::text_len(&self.id)
    }

    fn encode(&self, out: &mut BytesMut) {
        out.put_i32(self.perms.0);
        writer::put_text(out, &self.scheme);
        writer::put_text(out, &self.id);
    }
}

impl<'a> Decode<'a> for Acl {
    const RECORD: &'static str = "ACL";

    fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let perms = Perms(r.i32("acl.perms")?);
        // A null scheme is no malformed record to a server but an invalid ACL, like any scheme it
        // does not know; so it reads as the empty one.
        let scheme = r.opt_text("acl.scheme")?.unwrap_or_default().into_owned();
        let id = r.text("acl.id")?.into_owned();
        Ok(Self { perms, scheme: scheme.into(), id: id.into() })
    }
}

/// A set of permissions.
///
/// Servers store and return any bits, so unknown ones are kept. `Debug` prints names, `Display` the
/// letters of ZooKeeper's shell.
///
/// ```
/// use zk_proto::Perms;
///
/// let perms = Perms::READ | Perms::WRITE;
/// assert_eq!(format!("{perms:?} {perms}"), "READ|WRITE rw");
/// assert_eq!(format!("{:?} {}", Perms::ALL, Perms::ALL), "ALL cdrwa");
/// assert_eq!(format!("{:?} {}", Perms(33), Perms(33)), "READ|0x20 r+0x20");
/// assert_eq!(format!("{:?} {}", Perms(0), Perms(0)), "NONE -");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Perms(pub i32);

impl Perms {
    /// Reading data and listing children.
    pub const READ: Self = Self(1);
    /// Setting data.
    pub const WRITE: Self = Self(2);
    /// Creating children.
    pub const CREATE: Self = Self(4);
    /// Deleting children.
    pub const DELETE: Self = Self(8);
    /// Setting the ACL.
    pub const ADMIN: Self = Self(16);
    /// All five.
    pub const ALL: Self = Self(31);

    /// Whether all of `other` is in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// The permissions in the order in which ZooKeeper's shell prints them.
const NAMES: [(Perms, &str, char); 5] = [
    (Perms::CREATE, "CREATE", 'c'),
    (Perms::DELETE, "DELETE", 'd'),
    (Perms::READ, "READ", 'r'),
    (Perms::WRITE, "WRITE", 'w'),
    (Perms::ADMIN, "ADMIN", 'a'),
];

impl Perms {
    fn named(self) -> impl Iterator<Item = (&'static str, char)> {
        let held = NAMES.into_iter().filter(move |(perm, ..)| self.contains(*perm));
        held.map(|(_, name, letter)| (name, letter))
    }

    /// The bits that have no name.
    const fn unknown(self) -> i32 {
        self.0 & !Self::ALL.0
    }
}

impl fmt::Display for Perms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("-");
        }
        self.named().try_for_each(|(_, letter)| f.write_char(letter))?;
        match self.unknown() {
            0 => Ok(()),
            bits => write!(f, "+{bits:#x}"),
        }
    }
}

impl fmt::Debug for Perms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self(0) => return f.write_str("NONE"),
            Self::ALL => return f.write_str("ALL"),
            _ => {}
        }
        let mut separator = "";
        for (name, _) in self.named() {
            write!(f, "{separator}{name}")?;
            separator = "|";
        }
        match self.unknown() {
            0 => Ok(()),
            bits => write!(f, "{separator}{bits:#x}"),
        }
    }
}

impl BitOr for Perms {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Perms {
    fn bitor_assign(&mut self, other: Self) {
        *self = *self | other;
    }
}
