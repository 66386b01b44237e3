//! Encoding and decoding, operation by operation.
//!
//! Requests are encoded as a client sends them, length prefix and header included, into a buffer
//! that has grown; replies are decoded as a client reads them.

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, criterion_group, criterion_main};
use zk_proto::{
    Create2, CreateMode, CreateReply, DataReply, Decode, Delete, Encode, EventType, Exists,
    GetChildren2, GetData, KeeperState, OPEN_ACL, Ping, Request, SetData, Stat, Sync, WatcherEvent,
    encode_request,
};

const PATH: &str = "/locks/stock/_c_0b7f36dc-3cc2-4b57-9c3e-5c3ae2f1c0de-lock-0000000042";

fn encode(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    let mut bench = |name: &str, encode: &dyn Fn(&mut BytesMut)| {
        let mut out = BytesMut::with_capacity(4096);
        group.bench_function(name, |b| {
            b.iter(|| {
                out.clear();
                encode(&mut out);
                black_box(out.len())
            });
        });
    };
    let create = Create2 {
        path: PATH.into(),
        data: Some(b"10.0.0.1"[..].into()),
        acl: OPEN_ACL.into(),
        mode: CreateMode::EphemeralSequential,
    };
    let set = SetData { path: PATH.into(), data: Some(b"0123456789abcdef"[..].into()), version: 7 };
    bench("create2", &|out| encode_request(1, black_box(&create), out));
    bench("delete", &request(Delete { path: PATH.into(), version: -1 }));
    bench("exists", &request(Exists { path: PATH.into(), watch: false }));
    bench("getData", &request(GetData { path: PATH.into(), watch: true }));
    bench("setData", &|out| encode_request(1, black_box(&set), out));
    bench("getChildren2", &request(GetChildren2 { path: PATH.into(), watch: false }));
    bench("sync", &request(Sync { path: PATH.into() }));
    bench("ping", &request(Ping));
    group.finish();
}

fn request<R: Request>(request: R) -> impl Fn(&mut BytesMut) {
    move |out| encode_request(1, black_box(&request), out)
}

fn decode(c: &mut Criterion) {
    let stat = Stat { czxid: 0x1_0000_0001, ..Stat::default() };
    let event = WatcherEvent {
        event_type: EventType::NODE_DELETED,
        state: KeeperState::SYNC_CONNECTED,
        path: PATH.to_owned(),
    };
    let mut group = c.benchmark_group("decode");
    let mut bench = |name: &str, record: Bytes, decode: fn(&Bytes) -> bool| {
        group.bench_function(name, |b| b.iter(|| decode(black_box(&record))));
    };
    bench("create2", encoded(&CreateReply { path: PATH.to_owned(), stat }), |record| {
        CreateReply::from_frame(record).is_ok()
    });
    bench("exists", encoded(&stat), |record| Stat::from_frame(record).is_ok());
    bench("getData", encoded(&DataReply { data: Some(vec![7; 1024].into()), stat }), |record| {
        DataReply::from_frame(record).is_ok()
    });
    bench("notification", encoded(&event), |record| WatcherEvent::from_frame(record).is_ok());
    group.finish();
}

fn encoded(record: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    record.encode(&mut out);
    out.freeze()
}

criterion_group!(benches, encode, decode);
criterion_main!(benches);
