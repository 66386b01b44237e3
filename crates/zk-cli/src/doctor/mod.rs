//! `zk doctor`: an examination of the servers, with a line for each finding.
//!
//! * [`certificates`] examines what a server shows over TLS.
//! * [`words`] asks it with four-letter words.
//! * [`members`] compares the connect string with the members of the ensemble.
//! * [`verdict`] judges all servers together.

mod certificates;
mod members;
mod verdict;
mod words;

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use zk_recipes::session::{
    Client, Config, ConnectString, CreateMode, DisconnectReason, Error, ErrorCode, ErrorKind, Host,
    LeaseAssumptions, SaslFailure, SessionEnd, TlsFailure, Transport,
};
use zk_tls::TlsBuilder;

use self::members::Listed;
use self::verdict::Examined;
use crate::connector::ServerConnector;
use crate::failure::{Failure, UNREACHABLE, for_users};
use crate::output::Output;
use crate::text::data_text;

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

/// Result of a check of one server, or of all.
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
    pub(crate) tls: Option<TlsBuilder>,
    pub(crate) session_timeout: Duration,
    /// Time for the attempts at each server, if the command line has one.
    pub(crate) retry: Option<Duration>,
    /// Risk of a connection without TLS, with the credentials of this command.
    pub(crate) risk_without_tls: Option<&'static str>,
}

/// Examines each server of the connect string, one after the other, and prints a line for each
/// finding.
pub(crate) async fn run(door: &Door<'_>, connect: &str, output: Output) -> Result<u8, Failure> {
    let servers: ConnectString = connect.parse()?;
    let mut report = Report { output, worst: Level::Ok, has_members: false };
    let mut listed: Vec<Listed> = Vec::new();
    for host in servers.hosts() {
        for server in Listed::all(host, door.tls.is_some()).await {
            match members::repetition(&listed, &server) {
                Some(finding) => report.add(finding)?,
                None => listed.push(server),
            }
        }
    }
    if let Some(tls) = &door.tls {
        certificates::examine_own(tls, &mut report)?;
    }
    let mut examined = Vec::new();
    for server in &listed {
        examined.push(examine(door, server, &listed, servers.chroot(), &mut report).await?);
    }
    if let Some(finding) = verdict::different_timeouts(&examined) {
        report.add(finding)?;
    }
    match verdict::disunity(&examined) {
        Some(finding) => report.add(finding)?,
        None => {
            let (finding, serves) = verdict::majority(&examined);
            report.add_with(finding, json!({ "majority": serves }))?;
        }
    }
    Ok(report.worst.status())
}

struct Report {
    output: Output,
    worst: Level,
    /// Whether the members of the ensemble were compared with the connect string.
    has_members: bool,
}

impl Report {
    fn add_text(&mut self, level: Level, host: &Host, text: String) -> Result<(), Failure> {
        let more = match host.addresses() {
            [address] => json!({ "server": host.to_string(), "address": address.ip() }),
            _ => json!({}),
        };
        self.add_with(Finding { level, server: label(host), text }, more)
    }

    fn add(&mut self, finding: Finding) -> Result<(), Failure> {
        self.add_with(finding, json!({}))
    }

    /// Adds a finding that has more fields in JSON.
    fn add_with(&mut self, finding: Finding, more: Value) -> Result<(), Failure> {
        let Finding { level, server, text } = finding;
        self.worst = self.worst.max(level);
        let about = if server.is_empty() { String::new() } else { format!("{server}: ") };
        self.output.print([format!("{:<7}  {about}{text}", level.name())], || {
            let mut line = json!({ "level": level.name(), "server": server, "finding": text });
            if let (Value::Object(line), Value::Object(more)) = (&mut line, more) {
                line.extend(more);
            }
            line
        })
    }
}

/// Returns the name of a server. If it is the name of several, each has its address behind it.
fn label(host: &Host) -> String {
    match host.addresses() {
        [address] => format!("{host} ({})", address.ip()),
        _ => host.to_string(),
    }
}

/// Examines one server, and with the first one that answers the members of the ensemble.
async fn examine(
    door: &Door<'_>,
    server: &Listed,
    listed: &[Listed],
    chroot: &str,
    report: &mut Report,
) -> Result<Examined, Failure> {
    let host = &server.host;
    let is_plain = door.tls.is_none() || host.transport() == Transport::Tcp;
    if let Some(tls) = door.tls.as_ref().filter(|_| !is_plain) {
        certificates::examine(tls, host, report).await?;
    }
    let begun = now();
    let config = (door.config)(&format!("{host}{chroot}"))?;
    let config = config
        .connect_timeout(door.retry.unwrap_or(CONNECT_LIMIT))
        .refused_timeout(door.retry.unwrap_or_default());
    let connector = match ServerConnector::new(door.tls.clone()) {
        Ok(connector) => connector,
        // The files for TLS cannot be used.
        Err(failure) => {
            report.add_text(Level::Error, host, failure.to_string())?;
            return Ok(Examined { rejects: true, ..Examined::default() });
        }
    };
    let connector = connector.at(host.addresses());
    let client = match config.connector(connector).connect().await {
        Ok(client) => client,
        Err(error) => {
            let text = match words::is_serving(door, host).await {
                Some(false) => "it runs and serves nobody: it is not part of a majority".to_owned(),
                // The line names the server already.
                _ => for_users(&Error::not_applied(error.kind().clone()).to_string()),
            };
            report.add_text(Level::Error, host, text)?;
            return Ok(Examined { rejects: is_rejection(&error), ..Examined::default() });
        }
    };
    let took = ms(now() - begun);
    let way = if is_plain { "in the clear" } else { "over TLS" };
    report.add_text(Level::Ok, host, format!("connected {way} in {took}"))?;
    if let Some(text) = door.risk_without_tls.filter(|_| is_plain) {
        report.add_text(Level::Warning, host, format!("{text}: use TLS (--cacert)"))?;
    }
    let mode = words::version(door, host, report).await?;
    timeouts(door, host, &client, report).await?;
    let granted = Some(client.session_timeout());
    latency(host, &client, report).await?;
    // A server that requires another authentication says so with its first answer.
    if client.end_reason().is_some_and(is_auth) {
        return Ok(Examined { rejects: true, mode, granted, ..Examined::default() });
    }
    write(host, &client, report).await?;
    // A server closes the connection after an operation that it does not know.
    let serves = !client.is_read_only() && client.is_connected();
    operations(host, &client, report).await?;
    if !report.has_members {
        report.has_members = true;
        for finding in members::differences(&client, listed).await {
            report.add(finding)?;
        }
    }
    client.close().await;
    Ok(Examined { serves, rejects: false, mode, granted })
}

/// Returns true if a server answers, and either side rejects the other.
fn is_rejection(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::SessionEnded(end) => is_auth(*end),
        ErrorKind::NoSession(DisconnectReason::Tls(failure)) => {
            !matches!(failure, TlsFailure::ClosedByServer | TlsFailure::NotSpoken)
        }
        ErrorKind::NoSession(DisconnectReason::Sasl(failure)) => {
            !matches!(failure, SaslFailure::NotPrepared(_))
        }
        _ => false,
    }
}

fn is_auth(end: SessionEnd) -> bool {
    matches!(end, SessionEnd::AuthFailed | SessionEnd::AuthRequired)
}

/// Compares the session timeout with the requested one, and reports the lease that a lock gets.
async fn timeouts(
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
    report.add_text(level, host, text)?;
    match LeaseAssumptions::new().times(granted) {
        Ok(times) => {
            let least = ms(times.least_left(granted));
            let text = format!("a lock outlasts the ensemble's silence for at least {least}");
            report.add_text(Level::Ok, host, text)?;
            words::tick(door, host, &times, report).await
        }
        Err(impossible) => report.add_text(Level::Error, host, impossible.to_string()),
    }
}

/// Measures the round trips to the server, and to the leader through it.
async fn latency(host: &Host, client: &Client, report: &mut Report) -> Result<(), Failure> {
    let mut own = Vec::new();
    let mut leaders = Vec::new();
    for _ in 0..ROUND_TRIPS {
        let begun = now();
        if let Err(error) = client.exists("/").await {
            return report.add_text(Level::Error, host, error.to_string());
        }
        own.push(now() - begun);
        let begun = now();
        if let Err(error) = client.sync("/").await {
            return report.add_text(Level::Error, host, error.to_string());
        }
        leaders.push(now() - begun);
    }
    let (own, leader) = (median(own), median(leaders));
    let is_slow = own.max(leader) > client.session_timeout() / SLOW_PART;
    let level = if is_slow { Level::Warning } else { Level::Ok };
    let text = format!("round trip {}, to the leader and back {}", ms(own), ms(leader));
    report.add_text(level, host, text)
}

/// Creates an ephemeral node and deletes it: a majority of the servers writes to its disks. The node
/// has the time of the leader's clock.
async fn write(host: &Host, client: &Client, report: &mut Report) -> Result<(), Failure> {
    if client.is_read_only() {
        return Ok(());
    }
    let path = format!("/zk-doctor-{}", client.random_uuid());
    let (begun, wall) = (now(), wall_clock());
    let created = client.create(&path, b"", CreateMode::Ephemeral).await;
    let took = now() - begun;
    let seen = match created {
        Ok(_) => client.exists(&path).await,
        Err(error) => Err(error),
    };
    let stat = match seen {
        Ok(stat) => stat.unwrap_or_default(),
        Err(error) if error.is_no_auth() => {
            let text = "no permission to create a node here: writes are not examined";
            return report.add_text(Level::Note, host, text.to_owned());
        }
        Err(error) => return report.add_text(Level::Error, host, error.to_string()),
    };
    drop(client.delete(&path, None).await); // otherwise it goes with the session
    let slow = took > client.session_timeout() / SLOW_PART;
    let level = if slow { Level::Warning } else { Level::Ok };
    report.add_text(level, host, format!("a write took {}", ms(took)))?;
    let created = u64::try_from(stat.ctime_ms).unwrap_or(0);
    let (level, text) = clock(Duration::from_millis(created), wall, took);
    report.add_text(level, host, text)
}

/// Compares the time of a node with that of this machine, between the beginning of its creation and
/// the answer.
fn clock(created: Duration, begun: SystemTime, took: Duration) -> (Level, String) {
    let begun = begun.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (ahead, behind) = (created.saturating_sub(begun + took), begun.saturating_sub(created));
    let difference = ahead.max(behind);
    if difference < CLOCK_TOLERANCE {
        return (Level::Ok, "the leader's clock agrees with this machine's".to_owned());
    }
    let side = if ahead > behind { "ahead of" } else { "behind" };
    let text = format!(
        "the leader's clock is {} {side} this machine's: ages that commands show are wrong by that, \
         and locks do not depend on it",
        ms(difference)
    );
    (Level::Note, text)
}

/// Reports the identities of this client, and the operations that only newer servers have.
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
            report.add_text(Level::Ok, host, format!("this client is {known}"))?;
        }
        Err(error) if lacks(&error) => lacking.push("whoAmI (3.7)"),
        Err(error) => report.add_text(Level::Warning, host, error.to_string())?,
    }
    if !client.events_have_zxids().await {
        lacking.push("events with a zxid (3.9), which speed up hand-offs");
    }
    match lacking.is_empty() {
        true => report.add_text(
            Level::Ok,
            host,
            "the server knows all operations that zk uses".to_owned(),
        ),
        false => report.add_text(Level::Note, host, format!("it lacks {}", lacking.join(", "))),
    }
}

fn lacks(error: &Error) -> bool {
    error.code() == Some(ErrorCode::UNIMPLEMENTED)
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

#[allow(clippy::disallowed_methods, reason = "this command compares clocks")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// The longest time for the connection to one server, and for its answer to a four-letter word.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Difference of clocks that nobody notices in the ages that commands show.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);
const ROUND_TRIPS: usize = 5;
/// A round trip of more than this part of the session timeout leaves no room for a second attempt.
const SLOW_PART: u32 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_compared_beyond_the_time_of_the_request() {
        let second = Duration::from_secs(1);
        let begun = SystemTime::UNIX_EPOCH + 100 * second;
        let text = |created| clock(created, begun, 2 * second).1;
        for agrees in [100 * second, 102 * second, 99 * second + second / 2] {
            assert!(text(agrees).contains("agrees"), "{agrees:?}");
        }
        assert!(text(112 * second).contains("10.0 s ahead of"));
        assert!(text(90 * second).contains("10.0 s behind"));
    }

    #[test]
    fn exit_status_is_that_of_the_worst_finding() {
        let all = [Level::Ok, Level::Note, Level::Warning, Level::Error];
        assert_eq!(all.map(Level::status), [0, 0, 1, 69]);
        assert!(all.is_sorted());
    }
}
