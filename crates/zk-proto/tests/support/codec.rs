//! Bodies by opcode: read as the type of their operation, and written again.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use zk_proto::*;

/// A body that was read.
#[derive(Debug)]
pub(crate) struct Recoded {
    /// The record, for reading and comparing.
    pub(crate) shown: String,
    /// The record, written again.
    pub(crate) bytes: Bytes,
}

/// Reads the body of a request. `None`: the operation has no request of its own.
pub(crate) fn request(op: OpCode, body: &Bytes) -> Option<Result<Recoded, DecodeError>> {
    Some(both(op)?.0(body))
}

/// Reads the body of a reply without an error. `None`: the operation has no reply of its own.
pub(crate) fn reply(op: OpCode, body: &Bytes) -> Option<Result<Recoded, DecodeError>> {
    Some(both(op)?.1(body))
}

/// Reads the body of a notification.
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

/// Declares which request is whose.
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
