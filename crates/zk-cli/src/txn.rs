//! `zk txn`: several operations in one transaction.

use std::io::stdin;
use std::str::FromStr;
use std::sync::OnceLock;

use zk_recipes::session::{Client, CreateMode, MultiOutcome, validate_path};

use crate::acl::NewNodeAcl;
use crate::data::all_of;
use crate::prelude::{ClapArgs, Failure, Result, Session, json};

/// The `txn` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
An operation is one argument, or one line of standard input if there are no arguments:

  create PATH [DATA]    the node must not exist
  set PATH [DATA]       the node must exist
  delete PATH           the node must exist, and have no children
  check PATH [VERSION]  the node must exist, with this version of its data

The data is the rest of the argument after the path and a space. Operations see the effect of the ones \
before. One line is printed for each: created, set, deleted or checked, and the path. If one fails, \
none is applied, and the error names it.

Examples:
  zk txn 'check /app/config 0' 'set /app/config 2' 'create /app/log 2'
  printf 'delete /app/logo\\ncreate /app/icon' | zk txn")]
pub(crate) struct Txn {
    /// The operations.
    #[arg(value_name = "OPERATION")]
    operations: Vec<TxnOperation>,

    /// The operations of standard input, which can be read only once.
    #[arg(skip)]
    read: OnceLock<Vec<TxnOperation>>,

    #[command(flatten)]
    acl: NewNodeAcl,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TxnOperation {
    path: String,
    verb: Verb,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Verb {
    Create { data: String },
    Set { data: String },
    Delete,
    Check { version: Option<i32> },
}

impl FromStr for TxnOperation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (path, data) = rest.split_once(' ').unwrap_or((rest, ""));
        if !["create", "set", "delete", "check"].contains(&verb) || path.is_empty() {
            return Err("write create, set, delete or check, and a path".to_owned());
        }
        validate_path(path).map_err(|error| error.to_string())?;
        let verb = match (verb, data) {
            ("create", _) => Verb::Create { data: data.to_owned() },
            ("set", _) => Verb::Set { data: data.to_owned() },
            ("delete", "") => Verb::Delete,
            ("check", "") => Verb::Check { version: None },
            ("check", version) => {
                let wrong = |_| "write a version, such as check /a 3";
                Verb::Check { version: Some(version.parse().map_err(wrong)?) }
            }
            _ => return Err("delete has a path only".to_owned()),
        };
        Ok(Self { path: path.to_owned(), verb })
    }
}

impl Txn {
    /// Returns the operations, read from standard input if the command line has none.
    pub(crate) fn operations(&self) -> Result<&[TxnOperation]> {
        if !self.operations.is_empty() {
            return Ok(&self.operations);
        }
        if let Some(read) = self.read.get() {
            return Ok(read);
        }
        let text = String::from_utf8(all_of(stdin().lock(), "standard input")?)
            .map_err(|_| Failure::usage("standard input is not UTF-8"))?;
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let parse = |(at, line): (usize, &str)| {
            line.parse().map_err(|why| Failure::usage(format!("line {}: {why}", at + 1)))
        };
        let read: Vec<_> = lines.map(parse).collect::<Result<_, _>>()?;
        if read.is_empty() {
            return Err(Failure::usage(
                "there are no operations, neither as arguments nor on standard input; see --help",
            ));
        }
        Ok(self.read.get_or_init(|| read))
    }
}

pub(crate) async fn run(session: &Session, txn: &Txn) -> Result<()> {
    let operations = txn.operations()?;
    let send = |client: &Client| {
        let mut multi = client.multi();
        for TxnOperation { path, verb } in operations {
            multi = match verb {
                Verb::Create { data } => {
                    let mode = CreateMode::Persistent;
                    multi.create_with_acl(path, data.as_bytes(), mode, txn.acl.entries())
                }
                Verb::Set { data } => multi.set_data(path, data.as_bytes(), None),
                Verb::Delete => multi.delete(path, None),
                Verb::Check { version } => multi.check(path, *version),
            };
        }
        multi.send()
    };
    let outcomes = session.retry.run(send).await?;
    let done = |(operation, outcome): (&TxnOperation, &MultiOutcome)| {
        let verb = match outcome {
            MultiOutcome::Created { .. } => "created",
            MultiOutcome::Set(_) => "set",
            MultiOutcome::Deleted => "deleted",
            _ => "checked",
        };
        (verb, operation.path.clone())
    };
    let done: Vec<(&str, String)> = operations.iter().zip(&outcomes).map(done).collect();
    let line = |(verb, path): &(&str, String)| format!("{verb} {path}");
    session.output.print_each(&done, line, |(verb, path)| json!({ "done": verb, "path": path }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_or_refused() {
        let read = |text: &str, verb| {
            assert_eq!(text.parse(), Ok(TxnOperation { path: "/a".to_owned(), verb }), "{text}");
        };
        read("set /a  two  words ", Verb::Set { data: " two  words ".to_owned() });
        read("create /a", Verb::Create { data: String::new() });
        read("delete /a", Verb::Delete);
        read("check /a", Verb::Check { version: None });
        read("check /a 3", Verb::Check { version: Some(3) });
        for wrong in ["", "delete", "delete a", "delete /a 3", "check /a x", "move /a /b"] {
            assert!(wrong.parse::<TxnOperation>().is_err(), "{wrong}");
        }
    }
}
