//! Watch on the node of a handle.

use std::future::pending;

use zk_recipes::limits::UNWATCHED_PAUSE;
use zk_recipes::session::{Client, Error, ErrorKind, EventType, Stat, Watch};

/// Watch that the last read of the path has set.
///
/// It outlives pauses. So a deletion during a pause is noticed, and the node is never written with a
/// version that was read before.
#[derive(Debug)]
pub(super) enum NodeWatch {
    /// The path was not read yet, or the watch has fired.
    Over,
    Set(Watch),
    /// The session has too many watches.
    Refused,
}

/// Event of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Deleted,
    /// The node was created, its data was set, or it has to be read again for want of a watch.
    Changed,
}

impl NodeWatch {
    /// Returns the Stat of the node at the path, and a watch on the path.
    pub(super) async fn exists_and_watch(
        client: &Client,
        path: &str,
    ) -> Result<(Option<Stat>, Self), Error> {
        match client.exists_and_watch(path).await {
            Ok((stat, watch)) => Ok((stat, Self::Set(watch))),
            Err(error) if matches!(error.kind(), ErrorKind::LimitReached(_)) => {
                Ok((client.exists(path).await?, Self::Refused))
            }
            Err(error) => Err(error),
        }
    }

    /// Waits for an event. Dropping the future loses nothing.
    pub(super) async fn event(&mut self, client: &Client) -> Result<Event, Error> {
        let event = match self {
            Self::Over => pending().await,
            Self::Set(watch) => watch.await,
            Self::Refused => {
                client.runtime().sleep(UNWATCHED_PAUSE).await;
                return Ok(Event::Changed);
            }
        };
        *self = Self::Over;
        Ok(match event?.event_type {
            EventType::NODE_DELETED => Event::Deleted,
            _ => Event::Changed,
        })
    }
}
