//! Metrics in the text format of Prometheus.

mod page;
mod session;

pub use self::page::PrometheusPage;

/// Values that a monitoring system collects in the text format of Prometheus.
///
/// The documentation of each implementation lists its metrics, and the queries that matter.
///
/// ```
/// use zk_session::{Prometheus, Stats};
///
/// let page = Stats::default().prometheus("ensemble=\"stock\"");
/// assert!(page.contains("\nzk_connected{ensemble=\"stock\"} 0\n"));
/// ```
pub trait Prometheus {
    /// Writes the values. `labels` go to each of them, for example `lock="stock"`; they may be empty.
    /// Their values must be escaped already.
    ///
    /// A page may contain this once, because the format names each metric in one place only;
    /// [`PrometheusPage::join`] makes one page of several locks or sessions.
    #[must_use]
    fn prometheus(&self, labels: &str) -> String;
}
