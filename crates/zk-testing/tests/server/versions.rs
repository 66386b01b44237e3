//! Tests of what differs between the servers that the model reproduces.

use bytes::{BufMut, BytesMut};
use proto::{
    ConnectReply, ConnectRequest, ConnectResponse, Decode, ErrorCode, GetData, OpCode, SessionId,
    Zxid, encode_record,
};
use zk_testing::{Settings, Version};

use crate::world::{World, new_session};

/// What every server does with every operation; see [`outcome`].
const OPERATIONS: &str = include_str!("operations.txt");

/// Operation of the reaper, which the codec does not offer.
const DELETE_CONTAINER: i32 = 20;

#[test]
fn operations_have_the_outcomes_of_the_golden_list() {
    let ops = OpCode::ALL.map(|op| (op.code(), op.name()));
    let mut table = row("operation", Version::ALL.map(Version::name));
    for (op, name) in ops.into_iter().chain([(DELETE_CONTAINER, "deleteContainer")]) {
        table += &row(&format!("{name} {op}"), Version::ALL.map(|version| outcome(version, op)));
    }
    assert!(table == OPERATIONS, "operations.txt should be:\n{table}");
}

fn row(name: &str, cells: [&str; Version::ALL.len()]) -> String {
    let cells = cells.map(|cell| format!("{cell:<14}")).concat();
    format!("{name:<25}{}\n", cells.trim_end())
}

/// Sends one valid request. Returns what the server does: `answered` with any other error than
/// Unimplemented, `unimplemented` and then closed, `closed` or `silent` without a reply.
fn outcome(version: Version, op: i32) -> &'static str {
    let mut world = World::of(version);
    let client = world.connect();
    world.send_raw(&client, op, &body(op));
    let err = world.reply(&client).map(|(header, _)| header.err);
    let is_closed = world.closed(client.id).is_some();
    match (err, is_closed) {
        (Some(ErrorCode::UNIMPLEMENTED), true) => "unimplemented",
        (Some(_), _) => "answered",
        (None, true) => "closed",
        (None, false) => "silent",
    }
}

/// Returns a body that a server with this operation can read.
fn body(op: i32) -> BytesMut {
    let mut out = BytesMut::new();
    match OpCode::from_code(op) {
        Some(OpCode::CloseSession | OpCode::Ping | OpCode::WhoAmI) => {}
        Some(OpCode::Multi | OpCode::MultiRead) => end_of_multi(&mut out),
        Some(OpCode::Sasl) => text(&mut out, ""),
        Some(OpCode::Auth) => {
            out.put_i32(0);
            text(&mut out, "digest");
            text(&mut out, "me:secret");
        }
        Some(OpCode::SetWatches | OpCode::SetWatches2) => {
            out.put_i64(0);
            out.put_bytes(0, 4 * if op == OpCode::SetWatches.code() { 3 } else { 5 });
        }
        Some(OpCode::Reconfig) => {
            (0..3).for_each(|_| text(&mut out, ""));
            out.put_i64(-1);
        }
        Some(OpCode::Create | OpCode::Create2 | OpCode::CreateContainer | OpCode::CreateTtl) => {
            create(&mut out, op, "/a")
        }
        Some(OpCode::SetAcl) => {
            text(&mut out, "/a");
            open_acl(&mut out);
            out.put_i32(-1);
        }
        Some(OpCode::SetData) => {
            text(&mut out, "/a");
            text(&mut out, "data");
            out.put_i32(-1);
        }
        // A path, and a version, a type or a flag.
        _ => {
            text(&mut out, "/a");
            out.put_i32(1);
        }
    }
    out
}

fn create(out: &mut BytesMut, op: i32, path: &str) {
    text(out, path);
    text(out, "data");
    open_acl(out);
    out.put_i32(match OpCode::from_code(op) {
        Some(OpCode::CreateContainer) => 4,
        Some(OpCode::CreateTtl) => 5,
        _ => 0,
    });
    if op == OpCode::CreateTtl.code() {
        out.put_i64(1_000);
    }
}

fn open_acl(out: &mut BytesMut) {
    out.put_i32(1);
    out.put_i32(31);
    text(out, "world");
    text(out, "anyone");
}

pub(crate) fn text(out: &mut BytesMut, text: &str) {
    out.put_i32(i32::try_from(text.len()).unwrap());
    out.put_slice(text.as_bytes());
}

pub(crate) fn end_of_multi(out: &mut BytesMut) {
    multi_header(out, -1, true);
}

pub(crate) fn multi_header(out: &mut BytesMut, op: i32, is_last: bool) {
    out.put_i32(op);
    out.put_u8(is_last.into());
    out.put_i32(-1);
}

#[test]
fn multi_with_unknown_operation_fails_as_at_each_server() {
    let unknown = [
        (Version::V3_4, OpCode::Create2, Some(ErrorCode::MARSHALLING_ERROR), false),
        (Version::V3_5, OpCode::Create2, None, true),
        (Version::Keeper25_8, OpCode::Create2, None, false),
        (Version::Keeper26_6, OpCode::Create2, None, true),
        (Version::Keeper26_6, OpCode::CreateContainer, None, false),
        (Version::RaftKeeper, OpCode::Create2, None, false),
    ];
    for (version, op, code, is_known) in unknown {
        let mut world = World::of(version);
        let client = world.connect();
        let mut body = BytesMut::new();
        multi_header(&mut body, op.code(), false);
        create(&mut body, op.code(), "/a");
        end_of_multi(&mut body);
        let expected = if is_known { Some(ErrorCode::OK) } else { code };
        assert_eq!(world.call_raw(&client, OpCode::Multi.code(), &body), expected, "{version:?}");
        let closes = expected.is_none() && version != Version::RaftKeeper;
        assert_eq!(world.closed(client.id).is_some(), closes, "{version:?}");
    }
}

#[test]
fn connect_reply_is_that_of_each_server() {
    for version in Version::ALL {
        let is_keeper_like = version >= Version::Keeper25_8;
        let limits = match version {
            Version::RaftKeeper => (1_000, 3_600_000),
            _ if is_keeper_like => (10_000, 100_000),
            _ => (4_000, 40_000),
        };
        let asked = [(0, if is_keeper_like { 30_000 } else { 4_000 }), (15_000, 15_000)];
        for (asked_ms, granted_ms) in asked.into_iter().chain([(1, limits.0), (i32::MAX, limits.1)])
        {
            let mut world = World::of(version);
            let request = ConnectRequest { timeout_ms: asked_ms, ..new_session() };
            let (_, reply) = world.try_connect(0, &request);
            let Some(ConnectReply::Accepted(session)) = reply else { panic!("{reply:?}") };
            assert_eq!(session.timeout_ms, granted_ms, "{version:?}");
            assert_eq!(session.read_only.is_none(), is_keeper_like, "{version:?}");
            assert_eq!(session.password[..] == [0; 16], is_keeper_like, "{version:?}");
        }
    }
}

#[test]
fn reconnect_resumes_the_session_except_at_keeper() {
    for version in Version::ALL {
        let mut world = World::of(version);
        let client = world.connect();
        let again = world.reconnect(0, &client);
        let is_resumed = again.session.session_id == client.session.session_id;
        let is_keeper = matches!(version, Version::Keeper25_8 | Version::Keeper26_6);
        assert_eq!(is_resumed, !is_keeper, "{version:?}");
        assert_eq!(world.closed(client.id).is_some(), is_resumed, "{version:?}");
    }
}

#[test]
fn client_from_the_future_is_refused_except_at_keeper() {
    for version in Version::ALL {
        let mut world = World::of(version);
        let request = ConnectRequest { last_zxid_seen: Zxid(9), ..new_session() };
        let is_accepted = world.try_connect(0, &request).1.is_some();
        let is_keeper = matches!(version, Version::Keeper25_8 | Version::Keeper26_6);
        assert_eq!(is_accepted, is_keeper, "{version:?}");
    }
}

#[test]
fn keeper_without_a_leader_sends_protocol_version_42() {
    for version in [Version::Keeper25_8, Version::Keeper26_6, Version::RaftKeeper] {
        let mut world = World::with(Settings::new().servers(3).version(version));
        world.zk.kill(world.now, 0);
        let id = world.open(1);
        let mut bytes = BytesMut::new();
        encode_record(&new_session(), &mut bytes);
        world.write(id, &bytes);
        let frame = world.frame(id).unwrap();
        assert_eq!(frame.len(), 36);
        let rejected = ConnectResponse::from_frame(&frame).unwrap();
        let expected = (42, 10_000, SessionId(-1));
        assert_eq!((rejected.protocol_version, rejected.timeout_ms, rejected.session_id), expected);
        assert!(world.closed(id).is_some());
        assert_eq!(world.zk.sessions().count(), 0);
    }
}

#[test]
fn feature_flags_are_readable_at_keeper() {
    let flags: [(Version, Option<&[u8]>); 4] = [
        (Version::V3_9, None),
        (Version::Keeper25_8, Some(&[0b1111_0000, 0])),
        (Version::Keeper26_6, Some(&[0b1111_0011, 0b1100_0000])),
        (Version::RaftKeeper, None),
    ];
    for (version, expected) in flags {
        let mut world = World::of(version);
        let client = world.connect();
        let path = "/keeper/feature_flags".into();
        let read = world.call(&client, &GetData { path, watch: false });
        assert_eq!(read.ok().and_then(|reply| reply.data).as_deref(), expected, "{version:?}");
        let own = world.stat(&client, "/zookeeper").is_ok();
        assert_eq!(own, version == Version::V3_9, "{version:?}");
    }
}
