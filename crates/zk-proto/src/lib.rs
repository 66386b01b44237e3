//! ZooKeeper client protocol: encoding and decoding of all its records.
//!
//! The crate does no IO, reads no clock and has no async code. Every record has an encoder and a decoder. The
//! same crate therefore serves a client, an in-memory server and the tests of both.
//!
//! * [`Encode`], [`Decode`]: the two traits of all records. [`Reader`] and [`writer`] read and append the
//!   primitives of jute, ZooKeeper's record format.
//! * [`split_frame`], [`encode_request`], [`encode_reply`]: length-prefixed frames, in a byte
//!   buffer.
//! * [`ConnectRequest`], [`ConnectReply`]: the connect exchange.
//! * [`RequestHeader`], [`ReplyHeader`], [`xid`]: the headers of requests and replies, and request numbers.
//! * [`Request`]: the trait of all requests, which names the reply of each.
//! * [`SessionId`], [`Zxid`], [`OpCode`], [`ErrorCode`], [`CreateMode`], [`Acl`], [`Stat`]: the types that
//!   the records share.
//! * [`WatcherEvent`]: the notification that a watch sends.
//! * [`validate_path`] checks a node path, and [`path`] takes it apart.
//!
//! The records are those of `zookeeper.jute` in ZooKeeper's source, under the same names. Each
//! source file begins with the layouts of its records. A `boolean` takes one byte, an `int` four, a `long`
//! eight. A `buffer` and a `ustring` start with their length, a `vector` with its count; both are an `int`.
//!
//! # Exhaustive types
//!
//! The servers' wire format fixes the fields of each record and the cases of each reply, so these types are
//! exhaustive. A later version of ZooKeeper adds a record, or a number: the enums of operations, of modes and
//! of watches, and those of errors in paths and records, are `#[non_exhaustive]`. Unknown error codes, events
//! and states keep their numbers ([`ErrorCode`], [`EventType`], [`KeeperState`]).
//!
//! # Untrusted input
//!
//! Malformed input produces an error and never a panic. Processing takes time in proportion to the length of
//! the input. At any time, a decoder's allocations are in proportion to the bytes that have arrived, whatever
//! lengths and counts the input announces:
//!
//! * nothing for a list of children,
//! * less than ten times the input for most other records,
//! * at most twelve times the input for the results of a multi, where nine bytes can encode one result.
//!
//! # Examples
//!
//! In the repository, `cargo run -p zk-proto --example decode_exchange` prints an exchange between the Java
//! client and a real server, record by record. With the path of another file of `tests/golden` as its
//! argument, it prints that file.
//!
//! Encodes a request as a client does, and decodes the reply:
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{
//!     Decode, ErrorCode, FRAME_LEN_MAX_CLIENT, GetData, DataReply, ReplyHeader, Request, Stat,
//!     Zxid, encode_reply, encode_request, split_frame, xid,
//! };
//!
//! let request = GetData { path: "/config".into(), watch: false };
//! let mut to_server = BytesMut::new();
//! encode_request(xid::FIRST, &request, &mut to_server);
//!
//! // What a server would answer.
//! let mut from_server = BytesMut::new();
//! let header = ReplyHeader { xid: xid::FIRST, zxid: Zxid(7), err: ErrorCode::OK };
//! let body = DataReply { data: Some("on".into()), stat: Stat::default() };
//! encode_reply(&header, Some(&body), &mut from_server);
//!
//! let frame = split_frame(&mut from_server, FRAME_LEN_MAX_CLIENT)?.unwrap();
//! let (header, body) = ReplyHeader::split(&frame)?;
//! assert!(header.err.is_ok());
//! let reply = <GetData<'_> as Request>::Reply::from_frame(&body)?;
//! assert_eq!(reply.data.as_deref(), Some(&b"on"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod abbreviated;
mod acl;
mod add_watch;
mod auth;
mod base64;
mod children;
mod code;
mod connect;
mod create;
mod data;
mod delete;
mod descendants;
mod ephemerals;
mod exists;
mod frame;
mod ids;
mod multi;
mod named_numbers;
mod node_acl;
mod node_path;
mod reconfig;
mod record;
mod request;
mod sasl;
mod session;
mod set_watches;
mod sha1;
mod stat;
mod sync;
mod watch;
mod who_am_i;
mod wire;
pub mod xid;

pub use abbreviated::{ABBREVIATED_LEN_MAX, Abbreviated};
pub use acl::{Acl, OPEN_ACL_UNSAFE, Perms, credential_id, digest_id};
pub use add_watch::{AddWatch, AddWatchReply, CheckWatches, RemoveWatches, WatchesRequest};
pub use auth::AuthPacket;
pub use children::{ChildIter, ChildList, ChildNames, ChildrenReply, GetChildren, GetChildren2};
pub use code::ErrorCode;
pub use connect::{
    ConnectReply, ConnectRequest, ConnectResponse, PASSWORD_LEN, VERSION_WITHOUT_LEADER,
};
pub use create::{
    Create, Create2, CreateContainer, CreateMode, CreatePathReply, CreateReply, CreateRequest,
    CreateTtl,
};
pub use data::{DataReply, GetData, SetData};
pub use delete::Delete;
pub use descendants::{AllChildrenNumberReply, GetAllChildrenNumber};
pub use ephemerals::{EphemeralsReply, GetEphemerals};
pub use exists::Exists;
pub use frame::{
    FRAME_LEN_MAX_CLIENT, FRAME_LEN_MAX_SERVER, FrameError, ReplyHeader, RequestHeader,
    encode_record, encode_reply, encode_request, patch_xid, request_frame_len, split_frame,
};
pub use ids::{SessionId, Zxid};
pub use multi::{
    Check, Multi, MultiOp, MultiRead, MultiReadOp, MultiReadReply, MultiReadResult, MultiReply,
    MultiResult, OpList,
};
pub use node_acl::{AclReply, GetAcl, SetAcl};
pub use node_path::{PathError, PathErrorKind, validate_path, validate_sequential_path};
pub use reconfig::Reconfig;
pub use request::{OpCode, Request};
pub use sasl::{Sasl, SaslReply};
pub use session::{CloseSession, Ping};
pub use set_watches::{SetWatches, SetWatches2};
pub use stat::Stat;
pub use sync::{Sync, SyncReply};
pub use watch::{AddWatchMode, EventType, KeeperState, WatcherEvent, WatcherType};
pub use who_am_i::{ClientInfo, WhoAmI, WhoAmIReply};
pub use wire::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, decode_text, writer};

/// Parts of node paths: parent, name, child, and Curator's protection of names.
///
/// ```
/// use zk_proto::path::{child, file_name, parent};
///
/// assert_eq!(parent("/locks/a"), Some("/locks"));
/// assert_eq!(parent("/locks"), Some("/"));
/// assert_eq!(parent("/"), None);
/// assert_eq!(file_name("/locks/a"), "a");
/// assert_eq!(child("/locks", "a"), "/locks/a");
/// assert_eq!(child("/", "locks"), "/locks");
/// ```
pub mod path {
    pub use crate::node_path::{PROTECTION, child, file_name, parent, protection_prefix};
}

/// Compiles the example of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
