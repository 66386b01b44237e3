//! Tests of opcodes, error codes and modes against the protocol's tables.

use std::collections::HashSet;

use bytes::{Bytes, BytesMut};
use zk_proto::{
    Acl, AddWatchMode, CreateMode, Decode, ErrorCode, EventType, KeeperState, OPEN_ACL_UNSAFE,
    OpCode, OpList, Perms, ReplyHeader, SessionId, SetWatches, SetWatches2, Stat, WatcherType,
    Zxid, credential_id, digest_id, split_frame, validate_path,
};

#[test]
fn opcodes_are_those_a_client_may_send() {
    let expected: Vec<i32> =
        [-11].into_iter().chain(1..=9).chain(11..=19).chain(21..=22).chain(100..=107).collect();
    let codes: Vec<i32> = OpCode::ALL.iter().map(|op| op.code()).collect();
    assert_eq!(codes, expected);
    for op in OpCode::ALL {
        assert_eq!(OpCode::from_code(op.code()), Some(op));
    }
    // createSession, error, notification, deleteContainer, and an opcode of a future version.
    for code in [-10, -1, 0, 20, 108, i32::MIN, i32::MAX] {
        assert_eq!(OpCode::from_code(code), None);
    }
    let names: HashSet<&str> = OpCode::ALL.iter().map(|op| op.name()).collect();
    assert_eq!(names.len(), OpCode::ALL.len());
}

#[test]
fn writes_are_the_operations_with_a_zxid() {
    let writes = OpCode::ALL.iter().filter(|op| op.is_write()).map(|op| op.name());
    assert_eq!(
        writes.collect::<Vec<_>>().join(" "),
        "closeSession create delete setData setACL multi create2 reconfig createContainer createTTL"
    );
}

/// `KeeperException.Code` of ZooKeeper 3.9, and the additional codes of `zookeeper.h`.
const CODES: [(ErrorCode, i32, &str); 36] = [
    (ErrorCode::OK, 0, "OK"),
    (ErrorCode::SYSTEM_ERROR, -1, "SystemError"),
    (ErrorCode::RUNTIME_INCONSISTENCY, -2, "RuntimeInconsistency"),
    (ErrorCode::DATA_INCONSISTENCY, -3, "DataInconsistency"),
    (ErrorCode::CONNECTION_LOSS, -4, "ConnectionLoss"),
    (ErrorCode::MARSHALLING_ERROR, -5, "MarshallingError"),
    (ErrorCode::UNIMPLEMENTED, -6, "Unimplemented"),
    (ErrorCode::OPERATION_TIMEOUT, -7, "OperationTimeout"),
    (ErrorCode::BAD_ARGUMENTS, -8, "BadArguments"),
    (ErrorCode::INVALID_STATE, -9, "InvalidState"),
    (ErrorCode::UNKNOWN_SESSION, -12, "UnknownSession"),
    (ErrorCode::NEW_CONFIG_NO_QUORUM, -13, "NewConfigNoQuorum"),
    (ErrorCode::RECONFIG_IN_PROGRESS, -14, "ReconfigInProgress"),
    (ErrorCode::SSL_CONNECTION_ERROR, -15, "SSLConnectionError"),
    (ErrorCode::API_ERROR, -100, "APIError"),
    (ErrorCode::NO_NODE, -101, "NoNode"),
    (ErrorCode::NO_AUTH, -102, "NoAuth"),
    (ErrorCode::BAD_VERSION, -103, "BadVersion"),
    (ErrorCode::NO_CHILDREN_FOR_EPHEMERALS, -108, "NoChildrenForEphemerals"),
    (ErrorCode::NODE_EXISTS, -110, "NodeExists"),
    (ErrorCode::NOT_EMPTY, -111, "NotEmpty"),
    (ErrorCode::SESSION_EXPIRED, -112, "SessionExpired"),
    (ErrorCode::INVALID_CALLBACK, -113, "InvalidCallback"),
    (ErrorCode::INVALID_ACL, -114, "InvalidACL"),
    (ErrorCode::AUTH_FAILED, -115, "AuthFailed"),
    (ErrorCode::CLOSING, -116, "Closing"),
    (ErrorCode::NOTHING, -117, "Nothing"),
    (ErrorCode::SESSION_MOVED, -118, "SessionMoved"),
    (ErrorCode::NOT_READ_ONLY, -119, "NotReadOnly"),
    (ErrorCode::EPHEMERAL_ON_LOCAL_SESSION, -120, "EphemeralOnLocalSession"),
    (ErrorCode::NO_WATCHER, -121, "NoWatcher"),
    (ErrorCode::REQUEST_TIMEOUT, -122, "RequestTimeout"),
    (ErrorCode::RECONFIG_DISABLED, -123, "ReconfigDisabled"),
    (ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH, -124, "SessionClosedRequireSaslAuth"),
    (ErrorCode::QUOTA_EXCEEDED, -125, "QuotaExceeded"),
    (ErrorCode::THROTTLED_OP, -127, "ThrottledOp"),
];

#[test]
fn codes_have_their_numbers_and_names() {
    for (code, number, name) in CODES {
        assert_eq!((code.0, code.name()), (number, Some(name)));
    }
}

#[test]
fn codes_print_with_name_and_number() {
    for (code, text) in [
        (ErrorCode::OK, "OK (0)"),
        (ErrorCode::NO_NODE, "NoNode (-101)"),
        (ErrorCode::SESSION_EXPIRED, "SessionExpired (-112)"),
        (ErrorCode::THROTTLED_OP, "ThrottledOp (-127)"),
        (ErrorCode(-126), "unknown code (-126)"),
        (ErrorCode(i32::MIN), "unknown code (-2147483648)"),
    ] {
        assert_eq!(code.to_string(), text);
    }
    assert_eq!((-200..=200).filter(|&code| ErrorCode(code).name().is_some()).count(), CODES.len());
    assert!(ErrorCode::OK.is_ok() && !ErrorCode::SYSTEM_ERROR.is_ok() && !ErrorCode(1).is_ok());
}

#[test]
fn create_modes_match_their_flags() {
    for (flags, sequential, ephemeral) in
        [(0, false, false), (1, false, true), (2, true, false), (3, true, true), (4, false, false)]
    {
        let mode = CreateMode::from_flags(flags).unwrap();
        assert_eq!(mode.flags(), flags);
        assert_eq!((mode.is_sequential(), mode.is_ephemeral()), (sequential, ephemeral));
    }
    for flags in [-1, 5, 6, 7, i32::MAX] {
        assert_eq!(CreateMode::from_flags(flags), None);
    }
}

#[test]
fn event_types_and_keeper_states_have_their_names() {
    let names: Vec<_> = (-3..=8).map(|code| EventType(code).name().unwrap_or("-")).collect();
    assert_eq!(
        names.join(" "),
        "- NotWatching None - NodeCreated NodeDeleted NodeDataChanged NodeChildrenChanged \
         DataWatchRemoved ChildWatchRemoved PersistentWatchRemoved -"
    );
    let names: Vec<_> = (-2..=8).map(|code| KeeperState(code).name().unwrap_or("-")).collect();
    assert_eq!(
        names.join(" "),
        "- Unknown Disconnected NoSyncConnected - SyncConnected AuthFailed ConnectedReadOnly \
         SaslAuthenticated Closed -"
    );
    assert_eq!(KeeperState(-112).name(), Some("Expired"));
}

#[test]
fn watcher_types_and_add_watch_modes_have_their_codes() {
    use {AddWatchMode as Mode, WatcherType as Type};
    let types =
        [Type::Children, Type::Data, Type::Any, Type::Persistent, Type::PersistentRecursive];
    let modes = [Mode::Persistent, Mode::PersistentRecursive];
    assert_eq!(types.map(Type::code), [1, 2, 3, 4, 5]);
    assert_eq!(modes.map(Mode::code), [0, 1]);
    for code in (-2..8).chain([i32::MIN, i32::MAX]) {
        let is = |own: &i32| *own == code;
        assert_eq!(Type::from_code(code), types.into_iter().find(|it| is(&it.code())));
        assert_eq!(Mode::from_code(code), modes.into_iter().find(|it| is(&it.code())));
    }
}

#[test]
fn permissions_are_bits() {
    let bits = [Perms::READ, Perms::WRITE, Perms::CREATE, Perms::DELETE, Perms::ADMIN];
    let mut all = Perms(0);
    for (at, perms) in bits.into_iter().enumerate() {
        assert_eq!(perms.0, 1 << at);
        assert!(!all.contains(perms));
        all |= perms;
    }
    assert_eq!(all, Perms::ALL);
}

#[test]
fn acl_constructors_set_scheme_and_id() {
    for (acl, scheme, id) in [
        (Acl::world(Perms::READ), "world", "anyone"),
        (Acl::auth(Perms::READ), "auth", ""),
        // The id is that of the server's own tool.
        (Acl::digest(Perms::READ, "super", "test"), "digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="),
        (Acl::ip(Perms::READ, "10.0.0.0/8"), "ip", "10.0.0.0/8"),
        (Acl::x509(Perms::READ, "CN=alice"), "x509", "CN=alice"),
        (Acl::sasl(Perms::READ, String::from("alice@EXAMPLE.ORG")), "sasl", "alice@EXAMPLE.ORG"),
    ] {
        assert_eq!((acl.perms, &*acl.scheme, &*acl.id), (Perms::READ, scheme, id));
    }
    assert_eq!(OPEN_ACL_UNSAFE, [Acl::world(Perms::ALL)]);
}

/// The hash covers the whole credential; the name ends at its first colon.
#[test]
fn digest_id_splits_the_user_at_the_first_colon() {
    let hash = digest_id("a", "b:c").split_once(':').unwrap().1.to_owned();
    assert_eq!(digest_id("a:b", "c"), format!("a:{hash}"));
    assert_eq!(digest_id("", "").split_once(':').unwrap().0, "");
}

#[test]
fn credential_id_hashes_the_whole_credential() {
    assert_eq!(credential_id("super:test"), digest_id("super", "test"));
    assert_eq!(credential_id("alone"), "alone:GwXWN/BAnMmbTdC1Aj5CHFLZt2Q=");
}

#[test]
fn acl_and_permissions_print_as_in_the_shell() {
    let entry = Acl::world(Perms::CREATE | Perms::DELETE | Perms::READ);
    assert_eq!(entry.to_string(), "world:anyone:cdr");
    for (perms, display, debug) in [
        (Perms(0), "-", "NONE"),
        (Perms::ALL, "cdrwa", "ALL"),
        (Perms::READ | Perms::READ, "r", "READ"),
        (Perms(0x41), "r+0x40", "READ|0x40"),
        (Perms(0x40), "+0x40", "0x40"),
    ] {
        assert_eq!(
            (perms.to_string(), format!("{perms:?}")),
            (display.to_owned(), debug.to_owned())
        );
    }
}

#[test]
fn errors_print_one_line_in_debug_too() {
    let decoding = Stat::from_frame(&Bytes::new()).unwrap_err();
    let frame = split_frame(&mut BytesMut::from(&[0xff; 4][..]), 0).unwrap_err();
    assert_eq!(format!("{decoding:?}"), decoding.to_string());
    assert_eq!(format!("{frame:?}"), frame.to_string());
}

#[test]
fn lists_of_operations_are_compared_and_printed_as_slices() {
    let ops = [1, 2];
    let owned = OpList::from(vec![1, 2]);
    assert_eq!(OpList::from(&ops[..]), owned);
    assert_ne!(OpList::from(&ops[..1]), owned);
    assert_eq!(format!("{owned:?}"), "[1, 2]");
}

#[test]
fn debug_prints_names_and_hex() {
    let codes = [ErrorCode::NO_NODE, ErrorCode(-999)];
    assert_eq!(format!("{codes:?}"), "[NoNode, ErrorCode(-999)]");
    let events = [EventType::NODE_DELETED, EventType(99)];
    assert_eq!(format!("{events:?}"), "[NodeDeleted, EventType(99)]");
    assert_eq!(EventType::NODE_CREATED.to_string(), "NodeCreated");
    let states = [KeeperState::SYNC_CONNECTED, KeeperState(99)];
    assert_eq!(
        format!("{states:?} {}", states[0]),
        "[SyncConnected, KeeperState(99)] SyncConnected"
    );
    assert_eq!(format!("{:?}", Acl::world(Perms::READ | Perms::ADMIN)), "world:anyone:ra");
    let digest = Acl::digest(Perms::READ, "alice", "secret");
    assert_eq!(format!("{digest:?} {digest}"), "digest:alice:…:r digest:alice:…:r");
    let stat = Stat { czxid: Zxid(0x10_0000_0002), pzxid: Zxid(255), ..Stat::default() };
    let text = format!("{stat:?}");
    assert!(text.contains("czxid: 0x1000000002,") && text.contains("pzxid: 0xff"), "{text}");
    let header = ReplyHeader { xid: 7, zxid: Zxid(31), err: ErrorCode::OK };
    assert_eq!(format!("{header:?}"), "ReplyHeader { xid: 7, zxid: 0x1f, err: OK }");
    let request = SetWatches { relative_zxid: Zxid(16), ..SetWatches::default() };
    assert!(format!("{request:?}").starts_with("SetWatches { relative_zxid: 0x10, data: []"));
    let request = SetWatches2 { relative_zxid: Zxid(16), ..SetWatches2::default() };
    assert!(format!("{request:?}").ends_with("persistent: [], persistent_recursive: [] }"));
    let short = validate_path("a").unwrap_err();
    assert!(!format!("{short:?}").contains('{'));
}

#[test]
fn ids_print_in_hexadecimal_and_parse_back() {
    for (number, text) in [(0, "0x0"), (0x1_0000_002a, "0x10000002a"), (-1, "0xffffffffffffffff")] {
        assert_eq!(format!("{} {:?}", SessionId(number), Zxid(number)), format!("{text} {text}"));
        assert_eq!(text.parse(), Ok(SessionId(number)));
        assert_eq!(text.trim_start_matches("0x").parse(), Ok(Zxid(number)));
        assert_eq!(format!("{:x}", Zxid(number)), text.trim_start_matches("0x"));
    }
}
