//! Fuzz target for round trips of every record, from bytes and from fields.
//!
//! Input: a selector byte. If it is even, a byte for the operation follows, then arbitrary bytes, decoded as
//! the body of its request and of its reply. If it is odd, a byte for the record follows, then the record's
//! fields.

use bytes::Bytes;
use zk_proto::*;

use crate::Input;
use crate::build::Build;
use crate::records::{Scratch, Side, body_round_trips, encodes, operation};

/// Encodes and decodes a record.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    if input.byte().is_multiple_of(2) {
        let op = operation(input.byte());
        let body = Bytes::copy_from_slice(input.rest());
        body_round_trips(op, Side::Request, &body);
        body_round_trips(op, Side::Reply, &body);
    } else {
        let record = input.byte();
        BUILT[usize::from(record) % BUILT.len()](&mut input);
    }
}

type BuildAndCheck = fn(&mut Input<'_>);

/// Lists the records that are built.
macro_rules! built {
    ($($record:ty)*) => {
        const BUILT: &[BuildAndCheck] = &[$(
            |input| encodes(&<$record>::build(input), &Scratch::default())
        ),*];
    };
}

built! {
    RequestHeader
    ReplyHeader
    ConnectRequest
    ConnectResponse
    Stat
    Acl
    Create<'static>
    Create2<'static>
    CreateContainer<'static>
    CreateTtl<'static>
    CreatePathReply
    CreateReply
    Delete<'static>
    Exists<'static>
    GetData<'static>
    DataReply
    SetData<'static>
    GetAcl<'static>
    AclReply
    SetAcl<'static>
    GetChildren<'static>
    GetChildren2<'static>
    ChildrenReply
    ChildList
    Sync<'static>
    SyncReply
    SetWatches<'static>
    SetWatches2<'static>
    WatcherEvent
    Ping
    CloseSession
    AuthPacket<'static>
    Sasl<'static>
    SaslReply
    WhoAmI
    ClientInfo
    WhoAmIReply
    AddWatch<'static>
    AddWatchReply
    CheckWatches<'static>
    RemoveWatches<'static>
    GetEphemerals<'static>
    EphemeralsReply
    GetAllChildrenNumber<'static>
    AllChildrenNumberReply
    Reconfig<'static>
    Check<'static>
    Multi<'static>
    MultiReply
    MultiRead<'static>
    MultiReadReply
}
