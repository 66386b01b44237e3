//! Sessions of a command, opened one after the other, and limits for an ensemble that does not
//! answer.

use std::cell::Cell;
use std::future::{Future, pending};
use std::pin::Pin;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use zk_recipes::session::{
    Client, Config, ConnectString, Retry, RetryPolicy, SessionId, SessionManager,
};

use crate::connector::ServerConnector;
use crate::failure::{Failure, NO_CHROOT, Result};
use crate::identity::Identity;
use crate::output::Output;
use crate::verbose_log::VerboseLog;

/// The longest time to open a session, unless --retry says more. The command as a whole may take
/// longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time to open the first session while all servers refuse connections. The usual
/// reason is a mistyped address.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(1);

/// A year: the time to open another session for a command that runs until somebody ends it.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The longest time to close a session when the user must not be made to wait.
const GOODBYE: Duration = Duration::from_millis(500);

/// The shortest limit of silence. An ensemble may be silent for twice the session timeout, but at
/// least this long: a client must notice that a server is silent, and try the others.
const IDLE_LIMIT_MIN: Duration = Duration::from_secs(10);

/// The longest limit of silence, for any session timeout of the servers.
const IDLE_LIMIT_MAX: Duration = Duration::from_secs(120);

/// The shortest silence that proves something. A command with less time than this may have had no
/// time to receive a reply.
const SILENCE_MIN: Duration = Duration::from_secs(1);

/// The first delay before another session, when one has ended early. It doubles each time.
const SESSION_PAUSE: Duration = Duration::from_millis(50);

/// The longest delay before another attempt to open a session or to send a request.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The first delay before a request is retried.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// How a command reaches the ensemble, and what it prints.
pub(crate) struct Context {
    /// The connect string.
    pub(crate) servers: String,
    pub(crate) identity: Identity,
    /// Whether a server is reached without TLS.
    pub(crate) is_in_the_clear: bool,
    pub(crate) output: Output,
    /// Where sessions and their events are printed.
    pub(crate) log: Option<VerboseLog>,
    pub(crate) contact: Contact,
}

/// What the ensemble has answered, over all sessions of a command.
#[derive(Default)]
pub(crate) struct Contact {
    /// Whether any request was answered.
    answered: Cell<bool>,
    /// When the present series of sessions without a reply began.
    fruitless_since: Cell<Option<Instant>>,
    /// Whether a silent ensemble, and another session after the first one, are awaited without a limit.
    keeps_trying: Cell<bool>,
}

/// A session of a command.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Retries requests within a time limit, unless they could be applied twice.
    pub(crate) retry: Retry,
    pub(crate) output: Output,
    pub(crate) context: Rc<Context>,
    /// When the command is to end, connecting included.
    pub(crate) deadline: Option<Instant>,
}

impl Session {
    /// Returns the same session, whose `retry` has no limit.
    pub(crate) fn endless(&self) -> Self {
        let retry = self.client.retry(RetryPolicy::exponential(RETRY_PAUSE, PAUSE_MAX));
        Self { retry, ..self.clone() }
    }

    /// Waits until the client has a session, which only a server with a majority grants (`--read-only`).
    ///
    /// A command that waits for others, for a lock or at a barrier, has no time limit of its own for
    /// that: the limit of silence is one of the connection. It fails when no server answers reads for so
    /// long, and after the deadline.
    pub(crate) async fn wait_for_majority(&self) -> Result<()> {
        tokio::select! {
            served = self.served() => served,
            () = until(self.deadline) => {
                let why = "no server with a majority in time; see zk doctor";
                Err(Failure::unreachable(&self.context.servers, why))
            }
        }
    }

    async fn served(&self) -> Result<()> {
        let client = &self.client;
        let mut events = client.events();
        if client.is_read_only() {
            let lost = "the server is read-only, for it has lost the majority";
            self.output.note(&format!("{lost}; waiting for a server with one"));
        }
        let mut heard = clock();
        // Any other end of the session fails the requests of the command.
        while client.session_id() == SessionId::NONE && client.end_reason().is_none() {
            drop(timeout(PROBE_INTERVAL, events.next()).await);
            match client.with_timeout(PROBE_INTERVAL).exists("/").await {
                Ok(_) => heard = clock(),
                Err(error) if error.code().is_some() => heard = clock(), // it may not read the root
                Err(_) if clock() - heard < idle_limit(client) => {}
                Err(_) => return Err(self.silent()),
            }
        }
        Ok(())
    }

    /// Prints what was done, for a command without a result of its own: nothing but with `--json`.
    pub(crate) fn print_done(&self, path: &str, what: &str) -> Result<()> {
        self.output.print([], || json!({ "path": path, "done": what }))
    }

    /// Runs `work`, and fails if the ensemble is silent for too long.
    pub(crate) async fn run_connected<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            failure = self.silence() => Err(failure),
        }
    }

    /// Waits until the leader has answered nothing for the limit of silence. Meanwhile it sends a
    /// `sync` from time to time, which servers do not log. All callers share its code: it is boxed.
    #[inline(never)]
    fn silence(&self) -> Pin<Box<dyn Future<Output = Failure> + '_>> {
        Box::pin(async {
            if self.context.contact.keeps_trying.get() {
                return pending().await;
            }
            let limit = idle_limit(&self.client);
            let pause = (self.client.session_timeout() / 4).clamp(LOOK_MIN, LOOK_MAX);
            let probe = self.client.with_timeout(pause);
            let mut heard = clock();
            while clock() - heard < limit {
                sleep(pause).await;
                // The lease shows replies from before this call.
                if self.listen() || probe.sync("/").await.is_ok() {
                    self.was_answered();
                    heard = clock();
                }
            }
            self.silent()
        })
    }

    /// Returns the failure for sessions in which no request is answered.
    pub(crate) fn silent(&self) -> Failure {
        let why = "there is a session, but no request is carried out";
        Failure::unreachable(&self.context.servers, why)
    }

    /// Returns true if a quorum has answered recently.
    fn listen(&self) -> bool {
        let is_heard = self.client.stats().lease_left.is_some();
        if is_heard {
            self.was_answered();
        }
        is_heard
    }

    /// Records that a request was answered.
    fn was_answered(&self) {
        self.context.contact.answered.set(true);
        self.context.contact.fruitless_since.set(None);
    }

    /// Records that requests were answered, if the statistics of this session show any.
    pub(crate) fn count_answers(&self) {
        // One of them may say that the session has ended.
        if self.client.stats().request_latency.count() > 1 {
            self.was_answered();
        }
    }

    /// Returns true if another session makes sense after this one has ended. Either a request was
    /// answered in it, or sessions without replies have lasted no longer than the limit of silence.
    pub(crate) fn may_go_on(&self) -> bool {
        self.listen();
        let (contact, limit) = (&self.context.contact, idle_limit(&self.client));
        contact.keeps_trying.get() || contact.silent_for().is_none_or(|silent| silent < limit)
    }

    /// Returns true if the ensemble has answered a request, or has had no time to do so.
    pub(crate) fn was_of_use(&self) -> bool {
        self.listen();
        let contact = &self.context.contact;
        contact.answered.get() || contact.silent_for().is_none_or(|silent| silent < SILENCE_MIN)
    }
}

impl Contact {
    fn silent_for(&self) -> Option<Duration> {
        self.fruitless_since.get().map(|since| clock() - since)
    }
}

/// The sessions of a command, one after the other.
pub(crate) struct Sessions {
    config: Config<ServerConnector>,
    /// The name under which others see this client in the queue of a lock.
    pub(crate) name: Option<String>,
    pub(crate) context: Rc<Context>,
    manager: Option<SessionManager>,
    /// The longest time to open a session.
    pub(crate) connect_timeout: Duration,
    /// The longest time to open the first session while all servers refuse connections.
    refused_timeout: Duration,
    /// The last session, also after it has ended.
    last_opened: Option<SessionId>,
}

impl Sessions {
    /// `retry` is the longest time to open a session, whether or not servers refuse connections.
    pub(crate) fn new(
        config: Config<ServerConnector>,
        retry: Option<Duration>,
        context: Rc<Context>,
    ) -> Self {
        let connect_timeout = retry.unwrap_or(CONNECT_TIMEOUT);
        let refused_timeout = retry.unwrap_or(REFUSED_TIMEOUT);
        let (name, manager, last_opened) = (None, None, None);
        Self { config, name, context, manager, connect_timeout, refused_timeout, last_opened }
    }

    /// Waits without a limit for the next session, once there was one, and for a silent ensemble.
    /// The command is meant to run for as long as nobody ends it.
    pub(crate) fn keep_trying(&self) {
        self.context.contact.keeps_trying.set(true);
    }

    /// Waits as long for servers that refuse connections as for others. They may be restarting, and
    /// the command is meant to wait.
    pub(crate) fn wait_for_servers(&mut self) {
        self.refused_timeout = self.connect_timeout;
    }

    /// Opens a session, until `deadline`, and within the longest time to open one.
    pub(crate) async fn open(&mut self, deadline: Option<Instant>) -> Result<Session> {
        let context = Rc::clone(&self.context);
        let is_endless = context.contact.keeps_trying.get() && self.last_opened.is_some();
        let most = if is_endless { FOREVER } else { self.connect_timeout };
        let left = deadline.map_or(most, |end| end - clock()).min(most);
        let client = match &self.manager {
            Some(manager) => match timeout(left, manager.open_client()).await {
                Ok(opened) => opened.map_err(Failure::from),
                Err(_) => {
                    let why = format!("no session in {:.1} s; see --retry", left.as_secs_f64());
                    Err(Failure::unreachable(&format!("connect to {}", context.servers), &why))
                }
            }
            .map_err(|failure| failure.about("the session has ended, and no other one is open"))?,
            None => self.open_first(left).await?,
        };
        // A request without a reply fails after this time, even if other requests are answered.
        // Requests that may be repeated are retried.
        let client = client.with_timeout(idle_limit(&client));
        let is_new = self.last_opened.replace(client.session_id()) != Some(client.session_id());
        if let (true, Some(log)) = (is_new, &context.log) {
            log.print_session(&client);
        }
        let since = context.contact.fruitless_since.get().unwrap_or_else(clock);
        context.contact.fruitless_since.set(Some(since));
        let policy = RetryPolicy::exponential(RETRY_PAUSE, PAUSE_MAX);
        let retry = client.retry(policy.timeout(idle_limit(&client)));
        Ok(Session { client, retry, output: context.output, context, deadline })
    }

    async fn open_first(&mut self, left: Duration) -> Result<Client> {
        let policy = RetryPolicy::exponential(SESSION_PAUSE, PAUSE_MAX);
        let is_endless = self.context.contact.keeps_trying.get();
        let policy = if is_endless { policy } else { policy.timeout(self.connect_timeout) };
        let config = self.config.clone().next_session_policy(policy).connect_timeout(left);
        let config = config.refused_timeout(self.refused_timeout);
        let config = match &self.name {
            Some(name) => config.name(name.as_str()),
            // A full pipe blocks this thread, and must not end the session.
            None => config.dedicated_thread(),
        };
        let manager = SessionManager::connect(config).await?;
        if let Some(log) = &self.context.log {
            log.print_failed_attempts(manager.changes());
        }
        let client = manager.client();
        self.manager = Some(manager);
        // A server that does not answer is not waited for here.
        let checked = check_chroot(&client, &self.context.servers);
        timeout(left, checked).await.unwrap_or(Ok(()))?;
        Ok(client)
    }

    /// Opens a session as [`open`](Self::open) does, and returns the manager of the sessions.
    pub(crate) async fn open_manager(
        &mut self,
        deadline: Option<Instant>,
    ) -> Result<SessionManager> {
        let session = self.open(deadline).await?;
        self.manager.clone().ok_or_else(|| session.silent())
    }

    /// Does `work`, and repeats it in another session if its session has ended and nothing was
    /// applied. Each session is opened until `deadline`.
    pub(crate) async fn run<T>(
        &mut self,
        deadline: Option<Instant>,
        mut work: impl AsyncFnMut(&Session) -> Result<T>,
    ) -> Result<T> {
        loop {
            let session = self.open(deadline).await?;
            match work(&session).await {
                Err(failure) if failure.starts_over => {
                    session.count_answers();
                    if !session.may_go_on() {
                        return Err(failure);
                    }
                }
                Err(failure) => return Err(failure),
                Ok(done) => {
                    session.was_answered();
                    return Ok(done);
                }
            }
        }
    }

    /// Does `work` like [`run`](Self::run), and closes its session. Returns the exit status.
    pub(crate) async fn run_to_end(
        &mut self,
        deadline: Option<Instant>,
        mut work: impl AsyncFnMut(&Session) -> Result<()>,
    ) -> Result<u8> {
        let work = async |session: &Session| {
            let done = work(session).await;
            session.client.close().await;
            done
        };
        self.run(deadline, work).await.map(|()| 0)
    }

    /// Closes the current session, within a short time in case the servers do not answer.
    pub(crate) async fn close(&mut self) {
        if let Some(manager) = self.manager.take() {
            drop(timeout(GOODBYE, manager.close()).await);
        }
    }
}

/// Interval of the reads that show whether the server answers.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
const LOOK_MIN: Duration = Duration::from_millis(20);
const LOOK_MAX: Duration = Duration::from_secs(1);

pub(crate) fn idle_limit(client: &Client) -> Duration {
    (2 * client.session_timeout()).clamp(IDLE_LIMIT_MIN, IDLE_LIMIT_MAX)
}

pub(crate) async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

#[allow(clippy::disallowed_methods, reason = "deadlines over several sessions")]
pub(crate) fn clock() -> Instant {
    Instant::now()
}

/// The time of this machine, which differs from that of the ensemble by as much as their clocks.
#[allow(
    clippy::disallowed_methods,
    reason = "times that people compare with those of their clocks"
)]
pub(crate) fn wall_clock() -> SystemTime {
    SystemTime::now()
}

/// Returns an error if the chroot of the connect string does not exist. Without this check, a command that
/// finds nothing below a mistyped chroot would succeed.
async fn check_chroot(client: &Client, connect: &str) -> Result<()> {
    let has_chroot =
        connect.parse::<ConnectString>().is_ok_and(|servers| !servers.chroot().is_empty());
    let is_missing = async || matches!(client.exists("/").await, Ok(None));
    // The server may be behind the one at which somebody has just created the chroot.
    if has_chroot && is_missing().await && client.sync("/").await.is_ok() && is_missing().await {
        return Err(Failure::other(format!("/: {NO_CHROOT}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use zk_testing::{Op, TestServer};

    use super::*;

    /// Returns the sessions of a command that has run for longer than the limit of silence.
    async fn long_running(server: &TestServer) -> (Sessions, Session) {
        let connect = server.connect_string();
        let connector = ServerConnector::new(None).unwrap();
        let config = Config::new(&connect).unwrap().connector(connector);
        let context = Rc::new(Context {
            servers: connect,
            identity: Identity::default(),
            is_in_the_clear: true,
            output: Output::new(false),
            log: None,
            contact: Contact::default(),
        });
        let mut sessions = Sessions::new(config, None, context);
        let session = sessions.open(None).await.unwrap();
        let since = clock().checked_sub(2 * idle_limit(&session.client));
        assert!(since.is_some());
        session.context.contact.fruitless_since.set(since);
        (sessions, session)
    }

    #[tokio::test]
    async fn session_of_use_is_followed_by_another() {
        let server = TestServer::start().await.unwrap();
        let (mut sessions, session) = long_running(&server).await;
        session.client.exists("/").await.unwrap();
        session.client.exists("/").await.unwrap();
        server.on(Op::Exists).answer(zk_testing::ErrorCode::SESSION_EXPIRED);
        session.client.exists("/").await.unwrap_err();
        session.count_answers();
        assert!(session.may_go_on());
        sessions.open(None).await.unwrap().client.exists("/").await.unwrap();
    }

    #[tokio::test]
    async fn sessions_that_end_at_once_are_given_up() {
        let server = TestServer::start().await.unwrap();
        let (_sessions, session) = long_running(&server).await;
        server.on(Op::Exists).answer(zk_testing::ErrorCode::SESSION_EXPIRED);
        session.client.exists("/").await.unwrap_err();
        session.count_answers();
        assert!(!session.may_go_on());
    }

    #[tokio::test]
    async fn finished_work_restarts_the_limit_of_silence() {
        let server = TestServer::start().await.unwrap();
        let (mut sessions, _) = long_running(&server).await;
        let mut attempts = 0;
        for _ in 0..2 {
            let work = async |session: &Session| {
                attempts += 1;
                Ok(session.client.exists("/").await?)
            };
            sessions.run(None, work).await.unwrap();
            server.on(Op::Exists).answer(zk_testing::ErrorCode::SESSION_EXPIRED);
        }
        assert_eq!(attempts, 3, "the session has ended once");
    }
}
