//! Asking a server what it is, on a connection of its own: whether it takes writes, with the
//! four-letter word `isro`, and whether its port is one for TLS only.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::{poll_read_buf, poll_write_buf};

use crate::PeerProtocol;
use crate::limits::PROBE_TIMEOUT;

/// True if the server says so in time. One that does not answer the word at all, which it
/// does only where read-only mode is switched on, does not say so.
pub(super) async fn is_read_write<S: AsyncRead + AsyncWrite + Unpin>(
    connect: impl Future<Output = io::Result<S>>,
) -> bool {
    // The other answers begin with `ro`, with `null`, or with the word that is not allowed.
    answer(connect, b"isro", 2).await.is_some_and(|answer| answer.starts_with(b"rw"))
}

/// True if the port is for TLS only: the server answers the beginning of a TLS handshake in time, if
/// only with an alert, and no four-letter word.
///
/// A port for both (`client.portUnification`) closes sessions while its server does not serve yet, but
/// not four-letter words: `NettyServerCnxn.receiveMessage` looks for these first, and answers one that
/// is not allowed, too.
///
/// Each question takes a connection.
pub(super) async fn is_tls_only<S: AsyncRead + AsyncWrite + Unpin>(
    connects: [impl Future<Output = io::Result<S>>; 2],
) -> bool {
    let [first, second] = connects;
    let greeted = answer(first, &CLIENT_HELLO, 4).await;
    let speaks_tls = |greeted: BytesMut| PeerProtocol::of(&greeted) == Some(PeerProtocol::Tls);
    // Netty's SslHandler waits for the five bytes of a record's header.
    greeted.is_some_and(speaks_tls)
        && answer(second, b"srvr\n", 1).await.is_some_and(|answer| answer.is_empty())
}

/// The first bytes that come back in time, `len` of them unless the server closes before.
async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    connect: impl Future<Output = io::Result<S>>,
    question: &'static [u8],
    len: usize,
) -> Option<BytesMut> {
    tokio::time::timeout(PROBE_TIMEOUT, ask(connect, question, len)).await.ok()?.ok()
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
    connect: impl Future<Output = io::Result<S>>,
    question: &'static [u8],
    len: usize,
) -> io::Result<BytesMut> {
    let mut stream = connect.await?;
    let mut question = BytesMut::from(question);
    while !question.is_empty() {
        poll_fn(|cx| poll_write_buf(Pin::new(&mut stream), cx, &mut question)).await?;
    }
    poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await?;
    let mut answer = BytesMut::with_capacity(len);
    while answer.len() < len {
        let read = poll_fn(|cx| poll_read_buf(Pin::new(&mut stream), cx, &mut answer)).await?;
        if read == 0 {
            break;
        }
    }
    Ok(answer)
}

/// A ClientHello of TLS 1.2 (RFC 5246, 7.4.1.2) without extensions. A server answers it with its own
/// hello or refuses it with an alert; ZooKeeper without TLS takes it for a frame of 352 MB and closes.
const CLIENT_HELLO: [u8; 52] = {
    let mut hello = [0; 52];
    // A record: a handshake message of 47 bytes, of which 43 are behind its header.
    let header = [0x16, 3, 1, 0, 47, 1, 0, 0, 43, 3, 3];
    let mut at = 0;
    while at < header.len() {
        hello[at] = header[at];
        at += 1;
    }
    // 32 bytes that are to be random, and of which nothing depends here; no session id.
    // Two cipher suites, of TLS 1.2 and 1.3; no compression.
    let rest = [0, 4, 0xc0, 0x2f, 0x13, 0x01, 1, 0];
    let mut at = 0;
    while at < rest.len() {
        hello[44 + at] = rest[at];
        at += 1;
    }
    hello
};
