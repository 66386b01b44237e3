//! Connections over TCP on loopback.

use std::future::poll_fn;
use std::sync::{Arc, Weak};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};

use super::inbox::{Inbox, Incoming};
use super::shared::Shared;
use crate::limits::{ACCEPT_PAUSE, READ_LEN};
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
    let reading = tokio::spawn(read(reader, id, inbox.clone(), shared));
    let how = loop {
        match poll_fn(|cx| inbox.poll_next(cx)).await {
            Incoming::End(how) => break how,
            Incoming::Bytes(bytes) => {
                if writer.write_all(&bytes).await.is_err() {
                    break Cut::Fin;
                }
            }
        }
    };
    // The socket closes when both halves are gone.
    reading.abort();
    let _ = reading.await;
    if how == Cut::Rst {
        // What is in flight is lost, as it would be; and the half must not end the stream in good
        // order first.
        let _ = writer.as_ref().set_zero_linger();
        writer.forget();
    }
}

async fn read(mut reader: OwnedReadHalf, id: ConnectionId, inbox: Inbox, shared: Weak<Shared>) {
    let mut bytes = BytesMut::new();
    loop {
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
