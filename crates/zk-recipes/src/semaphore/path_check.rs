//! The check that no other recipe uses the path of a semaphore.

use std::sync::atomic::{AtomicI64, Ordering};

use zk_session::{Children, Client, Error, Pending, Zxid};

use crate::error::LockError;
use crate::queue::foreign::refuse_beside_semaphore;

/// Detects nodes of other recipes, once for all clones of a handle. The check is repeated after the
/// server has removed the node of the leases. See [`foreign`](crate::queue::foreign).
#[derive(Debug)]
pub(super) struct PathCheck {
    pub(super) path: String,
    /// The czxid of the leases' node at the last check; 0 before the first check.
    checked: AtomicI64,
}

impl PathCheck {
    pub(super) fn new(path: &str) -> Self {
        Self { path: path.to_owned(), checked: AtomicI64::new(0) }
    }

    /// Requests the children of the path, unless the path was checked. The caller has requested a
    /// permit before, in the same write.
    pub(super) fn list(&self, client: &Client) -> Option<Pending<Children>> {
        let is_checked = self.checked.load(Ordering::Acquire) != 0;
        (!is_checked).then(|| client.get_children(&self.path))
    }

    /// Returns true if the path was checked since the node of the leases was created.
    pub(super) fn is_checked(&self, leases: Option<Zxid>) -> bool {
        leases.is_some_and(|leases| Zxid(self.checked.load(Ordering::Acquire)) == leases)
    }

    /// Checks the path.
    ///
    /// `leases` is the czxid of the leases' node, if it is known. `listed` is the reply to
    /// [`list`](Self::list), if the server created a lease before that list.
    ///
    /// # Errors
    /// [`LockError::ForeignNode`], or the error of a failed request.
    pub(super) async fn check(
        &self,
        client: &Client,
        leases: Option<Zxid>,
        listed: Option<Result<Children, Error>>,
    ) -> Result<(), LockError> {
        refuse_beside_semaphore(client, &self.path, listed).await?;
        if let Some(leases) = leases {
            self.checked.store(leases.0, Ordering::Release);
        }
        Ok(())
    }
}
