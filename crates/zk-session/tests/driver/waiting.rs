//! How long callers wait, and which outcome they get at the end.

use std::collections::VecDeque;

use super::*;
use zk_session::RetryOn;
use zk_session_core::Limit;

#[tokio::test(start_paused = true)]
async fn with_timeout_replaces_the_request_timeout() {
    let ensemble = Ensemble::new();
    let config = ensemble.config("a").request_timeout(Duration::from_secs(2));
    let client = config.connector(ensemble.clone()).connect().await.unwrap();
    ensemble.state().unanswered.insert(OpCode::SetData.code());
    let start = now();
    let short = client.with_timeout(Duration::from_millis(300)).set_data("/n", b"", None);
    let long = client.set_data("/n", b"", None);
    let error = short.await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::TimedOut, Outcome::Unknown));
    assert_eq!(
        error.to_string(),
        "setData /n: no answer within the timeout (the request may have been applied)"
    );
    assert!(start.elapsed() < Duration::from_millis(310), "{:?}", start.elapsed());
    assert!(error.retry_on() != RetryOn::SameSession);
    long.await.unwrap_err();
    assert!(start.elapsed() < Duration::from_millis(2010), "{:?}", start.elapsed());

    ensemble.state().refuses = true;
    ensemble.cut();
    while client.is_connected() {
        tokio::task::yield_now().await;
    }
    let error = client.exists("/n").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::TimedOut, Outcome::NotApplied));
    assert!(error.retry_on() == RetryOn::SameSession);
}

#[tokio::test(start_paused = true)]
async fn request_dropped_while_queued_is_withdrawn() {
    let ensemble = Ensemble::new();
    ensemble.state().hangs = true;
    let client = ensemble.config("a").connector(ensemble.clone()).open().unwrap();
    let limit = zk_session::limits::REQUESTS_MAX;
    let asked: Vec<_> = (0..limit).map(|_| client.exists("/n")).collect();
    let error = client.exists("/n").await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LimitReached(Limit::Requests)), "{error}");
    drop(asked);
    assert_eq!((client.stats().queued, client.stats().queued_bytes), (0, 0));
    let one_more = client.exists("/n");
    ensemble.state().hangs = false;
    assert!(one_more.await.unwrap().is_some());
    client.close().await;
    let asked = ensemble.ops().into_iter().filter(|op| *op == OpCode::Exists).count();
    assert_eq!(asked, 1);
}

/// A server whose reply to the first request arrives at the time when the write of the second
/// request fails.
#[derive(Clone, Default)]
struct LastWords {
    to_client: VecDeque<u8>,
    script: Option<Arc<Mutex<Script>>>,
    from_client: BytesMut,
    kept: BytesMut,
    greeted: bool,
    connections: Arc<Mutex<usize>>,
}

impl Connector for LastWords {
    type Stream = Self;

    fn connect(&self, _host: &Host) -> impl Future<Output = io::Result<Self>> + Send + 'static {
        *self.connections.lock().unwrap() += 1;
        let first = *self.connections.lock().unwrap() == 1;
        let this = self.clone();
        async move { if first { Ok(this) } else { Err(io::ErrorKind::ConnectionRefused.into()) } }
    }
}

impl AsyncRead for LastWords {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.to_client.is_empty() {
            return Poll::Pending; // a write produces the next bytes, and wakes
        }
        let len = buffer.remaining().min(self.to_client.len());
        let bytes: Vec<u8> = self.to_client.drain(..len).collect();
        buffer.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for LastWords {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.kept.is_empty() {
            let kept = std::mem::take(&mut self.kept);
            self.to_client.extend(kept);
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.from_client.extend_from_slice(bytes);
        while let Some(frame) = split_frame(&mut self.from_client, 1 << 20).unwrap() {
            let (script, mut out) = (self.script.clone().unwrap(), BytesMut::new());
            let mut script = script.lock().unwrap();
            if !std::mem::replace(&mut self.greeted, true) {
                script.connect(&frame, &mut out);
                self.to_client.extend(out);
                cx.waker().wake_by_ref();
            } else {
                script.answer(&Frame::parse(&frame), &mut out);
                self.kept.extend_from_slice(&out);
            }
        }
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn failed_write_does_not_hide_a_received_reply() {
    let script = Arc::new(Mutex::new(Script::new()));
    let connector = LastWords { script: Some(script), ..LastWords::default() };
    let config = Config::new("a").unwrap().session_timeout(T).seed(1);
    let client = config.connector(connector).connect().await.unwrap();
    let first = client.set_data("/n", b"one", None);
    for _ in 0..10 {
        tokio::task::yield_now().await; // the first request is written
    }
    let began = now();
    let second = client.set_data("/n", b"two", None);
    first.await.unwrap();
    assert_eq!(now(), began, "the failed write wakes the driver");
    let error = second.await.unwrap_err();
    let cause = DisconnectReason::Io(io::ErrorKind::BrokenPipe);
    assert_eq!(*error.kind(), ErrorKind::ConnectionLost(cause));
    assert_eq!(error.outcome(), Outcome::NotApplied, "not a byte of it was written");
}

#[tokio::test(start_paused = true)]
async fn guaranteed_delete_continues_after_its_timeout() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    ensemble.state().unanswered = BTreeSet::from([OpCode::Delete.code()]);
    let second = Duration::from_secs(1);
    let began = now();
    let error = client.with_timeout(second).delete_guaranteed("/n/a").await.unwrap_err();
    assert_eq!((error.kind(), error.outcome()), (&ErrorKind::TimedOut, Outcome::Unknown));
    assert_eq!(now() - began, second);

    // Without a timeout, the caller waits over reconnects until a server answers.
    let without_bound = tokio::spawn(client.delete_guaranteed("/n/b"));
    ensemble.until(|state| state.connections > 2).await;
    assert!(!without_bound.is_finished());
    let before = {
        let mut state = ensemble.state();
        state.unanswered.clear();
        state.seen.len()
    };
    let is_delete = |frame: &Frame| frame.op == OpCode::Delete && frame.path() == "/n/a";
    ensemble.until(|state| state.seen[before..].iter().any(|(_, frame)| is_delete(frame))).await;
    assert!(without_bound.await.unwrap().unwrap());
    client.close().await;
}

/// Credentials that are not answered in time stay with the session, which presents them again.
#[tokio::test(start_paused = true)]
async fn unanswered_credentials_do_not_fail_the_connect() {
    let ensemble = Ensemble::new();
    ensemble.state().unanswered.insert(OpCode::Auth.code());
    let config = ensemble.config("a").auth("digest", "user:password");
    let config = config.request_timeout(Duration::from_millis(300));
    let client = config.connector(ensemble.clone()).connect().await.unwrap();
    assert!(client.is_connected());
}
