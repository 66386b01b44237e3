//! Shared parts of the tests. They include one list of all records with a strategy for each, so that every
//! test of records covers a record added there.
#![allow(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "each test binary uses a part of this module"
)]

pub(crate) mod codec;
pub(crate) mod golden;
pub(crate) mod multi;
pub(crate) mod recording;
mod strategies;

use bytes::{Bytes, BytesMut};
use proptest::test_runner::{Config, RngSeed};
use zk_proto::Encode;

pub(crate) use recording::hex;
pub(crate) use strategies::*;

/// Returns a configuration with the same cases on every run. `PROPTEST_RNG_SEED` and `PROPTEST_CASES` in the
/// environment change that.
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
            digest_acl: Acl = support::digest_acl();
            create: Create<'_> = support::create();
            create_path_reply: CreatePathReply = support::create_path_reply();
            create2: Create2<'_> = support::create2();
            create_container: CreateContainer<'_> = support::create_container();
            create_ttl: CreateTtl<'_> = support::create_ttl();
            create_reply: CreateReply = support::create_reply();
            delete: Delete<'_> = support::delete();
            exists: Exists<'_> = support::exists();
            get_data: GetData<'_> = support::get_data();
            data_reply: DataReply = support::data_reply();
            set_data: SetData<'_> = support::set_data();
            get_acl: GetAcl<'_> = support::get_acl();
            acl_reply: AclReply = support::acl_reply();
            set_acl: SetAcl<'_> = support::set_acl();
            get_children: GetChildren<'_> = support::get_children();
            get_children2: GetChildren2<'_> = support::get_children2();
            children_reply: ChildrenReply = support::children_reply();
            child_list: ChildList = support::child_list();
            sync: Sync<'_> = support::sync();
            sync_reply: SyncReply = support::sync_reply();
            set_watches: SetWatches<'_> = support::set_watches();
            set_watches2: SetWatches2<'_> = support::set_watches2();
            watcher_event: WatcherEvent = support::watcher_event();
            ping: Ping = support::ping();
            close_session: CloseSession = support::close_session();
            auth_packet: AuthPacket<'_> = support::auth_packet();
            sasl: Sasl<'_> = support::sasl();
            sasl_reply: SaslReply = support::sasl_reply();
            who_am_i: WhoAmI = support::who_am_i();
            client_info: ClientInfo = support::client_info();
            who_am_i_reply: WhoAmIReply = support::who_am_i_reply();
            add_watch: AddWatch<'_> = support::add_watch();
            add_watch_reply: AddWatchReply = support::add_watch_reply();
            check_watches: CheckWatches<'_> = support::check_watches();
            remove_watches: RemoveWatches<'_> = support::remove_watches();
            get_ephemerals: GetEphemerals<'_> = support::get_ephemerals();
            ephemerals_reply: EphemeralsReply = support::ephemerals_reply();
            descendants: GetAllChildrenNumber<'_> = support::get_all_children_number();
            descendants_reply: AllChildrenNumberReply = support::all_children_number_reply();
            reconfig: Reconfig<'_> = support::reconfig();
            check: Check<'_> = support::multi::check();
            multi: Multi<'_> = support::multi::multi();
            multi_reply: MultiReply = support::multi::multi_reply();
            multi_read: MultiRead<'_> = support::multi::multi_read();
            multi_read_reply: MultiReadReply = support::multi::multi_read_reply();
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
