//! A server with one prepared list of children.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use bytes::BytesMut;
use zk_benches::children_reply;
use zk_proto::{
    ConnectResponse, ErrorCode, ReplyHeader, SessionId, Zxid, encode_record, encode_reply,
};

/// Starts the server, which runs until the process ends. Returns the connect string.
pub fn start(names: &[String]) -> std::io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let body = children_reply(names).to_vec();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let body = body.clone();
            std::thread::spawn(move || serve(stream, &body));
        }
    });
    Ok(address)
}

fn serve(mut stream: TcpStream, body: &[u8]) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    read_frame(&mut stream)?;
    let mut out = BytesMut::new();
    let response = ConnectResponse {
        protocol_version: 0,
        timeout_ms: 10_000,
        session_id: SessionId(1),
        password: vec![7; 16].into(),
        read_only: Some(false),
    };
    encode_record(&response, &mut out);
    stream.write_all(&out)?;
    let mut reply = vec![0; 4 + ReplyHeader::LEN];
    reply.extend_from_slice(body);
    let len = u32::try_from(reply.len() - 4).unwrap_or(0).to_be_bytes();
    reply[..4].copy_from_slice(&len);
    reply[8..16].copy_from_slice(&1_i64.to_be_bytes());
    loop {
        let request = read_frame(&mut stream)?;
        match request[4..8] {
            // getChildren returns only the names, without the Stat.
            [0, 0, 0, 8] => {
                let mut short = reply[..reply.len() - 68].to_vec();
                let len = u32::try_from(short.len() - 4).unwrap_or(0).to_be_bytes();
                short[..4].copy_from_slice(&len);
                short[4..8].copy_from_slice(&request[..4]);
                stream.write_all(&short)?;
            }
            [0, 0, 0, 12] => {
                reply[4..8].copy_from_slice(&request[..4]);
                stream.write_all(&reply)?;
            }
            _ => {
                let xid = i32::from_be_bytes([request[0], request[1], request[2], request[3]]);
                let header = ReplyHeader { xid, zxid: Zxid(1), err: ErrorCode::OK };
                out.clear();
                encode_reply::<()>(&header, None, &mut out);
                stream.write_all(&out)?;
            }
        }
    }
}

fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut len = [0; 4];
    stream.read_exact(&mut len)?;
    let mut frame = vec![0; u32::from_be_bytes(len) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}
