//! Four-letter words: questions to a server without a session.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;
use zk_recipes::session::{Connector, LeaseTimes};

use super::finding::{Level, time_text, whole_ms};
use super::{CONNECT_LIMIT, Examination};
use crate::connector::ServerConnector;
use crate::prelude::{Duration, Result, data_text, json};

/// Part of the version that the servers of `zk-testing` tell.
const IN_MEMORY: &str = "-zk-testing";

/// Answer of a server without a leader (`AbstractFourLetterCommand.ZK_NOT_SERVING`).
const NOT_SERVING: &str = "This ZooKeeper instance is not currently serving requests";

impl Examination<'_> {
    /// Reports version and mode.
    pub(super) async fn version(&mut self) -> Result<()> {
        let answer = self.ask(b"srvr").await;
        let value = |label| value(&answer, label);
        let (Some(version), Some(mode)) = (value("Zookeeper version: "), value("Mode: ")) else {
            let text = "it does not tell its version: srvr is not in its 4lw.commands.whitelist";
            return self.found(Level::Note, "version_unknown", text, json!({}));
        };
        let is_in_memory = version.contains(IN_MEMORY);
        let version = version.split(['-', ',']).next().unwrap_or_default().to_owned();
        let level = if mode == "read-only" { Level::Warning } else { Level::Ok };
        let values = json!({ "version": version, "mode": mode });
        self.found(level, "version", format!("version {version}, {mode}"), values)?;
        if is_in_memory {
            let text = "a server of zk-testing, in memory: it keeps no node when it ends";
            self.found(Level::Warning, "in_memory", text, json!({}))?;
        }
        (self.known.version, self.known.mode) = (Some(version), Some(mode));
        Ok(())
    }

    /// Returns whether the server serves requests, if it tells.
    pub(super) async fn is_serving(&self) -> Option<bool> {
        let answer = self.ask(b"srvr").await;
        (!answer.is_empty()).then(|| !answer.contains(NOT_SERVING))
    }

    /// Compares the tick of the server with the longest one that the lease assumes, if there is a lease.
    pub(super) async fn tick(&mut self, times: Option<&LeaseTimes>) -> Result<()> {
        let answer = self.ask(b"conf").await;
        let tick = value(&answer, "tickTime=").and_then(|tick| tick.parse().ok());
        let tick = tick.map(Duration::from_millis);
        self.known.tick = tick;
        let Some(times) = times else { return Ok(()) };
        // A leader asks its followers for their touch tables each half of a tick.
        let most = 2 * times.flush_bound;
        let assumed = format!("the lease assumes at most {}", time_text(most));
        let (level, code, text) = match tick {
            Some(tick) if tick <= most => {
                (Level::Ok, "tick", format!("a tick is {}; {assumed}", time_text(tick)))
            }
            Some(tick) => {
                let advice =
                    "ask for a longer session timeout, or set LeaseAssumptions::flush_bound";
                let text = format!("a tick is {}, and {assumed}: {advice}", time_text(tick));
                (Level::Error, "tick", text)
            }
            None => {
                let unknown =
                    "it does not tell its tick: conf is not in its 4lw.commands.whitelist";
                (Level::Note, "tick_unknown", format!("{unknown}; {assumed}"))
            }
        };
        let values = json!({ "tick_ms": tick.map(whole_ms), "tick_max_ms": whole_ms(most) });
        self.found(level, code, text, values)
    }

    /// Returns the answer to a four-letter word; empty if there is none.
    async fn ask(&self, word: &[u8]) -> String {
        let asked = async {
            let connector = ServerConnector::new(self.reach.tls.clone()).ok()?;
            let mut stream = connector.connect(self.host).await.ok()?;
            stream.write_all(word).await.ok()?;
            stream.flush().await.ok()?;
            let mut answer = Vec::new();
            // A server may close the connection without TLS's farewell.
            drop(stream.take(ANSWER_MAX).read_to_end(&mut answer).await);
            Some(String::from_utf8_lossy(&answer).into_owned())
        };
        timeout(CONNECT_LIMIT, asked).await.ok().flatten().unwrap_or_default()
    }
}

/// Bytes of an answer that are read; real ones are shorter.
const ANSWER_MAX: u64 = 16 * 1024;

/// Returns the rest of the line that begins with `label`.
fn value(answer: &str, label: &str) -> Option<String> {
    let found = answer.lines().find_map(|line| line.strip_prefix(label));
    found.map(|value| data_text(value.trim().as_bytes()))
}
