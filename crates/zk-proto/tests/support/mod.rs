//! What the tests share: one list of all records with a strategy for each, so that a record added
//! there takes part in every test of records.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test binary uses a part of this module"
)]

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use proptest::{
    collection::vec,
    option,
    prelude::*,
    test_runner::{Config, RngSeed},
};
use zk_proto::*;

/// The same cases on every run; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` in the environment choose
/// others.
pub(crate) fn config() -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(0x5a4b);
    }
    config
}

/// Calls `$with!` with the list of all records: `name: type = strategy;`.
macro_rules! for_all_records {
    ($with:ident) => {
        $with! {
            empty: () = support::empty();
            request_header: RequestHeader = support::request_header();
            reply_header: ReplyHeader = support::reply_header();
            connect_request: ConnectRequest = support::connect_request();
            connect_response: ConnectResponse = support::connect_response();
            stat: Stat = support::stat();
            acl: Acl = support::acl();
            create2: Create2<'_> = support::create2();
            create_container: CreateContainer<'_> = support::create_container();
            create_ttl: CreateTtl<'_> = support::create_ttl();
            create_reply: CreateReply = support::create_reply();
            delete: Delete<'_> = support::delete();
            exists: Exists<'_> = support::exists();
            get_data: GetData<'_> = support::get_data();
            data_reply: DataReply = support::data_reply();
            set_data: SetData<'_> = support::set_data();
            get_children2: GetChildren2<'_> = support::get_children2();
            children_reply: ChildrenReply = support::children_reply();
            child_list: ChildList = support::child_list();
            sync: Sync<'_> = support::sync();
            sync_reply: SyncReply = support::sync_reply();
            set_watches: SetWatches<'_> = support::set_watches();
            watcher_event: WatcherEvent = support::watcher_event();
            ping: Ping = support::ping();
            close_session: CloseSession = support::close_session();
            auth_packet: AuthPacket<'_> = support::auth_packet();
        }
    };
}
pub(crate) use for_all_records;

/// The bytes of a record, after checking that their number is the announced one.
pub(crate) fn encoded(record: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    record.encode(&mut out);
    assert_eq!(out.len(), record.encoded_len());
    out.freeze()
}

/// Bytes from pairs of hex digits; white space, and what follows `//`, is for the reader.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let code = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let digits: Vec<u32> = code.flat_map(str::chars).filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).unwrap_or(0)).collect()
}

/// Any text, most of it like a path.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => "(/[a-z0-9_-]{1,12}){1,4}", 1 => any::<String>()]
}

fn cow_text() -> impl Strategy<Value = Cow<'static, str>> {
    text().prop_map(Cow::Owned)
}

fn cow_texts() -> impl Strategy<Value = Vec<Cow<'static, str>>> {
    vec(cow_text(), 0..6)
}

fn data() -> impl Strategy<Value = Option<Vec<u8>>> {
    option::of(vec(any::<u8>(), 0..40))
}

fn cow_data() -> impl Strategy<Value = Option<Cow<'static, [u8]>>> {
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
        zxid,
        err: ErrorCode(err),
    })
}

pub(crate) fn connect_request() -> impl Strategy<Value = ConnectRequest> {
    (any::<(i32, i64, i32, i64, Option<bool>)>(), vec(any::<u8>(), 0..20)).prop_map(
        |((protocol_version, last_zxid_seen, timeout_ms, session_id, read_only), password)| {
            ConnectRequest {
                protocol_version,
                last_zxid_seen,
                timeout_ms,
                session_id,
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
            session_id,
            password: password.into(),
            read_only,
        },
    )
}

pub(crate) fn stat() -> impl Strategy<Value = Stat> {
    any::<([i64; 6], [i32; 5])>().prop_map(|(longs, ints)| Stat {
        czxid: longs[0],
        mzxid: longs[1],
        ctime_ms: longs[2],
        mtime_ms: longs[3],
        version: ints[0],
        cversion: ints[1],
        aversion: ints[2],
        ephemeral_owner: longs[4],
        data_length: ints[3],
        num_children: ints[4],
        pzxid: longs[5],
    })
}

pub(crate) fn acl() -> impl Strategy<Value = Acl> {
    (any::<i32>(), cow_text(), cow_text()).prop_map(|(perms, scheme, id)| Acl {
        perms: Perms(perms),
        scheme,
        id,
    })
}

pub(crate) fn create2() -> impl Strategy<Value = Create2<'static>> {
    create()
}

pub(crate) fn create_container() -> impl Strategy<Value = CreateContainer<'static>> {
    create()
}

fn create<const OP: i32>() -> impl Strategy<Value = CreateRequest<'static, OP>> {
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

pub(crate) fn get_children2() -> impl Strategy<Value = GetChildren2<'static>> {
    (cow_text(), any::<bool>()).prop_map(|(path, watch)| GetChildren2 { path, watch })
}

pub(crate) fn children_reply() -> impl Strategy<Value = ChildrenReply> {
    (child_list(), stat()).prop_map(|(children, stat)| ChildrenReply { children, stat })
}

/// Names of any bytes: a server does not promise UTF-8.
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
        |(relative_zxid, data, exist, child)| SetWatches { relative_zxid, data, exist, child },
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
