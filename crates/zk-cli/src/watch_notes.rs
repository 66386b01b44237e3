//! Lines on standard error about the sessions of a command that watches.

use std::cell::Cell;

use nix::sys::signal::Signal;

use crate::failure::Failure;
use crate::output::Output;
use crate::signals::number;

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

    pub(crate) fn has_begun(&self) -> bool {
        self.state.get() != State::NotBegun
    }

    /// Returns the exit status after a signal, which is the intended end of a command that watches.
    pub(crate) fn end(&self, signal: Signal) -> Result<u8, Failure> {
        if self.has_begun() { Ok(0) } else { Err(Failure::interrupted(number(signal))) }
    }
}
