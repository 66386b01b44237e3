//! Signals that end a command.

use std::future::poll_fn;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use crate::prelude::{Failure, Result};
use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};

/// Handlers for all signals that would end this process and leave its command running without the
/// lock, in force from the creation of this value. Not even a handler helps against SIGKILL.
///
/// A signal that the caller ignores, as `nohup` does with SIGHUP, has no handler, and the command
/// ignores it, too. SIGINT and SIGTERM always have one.
pub(crate) struct Signals {
    /// The handlers, and the signal that the command gets.
    handlers: Vec<(unix::Signal, Signal)>,
    /// Whether one of them was meant to end the command.
    pub(crate) end_requested: bool,
}

impl Signals {
    pub(crate) fn new() -> Result<Self> {
        let named = Signal::iterator().filter(|signal| !NOT_HANDLED.contains(&signal.as_str()));
        let named = named.map(|signal| {
            (signal as i32, if PASSED_ON.contains(&signal) { signal } else { Signal::SIGTERM })
        });
        let ignored = ignored();
        let mut handlers = Vec::new();
        for (number, given) in named.chain(REAL_TIME.map(|number| (number, Signal::SIGTERM))) {
            let is_ignored = ignored & (1 << (number - 1)) != 0;
            if is_ignored && !ALWAYS_HANDLED.contains(&number) {
                continue;
            }
            match unix::signal(SignalKind::from_raw(number)) {
                Ok(handler) => handlers.push((handler, given)),
                // The C library keeps some of them for itself, and not every system has them.
                Err(_) if REAL_TIME.contains(&number) => {}
                Err(error) => return Err(Failure::other(format!("no signals: {error}"))),
            }
        }
        Ok(Self { handlers, end_requested: false })
    }

    /// Waits for the next signal. Returns SIGTERM for a signal that no command expects.
    pub(crate) async fn next(&mut self) -> Signal {
        let signal = poll_fn(|context| {
            let arrived = self.handlers.iter_mut().find_map(|(handler, signal)| {
                handler.poll_recv(context).is_ready().then_some(*signal)
            });
            arrived.map_or(Poll::Pending, Poll::Ready)
        });
        let signal = signal.await;
        if signal == Signal::SIGINT {
            INTERRUPTED.store(true, Ordering::Relaxed);
        }
        self.end_requested |= ENDING.contains(&signal);
        signal
    }

    /// Does `work`, which a signal interrupts.
    pub(crate) async fn unless_interrupted<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T> {
        tokio::select! {
            done = work => Ok(done),
            signal = self.next() => Err(Failure::interrupted(number(signal))),
        }
    }

    /// Waits for a signal that is meant to end the command.
    pub(crate) async fn next_ending(&mut self) {
        while !ENDING.contains(&self.next().await) {}
    }
}

/// Returns the signals that this process ignores, each as one bit. It is 0 where the system does not tell.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

/// Signals that are meant to end a command. Many services take the others that are passed on as
/// requests, for example SIGHUP to read their configuration again.
const ENDING: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGQUIT];

/// Signals that the command gets as they are.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGQUIT,
    Signal::SIGHUP,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Signals that are passed on even if the caller ignores them. A shell without job control ignores SIGINT
/// for commands in the background, and a script that sends it to one of them means to end it.
const ALWAYS_HANDLED: [i32; 2] = [Signal::SIGINT as i32, Signal::SIGTERM as i32];

/// Signals without a handler. No process can handle the first two. The others are faults of this
/// process, stop or continue it, or do not end it.
const NOT_HANDLED: [&str; 15] = [
    "SIGKILL", "SIGSTOP", "SIGILL", "SIGBUS", "SIGFPE", "SIGSEGV", "SIGTSTP", "SIGTTIN", "SIGTTOU",
    "SIGCONT", "SIGCHLD", "SIGURG", "SIGWINCH", "SIGINFO", "SIGPIPE",
];

/// Numbers of the signals without a name on Linux. By default, all of them are deadly.
const REAL_TIME: RangeInclusive<i32> = 34..=64;

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

pub(crate) fn number(signal: Signal) -> u8 {
    u8::try_from(signal as i32).unwrap_or(0)
}
