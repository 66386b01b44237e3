//! The process of a contender: a separate session, commands on standard input, events on standard
//! output.
//!
//! | command | what it does |
//! |---|---|
//! | `acquire LOCK` | acquires the lock and holds it until `release`, or until it is lost |
//! | `check` | calls `check()` of the guard |
//! | `release` | releases the guard |
//! | `roam SEED LOCK...` | acquires locks at random and holds each for a random time |
//!
//! The process closes its session and ends with its standard input.

use std::future::{Future, pending};
use std::io::Write as _;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin};
use tokio::time::{MissedTickBehavior, interval};
use zk_recipes::session::{Client, Config};
use zk_recipes::{BoxFuture, FencingToken, LockError, LockGuard};
use zk_testing::Rng;

use super::event::{Access, Event, What};
use crate::lock_spec::{Kind, LockSpec};
use crate::monotonic_us;

/// Runs the process of a contender: `NUMBER CONNECT_STRING TIMEOUT_MS [FIRST_SERVER]`.
///
/// # Errors
/// The arguments are invalid, or no session can be opened.
pub async fn run(arguments: &[String]) -> Result<(), String> {
    let [number, connect_string, timeout_ms, first @ ..] = arguments else {
        return Err("contender NUMBER CONNECT_STRING TIMEOUT_MS [FIRST_SERVER]".to_owned());
    };
    let number = number.parse().map_err(|_| format!("`{number}` is no number"))?;
    let timeout = timeout_ms.parse().map_err(|_| format!("`{timeout_ms}` is no number"))?;
    let config = Config::new(connect_string).map_err(|error| error.to_string())?;
    let config = config.session_timeout(Duration::from_millis(timeout));
    let mut contender = Contender {
        client: connect(&config, first.first()).await?,
        config,
        number,
        commands: BufReader::new(stdin()).lines(),
    };
    contender.note(format!(
        "{CONNECTED} session {} timeout {} ms",
        contender.client.session_id(),
        contender.client.session_timeout().as_millis()
    ));
    contender.serve().await?;
    contender.client.close().await;
    Ok(())
}

/// Opens sessions until one begins at the requested server.
async fn connect(config: &Config, first: Option<&String>) -> Result<Client, String> {
    for _ in 0..DRAWS {
        let config = config.clone().connect_timeout(CONNECT_LIMIT);
        let client = config.connect().await.map_err(|error| error.to_string())?;
        let server = client.stats().connected_to.map(|server| server.to_string());
        if first.is_none() || first == server.as_ref() {
            return Ok(client);
        }
        client.close().await;
    }
    Err(format!("{DRAWS} sessions, and none at {first:?}"))
}

struct Contender {
    number: u32,
    config: Config,
    client: Client,
    commands: Lines<BufReader<Stdin>>,
}

/// End of a hold.
enum End {
    Lost,
    Release,
    /// Standard input has ended.
    Closed,
}

impl Contender {
    async fn serve(&mut self) -> Result<(), String> {
        while let Some(line) = self.commands.next_line().await.map_err(|error| error.to_string())? {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["acquire", lock] => {
                    self.hold(&lock.parse()?, pending()).await;
                }
                ["roam", seed, ref locks @ ..] => {
                    let locks: Result<Vec<LockSpec>, _> =
                        locks.iter().map(|lock| lock.parse()).collect();
                    let seed = seed.parse().map_err(|_| format!("`{seed}` is no number"))?;
                    return self.roam(Rng::new(seed), &locks?).await;
                }
                // The guard may have been lost in the meantime.
                ["check" | "release"] => self.note(format!("{line}: holds nothing")),
                _ => return Err(format!("there is no command `{line}`")),
            }
        }
        Ok(())
    }

    /// Acquires locks until standard input ends; opens another session when one has ended.
    async fn roam(&mut self, mut random: Rng, locks: &[LockSpec]) -> Result<(), String> {
        loop {
            let lock = locks[random.index(locks.len())].clone();
            let hold = Duration::from_millis(random.below(HOLD_MAX_MS));
            // reason: the run varies the time for which a lock is held.
            let (End::Lost | End::Release) = self.hold(&lock, tokio::time::sleep(hold)).await
            else {
                return Ok(());
            };
            while let Some(end) = self.client.end_reason() {
                self.note(format!("session ended: {end}"));
                match connect(&self.config, None).await {
                    Ok(client) => self.client = client,
                    Err(error) => self.note(error),
                }
            }
        }
    }

    /// Acquires a lock and holds it until `enough` is ready, a command ends it, or it is lost.
    async fn hold(&mut self, lock: &LockSpec, enough: impl Future<Output = ()>) -> End {
        self.emit(lock, What::Note("acquiring".to_owned()));
        let client = self.client.clone();
        let acquired = tokio::select! {
            acquired = lock.acquire(&client) => acquired,
            () = closed(&mut self.commands) => return End::Closed,
        };
        let at_us = monotonic_us();
        let guard = match acquired {
            Ok(guard) => guard,
            Err(error) => {
                self.emit(lock, What::Note(format!("not acquired: {error}")));
                return End::Lost;
            }
        };
        // A guard that is already lost was never valid for its holder.
        let Some(token) = guard.tokens().ok().and_then(|tokens| tokens.last().copied()) else {
            self.emit(lock, What::Note("lost before it was returned".to_owned()));
            return End::Lost;
        };
        let what = What::Granted { access: access(lock.kind), token: token.czxid() };
        print(&Event { at_us, ..self.event(lock, what) });
        let end = self.watch_over(lock, &*guard, enough).await;
        if matches!(end, End::Release | End::Closed) {
            self.emit(lock, What::Releasing);
            let released = guard.release_boxed().await;
            self.emit(lock, What::Note(format!("released: {released:?}")));
        }
        end
    }

    /// Samples the tokens until the guard is lost, or `enough` is ready, or a command ends it.
    async fn watch_over(
        &mut self,
        lock: &LockSpec,
        guard: &dyn LockGuard,
        enough: impl Future<Output = ()>,
    ) -> End {
        let mut samples = interval(SAMPLE_INTERVAL);
        samples.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut lost = guard.lost_boxed();
        let mut enough = std::pin::pin!(enough);
        let mut checking: Option<BoxFuture<'_, Result<Vec<FencingToken>, LockError>>> = None;
        let mut valid = ValidUntil { printed_us: 0, sampled_us: 0 };
        loop {
            let checked = async {
                match &mut checking {
                    Some(check) => check.await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                reason = &mut lost => {
                    self.print_valid(lock, &mut valid);
                    self.emit(lock, What::Lost { reason: reason.to_string() });
                    valid.sample(guard);
                    self.print_valid(lock, &mut valid);
                    return End::Lost;
                }
                _ = samples.tick() => {
                    if !valid.sample(guard) || valid.is_due() {
                        self.print_valid(lock, &mut valid);
                    }
                }
                result = checked => {
                    checking = None;
                    let word = result.map_or_else(|error| error.to_string(), |_| "ok".to_owned());
                    self.emit(lock, What::Note(format!("{CHECKED} {word}")));
                }
                line = self.commands.next_line() => {
                    valid.sample(guard);
                    self.print_valid(lock, &mut valid);
                    match line {
                        Ok(Some(line)) if line == "check" => checking = Some(guard.check_boxed()),
                        Ok(Some(line)) if line == "release" => return End::Release,
                        Ok(Some(line)) => self.note(format!("a lock is held: {line}")),
                        Ok(None) | Err(_) => return End::Closed,
                    }
                }
                () = &mut enough => {
                    valid.sample(guard);
                    self.print_valid(lock, &mut valid);
                    return End::Release;
                }
            }
        }
    }

    fn print_valid(&self, lock: &LockSpec, valid: &mut ValidUntil) {
        if valid.sampled_us > valid.printed_us {
            valid.printed_us = valid.sampled_us;
            print(&Event { at_us: valid.sampled_us, ..self.event(lock, What::Valid) });
        }
    }

    fn note(&self, text: String) {
        print(&Event::note(monotonic_us(), self.number, text));
    }

    fn emit(&self, lock: &LockSpec, what: What) {
        print(&self.event(lock, what));
    }

    fn event(&self, lock: &LockSpec, what: What) -> Event {
        let lock = lock.path.clone();
        Event { at_us: monotonic_us(), contender: self.number, lock, what }
    }
}

/// The last time that `tokens()` was `Ok`.
struct ValidUntil {
    sampled_us: u64,
    printed_us: u64,
}

impl ValidUntil {
    /// Samples the tokens of the guard. The clock is read first: a pause of the process between the
    /// two calls must not extend the time for which the guard counts as valid.
    fn sample(&mut self, guard: &dyn LockGuard) -> bool {
        let before_us = monotonic_us();
        let is_valid = guard.tokens().is_ok();
        if is_valid {
            self.sampled_us = before_us;
        }
        is_valid
    }

    fn is_due(&self) -> bool {
        self.sampled_us > self.printed_us + PRINT_INTERVAL_US
    }
}

fn access(kind: Kind) -> Access {
    match kind {
        Kind::Mutex | Kind::Write | Kind::SemaphoreMutex => Access::Exclusive,
        Kind::Read => Access::Shared,
        Kind::Semaphore { taken, of } => Access::Permits { taken, of },
    }
}

/// Waits for the end of standard input.
async fn closed(commands: &mut Lines<BufReader<Stdin>>) {
    while let Ok(Some(_)) = commands.next_line().await {}
}

fn print(event: &Event) {
    // The write fails if no process reads the pipe any longer.
    let _ = writeln!(std::io::stdout(), "{event}");
}

/// Start of the note about a new session.
pub(super) const CONNECTED: &str = "connected";
/// Start of the note about a finished `check()`.
pub(super) const CHECKED: &str = "checked";

const SAMPLE_INTERVAL: Duration = Duration::from_millis(1);
/// Precision of the end of a guard in the history, if its process is killed.
const PRINT_INTERVAL_US: u64 = 20_000;
const HOLD_MAX_MS: u64 = 300;
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// All of these sessions miss one of three servers once in 10^11 runs.
const DRAWS: usize = 64;
