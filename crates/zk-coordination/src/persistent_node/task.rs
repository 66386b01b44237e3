//! The background task of a persistent node.

use std::pin::pin;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{Either, select};
use tokio::sync::watch;
use zk_recipes::session::{
    Attempts, Client, Error, ErrorCode, ErrorKind, Reservation, SessionManager, Stat,
};

use super::builder::Options;
use super::node_watch::{Event, NodeWatch};
use super::own_node::{Lack, NumberedData, OwnNode, Owner};
use super::published::{Progress, Published};
use super::state::NodeState;
use super::timers::{Renewal, Timer};
use crate::background::{TASK_POLICY, open_client};
use crate::limits::{REMOVAL_ROUNDS, RESTORE_PAUSE, ROUNDS_AT_ONCE};
use crate::requests::{is_passing, is_session_end};

/// Data that the handle requests, or the end of its node. Its channel is closed when the handle is dropped.
#[derive(Debug)]
pub(super) struct NodeRequest {
    data: NumberedData,
    is_closing: bool,
}

impl NodeRequest {
    pub(super) fn new(data: Bytes) -> Self {
        Self { data: NumberedData { number: 1, data }, is_closing: false }
    }

    /// Returns the number of the data.
    pub(super) fn replace_data(&mut self, data: Bytes) -> u64 {
        self.data = NumberedData { number: self.data.number + 1, data };
        self.data.number
    }

    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }
}

/// Keeps one node, over any number of sessions.
///
/// The end of the handle interrupts waits and no requests, so the task learns what became of a create
/// before it deletes the node.
pub(super) struct NodeTask {
    node: OwnNode,
    /// The client of the latest session.
    client: Client,
    /// The right to use the path. Until then, the task changes nothing.
    reservation: Option<Reservation>,
    requested: watch::Receiver<NodeRequest>,
    published: Published,
    /// Number of the data of the latest attempt.
    tried: u64,
    /// The node did not exist at the last read.
    is_missing: bool,
    watch: NodeWatch,
    restoration: Timer,
    renewal: Renewal,
}

impl NodeTask {
    pub(super) fn new(
        path: &str,
        options: Options,
        client: Client,
        requested: watch::Receiver<NodeRequest>,
    ) -> (Self, watch::Receiver<NodeState>, watch::Receiver<Progress>) {
        let (published, states, progresses) = Published::new();
        let renewal = Renewal::new(options.mode);
        let task = Self {
            node: OwnNode::new(&client, path, options),
            client,
            reservation: None,
            requested,
            published,
            tried: 0,
            is_missing: true,
            watch: NodeWatch::Over,
            restoration: Timer::default(),
            renewal,
        };
        (task, states, progresses)
    }

    pub(super) async fn run(mut self, sessions: SessionManager) {
        let kept = self.keep_over_sessions(&sessions).await;
        let is_closing = self.requested.borrow().is_closing;
        let removed = match kept {
            Ok(()) if is_closing => self.remove(Some(&sessions)).await,
            Ok(()) => {
                drop(sessions); // a dropped handle opens no further session
                self.remove(None).await
            }
            Err(error) => return self.published.set_state(NodeState::Stopped { error }),
        };
        self.reservation = None;
        self.published.set_state(NodeState::Closed { error: removed.err() });
    }

    /// Keeps the node until the handle is closed or dropped.
    ///
    /// # Errors
    /// Returns the error with which the session manager stopped.
    async fn keep_over_sessions(&mut self, sessions: &SessionManager) -> Result<(), Error> {
        loop {
            let mut requested = self.requested.clone();
            // An error means that the handle was dropped.
            let over = async { drop(requested.wait_for(|requested| requested.is_closing).await) };
            match select(pin!(over), pin!(open_client(sessions))).await {
                Either::Left(_) => return Ok(()),
                Either::Right((opened, _)) => self.client = opened?,
            }
            self.watch = NodeWatch::Over;
            if self.may_use_path() || self.reserve_path(sessions).await {
                self.keep().await;
            }
            if self.is_over() {
                return Ok(());
            }
            self.published.set_state(NodeState::Pending);
        }
    }

    fn is_over(&self) -> bool {
        self.requested.has_changed().is_err() || self.requested.borrow().is_closing
    }

    fn may_use_path(&self) -> bool {
        !self.node.needs_reservation() || self.reservation.is_some()
    }

    /// Waits until no other handle of this process uses the path. Publishes its node as a conflict
    /// meanwhile. Returns false if the session or the handle ends first.
    async fn reserve_path(&mut self, sessions: &SessionManager) -> bool {
        let client = self.client.clone();
        let mut reserved = pin!(sessions.reserve(self.node.path()));
        self.reservation = reserved.as_mut().now_or_never();
        let mut attempts = TASK_POLICY.begin();
        while self.reservation.is_none() {
            if self.is_over() {
                return false;
            }
            self.tried = self.requested.borrow_and_update().data.number;
            match self.exists_and_watch(&client).await {
                Ok(Some(stat)) => self.published.set(conflict(&client, stat), self.tried),
                Ok(None) => self.published.set_state(NodeState::Pending),
                Err(error) if is_session_end(&error) => return false,
                Err(error) => {
                    if !is_passing(&error) {
                        self.refuse(error);
                    }
                    self.back_off(&client, &mut attempts).await;
                    continue;
                }
            }
            attempts.reset();
            let changed = pin!(self.watch.event(&client));
            let replaced = pin!(self.requested.changed());
            match select(reserved.as_mut(), select(changed, replaced)).await {
                Either::Left((reservation, _)) => self.reservation = Some(reservation),
                Either::Right((Either::Left((Err(_), _)), _)) => return false, // with the session
                Either::Right(_) => {}
            }
        }
        true
    }

    /// Keeps the node until the session or the handle has ended.
    async fn keep(&mut self) {
        let client = self.client.clone();
        self.is_missing = true;
        let mut unsettled = 0; // attempts since the last settled one
        let mut attempts = TASK_POLICY.begin();
        while !self.is_over() {
            let outcome = match self.attempt(&client).await {
                Ok(Some(state)) => {
                    unsettled = 0;
                    attempts.reset();
                    self.settle(&client, state).await
                }
                Ok(None) => {
                    unsettled += 1;
                    if unsettled < ROUNDS_AT_ONCE {
                        continue;
                    }
                    Ok(())
                }
                Err(error) => {
                    unsettled += 1;
                    Err(error)
                }
            };
            let is_failure = outcome.is_err();
            match outcome {
                Err(error) if is_session_end(&error) => return,
                Err(error) if !is_passing(&error) => self.refuse(error),
                _ => {}
            }
            if is_failure || unsettled > 0 {
                self.back_off(&client, &mut attempts).await;
            }
        }
    }

    /// Brings the node into the wanted state, with the requests of one step. Returns `None` if the
    /// node was changed, by this attempt or by another client. The next attempt reads it again.
    ///
    /// The state that it returns lasts until an event. A failed restoration stays due.
    async fn attempt(&mut self, client: &Client) -> Result<Option<NodeState>, Error> {
        let data = self.requested.borrow_and_update().data.clone();
        self.tried = data.number;
        if self.is_missing {
            match self.node.create(client, &data).await {
                Ok(()) => self.renewal.restart(),
                Err(error) if error.is_node_exists() => {}
                Err(error) => return Err(error),
            }
        }
        let Some(stat) = self.exists_and_watch(client).await? else { return Ok(None) };
        match self.node.owner(client, &stat) {
            Owner::Other => {
                self.restoration.stop();
                Ok(Some(conflict(client, stat)))
            }
            Owner::Earlier => {
                unless_raced(self.node.replace(client, &data).await)?;
                Ok(None)
            }
            Owner::Current => {
                self.node.confirm(&stat);
                match self.node.lack(&stat, &data) {
                    Lack::NewerData => {
                        let written = self.node.write(client, &stat, &data).await;
                        self.renewal.restart();
                        return unless_raced(written).map(|()| None);
                    }
                    Lack::OwnData if self.restoration.is_over() => {
                        unless_raced(self.node.restore(client, &stat, &data).await)?;
                        self.restoration.stop();
                        self.renewal.restart();
                        return Ok(None);
                    }
                    Lack::OwnData => self.restoration.start_unless_running(RESTORE_PAUSE),
                    Lack::Nothing => self.restoration.stop(),
                }
                Ok(Some(NodeState::Present { path: self.node.path().to_owned(), stat }))
            }
        }
    }

    /// Returns the Stat of the node at the path, and watches the path from now on.
    async fn exists_and_watch(&mut self, client: &Client) -> Result<Option<Stat>, Error> {
        let (found, watch) = NodeWatch::exists_and_watch(client, self.node.path()).await?;
        (self.is_missing, self.watch) = (found.is_none(), watch);
        Ok(found)
    }

    /// Publishes the state, and waits until another attempt is due. Renews the time to live meanwhile.
    async fn settle(&mut self, client: &Client, state: NodeState) -> Result<(), Error> {
        let present = state.stat().copied();
        self.published.set(state, self.tried);
        let stat = {
            let changed = pin!(self.watch.event(client));
            let replaced = pin!(self.requested.changed());
            let restoration = pin!(self.restoration.due());
            let renewal = pin!(async {
                match present {
                    Some(stat) => {
                        self.renewal.due().await;
                        stat
                    }
                    None => std::future::pending().await,
                }
            });
            match select(select(changed, select(replaced, restoration)), renewal).await {
                Either::Left((Either::Left((event, _)), _)) => {
                    if event? == Event::Deleted {
                        self.is_missing = true;
                        self.published.set_state(NodeState::Pending);
                    }
                    return Ok(());
                }
                Either::Left((Either::Right(_), _)) => return Ok(()),
                Either::Right((stat, _)) => stat,
            }
        };
        self.renew(client, &stat).await
    }

    /// Renews the time to live of the node with this Stat.
    async fn renew(&mut self, client: &Client, stat: &Stat) -> Result<(), Error> {
        let data = self.requested.borrow().data.clone();
        let renewed = unless_raced(self.node.renew(client, stat, &data).await);
        match renewed {
            Ok(()) => self.renewal.restart(),
            Err(_) => self.renewal.restart_soon(),
        }
        renewed
    }

    fn refuse(&self, error: Error) {
        self.published.set(NodeState::Refused { error }, self.tried);
    }

    /// Waits for the pause, the deletion of the node, the end of the session, or newer data. Renews the
    /// time to live meanwhile: the node must outlive a restoration that is refused.
    async fn back_off(&mut self, client: &Client, attempts: &mut Attempts<'_>) {
        let mut pause = pin!(attempts.pause(client));
        loop {
            let event = {
                let changed = pin!(self.watch.event(client));
                let replaced = pin!(self.requested.changed());
                let over = select(pause.as_mut(), replaced);
                let renewal = pin!(self.renewal.due());
                match select(changed, select(over, renewal)).await {
                    Either::Left((event, _)) => event,
                    Either::Right((Either::Left(_), _)) => return,
                    Either::Right((Either::Right(_), _)) => Ok(Event::Changed),
                }
            };
            match event {
                Ok(Event::Deleted) => return self.is_missing = true,
                Err(_) => return, // with the session
                // Another read sets the watch again. If it fails, the pause goes on without a watch.
                Ok(Event::Changed) => match self.exists_and_watch(client).await {
                    Ok(None) => return,
                    Ok(Some(stat)) if self.renewal.is_over() => {
                        drop(self.renew(client, &stat).await);
                    }
                    Ok(Some(_)) => {}
                    Err(_) if self.renewal.is_over() => self.renewal.restart_soon(),
                    Err(_) => {}
                },
            }
        }
    }

    /// Deletes the node. Without a session manager, the end of the session ends the attempts.
    async fn remove(&mut self, sessions: Option<&SessionManager>) -> Result<(), Error> {
        if !self.may_use_path() {
            return Ok(()); // nothing was created
        }
        let (mut attempts, mut rounds) = (TASK_POLICY.begin(), 0);
        loop {
            let Err(error) = self.node.delete(&self.client).await else { return Ok(()) };
            let is_raced = error.is_bad_version();
            rounds += u32::from(is_raced);
            match (sessions, error.kind()) {
                (Some(sessions), ErrorKind::SessionEnded(end)) if end.is_loss() => {
                    self.client = open_client(sessions).await?;
                    attempts.reset();
                }
                // A client at its limits sends the deletion later.
                _ if is_passing(&error)
                    || matches!(error.kind(), ErrorKind::LimitReached(_))
                    || is_raced && rounds < REMOVAL_ROUNDS =>
                {
                    attempts.pause(&self.client).await;
                }
                _ => return Err(error),
            }
        }
    }
}

fn conflict(client: &Client, stat: Stat) -> NodeState {
    let is_own_session = stat.is_ephemeral() && stat.ephemeral_owner == client.session_id();
    NodeState::Conflict { stat, is_own_session }
}

/// Ignores the rejection of a conditional write: another client has changed the node.
fn unless_raced(written: Result<(), Error>) -> Result<(), Error> {
    match written {
        Err(error) => match error.code() {
            Some(ErrorCode::BAD_VERSION | ErrorCode::NO_NODE | ErrorCode::NODE_EXISTS) => Ok(()),
            _ => Err(error),
        },
        Ok(()) => Ok(()),
    }
}
