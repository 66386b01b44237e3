//! Subscription to the events of a session.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::Stream;
use tokio::sync::broadcast::error::RecvError;
use zk_session_core::SessionEvent;

use super::Client;
use super::subscription::Subscription;

/// Subscription to the events of a session; see [`Client::events`](crate::Client::events).
///
/// It also implements [`futures::Stream`].
pub struct SessionEvents {
    subscription: Subscription<SessionEvent>,
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
        SessionEvents { subscription: Subscription::new(receiver), over }
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
        let received = self.subscription.recv().await;
        self.event(received)
    }

    fn event(&mut self, received: Result<SessionEvent, RecvError>) -> Option<SessionEvent> {
        let event = match received {
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

impl Stream for SessionEvents {
    type Item = SessionEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SessionEvent>> {
        if self.over {
            return Poll::Ready(None);
        }
        let received = ready!(self.subscription.poll_recv(cx));
        Poll::Ready(self.event(received))
    }
}

impl fmt::Debug for SessionEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionEvents").field("over", &self.over).finish_non_exhaustive()
    }
}
