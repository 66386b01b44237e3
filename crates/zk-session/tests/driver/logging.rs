//! Spans and events of the crate `tracing`: what an operator finds in the logs.
//!
//! `cargo xtask test` runs these tests; they need the feature `tracing`.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};
use zk_session::limits::SLOW_REQUEST;

use super::*;

/// Writes a line for each event, span, and value recorded later.
#[derive(Clone, Default)]
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

impl Log {
    /// Receives everything of the current thread until the guard is dropped.
    fn start() -> (Self, DefaultGuard) {
        let log = Self::default();
        (log.clone(), tracing::subscriber::set_default(log))
    }

    fn add(&self, what: &str, metadata: Option<&Metadata<'_>>, fields: impl FnOnce(&mut Line)) {
        let mut line = Line(what.to_owned());
        if let Some(metadata) = metadata {
            write!(line.0, " {} {}", metadata.level(), metadata.name()).unwrap();
        }
        fields(&mut line);
        self.lines.lock().unwrap().push(line.0);
    }

    /// Returns the number of lines that contain all these texts.
    fn count(&self, texts: &[&str]) -> usize {
        let lines = self.lines.lock().unwrap();
        lines.iter().filter(|line| texts.iter().all(|text| line.contains(text))).count()
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("zk_")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.add("span", Some(span.metadata()), |line| span.record(line));
        Id::from_u64(1 + self.spans.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _span: &Id, values: &Record<'_>) {
        self.add("record", None, |line| values.record(line));
    }

    fn event(&self, event: &Event<'_>) {
        self.add("event", Some(event.metadata()), |line| event.record(line));
    }

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}
    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn connections_and_slow_requests_are_logged() {
    let (log, _guard) = Log::start();
    let ensemble = Ensemble::new();
    let client = ensemble.client().await;
    assert_eq!(log.count(&["span INFO zk.connect", "servers=\"a:2181\""]), 1);
    let connected = ["event INFO", "connected", "session=0x100000001", "timeout_ms=6000"];
    assert_eq!(log.count(&connected), 1);

    ensemble.state().script.missing.insert("/none".to_owned());
    client.delete("/none", None).await.unwrap_err();
    assert_eq!(log.count(&["span DEBUG zk.request", "operation=\"delete\"", "path=/none"]), 1);
    assert_eq!(log.count(&["record", "error=delete /none: NoNode (-101)"]), 1);
    assert_eq!(log.count(&["event WARN"]), 0, "neither slow nor throttled");

    ensemble.state().unanswered.insert(OpCode::SetData.code());
    client.with_timeout(SLOW_REQUEST).set_data("/n", b"", None).await.unwrap_err();
    assert_eq!(log.count(&["event WARN", "slow request", "path=/n", "took_ms=1000"]), 1);
    client.close().await;
    assert_eq!(log.count(&["event INFO", "session closed", "session=0x100000001"]), 1);
}

/// The end of the session has an event of its own.
#[tokio::test(start_paused = true)]
async fn ended_lease_is_logged_unless_the_session_is_closed() {
    for closes in [true, false] {
        let (log, _guard) = Log::start();
        let ensemble = Ensemble::new();
        let client = ensemble.client().await;
        let claim = client.claim_lease();
        let term = claim.renew().await.unwrap();
        if closes {
            client.close().await;
        } else {
            ensemble.state().unanswered.extend([OpCode::Multi.code(), OpCode::Sync.code()]);
            claim.lost(term).await;
            tokio::time::sleep(Duration::from_millis(10)).await; // reason: the driver has a turn
        }
        let warnings = log.count(&["event WARN", "lease ended", "session=0x100000001"]);
        assert_eq!(warnings, usize::from(!closes));
    }
}
