//! Ids of sessions and of transactions.

use std::{fmt, num::ParseIntError, str::FromStr};

use bytes::BufMut;

use crate::{
    record::{Plain, forms},
    wire::writer::LONG_LEN,
};

/// Id of a session.
///
/// `Display` and `Debug` print it like ZooKeeper: in hexadecimal, after `0x`. `FromStr` parses it, with or
/// without `0x`, and without a sign.
///
/// ```
/// use zk_proto::SessionId;
///
/// let id = SessionId(0x100_0000_0001);
/// assert_eq!(format!("{id} {id:?} {id:x}"), "0x10000000001 0x10000000001 10000000001");
/// assert_eq!("0x10000000001".parse(), Ok(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SessionId(pub i64);

impl SessionId {
    /// No session: the owner of a node that is not ephemeral, and the id in a request for a new session.
    pub const NONE: Self = Self(0);
}

/// Number of a transaction (ZooKeeper transaction id). A later transaction has a greater zxid.
///
/// `Display` and `Debug` print it like ZooKeeper: in hexadecimal, after `0x`. `FromStr` parses it, with or
/// without `0x`, and without a sign.
///
/// ```
/// use zk_proto::Zxid;
///
/// let zxid = Zxid(0x3_0000_002a); // transaction 0x2a of the leader's epoch 3
/// assert_eq!(format!("{zxid} {zxid:?} {zxid:x}"), "0x30000002a 0x30000002a 30000002a");
/// assert_eq!("30000002a".parse(), Ok(zxid));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Zxid(pub i64);

impl Zxid {
    /// No transaction, or the time before the first one.
    pub const ZERO: Self = Self(0);
}

/// Implements the formatting and parsing of an id.
macro_rules! hexadecimal {
    ($($id:ident)*) => {$(
        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&format!("{:#x}", self.0))
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl fmt::LowerHex for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::LowerHex::fmt(&self.0, f)
            }
        }

        impl FromStr for $id {
            type Err = ParseIntError;

            fn from_str(text: &str) -> Result<Self, ParseIntError> {
                let digits = text.strip_prefix("0x").unwrap_or(text);
                // The parser of numbers accepts a plus sign, and rejects a minus sign.
                let digits = if digits.starts_with('+') { "-" } else { digits };
                // ZooKeeper prints the bits of negative numbers.
                let bits = u64::from_str_radix(digits, 16)?;
                Ok(Self(i64::from_ne_bytes(bits.to_ne_bytes())))
            }
        }
    )*};
}

hexadecimal!(SessionId Zxid);

forms! { Plain:
    SessionId => |_| LONG_LEN, |id, out| out.put_i64(id.0), |r, field| r.i64(field).map(SessionId);
    Zxid => |_| LONG_LEN, |zxid, out| out.put_i64(zxid.0), |r, field| r.i64(field).map(Zxid);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_padded_to_a_width() {
        let (session, zxid) = (SessionId(0x1a), Zxid(-1));
        assert_eq!(format!("{session:<6}|{session:>6}|{session:*^6}|"), "0x1a  |  0x1a|*0x1a*|");
        assert_eq!(format!("{session:6?}|{zxid:3}"), "0x1a  |0xffffffffffffffff");
    }

    #[test]
    fn ids_with_a_sign_or_other_characters_are_rejected() {
        for text in ["+1", "0x+1", "-1", "0x-1", "", "0x", "0x0x1", " 1", "1g", "10000000000000000"]
        {
            assert!(text.parse::<Zxid>().is_err(), "{text}");
            assert!(text.parse::<SessionId>().is_err(), "{text}");
        }
        assert_eq!("ffffffffffffffff".parse(), Ok(SessionId(-1)));
    }
}
