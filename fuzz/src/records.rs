//! Properties of every record.

use std::cell::OnceCell;
use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use zk_proto::*;

use crate::memory::bounded;

/// Decodes arbitrary bytes as a record, returns whether they are one, and checks that:
///
/// * the bytes received bound the memory,
/// * an error has an offset within the bytes, and correct numbers,
/// * a record stays the same if the bytes after it are removed or replaced.
pub(crate) fn decodes<'a, T>(body: &'a Bytes, scratch: &'a Scratch) -> bool
where
    T: Decode<'a> + Debug + PartialEq,
{
    let mut r = Reader::new(body, T::RECORD);
    let record = match bounded(body.len(), || T::decode(&mut r)) {
        Ok(record) => record,
        Err(error) => {
            is_true(&error, body.len());
            assert_eq!(T::from_frame(body), Err(error));
            return false;
        }
    };
    let used = r.offset();
    assert_eq!(used + r.remaining(), body.len());
    let alone = scratch.0.get_or_init(|| body.slice(..used));
    assert_eq!(T::from_frame(alone).as_ref(), Ok(&record));
    // The connect records end in an optional byte.
    if used < body.len() {
        let more = scratch.1.get_or_init(|| [&body[..used], b"behind it"].concat().into());
        assert_eq!(T::from_frame(more), Ok(record));
    }
    true
}

/// Decodes arbitrary bytes as a record, and passes a record to [`encodes`].
pub(crate) fn decodes_and_encodes<'a, T>(body: &'a Bytes, scratch: &'a Scratch) -> bool
where
    T: Decode<'a> + Encode + Debug + PartialEq,
{
    T::from_frame(body).map(|record| encodes(&record, scratch)).is_ok()
}

/// Encodes a record, decodes it, and checks that:
///
/// * it takes the announced number of bytes, in a buffer of that length that does not move,
/// * it decodes to the same value, with no bytes left,
/// * it encodes to the same bytes again,
/// * with one byte less it is an error, unless the last byte is optional.
pub(crate) fn encodes<'a, T>(record: &T, scratch: &'a Scratch)
where
    T: Decode<'a> + Encode + Debug + PartialEq,
{
    let wire = scratch.0.get_or_init(|| encoded(record));
    let mut r = Reader::new(wire, T::RECORD);
    let again = T::decode(&mut r).expect("what was written can be read");
    assert_eq!(&again, record);
    assert_eq!(r.remaining(), 0);
    assert_eq!(encoded(&again), wire);
    let Some(last) = wire.len().checked_sub(1) else { return };
    let short = scratch.1.get_or_init(|| wire.slice(..last));
    if !T::RECORD.starts_with("Connect") {
        let error = T::from_frame(short).expect_err("the last byte is needed");
        is_true(&error, last);
    }
}

/// Encodes a record and checks the announced length.
pub(crate) fn encoded<T: Encode>(record: &T) -> Bytes {
    let len = record.encoded_len();
    let mut out = BytesMut::with_capacity(len);
    let start = out.as_ptr();
    record.encode(&mut out);
    assert_eq!((out.len(), out.as_ptr()), (len, start), "the announced length is the length");
    out.freeze()
}

/// Storage for bytes that live as long as the decoded ones. A record is only comparable with another one of
/// the same lifetime.
#[derive(Debug, Default)]
pub(crate) struct Scratch(OnceCell<Bytes>, OnceCell<Bytes>);

/// Checks an error about a frame of `len` bytes.
pub(crate) fn is_true(error: &DecodeError, len: usize) {
    assert!(error.offset <= len, "{error} is beyond {len}");
    assert!(!error.record.is_empty() && !error.field.is_empty() && !error.to_string().is_empty());
    match error.kind {
        DecodeErrorKind::Truncated { needed, remaining } => {
            assert!(needed > remaining && error.offset + remaining == len, "{error}, of {len}");
        }
        DecodeErrorKind::NegativeLength(length) => assert!(length < -1, "{error}"),
        DecodeErrorKind::CountTooLarge { count, room } => {
            assert!(count > room && room <= len, "{error}, of {len}");
        }
        // Some of these flags are valid for another create operation.
        DecodeErrorKind::UnknownCreateFlags(_) => assert_eq!(error.field, "flags"),
        _ => {}
    }
}

/// Returns the operation with the number `byte`, or else an arbitrary operation.
pub(crate) fn operation(byte: u8) -> OpCode {
    let code = i32::from(byte.cast_signed());
    let any = OpCode::ALL[usize::from(byte) % OpCode::ALL.len()];
    OpCode::from_code(code).unwrap_or(any)
}

/// Type of body: request or reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Request,
    Reply,
}

/// Declares the request and reply of each operation, for both checks of bytes.
macro_rules! operations {
    ($($op:ident: $request:ty, $reply:ty;)*) => {
        operations!(@as body_decodes, decodes, $($op: $request, $reply;)*);
        operations!(@as body_round_trips, decodes_and_encodes, $($op: $request, $reply;)*);
    };
    (@as $name:ident, $check:ident, $($op:ident: $request:ty, $reply:ty;)*) => {
        /// Checks a body as that of an operation; returns whether it is one.
        pub(crate) fn $name(op: OpCode, side: Side, body: &Bytes) -> bool {
            let scratch = Scratch::default();
            match (op, side) {
                $(
                    (OpCode::$op, Side::Request) => $check::<$request>(body, &scratch),
                    (OpCode::$op, Side::Reply) => $check::<$reply>(body, &scratch),
                )*
                _ => panic!("{op:?} is missing here"),
            }
        }
    };
}

operations! {
    Create: Create<'_>, CreatePathReply;
    Create2: Create2<'_>, CreateReply;
    CreateContainer: CreateContainer<'_>, CreateReply;
    CreateTtl: CreateTtl<'_>, CreateReply;
    Delete: Delete<'_>, ();
    Exists: Exists<'_>, Stat;
    GetData: GetData<'_>, DataReply;
    SetData: SetData<'_>, Stat;
    GetAcl: GetAcl<'_>, AclReply;
    SetAcl: SetAcl<'_>, Stat;
    GetChildren: GetChildren<'_>, ChildList;
    GetChildren2: GetChildren2<'_>, ChildrenReply;
    Sync: Sync<'_>, SyncReply;
    Ping: Ping, ();
    Check: Check<'_>, ();
    Multi: Multi<'_>, MultiReply;
    MultiRead: MultiRead<'_>, MultiReadReply;
    Reconfig: Reconfig<'_>, DataReply;
    CheckWatches: CheckWatches<'_>, ();
    RemoveWatches: RemoveWatches<'_>, ();
    Auth: AuthPacket<'_>, ();
    Sasl: Sasl<'_>, SaslReply;
    SetWatches: SetWatches<'_>, ();
    SetWatches2: SetWatches2<'_>, ();
    GetEphemerals: GetEphemerals<'_>, EphemeralsReply;
    GetAllChildrenNumber: GetAllChildrenNumber<'_>, AllChildrenNumberReply;
    AddWatch: AddWatch<'_>, AddWatchReply;
    WhoAmI: WhoAmI, WhoAmIReply;
    CloseSession: CloseSession, ();
}
