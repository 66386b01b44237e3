//! Request that lists the identities of the connection.
//!
//! ```text
//! whoAmI          no body
//! WhoAmIResponse  clientInfo: vector<ClientInfo>
//! ClientInfo      authScheme: ustring, user: ustring
//! ```
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{ClientInfo, Decode, Encode, WhoAmIReply};
//!
//! let me = ClientInfo { scheme: "ip".into(), user: "127.0.0.1".into() };
//! let mut out = BytesMut::new();
//! WhoAmIReply { identities: vec![me] }.encode(&mut out);
//! assert_eq!(WhoAmIReply::from_frame(&out.freeze())?.identities[0].user, "127.0.0.1");
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

use crate::{
    record::{JavaText, Plain, forms, record, request},
    request::OpCode,
    wire::{
        Decode,
        writer::{self, INT_LEN},
    },
};

record! {
    /// Request to list the identities of the connection. Needs a server of 3.7.0 or newer; an older one
    /// closes the connection.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct WhoAmI as "whoAmI";
}

request!(WhoAmI: OpCode::WhoAmI -> WhoAmIReply);

record! {
    /// Identities of a connection, unordered: always its address, and all authenticated identities.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct WhoAmIReply as "WhoAmIResponse" {
        /// The identities.
        pub identities: Vec<ClientInfo> as "clientInfo",
    }
}

record! {
    /// Identity of a connection.
    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    pub struct ClientInfo as "ClientInfo" {
        /// The authentication scheme: `ip`, `digest`, `sasl`, `x509` or `super`.
        pub scheme: String as "clientInfo.authScheme" by JavaText,
        /// The user; for a digest only the name, without the hash. Null reads as empty.
        pub user: String as "clientInfo.user" by User,
    }
}

impl ClientInfo {
    /// Length of the shortest identity on the wire, in bytes: both strings empty.
    pub const LEN_MIN: usize = 2 * INT_LEN;
}

forms! { Plain:
    Vec<ClientInfo> =>
        |identities| writer::vector_len(identities),
        |identities, out| writer::put_vector(out, identities),
        |r, field| r.vector(field, ClientInfo::LEN_MIN, ClientInfo::decode);
}

/// Form of a user: text of a server, where null reads as empty.
struct User;

forms! { User:
    String =>
        |text| writer::java_text_len(text),
        |text, out| writer::put_java_text(out, text),
        |r, field| Ok(r.opt_text(field)?.unwrap_or_default().into_owned());
}
