//! A finding: a line for people, or a JSON object with values for programs.

use std::net::IpAddr;

use zk_recipes::session::Host;

use crate::failure::UNREACHABLE;
use crate::prelude::{Duration, Output, Result, Value, json};

/// How bad a finding is, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Ok,
    Note,
    Warning,
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }

    /// Returns the exit status if this is the worst finding.
    pub(super) fn status(self) -> u8 {
        match self {
            Self::Ok | Self::Note => 0,
            Self::Warning => 1,
            Self::Error => UNREACHABLE,
        }
    }
}

/// Result of a check of one server, or of all.
pub(super) struct Finding {
    pub(super) level: Level,
    /// The kind of the finding, for programs: it stays the same between releases.
    pub(super) code: &'static str,
    /// The server; empty for all.
    pub(super) server: String,
    /// The address, if the name of the server has several.
    pub(super) address: Option<IpAddr>,
    /// The finding for people.
    pub(super) text: String,
    /// The fields of the JSON object with the values in the text.
    pub(super) values: Value,
}

impl Finding {
    /// Creates a finding about all servers, or about this client.
    pub(super) fn new(level: Level, code: &'static str, text: impl Into<String>) -> Self {
        let (server, text) = (String::new(), text.into());
        Self { level, code, server, address: None, text, values: json!({}) }
    }

    /// Creates a finding about a server of the connect string.
    pub(super) fn of(
        host: &Host,
        level: Level,
        code: &'static str,
        text: impl Into<String>,
    ) -> Self {
        let address = match host.addresses() {
            [address] => Some(address.ip()),
            _ => None,
        };
        Self { server: host.to_string(), address, ..Self::new(level, code, text) }
    }

    /// Adds the values in the text. Each name ends with the unit, if there is one.
    pub(super) fn with(self, values: Value) -> Self {
        Self { values, ..self }
    }

    fn line(&self) -> String {
        let Self { server, text, .. } = self;
        let level = self.level.name();
        match self.address {
            Some(address) => format!("{level:<7}  {server} ({address}): {text}"),
            None if server.is_empty() => format!("{level:<7}  {text}"),
            None => format!("{level:<7}  {server}: {text}"),
        }
    }

    fn into_json(self) -> Value {
        let mut json = self.values;
        json["level"] = self.level.name().into();
        json["code"] = self.code.into();
        json["server"] = self.server.into();
        json["finding"] = self.text.into();
        if let Some(address) = self.address {
            json["address"] = json!(address);
        }
        json
    }
}

/// Prints the findings, and keeps the worst level.
pub(super) struct Report {
    output: Output,
    pub(super) worst: Level,
}

impl Report {
    pub(super) fn new(output: Output) -> Self {
        Self { output, worst: Level::Ok }
    }

    pub(super) fn add(&mut self, finding: Finding) -> Result<()> {
        self.worst = self.worst.max(finding.level);
        self.output.print([finding.line()], || finding.into_json())
    }
}

/// Returns the name of a server. If it is the name of several, each has its address behind it.
pub(super) fn label(host: &Host) -> String {
    match host.addresses() {
        [address] => format!("{host} ({})", address.ip()),
        _ => host.to_string(),
    }
}

pub(super) fn time_text(time: Duration) -> String {
    if time < Duration::from_millis(100) {
        format!("{:.1} ms", time.as_secs_f64() * 1e3)
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

/// Returns a measured time in milliseconds, to a tenth.
pub(super) fn measured_ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}

/// Returns a time of a setting in milliseconds.
pub(super) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_status_is_that_of_the_worst_finding() {
        let all = [Level::Ok, Level::Note, Level::Warning, Level::Error];
        assert_eq!(all.map(Level::status), [0, 0, 1, 69]);
        assert!(all.is_sorted());
    }
}
