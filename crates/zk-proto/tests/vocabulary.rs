//! Opcodes, error codes and modes against the protocol's tables.

use std::collections::HashSet;

use zk_proto::{CreateMode, ErrorCode, EventType, OpCode};

#[test]
fn opcodes_are_those_a_client_may_send() {
    let expected: Vec<i32> =
        [-11].into_iter().chain(1..=9).chain(11..=19).chain(21..=22).chain(100..=107).collect();
    let codes: Vec<i32> = OpCode::ALL.iter().map(|op| op.code()).collect();
    assert_eq!(codes, expected);
    for op in OpCode::ALL {
        assert_eq!(OpCode::from_code(op.code()), Some(op));
    }
    // createSession, error, notification, deleteContainer, and one of the future.
    for code in [-10, -1, 0, 20, 108, i32::MIN, i32::MAX] {
        assert_eq!(OpCode::from_code(code), None);
    }
    let names: HashSet<&str> = OpCode::ALL.iter().map(|op| op.name()).collect();
    assert_eq!(names.len(), OpCode::ALL.len());
}

#[test]
fn writes_are_what_takes_a_zxid() {
    let writes: Vec<&str> =
        OpCode::ALL.iter().filter(|op| op.is_write()).map(|op| op.name()).collect();
    assert_eq!(
        writes,
        [
            "closeSession",
            "create",
            "delete",
            "setData",
            "setACL",
            "multi",
            "create2",
            "reconfig",
            "createContainer",
            "createTTL",
        ]
    );
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
    assert_eq!((-200..=200).filter(|&code| ErrorCode(code).name().is_some()).count(), 36);
    assert!(ErrorCode::OK.is_ok() && !ErrorCode::SYSTEM_ERROR.is_ok() && !ErrorCode(1).is_ok());
}

#[test]
fn modes() {
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
fn event_types() {
    let names: Vec<_> = (-1..=5).map(|code| EventType(code).name()).collect();
    assert_eq!(
        names,
        [
            None,
            None,
            Some("NodeCreated"),
            Some("NodeDeleted"),
            Some("NodeDataChanged"),
            Some("NodeChildrenChanged"),
            None,
        ]
    );
}
