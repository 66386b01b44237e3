//! Acquisition of locks with a queue, shared by the handles of a mutex and of both sides of a
//! read-write lock.

use std::sync::Arc;
use std::time::Duration;

use zk_session::{Client, LeaseTerm};

use crate::deadline::{at_once, in_time, while_connected};
use crate::error::LockError;
use crate::guard::Guard;
use crate::hold::Hold;
use crate::owner::{Entrance, Owner, Side, Way, admit};
use crate::queue::contender::Contender;
use crate::queue::kind::Kind;
use crate::queue::turn::Turn;
use crate::rwlock::beside_for_owner;
use crate::waiting::{Queued, Waiting};

#[derive(Clone, Debug)]
pub(crate) struct Gate {
    client: Client,
    kind: Arc<Kind>,
    owner: Option<Owner>,
}

impl Gate {
    pub(crate) fn new(client: &Client, kind: Kind) -> Self {
        Self { client: client.clone(), kind: Arc::new(kind), owner: None }
    }

    pub(crate) fn with_owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    pub(crate) fn kind_mut(&mut self) -> &mut Kind {
        Arc::make_mut(&mut self.kind)
    }

    pub(crate) async fn acquire(&self) -> Result<Guard, LockError> {
        match self.way_in().await? {
            WayIn::LetIn(guard) => Ok(guard),
            WayIn::Queue(entrance) => {
                let mut turn = Turn::new(self.contender());
                let belief = turn.come().await?;
                self.admit(entrance, turn, belief)
            }
        }
    }

    pub(crate) async fn enqueue<G>(&self) -> Result<Waiting<G>, LockError> {
        match self.way_in().await? {
            WayIn::LetIn(guard) => Ok(Waiting::let_in(guard)),
            WayIn::Queue(entrance) => {
                let mut turn = Turn::with_place(self.contender());
                turn.settle().await?;
                Ok(Waiting::queued(Queued { turn, side: self.side(), entrance }))
            }
        }
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        while_connected(&self.client, &self.kind.path, self.attempt()).await
    }

    async fn attempt(&self) -> Result<Option<Guard>, LockError> {
        let entrance = match &self.owner {
            None => None,
            Some(owner) => {
                let slot = owner.slot(&self.client, &self.kind);
                let Some(way) = slot.try_way_in(self.side())? else { return Ok(None) };
                match let_in(way).await? {
                    WayIn::LetIn(guard) => return Ok(Some(guard)),
                    WayIn::Queue(entrance) => entrance,
                }
            }
        };
        let mut turn = Turn::new(self.contender());
        match turn.look_once().await? {
            Some(belief) => self.admit(entrance, turn, belief).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) async fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Option<Guard>, LockError> {
        match timeout.is_zero() {
            true => at_once(&self.client, self.try_acquire()).await,
            false => in_time(&self.client, timeout, self.acquire()).await.transpose(),
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    async fn way_in(&self) -> Result<WayIn, LockError> {
        match &self.owner {
            None => Ok(WayIn::Queue(None)),
            Some(owner) => {
                let slot = owner.slot(&self.client, &self.kind);
                let_in(slot.way_in(self.side()).await?).await
            }
        }
    }

    fn contender(&self) -> Contender {
        Contender::new(&self.client, &self.kind)
    }

    fn admit(
        &self,
        entrance: Option<Entrance>,
        turn: Turn,
        belief: LeaseTerm,
    ) -> Result<Guard, LockError> {
        let hold = Hold::new(turn.into_contender(), belief)?;
        Ok(admit(entrance, self.side(), hold))
    }

    fn side(&self) -> Side {
        Side::of(self.kind.admission)
    }
}

/// Result of the re-entry check: a guard, or the need to queue.
enum WayIn {
    LetIn(Guard),
    Queue(Option<Entrance>),
}

/// Re-enters the lock for its owner if possible; otherwise returns that the owner has to queue.
async fn let_in(way: Way) -> Result<WayIn, LockError> {
    match way {
        Way::Held(guard) => Ok(WayIn::LetIn(guard)),
        Way::Beside(writer, entrance) => {
            // On the heap: waiters do not need this memory.
            Box::pin(beside_for_owner(&writer, entrance)).await.map(WayIn::LetIn)
        }
        Way::Queue(entrance) => Ok(WayIn::Queue(Some(entrance))),
    }
}
