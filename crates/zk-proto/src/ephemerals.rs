//! Request that lists the session's ephemeral nodes.
//!
//! ```text
//! GetEphemeralsRequest   prefixPath: ustring
//! GetEphemeralsResponse  ephemerals: vector<ustring>
//! ```

use std::borrow::Cow;

use bytes::BufMut;

use crate::{
    record::{NullAsEmpty, Plain, forms, record, request},
    request::OpCode,
    wire::writer::{self, INT_LEN},
};

record! {
    /// Request to list the paths of this session's ephemeral nodes. Needs a server of 3.6.0 or newer; an
    /// older one closes the connection.
    ///
    /// The server checks no ACL. The only possible errors are those of the connection.
    ///
    /// ```
    /// use zk_proto::{GetEphemerals, Request};
    ///
    /// let locks = GetEphemerals { prefix: "/locks/".into() };
    /// assert_eq!(locks.path(), None); // a prefix, not the path of a node
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetEphemerals<'a> as "GetEphemeralsRequest" {
        /// Prefix of the paths, compared as text: `/a` is a prefix of `/ab`. An empty prefix and `/` match
        /// all paths. Null reads as empty.
        pub prefix: Cow<'a, str> as "prefixPath" by NullAsEmpty,
    }
}

request!(GetEphemerals<'_>: OpCode::GetEphemerals -> EphemeralsReply);

record! {
    /// Paths of a session's ephemeral nodes, in the order of the server's hash table.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct EphemeralsReply as "GetEphemeralsResponse" {
        /// The paths, from the root of the server's tree.
        pub paths: Vec<String> as "ephemerals",
    }
}

forms! { Plain:
    Vec<String> =>
        |paths| INT_LEN + paths.iter().map(|path| writer::text_len(path)).sum::<usize>(),
        |paths, out| {
            out.put_i32(writer::wire_len(paths.len()));
            for path in paths {
                writer::put_text(out, path);
            }
        },
        |r, field| r.vector(field, INT_LEN, |r| r.text("ephemerals.path").map(Cow::into_owned));
}
