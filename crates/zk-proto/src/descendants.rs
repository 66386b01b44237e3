//! Request that counts all descendants of a node.
//!
//! ```text
//! GetAllChildrenNumberRequest   path: ustring
//! GetAllChildrenNumberResponse  totalNumber: int
//! ```

use std::borrow::Cow;

use crate::{
    record::{record, request},
    request::OpCode,
};

record! {
    /// Request to count all descendants of a node. Needs a server of 3.6.0 or newer; an older one closes the
    /// connection.
    ///
    /// The server walks its whole tree to count them. It rejects the request with
    /// [`NO_NODE`](crate::ErrorCode::NO_NODE) or [`NO_AUTH`](crate::ErrorCode::NO_AUTH).
    ///
    /// ```
    /// use zk_proto::{GetAllChildrenNumber, OpCode, Request};
    ///
    /// let request = GetAllChildrenNumber { path: "/a".into() };
    /// assert_eq!(request.path(), Some("/a"));
    /// assert_eq!(GetAllChildrenNumber::OP, OpCode::GetAllChildrenNumber);
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct GetAllChildrenNumber<'a> as "GetAllChildrenNumberRequest" {
        /// The path of the node.
        pub path: Cow<'a, str>,
    }
}

request!(GetAllChildrenNumber<'_>: OpCode::GetAllChildrenNumber -> AllChildrenNumberReply, path);

record! {
    /// Number of descendants of a node.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct AllChildrenNumberReply as "GetAllChildrenNumberResponse" {
        /// All descendants at all levels, without the node itself.
        pub total: i32 as "totalNumber",
    }
}
