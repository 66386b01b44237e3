//! Server process, with its address, its folder and the operations on it.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, SocketAddrV4, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::watchdog::Watchdog;
use super::{Error, Mode, Status, four_letter};
use crate::poll::poll;
use crate::process::{is_alive, state};

/// Server of a test: the only one of a [`Standalone`](super::Standalone), or one of an
/// [`Ensemble`](super::Ensemble).
///
/// Dropping it kills the server and removes its data.
#[derive(Debug)]
pub struct Server {
    address: SocketAddrV4,
    /// Empty, or the path below which tests stay on a server that others use as well.
    chroot: String,
    folder: PathBuf,
    /// Empty if somebody else has started the server.
    command: Vec<OsString>,
    running: Mutex<Option<Watchdog>>,
}

impl Server {
    /// Creates a server that runs `command` with the configuration in `folder`. It does not start the server.
    pub(super) fn new(address: SocketAddrV4, folder: PathBuf, command: Vec<OsString>) -> Self {
        Self { address, chroot: String::new(), folder, command, running: Mutex::new(None) }
    }

    /// Returns the server of a connect string `HOST:PORT/PATH` that somebody else has started. It cannot be
    /// started, paused or killed.
    pub(super) fn existing(connect_string: &str) -> Result<Self, Error> {
        let (host_and_port, path) = connect_string.split_once('/').unwrap_or((connect_string, ""));
        let addresses = host_and_port
            .to_socket_addrs()
            .map_err(Error::io(format_args!("`{host_and_port}`")))?;
        let mut v4 = addresses.filter_map(|address| match address {
            SocketAddr::V4(address) => Some(address),
            SocketAddr::V6(_) => None,
        });
        let Some(address) = v4.next() else {
            return Err(Error::failed(format!("`{host_and_port}` has no IPv4 address")));
        };
        let chroot = if path.is_empty() { String::new() } else { format!("/{path}") };
        let mut server = Self::new(address, PathBuf::new(), Vec::new());
        server.chroot = chroot;
        Ok(server)
    }

    /// Returns the connect string: `host:port`, followed by the chroot.
    pub fn connect_string(&self) -> String {
        self.connect_string_through(self.address())
    }

    /// Returns the connect string of a proxy in front of the server.
    pub fn connect_string_through(&self, proxy: SocketAddr) -> String {
        format!("{proxy}{}", self.chroot)
    }

    /// Returns the path below which tests stay, or an empty string if the server is theirs alone.
    pub fn chroot(&self) -> &str {
        &self.chroot
    }

    /// Returns the address for clients.
    pub fn address(&self) -> SocketAddr {
        self.address.into()
    }

    /// Returns the process id of the server while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.running().as_ref().map(Watchdog::server_pid)
    }

    /// Starts the server without waiting until it serves; does nothing if it runs.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn launch(&self) -> Result<(), Error> {
        if self.command.is_empty() {
            return Err(Error::unsupported(format!(
                "{} is not a server of the tests",
                self.address
            )));
        }
        let mut running = self.running();
        if running.as_ref().is_some_and(Watchdog::is_alive) {
            return Ok(());
        }
        // The previous server has ended by itself. After the order to end, its watchdog keeps the folder.
        if let Some(ended) = running.take() {
            ended.end();
        }
        *running = Some(Watchdog::spawn(&self.command, &self.folder, &self.log())?);
        Ok(())
    }

    /// Waits until the server serves clients.
    ///
    /// # Errors
    /// If the server ends, or does not serve within a minute. The message contains the end of the server's
    /// log.
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

    /// Kills the server with SIGKILL and waits until it has ended. Its data and address stay.
    pub fn kill(&self) {
        if let Some(watchdog) = self.running().take() {
            watchdog.end();
        }
    }

    /// Kills the server if it runs, starts it with the same data and address, and waits until it serves.
    ///
    /// In an ensemble it only serves with a quorum; [`Server::launch`] starts a server without waiting.
    ///
    /// # Errors
    /// Like [`Server::await_serving`].
    pub fn restart(&self) -> Result<(), Error> {
        self.kill();
        self.launch()?;
        self.await_serving().map(drop)
    }

    /// Stops the server with SIGSTOP: its connections stay open, and it does not reply.
    ///
    /// # Errors
    /// If the server does not run.
    pub fn pause(&self) -> Result<(), Error> {
        self.signal_and_await("STOP", |state| state == 'T')
    }

    /// Resumes a paused server.
    ///
    /// # Errors
    /// If the server does not run.
    pub fn resume(&self) -> Result<(), Error> {
        self.signal_and_await("CONT", |state| state != 'T')
    }

    /// Sends a four-letter command, for example `srvr` or `mntr`, and returns the reply.
    ///
    /// # Errors
    /// If the server does not reply, for example while it is killed or paused.
    pub fn four_letter(&self, command: &str) -> Result<String, Error> {
        four_letter(self.address(), command)
    }

    /// Returns the server's version and mode, or `None` while it does not serve.
    ///
    /// # Errors
    /// If the server does not reply, for example while it is killed or paused.
    pub fn status(&self) -> Result<Option<Status>, Error> {
        Ok(Status::parse(&self.four_letter("srvr")?))
    }

    /// Returns whether the server is in the mode `leader`.
    ///
    /// # Errors
    /// If the server does not reply, for example while it is killed or paused.
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

    /// Locks the process handle. A panic of another thread does not invalidate the handle, so poisoning is
    /// ignored.
    fn running(&self) -> MutexGuard<'_, Option<Watchdog>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.running().take());
        // The folder is already removed if the server ran until now. A failed removal does not affect the
        // test.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Creates an empty folder for the files of one server.
pub(super) fn fresh_folder() -> Result<PathBuf, Error> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let pid = process::id();
    loop {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = env::temp_dir().join(format!("zk-server-{pid}-{count}"));
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            // An earlier process with this id left the folder behind.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(Error::io(format_args!("making {}", folder.display()))(error));
            }
        }
    }
}

/// Returns the end of a log, where a server prints the reason of its failure.
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
