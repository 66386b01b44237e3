//! Bodies by opcode: decoded as the type of their operation, and encoded again.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use zk_proto::*;

/// A decoded body.
#[derive(Debug)]
pub(crate) struct Recoded {
    /// The record as `Debug` text, for comparison.
    pub(crate) shown: String,
    /// The record, encoded again.
    pub(crate) bytes: Bytes,
}

/// Decodes the body of a request. Returns `None` if the operation has no request.
pub(crate) fn request(op: OpCode, body: &Bytes) -> Option<Result<Recoded, DecodeError>> {
    Some(both(op)?.0(body))
}

/// Decodes the body of a successful reply. Returns `None` if the operation has no reply.
pub(crate) fn reply(op: OpCode, body: &Bytes) -> Option<Result<Recoded, DecodeError>> {
    Some(both(op)?.1(body))
}

/// Decodes the body of a notification.
pub(crate) fn notification(body: &Bytes) -> Result<Recoded, DecodeError> {
    again::<WatcherEvent>(body)
}

fn again<'a, T: Decode<'a> + Encode + Debug>(body: &'a Bytes) -> Result<Recoded, DecodeError> {
    let record = T::from_frame(body)?;
    let mut out = BytesMut::new();
    record.encode(&mut out);
    Ok(Recoded { shown: format!("{record:?}"), bytes: out.freeze() })
}

type Recode = fn(&Bytes) -> Result<Recoded, DecodeError>;

/// Declares the request type of each operation.
macro_rules! operations {
    ($($op:ident: $request:ty,)*) => {
        fn both(op: OpCode) -> Option<(Recode, Recode)> {
            match op {
                $(OpCode::$op => Some((
                    |body| again::<$request>(body),
                    |body| again::<<$request as Request>::Reply>(body),
                )),)*
                _ => None,
            }
        }
    };
}

operations! {
    Create: Create<'_>,
    Create2: Create2<'_>,
    CreateContainer: CreateContainer<'_>,
    CreateTtl: CreateTtl<'_>,
    Delete: Delete<'_>,
    Exists: Exists<'_>,
    GetData: GetData<'_>,
    SetData: SetData<'_>,
    GetAcl: GetAcl<'_>,
    SetAcl: SetAcl<'_>,
    GetChildren: GetChildren<'_>,
    GetChildren2: GetChildren2<'_>,
    Sync: Sync<'_>,
    Ping: Ping,
    Multi: Multi<'_>,
    MultiRead: MultiRead<'_>,
    Reconfig: Reconfig<'_>,
    CheckWatches: CheckWatches<'_>,
    RemoveWatches: RemoveWatches<'_>,
    Auth: AuthPacket<'_>,
    Sasl: Sasl<'_>,
    SetWatches: SetWatches<'_>,
    SetWatches2: SetWatches2<'_>,
    GetEphemerals: GetEphemerals<'_>,
    GetAllChildrenNumber: GetAllChildrenNumber<'_>,
    AddWatch: AddWatch<'_>,
    WhoAmI: WhoAmI,
    CloseSession: CloseSession,
}
