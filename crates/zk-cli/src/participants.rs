//! The holder of a lock and its waiters: `zk participants`, and what a command that waits says about them.

use std::collections::HashSet;
use std::future::pending;
use std::io::{IsTerminal, stdout};
use std::mem::replace;
use std::time::UNIX_EPOCH;

use tokio::time::{sleep, timeout_at};
use zk_recipes::session::path::{child, file_name};
use zk_recipes::session::{Client, SessionId};
use zk_recipes::{ContenderInfo, LockError, Mutex, Participant, RwLock, Semaphore};

use crate::lock_args::Task;
use crate::output::{data_json, fitted};
use crate::prelude::{ClapArgs, Duration, Output, Result, Session, Value, clock, data_text, json};
use crate::sessions::wall_clock;
use crate::text::printable;

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

pub(crate) async fn run(session: &Session, wanted: &Participants) -> Result<()> {
    let listing = list(&session.client, &wanted.path, wanted.semaphore);
    let listed = session.run_connected(listing).await??;
    if listed.is_empty() {
        print_why_empty(session, &wanted.path, wanted.semaphore).await?;
    }
    print(&listed, wanted, session.output)
}

/// A contender, and whether it holds the lock or waits for it.
pub(crate) struct Listed {
    pub(crate) participant: Participant,
    pub(crate) holds: bool,
}

impl Listed {
    fn state(&self) -> &'static str {
        if self.holds { "holds" } else { "waits" }
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
                Listed { participant, holds: replace(&mut is_first, false) || readers_only }
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
    let label = |participant| Listed { holds: !waits(&participant), participant };
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
) -> Result<()> {
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
fn print(participants: &[Listed], wanted: &Participants, output: Output) -> Result<()> {
    let has_states = wanted.table || output.is_json || stdout().is_terminal();
    let lines = if has_states {
        table(participants, usize::MAX)
    } else {
        participants.iter().map(line).collect()
    };
    output.print(lines, || participants.iter().map(to_json).collect())?;
    let waiting = participants.iter().filter(|listed| !listed.holds).count();
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

fn to_json(listed: &Listed) -> Value {
    let participant = &listed.participant;
    let info = participant.info();
    let info = info.as_ref();
    let created = participant.created.duration_since(UNIX_EPOCH).unwrap_or_default();
    json!({
        "path": participant.path,
        "state": listed.state(),
        "data": data_json(&participant.data),
        "name": info.and_then(|info| info.name.as_deref()),
        "host": info.and_then(|info| info.host.as_deref()),
        "pid": info.and_then(|info| info.process_id),
        "address": info.map(|info| info.address.to_string()),
        "sequence": participant.sequence,
        "session": participant.session_id.to_string(),
        "token": participant.czxid.0,
        "created_ms": u64::try_from(created.as_millis()).ok(),
    })
}

/// Returns the table with its head. Without participants there is nothing to print. The columns that
/// matter least are left out of a table that is wider than `width`.
pub(crate) fn table(participants: &[Listed], width: usize) -> Vec<String> {
    if participants.is_empty() {
        return Vec::new();
    }
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(participants.iter().enumerate().map(|(at, listed)| row(at, listed)));
    fitted(&mut rows, &LEFT_OUT, width)
}

const COLUMNS: usize = 9;
const HEAD: [&str; COLUMNS] =
    ["#", "STATE", "NAME", "HOST", "PID", "ADDRESS", "QUEUED", "SESSION", "NODE"];

/// Columns that a narrow table leaves out, in this order: the node is what other commands take.
const LEFT_OUT: [usize; 5] = [5, 7, 4, 3, 1];

fn row(at: usize, listed: &Listed) -> [String; COLUMNS] {
    let participant = &listed.participant;
    let shown = |text: Option<String>| data_text(text.unwrap_or_default().as_bytes());
    let [name, host, pid, address] = match participant.info() {
        Some(info) => {
            let pid = info.process_id.map(|id| id.to_string()).unwrap_or_default();
            [shown(info.name), shown(info.host), pid, info.address.to_string()]
        }
        // Data of the application's own.
        None => [data_text(&participant.data), String::new(), String::new(), String::new()],
    };
    let (number, state) = ((at + 1).to_string(), listed.state().to_owned());
    let (since, session) = (span(age(participant)), participant.session_id.to_string());
    [number, state, name, host, pid, address, since, session, printable(&participant.path)]
}

pub(crate) fn age(participant: &Participant) -> Duration {
    wall_clock().duration_since(participant.created).unwrap_or_default()
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

/// Returns the holders as text, as far as they can be read in a short time; empty if there are none.
pub(crate) async fn holders(client: &Client, task: &Task) -> String {
    let deadline = clock() + READ_LIMIT;
    let mut known = Vec::new();
    let is_one = task.only_path().is_some();
    for path in &task.paths {
        let reading = of_path(client, path, task.is_semaphore());
        let Ok(Some(of_path)) = timeout_at(deadline, reading).await else { break };
        let of_path = of_path.into_iter();
        known.extend(of_path.map(|who| if is_one { who } else { format!("{path} by {who}") }));
    }
    let more = known.len().saturating_sub(SHOWN_MAX);
    known.truncate(SHOWN_MAX);
    match (known.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("; held: {}", known.join(", ")),
        (false, more) => format!("; held: {}, and {more} more", known.join(", ")),
    }
}

/// Returns the holders of one lock, or `None` if they cannot be read, or if the queue is long.
async fn of_path(client: &Client, path: &str, is_semaphore: bool) -> Option<Vec<String>> {
    let queue = if is_semaphore { child(path, "locks") } else { path.to_owned() };
    let queued = client.exists(&queue).await.ok()?;
    if queued.is_some_and(|queue| usize::try_from(queue.num_children).unwrap_or(0) > QUEUE_MAX) {
        return None;
    }
    let listed = list(client, path, is_semaphore).await.ok()?;
    // The node of this command may not be deleted yet.
    let others =
        listed.iter().filter(|contender| contender.participant.session_id != client.session_id());
    let holders = others.filter(|contender| contender.holds);
    let described = holders.map(|holder| {
        let (who, session) = (who(&holder.participant.data), holder.participant.session_id);
        if session == SessionId::NONE {
            let node = printable(&holder.participant.path);
            return format!(
                "by no session: {node} is persistent and stays until zk delete removes it"
            );
        }
        let since = span(age(&holder.participant));
        format!("{who} (session {session}, queued {since} ago)")
    });
    Some(described.collect())
}

/// The longest time for reading the holders after a failed wait. The failure must not wait for
/// servers that do not answer.
const READ_LIMIT: Duration = Duration::from_millis(500);
/// The longest queue that is read for its holders. All waiters of a queue may give up at once, and each
/// one reads all nodes.
const QUEUE_MAX: usize = 50;
/// Number of holders in a message. A semaphore may have thousands.
const SHOWN_MAX: usize = 3;

/// Prints the holder of the lock from time to time, until the lock is acquired.
pub(crate) async fn print_waiting(session: &Session, task: &Task) {
    let (client, log) = (&session.client, &session.context.log);
    let begun = clock();
    let (mut pause, is_semaphore) = (FIRST_PAUSE, task.is_semaphore());
    // Several locks are acquired one after the other. The one that blocks is not known here.
    let (Some(log), Some(path)) = (log, task.only_path()) else { return pending().await };
    loop {
        sleep(pause).await;
        pause = (2 * pause).min(PAUSE_MAX);
        let Ok(listed) = list(client, path, is_semaphore).await else { continue };
        let Some(first) = listed.first() else { continue };
        let who = who(&first.participant.data);
        // A contender of a semaphore has a node for each of its permits.
        let sessions: HashSet<_> =
            listed.iter().map(|listed| listed.participant.session_id).collect();
        let count = if is_semaphore { sessions.len() } else { listed.len() };
        let waited = span(clock() - begun);
        let own = first.participant.session_id == client.session_id();
        // After a gap of the connection, or an election, the session must be proven to be alive.
        let who = if own { "its own lease is not proven yet; it".to_owned() } else { who };
        log.print(format!("waiting for {path} since {waited}: {who} is first of {count}"));
    }
}

/// Shorter waits print nothing.
const FIRST_PAUSE: Duration = Duration::from_secs(3);
const PAUSE_MAX: Duration = Duration::from_secs(60);

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
