//! `zk participants`: the holder of a lock and its waiters.

use std::io::{IsTerminal, stdout};
use std::mem::replace;
use std::time::{Duration, SystemTime};

use clap::Args as ClapArgs;
use serde_json::{Value, json};
use zk_recipes::session::{
    Client,
    path::{child, file_name},
};
use zk_recipes::{ContenderInfo, LockError, Mutex, Participant, RwLock, Semaphore};

use crate::failure::Failure;
use crate::output::{Output, data_json, fitted};
use crate::sessions::{Session, Sessions};
use crate::text::{data_text, printable};

/// The `participants` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  zk participants /locks/report
  zk participants /licences --semaphore --table")]
pub(crate) struct Participants {
    /// The path of the lock.
    path: String,
    /// List the permits of a semaphore, or of a lock with --no-reentrant.
    ///
    /// Each permit is one line. The last lines may be permits that the first waiter
    /// waits for: the state is "waits" in the table and in JSON. Elsewhere a line on
    /// standard error tells their number.
    #[arg(long)]
    semaphore: bool,
    /// Print the table, even if the output is no terminal.
    #[arg(long)]
    table: bool,
}

pub(crate) async fn run(
    sessions: &mut Sessions,
    session: &Session,
    wanted: &Participants,
) -> Result<(), Failure> {
    let listing = list(&session.client, &wanted.path, wanted.semaphore);
    let listed = sessions.run_connected(listing).await??;
    if listed.is_empty() {
        print_why_empty(session, &wanted.path, wanted.semaphore).await?;
    }
    print(&listed, wanted, session.output)
}

/// A contender, and its part in the lock.
pub(crate) struct Listed {
    pub(crate) participant: Participant,
    pub(crate) role: Role,
}

/// The part of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Holds,
    Waits,
}

impl Role {
    fn of(holds: bool) -> Self {
        if holds { Self::Holds } else { Self::Waits }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Waits => "waits",
        }
    }
}

pub(crate) async fn list(
    client: &Client,
    path: &str,
    is_semaphore: bool,
) -> Result<Vec<Listed>, LockError> {
    if is_semaphore {
        permits(client, path).await
    } else {
        let mut is_first = true;
        let mut readers_only = true;
        let listed = contenders(client, path).await?.into_iter();
        Ok(listed
            .map(|participant| {
                readers_only &= file_name(&participant.path).contains("-__READ__");
                let role = Role::of(replace(&mut is_first, false) || readers_only);
                Listed { participant, role }
            })
            .collect())
    }
}

/// Lists the permits of a semaphore. The first waiter has created the nodes of its permits, too.
async fn permits(client: &Client, path: &str) -> Result<Vec<Listed>, LockError> {
    // Read before the permits: those of a contender that has left the queue since are not held for sure.
    let turns = Mutex::new(client, &child(path, "locks"))?.participants().await?;
    // The number of permits does not affect the list of their holders.
    let permits = Semaphore::new(client, path, 1)?.participants().await?;
    let waits = |permit: &Participant| turns.first().is_some_and(|turn| is_of_waiter(permit, turn));
    let label = |participant| Listed { role: Role::of(!waits(&participant)), participant };
    Ok(permits.into_iter().map(label).collect())
}

/// Returns true if a permit belongs to the waiter with this turn: it creates the nodes of its permits
/// during its turn, and ends the turn when it holds them.
fn is_of_waiter(permit: &Participant, turn: &Participant) -> bool {
    permit.session_id == turn.session_id && permit.czxid > turn.czxid
}

/// Lists the contenders of a mutex or a read-write lock, or the candidates of an election. The names
/// of the nodes show which one it is.
async fn contenders(client: &Client, path: &str) -> Result<Vec<Participant>, LockError> {
    let contenders = Mutex::new(client, path)?.participants().await?;
    let has_any = |names: &[&str]| {
        contenders
            .iter()
            .any(|contender| names.iter().any(|name| file_name(&contender.path).contains(name)))
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
async fn print_why_empty(
    Session { retry, output, .. }: &Session,
    path: &str,
    is_semaphore: bool,
) -> Result<(), Failure> {
    let nobody = "nobody holds a lock there, or waits for one";
    let names = match retry.get_children(path).await {
        Err(error) if error.is_no_node() => {
            // Servers remove the path of a lock that nobody uses, so this is no error.
            output.note(&format!("{path} does not exist: {nobody}"));
            return Ok(());
        }
        listed => listed?.names,
    };
    let has = |wanted: &str| names.names().any(|name| name.contains(wanted));
    output.note(&if !is_semaphore && has("leases") {
        format!("{path} is a semaphore; see --semaphore")
    } else if is_semaphore && !has("leases") && !names.is_empty() {
        format!("{path} is not a semaphore")
    } else if names.is_empty() || is_semaphore {
        format!("{path} has no contenders: {nobody}")
    } else {
        format!("{path} is not a lock: the nodes below it are no contenders")
    });
    Ok(())
}

/// Prints a table on a terminal or if `wanted`, otherwise a line for each participant.
fn print(participants: &[Listed], wanted: &Participants, output: Output) -> Result<(), Failure> {
    let has_states = wanted.table || output.is_json() || stdout().is_terminal();
    let lines = if has_states {
        table(participants, now(), usize::MAX)
    } else {
        participants.iter().map(line).collect()
    };
    output.print(lines, || participants.iter().map(to_json).collect())?;
    let waiting = participants.iter().filter(|participant| participant.role == Role::Waits).count();
    // The lines have no room for it. In the queue of another lock, only the first ones hold it.
    if wanted.semaphore && waiting > 0 && !has_states {
        output.note(&format!(
            "{waiting} of these permits are not held: the first waiter waits for them"
        ));
    }
    Ok(())
}

fn line(Listed { participant, .. }: &Listed) -> String {
    format!("{}\t{}", participant.path, data_text(&participant.data))
}

fn to_json(Listed { participant, role }: &Listed) -> Value {
    let info = participant.info();
    let info = info.as_ref();
    json!({
        "path": participant.path,
        "state": role.name(),
        "data": data_json(&participant.data),
        "name": info.and_then(|info| info.name.as_deref()),
        "host": info.and_then(|info| info.host.as_deref()),
        "pid": info.and_then(|info| info.process_id),
        "address": info.map(|info| info.address.to_string()),
        "sequence": participant.sequence,
        "session": participant.session_id.to_string(),
        "token": participant.czxid.0,
        "created_ms": u64::try_from(since_epoch(participant.created).as_millis()).ok(),
    })
}

/// Returns the table with its head. Without participants there is nothing to print. The columns that
/// matter least are left out of a table that is wider than `width`.
pub(crate) fn table(participants: &[Listed], now: SystemTime, width: usize) -> Vec<String> {
    if participants.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(participants.iter().enumerate().map(|(at, listed)| row(at, listed, now)));
    fitted(&mut rows, &LEFT_OUT, width)
}

const COLUMNS: usize = 9;
const HEAD: [&str; COLUMNS] =
    ["#", "STATE", "NAME", "HOST", "PID", "ADDRESS", "QUEUED", "SESSION", "NODE"];

/// Columns that a narrow table leaves out, in this order: the node is what other commands take.
const LEFT_OUT: [usize; 5] = [5, 7, 4, 3, 1];

fn row(at: usize, Listed { participant, role }: &Listed, now: SystemTime) -> [String; COLUMNS] {
    let age = now.duration_since(participant.created).unwrap_or_default();
    let session = participant.session_id.to_string();
    let (number, state) = ((at + 1).to_string(), role.name().to_owned());
    let (since, node) = (span(age), printable(&participant.path));
    let Some(info) = participant.info() else {
        // Data of the application's own.
        let none = String::new;
        let data = data_text(&participant.data);
        return [number, state, data, none(), none(), none(), since, session, node];
    };
    let shown = |text: Option<String>| data_text(text.unwrap_or_default().as_bytes());
    [
        number,
        state,
        shown(info.name),
        shown(info.host),
        info.process_id.map(|id| id.to_string()).unwrap_or_default(),
        info.address.to_string(),
        since,
        session,
        node,
    ]
}

pub(crate) fn age(participant: &Participant) -> Duration {
    now().duration_since(participant.created).unwrap_or_default()
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
    use crate::output::aligned;

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
