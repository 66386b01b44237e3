//! SASL authentication, step by step.
//!
//! ```text
//! GetSASLRequest   token: buffer
//! SetSASLResponse  token: buffer
//! ```
//!
//! No other request may be in flight during the exchange. It takes place after the connect exchange and
//! before all other requests. Its replies may overtake others.
//!
//! The mechanism defines the tokens. With DIGEST-MD5 the client begins with an empty token. The server
//! replies with a challenge, the client with a response, and the server with its own proof.

use std::{borrow::Cow, fmt};

use bytes::Bytes;

use crate::{
    record::{Plain, forms, record, request},
    request::OpCode,
    wire::{DecodeErrorKind, writer},
};

record! {
    /// Request with one step of a SASL exchange. Needs a server of 3.4 or newer.
    ///
    /// The token cannot be null, because a server closes the connection for a null token. A server rejects a
    /// step with [`AUTH_FAILED`](crate::ErrorCode::AUTH_FAILED). A server that requires SASL uses
    /// [`SESSION_CLOSED_REQUIRE_SASL_AUTH`](crate::ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH) instead.
    /// After either error the server closes the connection.
    ///
    /// ```
    /// use zk_proto::Sasl;
    ///
    /// let step = Sasl { token: b"nonce=1"[..].into() };
    /// assert!(!format!("{step:?}").contains("nonce"));
    /// ```
    #[derive(Clone, PartialEq, Eq)]
    pub struct Sasl<'a> as "GetSASLRequest" {
        /// The mechanism's token; may be empty.
        pub token: Cow<'a, [u8]>,
    }
}

request!(Sasl<'_>: OpCode::Sasl -> SaslReply);

forms! { Plain:
    Cow<'a, [u8]> =>
        |data| writer::buffer_len(Some(data)),
        |data, out| writer::put_buffer(out, Some(data)),
        |r, field| {
            let start = r.offset();
            let data = r.slice(field)?.map(Cow::Borrowed);
            data.ok_or_else(|| r.error(field, start, DecodeErrorKind::NullBuffer))
        };
}

/// Prints the length of the token only, because the token proves an identity.
impl fmt::Debug for Sasl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sasl").field("token_len", &self.token.len()).finish_non_exhaustive()
    }
}

record! {
    /// Reply of the server to one step.
    #[derive(Clone, PartialEq, Eq)]
    pub struct SaslReply as "SetSASLResponse" {
        /// The mechanism's token. `None`, without an error in the header, comes from a server that has no
        /// SASL set up or continues without it. The exchange has failed then, and no further reply follows.
        pub token: Option<Bytes>,
    }
}

/// Prints the length of the token only.
impl fmt::Debug for SaslReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SaslReply")
            .field("token_len", &self.token.as_ref().map(Bytes::len))
            .finish_non_exhaustive()
    }
}
