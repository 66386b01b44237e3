//! A connection with a tap that sees the bytes in both directions, and may hold them back.

use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use zk_recipes::session::{Connector, Host};
use zk_testing::{MemoryStream, TestServer};

pub(crate) trait Tap: Clone + Send + Sync + Unpin + 'static {
    fn stream(&self, server: &TestServer) -> io::Result<MemoryStream> {
        server.stream(0)
    }

    fn poll_read(
        &mut self,
        stream: &mut MemoryStream,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(stream).poll_read(cx, buf)
    }

    fn poll_write(
        &mut self,
        stream: &mut MemoryStream,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(stream).poll_write(cx, bytes)
    }
}

/// Connector to a server. Each connection has a copy of the tap.
#[derive(Clone)]
pub(crate) struct Tapped<T> {
    pub(crate) server: TestServer,
    pub(crate) tap: T,
}

pub(crate) struct Stream<T> {
    stream: MemoryStream,
    tap: T,
}

impl<T: Tap> Connector for Tapped<T> {
    type Stream = Stream<T>;

    fn connect(&self, _: &Host) -> impl Future<Output = io::Result<Stream<T>>> + Send + 'static {
        let tap = self.tap.clone();
        ready(tap.stream(&self.server).map(|stream| Stream { stream, tap }))
    }
}

impl<T: Tap> AsyncRead for Stream<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.tap.poll_read(&mut this.stream, cx, buf)
    }
}

impl<T: Tap> AsyncWrite for Stream<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.tap.poll_write(&mut this.stream, cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
