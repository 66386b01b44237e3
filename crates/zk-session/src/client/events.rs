//! Following the life of a session.

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::SessionEvent;

/// The events of a session from the subscription on.
#[derive(Debug)]
pub struct SessionEvents {
    receiver: broadcast::Receiver<SessionEvent>,
    over: bool,
}

impl SessionEvents {
    /// Nothing comes after the end.
    pub(crate) fn new(receiver: broadcast::Receiver<SessionEvent>, over: bool) -> Self {
        Self { receiver, over }
    }

    /// The next event; `None` after the last one of the session, and at once if it was over
    /// before the subscription. A subscriber that
    /// reads too slowly gets a [`SessionEvent::Missed`] in place of what it missed.
    ///
    /// # Cancel safety
    /// No event is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<SessionEvent> {
        if self.over {
            return None;
        }
        let event = match self.receiver.recv().await {
            Ok(event) => event,
            Err(RecvError::Lagged(missed)) => SessionEvent::Missed(missed),
            Err(RecvError::Closed) => return None,
        };
        self.over = matches!(
            event,
            SessionEvent::Expired { .. }
                | SessionEvent::AuthFailed { .. }
                | SessionEvent::Closed { .. }
                | SessionEvent::Detached { .. }
        );
        Some(event)
    }
}
