//! Code paths of a lock through the library, for counting instead of timing.
//!
//! `core_paths PATH TIMES` runs one of them that many times, without a socket.
//!
//! `cargo xtask bench instructions` runs it under callgrind, which counts executed instructions.
//! Other load on the machine does not disturb the count. The only output is one line: the number of
//! allocations each time.

#![forbid(unsafe_code)]

use std::future::Future;
use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use zk_benches::{children_reply, curator_names};
use zk_proto::{
    ChildList, ChildrenReply, ConnectResponse, Create2, CreateMode, Decode, Exists,
    OPEN_ACL_UNSAFE, ReplyHeader, Stat, encode_record, encode_reply, encode_request,
};
use zk_recipes::Mutex;
use zk_recipes::child_order::SequenceOrder;
use zk_recipes::session::{Client, Config, Host, SessionId, Zxid};
use zk_session_core::{Handle, Handles, Session, Settings};
use zk_testing::TestServer;

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked = match &arguments[..] {
        [path, times] => times.parse().ok().zip(Some(path.as_str())),
        _ => None,
    };
    let Some((times, path)) = asked else {
        eprintln!("usage: core_paths PATH TIMES");
        return ExitCode::from(64);
    };
    match walk(path, times) {
        Ok(allocations) => {
            println!("{allocations:.2}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("core_paths: {path}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a code path. Returns the allocations each time.
fn walk(path: &str, times: u32) -> Result<f64, Failure> {
    match path {
        "encode-create" => counted(times, encode_create()),
        "decode-list-10" => counted(times, decode_list(10)),
        "rank-1000" => counted(times, rank(1_000)?),
        "sort-1000" => counted(times, sort(1_000)?),
        "session-request" => counted(times, session_request()),
        "acquire-release" => in_memory(times, acquire_and_release),
        "hand-off" => in_memory(times, hand_off),
        _ => Err("no such path".into()),
    }
}

fn counted(times: u32, mut once: impl FnMut()) -> Result<f64, Failure> {
    // The warm-up lets buffers grow to their final size.
    (0..WARM_UP).for_each(|_| once());
    let used = allocation_counter::measure(|| (0..times).for_each(|_| once()));
    Ok(used.count_total as f64 / f64::from(times))
}

fn encode_create() -> impl FnMut() {
    let mut out = BytesMut::with_capacity(1024);
    move || {
        out.clear();
        encode_request(1, &create_request(), &mut out);
        black_box(&out);
    }
}

fn create_request() -> Create2<'static> {
    Create2 {
        path: "/locks/stock/_c_0b7f36dc3cc24b57-lock-".into(),
        data: Some(b"10.0.0.1"[..].into()),
        acl: OPEN_ACL_UNSAFE.into(),
        mode: CreateMode::EphemeralSequential,
    }
}

fn decode_list(len: u32) -> impl FnMut() {
    let record = children_reply(&curator_names(len));
    move || {
        black_box(ChildrenReply::from_frame(&record)).ok();
    }
}

fn rank(len: u32) -> Result<impl FnMut(), Failure> {
    let names = curator_names(len);
    let own = names[names.len() / 2].clone();
    let list: ChildList = ChildrenReply::from_frame(&children_reply(&names))?.children;
    let rule = SequenceOrder::named("lock-");
    Ok(move || {
        black_box(rule.rank(&list, own.as_bytes()));
    })
}

fn sort(len: u32) -> Result<impl FnMut(), Failure> {
    let names = curator_names(len);
    let list: ChildList = ChildrenReply::from_frame(&children_reply(&names))?.children;
    let rule = SequenceOrder::named("lock-");
    Ok(move || {
        black_box(rule.sort(&list).iter().last());
    })
}

/// Moves one request and its reply through the state machine, as the driver does.
fn session_request() -> impl FnMut() {
    let now = now();
    let mut session = connected(now);
    let (mut wire, mut replies, mut xid) = (BytesMut::with_capacity(4096), BytesMut::new(), 0);
    move || {
        let request = Exists { path: "/locks/stock".into(), watch: false };
        session.submit(now, &request, Nothing, None).ok();
        session.poll_transmit(&mut wire);
        session.handle_written(wire.len());
        wire.clear();
        xid += 1;
        let header = ReplyHeader { xid, zxid: Zxid(7), err: zk_proto::ErrorCode::OK };
        encode_reply(&header, Some(&Stat::default()), &mut replies);
        session.handle_received(now, &mut replies);
        while session.poll_output().is_some() {}
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
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 10_000,
        session_id: SessionId(1),
        password: Bytes::from_static(&[0; 16]),
        read_only: Some(false),
    };
    let mut reply = BytesMut::new();
    encode_record(&response, &mut reply);
    session.handle_received(now, &mut reply);
    while session.poll_output().is_some() {}
    session
}

struct Nobody;

#[derive(Clone, Debug)]
struct Nothing;

impl Handle for Nothing {}

impl Handles for Nobody {
    type Reply = Nothing;
    type Watch = Nothing;
    type Stream = Nothing;
}

/// Runs a code path with the server of `zk-testing` on the same thread. The count includes the
/// server.
fn in_memory<F>(times: u32, path: fn(Client, u32) -> F) -> Result<f64, Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let client = runtime.block_on(async {
        let config = Config::new("server:1")?.seed(1).session_timeout(Duration::from_secs(30));
        Ok::<_, Failure>(config.connector(TestServer::in_memory()).connect().await?)
    })?;
    runtime.block_on(path(client.clone(), WARM_UP))?;
    let mut outcome = Ok(());
    let used = allocation_counter::measure(|| outcome = runtime.block_on(path(client, times)));
    outcome?;
    Ok(used.count_total as f64 / f64::from(times))
}

async fn acquire_and_release(client: Client, times: u32) -> Result<(), Failure> {
    let lock = Mutex::new(&client, "/locks/free")?;
    for _ in 0..times {
        lock.acquire().await?.release().await?;
    }
    Ok(())
}

/// Runs ten waiters, each of which queues again after its release. It counts an acquisition, a
/// release, and all steps in between.
async fn hand_off(client: Client, times: u32) -> Result<(), Failure> {
    const WAITERS: u32 = 10;
    let waiter = async |holds: u32| {
        let lock = Mutex::new(&client, "/locks/contended")?;
        for _ in 0..holds {
            lock.acquire().await?.release().await?;
        }
        Ok::<_, Failure>(())
    };
    futures::future::try_join_all((0..WAITERS).map(|_| waiter(times / WAITERS))).await?;
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "a session needs some instant to begin with")]
fn now() -> Instant {
    Instant::now()
}

const WARM_UP: u32 = 200;
