//! Signals that end a command.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

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
        if signal == Signal::SIGINT {
            INTERRUPTED.store(true, Ordering::Relaxed);
        }
        // Many services take SIGHUP as the request to read their configuration again.
        self.end_requested |= signal != Signal::SIGHUP;
        signal
    }

    /// Returns true if a signal other than SIGHUP has arrived so far.
    pub(crate) fn end_requested(&self) -> bool {
        self.end_requested
    }
}

/// Whether SIGINT has arrived. A signal is sent to the process, not to a part of it.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Ends this process with an exit status. If SIGINT has arrived, and the status says that it ended the
/// command, the process dies by SIGINT: a shell shows the same status, and only then ends a loop or a
/// script around this command.
pub(crate) fn end(code: u8) -> ExitCode {
    // The system drops a signal that kills the first process of a container, and this one would abort.
    let can_die = std::process::id() != 1;
    if can_die && code == 128 + number(Signal::SIGINT) && INTERRUPTED.load(Ordering::Relaxed) {
        // Does not return.
        drop(signal_hook::low_level::emulate_default_handler(Signal::SIGINT as i32));
    }
    ExitCode::from(code)
}

/// Returns the number of a signal, for an exit status.
pub(crate) fn number(signal: Signal) -> u8 {
    u8::try_from(signal as i32).unwrap_or(0)
}
