//! A create that the server has applied, with a reply that names another node.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready as done};

use tokio::io::{AsyncRead, ReadBuf};
use zk_recipes::LockError;
use zk_recipes::session::{ErrorKind, Outcome};
use zk_testing::{MemoryStream, TestServer};

use crate::tapped::{Tap, Tapped};
use crate::{Kind, children, config, settle};

/// Path of a lock node up to its id, as in a reply to a create.
const NAMED: &[u8] = b"/_c_";

/// Changes the next path of a lock node that arrives, if it is on.
#[derive(Clone, Default)]
struct Misnaming(Arc<AtomicBool>);

impl Tap for Misnaming {
    fn poll_read(
        &mut self,
        stream: &mut MemoryStream,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        done!(Pin::new(stream).poll_read(cx, buf))?;
        let read = &mut buf.filled_mut()[before..];
        let named = read.windows(NAMED.len()).position(|it| it == NAMED);
        if let Some(at) = named.filter(|_| self.0.swap(false, Ordering::SeqCst)) {
            read[at + 1] = b'x';
        }
        Poll::Ready(Ok(()))
    }
}

/// The acquisition fails, and the session deletes the node, whose id it knows.
#[tokio::test(start_paused = true)]
async fn misnamed_create_fails_and_leaves_no_node() {
    let (server, tap) = (TestServer::in_memory(), Misnaming::default());
    let connector = Tapped { server: server.clone(), tap: tap.clone() };
    let client = config(1).connector(connector).connect().await.unwrap();
    for kind in [Kind::Mutex, Kind::Reader, Kind::Permit] {
        let lock = kind.lock(&client);
        lock.acquire_boxed().await.unwrap().release_boxed().await.unwrap(); // creates the parents
        settle().await;
        tap.0.store(true, Ordering::SeqCst);
        let error = lock.acquire_boxed().await.unwrap_err();
        let LockError::Client(error) = error else { panic!("{kind:?}: {error}") };
        assert_eq!((error.kind(), error.outcome()), (&ErrorKind::UnfitReply, Outcome::Applied));
        settle().await;
        for folder in kind.folders() {
            assert_eq!(children(&server, folder), [""; 0], "{kind:?}: {folder}");
        }
    }
    assert!(client.is_connected() && !tap.0.load(Ordering::SeqCst));
}
