//! Subscription to the events of a session.

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use zk_session_core::SessionEvent;

use super::Client;

/// Subscription to the events of a session; see [`Client::events`](crate::Client::events).
#[derive(Debug)]
pub struct SessionEvents {
    receiver: broadcast::Receiver<SessionEvent>,
    /// The session has ended; no event follows the end.
    over: bool,
}

/// # Session events
impl Client {
    /// Subscribes to the events of the session. Earlier events are not delivered.
    #[must_use]
    pub fn events(&self) -> SessionEvents {
        let session = self.shared.lock(); // the session cannot end in between
        let (receiver, over) = (self.shared.subscribe(), session.end_reason().is_some());
        SessionEvents { receiver, over }
    }
}

impl SessionEvents {
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
