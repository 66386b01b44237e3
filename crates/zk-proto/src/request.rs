//! Trait of all requests.

use std::borrow::Cow;

use bytes::BytesMut;

use crate::{
    op::OpCode,
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{self, BOOL_LEN},
    },
};

/// Request: the body that a client sends, its opcode, and the type of its reply.
///
/// The reply's type follows from the request's type, so the caller never guesses the type of a body:
///
/// ```
/// use bytes::Bytes;
/// use zk_proto::{Decode, DecodeError, Delete, Exists, Request};
///
/// fn reply<R: Request>(_request: &R, body: &Bytes) -> Result<R::Reply, DecodeError> {
///     R::Reply::from_frame(body)
/// }
///
/// let delete = Delete { path: "/a".into(), version: -1 };
/// assert_eq!(reply(&delete, &Bytes::new()), Ok(()));
/// let exists = Exists { path: "/a".into(), watch: false };
/// assert_eq!(reply(&exists, &Bytes::from_static(&[0; 68])), Ok(zk_proto::Stat::default()));
/// ```
pub trait Request: Encode {
    /// The operation.
    const OP: OpCode;

    /// The body of a successful reply.
    type Reply: for<'a> Decode<'a>;

    /// Returns the path of the request's node, or `None` if the request has no single node.
    fn path(&self) -> Option<&str>;
}

/// Returns the length of the body `{path, watch}`, which exists, getData, getChildren and getChildren2 share.
pub(crate) fn path_watch_len(path: &str) -> usize {
    writer::text_len(path) + BOOL_LEN
}

pub(crate) fn put_path_watch(out: &mut BytesMut, path: &str, watch: bool) {
    writer::put_text(out, path);
    writer::put_bool(out, watch);
}

pub(crate) fn read_path_watch<'a>(r: &mut Reader<'a>) -> Result<(Cow<'a, str>, bool), DecodeError> {
    Ok((r.text("path")?, r.bool("watch")?))
}
