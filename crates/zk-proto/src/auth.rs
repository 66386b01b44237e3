//! Authentication of a connection by scheme and credential.
//!
//! ```text
//! AuthPacket  type: int, scheme: ustring, auth: buffer
//! ```
//!
//! The reply has no body. [`Acl`](crate::Acl) describes the schemes.

use std::{borrow::Cow, fmt};

use crate::{
    record::{NullAsEmpty, record, request},
    request::OpCode,
};

record! {
    /// Request to add an identity to the connection. Send it with [`xid::AUTH`](crate::xid::AUTH).
    ///
    /// The identity belongs to the connection, not to the session. The client has to send it again after
    /// every reconnect, before it re-registers its watches.
    ///
    /// The reply may overtake replies to earlier requests. A server rejects the request with
    /// [`AUTH_FAILED`](crate::ErrorCode::AUTH_FAILED) and then closes the connection.
    ///
    /// ```
    /// use zk_proto::AuthPacket;
    ///
    /// let packet = AuthPacket {
    ///     auth_type: 0,
    ///     scheme: "digest".into(),
    ///     auth: Some(b"user:secret"[..].into()),
    /// };
    /// assert!(!format!("{packet:?}").contains("secret"));
    /// ```
    #[derive(Clone, PartialEq, Eq)]
    pub struct AuthPacket<'a> as "AuthPacket" {
        /// Always 0; servers ignore it.
        pub auth_type: i32 as "type",
        /// The kind of credential, e.g. `digest`. Null reads as empty: servers know neither as a scheme.
        pub scheme: Cow<'a, str> as "scheme" by NullAsEmpty,
        /// The credential; for `digest` it is the text `user:password`.
        pub auth: Option<Cow<'a, [u8]>>,
    }
}

request!(AuthPacket<'_>: OpCode::Auth -> ());

/// Prints all fields except the credential.
impl fmt::Debug for AuthPacket<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthPacket")
            .field("auth_type", &self.auth_type)
            .field("scheme", &self.scheme)
            .finish_non_exhaustive()
    }
}
