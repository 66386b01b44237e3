//! Operations that are dropped after every number of polls.
//!
//! Each test drops an operation before the first poll, then after the first one, and so on until the
//! operation completes. Each run has a server of its own.

mod atomic;
mod barrier;
mod cache;
mod persistent_node;

use futures::FutureExt;

/// Runs an operation with 0, 1, 2 and more polls, until it completes. `run` returns true then.
async fn drop_after_every_poll(what: &str, mut run: impl AsyncFnMut(usize, &str) -> bool) {
    let mut polls = 0;
    while !run(polls, &format!("{what}, {polls} polls")).await {
        polls += 1;
        assert!(polls < 200, "{what} never completes");
    }
    assert!(polls >= 2, "{what} completes after {polls} polls, so nothing is dropped halfway");
}

/// Polls a future up to `polls` times, with a run of the other tasks after each, and drops it if it
/// is still pending. No time passes meanwhile.
pub(crate) async fn polled_with_yields<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    for _ in 0..polls {
        if let Some(done) = future.as_mut().now_or_never() {
            return Some(done);
        }
        tokio::task::yield_now().await;
    }
    None
}
