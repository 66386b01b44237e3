//! The reaction of `zk watch` to an event.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use zk_recipes::session::{ErrorCode, EventType, Retry};

use crate::failure::Failure;
use crate::output::{Output, data_json, data_text, tell};

/// Prints events, or runs a command for each.
pub(super) struct Reaction<'a> {
    pub(super) output: Output,
    /// Whether the data is read and told, too.
    pub(super) with_data: bool,
    /// The command and its arguments; empty to print.
    pub(super) command: &'a [OsString],
}

impl Reaction<'_> {
    pub(super) async fn to(
        &self,
        event: EventType,
        path: &str,
        retry: &Retry,
    ) -> Result<(), Failure> {
        let data = match self.with_data && event != EventType::NODE_DELETED {
            true => data(retry, path).await?,
            false => None,
        };
        let name = event.name().unwrap_or("Unknown");
        match self.command.split_first() {
            None => self.print(name, path, data.as_deref()),
            Some((program, arguments)) => {
                let mut command = Command::new(program);
                command.args(arguments).env("ZK_EVENT", name).env("ZK_PATH", path);
                run(command, data.unwrap_or_default(), &Path::new(program).display()).await
            }
        }
    }

    fn print(&self, name: &str, path: &str, data: Option<&[u8]>) -> Result<(), Failure> {
        let shown = data.map(|data| format!("\t{}", data_text(data))).unwrap_or_default();
        let line = format!("{name} {}{shown}", data_text(path.as_bytes()));
        self.output.print([line], || match self.with_data {
            true => json!({ "event": name, "path": path, "data": data.map(data_json) }),
            false => json!({ "event": name, "path": path }),
        })
    }
}

/// Returns the data of the node. Returns `None` if the node was deleted meanwhile.
async fn data(retry: &Retry, path: &str) -> Result<Option<Vec<u8>>, Failure> {
    match retry.get_data(path).await {
        Ok(node) => Ok(Some(node.data.unwrap_or_default().to_vec())),
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Runs a command to its end. It is killed if the future is dropped.
async fn run(
    mut command: Command,
    input: Vec<u8>,
    name: &impl std::fmt::Display,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::other(format!("{name}: {error}"));
    let mut child = command.stdin(Stdio::piped()).kill_on_drop(true).spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command may end without reading its input.
        drop(stdin.write_all(&input).await);
    }
    let status = child.wait().await.map_err(failed)?;
    if !status.success() {
        tell(&format!("zk: {name}: {status}"));
    }
    Ok(())
}
