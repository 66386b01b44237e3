//! Connections over TCP on loopback.

use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::task::Poll;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::inbox::{Inbox, Incoming};
use super::shared::Shared;
use crate::limits::{ACCEPT_PAUSE, READ_LEN, READ_REPORT_LEN};
use crate::server::{ConnectionId, Cut};

/// Accepts connections for one server until the task is aborted.
pub(crate) async fn listen(listener: TcpListener, server: usize, shared: Weak<Shared>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // An accept error may concern one connection only. Without descriptors, however, the
            // next accept fails at once too, so the loop pauses.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Some(shared) = shared.upgrade() else { return };
        // Without nodelay, replies wait for acknowledgements. The call cannot fail on a fresh
        // socket.
        let _ = stream.set_nodelay(true);
        match shared.connect(server, Some(peer)) {
            Ok((id, inbox)) => {
                tokio::spawn(serve(stream, id, inbox, Arc::downgrade(&shared)));
            }
            Err(_) => {
                // After the kernel has accepted, a reset is the closest to a refusal.
                let _ = stream.set_zero_linger();
            }
        }
    }
}

/// Forwards bytes both ways until either side ends the connection.
async fn serve(stream: TcpStream, id: ConnectionId, inbox: Inbox, shared: Weak<Shared>) {
    let (reader, mut writer) = stream.into_split();
    let reading = tokio::spawn(read(reader, id, inbox.clone(), shared.clone()));
    let how = write(&mut writer, id, &inbox, &shared).await;
    // The socket closes when both halves are dropped.
    reading.abort();
    let _ = reading.await;
    if let Some(shared) = shared.upgrade() {
        // While the connection has no room, the reading half does not notice that the client has
        // disconnected.
        shared.disconnect(id);
    }
    if how == Cut::Rst {
        // A reset loses the bytes in flight. `forget` keeps the half from shutting the stream down
        // in good order first.
        let _ = writer.as_ref().set_zero_linger();
        writer.forget();
    }
}

/// Writes the server's output until its end or an error.
async fn write(
    writer: &mut OwnedWriteHalf,
    id: ConnectionId,
    inbox: &Inbox,
    shared: &Weak<Shared>,
) -> Cut {
    let mut read = 0;
    loop {
        let mut bytes = match poll_fn(|cx| inbox.poll_next(cx)).await {
            Incoming::Bytes(bytes) => bytes,
            Incoming::End(how) => return how,
        };
        while bytes.has_remaining() {
            match writer.write_buf(&mut bytes).await {
                Ok(len) if len > 0 => read += len,
                _ => return Cut::Fin,
            }
            if read >= READ_REPORT_LEN {
                if let Some(shared) = shared.upgrade() {
                    // Bytes that the kernel has accepted count as read: its buffers have their own
                    // limits.
                    let len = std::mem::take(&mut read);
                    shared.with(|ensemble, now| ensemble.have_read(now, id, len));
                }
            }
        }
    }
}

async fn read(mut reader: OwnedReadHalf, id: ConnectionId, inbox: Inbox, shared: Weak<Shared>) {
    let mut bytes = BytesMut::new();
    loop {
        poll_fn(|cx| match shared.upgrade() {
            Some(shared) => shared.poll_room(id, cx),
            None => Poll::Ready(()),
        })
        .await;
        bytes.reserve(READ_LEN);
        let is_over = !matches!(reader.read_buf(&mut bytes).await, Ok(len) if len > 0);
        let Some(shared) = shared.upgrade() else { return };
        if is_over {
            shared.disconnect(id);
            return inbox.finish(Cut::Fin);
        }
        shared.with(|ensemble, now| ensemble.receive(now, id, &mut bytes));
    }
}
