//! Four-letter words: questions to a server without a session.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zk_recipes::session::{Connector, Host, LeaseTimes};

use super::{CONNECT_LIMIT, Door, Level, Report, ms};
use crate::connector::{Connection, ServerConnector};
use crate::failure::Failure;
use crate::text::data_text;

/// Reports version and mode. Returns the mode, if the server tells it.
pub(super) async fn version(
    door: &Door<'_>,
    host: &Host,
    report: &mut Report,
) -> Result<Option<String>, Failure> {
    let answer = ask(door, host, b"srvr").await;
    let value = |label| value(&answer, label);
    let (Some(version), Some(mode)) = (value("Zookeeper version: "), value("Mode: ")) else {
        let text = "it does not tell its version: srvr is not in its 4lw.commands.whitelist";
        report.add_text(Level::Note, host, text.to_owned())?;
        return Ok(None);
    };
    let is_in_memory = version.contains(IN_MEMORY);
    let version = version.split(['-', ',']).next().unwrap_or_default().to_owned();
    let level = if mode == "read-only" { Level::Warning } else { Level::Ok };
    report.add_text(level, host, format!("version {version}, {mode}"))?;
    if is_in_memory {
        let text = "a server of zk-testing, in memory: it keeps no node when it ends";
        report.add_text(Level::Warning, host, text.to_owned())?;
    }
    Ok(Some(mode))
}

/// Part of the version that the servers of `zk-testing` tell.
const IN_MEMORY: &str = "-zk-testing";

/// Returns whether the server serves requests, if it tells.
pub(super) async fn is_serving(door: &Door<'_>, host: &Host) -> Option<bool> {
    let answer = ask(door, host, b"srvr").await;
    (!answer.is_empty()).then(|| !answer.contains(NOT_SERVING))
}

/// Answer of a server without a leader (`AbstractFourLetterCommand.ZK_NOT_SERVING`).
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// Compares the tick of the server with the longest one that the lease assumes.
pub(super) async fn tick(
    door: &Door<'_>,
    host: &Host,
    times: &LeaseTimes,
    report: &mut Report,
) -> Result<(), Failure> {
    let answer = ask(door, host, b"conf").await;
    let tick = value(&answer, "tickTime=").and_then(|tick| tick.parse().ok());
    // A leader asks its followers for their touch tables each half of a tick.
    let most = 2 * times.flush_bound;
    let (level, text) = match tick.map(Duration::from_millis) {
        Some(tick) if tick <= most => {
            (Level::Ok, format!("a tick is {}; the lease assumes at most {}", ms(tick), ms(most)))
        }
        Some(tick) => {
            let advice = "ask for a longer session timeout, or set LeaseAssumptions::flush_bound";
            let text =
                format!("a tick is {}, and the lease assumes at most {}", ms(tick), ms(most));
            (Level::Error, format!("{text}: {advice}"))
        }
        None => {
            let unknown = "it does not tell its tick: conf is not in its 4lw.commands.whitelist";
            (Level::Note, format!("{unknown}; the lease assumes at most {}", ms(most)))
        }
    };
    report.add_text(level, host, text)
}

/// Returns the answer to a four-letter word; empty if there is none.
async fn ask(door: &Door<'_>, host: &Host, word: &[u8]) -> String {
    let asked = async {
        let connector = ServerConnector::new(door.tls.clone()).ok()?;
        exchange(connector.connect(host).await.ok()?, word).await
    };
    timeout(CONNECT_LIMIT, asked).await.ok().flatten().unwrap_or_default()
}

async fn exchange(mut stream: Connection, word: &[u8]) -> Option<String> {
    stream.write_all(word).await.ok()?;
    stream.flush().await.ok()?;
    let mut answer = Vec::new();
    // A server may close the connection without TLS's farewell.
    drop(stream.take(ANSWER_MAX).read_to_end(&mut answer).await);
    Some(String::from_utf8_lossy(&answer).into_owned())
}

/// Bytes of an answer that are read; real ones are shorter.
const ANSWER_MAX: u64 = 16 * 1024;

/// Returns the rest of the line that begins with `label`.
fn value(answer: &str, label: &str) -> Option<String> {
    let found = answer.lines().find_map(|line| line.strip_prefix(label));
    found.map(|value| data_text(value.trim().as_bytes()))
}
