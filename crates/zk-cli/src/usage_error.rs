//! Messages for command lines that cannot be understood.

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::Args;

/// Returns the message of a command line error on one line, with a hint and without the usage.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let paragraphs =
        text.split("\n\n").map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut message = String::new();
    for paragraph in paragraphs {
        if let Some(error) = paragraph.strip_prefix("error: ") {
            message.push_str(error);
        } else if let Some(tip) = paragraph.strip_prefix("tip: ") {
            message.push_str(&format!("; {tip}"));
        }
    }
    if let Some(hint) = hint(error) {
        message.push_str(&format!("; {hint}"));
    }
    format!("{message}; see --help")
}

/// Returns what to write instead, for slips of people who know other commands.
fn hint(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.as_str()),
        _ => None,
    };
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let name = text(ContextKind::InvalidSubcommand)?;
            let (_, ours) = OTHER_NAMES.iter().find(|(other, _)| *other == name)?;
            Some(format!("it is zk {ours}"))
        }
        // `zk lock PATH CMD` is the usual slip.
        ErrorKind::UnknownArgument | ErrorKind::MissingRequiredArgument
            if runs_command() && !std::env::args_os().any(|argument| argument == "--") =>
        {
            Some("the command goes after --, as in zk lock /locks/a -- ./backup.sh".to_owned())
        }
        _ => None,
    }
}

/// Returns true if the command line names a command that runs a command.
fn runs_command() -> bool {
    let zk = Args::command();
    let named = std::env::args_os().find(|name| zk.find_subcommand(name).is_some());
    named.is_some_and(|name| WITH_COMMAND.iter().any(|it| name == *it))
}

/// Commands that run a command.
const WITH_COMMAND: [&str; 5] = ["lock", "elect", "semaphore", "multilock", "register"];

/// Names of the commands in `zkCli.sh`, etcdctl and shells, and their names here.
const OTHER_NAMES: [(&str, &str); 17] = [
    ("add", "create"),
    ("addauth", "--auth SCHEME:CREDENTIAL"),
    ("cat", "get"),
    ("deleteall", "delete --recursive"),
    ("getAcl", "getacl"),
    ("getAllChildrenNumber", "count"),
    ("getEphemerals", "ephemerals"),
    ("mkdir", "create"),
    ("multi", "txn"),
    ("ping", "doctor"),
    ("put", "set, or zk create"),
    ("rm", "delete"),
    ("rmr", "delete --recursive"),
    ("rmdir", "delete"),
    ("setAcl", "setacl"),
    ("status", "doctor"),
    ("whoAmI", "whoami"),
];

/// Returns whether the command line asks for JSON, though it cannot be understood as a whole.
pub(crate) fn is_json() -> bool {
    std::env::args_os().skip(1).take_while(|it| it != "--").any(|it| it == "--json")
}
