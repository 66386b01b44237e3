//! One server process: its address, its folder, and what can be done to it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::watchdog::Watchdog;
use super::{Error, Mode, Status, four_letter};
use crate::poll::poll;
use crate::process::{is_alive, state};

/// A server that a test runs: alone in a [`Standalone`](super::Standalone), or one of an
/// [`Ensemble`](super::Ensemble).
///
/// Dropping it kills the server and removes its data.
#[derive(Debug)]
pub struct Server {
    address: SocketAddrV4,
    folder: PathBuf,
    command: Vec<OsString>,
    running: Mutex<Option<Watchdog>>,
}

impl Server {
    /// Makes a server of `command`, which reads its configuration in `folder`. Does not start it.
    pub(super) fn new(address: SocketAddrV4, folder: PathBuf, command: Vec<OsString>) -> Self {
        Self { address, folder, command, running: Mutex::new(None) }
    }

    /// Returns where clients connect to, as `host:port`.
    pub fn connect_string(&self) -> String {
        self.address.to_string()
    }

    /// Returns where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address.into()
    }

    /// Returns the process id of the server while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.running().as_ref().map(Watchdog::server_pid)
    }

    /// Starts the server without waiting for it to serve; does nothing if it runs.
    ///
    /// # Errors
    /// If no process could be started.
    pub fn launch(&self) -> Result<(), Error> {
        let mut running = self.running();
        if running.as_ref().is_some_and(Watchdog::is_alive) {
            return Ok(());
        }
        // One that has ended by itself: told to end, its watchdog leaves the folder alone.
        if let Some(ended) = running.take() {
            ended.end();
        }
        *running = Some(Watchdog::spawn(&self.command, &self.folder, &self.log())?);
        Ok(())
    }

    /// Waits until the server serves clients.
    ///
    /// # Errors
    /// If it ends instead, or does not serve within a minute. The end of its log is in the message.
    pub fn await_serving(&self) -> Result<Status, Error> {
        let failed = |what: &str| {
            let log = log_tail(&self.log());
            Error::failed(format!(
                "the ZooKeeper server at {} {what}; its log ends:\n{log}",
                self.address
            ))
        };
        poll(SERVING_LIMIT, || match self.status() {
            Ok(Some(status)) => Some(Ok(status)),
            _ if self.pid().is_some_and(is_alive) => None,
            _ => Some(Err(failed("does not run"))),
        })
        .unwrap_or_else(|| Err(failed("does not serve")))
    }

    /// Kills the server with SIGKILL and waits until it is gone. Its data and address stay.
    pub fn kill(&self) {
        if let Some(watchdog) = self.running().take() {
            watchdog.end();
        }
    }

    /// Kills the server if it runs, starts it with the same data and address, and waits until it
    /// serves. In an ensemble that takes a quorum; see [`Server::launch`] for starting without.
    ///
    /// # Errors
    /// As [`Server::await_serving`].
    pub fn restart(&self) -> Result<(), Error> {
        self.kill();
        self.launch()?;
        self.await_serving().map(drop)
    }

    /// Stops the server with SIGSTOP: connections stay open and nothing answers.
    ///
    /// # Errors
    /// If it does not run.
    pub fn pause(&self) -> Result<(), Error> {
        self.signal_and_await("STOP", |state| state == 'T')
    }

    /// Lets a paused server go on.
    ///
    /// # Errors
    /// If it does not run.
    pub fn resume(&self) -> Result<(), Error> {
        self.signal_and_await("CONT", |state| state != 'T')
    }

    /// Asks the server a four-letter command, for example `srvr` or `mntr`.
    ///
    /// # Errors
    /// If it does not answer, as while it is dead or paused.
    pub fn four_letter(&self, command: &str) -> Result<String, Error> {
        four_letter(self.address(), command)
    }

    /// Asks the server for its version and mode; `None` while it does not serve.
    ///
    /// # Errors
    /// If it does not answer, as while it is dead or paused.
    pub fn status(&self) -> Result<Option<Status>, Error> {
        Ok(Status::parse(&self.four_letter("srvr")?))
    }

    /// Tells whether the server says that it leads an ensemble.
    ///
    /// # Errors
    /// If it does not answer, as while it is dead or paused.
    pub fn is_leader(&self) -> Result<bool, Error> {
        Ok(self.status()?.is_some_and(|status| status.mode == Mode::Leader))
    }

    fn signal_and_await(&self, signal: &str, done: impl Fn(char) -> bool) -> Result<(), Error> {
        let mut running = self.running();
        let Some(watchdog) = running.as_mut().filter(|watchdog| watchdog.is_alive()) else {
            return Err(Error::failed(format!("the server at {} does not run", self.address)));
        };
        watchdog.signal(signal)?;
        let pid = watchdog.server_pid();
        poll(SIGNAL_LIMIT, || state(pid).is_none_or(&done).then_some(()))
            .ok_or_else(|| Error::failed(format!("SIG{signal} had no effect on process {pid}")))
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// A panic elsewhere leaves the process handle as good as it was.
    fn running(&self) -> MutexGuard<'_, Option<Watchdog>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.running().take());
        // Gone already if the server ran until now; what cannot be removed is no test's concern.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Makes an empty folder for the files of one server.
pub(super) fn fresh_folder() -> Result<PathBuf, Error> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let pid = process::id();
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("zk-server-{pid}-{count}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            // Left behind by an earlier process of this id.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(Error::io(format_args!("making {}", folder.display()))(error));
            }
        }
    }
}

/// Returns the end of a log, which is where a server says why it gave up.
pub(crate) fn log_tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

/// A start takes one to two seconds alone, and up to fifteen on a loaded machine.
pub(crate) const SERVING_LIMIT: Duration = Duration::from_secs(60);
const SIGNAL_LIMIT: Duration = Duration::from_secs(5);
const LOG_TAIL_LINES: usize = 25;
