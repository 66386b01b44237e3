//! `zk top`: the locks below a path, live.
//!
//! * [`survey`] reads the locks from the ensemble.
//! * [`list`] orders, filters and selects them.
//! * [`view`] lays them out.
//! * [`terminal`] shows them, and reads keys.

mod list;
mod survey;
mod terminal;
mod view;

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{IsTerminal, stdin, stdout};
use std::pin::pin;

use zk_recipes::Recipe;

use self::list::{LockList, Step, moved};
use self::survey::{LockRow, Survey, kind_name};
pub(crate) use self::terminal::restore_terminal;
use self::terminal::{Key, Terminal};
use crate::participants::{self, Listed};
use crate::prelude::{ClapArgs, Duration, Instant, Result, Session, Sessions, Value, clock, json};
use crate::signals::Signals;
use crate::text::printable;
use crate::time_arg::positive_seconds;

/// The `top` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
A line shows the lock, its kind, the name, host and process of the first in line, since when it is in \
the queue, the number of waiters, how long the first of them waits, and the hand-offs a second: the \
contenders that have left the queue since the last look. Times run from the clock of the ensemble to \
that of this machine. A lock that nobody uses stays until the server removes its node, \
about a minute later.

On a terminal, the arrow keys, PgUp, PgDn, Home and End select a lock, and enter shows its queue. The \
key s sorts by longest wait, waiters, hand-offs or path, and / begins a filter of paths. Esc goes back, \
and q quits. Elsewhere the table is printed once, or N times.

Locks whose nodes have other names than Curator's do not appear. Each look lists every node below the \
path, and reads two nodes of each lock, and those of the permits that the first waiter of a semaphore \
waits for: on a large tree give a path near the locks. On a narrow terminal, columns are left out.

Examples:
  zk top /locks
  zk top /locks --count 2 --interval 0.5 --json")]
pub(crate) struct Top {
    /// The path below which locks are looked for.
    #[arg(default_value = "/")]
    path: String,

    /// Time between two looks.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = positive_seconds)]
    interval: Duration,

    /// Print so many tables, without a screen.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
}

pub(crate) async fn run(mut sessions: Sessions, top: &Top) -> Result<u8> {
    let mut signals = Signals::new()?;
    let is_screen = !sessions.context.output.is_json
        && top.count.is_none()
        && stdin().is_terminal()
        && stdout().is_terminal();
    let has_begun = Cell::new(false);
    let begun = || has_begun.set(true);
    let shown = async {
        if is_screen {
            watch(&mut sessions, top, begun).await
        } else {
            print(&mut sessions, top, begun).await
        }
    };
    // After the first table, a signal is the usual end of this command.
    let result = match signals.unless_interrupted(shown).await {
        Err(_) if has_begun.get() => Ok(()),
        shown => shown.and_then(|shown| shown),
    };
    sessions.close().await;
    result.map(|()| 0)
}

/// Prints tables, one after the other. Calls `begun` when the first one is printed.
async fn print(sessions: &mut Sessions, top: &Top, begun: impl Fn()) -> Result<()> {
    let output = sessions.context.output;
    let mut survey = Survey::default();
    for number in 0..top.count.unwrap_or(1) {
        if number > 0 {
            tokio::time::sleep(top.interval).await;
        }
        let rows = survey.look(sessions, &top.path).await?;
        output.print(view::table(&rows, usize::MAX), || rows.iter().map(to_json).collect())?;
        begun();
    }
    Ok(())
}

fn to_json(row: &LockRow) -> Value {
    json!({
        "path": row.path,
        "kind": kind_name(row.kind),
        "holder": row.holder,
        "since_s": row.since.map(|time| time.as_secs()),
        "waiters": row.waiters,
        "longest_wait_s": row.longest_wait.map(|time| time.as_secs()),
        "handoffs_per_s": row.handoffs,
    })
}

/// The queue of one lock, on the screen.
struct QueuePage {
    path: String,
    is_semaphore: bool,
    /// The table, or why it cannot be read; empty before the first read.
    lines: Vec<String>,
    /// Rows above the screen.
    skipped: usize,
}

impl QueuePage {
    fn lines(&self) -> Vec<String> {
        let help = "esc: back    q: quit";
        let path = printable(&self.path);
        view::fit(&path, &self.lines, self.skipped, None, help, Terminal::size())
    }

    fn goes_back(key: Key) -> bool {
        matches!(key, Key::Escape | Key::Left | Key::Backspace | Key::Char('h'))
    }

    fn scroll(&mut self, key: Key, room: usize) {
        // The last page is full.
        let pages = self.lines.len().saturating_sub(room);
        self.skipped = moved(self.skipped, key, room, pages);
    }
}

/// Shows the locks until the user quits. Calls `begun` when the screen opens.
async fn watch(sessions: &mut Sessions, top: &Top, begun: impl Fn()) -> Result<()> {
    let (mut survey, mut list) = (Survey::default(), LockList::default());
    // A failure to connect is shown on the usual screen.
    list.refresh(survey.look(sessions, &top.path).await?);
    let mut terminal = Terminal::open()?;
    begun();
    let mut page: Option<QueuePage> = None;
    let title = format!("zk top {}", printable(&top.path));
    let mut due = after(top.interval);
    // Keys that were pressed during a look.
    let mut early = VecDeque::new();
    loop {
        let size = Terminal::size();
        Terminal::show(&match &page {
            Some(queue) => queue.lines(),
            None => list.lines(&title, size),
        });
        let next = match early.pop_front() {
            Some(key) => Some(key),
            None => tokio::select! {
                () = tokio::time::sleep_until(due) => None,
                key = terminal.key() => Some(key),
            },
        };
        match (next, &mut page) {
            (None, None) => {
                let looking = survey.look(sessions, &top.path);
                let ends = |key| list.quits(key);
                if let Some(seen) = unless_key(&mut terminal, &mut early, ends, looking).await {
                    list.refresh(seen?);
                }
                due = after(top.interval);
            }
            (None, Some(queue)) => {
                let reading = read_queue(sessions, &queue.path, queue.is_semaphore);
                let ends = |key| key == Key::Char('q') || QueuePage::goes_back(key);
                if let Some(lines) = unless_key(&mut terminal, &mut early, ends, reading).await {
                    queue.lines = lines?;
                }
                due = after(top.interval);
            }
            (Some(Key::Char('q' | 'Q')), Some(_)) => return Ok(()),
            (Some(key), Some(_)) if QueuePage::goes_back(key) => page = None,
            (Some(key), Some(queue)) => queue.scroll(key, view::room(size)),
            (Some(key), None) => match (list.handle_key(key, view::room(size)), list.selected()) {
                (Step::Quit, _) => return Ok(()),
                (Step::Open, Some(row)) => {
                    let is_semaphore = row.kind == Recipe::Semaphore;
                    let (path, lines) = (row.path.clone(), Vec::new());
                    page = Some(QueuePage { path, is_semaphore, lines, skipped: 0 });
                    due = after(Duration::ZERO);
                }
                _ => {}
            },
        }
    }
}

/// Does `work` unless the user presses a key that `ends` it. The keys that were pressed are added to
/// `early`.
async fn unless_key<W: Future>(
    terminal: &mut Terminal,
    early: &mut VecDeque<Key>,
    ends: impl Fn(Key) -> bool,
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
                Terminal::print_note("the servers do not answer; what is shown is old    q: quit");
            }
            key = terminal.key() => {
                early.push_back(key);
                if ends(key) {
                    return None;
                }
            }
        }
    }
}

/// Returns the queue of a lock as a table, or a line that says why the servers refuse to show it.
async fn read_queue(
    sessions: &mut Sessions,
    path: &str,
    is_semaphore: bool,
) -> Result<Vec<String>> {
    let work = async |session: &Session| {
        let listing = participants::list(&session.client, path, is_semaphore);
        Ok(session.run_connected(listing).await??)
    };
    match sessions.run(None, work).await {
        Ok(mut listed) => {
            // The title has the path of the lock.
            let below = format!("{}/", path.trim_end_matches('/'));
            for Listed { participant, .. } in &mut listed {
                let path = &mut participant.path;
                *path = path.strip_prefix(&below).unwrap_or(path).to_owned();
            }
            Ok(participants::table(&listed, Terminal::size().0))
        }
        Err(failure) if failure.is_rejection() => Ok(vec![failure.to_string()]),
        Err(failure) => Err(failure),
    }
}

/// Time after which the user is told that an answer is late.
const LATE: Duration = Duration::from_secs(2);

/// Returns when the next look is due.
fn after(interval: Duration) -> Instant {
    clock() + interval
}
