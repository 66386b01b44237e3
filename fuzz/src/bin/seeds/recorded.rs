//! Seeds from the recordings of real peers.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use bytes::Bytes;
use zk_proto::{OpCode, ReplyHeader, RequestHeader, xid};

use crate::Seeds;
use crate::recording::{self, Exchange, Frame};

pub(crate) fn add(seeds: &mut Seeds) -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/zk-proto/tests/golden");
    let mut paths: Vec<_> = fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
    paths.sort();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        for exchange in recording::read(&path) {
            match &*name {
                "connect" => connect(seeds, &exchange),
                _ => operations(seeds, &name, &exchange),
            }
            streams(seeds, &name, &exchange);
        }
    }
    Ok(())
}

fn connect(seeds: &mut Seeds, exchange: &Exchange) {
    for frame in &exchange.frames {
        let name = if frame.to_server { "request" } else { "response" };
        seeds.add("connect", name, frame.payload());
    }
}

fn operations(seeds: &mut Seeds, name: &str, exchange: &Exchange) {
    let mut asked = BTreeMap::new();
    for frame in &exchange.frames {
        let payload = frame.payload();
        if frame.to_server {
            let Ok((header, body)) = RequestHeader::split(&payload) else { continue };
            asked.insert(header.xid, header.op);
            about(seeds, "requests", name, header.op, &body);
        } else {
            let Ok((header, body)) = ReplyHeader::split(&payload) else { continue };
            if header.xid == xid::NOTIFICATION {
                seeds.add("notification", name, payload);
            } else if let Some(op) = asked.get(&header.xid) {
                about(seeds, "replies", name, *op, &body);
            }
        }
    }
}

/// Adds a body to all targets that use one.
fn about(seeds: &mut Seeds, target: &'static str, name: &str, op: i32, body: &Bytes) {
    let Ok(byte) = i8::try_from(op) else { return };
    let selected = [&[byte.cast_unsigned()], &body[..]].concat();
    seeds.add(target, name, &*selected);
    if seeds.count("round_trip", name) < 2 {
        seeds.add("round_trip", name, [&[0], &selected[..]].concat());
    }
    if [OpCode::Multi.code(), OpCode::MultiRead.code()].contains(&op) {
        seeds.add("multi", name, [&[0], &body[..]].concat());
    }
    let lists = [OpCode::GetChildren.code(), OpCode::GetChildren2.code()];
    if target == "replies" && lists.contains(&op) {
        seeds.add("children", name, [&[198], &body[..]].concat());
    }
}

/// Adds the bytes from the server, in pieces.
fn streams(seeds: &mut Seeds, name: &str, exchange: &Exchange) {
    let from_server = exchange.frames.iter().filter(|frame| !frame.to_server);
    let wire: Vec<u8> = from_server.flat_map(|Frame { wire, .. }| wire.to_vec()).collect();
    if exchange.frames.len() > 2 || name == "connect" {
        seeds.add("frames", name, [&[255, 3, 2, 3, 17], &wire[..]].concat());
    }
}
