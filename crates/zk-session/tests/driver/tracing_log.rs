//! Log of the spans and events of `tracing`, for tests of what an operator finds there.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};

/// Writes a line for each event, span, and value recorded later.
#[derive(Clone, Default)]
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

impl Log {
    /// Receives everything of the current thread until the guard is dropped.
    pub(crate) fn start() -> (Self, DefaultGuard) {
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

    /// Returns the lines that contain all these texts.
    pub(crate) fn with(&self, texts: &[&str]) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        let has_all = |line: &&String| texts.iter().all(|text| line.contains(text));
        lines.iter().filter(has_all).cloned().collect()
    }

    #[track_caller]
    pub(crate) fn assert_one(&self, texts: &[&str]) {
        let found = self.with(texts);
        assert_eq!(found.len(), 1, "{texts:?} in {found:#?} of {:#?}", self.with(&[]));
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
