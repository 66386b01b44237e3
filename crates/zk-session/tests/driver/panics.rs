//! Code of the application that panics while the driver runs it.

use super::*;
use zk_session::{
    Sasl, SaslFailure, SaslMechanism, SaslPreparation, SaslStep, SessionChange, SessionManager,
};

/// A network with streams that panic on demand.
#[derive(Clone)]
struct Explosive {
    ensemble: Ensemble,
    is_lit: Arc<Mutex<bool>>,
}

struct Fuse {
    stream: Recorded,
    is_lit: Arc<Mutex<bool>>,
}

impl Explosive {
    fn new() -> Self {
        Self { ensemble: Ensemble::new(), is_lit: Arc::default() }
    }

    fn light(&self) {
        *self.is_lit.lock().unwrap() = true;
    }
}

impl Connector for Explosive {
    type Stream = Fuse;

    fn connect(&self, host: &Host) -> impl Future<Output = io::Result<Fuse>> + Send + 'static {
        let (stream, is_lit) = (self.ensemble.connect(host), Arc::clone(&self.is_lit));
        async move { Ok(Fuse { stream: stream.await?, is_lit }) }
    }
}

impl Fuse {
    /// Panics once: a later stream works.
    fn burn(&self) {
        let is_lit = std::mem::take(&mut *self.is_lit.lock().unwrap());
        assert!(!is_lit, "a stream that panics");
    }
}

impl AsyncRead for Fuse {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.burn();
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Fuse {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The driver polled the stream once more in its destructor, which aborted the process.
#[tokio::test(start_paused = true)]
async fn panic_of_a_stream_ends_the_session_and_no_more() {
    let network = Explosive::new();
    let client = Config::new("a").unwrap().connector(network.clone()).connect().await.unwrap();
    network.light();
    let asked = client.get_data("/n").await.unwrap_err();
    let end = SessionEnd::DriverPanicked;
    assert_eq!(*asked.kind(), ErrorKind::SessionEnded(end));
    assert_eq!(client.end_reason(), Some(end));
    let later = client.get_data("/n").await.unwrap_err();
    assert_eq!(*later.kind(), ErrorKind::SessionEnded(end));
    assert_eq!(later.retry_on(), RetryOn::NewSession);
}

#[tokio::test(start_paused = true)]
async fn session_manager_opens_the_next_session_after_a_panic() {
    let network = Explosive::new();
    let config = Config::new("a").unwrap();
    let sessions = SessionManager::connect(config.connector(network.clone())).await.unwrap();
    let mut changes = sessions.changes();
    network.light();
    sessions.client().get_data("/n").await.unwrap_err();
    let ended = changes.next().await;
    let is_told = |cause: &SessionEnd| *cause == SessionEnd::DriverPanicked;
    assert!(
        matches!(&ended, Some(SessionChange::Ended { cause, .. }) if is_told(cause)),
        "{ended:?}"
    );
    let opened = changes.next().await;
    assert!(matches!(opened, Some(SessionChange::Opened { .. })), "{opened:?}");
    sessions.client().sync("/n").await.unwrap();
}

#[derive(Debug)]
struct Panics;

impl Sasl for Panics {
    fn prepare(&self, _host: &Host, _address: Option<IpAddr>) -> SaslPreparation {
        Box::pin(std::future::ready(Ok(Box::new(Self) as Box<dyn SaslMechanism>)))
    }
}

impl SaslMechanism for Panics {
    fn step(&mut self, _token: &[u8]) -> Result<SaslStep, SaslFailure> {
        panic!("a mechanism that panics");
    }
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_sasl_mechanism_is_no_close_of_the_client() {
    let ensemble = Ensemble::new();
    let config = ensemble.config("a").sasl(Panics);
    let error = config.connector(ensemble.clone()).connect().await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::SessionEnded(SessionEnd::DriverPanicked), "{error}");
}
