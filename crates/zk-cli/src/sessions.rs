//! The sessions of a command, of which the next may be opened when one has ended, and how long
//! an ensemble may be silent.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use zk_recipes::session::{Client, Config, Error, Retry, RetryPolicy};

use crate::failure::Failure;

/// How long a session may take to come about when the command may take longer.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the first session may take to come about while all servers refuse connections: an address
/// that was mistyped is the usual reason.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the end of a session may take when nobody is to be made to wait for it.
const GOODBYE: Duration = Duration::from_millis(500);

/// An ensemble may be silent for twice the session timeout, but for no less than this: a
/// client has to notice that a server is silent, and to go around to the others.
const PATIENCE_MIN: Duration = Duration::from_secs(10);

/// Nor for longer than this, whatever servers take for a session timeout.
const PATIENCE_MAX: Duration = Duration::from_secs(120);

/// How short a silence proves nothing: a command that has no more time than this was too
/// short of it to be told anything.
const SILENCE_MIN: Duration = Duration::from_secs(1);

/// The first pause before another session when one has ended early. It doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest such pause. A session that lasted longer was not a short one.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The first pause before a request is made again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The sessions of a command, one after the other.
pub(crate) struct Sessions {
    config: Config,
    /// The connect string, for messages.
    servers: String,
    current: Option<Open>,
    /// Since when there are sessions of which none was answered.
    fruitless_since: Option<Instant>,
    /// A request was answered, be it in an earlier session.
    answered: bool,
    pause: Duration,
    /// How long the first session is waited for while all servers refuse connections.
    refused_timeout: Duration,
}

struct Open {
    client: Client,
    at: Instant,
    answered: bool,
}

impl Sessions {
    pub(crate) fn new(config: Config, servers: &str) -> Self {
        Self {
            config,
            servers: servers.to_owned(),
            current: None,
            fruitless_since: None,
            answered: false,
            pause: PAUSE_MIN,
            refused_timeout: REFUSED_TIMEOUT,
        }
    }

    /// Waits for servers that refuse connections as long as for others: they may be restarting, and
    /// this command is there to wait.
    pub(crate) fn wait_for_servers(&mut self) {
        self.refused_timeout = CONNECT_TIMEOUT;
    }

    /// Opens the next session. It is waited for until `deadline` and no longer than
    /// [`CONNECT_TIMEOUT`]; the first one no longer than [`REFUSED_TIMEOUT`] while all servers refuse
    /// connections, unless the command [waits for them](Self::wait_for_servers). When the last one
    /// has ended early there is a pause before.
    pub(crate) async fn open(&mut self, deadline: Option<Instant>) -> Result<Client, Error> {
        let left = || deadline.map_or(CONNECT_TIMEOUT, |end| end - clock()).min(CONNECT_TIMEOUT);
        let pause = self.next_pause();
        if !pause.is_zero() {
            sleep(pause.min(left())).await;
        }
        let mut config = self.config.clone().connect_timeout(left());
        if !self.were_there() {
            config = config.refused_timeout(self.refused_timeout);
        }
        let client = config.connect().await?;
        // A single request that is not answered is given up on by those who wait for it,
        // though others be answered: what can be asked again is.
        let client = client.within(patience(&client));
        let at = clock();
        self.fruitless_since.get_or_insert(at);
        self.current = Some(Open { client: client.clone(), at, answered: false });
        Ok(client)
    }

    /// Does the work for as long as the ensemble answers.
    pub(crate) async fn attend<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.silence() => Err(self.silent()),
        }
    }

    /// Requests that are made again, within bounds, as far as that cannot do them twice.
    pub(crate) fn retry(client: &Client) -> Retry {
        let policy = RetryPolicy::exponential(RETRY_PAUSE, PAUSE_MAX);
        client.retry(policy.within(patience(client)))
    }

    /// The current session was of use.
    pub(crate) fn was_answered(&mut self) {
        self.answered = true;
        if let Some(open) = &mut self.current {
            open.answered = true;
        }
    }

    /// Tells whether another session is worth having when the current one has ended: if that
    /// one was of use, or if there were useless ones for no longer than a silence may last.
    pub(crate) fn may_go_on(&mut self) -> bool {
        self.listen();
        let Some(open) = &self.current else { return true };
        if open.answered {
            self.fruitless_since = None;
        }
        self.fruitless_since.is_none_or(|since| clock() - since < patience(&open.client))
    }

    /// Tells whether there was a session at all.
    pub(crate) fn were_there(&self) -> bool {
        self.answered || self.fruitless_since.is_some()
    }

    /// Tells whether the ensemble has been of use, or had no time to be.
    pub(crate) fn were_of_use(&mut self) -> bool {
        self.listen();
        let silent_for = self.fruitless_since.map(|since| clock() - since);
        self.answered || silent_for.is_none_or(|silent_for| silent_for < SILENCE_MIN)
    }

    /// That there are sessions, and nothing else.
    pub(crate) fn silent(&self) -> Failure {
        Failure::silent(&self.servers)
    }

    /// Ends the current session. Nobody is made to wait for servers that do not answer.
    pub(crate) async fn close(&mut self) {
        if let Some(open) = self.current.take() {
            drop(timeout(GOODBYE, open.client.close()).await);
        }
    }

    /// Waits until the leader has answered nothing for as long as a silence may last. Meanwhile
    /// this sends it a `sync` every now and then, which servers do not log.
    async fn silence(&mut self) {
        let Some(client) = self.current.as_ref().map(|open| open.client.clone()) else { return };
        let patience = patience(&client);
        let pause = (client.session_timeout() / 4).clamp(LOOK_MIN, LOOK_MAX);
        let mut heard = clock();
        while clock() - heard < patience {
            sleep(pause).await;
            // What was answered before this began shows in the lease.
            if self.listen() || client.within(pause).sync("/").await.is_ok() {
                self.was_answered();
                heard = clock();
            }
        }
    }

    /// Tells whether a quorum has answered of late.
    fn listen(&mut self) -> bool {
        let is_heard =
            self.current.as_ref().is_some_and(|it| it.client.stats().lease_left.is_some());
        if is_heard {
            self.was_answered();
        }
        is_heard
    }

    /// None before the first session, and after one that lasted.
    fn next_pause(&mut self) -> Duration {
        let lasted = self.current.take().map(|open| clock() - open.at);
        if lasted.is_none_or(|lasted| lasted > PAUSE_MAX) {
            self.pause = PAUSE_MIN;
            return Duration::ZERO;
        }
        let pause = shortened(self.pause);
        self.pause = (2 * self.pause).min(PAUSE_MAX);
        pause
    }
}

const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_secs(1);

/// How long no request may be answered.
fn patience(client: &Client) -> Duration {
    (2 * client.session_timeout()).clamp(PATIENCE_MIN, PATIENCE_MAX)
}

/// By up to half, so that those who have failed together do not come back together.
fn shortened(pause: Duration) -> Duration {
    // The standard library draws the keys of its hash maps for each process.
    let drawn = RandomState::new().hash_one(std::process::id());
    let part = u32::try_from(drawn % 512).unwrap_or(0);
    pause - pause * part / 1024
}

#[allow(clippy::disallowed_methods, reason = "deadlines over several sessions")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}
