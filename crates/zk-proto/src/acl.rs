//! Access control lists: the permissions of users on a node.
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
    record::{Plain, forms},
    sha1::sha1,
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{self, INT_LEN},
    },
};

/// ACL that grants all permissions to everybody: ZooKeeper's `OPEN_ACL_UNSAFE`.
pub const OPEN_ACL_UNSAFE: &[Acl] = &[Acl::open()];

/// Entry of a node's access control list.
///
/// A server accepts an entry if it knows the scheme and the scheme accepts the id. Otherwise it rejects the
/// whole list with [`INVALID_ACL`](crate::ErrorCode::INVALID_ACL), as it does an empty list. The constructors
/// do not check the id, because the server's authentication providers decide about it.
///
/// `Debug` and `Display` show the user of a digest and not the hash of the password, from which the password
/// can be guessed (CVE-2019-0201).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Acl {
    /// The permissions that the entry grants.
    pub perms: Perms,
    /// The scheme of `id`: `world`, `auth`, `digest`, `ip`, `x509` or `sasl`.
    pub scheme: Cow<'static, str>,
    /// The identity that gets the permissions.
    pub id: Cow<'static, str>,
}

impl Acl {
    /// Length of the shortest entry on the wire, in bytes: both strings empty.
    pub const LEN_MIN: usize = 3 * INT_LEN;

    /// Returns the entry that grants all permissions to everybody: `world:anyone`.
    #[must_use]
    pub const fn open() -> Self {
        Self::world(Perms::ALL)
    }

    /// Returns an entry for everybody: `world:anyone`.
    #[must_use]
    pub const fn world(perms: Perms) -> Self {
        Self { perms, scheme: Cow::Borrowed("world"), id: Cow::Borrowed("anyone") }
    }

    /// Returns an entry for the identities of the connection that sends it.
    ///
    /// The server replaces the entry by one for each authenticated identity of the connection (`digest`,
    /// `x509`, `sasl`). It rejects the entry if the connection has none.
    #[must_use]
    pub const fn auth(perms: Perms) -> Self {
        Self { perms, scheme: Cow::Borrowed("auth"), id: Cow::Borrowed("") }
    }

    /// Returns an entry for the user who authenticates with `password`. [`digest_id`] computes the id.
    ///
    /// A connection authenticates with an [`AuthPacket`](crate::AuthPacket) of the scheme `digest` and the
    /// credential `user:password`.
    #[must_use]
    pub fn digest(perms: Perms, user: &str, password: &str) -> Self {
        Self { perms, scheme: Cow::Borrowed("digest"), id: digest_id(user, password).into() }
    }

    /// Returns an entry for connections from an address, or from a network such as `10.0.0.0/8`. Servers
    /// before 3.9 accept no IPv6 here.
    #[must_use]
    pub fn ip(perms: Perms, network: impl Into<Cow<'static, str>>) -> Self {
        Self { perms, scheme: Cow::Borrowed("ip"), id: network.into() }
    }

    /// Returns an entry for the client whose certificate has this subject, e.g. `CN=alice,O=Example`. The
    /// server must have TLS set up.
    #[must_use]
    pub fn x509(perms: Perms, subject: impl Into<Cow<'static, str>>) -> Self {
        Self { perms, scheme: Cow::Borrowed("x509"), id: subject.into() }
    }

    /// Returns an entry for a user authenticated by SASL, e.g. `alice` or `alice@EXAMPLE.ORG`. The server
    /// must have SASL set up.
    #[must_use]
    pub fn sasl(perms: Perms, user: impl Into<Cow<'static, str>>) -> Self {
        Self { perms, scheme: Cow::Borrowed("sasl"), id: user.into() }
    }
}

/// Prints the entry as ZooKeeper's shell takes it: `scheme:id:perms`, such as `world:anyone:cdrwa`. Of a
/// digest it prints the user.
///
/// ```
/// use zk_proto::{Acl, Perms};
///
/// assert_eq!(Acl::digest(Perms::READ, "alice", "secret").to_string(), "digest:alice:…:r");
/// ```
impl fmt::Display for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme == "digest" {
            let user = self.id.split(':').next().unwrap_or_default();
            write!(f, "digest:{user}:…:{}", self.perms)
        } else {
            write!(f, "{}:{}:{}", self.scheme, self.id, self.perms)
        }
    }
}

impl fmt::Debug for Acl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns the id of a `digest` ACL entry.
///
/// The id is the user's name, a colon, and the base64 of the SHA-1 of `user:password`, as in
/// `DigestAuthenticationProvider.generateDigest` in ZooKeeper's source. The name ends at its first colon, as
/// on the server.
///
/// ```
/// use zk_proto::digest_id;
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

/// Returns the id that a server gives to a client that authenticates by the scheme `digest` with this
/// credential.
///
/// It equals [`digest_id`] if a colon separates user and password.
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
        // For a server, a null scheme is an invalid ACL, like any unknown scheme, and no malformed record.
        // Null therefore reads as empty.
        let scheme = r.opt_text("acl.scheme")?.unwrap_or_default().into_owned();
        let id = r.text("acl.id")?.into_owned();
        Ok(Self { perms, scheme: scheme.into(), id: id.into() })
    }
}

forms! { Plain:
    Cow<'a, [Acl]> =>
        |acl| writer::vector_len(acl),
        |acl, out| writer::put_vector(out, acl),
        |r, field| Ok(r.vector(field, Acl::LEN_MIN, Acl::decode)?.into());
}

/// Set of permissions.
///
/// Servers store and return any bits, so unknown bits are kept. `Debug` prints names, `Display` the letters
/// of ZooKeeper's shell.
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
    /// Permission to read data and list children.
    pub const READ: Self = Self(1);
    /// Permission to set data.
    pub const WRITE: Self = Self(2);
    /// Permission to create children.
    pub const CREATE: Self = Self(4);
    /// Permission to delete children.
    pub const DELETE: Self = Self(8);
    /// Permission to set the ACL.
    pub const ADMIN: Self = Self(16);
    /// All five permissions.
    pub const ALL: Self = Self(31);

    /// Returns whether this set contains all of `other`.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Permissions in the order in which ZooKeeper's shell prints them.
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

    /// Returns the bits without a name.
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
