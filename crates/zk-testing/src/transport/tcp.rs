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

/// Takes connections for one server until the task is aborted.
pub(crate) async fn listen(listener: TcpListener, server: usize, shared: Weak<Shared>) {
    loop {
        let Ok((stream, peer)) = listener.accept().await else {
            // An error of one connection is not one of the listener; but without descriptors the
            // next attempt fails at once, too.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Some(shared) = shared.upgrade() else { return };
        // Without it replies wait for acknowledgements; it cannot fail on a fresh socket.
        let _ = stream.set_nodelay(true);
        match shared.connect(server, Some(peer)) {
            Ok((id, inbox)) => {
                tokio::spawn(serve(stream, id, inbox, Arc::downgrade(&shared)));
            }
            Err(_) => {
                // A reset is the nearest to a refusal, once the kernel has accepted.
                let _ = stream.set_zero_linger();
            }
        }
    }
}

/// Moves bytes both ways until either side has had enough.
async fn serve(stream: TcpStream, id: ConnectionId, inbox: Inbox, shared: Weak<Shared>) {
    let (reader, mut writer) = stream.into_split();
    let reading = tokio::spawn(read(reader, id, inbox.clone(), shared.clone()));
    let how = write(&mut writer, id, &inbox, &shared).await;
    // The socket closes when both halves are gone.
    reading.abort();
    let _ = reading.await;
    if let Some(shared) = shared.upgrade() {
        // The reading half does not notice that the client is gone while the connection has no room.
        shared.disconnect(id);
    }
    if how == Cut::Rst {
        // What is in flight is lost, as it would be; and the half must not end the stream in good
        // order first.
        let _ = writer.as_ref().set_zero_linger();
        writer.forget();
    }
}

/// Sends on what there is, until the end, or an error.
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
            if read >= READ_REPORT_LEN
                && let Some(shared) = shared.upgrade()
            {
                // What the kernel has taken counts as read: its buffers have bounds of their own.
                let len = std::mem::take(&mut read);
                shared.with(|ensemble, now| ensemble.have_read(now, id, len));
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
