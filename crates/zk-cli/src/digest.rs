//! `zk digest`: the identity of a user with a password, as access control lists name it.

use std::io::{self, BufRead, IsTerminal, Write, stderr, stdin};
use std::os::fd::AsFd;

use nix::sys::termios::{self, LocalFlags, SetArg};
use zk_recipes::session::{Acl, Perms};

use crate::data::all_of;
use crate::prelude::{ClapArgs, Failure, Output, Result, data_text, json};
use crate::security::{Security, refuse_empty_variables};

/// The `digest` command.
#[derive(Debug, ClapArgs)]
#[command(after_help = "\
Examples:
  printf sesame | zk digest alice
  ZK_AUTH=digest:alice:sesame zk digest
  zk create /mine --acl \"$(printf sesame | zk digest alice):cdrwa\"")]
pub(crate) struct Digest {
    /// The user. The password is read from standard input; a newline at its end does not count.
    ///
    /// USER:PASSWORD is accepted, too, but other users of the machine see the arguments of a command.
    /// Without a user, it is each digest credential of --auth, ZK_AUTH and --auth-file.
    #[arg(value_name = "USER")]
    user: Option<String>,
}

pub(crate) fn run(digest: &Digest, security: &Security, output: Output) -> Result<u8> {
    refuse_empty_variables()?;
    let users = match &digest.user {
        Some(user) => vec![user_and_password(user)?],
        None => presented(security)?,
    };
    for (user, password) in users {
        let id = Acl::digest(Perms::ALL, &user, &password).id;
        output.print([format!("digest:{id}")], || json!({ "scheme": "digest", "id": id }))?;
    }
    Ok(0)
}

/// Splits the argument, or reads the password from standard input.
fn user_and_password(text: &str) -> Result<(String, String)> {
    let (user, password) = match text.split_once(':') {
        Some(("digest", _)) => {
            return Err(Failure::usage("write the user without the scheme: zk digest USER"));
        }
        Some((user, password)) => (user, password.to_owned()),
        None if stdin().is_terminal() => (text, prompted(text)?),
        None => (text, piped()?),
    };
    if user.is_empty() || user.contains(char::is_control) {
        return Err(Failure::usage("write the user: zk digest USER"));
    }
    Ok((user.to_owned(), password))
}

/// Returns users and passwords of the options for credentials.
fn presented(security: &Security) -> Result<Vec<(String, String)>> {
    let credentials = security.credentials()?;
    let digests = credentials.iter().filter_map(|credential| credential.digest());
    let users: Vec<_> =
        digests.map(|(user, password)| (user.to_owned(), password.to_owned())).collect();
    if users.is_empty() {
        return Err(Failure::usage(
            "write the user, or give a digest credential: --auth, --auth-file",
        ));
    }
    Ok(users)
}

/// Reads the password from a pipe or a file.
fn piped() -> Result<String> {
    let read = all_of(stdin().lock(), "standard input")?;
    let not_text = |_| Failure::other("standard input: not UTF-8");
    let text = String::from_utf8(read).map_err(not_text)?;
    // The command before the pipe may have failed.
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(Failure::other("standard input has no password")),
        password => Ok(password.to_owned()),
    }
}

/// Asks for the password on the terminal, which does not show it.
fn prompted(user: &str) -> Result<String> {
    let failed = |error: io::Error| Failure::other(format!("the terminal: {error}"));
    let shown = termios::tcgetattr(stdin().as_fd()).map_err(|error| failed(error.into()))?;
    let mut hidden = shown.clone();
    hidden.local_flags.remove(LocalFlags::ECHO);
    let set = |to| termios::tcsetattr(stdin().as_fd(), SetArg::TCSANOW, to);
    drop(write!(stderr(), "password of {}: ", data_text(user.as_bytes())));
    set(&hidden).map_err(|error| failed(error.into()))?;
    let mut line = String::new();
    let read = stdin().lock().read_line(&mut line);
    set(&shown).map_err(|error| failed(error.into()))?;
    drop(writeln!(stderr()));
    read.map_err(failed)?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}
