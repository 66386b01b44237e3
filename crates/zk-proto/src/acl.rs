//! Who may do what with a node.
//!
//! ```
//! use zk_proto::{Acl, Perms};
//!
//! let acl = Acl {
//!     perms: Perms::READ | Perms::WRITE,
//!     scheme: "digest".into(),
//!     id: "user:hash".into(),
//! };
//! assert!(acl.perms.contains(Perms::READ));
//! assert!(!acl.perms.contains(Perms::READ | Perms::ADMIN));
//! assert_eq!(Acl::open().id, "anyone");
//! ```

use std::{borrow::Cow, ops::BitOr};

use bytes::{BufMut, BytesMut};

use crate::wire::{
    Decode, DecodeError, Encode, Reader,
    writer::{self, INT_LEN},
};

/// The list that permits everything to everybody.
pub const OPEN_ACL: &[Acl] = &[Acl::open()];

/// One entry of a node's access control list.
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
        Self { perms: Perms::ALL, scheme: Cow::Borrowed("world"), id: Cow::Borrowed("anyone") }
    }
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
/// Servers store and return any bits, so unknown ones are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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

impl BitOr for Perms {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}
