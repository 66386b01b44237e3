//! `cargo xtask zookeeper`: one server in the background, for development.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::{Failure, workspace_root};
use crate::poll::{now, poll};
use crate::process;
use crate::zookeeper::{
    Distribution, Privilege, SERVING_LIMIT, Settings, Status, four_letter, log_tail,
};

/// Starts the server, unless it runs, and waits until it serves.
pub(crate) fn start(port: Option<u16>) -> Result<(), Failure> {
    let place = Place::in_workspace();
    if let Some(running) = place.running() {
        return already_running(&running, port);
    }
    let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port.unwrap_or(DEFAULT_PORT));
    // Checked first for a clear message. The server itself would report it in the middle of a long log.
    if let Err(error) = TcpListener::bind(address) {
        return Err(Failure::task(format!(
            "cannot listen on {address}: {error}; another port: `--port PORT`"
        )));
    }
    let distribution = Distribution::find_or_install(Privilege::Sudo)?;
    println!("starting {distribution} on {address}");

    let begin = now();
    let settings = Settings::default();
    settings.write(&place.folder, address, None)?;
    let running = place.spawn(&distribution, &settings, address)?;
    let served = poll(SERVING_LIMIT, || match running.status() {
        Some(status) => Some(Ok(status)),
        None if process::is_alive(running.pid) => None,
        None => Some(Err("has ended")),
    });
    match served.unwrap_or(Err("does not serve")) {
        Ok(status) => {
            let took = begin.elapsed().as_secs_f64();
            println!(
                "ZooKeeper {} serves after {took:.1} s, process {}",
                status.version, running.pid
            );
            println!("connect with: --connect {address}");
            println!("log: {}", place.log().display());
            Ok(())
        }
        Err(what) => {
            place.end(&running);
            let log = log_tail(&place.log());
            Err(Failure::task(format!("the server {what}; its log ends:\n{log}")))
        }
    }
}

/// Stops the server and waits until its process has ended.
pub(crate) fn stop() -> Result<(), Failure> {
    let place = Place::in_workspace();
    let Some(running) = place.running() else {
        println!("not running");
        return Ok(());
    };
    if place.end(&running) {
        println!("stopped ZooKeeper on {}, process {}", running.address, running.pid);
        Ok(())
    } else {
        Err(Failure::task(format!("process {} does not end", running.pid)))
    }
}

/// Prints whether the server runs, with its address, process id, version and mode.
pub(crate) fn status() -> Result<(), Failure> {
    let Some(running) = Place::in_workspace().running() else {
        return Err(Failure::task("not running; `cargo xtask zookeeper start` starts it"));
    };
    let Running { pid, address } = running;
    match running.status() {
        Some(Status { version, mode }) => {
            println!(
                "running on {address}, process {pid}, version {version}, mode {}",
                mode.as_str()
            );
            Ok(())
        }
        None => Err(Failure::task(format!("process {pid} runs, but does not serve on {address}"))),
    }
}

fn already_running(running: &Running, port: Option<u16>) -> Result<(), Failure> {
    let Running { pid, address } = running;
    if port.is_some_and(|port| port != address.port()) {
        return Err(Failure::task(format!(
            "already running on {address}; `cargo xtask zookeeper stop` first to change the port"
        )));
    }
    println!("already running, process {pid}");
    println!("connect with: --connect {address}");
    Ok(())
}

/// Folder with all files of the background server.
struct Place {
    folder: PathBuf,
}

/// Server process that an earlier command started.
struct Running {
    pid: u32,
    address: SocketAddrV4,
}

impl Place {
    fn in_workspace() -> Self {
        Self { folder: workspace_root().join(".zookeeper") }
    }

    fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Returns the path of the file with the process id and the address of the server, on one line.
    fn pid_file(&self) -> PathBuf {
        self.folder.join("pid")
    }

    fn spawn(
        &self,
        distribution: &Distribution,
        settings: &Settings,
        address: SocketAddrV4,
    ) -> Result<Running, Failure> {
        let failure = |error: io::Error| Failure::task(format!("starting the server: {error}"));
        let log = File::create(self.log()).map_err(failure)?;
        let line = distribution.command(&self.folder, &settings.jvm_flags(&self.folder));
        let Some((java, arguments)) = line.split_first() else {
            return Err(Failure::task("no command to start the server with"));
        };
        let child = Command::new(java)
            .args(arguments)
            .current_dir(&self.folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(failure)?)
            .stderr(log)
            // The server outlives this command, and a Ctrl-C in its terminal.
            .process_group(0)
            .spawn()
            .map_err(failure)?;
        let running = Running { pid: child.id(), address };
        fs::write(self.pid_file(), format!("{} {address}\n", running.pid)).map_err(failure)?;
        Ok(running)
    }

    fn running(&self) -> Option<Running> {
        let text = fs::read_to_string(self.pid_file()).ok()?;
        let (pid, address) = text.trim().split_once(' ')?;
        let running = Running { pid: pid.parse().ok()?, address: address.parse().ok()? };
        // After a reboot, another process may have the process id.
        let ours = process::command_line_mentions(running.pid, &self.folder.to_string_lossy());
        (ours && process::is_alive(running.pid)).then_some(running)
    }

    /// Terminates the server, kills it if it does not end, and returns whether it has ended.
    fn end(&self, running: &Running) -> bool {
        let gone =
            || poll(STOP_LIMIT, || (!process::is_alive(running.pid)).then_some(())).is_some();
        let ended = ["TERM", "KILL"].iter().any(|signal| {
            process::signal(running.pid, signal);
            gone()
        });
        if ended {
            // A leftover file would be ignored.
            let _ = fs::remove_file(self.pid_file());
        }
        ended
    }
}

impl Running {
    fn status(&self) -> Option<Status> {
        Status::parse(&four_letter(self.address.into(), "srvr").ok()?)
    }
}

const DEFAULT_PORT: u16 = 2181;
const STOP_LIMIT: Duration = Duration::from_secs(10);
