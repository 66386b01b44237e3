//! What clients work on. Each recipe is one more file here.

pub(crate) mod mutex;
pub(crate) mod requests;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll};
use std::time::Duration;

use zk_session::Client;

use crate::process::Process;
use crate::rng::Rng;
use crate::world::World;

/// What a contender has.
pub(crate) struct Seat {
    pub(crate) world: Arc<World>,
    pub(crate) client: Client,
    pub(crate) process: Arc<Process>,
    pub(crate) timeout: Duration,
    pub(crate) name: String,
    pub(crate) rng: Rng,
    /// True while somebody of this client waits for a loss. tokio wakes several who wait for the
    /// same in an order that it draws itself, which no seed decides; so only one does.
    pub(crate) lost_is_watched: Arc<AtomicBool>,
}

/// A future that is dropped when it was pending so many times: `None` then.
pub(crate) struct Impatient<F> {
    pub(crate) future: Option<Pin<Box<F>>>,
    pub(crate) patience: u64,
}

impl<F: Future> Future for Impatient<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        if self.patience == 0 {
            self.future = None;
            return Poll::Ready(None);
        }
        self.patience -= 1;
        Poll::Pending
    }
}
