//! Acquisition of locks with a queue, shared by the handles of a mutex and of both sides of a
//! read-write lock.

use std::sync::Arc;
use std::time::Duration;

use zk_session::{Client, LeaseTerm};

use crate::deadline::{at_once, in_time, while_connected};
use crate::error::LockError;
use crate::guard::Guard;
use crate::holding::Holding;
use crate::owner::{Owner, ReentryPermit, Side, Way, admit};
use crate::queue::contender::Contender;
use crate::queue::kind::Kind;
use crate::queue::waiter::Waiter;
use crate::rwlock::beside_for_owner;
use crate::ticket::{Queued, Ticket};

#[derive(Clone, Debug)]
pub(crate) struct LockHandle {
    client: Client,
    kind: Arc<Kind>,
    owner: Option<Owner>,
}

impl LockHandle {
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
            Entry::LetIn(guard) => Ok(guard),
            Entry::Queue(entrance) => {
                let mut waiter = Waiter::new(self.contender());
                let term = waiter.acquire().await?;
                self.admit(entrance, waiter, term)
            }
        }
    }

    pub(crate) async fn enqueue<G>(&self) -> Result<Ticket<G>, LockError> {
        match self.way_in().await? {
            Entry::LetIn(guard) => Ok(Ticket::let_in(guard)),
            Entry::Queue(entrance) => {
                let mut waiter = Waiter::with_place(self.contender());
                waiter.settle().await?;
                Ok(Ticket::queued(Queued { waiter, side: self.side(), entrance }))
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
                    Entry::LetIn(guard) => return Ok(Some(guard)),
                    Entry::Queue(entrance) => entrance,
                }
            }
        };
        let mut waiter = Waiter::new(self.contender());
        match waiter.look_once().await? {
            Some(term) => self.admit(entrance, waiter, term).map(Some),
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

    async fn way_in(&self) -> Result<Entry, LockError> {
        match &self.owner {
            None => Ok(Entry::Queue(None)),
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
        entrance: Option<ReentryPermit>,
        waiter: Waiter,
        term: LeaseTerm,
    ) -> Result<Guard, LockError> {
        let hold = Holding::new(waiter.into_contender(), term)?;
        Ok(admit(entrance, self.side(), hold))
    }

    fn side(&self) -> Side {
        Side::of(self.kind.admission)
    }
}

/// Result of the re-entry check: a guard, or the need to queue.
enum Entry {
    LetIn(Guard),
    Queue(Option<ReentryPermit>),
}

/// Re-enters the lock for its owner if possible; otherwise returns that the owner has to queue.
async fn let_in(way: Way) -> Result<Entry, LockError> {
    match way {
        Way::LockGuard(guard) => Ok(Entry::LetIn(guard)),
        Way::Beside(writer, entrance) => {
            // On the heap: waiters do not need this memory.
            Box::pin(beside_for_owner(&writer, entrance)).await.map(Entry::LetIn)
        }
        Way::Queue(entrance) => Ok(Entry::Queue(Some(entrance))),
    }
}
