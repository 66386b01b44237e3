//! Writer of the text format of Prometheus.

use std::fmt::{Display, Write};

use zk_session_core::HistogramSnapshot;

/// Page of metrics in the text format of Prometheus.
///
/// Help texts must fit on a line, and the values of labels must be escaped already. A page may
/// contain each metric once, because the format names it in one place only.
///
/// ```
/// use zk_session::PrometheusPage;
///
/// let mut page = PrometheusPage::new("lock=\"stock\"");
/// page.gauge("waiting", "Contenders that wait.", 3);
/// let text = "# HELP waiting Contenders that wait.\n# TYPE waiting gauge\nwaiting{lock=\"stock\"} 3\n";
/// assert_eq!(page.into_text(), text);
/// ```
#[derive(Clone, Debug)]
pub struct PrometheusPage<'a> {
    text: String,
    labels: &'a str,
}

impl<'a> PrometheusPage<'a> {
    /// Creates an empty page. `labels` go to each value, for example `lock="stock"`; they may be
    /// empty.
    #[must_use]
    pub fn new(labels: &'a str) -> Self {
        Self { text: String::new(), labels }
    }

    /// Adds a value that rises and falls.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, "gauge", help);
        self.line(name, "", value);
    }

    /// Adds a value for each of several values of `label`.
    pub fn gauges<V: Display>(&mut self, name: &str, help: &str, label: &str, all: &[(&str, V)]) {
        self.head(name, "gauge", help);
        self.lines(name, label, all);
    }

    /// Adds a value that never decreases. By convention, its name ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.head(name, "counter", help);
        self.line(name, "", value);
    }

    /// Adds a counter for each of several values of `label`.
    pub fn counters(&mut self, name: &str, help: &str, label: &str, all: &[(&str, u64)]) {
        self.head(name, "counter", help);
        self.lines(name, label, all);
    }

    /// Adds a histogram. By convention, its name ends in `_seconds`.
    pub fn histogram(&mut self, name: &str, help: &str, histogram: &HistogramSnapshot) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (bound, count) in histogram.buckets() {
            self.line(&bucket, &format!("le=\"{}\"", bound.as_secs_f64()), count);
        }
        self.line(&bucket, "le=\"+Inf\"", histogram.count());
        self.line(&format!("{name}_sum"), "", histogram.sum().as_secs_f64());
        self.line(&format!("{name}_count"), "", histogram.count());
    }

    /// Joins pages into one, which names each metric once. The pages differ in their labels: for
    /// example, each is of another lock.
    ///
    /// ```
    /// use zk_session::PrometheusPage;
    ///
    /// let waiting = |labels, number: u64| {
    ///     let mut page = PrometheusPage::new(labels);
    ///     page.gauge("waiting", "Contenders that wait.", number);
    ///     page.into_text()
    /// };
    /// let page = PrometheusPage::join([waiting("lock=\"a\"", 3), waiting("lock=\"b\"", 0)]);
    /// assert!(page.ends_with("waiting{lock=\"a\"} 3\nwaiting{lock=\"b\"} 0\n"));
    /// ```
    #[must_use]
    pub fn join(pages: impl IntoIterator<Item = String>) -> String {
        // The first line of each metric, which has its name, and all of its lines.
        let mut metrics: Vec<(String, String)> = Vec::new();
        for page in pages {
            let (mut at, mut is_new) = (0, false);
            for line in page.lines() {
                if line.starts_with("# HELP ") {
                    let known = metrics.iter().position(|(head, _)| head == line);
                    (at, is_new) = (known.unwrap_or(metrics.len()), known.is_none());
                    if is_new {
                        metrics.push((line.to_owned(), String::new()));
                    }
                }
                let is_wanted = is_new || !line.starts_with('#');
                if let (Some((_, lines)), true) = (metrics.get_mut(at), is_wanted) {
                    lines.push_str(line);
                    lines.push('\n');
                }
            }
        }
        metrics.into_iter().map(|(_, lines)| lines).collect()
    }

    /// Returns the text of the page.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn lines<V: Display>(&mut self, name: &str, label: &str, all: &[(&str, V)]) {
        for (of, value) in all {
            self.line(name, &format!("{label}=\"{of}\""), value);
        }
    }

    fn line(&mut self, name: &str, label: &str, value: impl Display) {
        let both = [self.labels, label];
        let labels: Vec<&str> = both.into_iter().filter(|label| !label.is_empty()).collect();
        let _ = if labels.is_empty() {
            writeln!(self.text, "{name} {value}")
        } else {
            writeln!(self.text, "{name}{{{}}} {value}", labels.join(","))
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_a_label_have_a_line_for_each_value() {
        let mut page = PrometheusPage::new("of=\"a\"");
        page.counters("lost_total", "Lost locks.", "why", &[("expired", 3), ("deleted", 0)]);
        let text = "# HELP lost_total Lost locks.\n# TYPE lost_total counter\n\
                    lost_total{of=\"a\",why=\"expired\"} 3\nlost_total{of=\"a\",why=\"deleted\"} 0\n";
        assert_eq!(page.into_text(), text);
    }
}
