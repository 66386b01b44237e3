//! Measures requests per second over the in-memory transport, and checks every answer.
//!
//! `cargo run --release -p zk-testing --example throughput`

use std::error::Error;

use bytes::BytesMut;
use proto::{
    ConnectRequest, Create2, CreateMode, CreateReply, DataReply, Decode, Exists,
    FRAME_LEN_MAX_CLIENT, GetData, OPEN_ACL_UNSAFE, ReplyHeader, Stat, encode_record,
    encode_request, split_frame,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::Instant;
use zk_testing::{MemoryStream, SessionId, TestServer, Zxid};

/// Nodes to create, each followed by an exists and a getData.
const NODES: usize = 100_000;
/// Nodes per write; their requests are sent together.
const NODES_PER_WRITE: usize = 32;
const SESSIONS: usize = 2_000;
const RUNS: usize = 5;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    for run in 1..=RUNS {
        let server = TestServer::in_memory();
        let mut streams = Vec::new();
        for _ in 0..SESSIONS {
            streams.push(connect(&server).await?);
        }
        let started = now();
        let requests = mix(&mut streams[0]).await?;
        let seconds = started.elapsed().as_secs_f64();
        let (nodes, sessions) =
            server.with(|ensemble| (ensemble.tree().len(), ensemble.sessions().count()));
        assert_eq!((nodes, sessions), (NODES + 4, SESSIONS));
        let rate = f64::from(u32::try_from(requests)?) / seconds;
        println!(
            "run {run}: {requests} requests (create2, exists, getData) in {seconds:.3} s: \
             {rate:.0} requests/s, with {sessions} sessions and {nodes} nodes"
        );
    }
    Ok(())
}

/// Creates and reads all nodes. Returns the number of requests.
async fn mix(stream: &mut MemoryStream) -> Result<usize, Box<dyn Error>> {
    let (mut out, mut received) = (BytesMut::new(), BytesMut::new());
    let mut xid = 0;
    let numbers: Vec<usize> = (0..NODES).collect();
    for batch in numbers.chunks(NODES_PER_WRITE) {
        let first = xid + 1;
        for number in batch {
            let path = format!("/node-{number:07}");
            let create = Create2 {
                path: path.as_str().into(),
                data: Some(path.as_bytes().into()),
                acl: OPEN_ACL_UNSAFE.into(),
                mode: CreateMode::Persistent,
            };
            encode_request(xid + 1, &create, &mut out);
            let exists = Exists { path: path.as_str().into(), watch: false };
            encode_request(xid + 2, &exists, &mut out);
            let get = GetData { path: path.as_str().into(), watch: false };
            encode_request(xid + 3, &get, &mut out);
            xid += 3;
        }
        stream.write_all(&out).await?;
        out.clear();
        check(stream, &mut received, first, batch).await?;
    }
    Ok(usize::try_from(xid)?)
}

/// Reads the answers to a batch and checks their order and content.
async fn check(
    stream: &mut MemoryStream,
    received: &mut BytesMut,
    mut xid: i32,
    batch: &[usize],
) -> Result<(), Box<dyn Error>> {
    for number in batch {
        let path = format!("/node-{number:07}");
        let created = CreateReply::from_frame(&reply(stream, received, xid).await?)?;
        assert_eq!(created.path, path);
        let stat = Stat::from_frame(&reply(stream, received, xid + 1).await?)?;
        assert_eq!(stat, created.stat);
        let got = DataReply::from_frame(&reply(stream, received, xid + 2).await?)?;
        assert_eq!((got.data.as_deref(), got.stat), (Some(path.as_bytes()), stat));
        xid += 3;
    }
    Ok(())
}

async fn reply(
    stream: &mut MemoryStream,
    received: &mut BytesMut,
    xid: i32,
) -> Result<bytes::Bytes, Box<dyn Error>> {
    let frame = next_frame(stream, received).await?;
    let (header, body) = ReplyHeader::split(&frame)?;
    assert!(header.xid == xid && header.err.is_ok(), "{header:?}");
    Ok(body)
}

async fn next_frame(
    stream: &mut MemoryStream,
    received: &mut BytesMut,
) -> Result<bytes::Bytes, Box<dyn Error>> {
    loop {
        if let Some(frame) = split_frame(received, FRAME_LEN_MAX_CLIENT)? {
            return Ok(frame);
        }
        if stream.read_buf(received).await? == 0 {
            return Err("closed".into());
        }
    }
}

async fn connect(server: &TestServer) -> Result<MemoryStream, Box<dyn Error>> {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout_ms: 40_000,
        session_id: SessionId::NONE,
        password: [0; 16][..].into(),
        read_only: Some(false),
    };
    let mut stream = server.stream(0)?;
    let mut bytes = BytesMut::new();
    encode_record(&request, &mut bytes);
    stream.write_all(&bytes).await?;
    next_frame(&mut stream, &mut BytesMut::new()).await?;
    Ok(stream)
}

#[allow(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn now() -> Instant {
    Instant::now()
}
