//! Decodes a recorded exchange and prints it, frame by frame.
//!
//! ```text
//! cargo run -p zk-proto --example decode_exchange [file]
//! ```
//!
//! Without an argument it reads the recording of multi in `tests/golden`, the folder of all recordings. A
//! reply does not contain its operation. Like a client, the program maps each request number to its
//! operation.

#![allow(dead_code, reason = "the tests use more of the modules that this shares with them")]

#[path = "../tests/support/codec.rs"]
mod codec;
#[path = "../tests/support/recording.rs"]
mod recording;

use std::{collections::HashMap, env, error::Error, path::PathBuf};

use bytes::Bytes;
use zk_proto::{
    ConnectReply, ConnectRequest, Decode, FRAME_LEN_MAX_CLIENT, OpCode, ReplyHeader, RequestHeader,
    split_frame, xid,
};

fn main() -> Result<(), Box<dyn Error>> {
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let path = env::args_os().nth(1).map_or_else(|| golden.join("multi.txt"), PathBuf::from);
    let is_connect = path.file_stem().is_some_and(|name| name == "connect");
    for exchange in recording::read(&path) {
        println!("{}", exchange.title);
        let mut asked = HashMap::new();
        for mut frame in exchange.frames {
            let Some(payload) = split_frame(&mut frame.wire, FRAME_LEN_MAX_CLIENT)? else {
                return Err("a frame is cut short".into());
            };
            match (frame.to_server, is_connect) {
                (true, true) => println!("  -> {:?}", ConnectRequest::from_frame(&payload)?),
                (false, true) => println!("  <- {:?}", ConnectReply::parse(&payload)?),
                (true, false) => print_request(&payload, &mut asked)?,
                (false, false) => print_reply(&payload, &asked)?,
            }
        }
        println!();
    }
    Ok(())
}

fn print_request(frame: &Bytes, asked: &mut HashMap<i32, OpCode>) -> Result<(), Box<dyn Error>> {
    let (header, body) = RequestHeader::split(frame)?;
    let op = OpCode::from_code(header.op);
    let name = op.map_or("unknown operation", OpCode::name);
    match op.and_then(|op| codec::request(op, &body)) {
        Some(Ok(request)) => println!("  -> #{} {name}: {}", header.xid, request.shown),
        Some(Err(error)) => println!("  -> #{} {name}: {error}", header.xid),
        None => println!("  -> #{} {name} ({})", header.xid, header.op),
    }
    asked.extend(op.map(|op| (header.xid, op)));
    Ok(())
}

fn print_reply(frame: &Bytes, asked: &HashMap<i32, OpCode>) -> Result<(), Box<dyn Error>> {
    let (header, body) = ReplyHeader::split(frame)?;
    if header.xid == xid::NOTIFICATION {
        println!("  <- notification: {}", codec::notification(&body)?.shown);
        return Ok(());
    }
    let reply = match asked.get(&header.xid) {
        Some(op) if header.err.is_ok() => codec::reply(*op, &body).transpose()?,
        _ => None,
    };
    let shown = reply.map(|reply| reply.shown).unwrap_or_default();
    println!("  <- #{} {}, zxid {}: {shown}", header.xid, header.err, header.zxid);
    Ok(())
}
