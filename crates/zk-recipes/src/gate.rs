//! The way into a lock whose contenders queue: what the handles of a mutex and of both
//! sides of a read-write lock have in common.

use std::sync::Arc;
use std::time::Duration;

use zk_session::{Belief, Client};

use crate::error::LockError;
use crate::guard::Guard;
use crate::hold::Hold;
use crate::owner::{Entrance, Owner, Side, Way};
use crate::queue::contender::Contender;
use crate::queue::kind::Kind;
use crate::queue::turn;
use crate::rwlock::beside_for_owner;

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

    pub(crate) fn owned_by(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    pub(crate) fn kind_mut(&mut self) -> &mut Kind {
        Arc::make_mut(&mut self.kind)
    }

    pub(crate) async fn acquire(&self) -> Result<Guard, LockError> {
        let entrance = match &self.owner {
            None => None,
            Some(owner) => {
                let slot = owner.slot(&self.client, &self.kind);
                match slot.way_in(self.side()).await? {
                    Way::Held(guard) => return Ok(guard),
                    Way::Beside(writer, entrance) => {
                        return Box::pin(beside_for_owner(&writer, entrance)).await;
                    }
                    Way::Queue(entrance) => Some(entrance),
                }
            }
        };
        let mut contender = Contender::new(&self.client, &self.kind);
        let belief = turn::wait(&mut contender).await?;
        self.admit(contender, belief, entrance)
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        let entrance = match &self.owner {
            None => None,
            Some(owner) => {
                let slot = owner.slot(&self.client, &self.kind);
                match slot.try_way_in(self.side())? {
                    None => return Ok(None),
                    Some(Way::Held(guard)) => return Ok(Some(guard)),
                    Some(Way::Beside(writer, entrance)) => {
                        return Box::pin(beside_for_owner(&writer, entrance)).await.map(Some);
                    }
                    Some(Way::Queue(entrance)) => Some(entrance),
                }
            }
        };
        let mut contender = Contender::new(&self.client, &self.kind);
        match turn::look_once(&mut contender).await? {
            Some(belief) => self.admit(contender, belief, entrance).map(Some),
            None => Ok(None),
        }
    }

    pub(crate) async fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> Result<Option<Guard>, LockError> {
        if timeout.is_zero() {
            return self.try_acquire().await; // one look takes time, too
        }
        match tokio::time::timeout(timeout, self.acquire()).await {
            Ok(acquired) => acquired.map(Some),
            Err(_) => Ok(None),
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) fn kind(&self) -> &Kind {
        &self.kind
    }

    fn side(&self) -> Side {
        Side::of(self.kind.admission)
    }

    fn admit(
        &self,
        contender: Contender,
        belief: Belief,
        entrance: Option<Entrance>,
    ) -> Result<Guard, LockError> {
        let hold = Hold::new(contender, belief)?;
        Ok(match entrance {
            Some(entrance) => entrance.admit(self.side(), hold),
            None => Guard::new(Arc::new(hold)),
        })
    }
}
