//! Request that checks whether a node exists.
//!
//! ```text
//! ExistsRequest   path: ustring, watch: boolean
//! ExistsResponse  stat: Stat
//! ```

use std::borrow::Cow;

use crate::{
    record::{record, request},
    request::OpCode,
    stat::Stat,
};

record! {
    /// Request to check whether a node exists and return its Stat.
    ///
    /// A server rejects it with [`NO_NODE`](crate::ErrorCode::NO_NODE) if the node does not exist. In that
    /// case it still sets the requested watch, which fires when the node is created. Servers from 3.8.4 and
    /// 3.9.2 on also return [`NO_AUTH`](crate::ErrorCode::NO_AUTH).
    ///
    /// ```
    /// use zk_proto::{Exists, OpCode, Request};
    ///
    /// let request = Exists { path: "/a".into(), watch: true };
    /// assert_eq!(request.path(), Some("/a"));
    /// assert_eq!(Exists::OP, OpCode::Exists);
    /// ```
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Exists<'a> as "ExistsRequest" {
        /// The path.
        pub path: Cow<'a, str>,
        /// Whether to set a one-shot watch for creation, data changes and deletion.
        pub watch: bool,
    }
}

request!(Exists<'_>: OpCode::Exists -> Stat, path);
