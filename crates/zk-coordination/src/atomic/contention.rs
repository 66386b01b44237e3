//! Conflicts of a change: pauses, and promotion to a lock.

use zk_recipes::session::{Attempts, Client};
use zk_recipes::{Guard, Mutex};

use super::error::AtomicError;
use crate::limits::CONFLICTS_MAX;
use crate::requests::CONFLICT_POLICY;

/// When a change acquires a lock before it goes on.
#[derive(Clone, Debug)]
pub(super) struct Promotion {
    pub(super) lock: Mutex,
    /// The number of conflicts before it acquires the lock.
    pub(super) after: u32,
}

/// The conflicts of one change. Dropping it releases the lock.
#[derive(Debug)]
pub(super) struct Contention<'a> {
    client: &'a Client,
    path: &'a str,
    promotion: Option<&'a Promotion>,
    conflicts: u32,
    pauses: Attempts<'static>,
    guard: Option<Guard>,
}

impl<'a> Contention<'a> {
    pub(super) fn new(client: &'a Client, path: &'a str, promotion: Option<&'a Promotion>) -> Self {
        Self { client, path, promotion, conflicts: 0, pauses: CONFLICT_POLICY.begin(), guard: None }
    }

    /// Waits after a conflict.
    ///
    /// The holder of the lock waits for the first pause only, so that changes without the lock do
    /// not overtake it for ever. The lock protects nothing: the value is still compared with its
    /// version, so a lost lock does no harm.
    ///
    /// # Errors
    /// [`AtomicError::Contended`] after too many conflicts, and the errors of the lock.
    pub(super) async fn conflict(&mut self) -> Result<(), AtomicError> {
        self.conflicts += 1;
        if self.conflicts >= CONFLICTS_MAX {
            let (path, attempts) = (self.path.to_owned(), self.conflicts);
            return Err(AtomicError::Contended { path, attempts });
        }
        match self.promotion {
            Some(promotion) if self.conflicts >= promotion.after => {
                if self.guard.is_none() {
                    self.guard = Some(promotion.lock.acquire().await?);
                    return Ok(());
                }
                self.pauses.reset();
            }
            _ => {}
        }
        self.pauses.pause(self.client).await;
        Ok(())
    }
}
