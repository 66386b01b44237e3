//! A proptest strategy for each record.

use std::borrow::Cow;

use bytes::Bytes;
use proptest::{collection::vec, option, prelude::*};
use zk_proto::*;

/// Any text, mostly similar to a path.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "(/[a-z0-9_-]{1,12}){1,4}", 1 => any::<String>()]
}

pub(crate) fn cow_text() -> impl Strategy<Value = Cow<'static, str>> {
    text().prop_map(Cow::Owned)
}

pub(crate) fn cow_texts() -> impl Strategy<Value = Vec<Cow<'static, str>>> {
    vec(cow_text(), 0..6)
}

pub(crate) fn data() -> impl Strategy<Value = Option<Vec<u8>>> {
    option::of(vec(any::<u8>(), 0..40))
}

pub(crate) fn cow_data() -> impl Strategy<Value = Option<Cow<'static, [u8]>>> {
    data().prop_map(|data| data.map(Cow::Owned))
}

pub(crate) fn empty() -> impl Strategy<Value = ()> {
    Just(())
}

pub(crate) fn ping() -> impl Strategy<Value = Ping> {
    Just(Ping)
}

pub(crate) fn close_session() -> impl Strategy<Value = CloseSession> {
    Just(CloseSession)
}

pub(crate) fn request_header() -> impl Strategy<Value = RequestHeader> {
    any::<(i32, i32)>().prop_map(|(xid, op)| RequestHeader { xid, op })
}

pub(crate) fn reply_header() -> impl Strategy<Value = ReplyHeader> {
    any::<(i32, i64, i32)>().prop_map(|(xid, zxid, err)| ReplyHeader {
        xid,
        zxid: Zxid(zxid),
        err: ErrorCode(err),
    })
}

pub(crate) fn connect_request() -> impl Strategy<Value = ConnectRequest> {
    (any::<(i32, i64, i32, i64, Option<bool>)>(), vec(any::<u8>(), 0..20)).prop_map(
        |((protocol_version, last_zxid_seen, timeout_ms, session_id, read_only), password)| {
            ConnectRequest {
                protocol_version,
                last_zxid_seen: Zxid(last_zxid_seen),
                timeout_ms,
                session_id: SessionId(session_id),
                password: password.into(),
                read_only,
            }
        },
    )
}

pub(crate) fn connect_response() -> impl Strategy<Value = ConnectResponse> {
    (any::<(i32, i32, i64, Option<bool>)>(), vec(any::<u8>(), 0..20)).prop_map(
        |((protocol_version, timeout_ms, session_id, read_only), password)| ConnectResponse {
            protocol_version,
            timeout_ms,
            session_id: SessionId(session_id),
            password: password.into(),
            read_only,
        },
    )
}

pub(crate) fn stat() -> impl Strategy<Value = Stat> {
    any::<([i64; 6], [i32; 5])>().prop_map(|(longs, ints)| Stat {
        czxid: Zxid(longs[0]),
        mzxid: Zxid(longs[1]),
        ctime_ms: longs[2],
        mtime_ms: longs[3],
        version: ints[0],
        cversion: ints[1],
        aversion: ints[2],
        ephemeral_owner: SessionId(longs[4]),
        data_length: ints[3],
        num_children: ints[4],
        pzxid: Zxid(longs[5]),
    })
}

pub(crate) fn acl() -> impl Strategy<Value = Acl> {
    (any::<i32>(), cow_text(), cow_text()).prop_map(|(perms, scheme, id)| Acl {
        perms: Perms(perms),
        scheme,
        id,
    })
}

/// ACL entries of the scheme `digest`.
pub(crate) fn digest_acl() -> impl Strategy<Value = Acl> {
    (any::<i32>(), text(), text())
        .prop_map(|(perms, user, password)| Acl::digest(Perms(perms), &user, &password))
}

pub(crate) fn create_path_reply() -> impl Strategy<Value = CreatePathReply> {
    text().prop_map(|path| CreatePathReply { path })
}

pub(crate) fn create() -> impl Strategy<Value = Create<'static>> {
    any_create()
}

pub(crate) fn create2() -> impl Strategy<Value = Create2<'static>> {
    any_create()
}

pub(crate) fn create_container() -> impl Strategy<Value = CreateContainer<'static>> {
    any_create()
}

fn any_create<const OP: i32>() -> impl Strategy<Value = CreateRequest<'static, OP>> {
    let mode = (0..=4).prop_filter_map("a known mode", CreateMode::from_flags);
    (cow_text(), cow_data(), vec(acl(), 0..4), mode)
        .prop_map(|(path, data, acl, mode)| CreateRequest { path, data, acl: acl.into(), mode })
}

pub(crate) fn create_ttl() -> impl Strategy<Value = CreateTtl<'static>> {
    (cow_text(), cow_data(), vec(acl(), 0..4), any::<(bool, i64)>()).prop_map(
        |(path, data, acl, (sequential, ttl_ms))| CreateTtl {
            path,
            data,
            acl: acl.into(),
            sequential,
            ttl_ms,
        },
    )
}

pub(crate) fn create_reply() -> impl Strategy<Value = CreateReply> {
    (text(), stat()).prop_map(|(path, stat)| CreateReply { path, stat })
}

pub(crate) fn delete() -> impl Strategy<Value = Delete<'static>> {
    (cow_text(), any::<i32>()).prop_map(|(path, version)| Delete { path, version })
}

pub(crate) fn exists() -> impl Strategy<Value = Exists<'static>> {
    (cow_text(), any::<bool>()).prop_map(|(path, watch)| Exists { path, watch })
}

pub(crate) fn get_data() -> impl Strategy<Value = GetData<'static>> {
    (cow_text(), any::<bool>()).prop_map(|(path, watch)| GetData { path, watch })
}

pub(crate) fn data_reply() -> impl Strategy<Value = DataReply> {
    (data(), stat()).prop_map(|(data, stat)| DataReply { data: data.map(Bytes::from), stat })
}

pub(crate) fn set_data() -> impl Strategy<Value = SetData<'static>> {
    (cow_text(), cow_data(), any::<i32>()).prop_map(|(path, data, version)| SetData {
        path,
        data,
        version,
    })
}

pub(crate) fn get_acl() -> impl Strategy<Value = GetAcl<'static>> {
    cow_text().prop_map(|path| GetAcl { path })
}

pub(crate) fn acl_reply() -> impl Strategy<Value = AclReply> {
    (vec(acl(), 0..4), stat()).prop_map(|(acl, stat)| AclReply { acl, stat })
}

pub(crate) fn set_acl() -> impl Strategy<Value = SetAcl<'static>> {
    (cow_text(), vec(acl(), 0..4), any::<i32>()).prop_map(|(path, acl, aversion)| SetAcl {
        path,
        acl: acl.into(),
        aversion,
    })
}

pub(crate) fn get_children() -> impl Strategy<Value = GetChildren<'static>> {
    (cow_text(), any::<bool>()).prop_map(|(path, watch)| GetChildren { path, watch })
}

pub(crate) fn get_children2() -> impl Strategy<Value = GetChildren2<'static>> {
    (cow_text(), any::<bool>()).prop_map(|(path, watch)| GetChildren2 { path, watch })
}

pub(crate) fn children_reply() -> impl Strategy<Value = ChildrenReply> {
    (child_list(), stat()).prop_map(|(children, stat)| ChildrenReply { children, stat })
}

/// Names of arbitrary bytes, because a server does not guarantee UTF-8.
pub(crate) fn child_list() -> impl Strategy<Value = ChildList> {
    vec(vec(any::<u8>(), 0..20), 0..8).prop_map(ChildList::from_names)
}

pub(crate) fn sync() -> impl Strategy<Value = Sync<'static>> {
    cow_text().prop_map(|path| Sync { path })
}

pub(crate) fn sync_reply() -> impl Strategy<Value = SyncReply> {
    option::of(text()).prop_map(|path| SyncReply { path })
}

pub(crate) fn set_watches() -> impl Strategy<Value = SetWatches<'static>> {
    (any::<i64>(), cow_texts(), cow_texts(), cow_texts()).prop_map(
        |(relative_zxid, data, exist, child)| SetWatches {
            relative_zxid: Zxid(relative_zxid),
            data,
            exist,
            child,
        },
    )
}

pub(crate) fn watcher_event() -> impl Strategy<Value = WatcherEvent> {
    (any::<(i32, i32)>(), text()).prop_map(|((event_type, state), path)| WatcherEvent {
        event_type: EventType(event_type),
        state: KeeperState(state),
        path,
    })
}

pub(crate) fn auth_packet() -> impl Strategy<Value = AuthPacket<'static>> {
    (any::<i32>(), cow_text(), cow_data()).prop_map(|(auth_type, scheme, auth)| AuthPacket {
        auth_type,
        scheme,
        auth,
    })
}

pub(crate) fn set_watches2() -> impl Strategy<Value = SetWatches2<'static>> {
    (any::<i64>(), [cow_texts(), cow_texts(), cow_texts(), cow_texts(), cow_texts()]).prop_map(
        |(relative_zxid, [data, exist, child, persistent, persistent_recursive])| SetWatches2 {
            relative_zxid: Zxid(relative_zxid),
            data,
            exist,
            child,
            persistent,
            persistent_recursive,
        },
    )
}

pub(crate) fn sasl() -> impl Strategy<Value = Sasl<'static>> {
    vec(any::<u8>(), 0..40).prop_map(|token| Sasl { token: token.into() })
}

pub(crate) fn sasl_reply() -> impl Strategy<Value = SaslReply> {
    data().prop_map(|token| SaslReply { token: token.map(Bytes::from) })
}

pub(crate) fn who_am_i() -> impl Strategy<Value = WhoAmI> {
    Just(WhoAmI)
}

pub(crate) fn client_info() -> impl Strategy<Value = ClientInfo> {
    (text(), text()).prop_map(|(scheme, user)| ClientInfo { scheme, user })
}

pub(crate) fn who_am_i_reply() -> impl Strategy<Value = WhoAmIReply> {
    vec(client_info(), 0..4).prop_map(|identities| WhoAmIReply { identities })
}

pub(crate) fn add_watch() -> impl Strategy<Value = AddWatch<'static>> {
    let mode = (0..=1).prop_filter_map("a known mode", AddWatchMode::from_code);
    (cow_text(), mode).prop_map(|(path, mode)| AddWatch { path, mode })
}

pub(crate) fn add_watch_reply() -> impl Strategy<Value = AddWatchReply> {
    any::<i32>().prop_map(|err| AddWatchReply { err: ErrorCode(err) })
}

pub(crate) fn check_watches() -> impl Strategy<Value = CheckWatches<'static>> {
    watches_request()
}

pub(crate) fn remove_watches() -> impl Strategy<Value = RemoveWatches<'static>> {
    watches_request()
}

fn watches_request<const OP: i32>() -> impl Strategy<Value = WatchesRequest<'static, OP>> {
    let watcher_type = (1..=5).prop_filter_map("a known type", WatcherType::from_code);
    (cow_text(), watcher_type)
        .prop_map(|(path, watcher_type)| WatchesRequest { path, watcher_type })
}

pub(crate) fn get_ephemerals() -> impl Strategy<Value = GetEphemerals<'static>> {
    cow_text().prop_map(|prefix| GetEphemerals { prefix })
}

pub(crate) fn ephemerals_reply() -> impl Strategy<Value = EphemeralsReply> {
    vec(text(), 0..6).prop_map(|paths| EphemeralsReply { paths })
}

pub(crate) fn get_all_children_number() -> impl Strategy<Value = GetAllChildrenNumber<'static>> {
    cow_text().prop_map(|path| GetAllChildrenNumber { path })
}

pub(crate) fn all_children_number_reply() -> impl Strategy<Value = AllChildrenNumberReply> {
    any::<i32>().prop_map(|total| AllChildrenNumberReply { total })
}

pub(crate) fn reconfig() -> impl Strategy<Value = Reconfig<'static>> {
    let servers = || option::of(cow_text());
    (servers(), servers(), servers(), any::<i64>()).prop_map(
        |(joining, leaving, new_members, from_config)| Reconfig {
            joining,
            leaving,
            new_members,
            from_config: Zxid(from_config),
        },
    )
}
