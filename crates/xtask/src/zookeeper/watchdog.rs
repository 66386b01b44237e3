//! A server process that dies with the process that started it.
//!
//! The server is started by a small shell script, which then reads a pipe whose other end this
//! process holds. When this process ends, by whatever signal, the kernel closes the pipe, and the
//! script kills the server. (The kernel's own means for that, the parent death signal, fires when
//! the *thread* that started the child ends, which in a test run is long before the process does.)

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::Error;
use crate::process;

/// A running server and the script that watches over it.
#[derive(Debug)]
pub(super) struct Watchdog {
    script: Child,
    server_pid: u32,
}

impl Watchdog {
    /// Starts `command`, which logs to `log`; should this process end early, `folder` is removed.
    pub(super) fn spawn(command: &[OsString], folder: &Path, log: &Path) -> Result<Self, Error> {
        let mut script = Command::new("sh")
            .args(["-c", SCRIPT, "zk-watchdog"])
            .args([folder, log])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Out of reach of the terminal's Ctrl-C, which must not end the script alone.
            .process_group(0)
            .spawn()
            .map_err(Error::io("starting sh"))?;

        let mut first_line = String::new();
        if let Some(output) = script.stdout.take() {
            // An error leaves the line empty, and that is reported below.
            let _ = BufReader::new(output).read_line(&mut first_line);
        }
        let Ok(server_pid) = first_line.trim().parse() else {
            let _ = script.kill();
            let _ = script.wait();
            return Err(Error::failed(format!("could not start {:?}", command.first())));
        };
        Ok(Self { script, server_pid })
    }

    /// Returns the process id of the server itself.
    pub(super) fn server_pid(&self) -> u32 {
        self.server_pid
    }

    /// Tells whether the server has not ended.
    pub(super) fn is_alive(&self) -> bool {
        process::is_alive(self.server_pid)
    }

    /// Has the script send `signal` to the server. The script has not reaped the server yet, so
    /// its process id cannot have passed to a stranger.
    pub(super) fn signal(&mut self, signal: &str) -> Result<(), Error> {
        self.order(signal)
    }

    /// Kills the server and waits until it is gone, but keeps its folder.
    pub(super) fn end(mut self) {
        // If the script does not hear this it has ended, and the server with it.
        let _ = self.order("end");
    }

    fn order(&mut self, word: &str) -> Result<(), Error> {
        let Some(pipe) = &mut self.script.stdin else {
            return Err(Error::failed("the server's watchdog is gone"));
        };
        writeln!(pipe, "{word}").map_err(Error::io("speaking to the server's watchdog"))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.script.stdin.take());
        let _ = self.script.wait();
    }
}

/// Arguments: the server's folder, its log, and the command. Says the server's process id, then
/// obeys one order per line: `end`, or the name of a signal.
const SCRIPT: &str = r#"
folder=$1 log=$2
shift 2
"$@" </dev/null >>"$log" 2>&1 &
server=$!
finish() {
    kill -s KILL "$server"
    wait "$server"
}
trap 'finish; rm -rf "$folder"; exit 1' HUP INT TERM
echo "$server"
exec >/dev/null
while read -r order; do
    case $order in
        end) finish; exit 0 ;;
        *) kill -s "$order" "$server" ;;
    esac
done
finish
rm -rf "$folder"
"#;
