//! Signals that end a command.

use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::failure::Failure;

/// Handlers for SIGINT, SIGTERM, SIGHUP and SIGQUIT, in force from the creation of this value.
/// Without them, the signals would end this process and leave its command running without the lock.
pub(crate) struct Signals {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
    quit: unix::Signal,
    /// Whether one of them was meant to end the command.
    end_requested: bool,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            unix::signal(kind).map_err(|error| Failure::other(format!("no signals: {error}")))
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
            quit: listen(SignalKind::quit())?,
            end_requested: false,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) -> Signal {
        let signal = tokio::select! {
            _ = self.interrupt.recv() => Signal::SIGINT,
            _ = self.terminate.recv() => Signal::SIGTERM,
            _ = self.hang_up.recv() => Signal::SIGHUP,
            _ = self.quit.recv() => Signal::SIGQUIT,
        };
        // Many services take SIGHUP as the request to read their configuration again.
        self.end_requested |= signal != Signal::SIGHUP;
        signal
    }

    /// Returns true if a signal other than SIGHUP has arrived so far.
    pub(crate) fn end_requested(&self) -> bool {
        self.end_requested
    }
}

/// Returns the number of a signal, for an exit status.
pub(crate) fn number(signal: Signal) -> u8 {
    u8::try_from(signal as i32).unwrap_or(0)
}
