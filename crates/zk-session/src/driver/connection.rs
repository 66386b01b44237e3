//! The driver's end of the connection: at most one stream, and its buffers.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::{poll_read_buf, poll_write_buf};
use zk_session_core::{DisconnectReason, Host, SaslFailure, SaslMechanism, Session, TlsFailure};

use super::sasl::{Sasl, SaslPreparation};
use super::shared::Channels;
use super::transport::Connector;
use crate::limits::{READ_CHUNK, WORK_PER_POLL, WRITE_BUFFER_KEPT};

/// See the [module documentation](self).
pub(super) struct Connection<C: Connector> {
    connector: C,
    sasl: Option<Arc<dyn Sasl>>,
    stream: Stream<C::Stream>,
    buffers: Buffers,
    local_address: Option<IpAddr>,
    /// Address of the server, until the core knows it.
    peer_address: Option<IpAddr>,
    /// Whether the server has sent anything.
    was_answered: bool,
}

/// Bytes of one connection.
#[derive(Default)]
struct Buffers {
    incoming: BytesMut,
    outgoing: BytesMut,
    /// Bytes that were written since the last report to the core.
    written: usize,
    /// Error of a write. It is reported after everything that the server sent before has been read,
    /// because the replies in it show which requests were applied.
    write_error: Option<io::Error>,
    /// Number of rounds with input since the write failed.
    last_reads: usize,
    /// How the connection ended, after input that the core has not received yet.
    ended: Option<DisconnectReason>,
}

impl Buffers {
    /// Reads until nothing is left, so that one turn of the core handles all that has arrived. It
    /// stops when the buffer is full.
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Poll<Progress> {
        if let Some(cause) = self.ended.take() {
            return Poll::Ready(Progress::Lost(cause));
        }
        // The core decides, from the length that the server sends, how many of these bytes to keep.
        // The buffer never grows by more than a chunk at a time.
        let before = self.incoming.len();
        self.incoming.reserve(READ_CHUNK);
        while self.incoming.len() < self.incoming.capacity() {
            let end = match poll_read_buf(Pin::new(&mut *stream), cx, &mut self.incoming) {
                Poll::Ready(Ok(0)) => DisconnectReason::ClosedByServer,
                Poll::Ready(Ok(_)) => continue,
                Poll::Ready(Err(error)) => cause(&error, DisconnectReason::Io),
                Poll::Pending if self.incoming.len() > before => {
                    return Poll::Ready(Progress::Received(Rest::Nothing));
                }
                Poll::Pending => return Poll::Pending,
            };
            if self.incoming.len() == before {
                return Poll::Ready(Progress::Lost(end));
            }
            self.ended = Some(end);
            break;
        }
        Poll::Ready(Progress::Received(Rest::Unknown))
    }
}

enum Stream<S> {
    None,
    Resolving(Host, Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>),
    Opening(Host, Pin<Box<dyn Future<Output = io::Result<S>> + Send>>),
    /// The mechanism that is to authenticate the connection is being prepared first, if there is one.
    Open(S, Option<SaslPreparation>),
}

/// Result of polling the connection.
pub(super) enum Progress {
    None,
    Resolved(Vec<SocketAddr>),
    Connected(Option<Box<dyn SaslMechanism>>),
    Received(Rest),
    Lost(DisconnectReason),
}

/// Bytes left to read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// Nothing. The stream wakes the driver for more.
    Nothing,
    /// Perhaps more input.
    Unknown,
}

impl<C: Connector> Connection<C> {
    pub(super) fn new(connector: C, sasl: Option<Arc<dyn Sasl>>) -> Self {
        let (stream, buffers) = (Stream::None, Buffers::default());
        let (local_address, peer_address) = (None, None);
        Self { connector, sasl, stream, buffers, local_address, peer_address, was_answered: false }
    }

    /// Begins to connect to a host; without addresses, to resolve it.
    pub(super) fn connect(&mut self, host: Host) {
        self.close();
        if host.addresses().is_empty() {
            let addresses = Box::pin(self.connector.resolve(&host));
            self.stream = Stream::Resolving(host, addresses);
        } else {
            self.open(host);
        }
    }

    fn open(&mut self, host: Host) {
        let stream = Box::pin(self.connector.connect(&host));
        self.stream = Stream::Opening(host, stream);
    }

    /// Drops the stream, and all bytes in its buffers.
    pub(super) fn close(&mut self) {
        if let (Stream::Open(stream, _), false) = (&self.stream, self.was_answered) {
            self.connector.abandon(stream);
        }
        (self.stream, self.was_answered) = (Stream::None, false);
        self.buffers = Buffers::default();
    }

    /// Continues the attempt to connect, or reads the available bytes.
    pub(super) fn poll_read(&mut self, cx: &mut Context<'_>) -> Progress {
        let progress = match self.poll_stream(cx) {
            Poll::Ready(progress) => progress,
            Poll::Pending => Progress::None,
        };
        let Some(error) = &self.buffers.write_error else { return progress };
        self.buffers.last_reads += 1;
        match progress {
            Progress::Received(_) if self.buffers.last_reads <= WORK_PER_POLL => progress,
            _ => Progress::Lost(cause(error, DisconnectReason::Io)),
        }
    }

    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<Progress> {
        match &mut self.stream {
            Stream::None => Poll::Pending,
            Stream::Resolving(host, addresses) => match ready!(addresses.as_mut().poll(cx)) {
                Ok(addresses) if addresses.is_empty() => {
                    let host = host.clone();
                    self.open(host);
                    self.poll_stream(cx)
                }
                Ok(addresses) => {
                    self.stream = Stream::None;
                    Poll::Ready(Progress::Resolved(addresses))
                }
                Err(error) => Poll::Ready(unreachable(&error)),
            },
            Stream::Opening(host, attempt) => match ready!(attempt.as_mut().poll(cx)) {
                Ok(stream) => {
                    self.local_address = self.connector.local_address(&stream);
                    self.peer_address = self.connector.peer_address(&stream);
                    let prepare = |sasl: &Arc<dyn Sasl>| sasl.prepare(host, self.peer_address);
                    let preparation = self.sasl.as_ref().map(prepare);
                    let is_ready = preparation.is_none();
                    self.stream = Stream::Open(stream, preparation);
                    if is_ready {
                        Poll::Ready(Progress::Connected(None))
                    } else {
                        self.poll_stream(cx)
                    }
                }
                Err(error) => Poll::Ready(unreachable(&error)),
            },
            Stream::Open(stream, preparation) => {
                let Some(preparing) = preparation else {
                    let filled = self.buffers.poll_fill(cx, stream);
                    self.was_answered |= matches!(filled, Poll::Ready(Progress::Received(_)));
                    return filled;
                };
                let prepared = ready!(preparing.as_mut().poll(cx));
                *preparation = None;
                Poll::Ready(match prepared {
                    Ok(mechanism) => Progress::Connected(Some(mechanism)),
                    Err(error) => {
                        let failure = SaslFailure::NotPrepared(error.into());
                        Progress::Lost(DisconnectReason::Sasl(failure))
                    }
                })
            }
        }
    }

    /// Reports to the core what has happened since the last report.
    pub(super) fn report(
        &mut self,
        session: &mut Session<Channels>,
        now: Instant,
        progress: Progress,
    ) {
        session.handle_written(std::mem::take(&mut self.buffers.written));
        let address = self.peer_address.take();
        if address.is_some() || matches!(self.stream, Stream::Open(_, Some(_))) {
            session.handle_accepted(address);
        }
        match progress {
            Progress::None => {}
            Progress::Resolved(addresses) => session.handle_resolved(addresses),
            Progress::Connected(None) => session.handle_connected(now),
            Progress::Connected(Some(mechanism)) => session.handle_connected_with(now, mechanism),
            Progress::Received(_) => session.handle_received(now, &mut self.buffers.incoming),
            Progress::Lost(cause) => {
                self.close();
                session.handle_disconnected(now, cause);
            }
        }
        if self.buffers.incoming.is_empty() && !session.awaits_reply() {
            self.buffers.incoming = BytesMut::new(); // an idle session keeps no buffer
        }
    }

    pub(super) fn connector(&self) -> &C {
        &self.connector
    }

    pub(super) fn outgoing(&mut self) -> &mut BytesMut {
        &mut self.buffers.outgoing
    }

    /// Writes as much as the stream accepts; returns true after an error, which the next round
    /// reports.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>) -> bool {
        if self.buffers.write_error.is_some() {
            return true;
        }
        let Stream::Open(stream, _) = &mut self.stream else { return false };
        while !self.buffers.outgoing.is_empty() {
            match poll_write_buf(Pin::new(&mut *stream), cx, &mut self.buffers.outgoing) {
                Poll::Pending => break,
                Poll::Ready(Ok(0)) => {
                    self.buffers.write_error = Some(io::ErrorKind::WriteZero.into());
                    return true;
                }
                Poll::Ready(Ok(len)) => self.buffers.written += len,
                Poll::Ready(Err(error)) => {
                    self.buffers.write_error = Some(error);
                    return true;
                }
            }
        }
        if self.buffers.outgoing.is_empty() && self.buffers.outgoing.capacity() > WRITE_BUFFER_KEPT
        {
            self.buffers.outgoing = BytesMut::new();
        }
        // A stream with a buffer, for example TLS, must be flushed.
        if let Poll::Ready(Err(error)) = Pin::new(stream).poll_flush(cx) {
            self.buffers.write_error = Some(error);
            return true;
        }
        false
    }

    pub(super) fn take_local_address(&mut self) -> Option<IpAddr> {
        self.local_address.take()
    }
}

fn unreachable(error: &io::Error) -> Progress {
    Progress::Lost(cause(error, |kind| match kind {
        // A server that closes at once, for example beyond its `maxClientCnxns`, may be faster than the
        // report that the connection is open.
        io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::ConnectionAborted => DisconnectReason::ClosedByServer,
        kind => DisconnectReason::Unreachable(kind),
    }))
}

/// Returns why the connection ended. A connector with TLS reports its own failures.
fn cause(error: &io::Error, other: impl Fn(io::ErrorKind) -> DisconnectReason) -> DisconnectReason {
    let failure = error.get_ref().and_then(|inner| inner.downcast_ref::<TlsFailure>());
    failure.map_or_else(|| other(error.kind()), |failure| DisconnectReason::Tls(failure.clone()))
}
