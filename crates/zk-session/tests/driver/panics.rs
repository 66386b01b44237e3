//! Code of the application that panics while the driver runs it.

use super::*;
use zk_session::{Sasl, SaslFailure, SaslMechanism, SaslPreparation, SaslStep};

/// The driver polled the stream once more in its destructor, which aborted the process.
#[tokio::test(start_paused = true)]
async fn panic_of_a_stream_ends_the_session_and_no_more() {
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    ensemble.state().panics = true;
    let asked = client.get_data("/n").await.unwrap_err();
    let end = SessionEnd::DriverPanicked;
    assert_eq!(*asked.kind(), ErrorKind::SessionEnded(end));
    assert_eq!(client.end_reason(), Some(end));
    let later = client.get_data("/n").await.unwrap_err();
    assert_eq!(*later.kind(), ErrorKind::SessionEnded(end));
    assert_eq!(later.retry_on(), RetryOn::NewSession);
}

/// The connector panics at the next attempt, in the turn in which callers get the answers of the last one.
#[derive(Clone)]
struct Unconnectable(Ensemble);

impl Connector for Unconnectable {
    type Stream = Recorded;

    fn connect(&self, host: &Host) -> impl Future<Output = io::Result<Recorded>> + Send + 'static {
        assert_eq!(self.0.state().connections, 0, "a connector that panics");
        self.0.connect(host)
    }
}

#[tokio::test(start_paused = true)]
async fn panic_of_a_connector_leaves_no_caller_without_an_answer() {
    let ensemble = Ensemble::new();
    let config = ensemble.config("a").connector(Unconnectable(ensemble.clone()));
    let client = config.connect().await.unwrap();
    ensemble.state().unanswered.insert(OpCode::GetData.code());
    let waits = client.get_data("/n");
    ensemble.cut();
    let end = ErrorKind::SessionEnded(SessionEnd::DriverPanicked);
    let first = waits.await.unwrap_err();
    assert!(matches!(first.kind(), ErrorKind::ConnectionLost(_)), "{first}");
    assert_eq!(*client.get_data("/n").await.unwrap_err().kind(), end);
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
