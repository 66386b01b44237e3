//! `zk doctor`: an examination of the servers, with a line for each finding.
//!
//! * [`finding`] prints a result of a check.
//! * [`certificates`] examines what a server shows over TLS.
//! * [`words`] asks it with four-letter words.
//! * [`members`] compares the connect string with the members of the ensemble.
//! * [`verdict`] judges all servers together.

mod certificates;
mod finding;
mod members;
mod verdict;
mod words;

use std::time::SystemTime;

use zk_recipes::session::{
    Client, ClientInfo, ConnectString, CreateMode, DisconnectReason, Error, ErrorCode, ErrorKind,
    Host, LeaseAssumptions, OpCode, SaslFailure, ServerKind, SessionEnd, TlsFailure, Transport,
    path,
};

use self::finding::{Finding, Level, Report, label, measured_ms, time_text, whole_ms};
use self::members::Listed;
use self::verdict::Examined;
use crate::acl;
use crate::args::Args;
use crate::connector::ServerConnector;
use crate::failure::for_users;
use crate::prelude::{Duration, Output, Result, Value, clock, data_text, json};
use crate::reach::Reach;
use crate::sessions::wall_clock;

/// Examines each server of the connect string, one after the other, and prints a line for each
/// finding.
pub(crate) async fn run(args: &Args, output: Output) -> Result<u8> {
    let reach = &Reach::of(args)?;
    let servers: ConnectString = args.connect.parse()?;
    let mut report = Report::new(output);
    let mut listed: Vec<Listed> = Vec::new();
    let hosts = match &args.srv {
        Some(srv) => srv.lookup().await.map_err(|error| {
            let cause = DisconnectReason::NoServerList(error.into());
            Error::not_applied(ErrorKind::NoSession(cause))
        })?,
        None => servers.hosts().to_vec(),
    };
    for host in hosts {
        for server in Listed::all(&host, reach.tls.is_some()).await {
            match members::repetition(&listed, &server) {
                Some(finding) => report.add(finding)?,
                None => listed.push(server),
            }
        }
    }
    if let Some(tls) = &reach.tls {
        certificates::examine_own(tls, &mut report)?;
    }
    let mut examined: Vec<Examined> = Vec::new();
    for server in &listed {
        // The first server that answers tells the members of the ensemble.
        let is_told = examined.iter().any(|server| server.tells_members);
        let members = if is_told { None } else { Some(&listed[..]) };
        let known = Examined { server: label(&server.host), ..Examined::default() };
        let (host, report) = (&server.host, &mut report);
        let mut examination = Examination { reach, host, report, known };
        examination.run(servers.chroot(), members).await?;
        examined.push(examination.known);
    }
    if let Some(finding) = verdict::different_timeouts(&examined) {
        report.add(finding)?;
    }
    match verdict::disunity(&examined) {
        Some(finding) => report.add(finding)?,
        None => {
            for finding in verdict::differences(&examined) {
                report.add(finding)?;
            }
            report.add(verdict::majority(&examined))?;
        }
    }
    Ok(report.worst.status())
}

/// The examination of one server.
struct Examination<'a> {
    reach: &'a Reach<'a>,
    host: &'a Host,
    report: &'a mut Report,
    known: Examined,
}

impl Examination<'_> {
    /// Reports a finding, with the values in its text.
    fn found(
        &mut self,
        level: Level,
        code: &'static str,
        text: impl Into<String>,
        values: Value,
    ) -> Result<()> {
        self.report.add(Finding::of(self.host, level, code, text).with(values))
    }

    /// Examines the server. With `members`, it compares the members of the ensemble with these servers.
    async fn run(&mut self, chroot: &str, members: Option<&[Listed]>) -> Result<()> {
        let (reach, host) = (self.reach, self.host);
        let tls = if host.transport() == Transport::Tcp { None } else { reach.tls.as_ref() };
        let is_plain = tls.is_none();
        if let Some(tls) = tls {
            certificates::examine(tls, host, self.report).await?;
        }
        let begun = clock();
        let config = reach
            .config_of(&format!("{host}{chroot}"))?
            .connect_timeout(reach.args.retry.unwrap_or(CONNECT_LIMIT))
            .refused_timeout(reach.args.retry.unwrap_or_default());
        let connector = match ServerConnector::new(reach.tls.clone()) {
            Ok(connector) => connector.at(host.addresses()),
            // The files for TLS cannot be used.
            Err(failure) => {
                self.known.rejects = true;
                return self.found(Level::Error, "tls_unusable", failure.to_string(), json!({}));
            }
        };
        let client = match config.connector(connector).connect().await {
            Ok(client) => client,
            Err(error) => {
                self.known.rejects = is_rejection(&error);
                let (code, text) = match self.is_serving().await {
                    Some(false) => {
                        let text = "it runs and serves nobody: it is not part of a majority";
                        ("not_serving", text.to_owned())
                    }
                    _ => {
                        let code = if self.known.rejects { "rejected" } else { "not_connected" };
                        // The line names the server already.
                        let error = Error::not_applied(error.kind().clone());
                        (code, for_users(&error.to_string()))
                    }
                };
                return self.found(Level::Error, code, text, json!({}));
            }
        };
        let took = clock() - begun;
        let way = if is_plain { "in the clear" } else { "over TLS" };
        let text = format!("connected {way} in {}", time_text(took));
        let values = json!({ "tls": !is_plain, "connect_ms": measured_ms(took) });
        self.found(Level::Ok, "connected", text, values)?;
        if let (true, Some(risk)) = (is_plain, reach.identity.risk_without_tls) {
            let text = format!("{risk}: use TLS (--cacert)");
            self.found(Level::Warning, "secrets_in_the_clear", text, json!({}))?;
        }
        self.version().await?;
        self.timeouts(&client).await?;
        self.latency(&client).await?;
        // A server that requires another authentication says so with its first answer.
        if client.end_reason().is_some_and(is_auth) {
            self.known.rejects = true;
            return Ok(());
        }
        self.write(&client).await?;
        // A server closes the connection after an operation that it does not know.
        self.known.serves = !client.is_read_only() && client.is_connected();
        self.operations(&client).await?;
        if let Some(listed) = members {
            for finding in members::differences(&client, listed).await {
                self.report.add(finding)?;
            }
        }
        client.close().await;
        self.known.tells_members = true;
        Ok(())
    }

    /// Compares the session timeout with the requested one, and reports the lease that a lock gets.
    async fn timeouts(&mut self, client: &Client) -> Result<()> {
        let (asked, granted) = (self.reach.args.session_timeout, client.session_timeout());
        self.known.granted = Some(granted);
        let (level, limits) = if asked == granted {
            (Level::Ok, "")
        } else {
            (Level::Warning, ": see minSessionTimeout and maxSessionTimeout of the server")
        };
        let times = [granted, asked].map(time_text).join(" of ");
        let text = format!("session timeout {times} asked for{limits}");
        let values = json!({ "granted_ms": whole_ms(granted), "requested_ms": whole_ms(asked) });
        self.found(level, "session_timeout", text, values)?;
        let lease = LeaseAssumptions::new().times(granted);
        match &lease {
            Ok(times) => {
                let least = times.least_left(granted);
                let time = time_text(least);
                let text = format!("a lock outlasts the ensemble's silence for at least {time}");
                let values = json!({ "lease_min_ms": whole_ms(least) });
                self.found(Level::Ok, "lease", text, values)?;
            }
            Err(impossible) => {
                self.found(Level::Error, "no_lease", impossible.to_string(), json!({}))?;
            }
        }
        self.tick(lease.ok().as_ref()).await
    }

    /// Measures the round trips to the server, and to the leader through it.
    async fn latency(&mut self, client: &Client) -> Result<()> {
        let (mut own, mut leaders) = (Vec::new(), Vec::new());
        for _ in 0..ROUND_TRIPS {
            let begun = clock();
            if let Err(error) = client.exists("/").await {
                return self.request_failed(Level::Error, &error);
            }
            own.push(clock() - begun);
            let begun = clock();
            if let Err(error) = client.sync("/").await {
                return self.request_failed(Level::Error, &error);
            }
            leaders.push(clock() - begun);
        }
        let (own, leader) = (median(own), median(leaders));
        let level = level_of(own.max(leader), client);
        let times = [own, leader].map(time_text).join(", to the leader and back ");
        let (own, leader) = (measured_ms(own), measured_ms(leader));
        let values = json!({ "round_trip_ms": own, "leader_round_trip_ms": leader });
        self.found(level, "round_trip", format!("round trip {times}"), values)
    }

    fn request_failed(&mut self, level: Level, error: &Error) -> Result<()> {
        let values = json!({ "error_code": error.code().and_then(|code| code.name()) });
        self.found(level, "request_failed", for_users(&error.to_string()), values)
    }

    /// Creates an ephemeral node and deletes it: a majority of the servers writes to its disks. The node
    /// has the time of the leader's clock.
    async fn write(&mut self, client: &Client) -> Result<()> {
        if client.is_read_only() {
            return Ok(());
        }
        let path = format!("/zk-doctor-{}", path::random_uuid(client));
        let (begun, wall) = (clock(), wall_clock());
        let created = client.create(&path, b"", CreateMode::Ephemeral).await;
        let took = clock() - begun;
        let seen = match created {
            Ok(_) => client.exists(&path).await,
            Err(error) => Err(error),
        };
        let stat = match seen {
            Ok(stat) => stat.unwrap_or_default(),
            Err(error) if error.is_no_auth() => {
                let text = "no permission to create a node here: writes are not examined";
                return self.found(Level::Note, "write_denied", text, json!({}));
            }
            Err(error) => return self.request_failed(Level::Error, &error),
        };
        drop(client.delete(&path, None).await); // otherwise it goes with the session
        let text = format!("a write took {}", time_text(took));
        let values = json!({ "write_ms": measured_ms(took) });
        self.found(level_of(took, client), "write", text, values)?;
        let created = u64::try_from(stat.ctime_ms).unwrap_or(0);
        let (level, text, ahead_ms) = compare_clocks(Duration::from_millis(created), wall, took);
        self.found(level, "clock", text, json!({ "clock_ahead_ms": ahead_ms }))
    }

    /// Reports a server that is no ZooKeeper, and the operations that are emulated.
    fn kind(&mut self, client: &Client) -> Result<()> {
        let is_keeper = client.server_kind() != ServerKind::ZooKeeper;
        let emulated = EMULATED.into_iter().filter(|op| !client.supports(*op));
        let emulated: Vec<&str> = emulated.map(OpCode::name).collect();
        let (kind, told) = match (is_keeper, emulated.is_empty()) {
            (false, true) => return Ok(()),
            (false, false) => ("zookeeper", "it is older than ZooKeeper 3.5"),
            (true, _) => (
                "keeper",
                "it is a ClickHouse Keeper or a relative: a lost connection ends the session, and its locks",
            ),
        };
        let text = format!("{told}; emulated: {}", emulated.join(", "));
        self.found(Level::Note, "server_kind", text, json!({ "kind": kind, "emulated": emulated }))
    }

    /// Reports the identities of this client, and the operations that only newer servers have.
    async fn operations(&mut self, client: &Client) -> Result<()> {
        let mut lacking = Vec::new();
        if client.all_children_number("/").await.is_err_and(|error| lacks(&error)) {
            lacking.push(("getAllChildrenNumber", "getAllChildrenNumber (3.6)"));
        }
        match client.who_am_i().await {
            Ok(known) => {
                let line = |identity: &ClientInfo| format!("{}:{}", identity.scheme, identity.user);
                let ids: Value = known.iter().map(acl::identity_json).collect();
                let known = known.iter().map(line).collect::<Vec<_>>().join(", ");
                let text = format!("this client is {}", data_text(known.as_bytes()));
                self.found(Level::Ok, "identities", text, json!({ "identities": ids }))?;
            }
            Err(error) if lacks(&error) => lacking.push(("whoAmI", "whoAmI (3.7)")),
            Err(error) => self.request_failed(Level::Warning, &error)?,
        }
        if !client.events_have_zxids().await {
            lacking.push(("eventZxid", "events with a zxid (3.9), which speed up hand-offs"));
        }
        self.kind(client)?;
        let (names, texts): (Vec<&str>, Vec<&str>) = lacking.into_iter().unzip();
        let (level, text) = if texts.is_empty() {
            (Level::Ok, "the server knows all operations that zk uses".to_owned())
        } else {
            (Level::Note, format!("it lacks {}", texts.join(", ")))
        };
        self.found(level, "operations", text, json!({ "lacking": names }))
    }
}

/// Operations in whose place a client sends others to servers without them.
const EMULATED: [OpCode; 3] = [OpCode::Create2, OpCode::CreateContainer, OpCode::SetWatches];

/// Judges the time of a request.
fn level_of(took: Duration, client: &Client) -> Level {
    if took > client.session_timeout() / SLOW_PART { Level::Warning } else { Level::Ok }
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

/// Compares the time of a node with that of this machine, between the beginning of its creation and
/// the answer. Returns also by how many milliseconds the leader's clock is ahead, which is negative if it is
/// behind, and zero if the difference is below the tolerance.
fn compare_clocks(created: Duration, begun: SystemTime, took: Duration) -> (Level, String, i64) {
    let begun = begun.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (ahead, behind) = (created.saturating_sub(begun + took), begun.saturating_sub(created));
    let difference = ahead.max(behind);
    if difference < CLOCK_TOLERANCE {
        return (Level::Ok, "the leader's clock agrees with this machine's".to_owned(), 0);
    }
    let difference_ms = i64::try_from(difference.as_millis()).unwrap_or(i64::MAX);
    let (side, ahead_ms) =
        if ahead > behind { ("ahead of", difference_ms) } else { ("behind", -difference_ms) };
    let text = format!(
        "the leader's clock is {} {side} this machine's: ages that commands show are wrong by that, \
         and locks do not depend on it",
        time_text(difference)
    );
    (Level::Note, text, ahead_ms)
}

fn lacks(error: &Error) -> bool {
    error.code() == Some(ErrorCode::UNIMPLEMENTED)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
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
        let text = |created| compare_clocks(created, begun, 2 * second).1;
        for agrees in [100 * second, 102 * second, 99 * second + second / 2] {
            assert!(text(agrees).contains("agrees"), "{agrees:?}");
        }
        assert!(text(112 * second).contains("10.0 s ahead of"));
        assert!(text(90 * second).contains("10.0 s behind"));
    }
}
