//! Four-letter words: questions to a server without a session.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zk_recipes::session::{Connector, Host, LeaseTimes};

use super::CONNECT_LIMIT;
use super::finding::{Finding, Level, Report, time_text, whole_ms};
use crate::connector::{Connection, ServerConnector};
use crate::failure::Failure;
use crate::reach::Reach;
use crate::text::data_text;

/// Reports version and mode. Returns both, if the server tells them.
pub(super) async fn version(
    reach: &Reach<'_>,
    host: &Host,
    report: &mut Report,
) -> Result<Option<(String, String)>, Failure> {
    let answer = ask(reach, host, b"srvr").await;
    let value = |label| value(&answer, label);
    let (Some(version), Some(mode)) = (value("Zookeeper version: "), value("Mode: ")) else {
        let text = "it does not tell its version: srvr is not in its 4lw.commands.whitelist";
        report.add(Finding::of(host, Level::Note, "version_unknown", text))?;
        return Ok(None);
    };
    let is_in_memory = version.contains(IN_MEMORY);
    let version = version.split(['-', ',']).next().unwrap_or_default().to_owned();
    let level = if mode == "read-only" { Level::Warning } else { Level::Ok };
    let values = json!({ "version": version, "mode": mode });
    let text = format!("version {version}, {mode}");
    report.add(Finding::of(host, level, "version", text).with(values))?;
    if is_in_memory {
        let text = "a server of zk-testing, in memory: it keeps no node when it ends";
        report.add(Finding::of(host, Level::Warning, "in_memory", text))?;
    }
    Ok(Some((version, mode)))
}

/// Part of the version that the servers of `zk-testing` tell.
const IN_MEMORY: &str = "-zk-testing";

/// Returns whether the server serves requests, if it tells.
pub(super) async fn is_serving(reach: &Reach<'_>, host: &Host) -> Option<bool> {
    let answer = ask(reach, host, b"srvr").await;
    (!answer.is_empty()).then(|| !answer.contains(NOT_SERVING))
}

/// Answer of a server without a leader (`AbstractFourLetterCommand.ZK_NOT_SERVING`).
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

/// Compares the tick of the server with the longest one that the lease assumes, if there is a lease. Returns
/// the tick, if the server tells it.
pub(super) async fn tick(
    reach: &Reach<'_>,
    host: &Host,
    times: Option<&LeaseTimes>,
    report: &mut Report,
) -> Result<Option<Duration>, Failure> {
    let answer = ask(reach, host, b"conf").await;
    let tick = value(&answer, "tickTime=").and_then(|tick| tick.parse().ok());
    let tick = tick.map(Duration::from_millis);
    if let Some(times) = times {
        // A leader asks its followers for their touch tables each half of a tick.
        report.add(judge_tick(host, tick, 2 * times.flush_bound))?;
    }
    Ok(tick)
}

fn judge_tick(host: &Host, tick: Option<Duration>, most: Duration) -> Finding {
    let values = json!({ "tick_ms": tick.map(whole_ms), "tick_max_ms": whole_ms(most) });
    let assumed = format!("the lease assumes at most {}", time_text(most));
    let (level, code, text) = match tick {
        Some(tick) if tick <= most => {
            (Level::Ok, "tick", format!("a tick is {}; {assumed}", time_text(tick)))
        }
        Some(tick) => {
            let advice = "ask for a longer session timeout, or set LeaseAssumptions::flush_bound";
            let text = format!("a tick is {}, and {assumed}: {advice}", time_text(tick));
            (Level::Error, "tick", text)
        }
        None => {
            let unknown = "it does not tell its tick: conf is not in its 4lw.commands.whitelist";
            (Level::Note, "tick_unknown", format!("{unknown}; {assumed}"))
        }
    };
    Finding::of(host, level, code, text).with(values)
}

/// Returns the answer to a four-letter word; empty if there is none.
async fn ask(reach: &Reach<'_>, host: &Host, word: &[u8]) -> String {
    let asked = async {
        let connector = ServerConnector::new(reach.tls.clone()).ok()?;
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
