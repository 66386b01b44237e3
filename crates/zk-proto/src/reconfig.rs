//! Request that changes the members of an ensemble.
//!
//! ```text
//! ReconfigRequest  joiningServers, leavingServers, newMembers: ustring, curConfigId: long
//! GetDataResponse  data: buffer, stat: Stat
//! ```
//!
//! ```
//! use zk_proto::{OpCode, Reconfig, Request};
//!
//! let request = Reconfig { leaving: Some("3".into()), ..Reconfig::default() };
//! assert_eq!(request.from_config, Reconfig::ANY_CONFIG);
//! assert_eq!(Reconfig::OP, OpCode::Reconfig);
//! ```

use std::borrow::Cow;

use crate::{
    data::DataReply,
    ids::Zxid,
    record::{record, request},
    request::OpCode,
};

record! {
    /// Request to change the members of the ensemble. Needs a server of 3.5.0 or newer.
    ///
    /// The reply has the new configuration and the Stat of its node, `/zookeeper/config`.
    ///
    /// A request either lists joining and leaving servers, or replaces the whole list. A server rejects it
    /// with
    ///
    /// * [`RECONFIG_DISABLED`](crate::ErrorCode::RECONFIG_DISABLED) (the default),
    /// * [`UNIMPLEMENTED`](crate::ErrorCode::UNIMPLEMENTED) (a standalone server),
    /// * [`NO_AUTH`](crate::ErrorCode::NO_AUTH) (for `/zookeeper/config`),
    /// * [`BAD_VERSION`](crate::ErrorCode::BAD_VERSION),
    /// * [`BAD_ARGUMENTS`](crate::ErrorCode::BAD_ARGUMENTS) (the text of a server),
    /// * [`RECONFIG_IN_PROGRESS`](crate::ErrorCode::RECONFIG_IN_PROGRESS) or
    /// * [`NEW_CONFIG_NO_QUORUM`](crate::ErrorCode::NEW_CONFIG_NO_QUORUM).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct Reconfig<'a> as "ReconfigRequest" {
        /// Servers to add or change, separated by commas, each as
        /// `server.<id>=<host>:<port>:<port>[:<role>];<client port>`.
        pub joining: Option<Cow<'a, str>> as "joiningServers",
        /// The ids of servers to remove, separated by commas. A server ignores unknown ids.
        pub leaving: Option<Cow<'a, str>> as "leavingServers",
        /// The whole list of servers, instead of the other two.
        pub new_members: Option<Cow<'a, str>> as "newMembers",
        /// The version that the current configuration must have; [`ANY_CONFIG`](Self::ANY_CONFIG) for any
        /// version.
        pub from_config: Zxid as "curConfigId",
    }
}

impl Reconfig<'_> {
    /// Any version of the configuration.
    pub const ANY_CONFIG: Zxid = Zxid(-1);
}

/// Returns a request without changes, for any version of the configuration.
impl Default for Reconfig<'_> {
    fn default() -> Self {
        Self { joining: None, leaving: None, new_members: None, from_config: Self::ANY_CONFIG }
    }
}

request!(Reconfig<'_>: OpCode::Reconfig -> DataReply);
