//! Changes in the sessions of a manager, and the subscriptions to them.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::Stream;
use proto::SessionId;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use zk_session_core::{Error, ErrorKind, SessionEnd};

use super::subscription::Subscription;

/// Change in the sessions of a [`SessionManager`](super::SessionManager).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SessionChange {
    /// The current session has ended, and everything that was tied to it.
    Ended {
        /// The id of the session that has ended.
        session_id: SessionId,
        /// How it ended.
        cause: SessionEnd,
    },
    /// The first or the next session could not be opened.
    AttemptFailed {
        /// The error of the attempt.
        error: Error,
        /// Number of failed attempts since the last session ended, or since the start.
        attempts: u32,
        /// The pause before the next attempt.
        pause: Duration,
    },
    /// The next session is open, or the first one of [`SessionManager::start`](super::SessionManager::start).
    Opened {
        /// The id of the session that has ended; [`SessionId::NONE`] for the first one.
        previous_id: SessionId,
        /// The id of the new session. With a read-only server it is [`SessionId::NONE`],
        /// because there is no session yet ([`Config::allow_read_only`](super::Config::allow_read_only)).
        session_id: SessionId,
    },
    /// The manager opens no further session, for this reason. It is the last change.
    Stopped(Error),
    /// The subscriber read too slowly, and this many changes were dropped.
    Missed(u64),
}

impl fmt::Display for SessionChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { session_id, cause } => write!(f, "session {session_id}: {cause}"),
            Self::AttemptFailed { error, attempts, pause } => {
                write!(f, "attempt {attempts} failed: {error}; the next one in {pause:.1?}")
            }
            Self::Opened { previous_id: SessionId::NONE, session_id } => {
                write!(f, "session {session_id} is open")
            }
            Self::Opened { previous_id, session_id } => {
                write!(f, "session {session_id} takes the place of {previous_id}")
            }
            Self::Stopped(error) => match error.kind() {
                ErrorKind::SessionEnded(SessionEnd::Closed) => {
                    f.write_str("the session manager is closed")
                }
                _ => write!(f, "no next session: {error}"),
            },
            Self::Missed(missed) => write!(f, "{missed} changes were missed"),
        }
    }
}

/// Subscription to the [changes](super::SessionManager::changes) of a manager.
///
/// It also implements [`futures::Stream`].
pub struct SessionChanges {
    subscription: Subscription<SessionChange>,
    /// The reason, if the manager had stopped before the subscription.
    stopped: Option<Error>,
    /// The subscriber has read the last change.
    is_over: bool,
}

impl SessionChanges {
    pub(super) fn new(receiver: Receiver<SessionChange>, stopped: Option<Error>) -> Self {
        Self { subscription: Subscription::new(receiver), stopped, is_over: false }
    }

    /// Waits for the next change.
    ///
    /// Returns `None` when the manager has stopped, or its last handle is dropped. A subscriber
    /// that reads too slowly gets a [`SessionChange::Missed`].
    ///
    /// # Cancel safety
    /// This method is cancel safe. No change is lost when the future is dropped.
    pub async fn next(&mut self) -> Option<SessionChange> {
        poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for SessionChanges {
    type Item = SessionChange;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<SessionChange>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let change = match self.stopped.take() {
            Some(error) => SessionChange::Stopped(error),
            None => match ready!(self.subscription.poll_recv(cx)) {
                Ok(change) => change,
                Err(RecvError::Lagged(missed)) => SessionChange::Missed(missed),
                Err(RecvError::Closed) => return Poll::Ready(None),
            },
        };
        self.is_over = matches!(change, SessionChange::Stopped(_));
        Poll::Ready(Some(change))
    }
}

impl fmt::Debug for SessionChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionChanges").field("is_over", &self.is_over).finish_non_exhaustive()
    }
}
