//! Shared parts of the tests. They include one list of all records with their fields, so that every test of
//! records covers a record or a field added there.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test binary uses a part of this module"
)]

pub(crate) mod codec;
mod fields;
pub(crate) mod recording;

use bytes::{Bytes, BytesMut};
use proptest::test_runner::{Config, RngSeed};
use zk_proto::Encode;

pub(crate) use fields::Field;
pub(crate) use recording::hex;

/// Returns a configuration with the same cases on every run. `PROPTEST_RNG_SEED` and `PROPTEST_CASES` in the
/// environment change that.
pub(crate) fn config() -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(0x5a4b);
    }
    config
}

/// Calls `$with!` with the list of all records and their fields: `name: type { fields };`.
macro_rules! for_all_records {
    ($with:ident) => {
        $with! {
            request_header: RequestHeader { xid, op };
            reply_header: ReplyHeader { xid, zxid, err };
            connect_request: ConnectRequest {
                protocol_version, last_zxid_seen, timeout_ms, session_id, password, read_only
            };
            connect_response: ConnectResponse {
                protocol_version, timeout_ms, session_id, password, read_only
            };
            stat: Stat {
                czxid, mzxid, ctime_ms, mtime_ms, version, cversion, aversion, ephemeral_owner,
                data_length, num_children, pzxid
            };
            acl: Acl { perms, scheme, id };
            create: Create<'_> { path, data, acl, mode };
            create_path_reply: CreatePathReply { path };
            create2: Create2<'_> { path, data, acl, mode };
            create_container: CreateContainer<'_> { path, data, acl, mode };
            create_ttl: CreateTtl<'_> { path, data, acl, sequential, ttl_ms };
            create_reply: CreateReply { path, stat };
            delete: Delete<'_> { path, version };
            exists: Exists<'_> { path, watch };
            get_data: GetData<'_> { path, watch };
            data_reply: DataReply { data, stat };
            set_data: SetData<'_> { path, data, version };
            get_acl: GetAcl<'_> { path };
            acl_reply: AclReply { acl, stat };
            set_acl: SetAcl<'_> { path, acl, aversion };
            get_children: GetChildren<'_> { path, watch };
            get_children2: GetChildren2<'_> { path, watch };
            children_reply: ChildrenReply { children, stat };
            child_list: ChildList;
            sync: Sync<'_> { path };
            sync_reply: SyncReply { path };
            set_watches: SetWatches<'_> { relative_zxid, data, exist, child };
            set_watches2: SetWatches2<'_> {
                relative_zxid, data, exist, child, persistent, persistent_recursive
            };
            watcher_event: WatcherEvent { event_type, state, path };
            ping: Ping {};
            close_session: CloseSession {};
            auth_packet: AuthPacket<'_> { auth_type, scheme, auth };
            sasl: Sasl<'_> { token };
            sasl_reply: SaslReply { token };
            who_am_i: WhoAmI {};
            client_info: ClientInfo { scheme, user };
            who_am_i_reply: WhoAmIReply { identities };
            add_watch: AddWatch<'_> { path, mode };
            add_watch_reply: AddWatchReply { err };
            check_watches: CheckWatches<'_> { path, watcher_type };
            remove_watches: RemoveWatches<'_> { path, watcher_type };
            get_ephemerals: GetEphemerals<'_> { prefix };
            ephemerals_reply: EphemeralsReply { paths };
            descendants: GetAllChildrenNumber<'_> { path };
            descendants_reply: AllChildrenNumberReply { total };
            reconfig: Reconfig<'_> { joining, leaving, new_members, from_config };
            check: Check<'_> { path, version };
            multi: Multi<'_> { ops };
            multi_reply: MultiReply { results };
            multi_read: MultiRead<'_> { ops };
            multi_read_reply: MultiReadReply { results };
        }
    };
}
pub(crate) use for_all_records;

/// Encodes a record and checks the announced length.
pub(crate) fn encoded(record: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    record.encode(&mut out);
    assert_eq!(out.len(), record.encoded_len());
    out.freeze()
}
