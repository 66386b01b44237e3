//! The reaction of `zk watch` to an event.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::Path;
use std::pin::pin;
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::sync::Notify;
use zk_recipes::session::{EventType, Retry};

use crate::at_once::visible;
use crate::child::{Child, End, GRACE};
use crate::output::data_json;
use crate::prelude::{Failure, Output, Result, data_text, json};

/// Prints events, or runs a command for each.
pub(super) struct Reaction<'a> {
    pub(super) output: Output,
    /// Whether the data is read and told, too.
    pub(super) with_data: bool,
    /// The command and its arguments; empty to print.
    pub(super) command: &'a [OsString],
    pub(super) ending: &'a Ending,
}

/// The end of a running command on a signal.
#[derive(Default)]
pub(super) struct Ending {
    /// Whether a command runs.
    is_busy: Cell<bool>,
    /// Whether the signal has arrived.
    is_wanted: Cell<bool>,
    wanted: Notify,
}

impl Ending {
    /// Returns true if a command runs. It ends soon, and its reaction fails.
    pub(super) fn begin(&self) -> bool {
        self.is_wanted.set(true);
        self.wanted.notify_one();
        self.is_busy.get()
    }
}

impl Reaction<'_> {
    pub(super) async fn to(&self, event: EventType, path: &str, retry: &Retry) -> Result<()> {
        if path.contains(char::is_control) {
            return Err(Failure::not_permitted("path", path));
        }
        let data = if self.with_data && event != EventType::NODE_DELETED {
            visible(retry.get_data(path).await)?.map(|node| node.data.to_vec())
        } else {
            None
        };
        let name = event.name().unwrap_or("Unknown");
        match self.command.split_first() {
            None => self.print(name, path, data.as_deref()),
            Some(_) if path.len() > ENVIRONMENT_MAX => {
                let why = format!("no command for {name}: a path of {} bytes", path.len());
                self.output.note(&format!("{why} does not fit into its environment"));
                Ok(())
            }
            Some((program, _)) => {
                let environment = [("ZK_EVENT", name), ("ZK_PATH", path)];
                let end = End::FirstProcess;
                let child = Child::spawn(self.command, environment, Stdio::piped(), end)?;
                let status = self.run(child, data.unwrap_or_default()).await?;
                if status != 0 {
                    let program = Path::new(program).display();
                    self.output.note(&format!("{program}: exit status {status}"));
                }
                Ok(())
            }
        }
    }

    /// Waits until the command has ended, and gives it its input meanwhile.
    async fn run(&self, mut child: Child, input: Vec<u8>) -> Result<u8> {
        let mut stdin = child.take_stdin();
        let mut feed = pin!(async move {
            if let Some(stdin) = &mut stdin {
                // A command may end without reading its input.
                drop(stdin.write_all(&input).await);
            }
            drop(stdin);
        });
        let mut is_fed = false;
        self.ending.is_busy.set(true);
        let status = loop {
            tokio::select! {
                status = child.wait() => break status,
                () = &mut feed, if !is_fed => is_fed = true,
                () = self.ending.wanted.notified() => {
                    child.end(GRACE).await;
                    break Ok(0);
                }
            }
        };
        self.ending.is_busy.set(false);
        // The command may have ended by itself at the moment of the signal.
        if self.ending.is_wanted.get() { Err(Failure::interrupted(0)) } else { status }
    }

    fn print(&self, name: &str, path: &str, data: Option<&[u8]>) -> Result<()> {
        let shown = data.map(|data| format!("\t{}", data_text(data))).unwrap_or_default();
        let line = format!("{name} {path}{shown}");
        self.output.print([line], || {
            if self.with_data {
                json!({ "event": name, "path": path, "data": data.map(data_json) })
            } else {
                json!({ "event": name, "path": path })
            }
        })
    }
}

/// Bytes of a path in the environment of a command. Linux takes 128 KiB for a variable with its name
/// (`MAX_ARG_STRLEN`).
const ENVIRONMENT_MAX: usize = 127 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::tests::ONE_COMMAND;

    /// Both may be ready when the reaction is polled, and it must not go on.
    #[tokio::test]
    async fn reaction_fails_if_command_and_signal_end_it_at_once() {
        let _turn = ONE_COMMAND.lock().await;
        // Without a rule, the one that counts is chosen at random.
        for _ in 0..32 {
            let ending = Ending::default();
            let command = ["true".into()];
            let output = Output::new(false);
            let reaction =
                Reaction { output, with_data: false, command: &command, ending: &ending };
            let environment = [("A", ""), ("B", "")];
            let end = End::FirstProcess;
            let spawned = Child::spawn(&command, environment, Stdio::piped(), end);
            let mut child = spawned.unwrap();
            assert_eq!(child.wait().await.unwrap(), 0);
            assert!(!ending.begin(), "it does not run yet");
            reaction.run(child, Vec::new()).await.unwrap_err();
        }
    }
}
