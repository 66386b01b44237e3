//! The task of a cache, which follows the tree from session to session.
//!
//! 1. **Watch.** It sets the watch before it reads anything, so no later change is missed.
//! 2. **Walk.** It reads the root, lists its children, and goes on below them. If the cache has nodes,
//!    the walk compares them with the answers, and reports the differences.
//! 3. **Follow.** Each event of the watch leads to a read of its node. Only reads change the cache,
//!    and [`Reads`] keeps their answers in the order of the tree's history. So the cache goes
//!    through states that each node had, in the order in which it had them.
//!
//! After a gap in the events, it walks again. A connection or session that ends leads to a gap.
//! [`Checks`] find what no event reports.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::select;
use zk_recipes::session::limits::STREAM_EVENTS_KEPT;
use zk_recipes::session::{
    Attempts, Client, Error, ErrorCode, ErrorKind, EventType, Limit, RetryOn, SessionEvent,
    SessionEvents, SessionManager, WatchEvent, WatchStream, WatchStreamItem, Zxid,
};

use super::checks::{Checks, Due};
use super::reads::Reads;
use super::request::{Answer, Cause, Read, What};
use super::scope::Scope;
use super::shared::Shared;
use super::{CacheError, CacheStatus};
use crate::background::open_client;
use crate::requests::REQUEST_POLICY;

#[derive(Debug)]
pub(super) struct Follower {
    pub(super) sessions: SessionManager,
    pub(super) shared: Arc<Shared>,
    pub(super) scope: Scope,
    pub(super) nodes_max: usize,
    pub(super) bytes_max: usize,
    pub(super) reads: Reads,
    pub(super) checks: Checks,
    /// A walk over the tree has begun, and its end is not yet reported.
    pub(super) is_walking: bool,
}

/// Input of the task.
enum Input {
    Answers(Result<Vec<Answer>, Error>),
    Watch(Option<Result<WatchStreamItem, Error>>),
    Check(Due),
    Session(Option<SessionEvent>),
}

/// Whether this session goes on, or has ended.
type Flow = ControlFlow<()>;

impl Follower {
    /// Follows the tree until the cache cannot go on. A cache whose task is dropped has stopped, also
    /// if the task never ran.
    pub(super) fn run(mut self) -> impl Future<Output = ()> + Send + 'static {
        let stops = StopOnDrop(Arc::clone(&self.shared));
        async move {
            let error = self.follow_over_sessions().await;
            stops.0.stop(error);
        }
    }

    /// Returns the reason for which no other session helps.
    async fn follow_over_sessions(&mut self) -> CacheError {
        loop {
            let client = match open_client(&self.sessions).await {
                Ok(client) => client,
                Err(error) => return error.into(),
            };
            if let Err(error) = self.follow(&client).await {
                return error;
            }
            self.shared.set_stale();
        }
    }

    /// Follows the tree until the session has ended.
    ///
    /// # Errors
    /// Returns the reason for which no other session helps.
    async fn follow(&mut self, client: &Client) -> Result<(), CacheError> {
        let mut events = client.events();
        self.checks = Checks::default();
        let Some(mut watch) = self.watch(client).await? else { return Ok(()) };
        self.walk();
        let mut attempts = REQUEST_POLICY.begin();
        loop {
            self.reads.send(client);
            let unreadable = self.shared.snapshot().nodes.unreadable();
            let due = self.checks.due(client, unreadable);
            let flow = match next_input(&mut self.reads, &mut watch, &mut events, due).await {
                Input::Answers(Ok(answers)) => {
                    attempts.reset();
                    self.handle_answers(&mut watch, answers)?
                }
                Input::Answers(Err(error)) => self.recover(client, error, &mut attempts).await?,
                Input::Watch(item) => self.handle_event(item),
                Input::Check(due) => {
                    self.check(due);
                    Flow::Continue(())
                }
                Input::Session(None) => Flow::Break(()),
                Input::Session(Some(_)) => {
                    self.check_connection(client);
                    Flow::Continue(())
                }
            };
            if flow.is_break() {
                return Ok(());
            }
            self.finish_walk(client);
        }
    }

    /// Sets the watch. Returns `None` if the session has ended.
    ///
    /// # Errors
    /// Returns the reason for which no other session helps; on the first load, also the error of the
    /// limit of watches.
    async fn watch(&self, client: &Client) -> Result<Option<WatchStream>, CacheError> {
        let mut attempts = REQUEST_POLICY.begin();
        loop {
            let set = match self.scope.depth {
                Some(0) => client.watch(&self.scope.root),
                _ => client.watch_recursive(&self.scope.root),
            };
            let error = match self.catch_up(client, set.await).await {
                Ok(watch) => return Ok(Some(watch)),
                Err(error) => error,
            };
            let code = error.code();
            if code == Some(ErrorCode::UNIMPLEMENTED) || code == Some(ErrorCode::MARSHALLING_ERROR)
            {
                return Err(CacheError::Unsupported { path: self.scope.root.to_string() });
            }
            // The caller of the first load can free a watch. A loaded cache waits until there is one.
            let is_full = *error.kind() == ErrorKind::LimitReached(Limit::Watches);
            match error.retry_on() {
                RetryOn::SameSession if is_full && self.shared.status() == CacheStatus::Loading => {
                    return Err(error.into());
                }
                RetryOn::SameSession => drop(attempts.pause(client).await),
                RetryOn::NewSession => return Ok(None),
                RetryOn::Never => return Err(error.into()),
            }
        }
    }

    /// Lets the server of a new session catch up, if the cache has read nodes. A read-only server, or one
    /// with local sessions, may lag behind the server that the last session has read from, and the
    /// cache must not go back in time.
    async fn catch_up(
        &self,
        client: &Client,
        watch: Result<WatchStream, Error>,
    ) -> Result<WatchStream, Error> {
        let watch = watch?;
        if self.shared.snapshot().zxid() > Zxid::ZERO {
            client.sync(&self.scope.root).await?;
        }
        Ok(watch)
    }

    /// Reports that the cache is stale if there is no connection. An event of the session may be old,
    /// so it only leads to this check. After a reconnect, a gap follows.
    fn check_connection(&self, client: &Client) {
        if !client.is_connected() {
            self.shared.set_stale();
        }
    }

    /// Begins to read the tree from the root.
    fn walk(&mut self) {
        self.reads.clear();
        self.is_walking = true;
        let root = Arc::clone(&self.scope.root);
        self.reads.add(Read { path: root, what: What::Data, cause: Cause::Walk });
    }

    /// Reports the end of a walk: all its reads are answered, and no gap came before the last answer.
    /// After a lost connection, another walk follows.
    fn finish_walk(&mut self, client: &Client) {
        if self.is_walking && self.reads.is_walk_done() && client.is_connected() {
            self.is_walking = false;
            self.shared.set_synced();
        }
    }

    /// Reads nodes of which the server may not report changes. A walk reads them anyway.
    fn check(&mut self, due: Due) {
        if !self.is_walking {
            let reads = self.checks.take(due, &self.shared.snapshot());
            reads.into_iter().for_each(|read| self.reads.add(read));
        }
    }

    fn drain(&mut self, watch: &mut WatchStream) -> Flow {
        while let Some(item) = watch.next().now_or_never() {
            self.handle_event(item)?;
        }
        Flow::Continue(())
    }

    fn handle_event(&mut self, item: Option<Result<WatchStreamItem, Error>>) -> Flow {
        match item {
            Some(Ok(WatchStreamItem::Changed(event))) => self.handle_change(event),
            Some(Ok(_)) => {
                self.shared.set_stale();
                self.walk();
            }
            Some(Err(_)) | None => return Flow::Break(()),
        }
        Flow::Continue(())
    }

    fn handle_change(&mut self, event: WatchEvent) {
        if !self.scope.contains(&event.path) {
            return;
        }
        let path: Arc<str> = event.path.into();
        match event.event_type {
            EventType::NODE_CREATED | EventType::NODE_DELETED => self.reads.add_unconfirmed(path),
            EventType::NODE_DATA_CHANGED => {
                self.reads.add(Read { path, what: What::Data, cause: Cause::Event });
            }
            _ => return,
        }
        if self.reads.queued() > self.queue_max() {
            // There are more events than the cache keeps, which is the same as a gap.
            self.shared.set_stale();
            self.walk();
        }
    }

    /// Handles a failed request. Returns when the reads may be sent again.
    ///
    /// # Errors
    /// Returns the error if the request would fail again.
    async fn recover(
        &mut self,
        client: &Client,
        error: Error,
        attempts: &mut Attempts<'_>,
    ) -> Result<Flow, CacheError> {
        let helps = self.reads.send_singly(&error);
        match error.retry_on() {
            _ if helps => {}
            RetryOn::SameSession => {}
            RetryOn::NewSession => return Ok(Flow::Break(())),
            RetryOn::Never => return Err(error.into()),
        }
        self.check_connection(client);
        self.reads.requeue();
        attempts.pause(client).await;
        Ok(Flow::Continue(()))
    }

    fn handle_answers(
        &mut self,
        watch: &mut WatchStream,
        answers: Vec<Answer>,
    ) -> Result<Flow, CacheError> {
        // The events before the answers must be known first. A gap among them discards the answers.
        if self.drain(watch).is_break() {
            return Ok(Flow::Break(()));
        }
        for (read, answer) in self.reads.take().into_iter().zip(answers) {
            self.reads.done(&read);
            self.apply(read, answer);
        }
        self.check_limits()?;
        Ok(Flow::Continue(()))
    }

    fn check_limits(&self) -> Result<(), CacheError> {
        let (nodes, path) = (self.shared.snapshot(), || self.scope.root.to_string());
        if nodes.len() > self.nodes_max || self.reads.queued() > self.queue_max() {
            return Err(CacheError::TooManyNodes { path: path(), max: self.nodes_max });
        }
        if nodes.bytes() > self.bytes_max {
            return Err(CacheError::TooManyBytes { path: path(), max: self.bytes_max });
        }
        Ok(())
    }

    /// Returns the number of reads that may wait: two for each node, for an event and for a walk, and
    /// one for each event of a node that is gone.
    fn queue_max(&self) -> usize {
        self.nodes_max.saturating_mul(2).saturating_add(STREAM_EVENTS_KEPT)
    }
}

/// Waits for answers, an event of the watch or of the session, or the next check. Dropping the future
/// loses nothing.
async fn next_input(
    reads: &mut Reads,
    watch: &mut WatchStream,
    events: &mut SessionEvents,
    due: impl Future<Output = Due>,
) -> Input {
    let answers = pin!(reads.next_answer().map(Input::Answers));
    let item = pin!(watch.next().map(Input::Watch));
    let event = pin!(events.next().map(Input::Session));
    let due = pin!(due.map(Input::Check));
    let first = select(answers, select(item, event).map(|either| either.factor_first().0));
    select(first.map(|either| either.factor_first().0), due).await.factor_first().0
}

/// Stops the cache when its task is dropped: with its runtime, or because the filter panicked.
struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop(CacheError::TaskEnded);
    }
}
