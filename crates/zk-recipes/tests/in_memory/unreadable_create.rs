//! A create that the server has applied, with a reply that names another node.

use std::future::{Future, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready as done};

use tokio::io::{AsyncRead, ReadBuf};
use zk_recipes::session::{Connector, ErrorKind, Host, Outcome};
use zk_recipes::{LockError, Mutex, RwLock, Semaphore};
use zk_testing::{MemoryStream, TestServer};

use crate::{children, config, settle};

/// Path of a lock node up to its id, as in a reply to a create.
const NAMED: &[u8] = b"/_c_";

/// Connector to the only server. The next path of a lock node that arrives is changed if `is_on`.
#[derive(Clone)]
struct Misnaming {
    server: TestServer,
    is_on: Arc<AtomicBool>,
}

struct MisnamingStream {
    stream: MemoryStream,
    is_on: Arc<AtomicBool>,
}

impl Connector for Misnaming {
    type Stream = MisnamingStream;

    fn connect(
        &self,
        _: &Host,
    ) -> impl Future<Output = io::Result<MisnamingStream>> + Send + 'static {
        let is_on = self.is_on.clone();
        ready(self.server.stream(0).map(|stream| MisnamingStream { stream, is_on }))
    }
}

impl AsyncRead for MisnamingStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        done!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let read = &mut buf.filled_mut()[before..];
        let named = read.windows(NAMED.len()).position(|it| it == NAMED);
        if let Some(at) = named
            && self.is_on.swap(false, Ordering::SeqCst)
        {
            read[at + 1] = b'x';
        }
        Poll::Ready(Ok(()))
    }
}

crate::pass_writes_on!(MisnamingStream);

/// The acquisition fails, and the session deletes the node, whose id it knows.
#[tokio::test(start_paused = true)]
async fn misnamed_create_fails_and_leaves_no_node() {
    let server = TestServer::in_memory();
    let is_on = Arc::new(AtomicBool::new(false));
    let connector = Misnaming { server: server.clone(), is_on: is_on.clone() };
    let client = config(1).connector(connector).connect().await.unwrap();
    let mutex = Mutex::new(&client, "/m").unwrap();
    let lock = RwLock::new(&client, "/rw").unwrap();
    let permits = Semaphore::new(&client, "/s", 1).unwrap();
    // The first acquisitions create the parents.
    mutex.acquire().await.unwrap().release().await.unwrap();
    lock.read().acquire().await.unwrap().release().await.unwrap();
    permits.acquire().await.unwrap().release().await.unwrap();
    settle().await;
    for recipe in ["mutex", "reader", "permit"] {
        is_on.store(true, Ordering::SeqCst);
        let error = match recipe {
            "mutex" => mutex.acquire().await.unwrap_err(),
            "reader" => lock.read().acquire().await.unwrap_err(),
            _ => permits.acquire().await.unwrap_err(),
        };
        let LockError::Client(error) = error else { panic!("{recipe}: {error}") };
        assert_eq!((error.kind(), error.outcome()), (&ErrorKind::UnfitReply, Outcome::Applied));
        settle().await;
        for folder in ["/m", "/rw", "/s/locks", "/s/leases"] {
            assert_eq!(children(&server, folder), [""; 0], "{recipe}: {folder}");
        }
    }
    assert!(client.is_connected() && !is_on.load(Ordering::SeqCst));
}
