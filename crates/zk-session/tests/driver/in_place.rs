//! Servers that answer inside the reads and writes of the client, without a task of their own. They
//! outlive the client's runtime, and can send more than the client can read.

use std::collections::VecDeque;

use proto::{EventType, RequestHeader};

use super::*;

/// Bytes that a flood sends at most. A client that reads all of them in one go is caught by it.
const FLOOD_LEN: usize = 8 << 20;

/// The state of the server and its connections.
struct Server {
    script: Script,
    ops: Vec<OpCode>,
    /// Bytes of notifications that are still to be sent, without a pause.
    flood: usize,
    /// Every write fails.
    is_broken: bool,
}

#[derive(Clone)]
struct InPlace(Arc<Mutex<Server>>);

impl InPlace {
    fn new() -> Self {
        let script = Script::new();
        let server = Server { script, ops: Vec::new(), flood: 0, is_broken: false };
        Self(Arc::new(Mutex::new(server)))
    }

    fn server(&self) -> MutexGuard<'_, Server> {
        self.0.lock().unwrap()
    }

    async fn client(&self) -> Client {
        let config = Config::new("a").unwrap().session_timeout(T).seed(1);
        config.connector(self.clone()).connect().await.unwrap()
    }
}

struct InPlaceStream {
    server: InPlace,
    from_client: BytesMut,
    to_client: VecDeque<u8>,
    greeted: bool,
}

impl Connector for InPlace {
    type Stream = InPlaceStream;

    fn connect(
        &self,
        _host: &Host,
    ) -> impl Future<Output = io::Result<InPlaceStream>> + Send + 'static {
        let (from_client, to_client) = (BytesMut::new(), VecDeque::new());
        let server = self.clone();
        std::future::ready(Ok(InPlaceStream { server, from_client, to_client, greeted: false }))
    }
}

impl AsyncRead for InPlaceStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.to_client.is_empty() && this.server.server().flood > 0 {
            let mut event = BytesMut::new();
            script::notify(&mut event, Zxid(100), EventType::NODE_DELETED, "/flood");
            let mut server = this.server.server();
            server.flood = server.flood.saturating_sub(event.len());
            this.to_client.extend(event);
        }
        if this.to_client.is_empty() {
            return Poll::Pending; // a write produces the next bytes, and wakes
        }
        let len = buffer.remaining().min(this.to_client.len());
        let bytes: Vec<u8> = this.to_client.drain(..len).collect();
        buffer.put_slice(&bytes);
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
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        this.from_client.extend_from_slice(bytes);
        while let Some(frame) = split_frame(&mut this.from_client, 1 << 20).unwrap() {
            let mut answer = BytesMut::new();
            if !std::mem::replace(&mut this.greeted, true) {
                server.script.connect(&frame, &mut answer);
            } else {
                let (header, _) = RequestHeader::split(&frame).unwrap();
                server.ops.push(OpCode::from_code(header.op).unwrap());
                server.script.answer(&Frame::parse(&frame), &mut answer);
            }
            this.to_client.extend(answer);
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
