//! Subscription to the events of a session.

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::SessionEvent;

/// Subscription to the events of a session; see [`Client::events`](crate::Client::events).
#[derive(Debug)]
pub struct SessionEvents {
    receiver: broadcast::Receiver<SessionEvent>,
    over: bool,
}

impl SessionEvents {
    /// Creates a subscription. `over` says that the session has ended; no event follows the end.
    pub(crate) fn new(receiver: broadcast::Receiver<SessionEvent>, over: bool) -> Self {
        Self { receiver, over }
    }

    /// Waits for the next event.
    ///
    /// Returns `None` after the last event of the session, and at once if the session had ended
    /// before the subscription. A subscriber that reads too slowly gets a [`SessionEvent::Missed`]
    /// in place of the events that it missed.
    ///
    /// # Cancel safety
    /// This method is cancel safe. No event is lost when the future is dropped.
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
