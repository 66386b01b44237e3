//! Messages for command lines that cannot be understood.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};

use crate::args::Args;

/// Returns the message of a command line error on one line, with a hint and without the usage.
pub(crate) fn one_line(error: &clap::Error) -> String {
    let line: Vec<OsString> = std::env::args_os().collect();
    let slip = match error.kind() {
        ErrorKind::UnknownArgument => option_of_others(&line),
        _ => None,
    };
    if slip.is_some() {
        return message(error, slip);
    }
    match as_value(error, &line) {
        // The value is wrong in any spelling.
        Some(Err(wrong)) => message(&wrong, None),
        Some(Ok(hint)) => message(error, Some(hint)),
        None => message(error, hint(error)),
    }
}

/// Returns how to pass an argument that begins with a hyphen as a value, if it can be one, or the error
/// of that value. Clap's own tip is wrong for the values of options, and for commands that run a command.
fn as_value(error: &clap::Error, line: &[OsString]) -> Option<Result<String, clap::Error>> {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let at = line.iter().position(|word| word.to_str() == Some(argument))?;
    if error.kind() != ErrorKind::UnknownArgument || !argument.starts_with('-') {
        return None;
    }
    let before = line.get(at - 1)?.to_str().unwrap_or_default();
    if before.starts_with("--") && before.len() > 2 {
        let joined = format!("{before}={argument}");
        let mut other = line.to_vec();
        other.splice(at - 1..=at, [OsString::from(&joined)]);
        return match Args::try_parse_from(other) {
            Ok(_) => Some(Ok(format!("write {joined}"))),
            Err(wrong) if wrong.kind() == ErrorKind::ValueValidation => Some(Err(wrong)),
            Err(_) => None,
        };
    }
    let mut other = line.to_vec();
    other.insert(at, OsString::from("--"));
    let is_value = example_with_command().is_none() && Args::try_parse_from(other).is_ok();
    is_value.then(|| Ok(format!("to pass it as a value, write -- before it: -- {argument}")))
}

fn message(error: &clap::Error, hint: Option<String>) -> String {
    let text = error.render().to_string();
    let paragraphs = text
        .split("\n\n")
        .map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut message = String::new();
    for paragraph in paragraphs {
        if let Some(error) = paragraph.strip_prefix("error: ") {
            message.push_str(error);
        } else if let Some(tips) = paragraph.strip_prefix("tip: ") {
            for tip in tips.split(" tip: ").filter(|tip| !tip.contains(" as a value, use '-- ")) {
                message.push_str(&format!("; {tip}"));
            }
        }
    }
    if let Some(hint) = hint {
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
            if !std::env::args_os().any(|argument| argument == "--") =>
        {
            let example = example_with_command()?;
            Some(format!("the command goes after --, as in zk {example}"))
        }
        _ => None,
    }
}

/// Returns the option to write instead of one of `zkCli.sh` in the command line, if it has one.
fn option_of_others(line: &[OsString]) -> Option<String> {
    let command = named_command()?;
    let has =
        |option: &str| line.iter().take_while(|word| *word != "--").any(|word| word == option);
    let is_of = |of: &str| of.is_empty() || command == of;
    // The other two of these commands have -R.
    let is_recursive = has("-R") && command == "delete";
    if is_recursive || (has("-r") && RECURSIVE.iter().any(|name| command == **name)) {
        return Some("write --recursive".to_owned());
    }
    let mut slips = OTHER_OPTIONS.iter().filter(|(of, option, _)| is_of(of) && has(option));
    slips.next().map(|(_, option, ours)| format!("for {option} of zkCli.sh, write {ours}"))
}

/// Returns the name of the command that the command line names.
fn named_command() -> Option<OsString> {
    let zk = Args::command();
    std::env::args_os().find(|name| zk.find_subcommand(name).is_some())
}

/// Returns an example of the command that the command line names, if it runs a command.
fn example_with_command() -> Option<&'static str> {
    let name = named_command()?;
    let is_named = |example: &&str| example.split(' ').next().is_some_and(|first| name == first);
    WITH_COMMAND.into_iter().find(is_named)
}

/// Examples of the commands that run a command.
const WITH_COMMAND: [&str; 5] = [
    "lock /locks/a -- ./backup.sh",
    "elect /election/a -- ./scheduler",
    "semaphore /licences --permits 3 -- ./solve.sh",
    "multilock /locks/a /locks/b -- ./transfer.sh",
    "register /services/web/a -- ./serve.sh",
];

/// Options of `zkCli.sh`: the command, empty for all commands, the option, and its replacement here.
const OTHER_OPTIONS: [(&str, &str, &str); 25] = [
    ("", "-server", "--connect HOST:PORT"),
    ("", "-timeout", "--session-timeout SECONDS"),
    ("", "-r", "--read-only"),
    ("create", "-e", "--ephemeral"),
    ("create", "-s", "--sequential"),
    ("create", "-c", "--container"),
    ("create", "-t", "--ttl MS"),
    ("get", "-s", "zk stat PATH, or zk get --json"),
    ("get", "-w", "zk watch PATH"),
    ("stat", "-w", "zk watch PATH"),
    ("ls", "-s", "zk stat PATH"),
    ("ls", "-w", "zk watch PATH"),
    ("set", "-v", "--version N"),
    ("set", "-s", "--json"),
    ("delete", "-v", "--version N"),
    ("getacl", "-s", "--json"),
    ("setacl", "-R", "--recursive"),
    ("setacl", "-v", "--version N"),
    ("setacl", "-s", "--json"),
    ("config", "-w", "zk watch /zookeeper/config"),
    ("reconfig", "-add", "--add SERVER"),
    ("reconfig", "-remove", "--remove ID"),
    ("reconfig", "-members", "an --add or a --remove for each change"),
    ("reconfig", "-file", "an --add or a --remove for each change"),
    ("reconfig", "-v", "--from-version VERSION"),
];

/// Commands for which `-r` means `--recursive`, as with `rm`, and not `--read-only`, as with `zkCli.sh`.
const RECURSIVE: [&str; 3] = ["delete", "ls", "setacl"];

/// Names of the commands in `zkCli.sh`, etcdctl and shells, and their names here.
const OTHER_NAMES: [(&str, &str); 23] = [
    ("add", "create"),
    ("addWatch", "watch --recursive"),
    ("addauth", "--auth SCHEME:CREDENTIAL"),
    ("cat", "get"),
    ("connect", "--connect HOST:PORT"),
    ("del", "delete"),
    ("deleteall", "delete --recursive"),
    ("endpoint", "doctor"),
    ("getAcl", "getacl"),
    ("getAllChildrenNumber", "count"),
    ("getEphemerals", "ephemerals"),
    ("member", "config"),
    ("mkdir", "create"),
    ("multi", "txn"),
    ("ping", "doctor"),
    ("put", "set --create"),
    ("rm", "delete"),
    ("rmr", "delete --recursive"),
    ("rmdir", "delete"),
    ("setAcl", "setacl"),
    ("status", "doctor"),
    ("version", "--version"),
    ("whoAmI", "whoami"),
];

/// Returns whether the command line asks for JSON, though it cannot be understood as a whole.
pub(crate) fn is_json() -> bool {
    std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json")
}
