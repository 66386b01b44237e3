//! Error codes of a server: the int `err` of reply headers and of the results of a multi.
//!
//! The list is that of `KeeperException.Code` in ZooKeeper's source, including the codes that only clients
//! produce. Four codes exist only in the C client (`zookeeper.h`): -9, -15, -116 and -117.
//!
//! ```
//! use zk_proto::ErrorCode;
//!
//! assert_eq!(ErrorCode::NO_NODE.to_string(), "NoNode (-101)");
//! assert_eq!(ErrorCode(-999).to_string(), "unknown code (-999)");
//! ```

use std::fmt;

use bytes::BufMut;

use crate::{
    named_numbers::named_numbers,
    record::{Plain, forms},
    wire::writer::INT_LEN,
};

/// Outcome of an operation, as the number on the wire.
///
/// The known codes have constants. Unknown codes of newer servers are kept as they are. `Debug` prints the
/// name.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ErrorCode(pub i32);

impl ErrorCode {
    /// Returns whether the operation succeeded.
    #[must_use]
    pub const fn is_ok(self) -> bool {
        self.0 == Self::OK.0
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name().unwrap_or("unknown code"), self.0)
    }
}

impl std::error::Error for ErrorCode {}

forms! { Plain:
    ErrorCode => |_| INT_LEN, |code, out| out.put_i32(code.0), |r, field| r.i32(field).map(ErrorCode);
}

named_numbers! { ErrorCode:
    /// The operation succeeded.
    OK = 0, "OK";
    /// Marks a range of codes; never sent.
    SYSTEM_ERROR = -1, "SystemError";
    /// In a failed multi: the operation was not attempted, because an earlier one failed.
    RUNTIME_INCONSISTENCY = -2, "RuntimeInconsistency";
    /// Never sent.
    DATA_INCONSISTENCY = -3, "DataInconsistency";
    /// Produced by clients: the connection was lost; the operation may have been applied.
    CONNECTION_LOSS = -4, "ConnectionLoss";
    /// The server could not read the request, or failed while processing it.
    MARSHALLING_ERROR = -5, "MarshallingError";
    /// The server does not know the operation and closes the connection, or has the operation disabled.
    UNIMPLEMENTED = -6, "Unimplemented";
    /// Produced by clients: no reply in time; the operation may have been applied.
    OPERATION_TIMEOUT = -7, "OperationTimeout";
    /// The server rejects the path, the flags, the time to live or the reconfiguration.
    BAD_ARGUMENTS = -8, "BadArguments";
    /// Produced by clients: the handle cannot be used.
    INVALID_STATE = -9, "InvalidState";
    /// The session ended while the request was being processed. Fatal to the session.
    UNKNOWN_SESSION = -12, "UnknownSession";
    /// Reconfiguration: no quorum of the new members is in sync.
    NEW_CONFIG_NO_QUORUM = -13, "NewConfigNoQuorum";
    /// Another reconfiguration is under way.
    RECONFIG_IN_PROGRESS = -14, "ReconfigInProgress";
    /// Produced by clients: the TLS connection failed.
    SSL_CONNECTION_ERROR = -15, "SSLConnectionError";
    /// Marks a range of codes; never sent.
    API_ERROR = -100, "APIError";
    /// The node does not exist.
    NO_NODE = -101, "NoNode";
    /// The ACL does not permit the operation.
    NO_AUTH = -102, "NoAuth";
    /// The version is not the expected one.
    BAD_VERSION = -103, "BadVersion";
    /// The parent is ephemeral and cannot have children.
    NO_CHILDREN_FOR_EPHEMERALS = -108, "NoChildrenForEphemerals";
    /// The node exists already.
    NODE_EXISTS = -110, "NodeExists";
    /// The node has children.
    NOT_EMPTY = -111, "NotEmpty";
    /// The session has expired or is being closed. Fatal to the session.
    SESSION_EXPIRED = -112, "SessionExpired";
    /// Never sent.
    INVALID_CALLBACK = -113, "InvalidCallback";
    /// The ACL is empty, or has an unknown scheme or an invalid id.
    INVALID_ACL = -114, "InvalidACL";
    /// Authentication failed; the server closes the connection. Fatal to the client.
    AUTH_FAILED = -115, "AuthFailed";
    /// Produced by clients: the handle is being closed.
    CLOSING = -116, "Closing";
    /// Produced by clients: there is nothing to process.
    NOTHING = -117, "Nothing";
    /// Another connection serves the session now; the operation was not applied.
    SESSION_MOVED = -118, "SessionMoved";
    /// A write was sent to a read-only server; it was not applied.
    NOT_READ_ONLY = -119, "NotReadOnly";
    /// A local session cannot have ephemeral nodes.
    EPHEMERAL_ON_LOCAL_SESSION = -120, "EphemeralOnLocalSession";
    /// The connection has no such watch.
    NO_WATCHER = -121, "NoWatcher";
    /// Produced by clients: no reply in time; the operation may have been applied.
    REQUEST_TIMEOUT = -122, "RequestTimeout";
    /// Reconfiguration is disabled.
    RECONFIG_DISABLED = -123, "ReconfigDisabled";
    /// The server requires SASL authentication first; it closes the connection.
    SESSION_CLOSED_REQUIRE_SASL_AUTH = -124, "SessionClosedRequireSaslAuth";
    /// A hard quota would be exceeded.
    QUOTA_EXCEEDED = -125, "QuotaExceeded";
    /// The server is overloaded and dropped the request; it was not applied.
    THROTTLED_OP = -127, "ThrottledOp";
}
