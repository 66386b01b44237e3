//! The task of a cache, which follows the tree from session to session.
//!
//! 1. **Watch.** It sets the watch before it reads anything, so no later change is missed.
//! 2. **Walk.** It reads the root, lists its children, and goes on below them. A walk over a cache
//!    that has nodes compares them with what it reads, and reports the differences.
//! 3. **Follow.** Each event of the watch leads to a read of its node. Only reads change the cache,
//!    and [`Reads`] keeps their answers in the order of the tree's history. So the cache goes
//!    through states that each node had, in the order in which it had them.
//!
//! After a gap in the events, it walks again. A connection or session that ends leads to a gap.

use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::select;
use zk_recipes::session::limits::STREAM_EVENTS_KEPT;
use zk_recipes::session::path::{child, parent};
use zk_recipes::session::{
    Client, Error, ErrorCode, EventType, NodeData, RetryOn, SessionEvent, SessionEvents,
    SessionManager, Stat, WatchEvent, WatchStream, WatchStreamItem,
};

use super::CacheError;
use super::edit::{Edit, Seen};
use super::reads::{Read, Reads, What, is_due_to_several};
use super::request::Answer;
use super::scope::Scope;
use super::shared::Shared;
use crate::limits::{CACHE_RETRY_PAUSE, RECHECKED_DATA_MAX};

#[derive(Debug)]
pub(super) struct Follower {
    pub(super) sessions: SessionManager,
    pub(super) shared: Arc<Shared>,
    pub(super) scope: Scope,
    pub(super) nodes_max: usize,
    pub(super) bytes_max: usize,
    pub(super) reads: Reads,
    /// A walk over the tree has begun, and its end is not yet reported.
    pub(super) is_walking: bool,
}

/// What the task waits for.
enum Input {
    Answers(Result<Vec<Answer>, Error>),
    Watch(Option<Result<WatchStreamItem, Error>>),
    Session(Option<SessionEvent>),
}

/// Whether this session goes on, or has ended.
type Flow = ControlFlow<()>;

impl Follower {
    /// Follows the tree until the cache cannot go on.
    pub(super) async fn run(mut self) {
        let stops = StopOnDrop(Arc::clone(&self.shared));
        let error = loop {
            let client = match self.sessions.open_client().await {
                Ok(client) => client,
                Err(error) => break error.into(),
            };
            if let Err(error) = self.follow(&client).await {
                break error;
            }
            self.shared.set_stale();
        };
        stops.0.stop(error);
    }

    /// Follows the tree until the session has ended.
    ///
    /// # Errors
    /// Returns the reason for which no other session helps.
    async fn follow(&mut self, client: &Client) -> Result<(), CacheError> {
        let mut events = client.events();
        let Some(mut watch) = self.watch(client).await? else { return Ok(()) };
        self.walk();
        loop {
            self.reads.send(client);
            let flow = match next_input(&mut self.reads, &mut watch, &mut events).await {
                Input::Answers(Ok(answers)) => self.apply(&mut watch, answers)?,
                Input::Answers(Err(error)) => self.recover(client, error).await?,
                Input::Watch(item) => self.handle_event(item),
                Input::Session(None) => Flow::Break(()),
                // The state counts, and not the event, which may be old.
                Input::Session(Some(_)) if !client.is_connected() => {
                    self.shared.set_stale();
                    Flow::Continue(())
                }
                Input::Session(Some(_)) => Flow::Continue(()),
            };
            if flow.is_break() || self.finish_walk(client, &mut watch).is_break() {
                return Ok(());
            }
        }
    }

    /// Sets the watch. Returns `None` if the session has ended.
    async fn watch(&mut self, client: &Client) -> Result<Option<WatchStream>, CacheError> {
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
            match error.retry_on() {
                RetryOn::SameSession => client.sleep(CACHE_RETRY_PAUSE).await,
                RetryOn::NewSession => return Ok(None),
                RetryOn::Never => return Err(error.into()),
            }
        }
    }

    /// Lets the server of a new session catch up, if the cache has nodes. The server may lag behind
    /// the one that the last session has read from, and the cache must not go back in time.
    async fn catch_up(
        &self,
        client: &Client,
        watch: Result<WatchStream, Error>,
    ) -> Result<WatchStream, Error> {
        let watch = watch?;
        if !self.shared.snapshot().is_empty() {
            client.sync(&self.scope.root).await?;
        }
        Ok(watch)
    }

    /// Begins to read the tree from the root.
    fn walk(&mut self) {
        self.reads.clear();
        self.is_walking = true;
        let root = Arc::clone(&self.scope.root);
        self.reads.add(Read { path: root, what: What::Data, is_walk: true });
    }

    /// Reports the end of a walk: all its reads are answered, and no gap came before the last one.
    fn finish_walk(&mut self, client: &Client, watch: &mut WatchStream) -> Flow {
        if !self.is_walking || !self.reads.is_walk_done() {
            return Flow::Continue(());
        }
        self.drain(watch)?;
        if self.reads.is_walk_done() && client.is_connected() {
            self.is_walking = false;
            self.shared.set_synced();
        }
        Flow::Continue(())
    }

    /// Handles all events that have arrived.
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
            EventType::NODE_CREATED | EventType::NODE_DELETED => self.reads.add_in_doubt(path),
            EventType::NODE_DATA_CHANGED => {
                self.reads.add(Read { path, what: What::Data, is_walk: false });
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
    async fn recover(&mut self, client: &Client, error: Error) -> Result<Flow, CacheError> {
        let helps = is_due_to_several(&error) && self.reads.send_singly();
        match error.retry_on() {
            _ if helps => {}
            RetryOn::SameSession => {}
            RetryOn::NewSession => return Ok(Flow::Break(())),
            RetryOn::Never => return Err(error.into()),
        }
        self.reads.requeue();
        client.sleep(CACHE_RETRY_PAUSE).await;
        Ok(Flow::Continue(()))
    }

    /// Applies the answers to the first request in flight.
    fn apply(&mut self, watch: &mut WatchStream, answers: Vec<Answer>) -> Result<Flow, CacheError> {
        // The events before the answers must be known first. A gap among them discards the answers.
        if self.drain(watch).is_break() {
            return Ok(Flow::Break(()));
        }
        let reads = self.reads.take();
        // The filter is code of the user, which must not run while the nodes are locked.
        let listed = reads.iter().zip(&answers).map(|(read, answer)| self.listed(read, answer));
        let listed: Vec<Vec<Arc<str>>> = listed.collect();
        let shared = Arc::clone(&self.shared);
        shared.edit(|edit| {
            for ((read, answer), listed) in reads.into_iter().zip(answers).zip(listed) {
                self.reads.done(&read);
                self.apply_one(edit, read, answer, listed);
                self.check_limits(edit)?;
            }
            Ok(Flow::Continue(()))
        })
    }

    /// Returns the paths of the listed children that are in the scope, sorted.
    fn listed(&self, read: &Read, answer: &Answer) -> Vec<Arc<str>> {
        let Answer::Children(names) = answer else { return Vec::new() };
        let paths = names.names().map(|name| child(&read.path, &name));
        let paths = paths.filter(|path| self.scope.contains(path)).map(Arc::from);
        let mut listed: Vec<Arc<str>> = paths.collect();
        listed.sort_unstable();
        listed
    }

    fn apply_one(
        &mut self,
        edit: &mut Edit<'_>,
        read: Read,
        answer: Answer,
        listed: Vec<Arc<str>>,
    ) {
        match answer {
            Answer::Data(node) => self.apply_data(edit, &read, node),
            Answer::Stat(stat) if edit.is_same_data(&read.path, &stat) => {
                self.go_on_below(edit, &read, &stat);
            }
            Answer::Stat(_) => self.reads.add(Read { what: What::Data, ..read }),
            Answer::Children(_) => self.apply_children(edit, &read, listed),
            Answer::NoNode => edit.remove(&read.path),
            Answer::NoAuth if self.must_wait(edit, &read.path) => self.wait(&read),
            Answer::NoAuth => {
                edit.put_unreadable(&read.path);
                // Their parent cannot be listed.
                for child in edit.children(&read.path) {
                    self.add_below(edit, &read, child);
                }
            }
        }
    }

    fn apply_data(&mut self, edit: &mut Edit<'_>, read: &Read, node: NodeData) {
        let stat = node.stat;
        if !edit.is_same_node(&read.path, &stat) && self.must_wait(edit, &read.path) {
            return self.wait(read);
        }
        // A new node may have had children before its parent was watched.
        if edit.put(&read.path, node) == Seen::New || read.is_walk {
            self.go_on_below(edit, read, &stat);
        }
    }

    /// Goes on with a walk below a node.
    fn go_on_below(&mut self, edit: &mut Edit<'_>, read: &Read, stat: &Stat) {
        if !self.scope.has_children_of(&read.path) {
            return;
        }
        match usize::try_from(stat.num_children) {
            Ok(count @ 1..) => {
                let what = What::Children(count);
                self.reads.add(Read { path: Arc::clone(&read.path), what, is_walk: true });
            }
            _ if read.is_walk => {
                edit.children(&read.path).iter().for_each(|child| edit.remove(child));
            }
            _ => {}
        }
    }

    fn apply_children(&mut self, edit: &mut Edit<'_>, read: &Read, listed: Vec<Arc<str>>) {
        for path in edit.children(&read.path) {
            if listed.binary_search(&path).is_err() {
                edit.remove(&path);
            }
        }
        listed.into_iter().for_each(|path| self.add_below(edit, read, path));
    }

    fn add_below(&mut self, edit: &Edit<'_>, above: &Read, path: Arc<str>) {
        let is_large = edit.data_len(&path) > RECHECKED_DATA_MAX;
        let what = if is_large { What::Stat } else { What::Data };
        self.reads.add(Read { path, what, is_walk: above.is_walk });
    }

    /// Returns true if a node must not be added yet: its parent is not cached, or the cached parent
    /// may be an earlier node of the same path.
    fn must_wait(&self, edit: &Edit<'_>, path: &str) -> bool {
        if path == &*self.scope.root || edit.contains(path) && !self.is_parent_in_doubt(path) {
            return false;
        }
        parent(path).is_some_and(|parent| !edit.contains(parent)) || self.is_parent_in_doubt(path)
    }

    fn is_parent_in_doubt(&self, path: &str) -> bool {
        parent(path).is_some_and(|parent| self.reads.is_in_doubt(parent))
    }

    /// Reads a node again, after its parent and after the walk. What is below it is then read, too,
    /// because the node is new to the cache.
    fn wait(&mut self, read: &Read) {
        if let Some(parent) = parent(&read.path) {
            if !self.reads.is_pending(parent) {
                let path = Arc::from(parent);
                self.reads.add(Read { path, what: What::Data, is_walk: false });
            }
        }
        self.reads.add_in_doubt(Arc::clone(&read.path));
    }

    fn check_limits(&self, edit: &Edit<'_>) -> Result<(), CacheError> {
        if edit.snapshot().len() > self.nodes_max || self.reads.queued() > self.queue_max() {
            let path = self.scope.root.to_string();
            return Err(CacheError::TooManyNodes { path, max: self.nodes_max });
        }
        if edit.snapshot().bytes() > self.bytes_max {
            let path = self.scope.root.to_string();
            return Err(CacheError::TooManyBytes { path, max: self.bytes_max });
        }
        Ok(())
    }

    /// Returns the number of reads that may wait: two for each node, for an event and for a walk, and
    /// one for each event of a node that is gone.
    fn queue_max(&self) -> usize {
        self.nodes_max.saturating_mul(2).saturating_add(STREAM_EVENTS_KEPT)
    }
}

/// Waits for answers, an event of the watch, or an event of the session. Dropping the future loses
/// nothing.
async fn next_input(
    reads: &mut Reads,
    watch: &mut WatchStream,
    events: &mut SessionEvents,
) -> Input {
    let answers = pin!(reads.next_answer().map(Input::Answers));
    let item = pin!(watch.next().map(Input::Watch));
    let event = pin!(events.next().map(Input::Session));
    let first = select(answers, select(item, event).map(|either| either.factor_first().0));
    first.await.factor_first().0
}

/// Stops the cache when its task is dropped: with its runtime, or because the filter panicked.
struct StopOnDrop(Arc<Shared>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stop(CacheError::TaskEnded);
    }
}
