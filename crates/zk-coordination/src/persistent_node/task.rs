//! The background task of a persistent node.

use std::future::pending;
use std::pin::pin;

use bytes::Bytes;
use futures::future::{Either, select};
use tokio::sync::watch;
use zk_recipes::limits::UNWATCHED_PAUSE;
use zk_recipes::session::{
    Attempts, Client, Error, ErrorCode, ErrorKind, EventType, SessionManager, Stat, Watch,
};

use super::builder::Options;
use super::own_node::{NumberedData, OwnNode, Owner, Write};
use super::published::{Progress, Published};
use super::renewal::Renewal;
use super::state::NodeState;
use crate::background::{TASK_POLICY, open_client};
use crate::limits::{RESTORE_PAUSE, ROUNDS_AT_ONCE};
use crate::requests::{is_passing, is_session_end};

/// The wishes of the handle. Their channel is closed when the handle is dropped.
#[derive(Debug)]
pub(super) struct Wanted {
    data: NumberedData,
    is_closing: bool,
}

impl Wanted {
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
pub(super) struct NodeTask {
    node: OwnNode,
    /// The client of the latest session.
    client: Client,
    wanted: watch::Receiver<Wanted>,
    published: Published,
    /// Number of the data of the latest attempt.
    tried: u64,
    /// The node did not exist at the last look.
    is_missing: bool,
    renewal: Renewal,
}

impl NodeTask {
    pub(super) fn new(
        path: &str,
        options: Options,
        client: Client,
        wanted: watch::Receiver<Wanted>,
    ) -> (Self, watch::Receiver<NodeState>, watch::Receiver<Progress>) {
        let (published, states, progresses) = Published::new();
        let renewal = Renewal::new(options.mode);
        let node = OwnNode::new(path, options);
        let task = Self { node, client, wanted, published, tried: 0, is_missing: true, renewal };
        (task, states, progresses)
    }

    pub(super) async fn run(mut self, sessions: SessionManager) {
        let mut wanted = self.wanted.clone();
        // An error means that the handle was dropped.
        let closing = async { wanted.wait_for(|wanted| wanted.is_closing).await.is_ok() };
        let ended = {
            match select(pin!(closing), pin!(self.keep_over_sessions(&sessions))).await {
                Either::Left((is_closed, _)) => Ok(is_closed),
                Either::Right((error, _)) => Err(error),
            }
        };
        let removed = match ended {
            Ok(true) => self.remove(Some(&sessions)).await,
            Ok(false) => {
                drop(sessions); // a dropped handle opens no further session
                self.remove(None).await
            }
            Err(error) => return self.published.set_state(NodeState::Stopped { error }),
        };
        self.published.set_state(NodeState::Closed { error: removed.err() });
    }

    /// Returns the error with which the session manager stopped.
    async fn keep_over_sessions(&mut self, sessions: &SessionManager) -> Error {
        loop {
            match open_client(sessions).await {
                Ok(client) => self.client = client.clone(),
                Err(error) => return error,
            }
            self.keep().await;
            self.published.set_state(NodeState::Pending);
        }
    }

    /// Keeps the node until the session has ended.
    async fn keep(&mut self) {
        let client = self.client.clone();
        self.is_missing = true;
        let mut unsettled = 0; // attempts since the last settled one
        let mut attempts = TASK_POLICY.begin();
        loop {
            let outcome = match self.attempt(&client).await {
                Ok(Some(settled)) => {
                    unsettled = 0;
                    attempts.reset();
                    self.settle(&client, settled).await
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
    /// node was changed, by this attempt or by another client. The next attempt looks again.
    async fn attempt(&mut self, client: &Client) -> Result<Option<Settled>, Error> {
        let data = self.wanted.borrow_and_update().data.clone();
        self.tried = data.number;
        if self.is_missing {
            match self.node.create(client, &data).await {
                Ok(()) => self.renewal.restart(),
                Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => {}
                Err(error) => return Err(error),
            }
        }
        let found = self.node.look(client).await?;
        self.is_missing = found.is_none();
        let Some((stat, watch)) = found else { return Ok(None) };
        match self.node.owner(client, &stat) {
            Owner::Other => {
                let state = NodeState::Conflict { stat };
                Ok(Some(Settled { state, stat, watch }))
            }
            Owner::Earlier => {
                unless_raced(self.node.replace(client, &stat, &data).await)?;
                Ok(None)
            }
            Owner::Current => {
                self.node.confirm(client);
                let Some(write) = self.node.write_needed(&stat, &data) else {
                    let state = NodeState::Present { path: self.node.path().to_owned(), stat };
                    return Ok(Some(Settled { state, stat, watch }));
                };
                if write == Write::Restore {
                    client.sleep(RESTORE_PAUSE).await;
                }
                let written = self.node.write(client, &stat, &data).await;
                self.renewal.restart();
                unless_raced(written)?;
                Ok(None)
            }
        }
    }

    /// Publishes the state, and waits until another attempt is due.
    async fn settle(&mut self, client: &Client, settled: Settled) -> Result<(), Error> {
        let Settled { state, stat, watch } = settled;
        let is_present = state.is_present();
        self.published.set(state, self.tried);
        let event = {
            let changed = pin!(next_event(client, watch));
            let replaced = pin!(self.wanted.changed());
            let renewal = pin!(async {
                match is_present {
                    true => self.renewal.due().await,
                    false => pending().await,
                }
            });
            match select(changed, select(replaced, renewal)).await {
                Either::Left((event, _)) => event?,
                Either::Right((Either::Left(_), _)) => Event::Changed,
                Either::Right((Either::Right(_), _)) => Event::RenewalDue,
            }
        };
        match event {
            Event::Deleted => {
                self.is_missing = true;
                if is_present {
                    self.node.record_deletion(client);
                }
                self.published.set_state(NodeState::Pending);
            }
            Event::Changed => {}
            Event::RenewalDue => {
                let data = self.wanted.borrow().data.clone();
                let renewed = unless_raced(self.node.renew(client, &stat, &data).await);
                match renewed {
                    Ok(()) => self.renewal.restart(),
                    Err(_) => self.renewal.restart_soon(),
                }
                renewed?;
            }
        }
        Ok(())
    }

    fn refuse(&self, error: Error) {
        self.published.set(NodeState::Refused { error }, self.tried);
    }

    /// Waits for the pause, the end of the session, or newer data.
    async fn back_off(&mut self, client: &Client, attempts: &mut Attempts<'_>) {
        select(pin!(attempts.pause(client)), pin!(self.wanted.changed())).await;
    }

    /// Deletes the node. Without a session manager, the end of the session ends the attempts.
    async fn remove(&mut self, sessions: Option<&SessionManager>) -> Result<(), Error> {
        let mut attempts = TASK_POLICY.begin();
        loop {
            let Err(error) = self.node.delete(&self.client).await else { return Ok(()) };
            match (sessions, error.kind()) {
                (Some(sessions), ErrorKind::SessionEnded(end)) if end.is_loss() => {
                    self.client = open_client(sessions).await?;
                    attempts.reset();
                }
                // A client at its limits sends the deletion later.
                _ if is_passing(&error)
                    || matches!(error.kind(), ErrorKind::LimitReached(_))
                    || error.code() == Some(ErrorCode::BAD_VERSION) =>
                {
                    attempts.pause(&self.client).await;
                }
                _ => return Err(error),
            }
        }
    }
}

/// A state that lasts until an event.
struct Settled {
    state: NodeState,
    stat: Stat,
    watch: Option<Watch>,
}

/// Why another attempt is due.
enum Event {
    Deleted,
    Changed,
    RenewalDue,
}

/// Waits for a change of the node; without a watch, until the node has to be read again.
async fn next_event(client: &Client, watch: Option<Watch>) -> Result<Event, Error> {
    let Some(watch) = watch else {
        client.sleep(UNWATCHED_PAUSE).await;
        return Ok(Event::Changed);
    };
    Ok(match watch.await?.event_type {
        EventType::NODE_DELETED => Event::Deleted,
        _ => Event::Changed,
    })
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
