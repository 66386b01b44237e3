//! `zk top`: the locks below a path, live.
//!
//! * [`survey`] reads the locks from the ensemble.
//! * [`view`] lays them out.
//! * [`terminal`] shows them, and reads keys.

mod survey;
mod terminal;
mod view;

use std::io::{IsTerminal, stdin, stdout};
use std::pin::pin;
use std::time::{Duration, Instant, SystemTime};

use clap::Args as ClapArgs;
use serde_json::{Value, json};
use zk_recipes::session::Client;

use self::survey::{LockRow, Survey};
use self::terminal::{Key, Terminal};
use crate::failure::Failure;
use crate::output::Output;
use crate::participants::{self, Listed};
use crate::sessions::Sessions;
use crate::signals::Signals;
use crate::time_arg::positive_seconds;

/// The `top` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A line shows the lock, its kind, the name, host and process of the first in line, since when it is in
the queue, the number of waiters, how long the first of them waits, and the hand-offs a second. Times
run from the clock of the ensemble to that of this machine. On a terminal, the arrow keys select a
lock, enter shows its queue, esc goes back, and q quits. Elsewhere the table is printed once, or N
times.

Locks whose nodes have other names than Curator's do not appear. Each look lists every node below the
path, and reads two nodes of each lock, and those of the permits that the first waiter of a semaphore
waits for: on a large tree give a path near the locks. On a narrow terminal the queue leaves out
columns, so that it shows the nodes.

Examples:
  zk top /locks
  zk top /locks --count 2 --interval 0.5 --json")]
pub(crate) struct Top {
    /// The path below which locks are looked for.
    #[arg(default_value = "/")]
    pub(crate) path: String,

    /// Time between two looks.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = positive_seconds)]
    pub(crate) interval: Duration,

    /// Print so many tables, without a screen.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) count: Option<u32>,
}

pub(crate) async fn run(mut sessions: Sessions, top: &Top, output: Output) -> Result<u8, Failure> {
    let mut signals = Signals::new()?;
    let is_screen =
        !output.is_json() && top.count.is_none() && stdin().is_terminal() && stdout().is_terminal();
    let result = tokio::select! {
        result = async {
            match is_screen {
                true => watch(&mut sessions, top).await,
                false => print(&mut sessions, top, output).await,
            }
        } => result,
        _ = signals.next() => Ok(()), // the usual end of this command
    };
    sessions.close().await;
    result.map(|()| 0)
}

/// Prints tables, one after the other.
async fn print(sessions: &mut Sessions, top: &Top, output: Output) -> Result<(), Failure> {
    let mut survey = Survey::default();
    for number in 0..top.count.unwrap_or(1) {
        if number > 0 {
            tokio::time::sleep(top.interval).await;
        }
        let rows = look(sessions, &mut survey, &top.path).await?;
        output.print(view::table(&rows), || rows.iter().map(to_json).collect())?;
    }
    Ok(())
}

fn to_json(row: &LockRow) -> Value {
    json!({
        "path": row.path,
        "kind": row.kind.name(),
        "holder": row.holder,
        "since_s": row.since.map(|time| time.as_secs()),
        "waiters": row.waiters,
        "longest_wait_s": row.longest_wait.map(|time| time.as_secs()),
        "handoffs_per_s": row.handoffs,
    })
}

/// What the screen shows.
enum Page {
    Locks,
    Queue(Queue),
}

/// The contenders of one lock.
struct Queue {
    path: String,
    is_semaphore: bool,
    /// The table, or why it cannot be read; empty before the first read.
    lines: Vec<String>,
}

/// Shows the locks until the user quits.
async fn watch(sessions: &mut Sessions, top: &Top) -> Result<(), Failure> {
    let mut survey = Survey::default();
    // A failure to connect is told on the usual screen.
    let mut rows = look(sessions, &mut survey, &top.path).await?;
    let mut terminal = Terminal::open()?;
    let (mut page, mut selected) = (Page::Locks, 0_usize);
    let mut due = after(top.interval);
    // A key that was pressed during a look.
    let mut early = None;
    loop {
        selected = selected.min(rows.len().saturating_sub(1));
        Terminal::show(&lines(&page, top, &rows, selected));
        let next = match early.take() {
            Some(key) => Some(key),
            None => tokio::select! {
                () = tokio::time::sleep_until(due) => None,
                key = terminal.key() => Some(key),
            },
        };
        match (next, &mut page) {
            (None, Page::Locks) => {
                let looking = look(sessions, &mut survey, &top.path);
                let keys = [Key::Quit];
                if let Some(seen) = unless_key(&mut terminal, &mut early, &keys, looking).await {
                    rows = seen?;
                }
                due = after(top.interval);
            }
            (None, Page::Queue(queue)) => {
                let reading = read_queue(sessions, &queue.path, queue.is_semaphore);
                let keys = [Key::Quit, Key::Back];
                if let Some(lines) = unless_key(&mut terminal, &mut early, &keys, reading).await {
                    queue.lines = lines?;
                }
                due = after(top.interval);
            }
            (Some(Key::Quit), _) => return Ok(()),
            (Some(Key::Up), _) => selected = selected.saturating_sub(1),
            (Some(Key::Down), _) => selected += 1,
            (Some(Key::Enter), Page::Locks) => {
                if let Some(row) = rows.get(selected) {
                    let is_semaphore = row.kind == survey::LockKind::Semaphore;
                    let (path, lines) = (row.path.clone(), Vec::new());
                    page = Page::Queue(Queue { path, is_semaphore, lines });
                    due = after(Duration::ZERO);
                }
            }
            (Some(Key::Back), Page::Queue(_)) => page = Page::Locks,
            _ => {}
        }
    }
}

/// Returns the lines of the screen.
fn lines(page: &Page, top: &Top, rows: &[LockRow], selected: usize) -> Vec<String> {
    match page {
        Page::Locks => {
            let count = rows.len();
            let title = format!("zk top {}: {count} locks, every {:?}", top.path, top.interval);
            let help = "up, down: select    enter: its queue    q: quit";
            let at = (!rows.is_empty()).then_some(selected);
            view::fit(&title, &view::table(rows), at, help, Terminal::size())
        }
        Page::Queue(queue) => {
            let help = "esc: back    q: quit";
            view::fit(&queue.path, &queue.lines, None, help, Terminal::size())
        }
    }
}

/// Does `work` unless the user presses one of `keys` meanwhile. The last key that was pressed
/// becomes `early`.
async fn unless_key<W: Future>(
    terminal: &mut Terminal,
    early: &mut Option<Key>,
    keys: &[Key],
    work: W,
) -> Option<W::Output> {
    let mut work = pin!(work);
    let mut late = pin!(tokio::time::sleep(LATE));
    let mut is_late = false;
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            () = &mut late, if !is_late => {
                is_late = true;
                Terminal::tell("the servers do not answer; what is shown is old    q: quit");
            }
            key = terminal.key() => {
                *early = Some(key);
                if keys.contains(&key) {
                    return None;
                }
            }
        }
    }
}

/// Lists the locks, in another session if need be.
async fn look(
    sessions: &mut Sessions,
    survey: &mut Survey,
    path: &str,
) -> Result<Vec<LockRow>, Failure> {
    let work = async |client: &Client| {
        let retry = Sessions::retry(client);
        Ok(survey.look(client, &retry, path, now()).await?)
    };
    sessions.run(work).await
}

/// Returns the queue of a lock as a table, or a line that says why the servers refuse to show it.
async fn read_queue(
    sessions: &mut Sessions,
    path: &str,
    is_semaphore: bool,
) -> Result<Vec<String>, Failure> {
    let work = async |client: &Client| Ok(participants::list(client, path, is_semaphore).await?);
    match sessions.run(work).await {
        Ok(mut listed) => {
            // The title has the path of the lock.
            let below = format!("{}/", path.trim_end_matches('/'));
            for Listed { participant: it, .. } in &mut listed {
                it.path = it.path.strip_prefix(&below).unwrap_or(&it.path).to_owned();
            }
            Ok(participants::table(&listed, now().1, Terminal::size().0))
        }
        Err(failure) if failure.is_rejection() => Ok(vec![failure.to_string()]),
        Err(failure) => Err(failure),
    }
}

#[allow(clippy::disallowed_methods, reason = "the refresh of a screen that people watch")]
fn now() -> (Instant, SystemTime) {
    (Instant::now(), SystemTime::now())
}

/// Time after which the user is told that an answer is late.
const LATE: Duration = Duration::from_secs(2);

/// Returns when the next look is due.
fn after(interval: Duration) -> tokio::time::Instant {
    tokio::time::Instant::from_std(now().0) + interval
}
