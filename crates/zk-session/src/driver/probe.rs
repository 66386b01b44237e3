//! Probes of a server, each on a separate connection: whether it accepts writes, with the
//! four-letter word `isro`, and whether its port is for TLS only.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::{poll_read_buf, poll_write_buf};
use zk_session_core::{PeerProtocol, ProbeAnswer, TlsProbeAnswer};

use crate::limits::PROBE_TIMEOUT;

/// Asks a server whether it accepts writes. A server answers the word only if read-only mode is
/// enabled.
pub(super) async fn probe_writes<S: AsyncRead + AsyncWrite + Unpin>(
    connect: impl Future<Output = io::Result<S>>,
) -> ProbeAnswer {
    // Other answers start with `ro`, with `null`, or with the name of the word, if it is not
    // allowed.
    if answer(connect, b"isro", 2).await.is_some_and(|answer| answer.starts_with(b"rw")) {
        ProbeAnswer::ReadWrite
    } else {
        ProbeAnswer::Other
    }
}

/// Tests whether a port is for TLS only: the server answers the start of a TLS handshake in time,
/// at least with an alert, and does not answer a four-letter word.
///
/// A port for plaintext and TLS (`client.portUnification`) closes sessions while its server does
/// not serve yet, but it still answers four-letter words: `NettyServerCnxn.receiveMessage` checks
/// for them first, and also answers a word that is not allowed.
///
/// Each of the two probes uses one connection.
pub(super) async fn probe_tls<S: AsyncRead + AsyncWrite + Unpin>(
    connects: [impl Future<Output = io::Result<S>>; 2],
) -> TlsProbeAnswer {
    let [first, second] = connects;
    let greeted = answer(first, &CLIENT_HELLO, 4).await;
    let speaks_tls = |greeted: BytesMut| PeerProtocol::of(&greeted) == Some(PeerProtocol::Tls);
    // Netty's SslHandler waits for the five bytes of a record's header.
    let is_tls_only = greeted.is_some_and(speaks_tls)
        && answer(second, b"srvr\n", 1).await.is_some_and(|answer| answer.is_empty());
    if is_tls_only { TlsProbeAnswer::TlsOnly } else { TlsProbeAnswer::Other }
}

/// Returns the first `len` bytes that arrive in time, or fewer if the server closes the connection.
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

/// ClientHello of TLS 1.2 (RFC 5246, 7.4.1.2) without extensions. A TLS server answers with its own
/// hello, or rejects it with an alert. ZooKeeper without TLS reads it as a frame of 352 MB and
/// closes.
#[rustfmt::skip]
const CLIENT_HELLO: [u8; 52] = [
    // A record: a handshake message of 47 bytes, of which 43 follow its header.
    0x16, 3, 1, 0, 47, 1, 0, 0, 43, 3, 3,
    // 32 bytes that should be random, which does not matter here; no session id.
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    // Two cipher suites, of TLS 1.2 and 1.3; no compression.
    0, 4, 0xc0, 0x2f, 0x13, 0x01, 1, 0,
];

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// Returns the probe's result for a server that sends this answer and then, perhaps, closes.
    async fn probe(answer: &'static [u8], closes: Option<()>) -> io::Result<ProbeAnswer> {
        let (client, mut server) = duplex(64);
        let probe = probe_writes(async { io::Result::<DuplexStream>::Ok(client) });
        let serve = async {
            let mut word = [0; 4];
            server.read_exact(&mut word).await?;
            assert_eq!(&word, b"isro");
            server.write_all(answer).await?;
            io::Result::Ok(closes.map_or(Some(server), |()| None))
        };
        let (answered, open) = tokio::join!(probe, serve);
        open.map(|_| answered)
    }

    #[tokio::test(start_paused = true)]
    async fn probe_accepts_only_the_answer_rw() -> io::Result<()> {
        for (answer, expected) in [
            (&b"rw"[..], ProbeAnswer::ReadWrite),
            (b"ro", ProbeAnswer::Other),
            (b"null", ProbeAnswer::Other),
            (b"", ProbeAnswer::Other),
        ] {
            assert_eq!(probe(answer, Some(())).await?, expected, "{answer:?}");
            // A proxy may keep the connection open after the answer.
            assert_eq!(probe(answer, None).await?, expected, "{answer:?}");
        }
        Ok(())
    }
}
