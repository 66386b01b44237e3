//! Allocation test. A session in steady state writes requests straight into the connection's
//! buffer, without an allocation.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use proto::{
    ConnectResponse, Create2, CreateMode, Delete, Exists, GetChildren2, OPEN_ACL_UNSAFE,
    ReplyHeader, Request, SessionId, SetData, Stat, Zxid, encode_record, encode_reply,
};
use zk_session_core::Host;
use zk_session_core::{Handle, Handles, Session, Settings};

struct Nobody;

#[derive(Clone, Debug)]
struct Nothing;

impl Handle for Nothing {}

impl Handles for Nobody {
    type Reply = Nothing;
    type Watch = Nothing;
    type Stream = Nothing;
}

#[test]
fn request_is_written_without_allocation_in_steady_state() {
    let now = now();
    let mut session = connected(now);
    let (mut wire, mut replies, mut xid) = (BytesMut::with_capacity(4096), BytesMut::new(), 0);
    let mut allocated = 0;
    for round in 0..200 {
        let out = allocation_counter::measure(|| ask_all(&mut session, now, &mut wire));
        // The first 100 rounds grow the buffers and tables to their final size.
        allocated += if round < 100 { 0 } else { out.count_total };
        answer_all(&mut xid, &mut replies);
        session.handle_received(now, &mut replies);
        while session.poll_output().is_some() {}
    }
    assert_eq!(allocated, 0);
}

/// Submits and sends five requests, as a driver does.
fn ask_all(session: &mut Session<Nobody>, now: Instant, wire: &mut BytesMut) {
    let create = Create2 {
        path: "/locks/_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-lock-".into(),
        data: Some(b"10.0.0.1"[..].into()),
        acl: OPEN_ACL_UNSAFE.into(),
        mode: CreateMode::EphemeralSequential,
    };
    ask(session, now, &create);
    ask(session, now, &GetChildren2 { path: "/locks".into(), watch: false });
    ask(session, now, &Exists { path: "/locks".into(), watch: false });
    ask(session, now, &SetData { path: "/s".into(), data: Some(b"x"[..].into()), version: 3 });
    ask(session, now, &Delete { path: "/locks/lock-0".into(), version: -1 });
    session.poll_transmit(wire);
    assert!(!wire.is_empty());
    session.handle_written(wire.len());
    wire.clear();
}

fn ask<R: Request>(session: &mut Session<Nobody>, now: Instant, request: &R) {
    session.submit(now, request, Nothing, None).unwrap();
}

/// Encodes replies to the five requests. The session does not decode their bodies.
fn answer_all(xid: &mut i32, replies: &mut BytesMut) {
    for _ in 0..5 {
        *xid += 1;
        let header = ReplyHeader { xid: *xid, zxid: Zxid(7), err: proto::ErrorCode::OK };
        encode_reply(&header, Some(&Stat::default()), replies);
    }
}

fn connected(now: Instant) -> Session<Nobody> {
    let settings = Settings::new(vec![Host::new("a", 2181)], Duration::from_secs(10));
    let mut session = Session::new(settings, now);
    session.handle_timeout(now);
    session.handle_connected(now);
    let mut out = BytesMut::new();
    session.poll_transmit(&mut out);
    session.handle_written(out.len());
    let mut reply = BytesMut::new();
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 10_000,
        session_id: SessionId(1),
        password: Bytes::from_static(&[0; 16]),
        read_only: Some(false),
    };
    encode_record(&response, &mut reply);
    session.handle_received(now, &mut reply);
    while session.poll_output().is_some() {}
    session
}

#[allow(clippy::disallowed_methods, reason = "a test needs some instant to count from")]
fn now() -> Instant {
    Instant::now()
}
