//! `zk doctor`: what this client is connected to, and what may go wrong with it.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use zk_recipes::session::{
    Client, Config, ConnectString, Error, ErrorCode, Host, LeaseAssumptions, Transport,
};
use zk_tls::Tls;

use crate::failure::{Failure, UNREACHABLE};
use crate::output::{Output, data_text};

/// How bad a finding is, from the best to the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
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
    fn status(self) -> u8 {
        match self {
            Self::Ok | Self::Note => 0,
            Self::Warning => 1,
            Self::Error => UNREACHABLE,
        }
    }
}

/// What was found out about one server, or about all.
struct Finding {
    level: Level,
    /// The server; empty for all.
    server: String,
    text: String,
}

/// How the servers are reached.
pub(crate) struct Door<'a> {
    /// Returns the settings for a connect string.
    pub(crate) config: &'a dyn Fn(&str) -> Result<Config, Failure>,
    pub(crate) tls: Option<Tls>,
    pub(crate) session_timeout: Duration,
    /// Whether a password or a certificate is presented.
    pub(crate) presents_secrets: bool,
}

/// Examines each server of the connect string, one after the other, and prints a line for each
/// finding.
pub(crate) async fn run(door: &Door<'_>, connect: &str, output: Output) -> Result<u8, Failure> {
    let servers: ConnectString = connect.parse()?;
    let mut report = Report { output, worst: Level::Ok };
    let mut modes = Vec::new();
    for host in servers.hosts() {
        modes.push(examine(door, host, servers.chroot(), &mut report).await?);
    }
    if let Some(finding) = leaders(&modes) {
        report.add(finding)?;
    }
    Ok(report.worst.status())
}

struct Report {
    output: Output,
    worst: Level,
}

impl Report {
    fn tell(&mut self, level: Level, host: &Host, text: String) -> Result<(), Failure> {
        self.add(Finding { level, server: host.to_string(), text })
    }

    fn add(&mut self, Finding { level, server, text }: Finding) -> Result<(), Failure> {
        self.worst = self.worst.max(level);
        let about = if server.is_empty() { String::new() } else { format!("{server}: ") };
        self.output.print(
            [format!("{:<7}  {about}{text}", level.name())],
            || json!({ "level": level.name(), "server": server, "finding": text }),
        )
    }
}

/// Examines one server. Returns its mode, if it tells.
async fn examine(
    door: &Door<'_>,
    host: &Host,
    chroot: &str,
    report: &mut Report,
) -> Result<Option<String>, Failure> {
    let begun = now();
    let config = (door.config)(&format!("{host}{chroot}"))?;
    let config = config.connect_timeout(CONNECT_LIMIT).refused_timeout(Duration::ZERO);
    let connected = match door.tls.clone() {
        Some(tls) => config.connect_with(tls).await,
        None => config.connect().await,
    };
    let client = match connected {
        Ok(client) => client,
        Err(error) => {
            report.tell(Level::Error, host, error.to_string())?;
            return Ok(None);
        }
    };
    let took = ms(now() - begun);
    let is_plain = door.tls.is_none() || host.transport() == Transport::Tcp;
    let way = if is_plain { "in the clear" } else { "over TLS" };
    report.tell(Level::Ok, host, format!("connected {way} in {took}"))?;
    if is_plain && door.presents_secrets {
        let text = "passwords cross the network in the clear: use TLS (--cacert)";
        report.tell(Level::Warning, host, text.to_owned())?;
    }
    let mode = version(host, is_plain, report).await?;
    timeouts(door, host, &client, report)?;
    latency(host, &client, report).await?;
    operations(host, &client, report).await?;
    client.close().await;
    Ok(mode)
}

/// Asks for version and mode with a four-letter word, which a server may not allow, and which this
/// program does not send over TLS.
async fn version(
    host: &Host,
    is_plain: bool,
    report: &mut Report,
) -> Result<Option<String>, Failure> {
    if !is_plain {
        return Ok(None);
    }
    let asked = async {
        let mut stream = TcpStream::connect((host.name(), host.port())).await.ok()?;
        stream.write_all(b"srvr").await.ok()?;
        let mut answer = Vec::new();
        stream.take(ANSWER_MAX).read_to_end(&mut answer).await.ok()?;
        Some(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = timeout(CONNECT_LIMIT, asked).await.ok().flatten().unwrap_or_default();
    let value = |label: &str| {
        let found = answer.lines().find_map(|line| line.strip_prefix(label));
        found.map(|value| data_text(value.trim().as_bytes()))
    };
    let (Some(version), Some(mode)) = (value("Zookeeper version: "), value("Mode: ")) else {
        let text = "it does not tell its version: srvr is not in its 4lw.commands.whitelist";
        report.tell(Level::Note, host, text.to_owned())?;
        return Ok(None);
    };
    let version = version.split(['-', ',']).next().unwrap_or_default().to_owned();
    let level = if mode == "read-only" { Level::Warning } else { Level::Ok };
    report.tell(level, host, format!("version {version}, {mode}"))?;
    Ok(Some(mode))
}

/// Compares the session timeout with the one that was asked for, and says what a lock gets of it.
fn timeouts(
    door: &Door<'_>,
    host: &Host,
    client: &Client,
    report: &mut Report,
) -> Result<(), Failure> {
    let (asked, granted) = (door.session_timeout, client.session_timeout());
    let (level, limits) = match asked == granted {
        true => (Level::Ok, ""),
        false => (Level::Warning, ": see minSessionTimeout and maxSessionTimeout of the server"),
    };
    let text = format!("session timeout {} of {} asked for{limits}", ms(granted), ms(asked));
    report.tell(level, host, text)?;
    match LeaseAssumptions::new().times(granted) {
        Ok(times) => {
            let least = ms(times.least_left(granted));
            let text = format!("a lock outlasts the ensemble's silence for at least {least}");
            report.tell(Level::Ok, host, text)
        }
        Err(impossible) => report.tell(Level::Error, host, impossible.to_string()),
    }
}

/// Measures the round trips to the server, and to the leader through it.
async fn latency(host: &Host, client: &Client, report: &mut Report) -> Result<(), Failure> {
    let mut own = Vec::new();
    let mut leaders = Vec::new();
    for _ in 0..ROUND_TRIPS {
        let begun = now();
        if let Err(error) = client.exists("/").await {
            return report.tell(Level::Error, host, error.to_string());
        }
        own.push(now() - begun);
        let begun = now();
        if let Err(error) = client.sync("/").await {
            return report.tell(Level::Error, host, error.to_string());
        }
        leaders.push(now() - begun);
    }
    let (own, leader) = (median(own), median(leaders));
    let is_slow = own.max(leader) > client.session_timeout() / SLOW_PART;
    let level = if is_slow { Level::Warning } else { Level::Ok };
    let text = format!("round trip {}, to the leader and back {}", ms(own), ms(leader));
    report.tell(level, host, text)
}

/// Says who this client is, and what only newer servers have.
async fn operations(host: &Host, client: &Client, report: &mut Report) -> Result<(), Failure> {
    let mut lacking = Vec::new();
    match client.all_children_number("/").await {
        Err(error) if lacks(&error) => lacking.push("getAllChildrenNumber (3.6)"),
        _ => {}
    }
    match client.who_am_i().await {
        Ok(known) => {
            let known = known.iter().map(|it| format!("{}:{}", it.scheme, it.user));
            let known = data_text(known.collect::<Vec<_>>().join(", ").as_bytes());
            report.tell(Level::Ok, host, format!("this client is {known}"))?;
        }
        Err(error) if lacks(&error) => lacking.push("whoAmI (3.7)"),
        Err(error) => report.tell(Level::Warning, host, error.to_string())?,
    }
    if !client.events_have_zxids().await {
        lacking.push("events with a zxid (3.9), which speed up hand-offs");
    }
    match lacking.is_empty() {
        true => report.tell(Level::Ok, host, "no operation is missing".to_owned()),
        false => report.tell(Level::Note, host, format!("it lacks {}", lacking.join(", "))),
    }
}

fn lacks(error: &Error) -> bool {
    error.code() == Some(ErrorCode::UNIMPLEMENTED)
}

/// Judges the modes of all servers together.
fn leaders(modes: &[Option<String>]) -> Option<Finding> {
    let count = |wanted: &str| modes.iter().flatten().filter(|mode| *mode == wanted).count();
    let (leaders, alone) = (count("leader"), count("standalone"));
    let text = match (leaders, alone) {
        (0, 0 | 1) | (1, 0) => return None,
        (0, _) => "the servers are not one ensemble: each is alone",
        (1.., 1..) => "the servers are not one ensemble: one is alone, others are not",
        _ => "more than one server leads: they may be of several ensembles",
    };
    Some(Finding { level: Level::Error, server: String::new(), text: text.to_owned() })
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn ms(time: Duration) -> String {
    match time < Duration::from_millis(100) {
        true => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        false => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[allow(clippy::disallowed_methods, reason = "this command measures")]
fn now() -> Instant {
    Instant::now()
}

/// The longest time for the connection to one server, and for its answer to a four-letter word.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Bytes of such an answer; real ones are shorter.
const ANSWER_MAX: u64 = 16 * 1024;
const ROUND_TRIPS: usize = 5;
/// A round trip of more than this part of the session timeout leaves no room for a second attempt.
const SLOW_PART: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_leaders_are_an_error() {
        let found = |modes: &[&str]| {
            let modes: Vec<_> = modes.iter().map(|mode| Some((*mode).to_owned())).collect();
            leaders(&modes).map(|finding| finding.level)
        };
        assert_eq!(found(&["leader", "follower", "follower"]), None);
        assert_eq!(found(&["follower", "follower"]), None, "the leader may not be in the list");
        assert_eq!(found(&["standalone"]), None);
        for wrong in [&["leader", "leader"][..], &["standalone"; 2], &["leader", "standalone"]] {
            assert_eq!(found(wrong), Some(Level::Error), "{wrong:?}");
        }
    }

    #[test]
    fn exit_status_is_that_of_the_worst_finding() {
        let all = [Level::Ok, Level::Note, Level::Warning, Level::Error];
        assert_eq!(all.map(Level::status), [0, 0, 1, 69]);
        assert!(all.is_sorted());
    }
}
