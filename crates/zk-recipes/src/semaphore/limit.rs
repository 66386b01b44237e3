//! The limit of a semaphore: a fixed number, or a count that all processes share and may change.

use futures::FutureExt;
use futures::future::{BoxFuture, pending};

use crate::error::LockError;
use crate::shared_count::{SharedCount, VersionedCount};

/// Source of a semaphore's limit.
#[derive(Clone, Debug)]
pub(super) enum PermitLimit {
    Fixed(u32),
    Shared(SharedCount),
}

impl PermitLimit {
    /// Reads the limit, and returns it in a form that follows its changes.
    pub(super) async fn follow(&self) -> Result<Followed, LockError> {
        Ok(match self {
            Self::Fixed(limit) => Followed { now: *limit, shared: None },
            Self::Shared(count) => {
                let (count, seen) = (count.clone(), count.get().await?);
                let now = permits(&seen);
                Followed { now, shared: Some(Box::new(Shared { count, seen, newer: None })) }
            }
        })
    }
}

/// The limit during one acquisition.
pub(super) struct Followed {
    now: u32,
    /// On the heap: a waiter of a fixed limit does not need this memory.
    shared: Option<Box<Shared>>,
}

struct Shared {
    count: SharedCount,
    seen: VersionedCount,
    /// Kept from one wait to the next, so that its watch is set once for each change.
    newer: Option<BoxFuture<'static, Result<VersionedCount, LockError>>>,
}

impl Followed {
    /// Returns the newest limit that was read.
    pub(super) fn now(&self) -> u32 {
        self.now
    }

    /// Reads the limit again, after a wait in which it was not followed.
    pub(super) async fn refresh(&mut self) -> Result<(), LockError> {
        if let Some(shared) = &mut self.shared {
            let read = shared.count.get().await?;
            if read.zxid() > shared.seen.zxid() {
                (shared.seen, shared.newer) = (read, None);
                self.now = permits(&shared.seen);
            }
        }
        Ok(())
    }

    /// Waits for a newer limit. Dropping the future loses nothing.
    pub(super) async fn changed(&mut self) -> Result<(), LockError> {
        let Some(shared) = &mut self.shared else { return pending().await };
        let newer = shared.newer.get_or_insert_with(|| {
            let (count, before) = (shared.count.clone(), shared.seen.clone());
            async move { count.changed(&before).await }.boxed()
        });
        let told = newer.await;
        shared.newer = None;
        shared.seen = told?;
        self.now = permits(&shared.seen);
        Ok(())
    }

    /// Waits until the limit is at least `permits`.
    pub(super) async fn at_least(&mut self, permits: u32) -> Result<(), LockError> {
        while self.now() < permits {
            self.changed().await?;
        }
        Ok(())
    }
}

/// Returns the number of permits for a count; a negative count allows none.
fn permits(count: &VersionedCount) -> u32 {
    u32::try_from(count.count()).unwrap_or(0)
}
