//! Server process that ends with the process that started it.
//!
//! A small shell script starts the server and then reads from a pipe. This process holds the other end of the
//! pipe. When this process ends, by whatever signal, the kernel closes the pipe, and the script kills the
//! server.
//!
//! The kernel's own mechanism, the parent death signal, is not usable. It fires when the *thread* that
//! started the child ends, which in a test run is long before the end of the process.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::Error;
use crate::process;

/// Running server and the script that kills it at the end of this process.
#[derive(Debug)]
pub(super) struct Watchdog {
    script: Child,
    server_pid: u32,
}

impl Watchdog {
    /// Starts `command`, which logs to `log`. When this process ends, the script removes `folder`, unless
    /// [`end`](Self::end) was called before.
    pub(super) fn spawn(command: &[OsString], folder: &Path, log: &Path) -> Result<Self, Error> {
        let mut script = Command::new("sh")
            .args(["-c", SCRIPT, "zk-watchdog"])
            .args([folder, log])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // In a separate process group, because the terminal's Ctrl-C must not end the script alone.
            .process_group(0)
            .spawn()
            .map_err(Error::io("starting sh"))?;

        let mut first_line = String::new();
        if let Some(output) = script.stdout.take() {
            // After an error the line stays empty, which is reported below.
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

    /// Returns whether the server is running.
    pub(super) fn is_alive(&self) -> bool {
        process::is_alive(self.server_pid)
    }

    /// Makes the script send `signal` to the server. The script has not reaped the server, so no other
    /// process can have its process id.
    pub(super) fn signal(&mut self, signal: &str) -> Result<(), Error> {
        self.order(signal)
    }

    /// Kills the server and waits until it has ended, but keeps its folder.
    pub(super) fn end(mut self) {
        // If the script cannot receive the order, the script and the server have ended.
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

/// Arguments: the server's folder, its log, and the command. The script prints the server's process id. Then
/// it executes one order per line: `end`, or the name of a signal.
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
