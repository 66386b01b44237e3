//! Sessions of a command, opened one after the other, and limits for an ensemble that does not
//! answer.

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
use crate::failure::{Failure, NO_CHROOT};
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
}

/// A session of a command.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) client: Client,
    /// Retries requests within a time limit, unless they could be applied twice.
    pub(crate) retry: Retry,
    pub(crate) output: Output,
    pub(crate) context: Rc<Context>,
}

impl Session {
    fn new(client: Client, context: &Rc<Context>) -> Self {
        let policy = RetryPolicy::exponential(RETRY_PAUSE, PAUSE_MAX);
        let retry = client.retry(policy.timeout(idle_limit(&client)));
        Self { client, retry, output: context.output, context: Rc::clone(context) }
    }

    /// Returns the same session, whose `retry` has no limit.
    pub(crate) fn endless(&self) -> Self {
        let retry = self.client.retry(RetryPolicy::exponential(RETRY_PAUSE, PAUSE_MAX));
        Self { retry, ..self.clone() }
    }

    /// Waits until the client has a session, which only a server with a majority grants (`--read-only`).
    ///
    /// A command that waits for others, for a lock or at a barrier, has no time limit of its own for
    /// that: the limit of silence is one of the connection. It fails when no server answers reads for so
    /// long, and after `deadline`.
    pub(crate) async fn wait_for_majority(&self, deadline: Option<Instant>) -> Result<(), Failure> {
        tokio::select! {
            served = self.served() => served,
            () = until(deadline) => Err(Failure::no_majority(&self.context.servers)),
        }
    }

    async fn served(&self) -> Result<(), Failure> {
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
                Err(_) => return Err(Failure::silent(&self.context.servers)),
            }
        }
        Ok(())
    }

    /// Prints what was done, for a command without a result of its own: nothing but with `--json`.
    pub(crate) fn print_done(&self, path: &str, what: &str) -> Result<(), Failure> {
        self.output.print([], || json!({ "path": path, "done": what }))
    }
}

/// The sessions of a command, one after the other.
pub(crate) struct Sessions {
    config: Config<ServerConnector>,
    context: Rc<Context>,
    manager: Option<SessionManager>,
    current: Option<Client>,
    /// When the present series of sessions without a reply began.
    fruitless_since: Option<Instant>,
    /// Whether any request was answered.
    answered: bool,
    /// The longest time to open a session.
    connect_timeout: Duration,
    /// The longest time to open the first session while all servers refuse connections.
    refused_timeout: Duration,
    /// Whether another session is awaited without a limit after the first one.
    keeps_trying: bool,
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
        Self {
            config,
            context,
            manager: None,
            current: None,
            fruitless_since: None,
            answered: false,
            connect_timeout: retry.unwrap_or(CONNECT_TIMEOUT),
            refused_timeout: retry.unwrap_or(REFUSED_TIMEOUT),
            keeps_trying: false,
            last_opened: None,
        }
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    /// Waits without a limit for the next session, once there was one, and for a silent ensemble.
    /// The command is meant to run for as long as nobody ends it.
    pub(crate) fn keep_trying(&mut self) {
        self.keeps_trying = true;
    }

    /// Waits as long for servers that refuse connections as for others. They may be restarting, and
    /// the command is meant to wait.
    pub(crate) fn wait_for_servers(&mut self) {
        self.refused_timeout = self.connect_timeout;
    }

    /// Opens a session, until `deadline`, and within the longest time to open one.
    pub(crate) async fn open(&mut self, deadline: Option<Instant>) -> Result<Session, Failure> {
        let most =
            if self.keeps_trying && self.were_there() { FOREVER } else { self.connect_timeout };
        let left = deadline.map_or(most, |end| end - clock()).min(most);
        let client = match &self.manager {
            Some(manager) => match timeout(left, manager.open_client()).await {
                Ok(opened) => opened.map_err(Failure::from),
                Err(_) => Err(Failure::no_session(&self.context.servers, left)),
            }
            .map_err(Failure::after_a_session)?,
            None => self.open_first(left).await?,
        };
        // A request without a reply fails after this time, even if other requests are answered.
        // Requests that may be repeated are retried.
        let client = client.with_timeout(idle_limit(&client));
        let is_new = self.last_opened.replace(client.session_id()) != Some(client.session_id());
        if let (true, Some(log)) = (is_new, &self.context.log) {
            log.print_session(&client);
        }
        self.fruitless_since.get_or_insert_with(clock);
        self.current = Some(client.clone());
        Ok(Session::new(client, &self.context))
    }

    async fn open_first(&mut self, left: Duration) -> Result<Client, Failure> {
        let policy = RetryPolicy::exponential(SESSION_PAUSE, PAUSE_MAX);
        let policy = if self.keeps_trying { policy } else { policy.timeout(self.connect_timeout) };
        let config = self.config.clone().next_session_policy(policy).connect_timeout(left);
        let config = config.refused_timeout(self.refused_timeout);
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
    ) -> Result<SessionManager, Failure> {
        self.open(deadline).await?;
        self.manager.clone().ok_or_else(|| self.silent())
    }

    /// Runs `work`, and fails if the ensemble is silent for too long.
    pub(crate) async fn run_connected<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            failure = self.silence() => Err(failure),
        }
    }

    /// Does `work`, and repeats it in another session if its session has ended and nothing was
    /// applied.
    pub(crate) async fn run<T>(
        &mut self,
        mut work: impl AsyncFnMut(&Session) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        loop {
            let session = self.open(None).await?;
            match self.run_connected(work(&session)).await? {
                Err(failure) if failure.starts_over() && self.may_go_on() => {}
                Err(failure) => return Err(failure),
                Ok(done) => {
                    self.was_answered();
                    return Ok(done);
                }
            }
        }
    }

    /// Records that a request was answered.
    fn was_answered(&mut self) {
        self.answered = true;
        self.fruitless_since = None;
    }

    /// Records that requests were answered in the current session, if its statistics show any.
    pub(crate) fn count_answers(&mut self) {
        let answers = |client: &Client| client.stats().request_latency.count();
        // One of them may say that the session has ended.
        if self.current.as_ref().map(answers) > Some(1) {
            self.was_answered();
        }
    }

    /// Returns true if another session makes sense after the current one has ended. Either a request was
    /// answered in it, or sessions without replies have lasted no longer than the limit of silence.
    pub(crate) fn may_go_on(&mut self) -> bool {
        self.listen();
        let Some(client) = &self.current else { return true };
        let limit = idle_limit(client);
        self.keeps_trying || self.fruitless_since.is_none_or(|since| clock() - since < limit)
    }

    pub(crate) fn were_there(&self) -> bool {
        self.last_opened.is_some()
    }

    /// Returns true if the ensemble has answered a request, or has had no time to do so.
    pub(crate) fn were_of_use(&mut self) -> bool {
        self.listen();
        let silent_for = self.fruitless_since.map(|since| clock() - since);
        self.answered || silent_for.is_none_or(|silent_for| silent_for < SILENCE_MIN)
    }

    /// Returns the failure for sessions in which no request is answered.
    pub(crate) fn silent(&self) -> Failure {
        Failure::silent(&self.context.servers)
    }

    pub(crate) fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Closes the current session, within a short time in case the servers do not answer.
    pub(crate) async fn close(&mut self) {
        if let Some(manager) = self.manager.take() {
            drop(timeout(GOODBYE, manager.close()).await);
        }
    }

    /// Waits until the leader has answered nothing for the limit of silence. Meanwhile it sends a
    /// `sync` from time to time, which servers do not log. All callers share its code: it is boxed.
    #[inline(never)]
    fn silence(&mut self) -> Pin<Box<dyn Future<Output = Failure> + '_>> {
        Box::pin(async {
            let client = match &self.current {
                Some(client) if !self.keeps_trying => client.clone(),
                _ => return pending().await,
            };
            let limit = idle_limit(&client);
            let pause = (client.session_timeout() / 4).clamp(LOOK_MIN, LOOK_MAX);
            let mut heard = clock();
            while clock() - heard < limit {
                sleep(pause).await;
                // The lease shows replies from before this call.
                if self.listen() || client.with_timeout(pause).sync("/").await.is_ok() {
                    self.was_answered();
                    heard = clock();
                }
            }
            self.silent()
        })
    }

    /// Returns true if a quorum has answered recently.
    fn listen(&mut self) -> bool {
        let has_lease = |client: &Client| client.stats().lease_left.is_some();
        let is_heard = self.current.as_ref().is_some_and(has_lease);
        if is_heard {
            self.was_answered();
        }
        is_heard
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
async fn check_chroot(client: &Client, connect: &str) -> Result<(), Failure> {
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
    async fn long_running(server: &TestServer) -> (Sessions, Client) {
        let connect = server.connect_string();
        let connector = ServerConnector::new(None).unwrap();
        let config = Config::new(&connect).unwrap().connector(connector);
        let context = Rc::new(Context {
            servers: connect,
            identity: Identity::default(),
            is_in_the_clear: true,
            output: Output::new(false),
            log: None,
        });
        let mut sessions = Sessions::new(config, None, context);
        let client = sessions.open(None).await.unwrap().client;
        sessions.fruitless_since = clock().checked_sub(2 * idle_limit(&client));
        assert!(sessions.fruitless_since.is_some());
        (sessions, client)
    }

    #[tokio::test]
    async fn session_of_use_is_followed_by_another() {
        let server = TestServer::start().await.unwrap();
        let (mut sessions, client) = long_running(&server).await;
        client.exists("/").await.unwrap();
        client.exists("/").await.unwrap();
        server.on(Op::Exists).answer(zk_testing::ErrorCode::SESSION_EXPIRED);
        client.exists("/").await.unwrap_err();
        sessions.count_answers();
        assert!(sessions.may_go_on());
        sessions.open(None).await.unwrap().client.exists("/").await.unwrap();
    }

    #[tokio::test]
    async fn sessions_that_end_at_once_are_given_up() {
        let server = TestServer::start().await.unwrap();
        let (mut sessions, client) = long_running(&server).await;
        server.on(Op::Exists).answer(zk_testing::ErrorCode::SESSION_EXPIRED);
        client.exists("/").await.unwrap_err();
        sessions.count_answers();
        assert!(!sessions.may_go_on());
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
            sessions.run(work).await.unwrap();
            server.on(Op::Exists).answer(zk_testing::ErrorCode::SESSION_EXPIRED);
        }
        assert_eq!(attempts, 3, "the session has ended once");
    }
}
