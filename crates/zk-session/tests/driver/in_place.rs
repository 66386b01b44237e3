//! A server that answers inside the reads and writes of the client, without a task of its own. It
//! outlives the client's runtime, and can send more than the client can read.

use proto::{EventType, RequestHeader};

use super::*;

/// Bytes that a flood sends at most. A client that reads all of them in one go is caught by it.
const FLOOD_LEN: usize = 8 << 20;

/// The state of the server and its connections.
pub(crate) struct Server {
    pub(crate) script: Script,
    pub(crate) ops: Vec<OpCode>,
    /// Bytes of notifications that are still to be sent, without a pause.
    flood: usize,
    /// Every write fails.
    pub(crate) is_broken: bool,
    /// The answers arrive when a write fails.
    pub(crate) is_slow: bool,
}

#[derive(Clone)]
pub(crate) struct InPlace(Arc<Mutex<Server>>);

impl InPlace {
    pub(crate) fn new() -> Self {
        let (script, ops) = (Script::new(), Vec::new());
        let server = Server { script, ops, flood: 0, is_broken: false, is_slow: false };
        Self(Arc::new(Mutex::new(server)))
    }

    pub(crate) fn server(&self) -> MutexGuard<'_, Server> {
        self.0.lock().unwrap()
    }

    pub(crate) async fn client(&self) -> Client {
        let config = Config::new("a").unwrap().session_timeout(T).seed(1);
        config.connector(self.clone()).connect().await.unwrap()
    }
}

pub(crate) struct InPlaceStream {
    server: InPlace,
    from_client: BytesMut,
    to_client: BytesMut,
    greeted: bool,
    has_failed: bool,
}

impl Connector for InPlace {
    type Stream = InPlaceStream;

    fn connect(
        &self,
        _host: &Host,
    ) -> impl Future<Output = io::Result<InPlaceStream>> + Send + 'static {
        let (from_client, to_client) = (BytesMut::new(), BytesMut::new());
        let (server, greeted, has_failed) = (self.clone(), false, false);
        let stream = InPlaceStream { server, from_client, to_client, greeted, has_failed };
        std::future::ready(Ok(stream))
    }
}

impl AsyncRead for InPlaceStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let mut server = this.server.0.lock().unwrap();
        if this.to_client.is_empty() && server.flood > 0 {
            script::notify(&mut this.to_client, Zxid(100), EventType::NODE_DELETED, "/flood");
            server.flood = server.flood.saturating_sub(this.to_client.len());
        }
        let is_held = server.is_slow && !this.has_failed;
        if this.to_client.is_empty() || is_held {
            if !is_held {
                this.to_client = BytesMut::new(); // leaves no memory behind
            }
            return Poll::Pending; // a write produces the next bytes, and wakes
        }
        let len = buffer.remaining().min(this.to_client.len());
        buffer.put_slice(&this.to_client.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for InPlaceStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let mut server = this.server.0.lock().unwrap();
        if server.is_broken {
            this.has_failed = true;
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        this.from_client.extend_from_slice(bytes);
        while let Some(frame) = split_frame(&mut this.from_client, 1 << 20).unwrap() {
            if !std::mem::replace(&mut this.greeted, true) {
                server.script.connect(&frame, &mut this.to_client);
            } else {
                let (header, _) = RequestHeader::split(&frame).unwrap();
                server.ops.push(OpCode::from_code(header.op).unwrap());
                server.script.answer(&Frame::parse(&frame), &mut this.to_client);
            }
        }
        if this.from_client.is_empty() {
            this.from_client = BytesMut::new();
        }
        cx.waker().wake_by_ref();
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A program that ends without closing its client must not keep its locks for a session timeout.
/// The requests before the close exceed what the driver takes in one part.
#[test]
fn runtime_shutdown_sends_all_requests_and_the_close() {
    for requests in [0, 1, 4] {
        let network = InPlace::new();
        let builder = &mut tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().unwrap();
        let client = runtime.block_on(network.client());
        let data = vec![7; 50_000];
        let pending: Vec<_> = (0..requests).map(|_| client.set_data("/n", &data, None)).collect();
        drop(runtime);
        let mut expected = vec![OpCode::SetData; requests];
        expected.push(OpCode::CloseSession);
        assert_eq!(network.server().ops, expected);
        drop(pending);
    }
}

#[tokio::test(start_paused = true)]
async fn flooding_server_does_not_starve_other_tasks() {
    let network = InPlace::new();
    let client = network.client().await;
    network.server().flood = FLOOD_LEN;
    drop(client.exists("/n")); // wakes the driver
    let seen = network.clone();
    let left = tokio::spawn(async move { seen.server().flood }).await.unwrap();
    assert!(left > 0 && left < FLOOD_LEN, "{left} bytes of the flood are left");
}

/// The client reads what the server sent before a write failed, but not for ever.
#[tokio::test(start_paused = true)]
async fn failed_write_ends_the_connection_despite_a_flood() {
    let network = InPlace::new();
    let client = network.client().await;
    network.server().flood = FLOOD_LEN;
    network.server().is_broken = true;
    let error = client.set_data("/n", b"", None).await.unwrap_err();
    let cause = DisconnectReason::Io(io::ErrorKind::BrokenPipe);
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost(cause));
    let left = network.server().flood;
    assert!(left > 0, "the client stops reading before the server stops sending");
}

/// The reply to the first request arrives at the time when the write of the second one fails.
#[tokio::test(start_paused = true)]
async fn failed_write_does_not_hide_a_received_reply() {
    let network = InPlace::new();
    let client = network.client().await;
    network.server().is_slow = true;
    let first = client.set_data("/n", b"one", None);
    for _ in 0..10 {
        tokio::task::yield_now().await; // the first request is written
    }
    network.server().is_broken = true;
    let began = now();
    let second = client.set_data("/n", b"two", None);
    first.await.unwrap();
    assert_eq!(now(), began, "the failed write wakes the driver");
    let error = second.await.unwrap_err();
    let cause = DisconnectReason::Io(io::ErrorKind::BrokenPipe);
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost(cause));
    assert_eq!(error.outcome(), Outcome::NotApplied, "not a byte of it was written");
}
