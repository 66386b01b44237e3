//! The certificates of a server.

use std::time::{Duration, SystemTime};

use tokio::time::timeout;
use zk_recipes::session::{Host, TlsFailure};
use zk_tls::TlsBuilder;

use super::{CONNECT_LIMIT, Finding, Level, Report, wall_clock};
use crate::failure::Failure;
use crate::text::data_text;

/// Reports the expiry of this client's own certificate. A server that refuses it does not say why.
pub(super) fn examine_own(tls: &TlsBuilder, report: &mut Report) -> Result<(), Failure> {
    let end = match tls.client_certificate_expiry() {
        Ok(Some(end)) => end,
        Ok(None) => return Ok(()),
        Err(error) => {
            let text = format!("this client's certificate (--cert): {error}");
            return report.add(Finding { level: Level::Error, server: String::new(), text });
        }
    };
    let now = wall_clock();
    let days = |time: Duration| time.as_secs() / DAY.as_secs();
    let (level, when) = match end.duration_since(now) {
        Ok(left) if left < SOON => (Level::Warning, format!("expires in {} days", days(left))),
        Ok(left) => (Level::Ok, format!("expires in {} days", days(left))),
        Err(ago) => (Level::Error, format!("expired {} days ago", days(ago.duration()))),
    };
    let text = format!("this client's certificate (--cert) {when}");
    report.add(Finding { level, server: String::new(), text })
}

/// Reports names and expiry, also of certificates that are refused.
pub(super) async fn examine(
    tls: &TlsBuilder,
    host: &Host,
    report: &mut Report,
) -> Result<(), Failure> {
    // Without a connection, the attempt to open a session tells why.
    let Ok(Ok(seen)) = timeout(CONNECT_LIMIT, tls.examine(host)).await else { return Ok(()) };
    let version = if seen.is_tls13 { "TLS 1.3" } else { "TLS 1.2" };
    let names = data_text(seen.names.join(", ").as_bytes());
    let (level, text) = judge(&names, seen.valid_until, wall_clock());
    report.add_text(level, host, format!("{version}, {text}"))
}

fn judge(names: &str, until: Result<SystemTime, TlsFailure>, now: SystemTime) -> (Level, String) {
    let until = match until {
        Ok(_) if names.is_empty() => {
            let text = "a certificate without a name, which no session accepts; it needs a \
                        subjectAltName";
            return (Level::Error, text.to_owned());
        }
        Ok(until) => until,
        Err(failure) => return (Level::Error, failure.to_string()),
    };
    let left = until.duration_since(now).unwrap_or_default();
    let days = left.as_secs() / DAY.as_secs();
    let level = if left < SOON { Level::Warning } else { Level::Ok };
    (level, format!("a certificate for {names}; its chain expires in {days} days"))
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Time in which people replace certificates. Authorities such as Let's Encrypt ask for 30 days.
const SOON: Duration = Duration::from_secs(30 * DAY.as_secs());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_that_expires_soon_is_a_warning() {
        let now = SystemTime::UNIX_EPOCH + 1_000 * DAY;
        let level = |days: u32| judge("zk1", Ok(now + days * DAY), now).0;
        assert_eq!([31, 29, 0].map(level), [Level::Ok, Level::Warning, Level::Warning]);
        let (_, text) = judge("zk1", Ok(now + 40 * DAY), now);
        assert_eq!(text, "a certificate for zk1; its chain expires in 40 days");
    }

    #[test]
    fn certificate_that_cannot_be_used_is_an_error() {
        let now = SystemTime::UNIX_EPOCH;
        let (level, text) = judge("", Ok(now + 40 * DAY), now);
        assert!(level == Level::Error && text.contains("without a name"), "{text}");
        let (level, text) = judge("", Err(TlsFailure::UnknownIssuer), now);
        assert!(level == Level::Error && text.contains("unknown authority"), "{text}");
    }
}
