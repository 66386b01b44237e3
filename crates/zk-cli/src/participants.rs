//! `zk participants`: the holder of a lock and its waiters.

use std::io::{IsTerminal, stdout};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use zk_recipes::session::{Client, ErrorCode, Retry, path::file_name};
use zk_recipes::{ContenderInfo, LockError, Mutex, Participant, RwLock, Semaphore};

use crate::failure::Failure;
use crate::output::{Output, aligned, data_json, data_text};

pub(crate) async fn list(
    client: &Client,
    path: &str,
    is_semaphore: bool,
) -> Result<Vec<Participant>, LockError> {
    match is_semaphore {
        // The number of permits does not affect the list of their holders.
        true => Semaphore::new(client, path, 1)?.participants().await,
        false => contenders(client, path).await,
    }
}

/// Lists the contenders of a mutex or a read-write lock, or the candidates of an election. The names
/// of the nodes show which one it is.
async fn contenders(client: &Client, path: &str) -> Result<Vec<Participant>, LockError> {
    let contenders = Mutex::new(client, path)?.participants().await?;
    let has_any = |names: &[&str]| {
        contenders.iter().any(|it| names.iter().any(|name| file_name(&it.path).contains(name)))
    };
    // Their nodes are ordered differently.
    if has_any(&["-__READ__", "-__WRIT__"]) {
        RwLock::new(client, path)?.participants().await
    } else if has_any(&[Mutex::LEADER_LATCH]) {
        Mutex::new(client, path)?.with_lock_name(Mutex::LEADER_LATCH)?.participants().await
    } else {
        Ok(contenders)
    }
}

/// Prints on standard error why there may be no participants, if it is not that the lock is free.
pub(crate) async fn tell_why_empty(
    retry: &Retry,
    path: &str,
    is_semaphore: bool,
    output: Output,
) -> Result<(), Failure> {
    let names = match retry.get_children(path).await {
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {
            output.note(&format!("{path} does not exist"));
            return Ok(());
        }
        listed => listed?.names,
    };
    let has = |wanted: &str| names.names().any(|name| name.contains(wanted));
    if !is_semaphore && has("leases") {
        output.note(&format!("{path} is a semaphore; see --semaphore"));
    } else if is_semaphore && !has("leases") && !names.is_empty() {
        output.note(&format!("{path} is not a semaphore"));
    }
    Ok(())
}

/// Prints a table on a terminal or if `is_table`, otherwise a line for each participant.
pub(crate) fn print(
    participants: &[Participant],
    is_table: bool,
    output: Output,
) -> Result<(), Failure> {
    let lines = match is_table || stdout().is_terminal() {
        true => table(participants, now()),
        false => participants.iter().map(line).collect(),
    };
    output.print(lines, || participants.iter().map(to_json).collect())
}

fn line(participant: &Participant) -> String {
    format!("{}\t{}", participant.path, data_text(&participant.data))
}

fn to_json(participant: &Participant) -> Value {
    let info = participant.info();
    let info = info.as_ref();
    json!({
        "path": participant.path,
        "data": data_json(&participant.data),
        "name": info.and_then(|it| it.name.as_deref()),
        "host": info.and_then(|it| it.host.as_deref()),
        "pid": info.and_then(|it| it.process_id),
        "address": info.map(|it| it.address.to_string()),
        "sequence": participant.sequence,
        "session": format!("{:#x}", participant.session_id),
        "token": participant.czxid,
        "created_ms": u64::try_from(since_epoch(participant.created).as_millis()).ok(),
    })
}

/// Returns the table with its head. Without participants there is nothing to print.
pub(crate) fn table(participants: &[Participant], now: SystemTime) -> Vec<String> {
    if participants.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(participants.iter().enumerate().map(|(at, participant)| row(at, participant, now)));
    aligned(&rows)
}

const COLUMNS: usize = 8;
const HEAD: [&str; COLUMNS] = ["#", "NAME", "HOST", "PID", "ADDRESS", "QUEUED", "SESSION", "NODE"];

fn row(at: usize, participant: &Participant, now: SystemTime) -> [String; COLUMNS] {
    let age = now.duration_since(participant.created).unwrap_or_default();
    let session = format!("{:#x}", participant.session_id);
    let (number, since, node) = ((at + 1).to_string(), span(age), participant.path.clone());
    let Some(info) = participant.info() else {
        // Data of the application's own.
        let none = String::new;
        let data = data_text(&participant.data);
        return [number, data, none(), none(), none(), since, session, node];
    };
    let shown = |text: Option<String>| data_text(text.unwrap_or_default().as_bytes());
    [
        number,
        shown(info.name),
        shown(info.host),
        info.process_id.map(|id| id.to_string()).unwrap_or_default(),
        info.address.to_string(),
        since,
        session,
        node,
    ]
}

/// Returns the words that tell who a contender is: its name, host and process, or its data.
pub(crate) fn who(data: &[u8]) -> String {
    let Some(info) = ContenderInfo::parse(data) else {
        return data_text(data.get(..WHO_MAX).unwrap_or(data));
    };
    let name = info.name.unwrap_or_default();
    let place = info.host.unwrap_or_else(|| info.address.to_string());
    let process = info.process_id.map(|id| format!(":{id}")).unwrap_or_default();
    data_text(format!("{name} {place}{process}").trim_start().as_bytes())
}

/// Bytes of data that are shown of a contender with data of its own.
const WHO_MAX: usize = 200;

/// Returns a time in its two largest units.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// The time of this machine, which differs from that of the ensemble by as much as their clocks.
#[allow(clippy::disallowed_methods, reason = "ages are shown to people, and decide nothing")]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_data_is_cut_in_a_table() {
        let long = ["a".to_owned(), "x".repeat(100_000)];
        let lines = aligned(&[long, ["b".to_owned(), "y".to_owned()]]);
        assert_eq!(lines[1], "b  y");
        assert_eq!(lines[0].chars().count(), 3 + 200 + 1);
        assert!(lines[0].ends_with("x…"), "{}", lines[0]);
    }

    #[test]
    fn time_is_shown_in_its_two_largest_units() {
        let shown = |seconds| span(Duration::from_secs(seconds));
        assert_eq!(shown(59), "59s");
        assert_eq!(shown(61), "1m01s");
        assert_eq!(shown(3_600 + 120), "1h02m");
        assert_eq!(shown(86_400 * 3 + 3_600), "3d01h");
    }
}
