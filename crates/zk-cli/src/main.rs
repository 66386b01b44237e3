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
mod find;
mod holders;
mod import;
mod limit_args;
mod lock;
mod lock_args;
mod majority;
mod man;
mod nodes;
mod one_time_identity;
mod output;
mod own_entry;
mod participants;
mod plain;
mod progress;
mod register;
mod repeat;
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
mod tree;
mod txn;
mod usage_error;
mod verbose;
mod verbose_log;
mod watch;
mod watch_notes;

use std::io::{Write as _, stderr};
use std::panic;
use std::process::{self, ExitCode};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use serde_json::json;
use zk_recipes::session::Config;

use self::args::{Args, Command, InSession};
use self::connector::ServerConnector;
use self::doctor::Door;
use self::failure::{Failure, USAGE};
use self::output::{Output, data_json};
use self::plain::{Plain, Work};
use self::sessions::Sessions;
use self::verbose_log::VerboseLog;

fn main() -> ExitCode {
    end_on_panic();
    let args = match Args::try_parse() {
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
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let failure = Failure::other(format!("no runtime: {error}"));
            return ExitCode::from(output.report(&failure));
        }
    };
    let ended = runtime.block_on(run(args, output));
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

async fn run(args: Args, output: Output) -> Result<u8, Failure> {
    drop(tokio::spawn(child::reap_orphans()));
    let command = match args.command {
        Command::Server(server) => {
            let work: Work<'_, u8> = Box::pin(server::run(server, output));
            return work.await;
        }
        Command::Completions { shell } => {
            let script = completions(shell);
            output.print_data(&script, || json!({ "script": data_json(&script) }))?;
            return Ok(0);
        }
        Command::Man(man) => return man::run(&man, output).map(|()| 0),
        Command::Digest(wanted) => {
            security::refuse_empty_variables()?;
            return digest::run(&wanted, &args.security, output).map(|()| 0);
        }
        Command::Doctor => None,
        Command::InSession(command) => Some(command),
    };
    subtree::limit_trees(args.limits.tree_limit);
    security::refuse_empty_variables()?;
    let tls = args.security.tls(&args.connect)?;
    let credentials = args.security.credentials()?;
    let config = |connect: &str| {
        let config = Config::new(connect)?.session_timeout(args.session_timeout);
        let len = |bytes: u32| usize::try_from(bytes).unwrap_or(usize::MAX);
        let config = config.max_request_len(len(args.limits.max_request_len));
        let config = config.max_frame_len(len(args.limits.max_frame_len));
        let config = if args.read_only { config.allow_read_only() } else { config };
        let config = if args.create_chroot { config.create_chroot() } else { config };
        args.security.present(config, &credentials)
    };
    let Some(mut command) = command else {
        let risk_without_tls = args.security.risk_without_tls(&credentials);
        let session_timeout = args.session_timeout;
        let retry = args.retry;
        let door = Door { config: &config, tls, session_timeout, retry, risk_without_tls };
        let work: Work<'_, u8> = Box::pin(doctor::run(&door, &args.connect, output));
        return work.await;
    };
    let mut config = config(&args.connect)?;
    config = match command.client_name() {
        Some(name) => config.name(name),
        // A full pipe blocks this thread, and must not end the session.
        None => config.dedicated_thread(),
    };
    let presented = args.security.presented(&credentials);
    let advice = args.security.advice(&credentials);
    let has_identity = args.security.has_identity(&credentials);
    command.check_path()?;
    command.prepare()?;
    let sessions = Sessions::new(config, ServerConnector::new(tls)?, &args.connect);
    args.security.notes_about_files().iter().for_each(|note| output.note(note));
    let log = args.verbose.then(|| VerboseLog::new(output));
    let sessions = sessions.retry_for(args.retry).presenting(&presented, has_identity);
    let sessions = sessions.verbose(log.clone());
    let work: Work<'_, u8> = match command {
        InSession::Lock(lock) => Box::pin(lock::run(sessions, lock.into(), output)),
        InSession::Elect(elect) => Box::pin(lock::run(sessions, elect.into(), output)),
        InSession::Semaphore(permits) => Box::pin(lock::run(sessions, permits.try_into()?, output)),
        InSession::Multilock(locks) => Box::pin(lock::run(sessions, locks.try_into()?, output)),
        InSession::Register(register) => Box::pin(register::run(sessions, register, output)),
        InSession::Plain(Plain::Discover(ref args)) if args.watch => {
            Box::pin(discover::follow(sessions, args, output))
        }
        InSession::Watch(ref watch) => Box::pin(watch::run(sessions, watch, output)),
        InSession::Bench(ref bench) => Box::pin(bench::run(sessions, bench, output)),
        InSession::Top(ref top) => Box::pin(top::run(sessions, top, output)),
        InSession::Plain(ref command) => Box::pin(plain::run(sessions, command, output)),
    };
    let ended = work.await;
    if let Some(log) = log {
        log.flush();
    }
    ended.map_err(|failure| failure.with_presented(&presented, advice))
}

/// Returns the script with which a shell completes commands and options.
fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "zk", &mut script);
    script
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
