//! Lines on standard error about the sessions of a command that watches.

use std::cell::Cell;

use crate::output::Output;

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

    /// Tells that the watches are set.
    pub(crate) fn begin(&self) {
        let path = self.path;
        match self.state.replace(State::Watching) {
            State::NotBegun => self.output.note(&format!("watching {path}")),
            _ => self.output.note(&format!("the session had ended; watching {path} in a new one")),
        }
    }

    /// Tells that the session has ended, once for each that had watches.
    pub(crate) fn lost(&self) {
        if self.state.get() == State::Watching {
            self.state.set(State::Lost);
            self.output
                .note(&format!("{}: the session has ended; waiting for another one", self.path));
        }
    }

    /// Returns true if watches have been set.
    pub(crate) fn has_begun(&self) -> bool {
        self.state.get() != State::NotBegun
    }
}
