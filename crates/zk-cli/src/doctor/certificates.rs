//! The certificates of a server.

use std::time::SystemTime;

use tokio::time::timeout;
use zk_recipes::session::{Host, TlsFailure};
use zk_tls::TlsBuilder;

use super::CONNECT_LIMIT;
use super::finding::{Finding, Level, Report};
use crate::prelude::{Duration, Result, data_text, json};
use crate::sessions::wall_clock;

/// Reports the expiry of this client's own certificate. A server that refuses it does not say why.
pub(super) fn examine_own(tls: &TlsBuilder, report: &mut Report) -> Result<()> {
    let end = match tls.client_certificate_expiry() {
        Ok(Some(end)) => end,
        Ok(None) => return Ok(()),
        Err(error) => {
            let text = format!("this client's certificate (--cert): {error}");
            return report.add(Finding::new(Level::Error, "client_certificate", text));
        }
    };
    let days = days_until(end, wall_clock());
    let (level, when) = match days {
        ..0 => (Level::Error, format!("expired {} days ago", -1 - days)),
        0..SOON_DAYS => (Level::Warning, format!("expires in {days} days")),
        _ => (Level::Ok, format!("expires in {days} days")),
    };
    let text = format!("this client's certificate (--cert) {when}");
    let values = json!({ "expires_in_days": days });
    report.add(Finding::new(level, "client_certificate", text).with(values))
}

/// Reports names and expiry, also of certificates that are refused.
pub(super) async fn examine(tls: &TlsBuilder, host: &Host, report: &mut Report) -> Result<()> {
    // Without a connection, the attempt to open a session tells why.
    let Ok(Ok(seen)) = timeout(CONNECT_LIMIT, tls.examine(host)).await else { return Ok(()) };
    let version = if seen.is_tls13 { "1.3" } else { "1.2" };
    let names = data_text(seen.names.join(", ").as_bytes());
    let days = seen.valid_until.clone().map(|until| days_until(until, wall_clock()));
    let values = json!({
        "tls_version": version,
        "names": seen.names,
        "expires_in_days": days.as_ref().ok(),
    });
    let (level, text) = judge(&names, days);
    let text = format!("TLS {version}, {text}");
    report.add(Finding::of(host, level, "certificate", text).with(values))
}

fn judge(names: &str, days: Result<i64, TlsFailure>) -> (Level, String) {
    let days = match days {
        Ok(_) if names.is_empty() => {
            let text = "a certificate without a name, which no session accepts; it needs a \
                        subjectAltName";
            return (Level::Error, text.to_owned());
        }
        Ok(days) => days.max(0),
        Err(failure) => return (Level::Error, failure.to_string()),
    };
    let level = if days < SOON_DAYS { Level::Warning } else { Level::Ok };
    (level, format!("a certificate for {names}; its chain expires in {days} days"))
}

/// Returns the whole days that are left. The number is negative after the end.
fn days_until(end: SystemTime, now: SystemTime) -> i64 {
    let days = |time: Duration| i64::try_from(time.as_secs() / DAY.as_secs()).unwrap_or(i64::MAX);
    match end.duration_since(now) {
        Ok(left) => days(left),
        Err(ago) => -1 - days(ago.duration()),
    }
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Days in which people replace certificates. Authorities such as Let's Encrypt ask for 30 days.
const SOON_DAYS: i64 = 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_that_expires_soon_is_a_warning() {
        let level = |days| judge("zk1", Ok(days)).0;
        assert_eq!([30, 29, 0].map(level), [Level::Ok, Level::Warning, Level::Warning]);
        let (_, text) = judge("zk1", Ok(40));
        assert_eq!(text, "a certificate for zk1; its chain expires in 40 days");
    }

    #[test]
    fn days_are_negative_from_the_end_on() {
        let end = SystemTime::UNIX_EPOCH + 1_000 * DAY;
        let days = |now| days_until(end, now);
        assert_eq!(days(end - 2 * DAY), 2);
        assert_eq!([end, end + DAY / 2, end + DAY].map(days), [0, -1, -2]);
    }

    #[test]
    fn certificate_that_cannot_be_used_is_an_error() {
        let (level, text) = judge("", Ok(40));
        assert!(level == Level::Error && text.contains("without a name"), "{text}");
        let (level, text) = judge("", Err(TlsFailure::UnknownIssuer));
        assert!(level == Level::Error && text.contains("unknown authority"), "{text}");
    }
}
