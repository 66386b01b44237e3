//! What a lock rests on: the belief that this session's nodes still exist.

use std::fmt;
use std::future::Future;
use std::time::Instant;

use tokio::sync::watch;

use super::Client;
use crate::SessionEnd;
use crate::core::Standing;
use crate::driver::now;

/// Why the ephemeral nodes of a session can no longer be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LeaseLoss {
    /// The session is over.
    SessionEnded(SessionEnd),
    /// The leader has not answered for so long that it may be about to expire the
    /// session. The session may turn out to live on; the belief does not.
    DeadlinePassed,
}

impl fmt::Display for LeaseLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SessionEnded(end) => write!(f, "{end}"),
            Self::DeadlinePassed => f.write_str("the leader did not answer within the lease"),
        }
    }
}

/// A claim on the lease of a session: as long as one exists, the leader is asked
/// for signs of life. Pings are not enough, because a follower answers them
/// long after the leader has expired the session.
#[derive(Debug)]
pub struct LeaseClaim {
    client: Client,
}

impl LeaseClaim {
    pub(super) fn new(client: Client) -> Self {
        client.shared().lock().claim_lease();
        client.shared().wake();
        Self { client }
    }

    /// Binds a belief to the lease as it stands; `None` if it does not hold now.
    /// Asking the leader for anything, such as a [`Client::sync`], renews it.
    #[must_use]
    pub fn bind(&self) -> Option<Belief> {
        let (term, _) = self.client.shared().lock().lease(now())?;
        Some(Belief { term })
    }

    /// Until when the belief holds if nothing more is heard; `None` if it is lost.
    #[must_use]
    pub fn valid_until(&self, belief: Belief) -> Option<Instant> {
        let (term, until) = self.client.shared().lock().lease(now())?;
        (term == belief.term).then_some(until)
    }

    /// Looks at the clock: true if the belief holds this very moment.
    #[must_use]
    pub fn holds(&self, belief: Belief) -> bool {
        self.valid_until(belief).is_some()
    }

    /// Why a belief that does not hold any more does not.
    #[must_use]
    pub fn loss(&self) -> LeaseLoss {
        why(self.client.shared().lock().standing())
    }

    /// Waits until the belief is lost. Once it is, it stays so.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub fn lost(&self, belief: Belief) -> impl Future<Output = LeaseLoss> + Send + use<> {
        lost(self.client.shared().standing(), belief)
    }
}

impl Drop for LeaseClaim {
    fn drop(&mut self) {
        self.client.shared().lock().unclaim_lease();
    }
}

/// A belief in the existence of this session's nodes, bound to one unbroken term
/// of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    term: u64,
}

async fn lost(mut standing: watch::Receiver<Standing>, belief: Belief) -> LeaseLoss {
    loop {
        let now = *standing.borrow_and_update();
        if now.ended.is_some() || now.closing || now.term != belief.term {
            return why(now);
        }
        if standing.changed().await.is_err() {
            return LeaseLoss::SessionEnded(SessionEnd::Closed);
        }
    }
}

fn why(standing: Standing) -> LeaseLoss {
    match standing.ended {
        Some(end) => LeaseLoss::SessionEnded(end),
        None if standing.closing => LeaseLoss::SessionEnded(SessionEnd::Closed),
        None => LeaseLoss::DeadlinePassed,
    }
}
