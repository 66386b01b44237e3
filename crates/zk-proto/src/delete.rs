//! Request that deletes a node.
//!
//! ```text
//! DeleteRequest  path: ustring, version: int
//! ```
//!
//! The reply has no body.

use std::borrow::Cow;

use crate::{
    record::{record, request},
    request::OpCode,
};

record! {
    /// Request to delete a node that has no children.
    ///
    /// A server rejects it with [`BAD_ARGUMENTS`](crate::ErrorCode::BAD_ARGUMENTS) (the path is illegal or
    /// reserved by the server), [`NO_NODE`](crate::ErrorCode::NO_NODE),
    /// [`NO_AUTH`](crate::ErrorCode::NO_AUTH) (for the parent),
    /// [`BAD_VERSION`](crate::ErrorCode::BAD_VERSION) or
    /// [`NOT_EMPTY`](crate::ErrorCode::NOT_EMPTY).
    ///
    /// ```
    /// use zk_proto::{Delete, Encode, Request};
    ///
    /// let request = Delete { path: "/a".into(), version: -1 };
    /// assert_eq!(request.path(), Some("/a"));
    /// assert_eq!(request.encoded_len(), 4 + 2 + 4);
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Delete<'a> as "DeleteRequest" {
        /// The path.
        pub path: Cow<'a, str>,
        /// The version that the node's data must have; -1 for any version.
        pub version: i32,
    }
}

request!(Delete<'_>: OpCode::Delete -> (), path);
