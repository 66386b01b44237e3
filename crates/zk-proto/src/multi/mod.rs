//! Requests with several operations: the transaction multi, and multiRead.
//!
//! ```text
//! multi, multiRead  for each operation: MultiHeader with its opcode, its request record
//!                   MultiHeader { -1, true, -1 }
//! MultiResponse     for each operation: MultiHeader with the type of the result, its body
//!                   MultiHeader { -1, true, -1 }
//! MultiHeader       type: int, done: boolean, err: int
//! ```
//!
//! | type of a result | body |
//! |---|---|
//! | create | ustring path |
//! | create2 | ustring path, Stat |
//! | delete, check | none |
//! | setData | Stat |
//! | getData | buffer data, Stat |
//! | getChildren | `vector<ustring>` children |
//! | -1 | int err |
//!
//! Only the header with `done` set ends a list. The type -1 does not, because errors have it too. No count is
//! sent, so the frame alone bounds the length of a list.
//!
//! The reply's own error is [`OK`](crate::ErrorCode::OK) even if the transaction was rolled back; see
//! [`MultiReply::failure`]. Any other code concerns the whole request and is mostly
//! [`MARSHALLING_ERROR`](crate::ErrorCode::MARSHALLING_ERROR).
//!
//! ```
//! use bytes::BytesMut;
//! use zk_proto::{Check, Decode, Encode, Multi, SetData};
//!
//! // Sets one node if another is at its first version. Nothing is allocated for it.
//! let ops = [
//!     Check { path: "/lock".into(), version: 0 }.into(),
//!     SetData { path: "/state".into(), data: Some(b"on"[..].into()), version: -1 }.into(),
//! ];
//! let request = Multi::new(&ops);
//! let mut out = BytesMut::with_capacity(request.encoded_len());
//! request.encode(&mut out);
//! assert_eq!(Multi::from_frame(&out.freeze())?, request);
//! # Ok::<(), zk_proto::DecodeError>(())
//! ```

mod header;
mod op_list;
mod read;
mod reply;
mod write;

pub use op_list::OpList;
pub use read::{MultiRead, MultiReadOp, MultiReadReply, MultiReadResult};
pub use reply::{MultiReply, MultiResult};
pub use write::{Check, Multi, MultiOp};
