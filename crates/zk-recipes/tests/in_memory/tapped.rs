//! A connection whose bytes pass through a reader on their way to the client.

use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zk_recipes::session::{Connector, Host};
use zk_testing::{MemoryStream, TestServer};

pub(crate) trait Reader: Clone + Send + Sync + Unpin + 'static {
    fn poll_read(
        &mut self,
        stream: &mut MemoryStream,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>>;
}

/// Connector to the only server. Each connection has a copy of the reader.
#[derive(Clone)]
pub(crate) struct ReadBy<R> {
    pub(crate) server: TestServer,
    pub(crate) reader: R,
}

pub(crate) struct Stream<R> {
    stream: MemoryStream,
    reader: R,
}

impl<R: Reader> Connector for ReadBy<R> {
    type Stream = Stream<R>;

    fn connect(&self, _: &Host) -> impl Future<Output = io::Result<Stream<R>>> + Send + 'static {
        let reader = self.reader.clone();
        ready(self.server.stream(0).map(|stream| Stream { stream, reader }))
    }
}

impl<R: Reader> AsyncRead for Stream<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.reader.poll_read(&mut this.stream, cx, buf)
    }
}

impl<R: Reader> AsyncWrite for Stream<R> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
