//! What every request has in common.

use std::borrow::Cow;

use bytes::BytesMut;

use crate::{
    op::OpCode,
    wire::{
        Decode, DecodeError, Encode, Reader,
        writer::{self, BOOL_LEN},
    },
};

/// A request: the body a client sends, which operation it is, and what comes back.
///
/// The reply's type follows from the request's, so a body is decoded by type and not by guessing:
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

    /// The body of the reply if the operation succeeds.
    type Reply: for<'a> Decode<'a>;

    /// The path the operation is about, if it is about one.
    fn path(&self) -> Option<&str>;
}

/// Bytes of the body `{path, watch}`, which exists, getData and getChildren2 share.
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
