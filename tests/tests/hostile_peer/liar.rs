//! A server with well-formed answers that are lies: nodes without end, or text that drives a terminal.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use zk_tests::raw::{accept_reply, buffer, frame};

/// The answers of the server.
#[derive(Clone, Debug)]
pub(crate) struct Lie {
    /// The names of the children of every node.
    pub(crate) names: Vec<String>,
    /// Levels below which no node has children.
    pub(crate) levels: usize,
    /// Every other text: data, ids, paths.
    pub(crate) text: String,
}

impl Lie {
    /// Every node has so many children.
    pub(crate) fn endless(children: usize) -> Self {
        let names = (0..children).map(|number| format!("node-{number:04}")).collect();
        Self { names, levels: usize::MAX, text: "/text".to_owned() }
    }

    /// Each node has contenders for a lock, and the text is in everything else.
    pub(crate) fn of_contenders(text: &str) -> Self {
        let names = [1, 2].map(|number| format!("_c_x-lock-{number:010}"));
        Self { names: names.to_vec(), levels: 2, text: text.to_owned() }
    }

    pub(crate) fn everywhere(text: &str) -> Self {
        Self { names: vec![text.to_owned()], levels: 2, text: format!("/{text}") }
    }
}

/// Starts a server, which serves every connection until the process ends. Returns its address.
pub(crate) fn start(lie: Lie) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let lie = Arc::new(lie);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lie = lie.clone();
            // An error means that the client closed the connection.
            thread::spawn(move || drop(serve(stream, &lie)));
        }
    });
    address
}

fn serve(mut stream: TcpStream, lie: &Lie) -> io::Result<()> {
    let mut first = [0; 4];
    stream.read_exact(&mut first)?;
    if first.is_ascii() && first[0] != 0 {
        // A four-letter word.
        let Lie { text, .. } = lie;
        return write!(stream, "Zookeeper version: {text}\nMode: {text}\nzk_version\t{text}\n");
    }
    read_rest(&mut stream, first)?;
    stream.write_all(&frame(&accept_reply(SESSION_TIMEOUT_MS)))?;
    loop {
        stream.read_exact(&mut first)?;
        let request = read_rest(&mut stream, first)?;
        let Some((xid, rest)) = request.split_first_chunk::<4>() else { return Ok(()) };
        let op = rest.first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes));
        let (zxid, ok) = (9_i64.to_be_bytes(), 0_i32.to_be_bytes());
        let depth = path(rest).matches('/').count();
        let names = if depth <= lie.levels { &lie.names[..] } else { &[] };
        let is_refused = op == DELETE && lie.levels == usize::MAX;
        let code = if is_refused { NOT_EMPTY.to_be_bytes() } else { ok };
        let reply = [&xid[..], &zxid, &code, &body(op, lie, names)].concat();
        stream.write_all(&frame(&reply))?;
        if op == ADD_WATCH {
            let (created, connected) = (1_i32.to_be_bytes(), 3_i32.to_be_bytes());
            let child = format!("{}/{}", path(rest), lie.names[0]);
            let event = [&created[..], &connected, &buffer(child.as_bytes())].concat();
            let watch = (-1_i32).to_be_bytes();
            stream.write_all(&frame(&[&watch[..], &[0; 8], &ok, &event].concat()))?;
        }
        if op == CLOSE {
            return Ok(());
        }
    }
}

/// Returns the body of the answer to a request with this operation.
fn body(op: i32, lie: &Lie, names: &[String]) -> Vec<u8> {
    let one = 1_i32.to_be_bytes();
    match op {
        CREATE | SYNC => text(lie),
        CREATE_2 | CREATE_CONTAINER | CREATE_TTL => [text(lie), stat()].concat(),
        EXISTS | SET_DATA | SET_ACL => stat(),
        GET_DATA | RECONFIG => [text(lie), stat()].concat(),
        GET_ACL => [&one[..], &31_i32.to_be_bytes(), &text(lie), &text(lie), &stat()].concat(),
        GET_CHILDREN => list(names),
        GET_CHILDREN_2 => [list(names), stat()].concat(),
        WHO_AM_I => [&one[..], &text(lie), &text(lie)].concat(),
        GET_EPHEMERALS => [&one[..], &text(lie)].concat(),
        GET_ALL_CHILDREN_NUMBER => one.to_vec(),
        // The error code in the body, of a watch that is set.
        ADD_WATCH => vec![0; 4],
        // The header behind the results, of which there is none.
        MULTI | MULTI_READ => [&(-1_i32).to_be_bytes()[..], &[1], &(-1_i32).to_be_bytes()].concat(),
        _ => Vec::new(),
    }
}

fn text(lie: &Lie) -> Vec<u8> {
    buffer(lie.text.as_bytes())
}

fn list(names: &[String]) -> Vec<u8> {
    let count = i32::try_from(names.len()).unwrap();
    let names = names.iter().flat_map(|name| buffer(name.as_bytes()));
    count.to_be_bytes().into_iter().chain(names).collect()
}

/// A node with children and a zxid.
fn stat() -> Vec<u8> {
    let (zxid, version, children) = (9_i64.to_be_bytes(), 0_i32.to_be_bytes(), 1_i32.to_be_bytes());
    let times = [0; 16];
    let versions = [version; 3].concat();
    let owner = 0x1234_i64.to_be_bytes();
    [&zxid[..], &zxid, &times, &versions, &owner, &version, &children, &zxid].concat()
}

/// Returns the path of a request, which follows its operation. It is empty if there is none.
fn path(request: &[u8]) -> &str {
    let path = request.get(4..8).and_then(|len| {
        let len = u32::from_be_bytes(len.try_into().ok()?);
        request[8..].get(..usize::try_from(len).ok()?)
    });
    path.and_then(|bytes| str::from_utf8(bytes).ok()).unwrap_or_default()
}

/// Reads the rest of a frame after its length.
fn read_rest(stream: &mut TcpStream, len: [u8; 4]) -> io::Result<Vec<u8>> {
    let mut body = vec![0; usize::try_from(i32::from_be_bytes(len)).unwrap_or(0)];
    stream.read_exact(&mut body)?;
    Ok(body)
}

const NOT_EMPTY: i32 = -111;
const SESSION_TIMEOUT_MS: i32 = 10_000;

const CREATE: i32 = 1;
const DELETE: i32 = 2;
const EXISTS: i32 = 3;
const GET_DATA: i32 = 4;
const SET_DATA: i32 = 5;
const GET_ACL: i32 = 6;
const SET_ACL: i32 = 7;
const GET_CHILDREN: i32 = 8;
const SYNC: i32 = 9;
const GET_CHILDREN_2: i32 = 12;
const MULTI: i32 = 14;
const CREATE_2: i32 = 15;
const RECONFIG: i32 = 16;
const CREATE_CONTAINER: i32 = 19;
const CREATE_TTL: i32 = 21;
const MULTI_READ: i32 = 22;
const GET_EPHEMERALS: i32 = 103;
const GET_ALL_CHILDREN_NUMBER: i32 = 104;
const ADD_WATCH: i32 = 106;
const WHO_AM_I: i32 = 107;
const CLOSE: i32 = -11;
