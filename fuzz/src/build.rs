//! Construction of records from a fuzzer's bytes, field by field.

use std::borrow::Cow;

use bytes::Bytes;
use zk_proto::*;

use crate::Input;

/// Value that can be built from any bytes.
pub(crate) trait Build {
    fn build(input: &mut Input<'_>) -> Self;
}

impl Build for bool {
    fn build(input: &mut Input<'_>) -> Self {
        input.byte() % 2 == 1
    }
}

impl Build for i32 {
    fn build(input: &mut Input<'_>) -> Self {
        input.int()
    }
}

impl Build for i64 {
    fn build(input: &mut Input<'_>) -> Self {
        input.long()
    }
}

impl Build for Bytes {
    fn build(input: &mut Input<'_>) -> Self {
        Self::copy_from_slice(input.bytes())
    }
}

impl Build for String {
    fn build(input: &mut Input<'_>) -> Self {
        input.text()
    }
}

impl Build for Cow<'static, str> {
    fn build(input: &mut Input<'_>) -> Self {
        input.text().into()
    }
}

impl Build for Cow<'static, [u8]> {
    fn build(input: &mut Input<'_>) -> Self {
        input.bytes().to_vec().into()
    }
}

impl Build for Cow<'static, [Acl]> {
    fn build(input: &mut Input<'_>) -> Self {
        Vec::build(input).into()
    }
}

impl<T: Build> Build for Option<T> {
    fn build(input: &mut Input<'_>) -> Self {
        bool::build(input).then(|| T::build(input))
    }
}

impl<T: Build> Build for Vec<T> {
    fn build(input: &mut Input<'_>) -> Self {
        (0..input.below(8)).map(|_| T::build(input)).collect()
    }
}

impl<T: Build> Build for OpList<'static, T> {
    fn build(input: &mut Input<'_>) -> Self {
        Vec::build(input).into()
    }
}

impl Build for CreateMode {
    fn build(input: &mut Input<'_>) -> Self {
        Self::from_flags(input.below(5).into()).expect("there are five")
    }
}

impl Build for AddWatchMode {
    fn build(input: &mut Input<'_>) -> Self {
        Self::from_code(input.below(2).into()).expect("there are two")
    }
}

impl Build for WatcherType {
    fn build(input: &mut Input<'_>) -> Self {
        Self::from_code(i32::from(input.below(5)) + 1).expect("there are five")
    }
}

impl Build for ChildList {
    /// Names of arbitrary bytes, because a server does not guarantee UTF-8.
    fn build(input: &mut Input<'_>) -> Self {
        let names: Vec<&[u8]> = (0..input.below(16)).map(|_| input.bytes()).collect();
        Self::from_names(names)
    }
}

impl Build for MultiOp<'static> {
    fn build(input: &mut Input<'_>) -> Self {
        match input.below(7) {
            0 => Self::Create(Build::build(input)),
            1 => Self::Create2(Build::build(input)),
            2 => Self::CreateContainer(Build::build(input)),
            3 => Self::CreateTtl(Build::build(input)),
            4 => Self::Delete(Build::build(input)),
            5 => Self::SetData(Build::build(input)),
            _ => Self::Check(Build::build(input)),
        }
    }
}

impl Build for MultiReadOp<'static> {
    fn build(input: &mut Input<'_>) -> Self {
        match bool::build(input) {
            true => Self::GetData(Build::build(input)),
            false => Self::GetChildren(Build::build(input)),
        }
    }
}

impl Build for MultiResult {
    fn build(input: &mut Input<'_>) -> Self {
        match input.below(5) {
            0 => Self::Created { path: Build::build(input), stat: Build::build(input) },
            1 => Self::Deleted,
            2 => Self::Set(Build::build(input)),
            3 => Self::Checked,
            _ => Self::Error(Build::build(input)),
        }
    }
}

impl Build for MultiReadResult {
    fn build(input: &mut Input<'_>) -> Self {
        match input.below(3) {
            0 => Self::Data(Build::build(input)),
            1 => Self::Children(Build::build(input)),
            _ => Self::Error(Build::build(input)),
        }
    }
}

impl<const OP: i32> Build for CreateRequest<'static, OP> {
    fn build(input: &mut Input<'_>) -> Self {
        let (path, data) = (Build::build(input), Build::build(input));
        Self { path, data, acl: Build::build(input), mode: Build::build(input) }
    }
}

impl<const OP: i32> Build for WatchesRequest<'static, OP> {
    fn build(input: &mut Input<'_>) -> Self {
        Self { path: Build::build(input), watcher_type: Build::build(input) }
    }
}

/// Declares types that wrap one number.
macro_rules! wrappers {
    ($($wrapper:ident)*) => {$(
        impl Build for $wrapper {
            fn build(input: &mut Input<'_>) -> Self {
                Self(Build::build(input))
            }
        }
    )*};
}

wrappers! { SessionId Zxid Perms ErrorCode EventType KeeperState }

/// Declares records whose fields are built one after the other.
macro_rules! fields {
    ($($record:ty { $($field:ident)* })*) => {$(
        impl Build for $record {
            fn build(input: &mut Input<'_>) -> Self {
                // A record without fields does not use it.
                let _ = &input;
                Self { $($field: Build::build(input)),* }
            }
        }
    )*};
}

fields! {
    RequestHeader { xid op }
    ReplyHeader { xid zxid err }
    ConnectRequest { protocol_version last_zxid_seen timeout_ms session_id password read_only }
    ConnectResponse { protocol_version timeout_ms session_id password read_only }
    Stat {
        czxid mzxid ctime_ms mtime_ms version cversion aversion ephemeral_owner data_length
        num_children pzxid
    }
    Acl { perms scheme id }
    CreateTtl<'static> { path data acl sequential ttl_ms }
    CreatePathReply { path }
    CreateReply { path stat }
    Delete<'static> { path version }
    Exists<'static> { path watch }
    GetData<'static> { path watch }
    DataReply { data stat }
    SetData<'static> { path data version }
    GetAcl<'static> { path }
    AclReply { acl stat }
    SetAcl<'static> { path acl aversion }
    GetChildren<'static> { path watch }
    GetChildren2<'static> { path watch }
    ChildrenReply { children stat }
    Sync<'static> { path }
    SyncReply { path }
    SetWatches<'static> { relative_zxid data exist child }
    SetWatches2<'static> { relative_zxid data exist child persistent persistent_recursive }
    WatcherEvent { event_type state path }
    Ping {}
    CloseSession {}
    AuthPacket<'static> { auth_type scheme auth }
    Sasl<'static> { token }
    SaslReply { token }
    WhoAmI {}
    ClientInfo { scheme user }
    WhoAmIReply { identities }
    AddWatch<'static> { path mode }
    AddWatchReply { err }
    GetEphemerals<'static> { prefix }
    EphemeralsReply { paths }
    GetAllChildrenNumber<'static> { path }
    AllChildrenNumberReply { total }
    Reconfig<'static> { joining leaving new_members from_config }
    Check<'static> { path version }
    Multi<'static> { ops }
    MultiReply { results }
    MultiRead<'static> { ops }
    MultiReadReply { results }
}
