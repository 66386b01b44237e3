//! Memory of an armed watch, counted and not estimated.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use proto::{
    ConnectResponse, ErrorCode, GetData, ReplyHeader, SessionId, Zxid, encode_record, encode_reply,
};
use tokio::sync::oneshot;
use zk_session_core::{
    Failure, Handle, Handles, Output, Reply, Session, Settings, WatchEvent, WatchKind,
};
use zk_session_core::{Host, SessionEnd};

/// The handles of a client's driver.
struct Channels;

#[derive(Debug)]
struct Answer;

#[derive(Debug)]
struct Fire(oneshot::Sender<Result<WatchEvent, SessionEnd>>);

#[derive(Clone, Debug)]
struct Stream;

impl Handle for Answer {}
impl Handle for Fire {
    fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }
}
impl Handle for Stream {}

impl Handles for Channels {
    type Reply = Answer;
    type Watch = Fire;
    type Stream = Stream;
}

#[test]
fn armed_watch_takes_at_most_256_bytes_and_its_path() {
    let now = now();
    let mut session = connected(now);
    let mut receivers = Vec::with_capacity(COUNT);
    arm(&mut session, now, "/before", &mut receivers); // the buffers exist from now on
    let allocated = allocation_counter::measure(|| {
        for n in 0..COUNT - 1 {
            arm(&mut session, now, &path(n), &mut receivers);
        }
    });
    let per_watch = usize::try_from(allocated.bytes_current).unwrap() / (COUNT - 1);
    let path_len = path(0).len();
    println!("{per_watch} bytes for each watch, {path_len} of them its path");
    assert!(per_watch <= 256 + path_len, "{per_watch} bytes");
    // The watches leave no memory behind.
    let freed = allocation_counter::measure(|| {
        receivers.clear();
        for n in 0..COUNT - 1 {
            session.prune_watches(now, &path(n));
        }
        session.abort();
        while session.poll_output().is_some() {}
    });
    let left = allocated.bytes_current + freed.bytes_current;
    assert!(left <= i64::try_from(COUNT).unwrap(), "{left} bytes stay behind");
}

const COUNT: usize = 20_000;

fn path(n: usize) -> String {
    // In no order, like the paths of locks.
    format!("/locks/{:08x}/_c_lock-{n:010}", n.wrapping_mul(0x9e37_79b9) & 0xffff_ffff)
}

#[allow(clippy::disallowed_methods, reason = "virtual time needs some instant to count from")]
fn now() -> Instant {
    Instant::now()
}

fn connected(now: Instant) -> Session<Channels> {
    let settings = Settings::new(vec![Host::new("a", 1)], Duration::from_secs(10));
    let mut session = Session::new(settings, now);
    session.handle_timeout(now);
    session.handle_connected(now);
    let mut frame = BytesMut::new();
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 10_000,
        session_id: SessionId(7),
        password: Bytes::from_static(&[1; 16]),
        read_only: Some(false),
    };
    encode_record(&response, &mut frame);
    session.handle_received(now, &mut frame);
    assert!(session.is_connected());
    session.poll_transmit(&mut frame);
    session
}

/// Runs one request with a watch, up to its reply.
fn arm(
    session: &mut Session<Channels>,
    now: Instant,
    path: &str,
    receivers: &mut Vec<oneshot::Receiver<Result<WatchEvent, SessionEnd>>>,
) {
    let (fire, receiver) = oneshot::channel();
    receivers.push(receiver);
    let request = GetData { path: path.into(), watch: true };
    let watch = Some((WatchKind::Data, Fire(fire)));
    session.submit(now, &request, Answer, watch).unwrap();
    let mut bytes = BytesMut::new();
    session.poll_transmit(&mut bytes);
    session.handle_written(bytes.len());
    let xid = i32::from_be_bytes(bytes.get(4..8).unwrap().try_into().unwrap());
    bytes.clear();
    let header = ReplyHeader { xid, zxid: Zxid(1), err: ErrorCode::OK };
    encode_reply(&header, Some(&()), &mut bytes);
    session.handle_received(now, &mut bytes);
    while let Some(output) = session.poll_output() {
        let answer: Option<Result<Reply, Failure>> = match output {
            Output::Reply { result, .. } => Some(result),
            _ => None,
        };
        assert!(answer.is_none_or(|answer| answer.is_ok()));
    }
}
