//! Connections without a socket.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::inbox::{Inbox, Incoming};
use super::shared::Shared;
use crate::limits::{READ_REPORT_LEN, RECEIVED_BYTES_MAX};
use crate::server::{ConnectionId, Cut};

/// Client end of an in-memory connection.
///
/// The server processes written bytes before the write returns, and its answers can be read at
/// once. A read returns at most one piece that the server has sent. A test can therefore control
/// exactly how frames are split and joined.
///
/// If the client does not read, the server keeps at most
/// [`UNREAD_BYTES_MAX`](crate::limits::UNREAD_BYTES_MAX) and one more answer for it. Further
/// requests wait as bytes, up to [`RECEIVED_BYTES_MAX`](crate::limits::RECEIVED_BYTES_MAX). Then
/// the next write waits, as on a socket with full buffers.
#[derive(Debug)]
pub struct MemoryStream {
    shared: Arc<Shared>,
    id: ConnectionId,
    inbox: Inbox,
    /// Rest of a chunk that was too long for the last read.
    rest: Bytes,
    /// Bytes read and not yet reported to the server.
    read: usize,
    outgoing: BytesMut,
    is_shut: bool,
}

impl MemoryStream {
    pub(crate) fn new(shared: Arc<Shared>, id: ConnectionId, inbox: Inbox) -> Self {
        let (rest, outgoing) = (Bytes::new(), BytesMut::new());
        Self { shared, id, inbox, rest, read: 0, outgoing, is_shut: false }
    }

    /// Returns the server's id of this connection.
    #[must_use]
    pub fn id(&self) -> ConnectionId {
        self.id
    }

    fn shut(&mut self) {
        if !self.is_shut {
            self.is_shut = true;
            self.shared.disconnect(self.id);
            self.inbox.finish(Cut::Fin);
        }
    }
}

impl AsyncRead for MemoryStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.rest.is_empty() {
            match ready!(self.inbox.poll_next(cx)) {
                Incoming::Bytes(bytes) => self.rest = bytes,
                Incoming::End(Cut::Rst) => {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
                }
                Incoming::End(_) => return Poll::Ready(Ok(())),
            }
        }
        let len = self.rest.len().min(buf.remaining());
        buf.put_slice(&self.rest[..len]);
        self.rest.advance(len);
        self.read += len;
        if self.read >= READ_REPORT_LEN {
            let (id, read) = (self.id, std::mem::take(&mut self.read));
            self.shared.with(|ensemble, now| ensemble.have_read(now, id, read));
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for MemoryStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.inbox.end() {
            Some(Cut::Rst) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Some(_) => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            None => {}
        }
        ready!(self.shared.poll_room(self.id, cx));
        let bytes = &bytes[..bytes.len().min(RECEIVED_BYTES_MAX)];
        let stream = &mut *self;
        stream.outgoing.extend_from_slice(bytes);
        let (id, outgoing) = (stream.id, &mut stream.outgoing);
        stream.shared.with(|ensemble, now| ensemble.receive(now, id, outgoing));
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut();
        Poll::Ready(Ok(()))
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        self.shut();
    }
}
