//! A broadcast channel that can be polled, as a stream must be.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

/// The receiver of a channel, which has no method to poll it, or the future that has it.
pub(super) struct Subscription<T> {
    receiver: Option<Receiver<T>>,
    waiting: Option<Waiting<T>>,
}

type Waiting<T> = Pin<Box<dyn Future<Output = (Result<T, RecvError>, Receiver<T>)> + Send + Sync>>;

impl<T: Clone + Send + Sync + 'static> Subscription<T> {
    pub(super) fn new(receiver: Receiver<T>) -> Self {
        Self { receiver: Some(receiver), waiting: None }
    }

    /// As [`Receiver::recv`].
    pub(super) async fn recv(&mut self) -> Result<T, RecvError> {
        match &mut self.receiver {
            // Unlike a poll, it allocates nothing.
            Some(receiver) => receiver.recv().await,
            None => poll_fn(|cx| self.poll_recv(cx)).await,
        }
    }

    pub(super) fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
        let mut waiting = match (self.waiting.take(), self.receiver.take()) {
            (Some(waiting), _) => waiting,
            (None, Some(mut receiver)) => {
                Box::pin(async move { (receiver.recv().await, receiver) })
            }
            (None, None) => unreachable!("one of them has the receiver"),
        };
        match waiting.as_mut().poll(cx) {
            Poll::Ready((received, receiver)) => {
                self.receiver = Some(receiver);
                Poll::Ready(received)
            }
            Poll::Pending => {
                self.waiting = Some(waiting);
                Poll::Pending
            }
        }
    }
}
