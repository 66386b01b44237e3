//! Lines on standard error about the sessions of a command that watches.

use std::cell::Cell;
use std::convert::Infallible;

use crate::prelude::{Failure, Output, Result, Session, Sessions};
use crate::signals::{Signals, number};

/// Tells when a command watches, when its session is lost, and when it watches in the next one.
pub(crate) struct WatchNotes<'a> {
    path: &'a str,
    output: Output,
    state: Cell<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    NotBegun,
    Watching,
    Lost,
}

impl<'a> WatchNotes<'a> {
    pub(crate) fn new(path: &'a str, output: Output) -> Self {
        Self { path, output, state: Cell::new(State::NotBegun) }
    }

    /// Does `work` in one session after the other, until it fails for another reason than the end of its
    /// session. A signal is the intended end of a command that watches. `on_signal` tells whether `work`
    /// still runs a command, and ends soon.
    pub(crate) async fn follow(
        &self,
        mut sessions: Sessions,
        on_signal: impl FnOnce() -> bool,
        work: impl AsyncFnMut(&Session) -> Result<Infallible>,
    ) -> Result<u8> {
        let mut signals = Signals::new()?;
        let mut following = Box::pin(self.follow_sessions(&mut sessions, work));
        let ended = tokio::select! {
            failure = &mut following => Err(failure),
            signal = signals.next() => {
                if on_signal() {
                    following.as_mut().await;
                }
                if self.has_begun() { Ok(0) } else { Err(Failure::interrupted(number(signal))) }
            }
        };
        drop(following);
        sessions.close().await;
        ended
    }

    async fn follow_sessions(
        &self,
        sessions: &mut Sessions,
        mut work: impl AsyncFnMut(&Session) -> Result<Infallible>,
    ) -> Failure {
        sessions.keep_trying();
        loop {
            let ended = match sessions.open(None).await {
                Ok(session) => work(&session).await,
                Err(failure) => return failure,
            };
            let Err(failure) = ended;
            if !failure.starts_over {
                return failure;
            }
            self.lost();
        }
    }

    /// Returns the session for requests. Once the command watches, it waits for the ensemble without a
    /// limit.
    pub(crate) fn session(&self, session: &Session) -> Session {
        if self.has_begun() { session.endless() } else { session.clone() }
    }

    pub(crate) fn begin(&self) {
        let path = self.path;
        match self.state.replace(State::Watching) {
            State::NotBegun => self.output.note(&format!("watching {path}")),
            _ => self.output.note(&format!("the session had ended; watching {path} in a new one")),
        }
    }

    /// Tells that the session has ended, once for each that had watches.
    fn lost(&self) {
        if self.state.get() == State::Watching {
            self.state.set(State::Lost);
            self.output
                .note(&format!("{}: the session has ended; waiting for another one", self.path));
        }
    }

    fn has_begun(&self) -> bool {
        self.state.get() != State::NotBegun
    }
}
