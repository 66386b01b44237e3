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
    were_received: bool,
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
            were_received: false,
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
        self.were_received = true;
        signal
    }

    /// Returns true if any signal has arrived so far.
    pub(crate) fn were_received(&self) -> bool {
        self.were_received
    }
}

/// Returns the number of a signal, for an exit status.
pub(crate) fn number(signal: Signal) -> u8 {
    u8::try_from(signal as i32).unwrap_or(0)
}
