//! Asking a server whether it takes writes, with the four-letter word `isro`.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::{poll_read_buf, poll_write_buf};

use crate::limits::PROBE_TIMEOUT;

/// True if the server says so in time. One that does not answer the word at all, which it
/// does only where read-only mode is switched on, does not say so.
pub(super) async fn is_read_write<S: AsyncRead + AsyncWrite + Unpin>(
    connect: impl Future<Output = io::Result<S>>,
) -> bool {
    let answer = tokio::time::timeout(PROBE_TIMEOUT, ask(connect)).await;
    matches!(answer, Ok(Ok(true)))
}

async fn ask<S: AsyncRead + AsyncWrite + Unpin>(
    connect: impl Future<Output = io::Result<S>>,
) -> io::Result<bool> {
    let mut stream = connect.await?;
    let mut word = BytesMut::from(&b"isro"[..]);
    while !word.is_empty() {
        poll_fn(|cx| poll_write_buf(Pin::new(&mut stream), cx, &mut word)).await?;
    }
    poll_fn(|cx| Pin::new(&mut stream).poll_flush(cx)).await?;
    let mut answer = BytesMut::with_capacity(ANSWER.len());
    while answer.len() < ANSWER.len() {
        let read = poll_fn(|cx| poll_read_buf(Pin::new(&mut stream), cx, &mut answer)).await?;
        if read == 0 {
            break;
        }
    }
    Ok(answer.starts_with(ANSWER))
}

/// The other answers begin with `ro`, with `null`, or with the word that is not allowed.
const ANSWER: &[u8] = b"rw";
