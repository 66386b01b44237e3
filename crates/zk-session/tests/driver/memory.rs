//! Memory of an idle session, counted.

use allocation_counter::measure;
use bytes::Bytes;

use super::*;

/// A server without a network. It answers in place, so that all memory that is counted belongs to
/// the client.
struct Echo {
    script: Script,
    input: BytesMut,
    output: BytesMut,
    greeted: bool,
}

/// The data of the node on every server.
struct Echoes(Bytes);

impl Connector for Echoes {
    type Stream = Echo;

    fn connect(&self, _host: &Host) -> impl Future<Output = io::Result<Echo>> + Send + 'static {
        let mut script = Script::new();
        script.data = self.0.clone();
        let (input, output) = (BytesMut::new(), BytesMut::new());
        std::future::ready(Ok(Echo { script, input, output, greeted: false }))
    }
}

impl AsyncRead for Echo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.output.is_empty() {
            self.output = BytesMut::new();
            return Poll::Pending; // a write produces the next bytes, and wakes
        }
        let len = buffer.remaining().min(self.output.len());
        buffer.put_slice(&self.output.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Echo {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        this.input.extend_from_slice(bytes);
        while let Some(frame) = split_frame(&mut this.input, 1 << 20).unwrap() {
            if !std::mem::replace(&mut this.greeted, true) {
                this.script.connect(&frame, &mut this.output);
            } else {
                this.script.answer(&Frame::parse(&frame), &mut this.output);
            }
        }
        if this.input.is_empty() {
            this.input = BytesMut::new();
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

/// Of a session, including its driver, its events and its share of the runtime.
const IDLE_BYTES_MAX: i64 = 24 * 1024;

#[test]
fn idle_session_memory_is_bounded_after_a_burst() {
    const SESSIONS: i64 = 50;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let mut clients = Vec::with_capacity(SESSIONS.try_into().unwrap());
    let data = Bytes::from(vec![7; 200_000]);
    let held = measure(|| {
        for seed in 0..SESSIONS {
            let config =
                Config::new("a").unwrap().session_timeout(T).seed(seed.try_into().unwrap());
            let client =
                runtime.block_on(config.connector(Echoes(data.clone())).connect()).unwrap();
            runtime.block_on(async {
                let written: Vec<_> = (0..4).map(|_| client.set_data("/n", &data, None)).collect();
                for answer in written {
                    answer.await.unwrap();
                }
                assert_eq!(client.get_data("/n").await.unwrap().data, data);
                // Several requests in one write, whose buffer grows with room to spare.
                let written: Vec<_> =
                    (0..8).map(|_| client.set_data("/n", &data[..12_000], None)).collect();
                for answer in written {
                    answer.await.unwrap();
                }
                client.set_data("/n", b"", None).await.unwrap();
                tokio::time::sleep(T).await; // reason: idle, with a few pings
                assert!(client.is_connected());
            });
            clients.push(client);
        }
    });
    let each = held.bytes_current / SESSIONS;
    println!("{each} bytes for an idle session");
    assert!(each <= IDLE_BYTES_MAX, "{each} bytes");
    assert!(each > 1000, "{each}: something was counted");
}

#[test]
fn small_node_data_does_not_keep_the_read_buffer() {
    const KEPT: i64 = 1000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let config = Config::new("a").unwrap().session_timeout(T).seed(1);
    let client = runtime
        .block_on(config.connector(Echoes(Bytes::from_static(b"0123456789"))).connect())
        .unwrap();
    runtime.block_on(client.set_data("/n", b"0123456789", None)).unwrap();
    let mut kept = Vec::with_capacity(KEPT.try_into().unwrap());
    let held = measure(|| {
        for _ in 0..KEPT {
            kept.push(runtime.block_on(client.get_data("/n")).unwrap());
        }
    });
    let each = held.bytes_current / KEPT;
    assert!(each < 256, "{each} bytes are kept for 10 bytes of data");
}
