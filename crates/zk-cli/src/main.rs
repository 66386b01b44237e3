//! The `zk` command: locks and plain operations on ZooKeeper from a shell.

mod acl;
mod acquired_lock;
mod args;
mod at_once;
mod barrier;
mod bench;
mod child;
mod connector;
mod counter;
mod data;
mod descendants;
mod digest;
mod discover;
mod doctor;
mod ensemble;
mod export;
mod failure;
mod identity;
mod import;
mod in_session;
mod lock;
mod lock_args;
mod man;
mod node_arg;
mod nodes;
mod output;
mod participants;
mod prelude;
mod progress;
mod reach;
mod register;
mod security;
mod server;
mod sessions;
mod signals;
mod state_file;
mod subtree;
mod text;
mod time_arg;
mod top;
mod transfer;
mod txn;
mod usage_error;
mod verbose_log;
mod watch;
mod watch_notes;

use std::io::{Write as _, stderr};
use std::panic;
use std::process::{self, ExitCode};
use std::rc::Rc;

use clap::CommandFactory;
use clap::error::ErrorKind;
use serde_json::json;
use zk_recipes::session::validate_path;

use self::args::{Args, Command};
use self::connector::ServerConnector;
use self::failure::{Failure, Result, USAGE};
use self::in_session::{InSession, Work};
use self::output::{Output, data_json};
use self::reach::Reach;
use self::sessions::{Contact, Context, Sessions};
use self::verbose_log::VerboseLog;

fn main() -> ExitCode {
    end_on_panic();
    let mut args = match Args::of_command_line() {
        Ok(args) => args,
        Err(error) => {
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                    // An error of a closed terminal cannot be handled.
                    drop(error.print());
                    ExitCode::SUCCESS
                }
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
                    drop(error.print());
                    ExitCode::from(USAGE)
                }
                // For clap, a variable such as ZK_CONNECT is an argument.
                ErrorKind::MissingSubcommand if std::env::args_os().len() <= 1 => {
                    drop(write!(stderr(), "{}", Args::command().render_help()));
                    ExitCode::from(USAGE)
                }
                // Clap does not name the variable.
                kind => {
                    let empty = security::refuse_empty_variables();
                    let failure = match empty {
                        Err(failure) if kind == ErrorKind::InvalidValue => failure,
                        _ => Failure::usage(usage_error::one_line(&error)),
                    };
                    ExitCode::from(Output::new(usage_error::is_json()).report(&failure))
                }
            };
        }
    };
    let output = Output::new(args.json);
    if let Err(failure) = args.take_srv() {
        return ExitCode::from(output.report(&failure));
    }
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::other(format!("no runtime: {error}"));
            return ExitCode::from(output.report(&failure));
        }
    };
    let ended = runtime.block_on(run(&args, output));
    signals::end(ended.unwrap_or_else(|failure| output.report(&failure)))
}

/// Makes a panic in any thread or task end the program, and before that the command that runs under a lock.
///
/// With a profile that aborts on a panic no destructor would do that. With one that unwinds, a task that
/// panics would leave the rest of the program running, and the command without its lock.
fn end_on_panic() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        child::kill_running();
        top::restore_terminal();
        print(info);
        process::exit(failure::OTHER.into());
    }));
}

async fn run(args: &Args, output: Output) -> Result<u8> {
    drop(tokio::spawn(child::reap_orphans()));
    let work: Work<'_, u8> = match &args.command {
        Command::Server(server) => Box::pin(server::run(server, output)),
        Command::Doctor => Box::pin(doctor::run(args, output)),
        Command::InSession(command) => Box::pin(run_in_session(args, command, output)),
        Command::Digest(digest) => return digest::run(digest, &args.security, output),
        Command::Man(man) => return man::run(man, output),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "zk", &mut script);
            output.print_data(&script, || json!({ "script": data_json(&script) }))?;
            return Ok(0);
        }
    };
    work.await
}

async fn run_in_session(args: &Args, command: &InSession, output: Output) -> Result<u8> {
    subtree::TREE_MIB_MAX.get_or_init(|| args.tree_limit);
    let reach = Reach::of(args)?;
    let config = reach.config()?;
    args.paths.iter().try_for_each(|path| validate_path(path))?;
    let connector = ServerConnector::new(reach.tls)?;
    args.security.notes_about_files().iter().for_each(|note| output.note(note));
    let log = args.verbose.then(|| VerboseLog::new(output));
    let context = Rc::new(Context {
        servers: args.connect.clone(),
        identity: reach.identity,
        is_in_the_clear: connector.is_in_the_clear(&args.connect),
        output,
        log,
        contact: Contact::default(),
    });
    let config = config.connector(connector);
    let sessions = Sessions::new(config, args.retry, Rc::clone(&context));
    let ended = command.run(sessions).await;
    if let Some(log) = &context.log {
        log.flush();
    }
    ended.map_err(|failure| failure.with_presented(&context.identity))
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::ffi::OsString;
    use std::process::{Command, Stdio};

    use super::*;

    /// Tokio catches the panic of a task in a build that unwinds. The test runs itself again as the program
    /// that panics, because the program ends.
    #[test]
    fn panic_in_a_task_ends_the_command_and_the_program() {
        if env::var_os(PANICS).is_some() {
            return panic_beside_a_command();
        }
        // A command in another test collects the statuses of all children.
        let _turn = child::tests::ONE_COMMAND.blocking_lock();
        let mut program = Command::new(env::current_exe().unwrap());
        program.args(["--exact", "tests::panic_in_a_task_ends_the_command_and_the_program"]);
        // The command has its standard output, too: it is read until both have ended.
        let ended = program.arg("--nocapture").env(PANICS, "1").output().unwrap();
        assert_eq!(ended.status.code(), Some(i32::from(failure::OTHER)), "{ended:?}");
        assert!(!String::from_utf8_lossy(&ended.stdout).contains(SURVIVED), "{ended:?}");
    }

    fn panic_beside_a_command() {
        end_on_panic();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let script = format!("sleep 5; echo {SURVIVED}");
            let command: [OsString; 3] = ["sh".into(), "-c".into(), script.into()];
            let end = child::End::FirstProcess;
            let spawned = child::Child::spawn(&command, [("A", "")], Stdio::null(), end);
            let mut child = spawned.unwrap();
            drop(tokio::spawn(async { panic!("a bug in a task") }));
            child.wait().await.unwrap();
        });
    }

    const PANICS: &str = "ZK_TEST_PANICS";
    const SURVIVED: &str = "the command went on";
}
