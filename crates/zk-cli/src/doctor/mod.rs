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

use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};
use zk_recipes::session::{
    Client, ConnectString, CreateMode, DisconnectReason, Error, ErrorCode, ErrorKind, Host,
    LeaseAssumptions, SaslFailure, SessionEnd, TlsFailure, Transport, path,
};

use self::finding::{Finding, Level, Report, label, measured_ms, time_text, whole_ms};
use self::members::Listed;
use self::verdict::Examined;
use crate::args::Args;
use crate::connector::ServerConnector;
use crate::failure::{Failure, for_users};
use crate::output::Output;
use crate::reach::Reach;
use crate::text::data_text;

/// Examines each server of the connect string, one after the other, and prints a line for each
/// finding.
pub(crate) async fn run(args: &Args, output: Output) -> Result<u8, Failure> {
    let reach = &Reach::of(args)?;
    let servers: ConnectString = args.connect.parse()?;
    let mut report = Report::new(output);
    let mut listed: Vec<Listed> = Vec::new();
    for host in servers.hosts() {
        for server in Listed::all(host, reach.tls.is_some()).await {
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
        let members = if examined.iter().any(|server| server.tells_members) {
            None
        } else {
            Some(&listed[..])
        };
        examined.push(examine(reach, server, members, servers.chroot(), &mut report).await?);
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

/// Examines one server. With `members`, it compares the members of the ensemble with these servers.
async fn examine(
    reach: &Reach<'_>,
    server: &Listed,
    members: Option<&[Listed]>,
    chroot: &str,
    report: &mut Report,
) -> Result<Examined, Failure> {
    let host = &server.host;
    let tls = if host.transport() == Transport::Tcp { None } else { reach.tls.as_ref() };
    let is_plain = tls.is_none();
    if let Some(tls) = tls {
        certificates::examine(tls, host, report).await?;
    }
    let begun = now();
    let config = reach.config(&format!("{host}{chroot}"))?;
    let config = config
        .connect_timeout(reach.args.retry.unwrap_or(CONNECT_LIMIT))
        .refused_timeout(reach.args.retry.unwrap_or_default());
    let connector = match ServerConnector::new(reach.tls.clone()) {
        Ok(connector) => connector,
        // The files for TLS cannot be used.
        Err(failure) => {
            report.add(Finding::of(host, Level::Error, "tls_unusable", failure.to_string()))?;
            return Ok(Examined { rejects: true, ..Examined::default() });
        }
    };
    let connector = connector.at(host.addresses());
    let client = match config.connector(connector).connect().await {
        Ok(client) => client,
        Err(error) => {
            let rejects = is_rejection(&error);
            let finding = match words::is_serving(reach, host).await {
                Some(false) => {
                    let text = "it runs and serves nobody: it is not part of a majority";
                    Finding::of(host, Level::Error, "not_serving", text)
                }
                _ => {
                    let code = if rejects { "rejected" } else { "not_connected" };
                    // The line names the server already.
                    let text = for_users(&Error::not_applied(error.kind().clone()).to_string());
                    Finding::of(host, Level::Error, code, text)
                }
            };
            report.add(finding)?;
            return Ok(Examined { rejects, ..Examined::default() });
        }
    };
    let took = now() - begun;
    let way = if is_plain { "in the clear" } else { "over TLS" };
    let text = format!("connected {way} in {}", time_text(took));
    let values = json!({ "tls": !is_plain, "connect_ms": measured_ms(took) });
    report.add(Finding::of(host, Level::Ok, "connected", text).with(values))?;
    if is_plain {
        if let Some(risk) = reach.identity.risk_without_tls {
            let text = format!("{risk}: use TLS (--cacert)");
            report.add(Finding::of(host, Level::Warning, "secrets_in_the_clear", text))?;
        }
    }
    let (version, mode) = words::version(reach, host, report).await?.unzip();
    let tick = timeouts(reach, host, &client, report).await?;
    let known = Examined {
        server: label(host),
        version,
        mode,
        tick,
        granted: Some(client.session_timeout()),
        ..Examined::default()
    };
    latency(host, &client, report).await?;
    // A server that requires another authentication says so with its first answer.
    if client.end_reason().is_some_and(is_auth) {
        return Ok(Examined { rejects: true, ..known });
    }
    write(host, &client, report).await?;
    // A server closes the connection after an operation that it does not know.
    let serves = !client.is_read_only() && client.is_connected();
    operations(host, &client, report).await?;
    if let Some(listed) = members {
        for finding in members::differences(&client, listed).await {
            report.add(finding)?;
        }
    }
    client.close().await;
    Ok(Examined { serves, tells_members: true, ..known })
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

/// Compares the session timeout with the requested one, and reports the lease that a lock gets. Returns the
/// tick of the server, if it is known.
async fn timeouts(
    reach: &Reach<'_>,
    host: &Host,
    client: &Client,
    report: &mut Report,
) -> Result<Option<Duration>, Failure> {
    let (asked, granted) = (reach.args.session_timeout, client.session_timeout());
    let (level, limits) = if asked == granted {
        (Level::Ok, "")
    } else {
        (Level::Warning, ": see minSessionTimeout and maxSessionTimeout of the server")
    };
    let times = [granted, asked].map(time_text).join(" of ");
    let text = format!("session timeout {times} asked for{limits}");
    let values = json!({ "granted_ms": whole_ms(granted), "requested_ms": whole_ms(asked) });
    report.add(Finding::of(host, level, "session_timeout", text).with(values))?;
    let lease = LeaseAssumptions::new().times(granted);
    match &lease {
        Ok(times) => {
            let least = times.least_left(granted);
            let text =
                format!("a lock outlasts the ensemble's silence for at least {}", time_text(least));
            let values = json!({ "lease_min_ms": whole_ms(least) });
            report.add(Finding::of(host, Level::Ok, "lease", text).with(values))?;
        }
        Err(impossible) => {
            report.add(Finding::of(host, Level::Error, "no_lease", impossible.to_string()))?;
        }
    }
    words::tick(reach, host, lease.ok().as_ref(), report).await
}

/// Measures the round trips to the server, and to the leader through it.
async fn latency(host: &Host, client: &Client, report: &mut Report) -> Result<(), Failure> {
    let mut own = Vec::new();
    let mut leaders = Vec::new();
    for _ in 0..ROUND_TRIPS {
        let begun = now();
        if let Err(error) = client.exists("/").await {
            return report.add(request_failed(host, &error));
        }
        own.push(now() - begun);
        let begun = now();
        if let Err(error) = client.sync("/").await {
            return report.add(request_failed(host, &error));
        }
        leaders.push(now() - begun);
    }
    let (own, leader) = (median(own), median(leaders));
    let is_slow = own.max(leader) > client.session_timeout() / SLOW_PART;
    let level = if is_slow { Level::Warning } else { Level::Ok };
    let times = [own, leader].map(time_text).join(", to the leader and back ");
    let (own, leader) = (measured_ms(own), measured_ms(leader));
    let values = json!({ "round_trip_ms": own, "leader_round_trip_ms": leader });
    report.add(Finding::of(host, level, "round_trip", format!("round trip {times}")).with(values))
}

fn request_failed(host: &Host, error: &Error) -> Finding {
    let values = json!({ "error_code": error.code().and_then(|code| code.name()) });
    Finding::of(host, Level::Error, "request_failed", for_users(&error.to_string())).with(values)
}

/// Creates an ephemeral node and deletes it: a majority of the servers writes to its disks. The node
/// has the time of the leader's clock.
async fn write(host: &Host, client: &Client, report: &mut Report) -> Result<(), Failure> {
    if client.is_read_only() {
        return Ok(());
    }
    let path = format!("/zk-doctor-{}", path::random_uuid(client));
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
            return report.add(Finding::of(host, Level::Note, "write_denied", text));
        }
        Err(error) => return report.add(request_failed(host, &error)),
    };
    drop(client.delete(&path, None).await); // otherwise it goes with the session
    let slow = took > client.session_timeout() / SLOW_PART;
    let level = if slow { Level::Warning } else { Level::Ok };
    let text = format!("a write took {}", time_text(took));
    let values = json!({ "write_ms": measured_ms(took) });
    report.add(Finding::of(host, level, "write", text).with(values))?;
    let created = u64::try_from(stat.ctime_ms).unwrap_or(0);
    let (level, text, ahead_ms) = clock(Duration::from_millis(created), wall, took);
    let values = json!({ "clock_ahead_ms": ahead_ms });
    report.add(Finding::of(host, level, "clock", text).with(values))
}

/// Compares the time of a node with that of this machine, between the beginning of its creation and
/// the answer. Returns also by how many milliseconds the leader's clock is ahead, which is negative if it is
/// behind, and zero if the difference is below the tolerance.
fn clock(created: Duration, begun: SystemTime, took: Duration) -> (Level, String, i64) {
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

/// Reports the identities of this client, and the operations that only newer servers have.
async fn operations(host: &Host, client: &Client, report: &mut Report) -> Result<(), Failure> {
    let mut lacking = Vec::new();
    match client.all_children_number("/").await {
        Err(error) if lacks(&error) => {
            lacking.push(("getAllChildrenNumber", "getAllChildrenNumber (3.6)"))
        }
        _ => {}
    }
    match client.who_am_i().await {
        Ok(known) => {
            let ids = known
                .iter()
                .map(|identity| json!({ "scheme": identity.scheme, "id": identity.user }));
            let values = json!({ "identities": ids.collect::<Value>() });
            let known =
                known.iter().map(|identity| format!("{}:{}", identity.scheme, identity.user));
            let known = data_text(known.collect::<Vec<_>>().join(", ").as_bytes());
            let text = format!("this client is {known}");
            report.add(Finding::of(host, Level::Ok, "identities", text).with(values))?;
        }
        Err(error) if lacks(&error) => lacking.push(("whoAmI", "whoAmI (3.7)")),
        Err(error) => {
            report.add(Finding { level: Level::Warning, ..request_failed(host, &error) })?;
        }
    }
    if !client.events_have_zxids().await {
        lacking.push(("eventZxid", "events with a zxid (3.9), which speed up hand-offs"));
    }
    let (names, texts): (Vec<&str>, Vec<&str>) = lacking.into_iter().unzip();
    let (level, text) = if texts.is_empty() {
        (Level::Ok, "the server knows all operations that zk uses".to_owned())
    } else {
        (Level::Note, format!("it lacks {}", texts.join(", ")))
    };
    report.add(Finding::of(host, level, "operations", text).with(json!({ "lacking": names })))
}

fn lacks(error: &Error) -> bool {
    error.code() == Some(ErrorCode::UNIMPLEMENTED)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
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
}
